"""Settings of a run: typed, checked, written to ``settings.toml`` and read back.

A setting can be overridden by a flag (or a constructor parameter), by ``--set``, or in a
settings file, in this order of strength; a recipe has the values that nobody named. A setting
of ``privacy`` may be named twice only if both say the same.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from privgcn.errors import ConfigError, PrivacyContractError, reason, refusal, shown
from privgcn.files import read_bounded

Mode = Literal["alone", "own-graph", "full-graph"]
_MOST_BYTES = 1 << 20


class ModeFacts(NamedTuple):
    """What a prediction sees, and whether it is covered: mere post-processing of the model."""

    sees: str
    covered: bool


MODES: dict[Mode, ModeFacts] = {
    "alone": ModeFacts("the new document only", covered=True),
    "own-graph": ModeFacts("the new documents and the edges among them", covered=True),
    "full-graph": ModeFacts("also edges to, and texts of, training documents", covered=False),
}


def check_mode(mode: str) -> Mode:
    """The mode, or an error that names the known ones."""
    if mode not in MODES:
        raise ConfigError(f"The 'inference' must be one of {', '.join(MODES)}. Got {mode!r}.")
    return mode


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, allow_inf_nan=False)


class DataSettings(_Section):
    """Which documents: part of a run's own folder, left out of what is released.

    Attributes:
        source: A dataset's name, a folder or a file.
        classes: The class set, where the user declared it; else the labels decide.
        id: The column with the ids, where it has another name.
        text: The column with the texts.
        label: The column with the labels.
        owner: The column that says whose each document is.
        split: The column with the split; ``random`` draws one whatever columns there are.
        edges: A file of edges, instead of the one in the folder.
        encoding: Of text files, where it is not UTF-8.
    """

    source: str | None = None
    classes: list[str] | None = None
    id: str | None = None
    text: str | None = None
    label: str | None = None
    owner: str | None = None
    split: str | None = None
    edges: str | None = None
    encoding: str | None = None

    @property
    def reading(self) -> dict[str, Any]:
        """Options of ``load_corpus`` for these documents."""
        return self.model_dump(exclude={"source"}, exclude_none=True)

    @property
    def reading_new(self) -> dict[str, Any]:
        """Those for other documents, which may have no labels or owners."""
        return self.model_dump(include={"id", "text", "encoding"}, exclude_none=True)


class FeatureSettings(_Section):
    """How text becomes numbers.

    Attributes:
        kind: A kind, ``fast`` or ``best``; ``None`` takes given vectors, or else chooses.
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
        hops: Edges along which features are propagated in training, within a group.
        dropout: Fraction of hidden values that a training step leaves out.
    """

    kind: Literal["gcn", "linear", "mlp", "module"] = "gcn"
    hidden: int = Field(32, ge=1, le=1_000_000)
    hops: int = Field(2, ge=0, le=1000)
    dropout: float = Field(0.5, ge=0, lt=1)


class TrainingSettings(_Section):
    """How parameters are found.

    Attributes:
        optimizer: ``sgd`` or ``adam``.
        learning_rate: Step size of usual descent; ``None`` where ``noise_scale`` sets it.
        noise_scale: How far the noise of all steps together may carry a score: chooses the
            large steps of recipe ``auto``, for private linear models only.
        balanced: Whether rare classes count as much as frequent ones. Needs ``noise_scale``.
        epochs: Passes over the training documents, at most.
        patience: Epochs without a better validation loss before training stops; 0 trains
            to the end. Private runs never stop early.
        parts: Parts of a non-private run; each is one step of an epoch.
        memory: GiB that feature rows may take in memory; those of larger corpora stay on disk.
        device: Where training runs; ``auto`` takes what is faster at the run's size. Noise of
            a releasable run is always drawn by the cipher, on the CPU.
    """

    optimizer: Literal["sgd", "adam"] = "adam"
    learning_rate: float | None = Field(None, gt=0)
    noise_scale: float | None = Field(None, gt=0)
    balanced: bool = False
    epochs: int = Field(500, ge=1)
    patience: int = Field(20, ge=0)
    parts: int | Literal["each"] = 1
    memory: float = Field(0.25, ge=0)
    device: Literal["auto", "cpu", "cuda"] = "cpu"

    @property
    def large_steps(self) -> bool:
        """Whether ``noise_scale`` chooses them."""
        return self.noise_scale is not None


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
        noise_multiplier: Standard deviation of the noise over the clip norm.
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
        method: ``direct``: the model as trained; ``matched``: fitted anew to query documents.
        hops: Hops of the personalised PageRank along which features are propagated.
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
        training, matched = self.training, self.prediction.method == "matched"
        linear = training.optimizer == "sgd" and self.model.kind == "linear"
        if training.large_steps and training.learning_rate is not None:
            raise ValueError("'training.noise_scale' sets the learning rate; leave one out")
        if training.large_steps and not (linear and self.privacy):
            raise ValueError(
                "'training.noise_scale' needs privacy, optimizer sgd and model.kind linear"
            )
        if (training.balanced or matched) and not training.large_steps:
            raise ValueError(
                "'training.balanced' and 'prediction.method' matched need training.noise_scale"
            )
        if training.balanced and training.epochs == 1:
            raise ValueError("'training.balanced' needs two steps or more in training.epochs")
        return self

    def changed(self, changes: Mapping[str, Any]) -> Settings:
        """The same settings with dotted names set to new values."""
        tree = self.model_dump()
        for name, value in changes.items():
            *path, last = name.split(".")
            node = tree
            for key in path:
                if key == "privacy" and node.get(key) is None:
                    node[key] = {}
                if not isinstance(node.get(key), dict):
                    raise _unknown(name)
                node = node[key]
            node[last] = value
        return parse_settings(tree)


def _unknown(name: str) -> ConfigError:
    known = list(flattened(Settings(privacy=PrivacySettings()).model_dump()))
    near = difflib.get_close_matches(name[:80], known, n=1, cutoff=0.5)
    hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(known)}."
    return ConfigError(f"There is no setting {shown(name)}. {hint}")


def parse_settings(tree: Mapping[str, Any]) -> Settings:
    """Checks a tree of settings; the first that breaks its rule is named."""
    try:
        return Settings.model_validate(dict(tree))
    except ValidationError as error:
        first = error.errors()[0]
        if not first["loc"]:
            rule = first["msg"].removeprefix("Value error, ")
            raise ConfigError(f"The settings do not fit together: {rule}.") from None
        if first["type"] == "extra_forbidden":
            raise _unknown(".".join(map(str, first["loc"]))) from None
        raise refusal(error, "the settings") from None


def read_settings(path: Path) -> dict[str, Any]:
    """Reads a settings file (TOML) into dotted names, for ``Settings.changed``."""
    try:
        tree = tomllib.loads(read_bounded(path, most=_MOST_BYTES).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"The settings file {path} is not valid TOML: {reason(error)}."
        ) from None
    return flattened(tree)


def flattened(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings by dotted names; the options of a feature kind stay together."""
    pairs: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{prefix}{key}"
        nested = isinstance(value, Mapping) and name != "features.options"
        inner = flattened(value, f"{name}.") if nested else {name: value}
        for twice in inner.keys() & pairs.keys():
            raise ConfigError(
                f"The setting '{twice}' must be given once. Got {shown(pairs[twice])} and "
                f"{shown(inner[twice])}."
            )
        pairs |= inner
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


