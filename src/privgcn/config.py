"""Settings of a run: typed, checked, written to ``settings.toml`` and read back.

A recipe (``privgcn.training.recipes``) fills them; a settings file and ``--set a.b=c``
change single values. Nothing here imports a room.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from privgcn.errors import ConfigError, DataError, brief, reason, shown
from privgcn.files import read_bounded

_MOST_BYTES = 1 << 20


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)


class DataSettings(_Section):
    """Which documents: part of a run's own folder, left out of what is released.

    Attributes:
        source: A dataset's name or a folder.
        classes: The class set, where the user declared it; else it is read off the labels.
    """

    source: str | None = None
    classes: list[str] | None = None


class FeatureSettings(_Section):
    """How text becomes numbers.

    Attributes:
        kind: A registered feature kind; ``None`` takes given vectors, else an encoder that
            ``privgcn.features.default`` chooses.
        language: Of the texts, as declared: part of what ``None`` means.
        normalise: Per-document scaling of the feature rows.
        options: Options of the feature kind.
    """

    kind: str | None = None
    language: str = Field("english", min_length=1)
    normalise: Literal["none", "l1", "l2"] = "none"
    options: dict[str, Any] = Field(default_factory=dict)


class ModelSettings(_Section):
    """Which model scores the documents.

    Attributes:
        kind: ``module`` is one that the user brings.
        hidden: Width of the hidden layer of ``gcn`` and ``mlp``.
        hops: Links along which features travel in training, within a part.
        dropout: Share of hidden values that a training step leaves out.
    """

    kind: Literal["gcn", "linear", "mlp", "module"] = "gcn"
    hidden: int = Field(32, ge=1, le=1_000_000)
    hops: int = Field(2, ge=0, le=1000)
    dropout: float = Field(0.5, ge=0, lt=1)


class TrainingSettings(_Section):
    """How parameters are found.

    Attributes:
        optimizer: ``sgd`` or ``adam``.
        learning_rate: Step size of usual descent; ``None`` where ``reach`` sets it.
        reach: How far the noise of all steps together may carry a score. It chooses the
            large steps of recipe ``auto``, for private linear models only: along residuals
            no longer than the clip norm, as far as public numbers allow
            (``privgcn.training.planning``).
            On dense features the first release is their mean, which is then taken off every
            row, and the share of each class, from which training begins. The iterates are
            kept, as part of what is released, and the last two are averaged.
        balanced: Whether rare classes count as much as frequent ones: for macro F1, at a cost
            in micro F1. Needs ``reach``, whose first release then holds the class shares on
            sparse features too.
        epochs: Passes over the training documents, at most.
        patience: Epochs without a better validation loss before training stops; 0 trains
            to the end. Private runs never stop early.
        parts: Parts of a non-private run; each is one step of an epoch.
        memory: GiB that feature rows may take in memory, counted from public numbers. Those
            of larger corpora stay on disk: no bit of a private model depends on it.
        device: Where training runs; ``auto`` takes what is faster at the run's size. Noise of
            a releasable run is always drawn by the cipher, on the CPU.
    """

    optimizer: Literal["sgd", "adam"] = "adam"
    learning_rate: float | None = Field(None, gt=0)
    reach: float | None = Field(None, gt=0)
    balanced: bool = False
    epochs: int = Field(500, ge=1)
    patience: int = Field(20, ge=0)
    parts: int | Literal["each"] = 1
    memory: float = Field(0.25, ge=0)
    device: Literal["auto", "cpu", "cuda"] = "cpu"

    @property
    def large_steps(self) -> bool:
        """Whether ``reach`` chooses them."""
        return self.reach is not None


class PrivacySettings(_Section):
    """What is protected, and how strongly.

    Attributes:
        epsilon: The target; ``None`` where ``noise_multiplier`` is given instead.
        delta: The chance that the guarantee fails; well below one over the number of units.
        unit: What is protected; a ``person`` with all their documents.
        relation: Neighbouring datasets lack one unit, or have other data in its place.
        parts: A number, ``each``, or ``column:NAME`` for a column declared public.
        sampling: Which parts a step sees: all, a Poisson sample, or one after the other.
        sampling_probability: Of ``poisson``; default one over the number of parts.
        clip_norm: The length to which the vector of each part is clipped.
        noise_multiplier: Standard deviation of the noise over the clip norm; computed from
            ``epsilon`` otherwise.
        accountant: Default ``pld``; a search is always accounted by ``rdp``.
        reproducible: Seeds noise and samples too; such a run must not be released.
    """

    epsilon: float | None = Field(None, gt=0)
    delta: float = Field(1e-5, gt=0, lt=1)
    unit: Literal["document", "person", "part", "graph"] = "document"
    relation: Literal["remove", "replace"] = "remove"
    parts: int | str = Field("each", union_mode="left_to_right")
    sampling: Literal["all", "poisson", "epoch"] = "all"
    sampling_probability: float | None = Field(None, gt=0, le=1)
    clip_norm: float = Field(1.0, gt=0)
    noise_multiplier: float | None = Field(None, gt=0)
    accountant: Literal["pld", "rdp", "moments"] | None = None
    reproducible: bool = False


class PredictionSettings(_Section):
    """What happens at prediction time.

    Attributes:
        method: ``direct`` scores with the model as trained; ``matched`` fits it anew to
            the documents in sight (see ``docs/concepts/recipe.md``).
        hops: Hops of the personalised PageRank along which features travel.
        restart: Restart probability of that PageRank.
    """

    method: Literal["direct", "matched"] = "direct"
    hops: int = Field(10, ge=0, le=1000)
    restart: float = Field(0.1, gt=0, le=1)


class Settings(_Section):
    """All settings of one run.

    Attributes:
        recipe: A named set of values. Where nobody names one, a run with an epsilon takes
            ``auto``, and a run without takes ``plain``.
        seed: Of split, partition and first weights; never of noise.
    """

    recipe: str = "plain"
    seed: int = Field(0, ge=0, le=2**63 - 1)
    data: DataSettings = DataSettings()
    features: FeatureSettings = FeatureSettings()
    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()
    prediction: PredictionSettings = PredictionSettings()
    privacy: PrivacySettings | None = None

    @model_validator(mode="after")
    def _fit_together(self) -> Settings:
        training = self.training
        if training.large_steps and training.learning_rate is not None:
            raise ValueError("'training.reach' sets the learning rate; leave one of them out")
        plain = training.optimizer == "sgd" and self.model.kind == "linear"
        if training.large_steps and not (plain and self.privacy):
            raise ValueError(
                "'training.reach' needs privacy, training.optimizer sgd and model.kind linear"
            )
        if training.balanced and not training.large_steps:
            raise ValueError("'training.balanced' needs training.reach, as recipe auto has it")
        if training.balanced and training.epochs == 1:
            raise ValueError("'training.balanced' needs two steps or more in training.epochs")
        if self.prediction.method == "matched" and not training.large_steps:
            raise ValueError("'prediction.method' matched needs training.reach")
        return self

    def changed(self, changes: Mapping[str, Any]) -> Settings:
        """The same settings with dotted names set to new values.

        Examples:
            >>> Settings().changed({"training.epochs": 10}).training.epochs
            10
        """
        tree = self.model_dump()
        for name, value in changes.items():
            *path, last = name.split(".")
            node = tree
            for key in path:
                if key == "privacy" and node.get(key) is None:
                    node[key] = {}
                if not isinstance(node.get(key), dict):
                    raise ConfigError(
                        f"There is no setting {shown(name)}.{_nearest(name[:80])}"
                    )
                node = node[key]
            node[last] = value
        return parse_settings(tree)


def setting_names() -> list[str]:
    """All settings by dotted name."""
    return list(flattened(Settings(privacy=PrivacySettings()).model_dump()))


def _nearest(name: str) -> str:
    """What somebody may have meant: a setting of nearly that name, in any section."""
    known = setting_names()
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    last = {full.rpartition(".")[2]: full for full in reversed(known)}
    near += [
        last[word] for word in difflib.get_close_matches(name.rpartition(".")[2], last, n=1)
    ]
    if near:
        return f" Did you mean '{near[0]}'?"
    section = name.partition(".")[0]
    own = [full for full in known if full.startswith(f"{section}.")] or known
    return f" Known settings: {', '.join(own)}."


def parse_settings(tree: Mapping[str, Any]) -> Settings:
    """Checks a tree of settings.

    Raises:
        ConfigError: Naming the first setting that breaks its rule.
    """
    try:
        return Settings.model_validate(dict(tree))
    except ValidationError as error:
        first = error.errors()[0]
        rule = first["msg"].removeprefix("Value error, ")
        if not first["loc"]:
            raise ConfigError(f"The settings do not fit together: {rule}.") from None
        name = ".".join(str(key) for key in first["loc"])
        if first["type"] == "extra_forbidden":
            raise ConfigError(
                f"There is no setting {shown(name)}.{_nearest(name[:80])}"
            ) from None
        raise ConfigError(
            f"The {shown(name)} of the settings is wrong: {rule[:1].lower()}{rule[1:]}. "
            f"Got {brief(first['input'])}."
        ) from None


def read_settings(path: Path) -> dict[str, Any]:
    """Reads a settings file (TOML) into dotted names, for ``Settings.changed``."""
    try:
        tree = tomllib.loads(read_bounded(path, most=_MOST_BYTES).decode("utf-8"))
    except DataError as error:
        raise ConfigError(f"The settings cannot be read. {error}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"The settings file {path} is not valid TOML: {reason(error)}."
        ) from None
    return flattened(tree)


def flattened(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted names; the options of a feature kind stay together.

    Raises:
        ConfigError: One setting is there twice, dotted and nested.
    """
    pairs: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        found = {name: dict(value) if isinstance(value, Mapping) else value}
        if isinstance(value, Mapping) and name != "features.options":
            found = flattened(value, f"{name}.")
        for twice in found.keys() & pairs.keys():
            raise ConfigError(
                f"The setting '{twice}' must be given once. Got {brief(pairs[twice])} and "
                f"{brief(found[twice])}."
            )
        pairs |= found
    return pairs


def parse_assignment(text: str) -> tuple[str, Any]:
    """Reads ``a.b=c`` of the command line; the value is TOML, or else plain text."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ConfigError(f"An override must look like a.b=c. Got {text!r}.")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except (ValueError, RecursionError):
        return name.strip(), value.strip()


def to_toml(tree: Mapping[str, Any]) -> str:
    """Writes nested settings as TOML; ``None`` is left out, as TOML has no word for it."""
    lines: list[str] = []
    _write_table(tree, "", lines)
    return "\n".join(lines).strip() + "\n"


def _write_table(tree: Mapping[str, Any], prefix: str, lines: list[str]) -> None:
    tables = {key: value for key, value in tree.items() if isinstance(value, Mapping)}
    for key, value in tree.items():
        if key not in tables and value is not None:
            # JSON's strings, numbers, booleans and lists of these are TOML's as well.
            lines.append(
                f"{json.dumps(key) if not key.isidentifier() else key} = "
                f"{json.dumps(value, ensure_ascii=False)}"
            )
    for key, value in tables.items():
        if value:
            lines += ["", f"[{prefix}{key}]"]
            _write_table(value, f"{prefix}{key}.", lines)
