"""Defects of the numeric engine: clipping, sums, noise, centre, rows and the trainer."""

from __future__ import annotations

from symbol_changes import Mutation, behave, drop, mutation, swap

CLIPPING = "tests/unit/privacy/test_clipping.py"
PARTS = "tests/unit/privacy/test_part_gradients.py"
MODULES = "tests/unit/privacy/test_module_gradients.py"
NOISE = "tests/unit/privacy/test_noise.py"
CENTRE = "tests/unit/privacy/test_centre.py"
EXACT = "tests/unit/privacy/test_exact_sums.py"
PROPERTIES = "tests/property/test_engine_properties.py"
SENSITIVITY = "tests/unit/training/test_sensitivity.py"
FIT = "tests/unit/training/test_fit.py"
PRIVATE = "tests/unit/training/test_private.py"
ROWS = "tests/unit/graph/test_rows.py"
ORDER = "tests/unit/training/test_order_of_releases.py"
ON_DISK = "tests/unit/training/test_on_disk.py"
SECRETS = "tests/unit/test_secret_draws.py"

_JOINTLY = f"{CENTRE}::test_no_document_moves_the_sum_by_more_than_the_clip_norm"
_FOLLOWS = (
    "tests/unit/training/test_public_facts.py"
    "::test_what_leaves_training_follows_from_its_releases"
)
_OWN_NOISE = f"{NOISE}::test_every_tensor_gets_noise_of_its_own_in_every_step_and_replica"
_SAMPLES = f"{NOISE}::test_poisson_samples_are_independent_and_at_the_accounted_rate"

_NOT_FINITE = f"{CLIPPING}::test_a_part_that_is_not_finite_counts_as_zero"
_NO_ORDER = f"{EXACT}::test_sums_have_no_order"
_BOUND = (
    f"{CLIPPING}::test_ten_clip_norms_leave_as_one_jointly_over_all_tensors",
    f"{PROPERTIES}::test_no_part_exceeds_the_bound_whatever_its_rows",
)
_UNCLIPPED = {
    "parts of one document": swap(
        "ClippedSums._small_scales",
        "(room / lengths).clamp_(max=1.0)",
        "lengths.isfinite().double()",
    ),
    "parts of few documents": swap(
        "ClippedSums._small_scales",
        "(room / norms).clamp_(max=1.0)",
        "norms.isfinite().double()",
    ),
    "parts of many documents": swap(
        "clipped_vectors",
        "(room * norms.reciprocal()).clamp_(max=1.0)",
        "norms.isfinite().double()",
    ),
}

