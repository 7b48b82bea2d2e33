"""Defects that the tests must notice, as exact edits of the source.

The first eleven are named by the project's specification; several of them are what the
paper's released code did. Every edit must match exactly once, so that a patch that no longer
fits fails loudly instead of testing nothing.
"""

# ruff: noqa: E501 (lines of the source, as they are there)

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One exact replacement in a file of the package."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Mutation:
    """A defect, and the tests of which at least one must fail with it."""

    name: str
    edits: tuple[Edit, ...]
    tests: tuple[str, ...]


def mutation(name: str, tests: str | tuple[str, ...], *edits: tuple[str, str, str]) -> Mutation:
    named = (tests,) if isinstance(tests, str) else tests
    return Mutation(name, tuple(Edit(*edit) for edit in edits), named)


CLIPPING = "tests/unit/privacy/test_clipping.py"
PARTS = "tests/unit/privacy/test_part_gradients.py"
MODULES = "tests/unit/privacy/test_module_gradients.py"
PARTITIONING = "tests/unit/privacy/test_partitioning.py"
NOISE = "tests/unit/privacy/test_noise.py"
SCHEDULE = "tests/unit/privacy/test_schedule.py"
CUT = "tests/unit/graph/test_partition.py"
CENTRE = "tests/unit/privacy/test_centre.py"
SEPARATE = "tests/unit/privacy/test_separate_sums.py"
ROUNDING = "tests/unit/privacy/test_rounding.py"
SENSITIVITY = "tests/unit/training/test_sensitivity.py"
FIT = "tests/unit/training/test_fit.py"
PRIVATE = "tests/unit/training/test_private.py"
WISHES = "tests/unit/training/test_wishes.py"
WALK = "tests/e2e/test_privacy_wishes.py"
TUNING = "tests/unit/estimator/test_tuning.py"
LOSS = "tests/e2e/test_privacy_loss.py"

_STEP = """        sums = self.gradients.clipped_sum(self.optimiser.parameters, self._samples(number))
        self.optimiser.step(noisy_mean(sums, self.plan, self.source))
"""
_NOISE = "    noise = source.normal([tensor.shape for tensor in sums], plan.noise_std)\n"
_SAMPLE = "        return source.choose(self.parts, self.sampling_probability)\n"
_SECRET = "        source, masks = RandomSource.secret(), RandomSource.secret()\n"

