"""What the paper's released code does, emulated, to explain the published scores.

**Nothing here is private.** This module is kept apart: it knows no plan, makes no statement
and nothing outside the experiments uses it. What it repeats on purpose, as measured by
running that code and read from it:

- nothing is clipped: noise of standard deviation ``noise_multiplier * clip_norm`` is added
  to a gradient of any size;
- no edge is cut: training, validation and test documents are one graph in every forward
  pass, and a "subgraph" is a mask on the loss;
- every part is visited once per epoch, in random order;
- dropout acts in the first epoch only, because evaluation after it switches it off for good;
- features are the raw bag of words, the loss is the mean over the masked documents, the
  last iterate is scored, and predictions see the whole graph;
- non-private runs (epsilon ``None``) have weight decay 0.01, stop after 20 epochs without a
  lower validation loss, and keep the iterate at which they stopped.

The axis ``sound`` does some of these things as the paper describes them, one or several of
``SOUND``, so that an ablation can tell which of them makes the published score. With all of
them a run still has no guarantee: its noise is the paper's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from privgcn.config import PAPER_EPOCHS
from privgcn.data.catalogue import DATASETS
from privgcn.errors import ConfigError
from privgcn.experiments.paper.published import noise_of
from privgcn.experiments.tasks import Result, check_axes
from privgcn.experiments.train_task import encoding, parts_and_share
from privgcn.training.devices import WORDS, Work, faster_device

if TYPE_CHECKING:
    from torch import Tensor

    from privgcn.graph import TextGraph
    from privgcn.randomness import Draws

KIND = __name__
"""The kind of these tasks."""

LEARNING_RATES = {"sgd": 0.01, "adam": 10.0}
"""Of private runs: SGD's is the paper's, Adam's gives the published score on Cora."""

SPLIT_LEARNING_RATES = {"sgd": 0.01, "adam": 1.0}
"""The same with several parts: so many more steps of Adam at 10 would wander off."""

SOUND = {
    "clip": "the gradient of a part is clipped to norm 1, all tensors together",
    "apart": "validation and test documents are not in the training graph",
    "cut": "links between parts are cut as well",
    "dropout": "dropout acts in every epoch",
    "sampling": "a step takes each part with probability one over their number",
}
"""What can be done as the paper describes it, and how that is."""

_PLAIN_RATE, _PLAIN_DECAY, _PLAIN_PATIENCE = 0.01, 0.01, 20

_MUST = {"dataset", "optimizer", "epsilon"}
_MAY = {"parts", "learning_rate", "epochs", "fraction", "features", "sound"}
_HIDDEN, _DROPOUT, _CLIP_NORM = 32, 0.5, 1.0
# To ask a device makes the host wait; a seed that has stopped stays as it is anyway.
_EPOCHS_BETWEEN = {"cpu": 1, "cuda": 25}


def resolve(point: dict[str, Any]) -> dict[str, Any]:
    """The full settings: the noise is what the paper's accountant asks for its epsilon."""
    check_axes("the released code's runs", point, _MUST, _MAY)
    optimizer, parts = point["optimizer"], int(point.get("parts") or 1)
    sound = list(point.get("sound") or ())
    if not set(sound) <= set(SOUND):
        raise ConfigError(
            f"The 'sound' of the released code's runs must be some of {', '.join(SOUND)}. "
            f"Got {', '.join(map(str, sound))}."
        )
    epochs = int(point.get("epochs") or PAPER_EPOCHS[optimizer])
    epsilon, plain = point["epsilon"], point["epsilon"] is None
    rates = LEARNING_RATES if parts == 1 else SPLIT_LEARNING_RATES
    rate = _PLAIN_RATE if plain else rates[optimizer]
    return {
        "dataset": point["dataset"],
        "fraction": float(point.get("fraction") or 1.0),
        "optimizer": optimizer,
        "claimed_epsilon": epsilon,
        "noise_multiplier": 0.0
        if plain
        else claimed_noise(optimizer, float(epsilon), parts, epochs),
        "parts": parts,
        "epochs": epochs,
        "patience": _PLAIN_PATIENCE if plain else 0,
        "weight_decay": _PLAIN_DECAY if plain else 0.0,
        "learning_rate": float(point.get("learning_rate") or rate),
        "hidden": _HIDDEN,
        "dropout": _DROPOUT,
        "features": encoding(point["dataset"], point.get("features")),
        "sound": [name for name in SOUND if name in sound],
    }