ENGINE: tuple[Mutation, ...] = (
    mutation(
        "replicas one after another with the weights of the first",
        f"{PARTS}::test_replicas_of_many_documents_come_one_after_another",
        swap(
            "StackGradients._sum_of_all",
            "[p[..., own : own + 1, :] for p in parameters]",
            "[p[..., :1, :] for p in parameters]",
        ),
    ),
    mutation(
        "replicas one after another with the dropout of the first",
        f"{PARTS}::test_replicas_of_many_documents_come_one_after_another",
        swap("StackGradients._sum_of_all", "masks.of_replica(own)", "masks.of_replica(0)"),
    ),
    mutation(
        "no clipping",
        (
            f"{CLIPPING}::test_ten_clip_norms_leave_as_one_jointly_over_all_tensors",
            f"{SENSITIVITY}::test_the_worst_case_reaches_the_tables_value",
        ),
        *_UNCLIPPED.values(),
    ),
    *(
        mutation(f"{which} are not clipped", _BOUND, change)
        for which, change in _UNCLIPPED.items()
    ),
    mutation(
        "clip each tensor apart",
        f"{CLIPPING}::test_ten_clip_norms_leave_as_one_jointly_over_all_tensors",
        behave(
            "ClippedSums.clipped_sum",
            """
            def clipped_sum(self, gradients, *args, **options):
                if len(gradients) == 1 and gradients[0].bias_rows is None:
                    return self.original_clipped_sum(gradients, **options)
                apart = []
                for inputs, outputs, bias in gradients:
                    apart += self.clipped_sum([LayerGradient(inputs, outputs, None)], **options)
                    if bias is not None:
                        ones = torch.ones_like(bias[..., :1])
                        alone = [LayerGradient(ones, bias, None)]
                        apart += [one[0] for one in self.clipped_sum(alone, **options)]
                return apart
            """,
        ),
    ),
    mutation(
        "reuse one noise draw for same-shaped tensors",
        _OWN_NOISE,
        swap(
            "noisy",
            "source.normal([tensor.shape for tensor in sums])",
            "[draws[tensor.shape].clone() for draws in [{draw.shape: draw for draw in source"
            ".normal([tensor.shape for tensor in sums])}] for tensor in sums]",
        ),
    ),
    mutation(
        "divide by the realised sample size",
        f"{NOISE}::test_the_divisor_is_the_expected_number_of_parts",
        behave(
            "PrivateTrainer._samples",
            """
            def _samples(self, number):
                samples = self.original_samples(number)
                if samples is not None:
                    share = self.plan.schedule.expected_parts / max(1, len(samples[0]))
                    step = self.optimiser.__class__.step
                    self.optimiser.step = lambda mean: step(
                        self.optimiser, [tensor * share for tensor in mean]
                    )
                return samples
            """,
        ),
    ),
    mutation(
        "no noise on an empty sample",
        f"{NOISE}::test_an_empty_sample_still_adds_the_full_noise",
        behave(
            "noisy_mean",
            """
            def noisy_mean(sums, plan, source):
                if not any(bool(tensor.any()) for tensor in sums):
                    return [tensor.float() for tensor in sums]
                return original_noisy_mean(sums, plan, source)
            """,
        ),
    ),
    mutation(
        "a part that is not finite poisons the sum",
        _NOT_FINITE,
        swap(
            "ClippedSums._small_sum",
            "scaled if everything else torch.where(kept, scaled, 0.0)",
            "scaled",
        ),
    ),
    mutation(
        "a hidden row that is not finite poisons the sum",
        _NOT_FINITE,
        drop(
            "ClippedSums._small_sum",
            "if isinstance(inputs, Tensor) and not everything:\n"
            "    inputs = torch.where(kept, inputs, 0.0)",
        ),
    ),
    mutation(
        "a large part that is not finite poisons the sum",
        (_NOT_FINITE, f"{CLIPPING}::test_a_vector_that_no_scale_can_tame_is_zero"),
        swap("clipped_vectors", "torch.where(kept.view(own), made, 0.0)", "made"),
    ),
    mutation(
        "features that are not finite poison the sum",
        (_NOT_FINITE, f"{FIT}::test_no_document_can_spoil_the_model"),
        swap("ClippedSums.features", "rows.emptied(bad) if bool(bad.any()) else rows", "rows"),
    ),
    mutation(
        "a tiny row becomes infinite when it is normalised",
        f"{ROWS}::test_normalising_never_makes_a_row_that_is_not_finite",
        swap(
            "normalised",
            "torch.where(size > 0, 1.0 / size, 0.0)",
            "torch.where(size > 0, 1.0 / size, 0.0).float()",
        ),
    ),
    mutation(
        "a word that occurs twice in a row counts as two short ones",
        f"{ROWS}::test_doubled_columns_do_not_shorten_a_row",
        drop("SparseRows.from_scipy", "csr.sum_duplicates()"),
    ),
    mutation(
        "noise without the clip norm",
        _OWN_NOISE,
        swap("noisy_mean", "plan.noise_multiplier", "plan.noise_multiplier / plan.clip_norm"),
    ),
    mutation(
        "noise divided by the number of parts twice",
        _OWN_NOISE,
        swap(
            "noisy_mean",
            "plan.noise_multiplier",
            "plan.noise_multiplier / plan.schedule.expected_parts",
        ),
    ),
    mutation(
        "one noise draw for all replicas",
        _OWN_NOISE,
        swap(
            "noisy",
            "source.normal([tensor.shape for tensor in sums])",
            "[draw[..., :1, :].expand_as(draw).clone() for draw in"
            " source.normal([tensor.shape for tensor in sums])]",
        ),
    ),
    mutation(
        "one noise draw for all steps",
        _OWN_NOISE,
        swap(
            "noisy",
            "source.normal([tensor.shape for tensor in sums])",
            "[draw.clone() for draw in source.__dict__.setdefault('drawn',"
            " source.normal([tensor.shape for tensor in sums]))]",
        ),
    ),
    mutation(
        "every second draw is the one before, negated",
        f"{SECRETS}::test_no_draw_of_a_run_returns_not_even_negated",
        behave(
            "RandomSource.normal",
            """
            def normal(self, shapes):
                last = self.__dict__.pop("last", None)
                shapes = list(shapes)
                if last is not None and [draw.shape for draw in last] == shapes:
                    return [-draw for draw in last]
                self.last = self.original_normal(shapes)
                return [draw.clone() for draw in self.last]
            """,
        ),
    ),
    mutation(
        "a secret key with 24 bits of entropy",
        f"{SECRETS}::test_a_secret_key_has_far_more_than_32_bits_of_entropy",
        behave(
            "RandomSource.secret",
            """
            @classmethod
            def secret(cls):
                return cls(hashlib.sha256(os.urandom(3)).digest(), releasable=True)
            """,
        ),
    ),
    mutation(
        "all secret sources of a process share one key",
        (
            f"{SECRETS}::test_every_source_of_a_run_has_a_key_of_its_own",
            f"{FIT}::test_releasable_runs_of_one_seed_differ",
        ),
        behave(
            "RandomSource.secret",
            """
            @classmethod
            def secret(cls):
                key = cls.__dict__.get("key") or os.urandom(_KEY_BYTES)
                cls.key = key
                return cls(key, releasable=True)
            """,
        ),
    ),
    mutation(
        "every replica's samples begin the stream anew",
        _SAMPLES,
        behave(
            "SeededReplicas.of_replica",
            """
            def of_replica(self, number):
                return RandomSource.reproducible(number, "samples")
            """,
        ),
    ),
    mutation(
        "samples are drawn with one byte for each part",
        (
            "tests/unit/test_randomness.py::test_choose_never_rounds_a_probability_up",
            "tests/unit/test_randomness.py::test_choose_takes_each_index_independently",
        ),
        behave(
            "RandomSource.choose",
            """
            def choose(self, count, probability):
                threshold = math.ceil(probability * 256)
                return np.flatnonzero(self.uniform_bytes((count,)) < threshold)
            """,
        ),
    ),
    mutation(
        "one sample for all replicas",
        _SAMPLES,
        behave(
            "PrivateTrainer._samples",
            """
            def _samples(self, number):
                parts = self.plan.schedule.sample(number, self.source.of_replica(0))
                return None if parts is None else [parts] * self.replicas
            """,
        ),
    ),
    mutation(
        "float32 pair norms",
        f"{CLIPPING}::test_inner_products_of_pairs_keep_what_float32_would_lose",
        swap("_Block.products", "any_rows.double()", "any_rows.clone()"),
    ),
    mutation(
        "more steps than the plan",
        f"{PRIVATE}::test_exactly_the_steps_of_the_plan",
        swap("PrivateTrainer.step", "number >= self.plan.steps", "number > self.plan.steps"),
    ),
    mutation(
        "gradients of another clip norm than the plan's",
        f"{PRIVATE}::test_gradients_for_another_plan_or_another_cut_are_refused",
        swap("PrivateTrainer.__init__", "gradients.plan != plan", "False"),
    ),
    mutation(
        "a module remembers one part for the next",
        f"{MODULES}::test_a_layer_that_caches_its_links_does_not_carry_them_to_the_next_part",
        swap("ModuleGradients", "copy.deepcopy(self.module, any_memo)", "self.module"),
    ),
    mutation(
        "a module writes into the weights of all",
        f"{MODULES}::test_a_module_that_changes_weights_changes_nobody_elses",
        swap(
            "ModuleGradients._clipped",
            "value.clone().requires_grad_()",
            "value.requires_grad_()",
        ),
    ),
    mutation(
        "frozen weights of a module are shared by all parts",
        f"{MODULES}::test_a_module_that_changes_weights_changes_nobody_elses",
        swap(
            "ModuleGradients._clipped",
            "{id(held[name]): held[name] for name in own}",
            "{id(one): one for one in held.values()}",
        ),
    ),
    mutation(
        "a gradient that two weights of a module share is clipped twice",
        f"{MODULES}::test_weights_that_share_a_gradient_are_clipped_once",
        swap("clipped_vectors", "tensor * any_scales", "tensor.double().mul_(any_scales)"),
    ),
    mutation(
        "a module that changes its weights is taken",
        "tests/unit/models/test_module.py::test_a_module_that_changes_its_weights_is_refused",
        swap("_check_unchanged", "called.named_parameters()", "()"),
    ),
    mutation(
        "a module with batch statistics",
        f"{MODULES}::test_statistics_over_several_parts_are_refused",
        drop("check_module", "if kept:\n    raise any_error"),
    ),
    mutation(
        "a module brings a whole graph along",
        "tests/unit/models/test_module.py::test_tensors_that_could_be_documents_are_refused",
        swap("check_module", "any(_documents_in(value))", "False"),
    ),
    mutation(
        "a module draws its masks from the caller's seed",
        f"{MODULES}::test_the_masks_of_one_part_do_not_depend_on_which_others_were_sampled",
        swap("ModuleGradients._clipped", "self.dropout.words(1)[0]", "np.uint64(7)"),
    ),
    mutation(
        "a module draws from the generators of other libraries, part after part",
        f"{MODULES}::test_what_one_part_draws_from_other_libraries_moves_no_other_part",
        drop("_seed_generators", "np.random.seed([seed >> 32, seed & 0xFFFFFFFF])"),
    ),
    mutation(
        "what a module sets for the process stays set for the next part",
        f"{MODULES}::test_what_one_part_sets_for_the_process_moves_no_other_part",
        drop("settings_kept", "torch.set_default_dtype(dtype)"),
    ),
    mutation(
        "a part without a gradient ends the run",
        f"{MODULES}::test_a_part_without_a_gradient_adds_zero_and_sparse_gradients_are_taken",
        swap("gradients_of", "not loss.requires_grad", "False"),
    ),
    mutation(
        "a module changes the links of a part for good",
        f"{MODULES}::test_a_step_leaves_the_links_of_a_part_as_they_are",
        swap("ModuleGradients._clipped", "part.links.clone()", "part.links"),
    ),
    mutation(
        "a module whose copies share their memory is taken",
        "tests/unit/models/test_module.py::test_copies_that_share_memory_are_refused",
        drop("ModuleModel.of", "_check_copies(module, own)"),
    ),
    mutation(
        "the centre of dense rows is not clipped",
        f"{CENTRE}::test_no_document_moves_the_sum_by_more_than_the_clip_norm",
        swap(
            "clipped_outline",
            "sums.clipped_sum(any_vectors, included=chosen)",
            "[block.features.dense().double().sum(0)[:, None, None],"
            " *sums.clipped_sum(any_vectors[1:], included=chosen)]",
        ),
    ),
    mutation(
        "rows on disk: a block counts parts that were not sampled",
        f"{ON_DISK}::test_replicas_count_their_own_samples",
        swap(
            "StackGradients._sum_of_blocks",
            "self._sum(block, parameters, mask)",
            "self._sum(block, parameters, None)",
        ),
    ),
    mutation(
        "rows on disk: norms of the first step are forgotten",
        f"{ON_DISK}::test_rows_are_prepared_once",
        swap("StackGradients._block", "own_squares[:, 0]", "0 * own_squares[:, 0]"),
    ),
    mutation(
        "rows on disk: the road follows how many documents people have",
        "tests/unit/runs/test_beyond_memory.py::"
        "test_how_many_documents_people_have_does_not_choose_the_road",
        swap(
            "graph_of",
            "len(corpus.owner_names or ()) * DOCUMENTS_EACH if person else len(corpus)",
            "len(corpus)",
        ),
    ),
    mutation(
        "rows on disk: files that others could find",
        "tests/unit/data/test_scratch.py::"
        "test_a_scratch_file_has_no_name_and_no_rights_for_others",
        swap(
            "Scratch.__init__",
            "tempfile.TemporaryFile()",
            "tempfile.NamedTemporaryFile(delete=False)",
        ),
    ),
    mutation(
        "the centre of dense rows has no noise",
        f"{CENTRE}::test_the_noise_is_the_plans",
        swap(
            "released_outline",
            "noisy_mean(sums, plan, source)",
            "[(total * plan.clip_norm / plan.schedule.expected_parts).float()"
            " for total in sums]",
        ),
    ),
    mutation(
        "the centre of dense rows is not counted",
        f"{CENTRE}::test_the_centre_is_one_of_the_plans_releases",
        behave(
            "PrivateTrainer.released",
            """
            @property
            def released(self):
                return self.optimiser.steps
            """,
        ),
    ),
    mutation(
        "the centre is shrunk by what the rows truly have in common",
        _FOLLOWS,
        swap(
            "released_outline",
            "_shrunk(any_mean, any_noise)",
            "any_mean * float((sums[0] / plan.schedule.expected_parts).norm())",
        ),
    ),
    mutation(
        "class shares of sparse rows are not counted among the releases",
        f"{CENTRE}::test_the_shares_of_sparse_rows_are_one_of_the_plans_releases",
        swap(
            "PrivateTrainer.released",
            "self.outline is None",
            "self.outline is None or self.outline.centre is None",
        ),
    ),
    mutation(
        "class shares without noise",
        f"{CENTRE}::test_the_noise_of_shares_is_the_plans",
        swap(
            "released_outline",
            "noisy_mean(sums, plan, source)",
            "[*noisy_mean(sums[:-1] or sums, plan, source)[:len(sums) - 1],"
            " (sums[-1] * plan.clip_norm / plan.schedule.expected_parts).float()]",
        ),
    ),
    mutation(
        "class shares released a second time",
        f"{CENTRE}::test_the_centre_is_one_of_the_plans_releases",
        swap(
            "released_outline",
            "noisy_mean(sums, plan, source)",
            "[*noisy_mean(sums[:-1], plan, source), *noisy_mean(sums[-1:], plan, source)]",
        ),
    ),
    mutation(
        "rows and labels clipped one by one",
        _JOINTLY,
        swap(
            "clipped_outline",
            "sums.clipped_sum(any_vectors, included=chosen)",
            "[each for layer in any_vectors for each in"
            " sums.clipped_sum([layer], included=chosen)]",
        ),
        swap("centre:_lengths", "(ROW, LABEL)", "(1.0, 1.0)"),
    ),
    mutation(
        "labels are added without a clip",
        _JOINTLY,
        swap(
            "clipped_outline",
            "sums.clipped_sum(any_vectors, included=chosen)",
            "[*sums.clipped_sum(any_vectors[:-1], included=chosen),"
            " any_vectors[-1][1].double().sum(0)[None] * 1.5 / plan.clip_norm]",
        ),
    ),
    mutation(
        "each document of an owner adds a label of its own",
        f"{CENTRE}::test_a_label_counts_as_much_as_its_share_of_an_owner",
        swap(
            "centre:_vectors",
            "any_length * graph.loss_weights",
            "any_length * (graph.loss_weights > 0)",
        ),
    ),
    mutation(
        "the classes begin from their true shares",
        _FOLLOWS,
        swap(
            "released_outline",
            "Outline(centre, shares / shares.sum(1, keepdim=True))",
            "Outline(centre, sums[-1].float() / sums[-1].float().sum(1, keepdim=True) + 1e-3)",
        ),
    ),
    mutation(
        "a model that fits its documents badly is shrunk",
        _FOLLOWS,
        behave(
            "PrivateTrainer.run",
            """
            def run(self, progress=None, checkpoint=None):
                made = self.original_run(progress, checkpoint)
                graph = self.gradients.graph
                scores = self.gradients.model.scores(made, graph.features, graph.matrix)
                right = scores[:, 0].argmax(-1) == graph.labels
                return made if float(right.double().mean()) > 0.2 else [0.5 * p for p in made]
            """,
        ),
    ),
    mutation(
        "under epoch, a centre that sees all parts",
        f"{ORDER}::test_under_epoch_the_centre_sees_the_first_part_only",
        swap("released_outline", "plan.schedule.sample(0, source)", "None"),
    ),
    mutation(
        "after a centre, epoch begins again with part 0",
        f"{ORDER}::test_under_epoch_no_part_is_used_more_often_than_accounted",
        swap("PrivateTrainer.step", "number = self.released", "number = self.optimiser.steps"),
        swap("PrivateTrainer.step", "number >= any_steps", "self.released >= any_steps"),
    ),
    mutation(
        "after a resume, epoch begins again with part 0",
        f"{ORDER}::test_under_epoch_no_part_is_used_more_often_than_accounted",
        behave(
            "PrivateTrainer._samples",
            """
            def _samples(self, number):
                self.begun = self.__dict__.get("begun", self.optimiser.steps)
                return self.original_samples(number - self.begun)
            """,
        ),
    ),
    mutation(
        "a checkpoint keeps the sum without noise",
        "tests/unit/training/test_checkpoint.py"
        "::test_a_state_holds_no_random_source_and_nothing_of_the_documents",
        behave(
            "PrivateTrainer._state",
            """
            def _state(self):
                sums = self.gradients.clipped_sum(self.optimiser.parameters, None)
                return {**self.original_state(), "sums": sums[0].float()}
            """,
        ),
    ),
    mutation(
        "dense rows are added up in float32",
        (f"{EXACT}::test_no_document_moves_a_treacherous_sum_further", _NO_ORDER),
        behave(
            "DenseRows.transposed_times",
            """
            def transposed_times(self, table):
                return self.original_transposed_times(table.float()).double()
            """,
        ),
    ),
    mutation(
        "sparse rows are added up in float32",
        (f"{EXACT}::test_no_document_moves_a_treacherous_sum_further", _NO_ORDER),
        behave(
            "SparseRows.transposed_times",
            """
            def transposed_times(self, table):
                return self.original_transposed_times(table.float()).double()
            """,
        ),
    ),
    mutation(
        "a sum is rounded before the noise is in",
        f"{NOISE}::test_rounding_commutes_with_adding_a_grid_value",
        swap("noisy", "any_draw.add_(tensor)", "any_draw.add_(tensor.float())"),
    ),
    mutation(
        "modules add up in float32",
        f"{EXACT}::test_modules_add_up_on_the_grid",
        swap(
            "ModuleGradients",
            "torch.zeros_like(parameter, dtype=torch.float64)",
            "torch.zeros_like(parameter)",
        ),
    ),
)
