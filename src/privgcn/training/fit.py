"""One door to training: settings and training documents in, parameters and plan out.

Private training is clipped sums, noise and a plain optimiser; nothing else touches the data.
The outline of the documents is one more clipped, noisy sum, and comes first. No loss and no
score of the training documents is computed, printed or stored, nothing stops early, and the
last (or the averaged) iterate is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from privgcn import __version__
from privgcn.config import Settings
from privgcn.errors import ConfigError, PrivacyContractError
from privgcn.graph.on_disk import RowsOnDisk
from privgcn.graph.textgraph import TextGraph
from privgcn.models import AnyModel, ModuleModel, make_model
from privgcn.privacy.mechanism.centre import Outline, clipped_outline, released_outline
from privgcn.privacy.mechanism.cutting import cut_as_planned, members_of
from privgcn.privacy.mechanism.device_gradients import DeviceGradients, side_by_side
from privgcn.privacy.mechanism.module_gradients import ModuleGradients
from privgcn.privacy.mechanism.part_gradients import GradientSource, StackGradients
from privgcn.privacy.mechanism.together import AnyPlan, PlansTogether, alike
from privgcn.privacy.plan import PrivacyPlan
from privgcn.randomness import Draws, secret_draws, seeded_draws
from privgcn.training.checkpoint import Checkpoint, fingerprint
from privgcn.training.class_bias import ClassBias
from privgcn.training.devices import (
    WORDS,
    check_device,
    cuda_is_there,
    faster_device,
    threads_worth,
    work_of,
)
from privgcn.training.fitted import CENTRE, Fit
from privgcn.training.names import name_directions
from privgcn.training.plain import train_plain
from privgcn.training.planning import make_plan, member_of, with_rate
from privgcn.training.private import SHARES, PrivateTrainer, Progress
from privgcn.training.ranks import Team
from privgcn.training.recording import own_stream
from privgcn.training.shared_parts import DROPOUT, SharedGradients, Task


def fit(
    train: TextGraph,
    settings: Settings,
    *,
    seeds: Sequence[int] | None = None,
    visible: TextGraph | None = None,
    columns: Mapping[str, Any] | None = None,
    class_vectors: Tensor | None = None,
    progress: Progress | None = None,
    checkpoint_folder: Path | None = None,
    module: nn.Module | None = None,
    team: Team | None = None,
) -> Fit:
    """Trains as the settings say, one replica per seed.

    Args:
        train: Training documents and the links among them.
        settings: Everything that decides the run.
        seeds: Seeds of the replicas; default the settings' own seed alone.
        visible: Training and validation documents, for early stopping of a non-private run.
        columns: Extra columns of the training documents, for a public partition.
        class_vectors: The public class names as vectors, ``[classes, features]``; large steps
            make use of them.
        progress: Called with steps done and steps in all.
        checkpoint_folder: Where a private run leaves its state to be resumed.
        module: The user's own model, where ``model.kind`` is ``module``.
        team: The ranks that a private run shares its parts with; this is rank 0.
    """
    seeds = [settings.seed] if seeds is None else list(seeds)
    device = training_device(train, settings, len(seeds))
    model = _model(settings, train, module)
    if settings.privacy is None:
        size = train.features.stored * _first_outputs(model, train) * len(seeds)
        with threads_worth(size), own_stream(device):
            parameters = train_plain(
                model,
                train.to(device),
                settings.training,
                seeds,
                partition_seed=settings.seed,
                visible=None if visible is None else visible.to(device),
                progress=progress,
            )
        return Fit(model, [p.cpu() for p in parameters], settings)
    if settings.training.patience > 0:
        raise PrivacyContractError(
            "A private run must not stop early: the validation loss would be one more query. "
            f"Got patience {settings.training.patience}. Set training.patience to 0."
        )
    # On a CPU, which dropout masks a sampled part gets depends on all that was sampled too.
    mixes_masks = settings.privacy.sampling == "poisson" and model.dropout > 0
    mixes_masks = mixes_masks and device.type == "cpu"
    if len(seeds) > 1 and (mixes_masks or _takes_outline(train, settings)):
        return _one_by_one(
            seeds,
            checkpoint_folder,
            lambda seed, folder: fit(
                train,
                settings,
                seeds=[seed],
                columns=columns,
                class_vectors=class_vectors,
                progress=progress,
                checkpoint_folder=folder,
                team=team,
            ),
        )
    plan = make_plan(
        settings.privacy,
        train,
        epochs=settings.training.epochs,
        seed=settings.seed,
        columns=columns or {},
    )
    names = None
    if class_vectors is not None and settings.training.large_steps:
        names = name_directions(class_vectors, with_rate(settings.training, plan))
    checkpoint = None
    if checkpoint_folder is not None:
        purpose = {
            # Steps of another version are not what this one's statement is about.
            "version": __version__,
            "settings": settings.model_dump(),
            "plan": plan.to_dict(),
            "seeds": seeds,
            "width": train.features.width,
            "classes": train.classes,
            "outline": _takes_outline(train, settings),
            "names": None if names is None else names.tolist(),
            "documents": fingerprint(train, columns or {}),
        }
        checkpoint = Checkpoint(checkpoint_folder, purpose)
    trainer = _private_trainer(
        model, train, plan, settings, seeds, device, columns or {}, checkpoint, names, team
    )
    size = _public_step_size(train, plan, model) * len(seeds)
    with threads_worth(size), own_stream(device):
        parameters = trainer.run(progress, checkpoint)
    if isinstance(trainer.gradients, SharedGradients):
        trainer.gradients.close()
    outline = trainer.outline
    centre = None if outline is None else outline.centre
    return Fit(
        model,
        [p.cpu() for p in parameters],
        settings,
        plan,
        trainer.source.releasable,
        trainer.optimiser.path(),
        None if centre is None else centre.cpu(),
        names=names,
        bias=None if outline is None else _bias(outline.shares.cpu(), settings),
    )


def fit_together(
    train: TextGraph,
    runs: Sequence[tuple[Settings, Sequence[int]]],
    *,
    columns: Mapping[str, Any] | None = None,
) -> list[Fit]:
    """Trains as several private settings say, each with seeds of its own; for experiments.

    On a device, runs that differ in nothing but their noise share one pass where sampled
    parts lie side by side. Each gives what it gives alone.
    """
    device = training_device(train, runs[0][0], sum(len(seeds) for _, seeds in runs))
    plans = [] if device.type == "cpu" else _plans_in_one_pass(train, runs, columns or {})
    if not plans:
        return [fit(train, chosen, seeds=seeds, columns=columns) for chosen, seeds in runs]
    settings, everyone = runs[0][0], [seed for _, seeds in runs for seed in seeds]
    each = [plan for plan, (_, seeds) in zip(plans, runs, strict=True) for _ in seeds]
    together = PlansTogether(tuple(each), device)
    model = _model(settings, train, None)
    trainer = _private_trainer(
        model, train, together, settings, everyone, device, columns or {}, None, None, None
    )
    with own_stream(device):
        found = [parameter.cpu() for parameter in trainer.run()]
    fits, begin = [], 0
    for plan, (chosen, seeds) in zip(plans, runs, strict=True):
        own = [p[..., begin : begin + len(seeds), :].contiguous() for p in found]
        fits.append(Fit(model, own, chosen, plan, trainer.source.releasable))
        begin += len(seeds)
    return fits


def _plans_in_one_pass(
    train: TextGraph, runs: Sequence[tuple[Settings, Sequence[int]]], columns: Mapping[str, Any]
) -> list[PrivacyPlan]:
    """The plan of each of several runs that can share a pass; none if they cannot."""
    first = runs[0][0]
    plans = []
    for settings, _ in runs:
        privacy = settings.privacy
        if privacy is None or settings.training != first.training or len(runs) == 1:
            return []
        if settings.model != first.model or not privacy.reproducible:
            return []
        epochs = settings.training.epochs
        plans.append(
            make_plan(privacy, train, epochs=epochs, seed=settings.seed, columns=columns)
        )
    fixed = first.training.reach is None and not first.training.large_steps
    return plans if fixed and alike(plans) and side_by_side(plans[0]) else []


def _model(settings: Settings, train: TextGraph, module: nn.Module | None) -> AnyModel:
    width, classes = train.features.width, train.classes
    chosen = settings.model
    if module is not None and chosen.kind == "module":
        return ModuleModel.of(module, width, classes)
    if module is not None:
        raise ConfigError(
            f"A module of the user's own needs model.kind 'module'. Got '{chosen.kind}'."
        )
    return make_model(
        chosen.kind,
        width,
        classes,
        hidden=chosen.hidden,
        hops=chosen.hops,
        dropout=chosen.dropout,
    )


def _first_outputs(model: AnyModel, train: TextGraph) -> int:
    return model.layers[0].outputs if model.layers else train.classes


def _bias(shares: Tensor, settings: Settings) -> ClassBias:
    return ClassBias.of_shares(shares, balanced=settings.training.balanced)


def _takes_outline(train: TextGraph, settings: Settings) -> bool:
    """Whether the first release is the outline: a matter of settings and storage only."""
    training = settings.training
    return training.large_steps and (train.features.is_dense or training.balanced)


def _one_by_one(
    seeds: Sequence[int], folder: Path | None, fit_one: Callable[[int, Path | None], Fit]
) -> Fit:
    """Replicas that cannot share a pass."""
    places = [None if folder is None else folder / str(i) for i in range(len(seeds))]
    fits = [fit_one(seed, place) for seed, place in zip(seeds, places, strict=True)]

    def joined(pieces: Sequence[Tensor | None], dimension: int) -> Tensor | None:
        kept = [piece for piece in pieces if piece is not None]
        return torch.cat(kept, dimension) if kept else None

    parameters = [
        torch.cat(tensors, -2) for tensors in zip(*(f.parameters for f in fits), strict=True)
    ]
    bias = fits[0].bias
    if bias is not None:
        values = [f.bias.values for f in fits if f.bias is not None]
        bias = replace(bias, values=torch.cat(values))
    return replace(
        fits[0],
        parameters=parameters,
        path=joined([f.path for f in fits], -2),
        centre=joined([f.centre for f in fits], -1),
        bias=bias,
    )


def _public_step_size(train: TextGraph, plan: PrivacyPlan, model: AnyModel) -> int:
    """Multiplications of a step's largest product, about, from public numbers alone.

    How long a run takes may be seen, so how many words somebody writes must not set threads.
    """
    width = train.features.width
    words = width if train.features.is_dense else min(width, WORDS)
    return plan.units * words * _first_outputs(model, train)


def _private_trainer(
    model: AnyModel,
    train: TextGraph,
    plan: AnyPlan,
    settings: Settings,
    seeds: Sequence[int],
    device: torch.device,
    columns: Mapping[str, Any],
    checkpoint: Checkpoint | None,
    names: Tensor | None,
    team: Team | None,
) -> PrivateTrainer:
    state = None if checkpoint is None else checkpoint.load()
    begun = 0 if state is None else int(state["steps"])
    reproducible = settings.privacy is not None and settings.privacy.reproducible
    source: Draws
    masks: Draws
    if reproducible:
        source = seeded_draws(seeds, f"noise and samples from step {begun}", device)
        masks = seeded_draws(seeds, DROPOUT.format(begun), device)
    else:
        # Dropout masks are as secret as the noise: which of them a part gets depends on what
        # else was sampled, and on how many documents an owner has. Known masks would tell.
        source, masks = secret_draws(device), secret_draws(device)
    graph = cut_as_planned(train.to(device), plan, columns)
    short = settings.training.large_steps
    shared = None
    if team is not None:
        assert isinstance(plan, PrivacyPlan)  # experiments alone train several together
        if isinstance(model, ModuleModel):
            raise ConfigError(
                "A module of the user's own is trained in one process. Leave out torchrun."
            )
        task = Task(model, plan, seeds, begun, reproducible and model.dropout > 0, short)
        shared = SharedGradients(team, graph, task, device)
        graph = shared.graph
    outline = bias = None
    if _takes_outline(train, settings) and isinstance(plan, PrivacyPlan) and plan.steps > 1:
        if state:
            centre = state.get(CENTRE)
            outline = Outline(
                None if centre is None else centre.to(device), state[SHARES].to(device)
            )
        else:
            summed = clipped_outline if shared is None else shared.outline
            outline = released_outline(graph, plan, source.of_replica(0), summed)
        bias = _bias(outline.shares, settings).values
        if shared is not None:
            shared.begin(outline.centre, bias)
        elif outline.centre is not None:
            graph = graph.with_features(graph.features.centred(outline.centre[:, 0]))
    gradients: GradientSource
    if isinstance(model, ModuleModel):
        assert isinstance(plan, PrivacyPlan)
        gradients = ModuleGradients(model.fresh(), graph, plan, masks.of_replica(0))
    else:
        kind = StackGradients if device.type == "cpu" else DeviceGradients
        gradients = shared or kind(model, graph, plan, masks, short_residuals=short, bias=bias)
    first = model.initial(seeds, zero=len(model.layers) == 1)
    parameters = [parameter.to(device) for parameter in first]
    training = with_rate(settings.training, plan)
    names = None if names is None else names.to(device)
    trainer = PrivateTrainer(
        parameters, gradients, plan, training, source, outline=outline, names=names
    )
    if state is not None:
        trainer.optimiser.restore(state)
    return trainer


def training_device(train: TextGraph, settings: Settings, replicas: int) -> torch.device:
    """Where a run trains; ``auto`` takes what is faster, by public numbers alone.

    Raises:
        ConfigError: The settings name a device that is not there, or one for rows on disk.
    """
    name = check_device(settings.training.device)
    if settings.model.kind == "module":
        if name == "cuda":
            raise ConfigError(
                "The 'training.device' of a module of the user's own must be 'cpu'. Got "
                "'cuda'. Leave the device out."
            )
        return torch.device("cpu")
    on_disk = isinstance(train.features, RowsOnDisk)
    if on_disk and name == "cuda":
        raise ConfigError(
            "The 'training.device' of rows on disk must be 'cpu'. Got 'cuda'. Raise "
            "training.memory to what the rows take, in GiB, or leave the device out."
        )
    if name == "auto" and (on_disk or not cuda_is_there()):
        name = "cpu"
    if name == "auto":
        _, units = members_of(train, member_of(settings.privacy))
        width = train.features.width
        width = width if train.features.is_dense else min(width, WORDS)
        work = work_of(settings, units, replicas, width=width)
        name = "cpu" if settings.training.large_steps else faster_device(work, started=False)
    return torch.device(name)