@lru_cache
def claimed_noise(optimizer: str, epsilon: float, parts: int, epochs: int) -> float:
    """The noise multiplier with which the released code claims an epsilon.

    One part: the paper's table, where it has the epsilon. Otherwise its accountant, which
    assumes Poisson samples of probability one over the parts though every part is visited
    once per epoch.
    """
    if parts == 1 and epochs == PAPER_EPOCHS["adam" if optimizer == "adam" else "sgd"]:
        with suppress(ConfigError):
            return noise_of(epsilon, optimizer)
    from privgcn.privacy.accounting.calibration import calibrate

    found = calibrate(
        epsilon=epsilon,
        steps=epochs * parts,
        sampling_probability=1.0 / parts,
        accountant="moments",
    )
    return round(found.noise_multiplier, 2)


def run(settings: dict[str, Any], seeds: tuple[int, ...], device: str = "cpu") -> list[Result]:
    """Trains without clipping on the whole graph, and scores the test documents."""
    import torch

    from privgcn.config import Settings
    from privgcn.data.corpus import TEST
    from privgcn.experiments.predictions import results_of
    from privgcn.experiments.subsampling import corpus_for_runs
    from privgcn.runs.train import Prepared
    from privgcn.training.recording import own_stream

    corpus = corpus_for_runs(settings["dataset"], settings["fraction"])
    graph = Prepared.of(corpus, Settings().changed(settings["features"])).graph
    place = torch.device(device)
    with torch.no_grad(), own_stream(place):
        scores = _train(graph.to(place), settings, seeds).cpu()
    predicted = scores[torch.from_numpy(corpus.split == TEST)].argmax(-1).T.numpy()
    found = results_of(corpus, {"full-graph": predicted})
    return [{**result, "device": device, "private": False} for result in found]


def label(settings: Mapping[str, Any]) -> str:
    """Dataset, optimiser, claimed budget, parts and share of the data."""
    claimed = settings["claimed_epsilon"]
    words = [str(settings["dataset"]), "as released", str(settings["optimizer"])]
    words.append("without noise" if claimed is None else f"claimed epsilon {claimed:g}")
    words += [f"but {' and '.join(settings['sound'])} sound"] if settings["sound"] else []
    return ", ".join([*words, *parts_and_share(settings["parts"], settings["fraction"])])


