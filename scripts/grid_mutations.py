"""Defects of the grid: whatever would let the bits of a release tell more than its value."""

from __future__ import annotations

from engine_mutations import CLIPPING, EXACT, NOISE, PARTS, PROPERTIES, ROWS
from symbol_changes import Mutation, behave, drop, mutation, swap

RANDOMNESS = "tests/unit/test_randomness.py"
ATTACK = "tests/e2e/test_bit_attack.py"

_ON_GRID = f"{NOISE}::test_noise_and_sums_fit_on_the_grid"
_WORDS = f"{RANDOMNESS}::test_the_lowest_bits_of_radius_and_angle_count"
_BOUND = f"{PROPERTIES}::test_no_part_exceeds_the_bound_whatever_its_rows"
_NO_ORDER = f"{EXACT}::test_sums_have_no_order"
_CANCEL = f"{EXACT}::test_rows_that_cancel_leave_others_their_last_bit"
_MORE = f"{EXACT}::test_nobody_else_moves_when_an_owner_writes_more"
_LOUD = f"{EXACT}::test_nobody_else_moves_when_a_document_is_loud"
_SAMPLED = f"{EXACT}::test_parts_add_up_to_the_bit_however_they_are_sampled"
_OWN_PRODUCT = f"{EXACT}::test_a_rows_product_is_its_own"
_OWN_CUT = f"{ROWS}::test_rows_are_cut_toward_zero_each_on_its_own_grid"

_NOISE_STEPS = "any_draw.mul_(scale).add_(0.5).floor_().mul_(grid.step)"
_EVERYTHING = "ClippedSums(self.graph, any_norm, grid_of(self.plan))"


def _grid_of(number: str) -> str:
    """Clipped sums of everything, on a grid for ``number`` parts."""
    step = f"type(grid_of(self.plan)).of(self.plan.noise_multiplier, {number})"
    return f"ClippedSums(self.graph, any_norm, {step})"


