"""A model, and the run, saved model or release that holds it: written, read back and checked.

    write_run(folder, trained, page)
    run = Run(folder)
    run.statement, run.scores, run.model()
    verify(folder)
    write_release(run, elsewhere, pages)

As files a model is tensors in safetensors, a record in JSON with every number that a prediction
computes with, settings in TOML and a statement, which binds the other three by one hash.
Reading and checking imports no PyTorch. A release has the model, its statement and pages; no
ids, owners, counts, scores, paths or times: what differs between neighbouring datasets is what
was released with noise.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from scipy.special import softmax

from privgcn import progress
from privgcn.auto.train import blocks
from privgcn.config import DataSettings, Mode, Settings, parse_settings, to_toml
from privgcn.errors import (
    ConfigError,
    DataError,
    PrivacyContractError,
    PrivGCNError,
    reason,
    refusal,
    shown,
)
from privgcn.files import read_bounded, writing
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verify import DIGEST_KEY, check_claim
from privgcn.released import Kind, Released
from privgcn.runs.folder import (
    MODEL,
    REPORT,
    SCORES,
    SEEN,
    SETTINGS,
    STATEMENT,
    WEIGHTS,
    WRITERS,
    check_target,
    is_stored,
    json_object,
    read_folder,
    write_folder,
)
from privgcn.storage import room, unmap

if TYPE_CHECKING:
    from torch import nn

    from privgcn.data import Corpus
    from privgcn.features import Featurizer
    from privgcn.graph import DocumentGraph
    from privgcn.runs.train import TrainedRun

Page = Callable[[Settings, PrivacyStatement | None, dict[str, Any]], str]
_MOST_STATEMENT, _MOST_CLASSES = 1 << 24, 100_000
#: What a claim that holds was compared with, where a folder has all of it.
CHECKED: tuple[str, ...] = ("statement", "settings", "record", "model", "manifest")


@dataclass(frozen=True, eq=False)
class Model:
    """What was trained, with everything that a user of it needs.

    ``feature_names`` are those of the columns of vectors; ``module`` is the user's own.
    """

    released: Released
    featurizer: Featurizer
    classes: NDArray[Any]
    statement: PrivacyStatement | None = None
    feature_names: tuple[str, ...] | None = None
    module: nn.Module | None = None

    @property
    def settings(self) -> Settings:
        """All settings of the run."""
        return self.released.settings

    def graph(self, corpus: Corpus) -> DocumentGraph:
        """Documents as this model reads them; labels that it does not know are none."""
        from privgcn.runs.prepare import graph_of

        graph, classes = graph_of(corpus, self.featurizer, self.settings), len(self.classes)
        labels = np.where(graph.labels < classes, graph.labels, -1)
        return replace(graph, labels=labels, classes=classes)

    def scores(self, graph: DocumentGraph, rows: NDArray[np.int64], mode: Mode) -> NDArray[Any]:
        """Scores ``[rows, classes]`` of some documents of a graph."""
        from privgcn.inference import scores_in_mode

        return scores_in_mode(self.released, graph, rows, mode, module=self.module)

    def probabilities(self, corpus: Corpus, mode: Mode) -> NDArray[np.float64]:
        """Class probabilities of each document; ``full-graph`` needs a view of a corpus."""
        rows = np.arange(len(corpus))
        if mode == "full-graph":
            if corpus.parent is None or corpus.rows is None:
                raise ConfigError(
                    "Inference 'full-graph' needs the documents around those to predict. Make "
                    "one Corpus of all of them (Corpus.from_frame, with a column 'split'), fit "
                    "corpus.train and predict corpus.test; or use 'own-graph'."
                )
            rows, corpus = corpus.rows, corpus.parent
        return likelihoods(self.scores(self.graph(corpus), rows, mode))

    @property
    def record(self) -> dict[str, Any]:
        """The content of ``model.json``: everything but tensors and settings."""
        matching, names = self.released.matching, self.feature_names
        try:
            return _Record(
                format=9,
                kind=self.released.kind,
                title=self.released.title,
                classes=self.classes.tolist(),
                features=self.featurizer.state(),
                feature_names=None if names is None else list(names),
                matching=None if matching is None else dict(matching),
            ).model_dump()
        except ValidationError:
            raise ConfigError(
                f"The class labels of a saved model must be {_MOST_CLASSES} or fewer texts, "
                f"finite numbers or booleans. Got {self.classes.dtype}."
            ) from None


def likelihoods(scores: NDArray[Any]) -> NDArray[np.float64]:
    """Class probabilities of scores."""
    likely = room(scores.shape, np.float64)
    for own in blocks(len(likely)):
        likely[own] = softmax(scores[own].astype(np.float64), axis=1)
        unmap(likely)
    return likely


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    format: Literal[9]
    kind: Kind
    title: str | None
    classes: Annotated[
        list[bool] | list[int] | list[float] | list[str],
        Field(min_length=2, max_length=_MOST_CLASSES),
    ]
    features: dict[str, Any]
    feature_names: list[str] | None
    matching: dict[str, Any] | None


def bound_settings(settings: Settings, options: Mapping[str, Any] | None = None) -> Settings:
    """The settings without where documents, vectors and caches lie on this machine.

    The record has those options of the features that decide anything, as their state.
    """
    features = settings.features.model_copy(update={"options": dict(options or {})})
    return settings.model_copy(update={"data": DataSettings(), "features": features})


def model_files(model: Model) -> dict[str, str | bytes]:
    """The files of a model."""
    statement = model.statement
    files: dict[str, str | bytes] = {
        SETTINGS: to_toml(model.settings.model_dump()),
        MODEL: json.dumps(model.record, indent=1) + "\n",
    }
    # One key at most: safetensors writes several in no fixed order.
    metadata = None if statement is None else {DIGEST_KEY: statement.digest}
    files[WEIGHTS] = model.released.serialised(metadata)
    if statement is not None:
        files[STATEMENT] = statement.to_json()
    return files


@dataclass(frozen=True)
class Run:
    """What a folder holds; nothing of it is handed out before the manifest was checked."""

    folder: Path

    @cached_property
    def _stored(self) -> tuple[str, Mapping[str, bytes]]:
        return read_folder(self.folder)

    @property
    def kind(self) -> str:
        """``run``, ``model`` as ``save`` writes it, or ``release``."""
        return self._stored[0]

    @property
    def files(self) -> Mapping[str, bytes]:
        """What each file holds."""
        return self._stored[1]

    def content(self, name: str) -> bytes:
        """What a file holds that must be there."""
        if name not in self.files:
            raise DataError(f"There is no {name} in the {self.kind} {self.folder}. {WRITERS}")
        return self.files[name]

    def record(self, name: str) -> dict[str, Any]:
        """A file as the JSON object that it must hold."""
        return json_object(self.content(name), self.folder / name)

    @cached_property
    def settings(self) -> Settings:
        """What the run was asked to do."""
        path = self.folder / SETTINGS
        try:
            return parse_settings(tomllib.loads(self.content(SETTINGS).decode("utf-8")))
        except ConfigError as error:
            raise DataError(f"The file {path} holds no settings of a run. {error}") from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"The file {path} is not valid TOML: {reason(error)}.") from None

    @cached_property
    def statement(self) -> PrivacyStatement | None:
        """What may be claimed, computed again; ``None`` for a run without privacy."""
        if STATEMENT not in self.files:
            if self.settings.privacy is not None:
                raise DataError(
                    f"The {self.kind} {self.folder} was trained with privacy but has no "
                    f"{STATEMENT}. Copy the whole folder, or train again."
                )
            return None
        statement = PrivacyStatement.from_json(self.content(STATEMENT).decode(errors="replace"))
        check_claim(
            statement,
            settings=bound_settings(self.settings),
            weights=self.content(WEIGHTS),
            record=self.record(MODEL),
            where=self.folder,
        )
        return statement

    @property
    def scores(self) -> dict[str, Any]:
        """Scores by inference mode, beside the baselines."""
        return self.record(SCORES)

    def model(self, *, module: nn.Module | None = None, path: Path | None = None) -> Model:
        """The model; its claim is checked first.

        Files hold no code, so that a user's own ``module`` has to be brought, and no path that
        they name is followed: ``path`` says where an encoder lies that is not installed.
        """
        from safetensors import SafetensorError
        from safetensors.numpy import load

        from privgcn.auto.recipe import MatchingConstants
        from privgcn.features import featurizer_from_state

        settings, statement = self.settings, self.statement
        try:
            record = _Record.model_validate(self.record(MODEL))
            classes = np.array(record.classes)
            featurizer = featurizer_from_state(record.features, path=path)
            released = Released(
                kind=record.kind,
                tensors=load(self.content(WEIGHTS)),
                settings=settings,
                plan=None if statement is None else statement.plan,
                releasable=statement is not None and statement.releasable,
                matching=record.matching,
                title=record.title,
            )
            _check_tensors(released, featurizer.dimension, len(classes))
            if record.matching is not None:
                MatchingConstants.of(released)
        except (PrivGCNError, SafetensorError, ValueError, LookupError, TypeError) as error:
            if isinstance(error, ValidationError):
                error = refusal(error, f"the {MODEL}")
            why = str(error).rstrip(".")
            raise DataError(
                f"The model in {self.folder} cannot be read: {why}. Train or copy it again."
            ) from None
        if module is not None and record.title is None:
            raise ConfigError("The model is no module of a user's own. Load it without one.")
        names = None if record.feature_names is None else tuple(record.feature_names)
        return Model(released, featurizer, classes, statement, names, module)

    def is_own_source(self, source: str) -> bool:
        """Whether the run was trained on the documents at ``source``."""
        from privgcn.data import resolved_source

        own = self.settings.data.source
        return own is not None and resolved_source(own) == resolved_source(source)

    def corpus(
        self,
        source: str | None = None,
        reading: Mapping[str, Any] | None = None,
        *,
        labelled: bool = True,
    ) -> Corpus:
        """Documents, by default those that the run was made from.

        ``reading`` has options of ``load_corpus``, where the run has others. Labels of
        ``labelled`` documents must be among the model's classes.
        """
        from privgcn.data import load_corpus
        from privgcn.data.catalogue import dataset_names

        data = self.settings.data
        source = source or data.source
        if source is None:
            raise DataError(f"The {self.kind} {self.folder} names no documents. Name some.")
        known = data.reading if self.is_own_source(source) else data.reading_new
        read = {**known, **(reading or {})}
        if labelled and source not in dataset_names():  # which have classes of their own
            read["classes"] = list(map(str, self.record(MODEL)["classes"]))
        return load_corpus(source, seed=self.settings.seed, **read)

    def roles(self, corpus: Corpus, *, own: bool) -> NDArray[np.int8]:
        """What each document was to the run, as a split; only a run folder knows it."""
        from privgcn.data import OUTSIDE
        from privgcn.runs.documents_seen import DocumentsSeen

        if self.kind != "run":
            return np.full(len(corpus), OUTSIDE, np.int8)
        return DocumentsSeen.read(self.content(SEEN), self.folder).roles(corpus, own=own)


def _check_tensors(released: Released, width: int, classes: int) -> None:
    settings, tensors, kind = released.settings, released.tensors, released.kind
    if kind != settings.model.kind:
        raise DataError(f"it is a '{kind}', and its settings say '{settings.model.kind}'")
    found = {n: t.shape if t.dtype == np.float32 else str(t.dtype) for n, t in tensors.items()}
    expected: dict[str, Any] = {"layers.0.weight": (width, classes)}
    if settings.training.large_steps:
        steps = 0 if released.plan is None else released.plan.steps
        priors = "class_bias" in tensors  # the first release is the statistics, where asked for
        optional = {
            "mean": (width,),
            "class_bias": (classes,),
            "label_direction": (width, classes),
        }
        expected = {
            "weight": (width, classes),
            "iterates": (steps + 1 - priors, width, classes),
            **{name: shape for name, shape in optional.items() if name in tensors},
        }
    elif kind == "module":
        expected = found  # a module itself knows its tensors
    elif kind != "linear":
        sizes = (width, settings.model.hidden, classes)
        expected = {f"layers.{n}.weight": sizes[n : n + 2] for n in (0, 1)}
        expected |= {f"layers.{n}.bias": sizes[n + 1 : n + 2] for n in (0, 1)}
    if found != expected:
        raise DataError(f"its tensors must be {expected}, got {shown(found)}")
    if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
        raise DataError("its tensors must be finite")


def runs_beside(folder: Path, settings: Settings) -> tuple[Path, ...]:
    """Other private runs of the same documents, in the folder that holds this one.

    Assumes:
        Runs are where ``train`` put them: of one that was moved the owner has to say so.
    """
    own, source, others = folder.resolve(), settings.data.source, []
    if source is None or settings.privacy is None:
        return ()
    weights = Run(own).content(WEIGHTS) if is_stored(own) else None
    for path in sorted(own.parent.glob(f"*/{STATEMENT}")):
        with suppress(PrivGCNError, OSError):
            other = Run(path.parent)
            copy = other.content(WEIGHTS) == weights  # of this run, which it is itself, too
            if other.kind == "run" and other.is_own_source(source) and not copy:
                others.append(other.folder)
    return tuple(others)


def verify(path: Path) -> tuple[PrivacyStatement, tuple[str, ...]]:
    """The statement of a run, a release or a file, checked, and what it was compared with."""
    folder = path if path.is_dir() or path.name != STATEMENT else path.parent
    if path.is_dir() or is_stored(folder):
        statement, checked = Run(folder).statement, CHECKED
        if statement is None:
            raise DataError(
                f"The run {folder} is as it was written, but it was trained without privacy "
                "and has no statement to verify."
            )
    else:
        content = read_bounded(path, most=_MOST_STATEMENT)
        statement = PrivacyStatement.from_json(content.decode(errors="replace"))
        statement.verify()
        checked = CHECKED[:1]
    if statement.void:
        raise PrivacyContractError(
            f"The claim of {path} must hold. It is void by the fact "
            f"'{statement.void[0].code}', which its statement names. Train again, "
            "once, or use 'privgcn tune'."
        )
    return statement, checked


def write_run(
    folder: Path, run: TrainedRun, page: Page, *, overwrite: bool = False, seeds: int = 1
) -> dict[str, Any]:
    """Scores a model and writes its run folder; returns what ``--json`` prints.

    But for the time: that of a search would tell its runs.
    """
    from privgcn.runs.documents_seen import DocumentsSeen
    from privgcn.runs.train import repeated_scores, score_table

    settings, statement = run.model.settings, run.model.statement
    scores = score_table(run)
    if seeds > 1:
        scores["repeats"] = repeated_scores(run, seeds)
    progress.begin("report")
    files = {
        **model_files(run.model),
        SCORES: json.dumps(scores, indent=1) + "\n",
        SEEN: DocumentsSeen.of(run.corpus).content(),
        REPORT: page(settings, statement, scores),
    }
    write_folder(folder, "run", files, overwrite=overwrite)
    claim = None if statement is None else json.loads(statement.to_json())
    record = {"run": str(folder), "settings": settings.model_dump(), "statement": claim}
    return {**record, "scores": scores.pop("modes"), **scores}


def releasable_statement(
    run: Run, *, learned_features: bool, not_chosen: bool = False
) -> PrivacyStatement:
    """The checked statement of a run that may be released.

    It is the owner's word that ``learned_features``, read off protected text, may go out, and
    that a model that is one of several was ``not_chosen`` among them.
    """
    from privgcn.privacy.ledger import check_releasable

    statement = run.statement
    if statement is None:
        raise PrivacyContractError(
            f"The run in {run.folder} was trained without privacy; there is nothing to "
            "release. Train with --epsilon."
        )
    check_releasable(statement, not_chosen=not_chosen)
    others = () if not_chosen else runs_beside(run.folder, run.settings)
    if others:
        raise PrivacyContractError(
            "The model of a release must not be chosen among several by scores or documents. "
            f"Got one of {len(others) + 1} private runs of the same documents in "
            f"{run.folder.resolve().parent}, such as {others[0].name}. To choose, use 'privgcn "
            "tune'; if this one was not chosen, say so: --not-chosen."
        )
    featurizer = run.model().featurizer
    if featurizer.learns and not learned_features:
        raise PrivacyContractError(
            f"The features of the run in {run.folder} are not covered by the guarantee: "
            f"{featurizer.learned}. Train with features that learn nothing, or accept it with "
            "--with-learned-features."
        )
    return statement


def public_settings(run: Run) -> Settings:
    """The settings without where documents, vectors and caches lie on this machine."""
    from privgcn.features.choose import without_paths

    kind = run.model().featurizer.kind
    return bound_settings(run.settings, without_paths(kind, run.settings.features.options))


def check_release_target(run: Run, folder: Path, *, overwrite: bool) -> None:
    """Refuses to write a release over a run, or where it must not or cannot be."""
    with writing(folder):
        own, target = run.folder.resolve(), folder.resolve()
    if target.is_relative_to(own) or own.is_relative_to(target):
        raise ConfigError(
            f"The release of {run.folder} must lie apart from the run. Got {folder}. Name "
            "another folder."
        )
    if is_stored(folder) and Run(folder).kind == "run":
        raise ConfigError(
            f"A release must have a folder of its own. Got the run {folder}. Release one run "
            f"at a time: privgcn release {run.folder} DIR."
        )
    check_target(folder, overwrite=overwrite)


def write_release(
    run: Run, folder: Path, pages: Mapping[str, str], *, overwrite: bool = False
) -> None:
    """Writes model, statement and pages; the statement is the run's, word for word."""
    check_release_target(run, folder, overwrite=overwrite)
    files: dict[str, str | bytes] = {
        **{name: run.content(name) for name in (MODEL, WEIGHTS, STATEMENT)},
        SETTINGS: to_toml(public_settings(run).model_dump()),
        **pages,
    }
    write_folder(folder, "release", files, overwrite=overwrite)