def _train(graph: TextGraph, settings: Mapping[str, Any], seeds: Sequence[int]) -> Tensor:
    """Scores of all documents after training, ``[documents, R, classes]``."""
    import torch

    from privgcn.graph.rows import densified
    from privgcn.models import make_model
    from privgcn.models.stack import loss_gradient
    from privgcn.randomness import seeded_draws
    from privgcn.training.recording import Recording

    model = make_model(
        "gcn",
        graph.features.width,
        graph.classes,
        hidden=settings["hidden"],
        dropout=settings["dropout"],
    )
    device = graph.edges.device
    features = (
        densified(graph.features, torch.float32, len(graph))
        if graph.edges.is_cuda
        else graph.features
    )
    parameters = [
        torch.nn.Parameter(p.to(device), requires_grad=False) for p in model.initial(seeds)
    ]
    options = {"lr": settings["learning_rate"], "weight_decay": settings["weight_decay"]}
    optimiser: torch.optim.Optimizer
    if settings["optimizer"] == "adam":
        optimiser = torch.optim.Adam(parameters, **options, capturable=graph.edges.is_cuda)
    else:
        optimiser = torch.optim.SGD(parameters, **options)
    noise = seeded_draws(seeds, "as-released noise", device)
    dropout = seeded_draws(seeds, "as-released dropout", device)
    # Seeds share the masks and the order of visits, whichever of them train together.
    order = torch.Generator().manual_seed(0)
    sound = set(settings["sound"])
    members = _parts(graph, settings["parts"], order)
    weights = [_mask(graph, part) for part in members]
    whole = graph.propagation()
    matrix = _training_graph(graph, members, sound).propagation()
    own = torch.empty_like(weights[0])
    scale = settings["noise_multiplier"] * _CLIP_NORM

    stopper = Stopper(settings["patience"], parameters)
    totals = [torch.zeros_like(parameter) for parameter in parameters]
    for parameter, total in zip(parameters, totals, strict=True):
        parameter.grad = total

    def add(masks: Draws | None) -> None:
        """Adds the gradient of the documents that ``own`` weighs."""
        tape = model.forward(parameters, features, matrix, masks)
        rows = loss_gradient(tape.scores, graph.labels, own)
        layers = model.backward(parameters, tape, rows, matrix, dropped=masks is not None)
        made = [tensor for layer in layers for tensor in layer.totals()]
        for total, one in zip(totals, _clipped(made) if "clip" in sound else made, strict=True):
            total.add_(one)

    def finish() -> None:
        """Takes a step with what was added up, and noise."""
        if scale > 0:
            draws = noise.normal([total.shape for total in totals])
            for total, draw in zip(totals, draws, strict=True):
                total.add_(draw, alpha=scale)
        optimiser.step()
        for total in totals:
            total.zero_()

    def one_part() -> None:
        add(usual)
        finish()

    usual = dropout if "dropout" in sound and settings["dropout"] > 0 else None
    adding = Recording(device, [usual])
    finishing = Recording(device, [noise])
    visiting = Recording(device, [usual, noise])

    def advance(sample: Sequence[int], masks: Draws | None) -> None:
        if masks is usual and len(sample) == 1:
            own.copy_(weights[sample[0]])
            visiting(one_part)
            return
        for part in sample:
            own.copy_(weights[part])
            if masks is usual:
                adding(lambda: add(usual))
            else:
                add(masks)
        finishing(finish)

    validation = torch.nonzero((graph.split == 1) & (graph.labels >= 0))[:, 0]

    def validate() -> None:
        scores = model.scores(parameters, features, whole)[validation]
        stopper.look(losses_of(scores, graph.labels[validation]))

    looking = Recording(device, [])
    between = _EPOCHS_BETWEEN[device.type]
    for epoch in range(1, settings["epochs"] + 1):
        dropping = settings["dropout"] > 0 and (epoch == 1 or "dropout" in sound)
        visits = torch.randperm(len(weights), generator=order)
        for sample in _sampled(visits, order) if "sampling" in sound else visits[:, None]:
            advance(sample.tolist(), dropout if dropping else None)
        if settings["patience"]:
            looking(validate)
            if epoch % between == 0 and stopper.all_stopped():
                break
    return model.scores(stopper.result(), features, whole)