def without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    """The same, nested or not, without what is ``None``."""
    return {
        str(key): without_none(value) if isinstance(value, Mapping) else value
        for key, value in tree.items()
        if value is not None
    }


def to_toml(tree: Mapping[str, Any]) -> str:
    """Nested settings as TOML; ``None`` is left out, as TOML has no word for it."""
    return tomli_w.dumps(without_none(tree))


#: By name, what differs from the defaults, by section; ``pace`` has rate and epochs for each
#: optimizer, the recipe's own first.
RECIPES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("recipes.toml").read_text(encoding="utf-8")
)


def recipe_settings(name: str, optimizer: Any = None) -> Settings:
    """The settings of a recipe, without an epsilon; ``None`` takes its own optimizer."""
    if name not in RECIPES:
        raise ConfigError(f"The 'recipe' must be one of {', '.join(RECIPES)}. Got {name!r}.")
    values = dict(RECIPES[name])
    paces = values.pop("pace")
    optimizer = next(iter(paces)) if optimizer is None else optimizer
    # One that the recipe does not know fits no rule of its other settings.
    unknown: dict[str, Any] = {"learning_rate": None, "epochs": 1}
    pace = unknown | next((paces[known] for known in paces if known == optimizer), {})
    chosen = {f"training.{key}": value for key, value in pace.items()}
    chosen |= {"recipe": name, "training.optimizer": optimizer}
    return Settings().changed({**chosen, **flattened(values)})


