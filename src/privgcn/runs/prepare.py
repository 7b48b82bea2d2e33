"""What is decided before any text is encoded: once for each run, and by public facts alone.

What cannot be promised is refused here. Everything later takes these decisions as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from privgcn import progress
from privgcn.auto.budget import Budget
from privgcn.config import Settings
from privgcn.data import TRAIN, Corpus
from privgcn.data.catalogue import usual_encodings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.features import Featurizer, make_featurizer
from privgcn.features.choose import tokens_a_second
from privgcn.files import array_on_disk
from privgcn.graph import DocumentGraph, Features, in_blocks, scaled_rows
from privgcn.privacy.plan import PrivacyPlan, plan_for
from privgcn.privacy.statement import Fact
from privgcn.storage import mapping

if TYPE_CHECKING:
    from torch import nn

    from privgcn.mechanism import Ranks

# Different words of a document, about.
_WORDS = 64


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """A corpus and everything that was decided about its training.

    The featurizer is fitted on the training documents; no text is encoded yet. A run without
    privacy has no plan. ``advice`` is what to change where public numbers say that the budget
    is too small; ``public`` and ``gaps`` are what a statement has to say beside what the corpus
    tells: what is assumed public, and what is not covered.
    """

    settings: Settings
    corpus: Corpus
    plan: PrivacyPlan | None
    featurizer: Featurizer
    classes: NDArray[Any]
    advice: tuple[str, ...]
    module: nn.Module | None = None
    ranks: Ranks | None = None
    feature_names: tuple[str, ...] | None = None
    public: tuple[Fact, ...] = ()
    gaps: tuple[Fact, ...] = ()


def prepare(
    corpus: Corpus,
    settings: Settings,
    *,
    module: nn.Module | None = None,
    ranks: Ranks | None = None,
    featurizer: Featurizer | None = None,
) -> PreparedRun:
    """Decides about a run, or refuses it; of several ranks, every one calls this."""
    corpus.check_trainable()
    privacy, plan = settings.privacy, None
    if ranks is not None and privacy is None:
        raise ConfigError(
            "Training without privacy runs in one process. Leave out torchrun, or add "
            "--epsilon 1."
        )
    if privacy is not None and settings.training.patience > 0:
        raise PrivacyContractError(
            "A private run must not stop early: the validation loss would be one more query. "
            f"Got patience {settings.training.patience}. Set training.patience to 0."
        )
    if settings.training.device == "cuda":
        from privgcn.sgd.train import training_device

        training_device(settings.training)
    if privacy is not None:
        check_owners(corpus, privacy.unit)
        plan = plan_for(
            privacy,
            units_in(corpus, TRAIN, privacy.unit),
            epochs=settings.training.epochs,
            seed=settings.seed,
            columns=corpus.train.columns,
        )
    if featurizer is None:
        progress.begin("features")
        featurizer = make_features(corpus, settings, ranks)
    advice = _advice(settings, plan, corpus.num_classes, featurizer)
    classes = np.asarray(corpus.classes)
    return PreparedRun(settings, corpus, plan, featurizer, classes, advice, module, ranks)


def make_features(corpus: Corpus, settings: Settings, ranks: Ranks | None = None) -> Featurizer:
    """The featurizer that the settings name, fitted on the training documents.

    A known dataset may have a kind of its own. The speed of the first rank decides for all.
    """
    features, train, speed = settings.features, corpus.train, None
    encodings = usual_encodings(corpus.facts.source)
    kind = features.kind or next(iter(encodings), None)
    if ranks is not None and kind is None:
        speed = float(ranks.share(np.array([tokens_a_second()]))[0])
    return make_featurizer(
        kind,
        {**encodings.get(str(kind), {}), **features.options},
        train,
        language=features.language,
        documents=public_size(corpus, settings),
        speed=speed,
    ).fit(train)


def public_size(corpus: Corpus, settings: Settings) -> int:
    """How many documents there are, or owners where unit ``person`` makes that private."""
    if settings.privacy is not None and settings.privacy.unit == "person":
        return len(corpus.owner_names or ())
    return len(corpus)


def units_in(corpus: Corpus, split: int, unit: str) -> int:
    """How many documents a split has, or how many owners where the unit is a person."""
    rows = corpus.split == split
    if unit == "person" and corpus.owners is not None:
        return len(np.unique(corpus.owners[rows]))
    return int(rows.sum())


def check_owners(corpus: Corpus, unit: str) -> None:
    """Refuses to protect persons who are not known or are on both sides of the split.

    Owners are looked for in the parent corpus too: to train on a view hides nothing.
    """
    if unit == "person" and corpus.owners is None:
        raise PrivacyContractError(
            "Unit 'person' needs to know whose each document is, and this corpus has no "
            "owners. Add a column 'owner', or protect unit 'document'."
        )
    if unit == "person" and corpus.owners_cross_splits:
        raise PrivacyContractError(
            "Unit 'person' needs a split by owner. Here some owner has documents both inside "
            "and outside the training split. Leave out the 'split' column to have the split "
            "drawn by owner, or protect unit 'document'."
        )


def unit_remark(corpus: Corpus, settings: Settings) -> str:
    """What unit ``document`` leaves unprotected, in words; nothing where it leaves nothing."""
    by_itself = settings.privacy is not None and settings.privacy.unit == "document"
    if by_itself and corpus.owners is not None:
        return (
            "Each document is protected by itself. Documents have owners: --unit person "
            "protects all documents of a person together."
        )
    if not (by_itself and corpus.columns):
        return ""
    return (
        "No column is named 'owner', so no person is protected as a whole. If one of "
        f"{', '.join(map(repr, corpus.columns))} says whose a document is, add --owner with "
        "its name and --unit person (in Python, rename it and use unit='person')."
    )


def features_remark(prepared: PreparedRun) -> str:
    """Which features were chosen, why, and where their vectors stay."""
    from privgcn.features import NAMED, cache, choose

    corpus, made, features = prepared.corpus, prepared.featurizer, prepared.settings.features
    usual = made.kind == "given" or usual_encodings(corpus.facts.source)
    said = f"Features: {made.kind}, {made.dimension:,} numbers for each document."
    if features.kind in (None, *NAMED) and not (usual or features.options):
        size = public_size(corpus, prepared.settings)
        said = str(choose(size, language=features.language, wanted=features.kind))
    if cache.enabled.get() and "cache_dir" in type(made).model_fields:
        folder = features.options.get("cache_dir") or cache.default_cache()
        said += (
            f"\nVectors of the texts stay in {folder}, so that none is encoded twice: "
            "--no-cache keeps none, 'privgcn cache --purge' deletes them."
        )
    return said


def graph_of(
    corpus: Corpus,
    featurizer: Featurizer,
    settings: Settings,
    encoded: NDArray[np.int64] | None = None,
) -> DocumentGraph:
    """The documents of a corpus as a graph with feature rows scaled as the settings say.

    Dense rows that would take more than ``training.memory`` lie in a nameless file: a public
    number decides that. Of documents that are not among ``encoded``, if given, rows are zero.
    """
    chosen = corpus if encoded is None else corpus.select(encoded)
    rows, norm = featurizer.transform(chosen), settings.features.normalise
    # One person may have many documents, and how many is private.
    size = public_size(corpus, settings) * (8 * _WORDS if issparse(rows) else 4 * rows.shape[1])
    features: Features = in_blocks(
        rows,
        lambda block: scaled_rows(block if issparse(block) else np.asarray(block), norm),
        on_disk=size > settings.training.memory * 2**30,
    )
    if encoded is not None:
        blank = np.zeros if mapping(features) is None else array_on_disk
        shared = blank((len(corpus), featurizer.dimension), np.float32)
        shared[encoded] = features
        features = shared
    labels, split, owners = corpus.labels, corpus.split, corpus.owners
    return DocumentGraph(features, corpus.edges, labels, corpus.num_classes, split, owners)


def _advice(
    settings: Settings, plan: PrivacyPlan | None, classes: int, featurizer: Featurizer
) -> tuple[str, ...]:
    # Nothing where nothing was measured like it.
    privacy = settings.privacy
    if privacy is None or plan is None or privacy.epsilon is None or settings.recipe != "auto":
        return ()
    single = privacy.unit in ("document", "person") and privacy.parts == "each"
    if not single or (featurizer.learns and featurizer.kind != "given"):
        return ()
    return Budget(plan, classes, featurizer.dimension, featurizer.kind).advice