class Stopper:
    """Stops each seed on its own, and keeps the parameters it had when it stopped.

    Attributes:
        epochs: How many epochs each seed has trained.
    """

    def __init__(self, patience: int, parameters: Sequence[Tensor]) -> None:
        import torch

        self._patience = patience
        self._parameters = parameters
        self._kept = [parameter.detach().clone() for parameter in parameters]
        first = parameters[0]
        self._lowest = torch.full((first.shape[-2],), torch.inf, device=first.device)
        self._waited = torch.zeros_like(self._lowest)
        self.epochs = torch.zeros_like(self._lowest)

    def look(self, losses: Tensor) -> None:
        """Notes the loss of each seed, and keeps the parameters of seeds that go on."""
        import torch

        going = self._waited < self._patience
        worse = losses > self._lowest
        waited = torch.where(worse, self._waited + 1, 0.0)
        self._lowest.copy_(torch.where(going & ~worse, losses, self._lowest))
        self._waited.copy_(torch.where(going, waited, self._waited))
        self.epochs.add_(going)
        for kept, parameter in zip(self._kept, self._parameters, strict=True):
            kept.copy_(torch.where(going[:, None], parameter, kept))

    def all_stopped(self) -> bool:
        """Whether no seed trains any more."""
        return bool((self._waited >= self._patience).all())

    def result(self) -> list[Tensor]:
        """What each seed had when it stopped; without patience, what it has now."""
        made = self._kept if self._patience else self._parameters
        return [parameter.detach().clone() for parameter in made]


def losses_of(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean cross-entropy of each seed; scores are ``[documents, R, classes]``."""
    right = scores.gather(2, labels[:, None, None].expand(-1, scores.shape[1], 1))
    return (scores.logsumexp(-1) - right[:, :, 0]).mean(0)


def _parts(graph: TextGraph, parts: int, order: Any) -> list[Tensor]:
    """The training documents of each "subgraph"."""
    import torch

    train = torch.nonzero((graph.split == 0) & (graph.labels >= 0))[:, 0]
    shuffled = torch.randperm(len(train), generator=order).to(train.device)
    return list(train[shuffled].tensor_split(parts))


def _mask(graph: TextGraph, members: Tensor) -> Tensor:
    """Loss weights of a "subgraph": the mean over its documents, nothing cut."""
    import torch

    weight = torch.zeros(len(graph), device=members.device)
    weight[members] = 1.0 / max(1, len(members))
    return weight


def _training_graph(graph: TextGraph, members: Sequence[Tensor], sound: set[str]) -> TextGraph:
    """What a training pass sees: every link, or the links that a sound method leaves."""
    import torch

    if not sound & {"apart", "cut"}:
        return graph
    part = torch.full((len(graph),), -1, device=graph.edges.device)
    for number, rows in enumerate(members):
        part[rows] = number if "cut" in sound else 0
    ends = part[graph.edges]
    return replace(graph, edges=graph.edges[:, (ends[0] == ends[1]) & (ends[0] >= 0)])


def _sampled(visits: Tensor, order: Any) -> list[Tensor]:
    """As many Poisson samples of the parts as there are parts."""
    import torch

    parts = len(visits)
    drawn = torch.rand(parts, parts, generator=order) < 1.0 / parts
    return [torch.nonzero(row)[:, 0] for row in drawn]


def _clipped(gradients: Sequence[Tensor]) -> list[Tensor]:
    """Each replica's gradient, scaled as a whole to norm 1 at most."""
    squares = [g.square().sum(-1).reshape(-1, g.shape[-2]).sum(0) for g in gradients]
    norms = sum(squares[1:], squares[0]).sqrt()[:, None]
    factors = (_CLIP_NORM / norms.clamp(min=1e-12)).clamp(max=1.0)
    return [gradient * factors for gradient in gradients]


def device(settings: Mapping[str, Any], replicas: int) -> str:
    """``cpu`` or ``cuda``: what is faster."""
    size = _documents(settings) * WORDS * settings["hidden"] * replicas
    return faster_device(Work(steps(settings), size, size), started=True)


def steps(settings: Mapping[str, Any]) -> int:
    """Of a run that does not stop early."""
    return int(settings["epochs"] * settings["parts"])


def weight(settings: Mapping[str, Any]) -> float:
    """Document passes, roughly."""
    return float(_documents(settings) * steps(settings))


def _documents(settings: Mapping[str, Any]) -> int:
    card = DATASETS.get(settings["dataset"])
    return card.documents if card is not None else 1000