GRID: tuple[Mutation, ...] = (
    # -- noise ------------------------------------------------------------------------------
    mutation(
        "float32 noise",
        (
            f"{ATTACK}::test_no_step_of_any_run_tells_the_document[sparse]",
            f"{ATTACK}::test_a_release_does_not_tell_the_document[8.0-toy]",
        ),
        swap("noisy", _NOISE_STEPS, "any_draw.mul_(noise_multiplier).float().double()"),
    ),
    mutation(
        "float32 draws, rounded to the grid",
        f"{RANDOMNESS}::test_radius_and_angle_have_all_their_bits",
        behave(
            "RandomSource.normal",
            """
            def normal(self, shapes):
                return [draw.float().double() for draw in self.original_normal(shapes)]
            """,
        ),
    ),
    mutation(
        "noise is not rounded to the grid",
        _ON_GRID,
        swap("noisy", _NOISE_STEPS, "any_draw.mul_(noise_multiplier)"),
    ),
    mutation(
        "noise is rounded half to even",
        f"{NOISE}::test_rounding_commutes_with_adding_a_grid_value",
        swap("noisy", "any_draw.add_(0.5).floor_()", "any_draw.round_()"),
    ),
    mutation(
        "noise is rounded toward zero",
        f"{NOISE}::test_rounding_commutes_with_adding_a_grid_value",
        swap("noisy", "any_draw.add_(0.5).floor_()", "any_draw.trunc_()"),
    ),
    mutation(
        "noise is added before the sum is on the grid",
        (_BOUND, _NO_ORDER),
        swap("ClippedSums._small_sum", "rounded(rows, unit, scales)", "rows * scales"),
        swap("clipped_vectors", "any_steps.round_()", "any_steps"),
        swap(
            "noisy",
            f"{_NOISE_STEPS}.to(tensor.device).add_(tensor)",
            "rounded(any_draw.mul_(noise_multiplier).to(tensor.device).add_(tensor),"
            " grid.step)",
        ),
        swap(
            "noisy",
            "scale = noise_multiplier / grid.step",
            "from privgcn.graph.exact import rounded",
        ),
    ),
    mutation(
        "an angle of 32 bits",
        _WORDS,
        swap(
            "_gaussians",
            "words[:, pairs:] >> np.uint64(11)",
            "words[:, pairs:] >> np.uint64(32) << np.uint64(21)",
        ),
    ),
    mutation(
        "a radius of 32 bits",
        (_WORDS, f"{RANDOMNESS}::test_the_tail_reaches_as_far_as_it_says"),
        swap(
            "_gaussians",
            "radial = words[:, :pairs]",
            "radial = (words[:, :pairs] >> np.uint64(32) << np.uint64(32)) + np.uint64(2**31)",
        ),
    ),
    mutation(
        "a fork goes on with the noise of its parent",
        f"{RANDOMNESS}::test_nothing_is_drawn_after_a_fork",
        swap("RandomSource.words", "os.getpid() != self._process", "False"),
    ),
    mutation(
        "the centre has noise of its own making",
        f"{ATTACK}::test_a_centre_does_not_tell_the_document",
        swap(
            "released_outline",
            "noisy_mean(sums, plan, source)",
            "[(total + plan.noise_multiplier * source.normal([total.shape])[0]).float()"
            " * (plan.clip_norm / plan.schedule.expected_parts) for total in sums]",
        ),
    ),
    # -- the step ---------------------------------------------------------------------------
    mutation(
        "a step that leaves sums no room",
        (_ON_GRID, _CANCEL),
        swap("noise_grid:Grid.of", "min(for_noise, for_sums, for_terms)", "for_noise"),
    ),
    mutation(
        "a step that is coarse beside the noise",
        _ON_GRID,
        swap(
            "noise_grid:Grid.of",
            "min(for_noise, for_sums, for_terms)",
            "min(for_noise, for_sums, for_terms) - 24",
        ),
    ),
    mutation(
        "a step that follows the number of documents",
        _MORE,
        swap("StackGradients._everything", _EVERYTHING, _grid_of("len(self.graph)")),
    ),
    mutation(
        "a step that follows the number of labels",
        _MORE,
        swap(
            "StackGradients._everything",
            _EVERYTHING,
            _grid_of("int((self.graph.labels >= 0).sum())"),
        ),
    ),
    mutation(
        "a step that follows who was sampled",
        _MORE,
        swap(
            "ClippedSums.select",
            "ClippedSums(any_graph, any_norm, self.grid, any_rows)",
            "ClippedSums(any_graph, any_norm, type(self.grid)("
            "self.grid.bits + (self.graph.parts // len(parts)).bit_length() - 1,"
            " self.grid.input_bits), any_rows)",
        ),
    ),
    # -- rows and sums ----------------------------------------------------------------------
    mutation(
        "rows of small parts are not rounded to the grid",
        (_BOUND, _NO_ORDER),
        swap("ClippedSums._small_sum", "rounded(rows, unit, scales)", "rows.double() * scales"),
    ),
    mutation(
        "output rows are rounded as if all input rows were of one size",
        (_BOUND, _NO_ORDER),
        swap("ClippedSums._small_sum", "self.grid.output_step / powers", "self.grid.step"),
    ),
    mutation(
        "rows are rounded to halves of their unit",
        (_BOUND, _NO_ORDER),
        swap(
            "exact:rounded",
            "any_unit * _UNIT_IS_LAST_DIGIT",
            "any_unit * 0.5 * _UNIT_IS_LAST_DIGIT",
        ),
    ),
    mutation(
        "pairs of rows below 2^-100 count as zero",
        f"{CLIPPING}::test_rows_below_the_usual_range_count_beside_inputs_above_it",
        swap(
            "powers_above", "any_powers.clamp_(min=least)", "any_powers.clamp_(min=2.0**-100)"
        ),
    ),
    mutation(
        "the grid leaves rounding no room",
        f"{CLIPPING}::test_rows_that_cancel_lie_on_the_finest_grid",
        swap("noise_grid:Grid.of", "EXACT_BITS - 1 - any_digits", "EXACT_BITS"),
    ),
    mutation(
        "a bias gets the rows that travelled along the links",
        f"{PARTS}::test_each_replica_sums_its_own_sample",
        swap("_widened", "bias_rows.double()", "wide"),
    ),
    mutation(
        "features are not cut to the grid",
        _BOUND,
        swap("StackGradients.__init__", "any_features.on_grid(any_bits)", "any_features"),
        swap("ClippedSums.features", "any_rows.on_grid(any_bits)", "any_rows"),
    ),
    mutation(
        "hidden rows are not cut to the grid",
        _BOUND,
        swap("rows_on_grid", "any_values.floor_()", "any_values"),
    ),
    mutation(
        "the vector of a large part is not rounded to the grid",
        (_BOUND, f"{CLIPPING}::test_a_vector_lies_on_the_grid_and_is_no_longer"),
        swap("clipped_vectors", "any_steps.round_()", "any_steps"),
    ),
    mutation(
        "a large part is added up as it comes",
        _CANCEL,
        swap(
            "ClippedSums._large_sum",
            "rounded(outputs[large.rows], any_unit)",
            "outputs[large.rows].double()",
        ),
    ),
    mutation(
        "the room for rounding is not paid in small parts",
        _BOUND,
        swap("ClippedSums._room", "1.0 - _ROUNDING - excess", "1.0 - _ROUNDING"),
    ),
    mutation(
        "the room for rounding is not paid in large parts",
        _BOUND,
        swap(
            "clipped_vectors",
            "1.0 - _ROUNDING - 0.5 * entries**0.5 * grid.step",
            "1.0 - _ROUNDING",
        ),
    ),
    mutation(
        "the room for pairs that cancel is not paid",
        (
            f"{CLIPPING}::test_huge_rows_that_cancel_do_not_slip_through",
            f"{CLIPPING}::test_float32_pairs_would_let_ten_clip_norms_through",
        ),
        swap(
            "ClippedSums._small_scales",
            "squares.clamp(min=0) + 2 * lost * own",
            "squares.clamp(min=0)",
        ),
        swap(
            "ClippedSums._small_scales",
            "(squares + terms * _UNIT_ROUNDOFF * reach.square()).sqrt_() + lost * reach",
            "squares.sqrt_()",
        ),
        swap("ClippedSums._small_scales", "torch.maximum(norms, reach / MOST_REACH)", "norms"),
    ),
    mutation(
        "the digits that pairs leave out are not paid",
        f"{CLIPPING}::test_digits_that_pairs_leave_out_are_paid_for",
        swap("_digits_lost", "float(any_share)", "0.0"),
    ),
    mutation(
        "rows that cancel may be as large as they like",
        f"{EXACT}::test_rows_that_cancel_have_no_order",
        swap("ClippedSums._small_scales", "torch.maximum(norms, reach / MOST_REACH)", "norms"),
    ),
    # -- somebody else's numbers ------------------------------------------------------------
    mutation(
        "dense rows share one power of two",
        (_OWN_CUT, _LOUD),
        swap("DenseRows.powers", "row_powers(any_rows)", "row_powers(any_rows).amax(0)[None]"),
        swap("DenseRows.on_grid", "self.powers[:, None]", "self.powers[:1, None]"),
    ),
    mutation(
        "threads divide the sum of a row that is alone",
        "tests/unit/graph/test_rows.py"
        "::test_a_long_row_does_not_tell_whether_others_come_after_it",
        swap(
            "DenseRows.row_sums",
            "rows.sum(1) if len(rows) > 1 else rows.repeat(2, 1).sum(1)[:1]",
            "rows.sum(1)",
        ),
    ),
    mutation(
        "sparse rows share one power of two",
        (_OWN_CUT, _LOUD),
        swap(
            "SparseRows.powers",
            "powers_above(most)",
            "powers_above(most).amax().expand(len(most)).contiguous()",
        ),
    ),
    mutation(
        "hidden rows share one power of two",
        (_NO_ORDER, _SAMPLED),
        swap("rows_on_grid", "row_powers(rows)", "row_powers(rows).amax(0, keepdim=True)"),
    ),
    mutation(
        "replicas share one power of two",
        _NO_ORDER,
        swap("rows_on_grid", "row_powers(rows)", "row_powers(rows).amax(-2, keepdim=True)"),
    ),
    mutation(
        "the weights of all replicas share one power of two",
        _OWN_PRODUCT,
        swap("exact_weights", "any_weights.amax((0, 2), keepdim=True)", "any_weights.amax()"),
    ),
    mutation(
        "large parts share one unit",
        _LOUD,
        swap("ClippedSums._units", "powers_above(reach)", "powers_above(reach.sum(0)[None])"),
        swap(
            "ClippedSums._large_sum",
            "units[large.parts][large.part_of_row]",
            "units[large.part_of_row * 0]",
        ),
    ),
    mutation(
        "one large part chooses the method of all",
        _MORE,
        swap(
            "ClippedSums._large",
            "sizes > _MOST_IN_PAIRS",
            "sizes.max().expand_as(sizes) > _MOST_IN_PAIRS",
        ),
    ),
    mutation(
        "features are multiplied in float32",
        _OWN_PRODUCT,
        swap(
            "stack:product",
            "product(inputs, exact_weights(weight, bits))",
            "product(inputs, weight)",
        ),
    ),
    mutation(
        "hidden rows are multiplied in float32",
        f"{EXACT}::test_a_hidden_rows_product_is_its_own",
        swap(
            "stack:product",
            "product(inputs.values, exact_weights(weight, inputs.bits))",
            "product(inputs.values.float(), weight)",
        ),
    ),
    mutation(
        "weights have more digits than exact products leave",
        f"{EXACT}::test_a_product_that_cancels_has_no_order",
        swap("exact_weights", "min(24, product_bits(len(weight)) - bits)", "52"),
    ),
    mutation(
        "biases are rounded by the largest of all",
        (_LOUD, f"{PARTS}::test_one_document_moves_only_its_own_part"),
        swap(
            "ClippedSums._small_sum",
            "on_grid(bias_rows, self.grid.step)",
            "on_grid(bias_rows, self.grid.step * powers_above(bias_rows.abs().amax()))",
        ),
    ),
    mutation(
        "without any link products are not exact",
        f"{EXACT}::test_the_only_link_of_all_moves_no_other_part",
        swap(
            "LayerStack.forward",
            "product(inputs[-1], weight, bits=bits)",
            "product(inputs[-1], weight, bits=None if matrix is None else bits)",
        ),
    ),
    mutation(
        "large parts count for replicas that did not sample them",
        (_NO_ORDER, _SAMPLED),
        drop(
            "clipped_vectors",
            "if included is not None:\n"
            "    scales = torch.where(included[..., None], scales, 0.0)",
        ),
    ),
    mutation(
        "small parts count for replicas that did not sample them",
        (_NO_ORDER, _SAMPLED),
        drop(
            "ClippedSums._small_sum",
            "if included is not None:\n    scales = torch.where(included, scales, 0.0)",
        ),
    ),
    # -- what had survived ------------------------------------------------------------------
    mutation(
        "a step finer than float64 noise is accurate",
        f"{NOISE}::test_noise_is_accurate_far_below_the_step",
        swap("privacy.mechanism.noise_grid:_NOISE_BITS", "32", "44"),
    ),
    mutation(
        "a step for the expected number of parts",
        f"{NOISE}::test_every_part_at_once_fits_on_a_plans_grid",
        swap("grid_of", "plan.schedule.parts", "int(plan.schedule.expected_parts)"),
    ),
    mutation(
        "a long vector pays for the rounding of a short one",
        f"{CLIPPING}::test_rounding_a_long_vector_to_a_coarse_grid_is_paid_for",
        swap("clipped_vectors", "entries**0.5", "min(entries, 512.0) ** 0.5"),
    ),
    mutation(
        "a norm that threads add up",
        f"{CLIPPING}::test_how_many_threads_add_up_a_norm_moves_no_bit",
        swap("_joint_norms", "upper_sums(any_rows)", "any_rows.sum(0)"),
    ),
)