#: Where a user named settings, and these by dotted name or section.
Overrides: TypeAlias = tuple[str, Mapping[str, Any]]


def command_line(
    flags: Mapping[str, Any], assignments: Sequence[str] | None, file: Path | None
) -> list[Overrides]:
    """Flags (``None`` where left out), each ``--set a.b=c`` (the last first), and a file."""
    result: list[Overrides] = [("a flag", without_none(flags))]
    result += [("--set", dict([parse_assignment(text)])) for text in (assignments or [])[::-1]]
    return result if file is None else [*result, (str(file), read_settings(file))]


def resolve(*overrides: Overrides) -> Settings:
    """The settings of a run: what the user overrode, and the recipe's own for the rest.

    The strongest overrides come first. Recipe ``auto``, which nobody needs to name, is
    ``module`` for a module that the user brings, and ``plain`` without an epsilon (or with
    ``None``): there is nothing to protect with.
    """
    known: dict[str, tuple[Any, str]] = {}
    for source, values in overrides:
        for name, value in flattened(values).items():
            stronger, where = known.setdefault(name, (value, source))
            if not name.startswith("privacy.") or stronger == value:
                continue
            # As they will be understood: 10 is "10", and 1e-5 is "0.00001".
            first, second = (Settings().changed({name: each}) for each in (stronger, value))
            if first != second:
                raise PrivacyContractError(
                    f"The setting '{name}' must have one value. Got {shown(stronger)} from "
                    f"{where} and {shown(value)} from {source}. Leave one of them out."
                )
    # The weakest first, so that stronger ones change what weaker ones set.
    chosen = {name: value for name, (value, _) in reversed(known.items())}
    brought = chosen.get("model.kind") == "module"
    recipe = str(chosen.pop("recipe", "module" if brought else "auto"))
    noise = [chosen.get(f"privacy.{name}") for name in ("epsilon", "noise_multiplier")]
    bounded = noise != [None, None]
    for name, nothing in (("privacy.epsilon", None), ("privacy.reproducible", False)):
        if not bounded and chosen.get(name, "") is nothing:
            del chosen[name]  # written out, it asks for no privacy
    private = [name for name in chosen if name.startswith("privacy.")]
    # A run without privacy writes its privacy settings down as none.
    if "privacy" in chosen and (chosen.pop("privacy") is not None or private):
        raise ConfigError("The 'privacy' of the settings is a section, such as privacy.unit.")
    why = "recipe 'plain' is. Use recipe 'auto'"
    if recipe in ("auto", "module") and not bounded:
        recipe, why = "plain", "this is without an epsilon. Add --epsilon 1"
    settings = recipe_settings(recipe, chosen.pop("training.optimizer", None))
    if recipe == "plain" and private:
        raise PrivacyContractError(
            f"The setting '{private[0]}' cannot be kept by training without privacy, which "
            f"{why}, or leave the setting out."
        )
    if recipe != "plain" and not bounded:
        raise PrivacyContractError(
            f"Recipe '{recipe}' is private and needs an epsilon. Add --epsilon 1."
        )
    return settings.changed(chosen)


def make_settings(
    recipe: str | None = None,
    *,
    epsilon: float | None = None,
    optimizer: str | None = None,
    seed: int | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Settings:
    """``resolve`` for experiments and scripts; ``changes`` are settings by dotted name."""
    named = {"recipe": recipe, "privacy.epsilon": epsilon, "seed": seed}
    named |= {"training.optimizer": optimizer}
    return resolve(("a parameter", without_none(named)), ("'changes'", changes or {}))
