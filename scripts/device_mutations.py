"""Defects of steps on a device: draws, replays, slots and plans in one pass."""

from __future__ import annotations

from engine_mutations import CLIPPING
from symbol_changes import Mutation, behave, drop, mutation, swap

RANDOMNESS = "tests/unit/test_randomness.py"
RECORDING = "tests/unit/training/test_recording.py"
SLOTS = "tests/unit/privacy/test_device_gradients.py"

_ONCE = f"{RECORDING}::test_more_steps_than_are_drawn_ahead_draw_every_number_once"
_ONE_PASS = f"{RECORDING}::test_noise_levels_share_a_pass_and_each_gives_what_it_gives_alone"
_SUMS = f"{SLOTS}::test_slots_give_the_same_sums_to_the_bit"
_BESIDE = f"{SLOTS}::test_a_part_adds_the_same_bits_whatever_is_sampled_beside_it"

DEVICE: tuple[Mutation, ...] = (
    mutation(
        "a device draws once for all replicas",
        f"{RANDOMNESS}::test_on_a_device_a_seed_draws_its_own",
        behave(
            "DeviceReplicas._words",
            """
            def _words(self, replicas, count):
                words = self.original_words(replicas, count)
                return words[:1].expand_as(words).contiguous()
            """,
        ),
    ),
    mutation(
        "every step on a device gets the first step's draws",
        _ONCE,
        swap("_Stock.next", "self._at.add_(1)", "self._at.fill_(0)"),
    ),
    mutation(
        "numbers drawn ahead are used again",
        _ONCE,
        swap("_Stock.before_step", "place.copy_(fresh)", "place"),
    ),
    mutation(
        "a replay draws nothing new",
        _ONCE,
        swap("Recording.__call__", "each.before_replay(graph)", "None"),
    ),
    mutation(
        "a slot counts twice",
        (_SUMS, f"{SLOTS}::test_parts_without_links_and_of_other_sizes_too"),
        swap(
            "DeviceGradients.placed_sum",
            "total.index_add_(-2, slots.replicas, kept)",
            "total.index_add_(-2, slots.replicas, kept + kept)",
        ),
    ),
    mutation(
        "a slot that nobody uses counts",
        (_SUMS, _BESIDE),
        swap(
            "DeviceGradients.placed_sum",
            "torch.where(block.used[:, None], vector, 0.0)",
            "vector",
        ),
    ),
    mutation(
        "a slot takes the weights of another replica",
        _SUMS,
        swap(
            "DeviceGradients.placed_sum",
            "parameter.index_select(-2, slots.replicas)",
            "parameter.index_select(-2, slots.replicas.flip(0))",
        ),
    ),
    mutation(
        "the longest part chooses how another one is rounded",
        f"{CLIPPING}::test_empty_rows_that_fill_up_a_part_move_no_bit",
        swap("clipping:_multiplied_out", "upper_sums(lengths, most)", "upper_sums(lengths)"),
    ),
    mutation(
        "what fills up a part's links reaches its last row",
        f"{SLOTS}::test_the_links_of_another_part_move_no_bit",
        swap(
            "SlotLinks.times",
            "made.view(-1, self.rows + 1, width)[:, :-1]",
            "(lambda all: all[:, :-1] + 0.0 * all[:, -1:])"
            "(made.view(-1, self.rows + 1, width))",
        ),
    ),
    mutation(
        "slots of one replica get masks of another",
        f"{SLOTS}::test_with_dropout_a_seed_samples_and_drops_as_if_alone",
        swap(
            "SlotDraws.uniform_bytes",
            "self._slots.replicas",
            "self._slots.replicas * 0",
        ),
    ),
    mutation(
        "plans in one pass share the first one's noise",
        _ONE_PASS,
        swap(
            "PlansTogether.noise_multiplier",
            "plan.noise_multiplier",
            "self.plans[0].noise_multiplier",
        ),
    ),
    mutation(
        "plans in one pass share the first one's grid",
        _ONE_PASS,
        swap("PlansTogether.grid", "grid.step", "grids[0].step"),
    ),
    mutation(
        "plans that differ in more than noise share a pass",
        f"{RECORDING}::test_plans_that_differ_in_more_than_noise_share_no_pass",
        drop("PlansTogether.__post_init__", "if not alike(self.plans):\n    raise any_error"),
    ),
    mutation(
        "the number of documents chooses dense or sparse rows on a device",
        f"{SLOTS}::test_how_many_documents_people_have_does_not_choose_the_arithmetic",
        swap("DeviceGradients._stored", "self.plan.units * each", "rows.shape[0]"),
    ),
    mutation(
        "samples drawn ahead for one schedule serve another",
        f"{RANDOMNESS}::test_choices_made_ahead_for_another_number_are_not_used",
        swap("_ChoicesAhead.choose", "self._asked == (count, probability)", "self._asked"),
    ),
    mutation(
        "samples drawn ahead are those of one step",
        f"{RANDOMNESS}::test_choices_made_ahead_are_those_that_a_source_makes_one_by_one",
        swap("_ChoicesAhead._ahead", "flat[begin:end]", "flat[: steps[1]]"),
    ),
)