MUTATIONS: tuple[Mutation, ...] = (
    mutation(
        "no clipping",
        (
            f"{CLIPPING}::test_ten_clip_norms_leave_as_one_jointly_over_all_tensors",
            f"{SENSITIVITY}::test_the_worst_case_reaches_the_tables_value",
        ),
        (
            "privacy/scales.py",
            "    return torch.where(norms < BEYOND * clip_norm, scales, 0.0)\n",
            "    return torch.where(norms < BEYOND * clip_norm, torch.ones_like(scales), 0.0)\n",
        ),
    ),
    mutation(
        "clip each tensor apart",
        f"{CLIPPING}::test_ten_clip_norms_leave_as_one_jointly_over_all_tensors",
        (
            "privacy/clipping.py",
            "        method = method or self._cheapest(gradients)\n",
            """        if len(gradients) > 1 or gradients[0].bias_rows is not None:
            apart = []
            for inputs, outputs, bias in gradients:
                alone = [LayerGradient(inputs, outputs, None)]
                apart += self.clipped_sum(alone, included=included, method=method)
                if bias is not None:
                    alone = [LayerGradient(torch.ones_like(bias[..., :1]), bias, None)]
                    found = self.clipped_sum(alone, included=included, method=method)
                    apart += [tensor[0] for tensor in found]
            return apart
        method = method or self._cheapest(gradients)
""",
        ),
    ),
    mutation(
        "mask the loss but keep the edges",
        (
            f"{CUT}::test_no_link_crosses_parts_and_degrees_count_inside",
            f"{SENSITIVITY}::test_neighbours_move_the_sum_by_at_most_the_tables_value",
        ),
        (
            "graph/partition.py",
            "    edges = links_within(graph.edges, part_of)\n",
            "    edges = graph.edges\n",
        ),
    ),
    mutation(
        "visit every part once but account Poisson",
        f"{NOISE}::test_poisson_samples_are_independent_and_at_the_accounted_rate",
        ("privacy/schedule.py", _SAMPLE, "        return np.array([step % self.parts])\n"),
    ),
    mutation(
        "reuse one noise draw for same-shaped tensors",
        f"{NOISE}::test_every_tensor_gets_noise_of_its_own_in_every_step_and_replica",
        (
            "privacy/noise.py",
            _NOISE,
            """    shapes = {tuple(tensor.shape) for tensor in sums}
    by_shape = dict(zip(shapes, source.normal(list(shapes), plan.noise_std), strict=True))
    noise = [by_shape[tuple(tensor.shape)].clone() for tensor in sums]
""",
        ),
    ),
    mutation(
        "divide by the realised sample size",
        f"{NOISE}::test_the_divisor_is_the_expected_number_of_parts",
        (
            "training/private.py",
            _STEP,
            """        samples = self._samples(number)
        sums = self.gradients.clipped_sum(self.optimiser.parameters, samples)
        mean = noisy_mean(sums, self.plan, self.source)
        if samples is not None:
            share = self.plan.schedule.expected_parts / max(1, len(samples[0]))
            mean = [tensor * share for tensor in mean]
        self.optimiser.step(mean)
""",
        ),
    ),
    mutation(
        "2C accounted as C: replacing",
        (
            f"{SENSITIVITY}::test_the_worst_case_reaches_the_tables_value",
            f"{LOSS}::test_the_measured_loss_stays_under_the_claim_and_close_to_it"
            "[document-replace-each-all-1-2]",
        ),
        (
            "privacy/units.py",
            '    if relation == "replace":\n        return 2\n',
            '    if relation == "replace":\n        return 1\n',
        ),
    ),
    mutation(
        "2C accounted as C: removing from a shared part",
        f"{SENSITIVITY}::test_neighbours_move_the_sum_by_at_most_the_tables_value",
        (
            "privacy/units.py",
            '    return 1 if part_is_unit is True or unit in ("part", "graph") else 2\n',
            "    return 1\n",
        ),
    ),
    mutation(
        "a fixed-size sampler accounted as Poisson",
        f"{NOISE}::test_poisson_samples_are_independent_and_at_the_accounted_rate",
        (
            "privacy/schedule.py",
            _SAMPLE,
            """        size = round(self.parts * self.sampling_probability)
        return np.sort(np.argsort(source.words(self.parts))[:size])
""",
        ),
    ),
    mutation(
        "sampler and noise seeded from --seed in a releasable run",
        f"{NOISE}::test_two_releasable_runs_differ_in_noise_and_samples",
        (
            "training/fit.py",
            _SECRET,
            """        source = RandomSource.reproducible(seeds[0], "noise")
        source.releasable, masks = True, RandomSource.secret()
""",
        ),
    ),
    mutation(
        "class weights from all labels",
        (
            f"{PARTS}::test_each_replica_sums_its_own_sample",
            f"{PARTS}::test_one_document_moves_only_its_own_part",
        ),
        (
            "graph/partition.py",
            "        labelled = (self.labels >= 0).float()\n",
            """        counts = torch.bincount(self.labels.clamp(min=0), minlength=self.classes)
        labelled = (self.labels >= 0).float()
        labelled = labelled * len(self) / (1 + counts[self.labels.clamp(min=0)])
""",
        ),
    ),
    mutation(
        "one owner split over two parts",
        f"{PARTITIONING}::test_no_part_splits_an_owner",
        (
            "privacy/partitioning.py",
            "        part_of = random_parts(count, facts.parts, int(facts.seed or 0))[member]\n",
            "        part_of = random_parts(len(graph), facts.parts, int(facts.seed or 0))\n",
        ),
    ),
    # -- and more of the same kind -------------------------------------------------------
    mutation(
        "of two wishes for privacy the second is dropped",
        f"{WISHES}::test_two_wishes_for_privacy_that_contradict_each_other_are_refused",
        (
            "training/wishes.py",
            "            if name.startswith(PRIVACY) and",
            "            if False and",
        ),
    ),
    mutation(
        "a flag nobody typed stands above --set",
        f"{WALK}::test_a_seed_is_never_ignored",
        ("cli/tune.py", '        "seed": seed,\n', '        "seed": seed or 0,\n'),
    ),
    mutation(
        "a wish for privacy without an epsilon is dropped",
        f"{WISHES}::test_a_wish_for_privacy_without_an_epsilon_is_refused",
        (
            "training/recipes.py",
            "    private = [name for name in said if name.startswith(PRIVACY)]\n",
            "    private = [name for name in said if bounded and name.startswith(PRIVACY)]\n"
            "    said = said if bounded else {n: v for n, v in said.items() if PRIVACY not in n}\n",
        ),
    ),
    mutation(
        "the settings of a classifier cannot ask for more than its defaults",
        f"{WALK}::test_a_wish_for_privacy_reaches_the_run_or_is_refused",
        (
            "estimator/classifier.py",
            '            "privacy.relation": self.relation,\n',
            '            "privacy.relation": self.relation or "remove",\n',
        ),
    ),
    mutation(
        "a private run trains again for a baseline",
        "tests/unit/estimator/test_replicas.py::test_a_private_run_trains_once_on_private_documents",
        ("estimator/replicas.py", "    elif settings.privacy is None:\n", "    else:\n"),
    ),
    mutation(
        "a search changes what a part is",
        f"{TUNING}::test_what_decides_the_units_is_not_searched_over",
        ("estimator/tuning.py", "        _check_same_units(drafts)\n", ""),
    ),
    mutation(
        "dropout masks seeded from --seed in a releasable run",
        f"{NOISE}::test_no_part_of_a_releasable_run_is_seeded",
        (
            "training/fit.py",
            _SECRET,
            """        source = RandomSource.secret()
        masks = RandomSource.reproducible(seeds[0], "dropout")
""",
        ),
    ),
    mutation(
        "no noise on an empty sample",
        f"{NOISE}::test_an_empty_sample_still_adds_the_full_noise",
        (
            "training/private.py",
            _STEP,
            """        samples = self._samples(number)
        sums = self.gradients.clipped_sum(self.optimiser.parameters, samples)
        if samples is not None and not any(len(parts) for parts in samples):
            self.optimiser.step(sums)
        else:
            self.optimiser.step(noisy_mean(sums, self.plan, self.source))
""",
        ),
    ),
    mutation(
        "degrees counted before the cut",
        (
            f"{CUT}::test_no_link_crosses_parts_and_degrees_count_inside",
            f"{PARTS}::test_one_document_moves_only_its_own_part",
        ),
        (
            "graph/partition.py",
            "    return PartitionedGraph(\n        graph.features.select(order),\n        matrix,",
            """    if matrix is not None:
        ends = place[graph.edges].flatten()
        scale = (torch.bincount(ends, minlength=len(graph)) + 1).double().rsqrt()
        rows = torch.repeat_interleave(torch.arange(len(graph)), matrix.lengths)
        values = (scale[rows] * scale[matrix.columns]).float()
        matrix = SparseRows(matrix.offsets, matrix.columns, values, matrix.width)
    return PartitionedGraph(
        graph.features.select(order),
        matrix,""",
        ),
    ),
    mutation(
        "a part that is not finite poisons the sum",
        f"{CLIPPING}::test_a_part_that_is_not_finite_counts_as_zero",
        (
            "privacy/clipping.py",
            "        return rows * scales if everything else torch.where(kept, rows * scales, 0.0)\n",
            "        return rows * scales\n",
        ),
    ),
    mutation(
        "features that are not finite poison the sum",
        (
            f"{CLIPPING}::test_a_part_that_is_not_finite_counts_as_zero",
            f"{FIT}::test_no_document_can_spoil_the_model",
        ),
        (
            "privacy/clipping.py",
            "        return features.emptied(bad) if bool(bad.any()) else features\n",
            "        return features\n",
        ),
    ),
    mutation(
        "a tiny row becomes infinite when it is normalised",
        "tests/unit/graph/test_rows.py::test_normalising_never_makes_a_row_that_is_not_finite",
        (
            "graph/rows.py",
            "    return rows.scaled(torch.where(size > 0, 1.0 / size, 0.0))",
            "    return rows.scaled(torch.where(size > 0, 1.0 / size, 0.0).float())",
        ),
    ),
    mutation(
        "noise without the clip norm",
        f"{NOISE}::test_every_tensor_gets_noise_of_its_own_in_every_step_and_replica",
        ("privacy/noise.py", _NOISE, _NOISE.replace("noise_std", "noise_multiplier")),
    ),
    mutation(
        "noise divided by the number of parts twice",
        f"{NOISE}::test_every_tensor_gets_noise_of_its_own_in_every_step_and_replica",
        (
            "privacy/noise.py",
            _NOISE,
            _NOISE.replace("noise_std", "noise_std / plan.schedule.expected_parts"),
        ),
    ),
    mutation(
        "one noise draw for all replicas",
        f"{NOISE}::test_every_tensor_gets_noise_of_its_own_in_every_step_and_replica",
        (
            "privacy/noise.py",
            _NOISE,
            _NOISE
            + "    noise = [draw[..., :1, :].expand_as(draw).clone() for draw in noise]\n",
        ),
    ),
    mutation(
        "one noise draw for all steps",
        f"{NOISE}::test_every_tensor_gets_noise_of_its_own_in_every_step_and_replica",
        (
            "privacy/noise.py",
            _NOISE,
            """    if not hasattr(source, "drawn"):
        source.drawn = source.normal([tensor.shape for tensor in sums], plan.noise_std)
    noise = [draw.clone() for draw in source.drawn]
""",
        ),
    ),
    mutation(
        "one sample for all replicas",
        f"{NOISE}::test_poisson_samples_are_independent_and_at_the_accounted_rate",
        (
            "training/private.py",
            "            self.plan.schedule.sample(number, self.source.of_replica(replica))\n"
            "            for replica in range(self.replicas)\n"
            "        ]\n",
            "            self.plan.schedule.sample(number, self.source.of_replica(0))\n"
            "        ] * self.replicas\n",
        ),
    ),
    mutation(
        "an owner's documents choose the method of all",
        f"{PARTITIONING}::test_only_owners_have_private_sizes",
        ("privacy/partitioning.py", "sizes_public=not by_owner", "sizes_public=True"),
    ),
    mutation(
        "parts of private sizes are summed like others",
        f"{SEPARATE}::test_nobody_else_moves_when_an_owner_writes_more",
        (
            "privacy/part_gradients.py",
            "        kind = ClippedSums if self.graph.sizes_public else SeparateSums\n"
            "        return kind(self.graph, self.clip_norm, terms=self.graph.parts)\n",
            "        graph = replace(self.graph, sizes_public=True)\n"
            "        return ClippedSums(graph, self.clip_norm, terms=self.graph.parts)\n",
        ),
        (
            "privacy/part_gradients.py",
            "from collections.abc import Sequence\n",
            "from collections.abc import Sequence\nfrom dataclasses import replace\n",
        ),
    ),
    mutation(
        "who was sampled chooses the method of all",
        f"{SEPARATE}::test_who_is_sampled_moves_nobody_else",
        (
            "privacy/part_gradients.py",
            "        return SeparateSums(self.graph.select(parts), self.clip_norm, terms=self.graph.parts)\n",
            "        return ClippedSums(self.graph.select(parts), self.clip_norm, terms=self.graph.parts)\n",
        ),
    ),
    mutation(
        "a row's rounding depends on its neighbours",
        f"{SEPARATE}::test_other_owners_do_not_even_round_differently",
        (
            "privacy/part_gradients.py",
            "        separate = isinstance(block, SeparateSums)\n",
            "        separate = False\n",
        ),
    ),
    mutation(
        "the centre of owners is added up in blocks",
        f"{SEPARATE}::test_nobody_else_moves_the_centre",
        ("privacy/centre.py", "    if not graph.sizes_public:\n", "    if False:\n"),
    ),
    mutation(
        "seeds share one stream",
        f"{FIT}::test_a_seed_gives_the_same_run_whatever_trains_beside_it",
        (
            "training/fit.py",
            'SeededReplicas(seeds, f"noise and',
            'RandomSource.reproducible(seeds[0], f"noise and',
        ),
    ),
    mutation(
        "a resume reuses the noise",
        f"{NOISE}::test_noise_is_fresh_after_a_resume",
        ("training/fit.py", 'f"noise and samples from step {begun}"', '"noise and samples"'),
    ),
    mutation(
        "a resume takes all steps again",
        f"{NOISE}::test_noise_is_fresh_after_a_resume",
        (
            "training/optimisers.py",
            '        self.steps = int(state["steps"])\n',
            "        self.steps = 0\n",
        ),
    ),
    mutation(
        "float32 pair norms",
        (
            f"{CLIPPING}::test_float32_pairs_would_let_ten_clip_norms_through",
            f"{CLIPPING}::test_huge_rows_that_cancel_do_not_slip_through",
        ),
        (
            "privacy/pairs.py",
            "    taken = rows.double()[members.clamp(min=0)]\n",
            "    taken = rows[members.clamp(min=0)]\n",
        ),
        (
            "privacy/pairs.py",
            "                block = self.features.select(rows[rows >= 0]).dense()\n",
            "                block = self.features.select(rows[rows >= 0]).dense().float()\n",
        ),
        (
            "privacy/clipping.py",
            "        return (squares.clamp(min=0) + terms * ROUNDOFF * reach.square()).sqrt()\n",
            "        return squares.clamp(min=0).sqrt()\n",
        ),
    ),
    mutation(
        "each part sampled at twice the accounted rate",
        f"{NOISE}::test_poisson_samples_are_independent_and_at_the_accounted_rate",
        (
            "privacy/schedule.py",
            _SAMPLE,
            "        return source.choose(self.parts, min(1.0, 2 * self.sampling_probability))\n",
        ),
    ),
    mutation(
        "an epoch accounted as one pass",
        f"{NOISE}::test_the_epoch_schedule_visits_each_part_once_and_pays_for_it",
        (
            "privacy/schedule.py",
            '        return Composition(1.0, -(-require_count(steps, "steps", _OWNER) '
            "// self.parts))\n",
            "        return Composition(1.0, 1)\n",
        ),
    ),
    mutation(
        "more steps than the plan",
        f"{PRIVATE}::test_exactly_the_steps_of_the_plan",
        (
            "training/private.py",
            "        if number >= self.plan.steps:\n",
            "        if number > self.plan.steps:\n",
        ),
    ),
    mutation(
        "gradients of another clip norm than the plan's",
        f"{PRIVATE}::test_another_clip_norm_or_another_cut_than_the_plans_is_refused",
        (
            "training/private.py",
            "        if bound != plan.clip_norm or parts != plan.schedule.parts:\n",
            "        if parts != plan.schedule.parts:\n",
        ),
    ),
    mutation(
        "early stopping in a private run",
        f"{FIT}::test_early_stopping_is_refused_in_a_private_run",
        (
            "training/fit.py",
            "    if settings.training.patience > 0:\n",
            "    if settings.training.patience < 0:\n",
        ),
    ),
    mutation(
        "the partition follows the labels",
        f"{PARTITIONING}::test_content_has_no_say",
        (
            "privacy/partitioning.py",
            "        part_of = random_parts(count, facts.parts, int(facts.seed or 0))[member]\n",
            "        part_of = random_parts(count, facts.parts, int(facts.seed or 0))[member]\n"
            "        part_of = part_of[torch.argsort(graph.labels, stable=True)]\n",
        ),
    ),
    mutation(
        "a module remembers one part for the next",
        f"{MODULES}::test_a_layer_that_caches_its_links_does_not_carry_them_to_the_next_part",
        (
            "privacy/module_gradients.py",
            "        fresh = copy.deepcopy(self.module, parameters)\n",
            "        fresh = self.module\n",
        ),
    ),
    mutation(
        "a module with batch statistics",
        f"{MODULES}::test_statistics_over_several_parts_are_refused",
        (
            "privacy/module_gradients.py",
            "        if buffers:\n",
            "        if buffers and False:\n",
        ),
    ),
    mutation(
        "the centre of dense rows is not clipped",
        f"{CENTRE}::test_no_document_moves_the_sum_by_more_than_the_clip_norm",
        (
            "privacy/centre.py",
            "reach / (lengths * graph.sizes[graph.part_of_row])",
            "reach / graph.sizes[graph.part_of_row]",
        ),
    ),
    mutation(
        "the centre of dense rows has no noise",
        f"{CENTRE}::test_the_noise_is_the_plans",
        (
            "privacy/centre.py",
            "    (mean,) = noisy_mean([sums], plan, source)\n",
            "    mean = sums / plan.schedule.expected_parts\n",
        ),
    ),
    mutation(
        "the centre of dense rows is not counted",
        f"{CENTRE}::test_the_centre_is_one_of_the_plans_releases",
        (
            "training/private.py",
            "        return self.optimiser.steps + (0 if self.centre is None else 1)\n",
            "        return self.optimiser.steps\n",
        ),
    ),
    mutation(
        "a resumed run releases its centre again",
        f"{CENTRE}::test_a_resumed_run_keeps_its_centre",
        (
            "training/fit.py",
            "        centre = state[CENTRE].to(device) if state else released_centre(graph, plan, own)\n",
            "        centre = released_centre(graph, plan, own)\n",
        ),
    ),
    mutation(
        "dense rows are added up in float32",
        f"{ROUNDING}::test_no_document_moves_a_sum_of_gradients_further",
        (
            "graph/dense_rows.py",
            "        whole = len(table) - len(table) % BLOCK_ROWS\n",
            "        whole = 0\n",
        ),
    ),
    mutation(
        "sparse rows are added up in float32",
        f"{ROUNDING}::test_no_document_moves_a_sum_of_gradients_further",
        (
            "graph/rows.py",
            "        return total.index_add_(0, column, pieces.times(table).double())\n",
            "        return self.transposed().times(table).double()\n",
        ),
    ),
    mutation(
        "a sum is rounded before the noise is in",
        f"{ROUNDING}::test_a_sum_is_rounded_only_after_the_noise_is_in",
        (
            "privacy/noise.py",
            ".add_(tensor).mul_(share)",
            ".add_(tensor.float()).mul_(share)",
        ),
    ),
    mutation(
        "the slack of blocks is not paid",
        f"{ROUNDING}::test_the_slack_of_blocks_is_paid",
        (
            "privacy/scales.py",
            "    if blocked:\n",
            "    if blocked and False:\n",
        ),
    ),
    mutation(
        "modules add up in float32",
        f"{ROUNDING}::test_modules_add_up_in_float64",
        (
            "privacy/module_gradients.py",
            "torch.zeros_like(value, dtype=torch.float64)",
            "torch.zeros_like(value)",
        ),
    ),
)
