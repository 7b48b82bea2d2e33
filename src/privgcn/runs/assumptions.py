"""What a run assumes to be public and what its guarantee does not cover.

Only what this run adds: what is true of every run of a plan is in ``privgcn.privacy.claim``.
"""

from __future__ import annotations

from privgcn.data import Corpus
from privgcn.errors import PrivacyContractError
from privgcn.features import Featurizer
from privgcn.models import ModuleModel
from privgcn.privacy.claim import Fact
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verification import weights_sha256
from privgcn.training.fitted import Fit


def statement_of(
    fitted: Fit, corpus: Corpus, featurizer: Featurizer
) -> PrivacyStatement | None:
    """The statement of one trained replica; ``None`` where it was trained without privacy."""
    if fitted.plan is None:
        return None
    replicas = fitted.parameters[0].shape[-2]
    if replicas != 1:
        raise PrivacyContractError(
            f"A statement is about one released model. Got {replicas} replicas, which cost "
            f"{replicas} releases together. Take one with Fit.replica."
        )
    return PrivacyStatement.of(
        fitted.plan,
        releasable=fitted.releasable,
        assumed_public=[*assumed_public(corpus, featurizer), *_of_module(fitted)],
        not_covered=not_covered(corpus, featurizer),
        model_sha256=weights_sha256(fitted.serialised()),
    )


def check_owners(corpus: Corpus, unit: str | None) -> None:
    """Refuses to protect persons who are not known or are on both sides of the split.

    Raises:
        PrivacyContractError: Documents have no owners, or some owner has training documents
            and documents to predict.
    """
    if unit == "person" and corpus.owners is None:
        raise PrivacyContractError(
            "Unit 'person' needs to know whose each document is, and this corpus has no "
            "owners. Add a column 'owner', or protect unit 'document'."
        )
    whole = corpus.whole or corpus
    if unit == "person" and whole.owners_cross_splits:
        raise PrivacyContractError(
            "Unit 'person' needs a split by owner. Here some owner has documents both inside "
            "and outside the training split. Leave out the 'split' column to have the split "
            "drawn by owner, or protect unit 'document'."
        )


def assumed_public(corpus: Corpus, featurizer: Featurizer) -> list[Fact]:
    """Facts that anybody may know, in every neighbouring dataset alike."""
    facts = [Fact("features", count=featurizer.dimension, kind=featurizer.kind)]
    if corpus.facts.classes_declared:
        facts.append(Fact("classes_declared", count=corpus.num_classes))
    if corpus.facts.public_vectors is not None and featurizer.kind == "given":
        facts.append(Fact("vectors_made", detail=corpus.facts.public_vectors))
    return facts


def _of_module(fitted: Fit) -> list[Fact]:
    """What whoever brings a module promises."""
    if not isinstance(fitted.model, ModuleModel):
        return []
    return [
        Fact(
            "other",
            detail=f"The user's own module '{fitted.model.title}': its code, its first weights "
            "and its buffers. That its scores for a part, and their gradients, depend on that "
            "part alone is the promise of whoever wrote it.",
        )
    ]


def not_covered(corpus: Corpus, featurizer: Featurizer) -> list[Fact]:
    """What the guarantee says nothing about."""
    gaps: list[Fact] = []
    if not corpus.facts.classes_declared:
        gaps.append(Fact("classes_from_labels", count=corpus.num_classes))
    if corpus.facts.split_origin == "stratified":
        gaps.append(Fact("split_by_label"))
    if featurizer.learned is not None:
        gaps.append(Fact("learned_features", detail=featurizer.learned))
    return gaps + [Fact("other", detail=gap) for gap in corpus.facts.not_covered]
