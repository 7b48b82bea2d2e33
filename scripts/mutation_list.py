"""Defects that the tests must notice, each a change of a named symbol.

Eleven (some of them with the engine's) are named by the project's specification; several are
what the paper's released code did. The others follow a document on its way: what is read
before the plan, wishes, randomness, accounting, checkpoints, statements, releases, searches
and predictions. The engine, its grid and steps on a device have modules of their own.
"""

from __future__ import annotations

from device_mutations import DEVICE
from engine_mutations import ENGINE, FIT, NOISE, ORDER, PARTS, SECRETS, SENSITIVITY
from grid_mutations import GRID
from symbol_changes import Mutation, behave, drop, mutation, swap

PARTITIONING = "tests/unit/privacy/test_cutting.py"
CUT = "tests/unit/graph/test_parts.py"
LOSS = "tests/e2e/test_privacy_loss.py"
PUBLIC = "tests/unit/training/test_public_facts.py"
PLANNING = "tests/unit/training/test_planning.py"
CHECKPOINT = "tests/unit/training/test_checkpoint.py"
SHARED = "tests/unit/training/test_shared_parts.py"
RANKS = "tests/e2e/test_ranks.py"
REGISTRY = "tests/unit/features/test_registry.py"
FOLDER = "tests/unit/data/test_folder.py"
SPLITS = "tests/unit/data/test_splits.py"
PLAN = "tests/unit/privacy/test_plan.py"
ACCOUNTING = "tests/unit/privacy/test_epsilon.py"
RENYI = "tests/unit/privacy/test_renyi.py"
CALIBRATION = "tests/unit/privacy/test_calibration.py"
SELECTION = "tests/unit/privacy/test_selection.py"
SEARCH = "tests/unit/privacy/test_paid_search.py"
LEDGER = "tests/unit/privacy/test_ledger.py"
LEDGER_FILE = "tests/unit/privacy/test_ledger_file.py"
STATEMENT = "tests/unit/privacy/test_statement.py"
VERIFY = "tests/unit/runs/test_verify.py"
REPLICAS = "tests/unit/runs/test_replicas.py"
PREDICT = "tests/unit/runs/test_predictions.py"
CLAIMS = "tests/unit/runs/test_assumptions.py"
DISK = "tests/unit/runs/test_neighbours_on_disk.py"
TUNING = "tests/unit/runs/test_tune.py"
SECRET_RUNS = "tests/unit/runs/test_secret_runs.py"
INFERENCE = "tests/unit/prediction/test_inference.py"
CLASSIFIER = "tests/contract/test_classifier.py"
TRAIN_CLI = "tests/e2e/test_train_cli.py"
TUNE_CLI = "tests/e2e/test_tune_cli.py"
WISHED = "tests/unit/training/test_wishes.py"
WALK = "tests/e2e/test_privacy_wishes.py"

_SAMPLES = f"{NOISE}::test_poisson_samples_are_independent_and_at_the_accounted_rate"
_PUBLIC_FACTS = f"{PUBLIC}::test_only_public_facts_decide_what_training_begins_with"
_ALIKE = f"{DISK}::test_neighbours_differ_on_disk_in_what_was_released_and_nothing_else"
_COVERAGE = f"{CLAIMS}::test_only_predictions_that_see_no_training_document_are_covered"
_LABELS = f"{CLAIMS}::test_classes_read_off_the_labels_are_named_on_every_road"
_BOUNDS_RUNS = f"{TUNING}::test_runs_are_drawn_made_and_scored_as_the_bound_assumes"
_SCORES_STAY = (
    f"{REPLICAS}::test_training_documents_move_no_score_but_those_that_are_not_covered"
)
_LAW = f"{SECRET_RUNS}::test_the_number_of_runs_follows_its_law_and_every_candidate_its_chance"
_SCORE_GRID = f"{TUNING}::test_a_private_score_lies_on_its_grid"

PARTITION: tuple[Mutation, ...] = (
    mutation(
        "mask the loss but keep the edges",
        (
            f"{CUT}::test_no_link_crosses_parts_and_degrees_count_inside",
            f"{SENSITIVITY}::test_neighbours_move_the_sum_by_at_most_the_tables_value",
        ),
        swap("cut", "links_within(graph.edges, part_of)", "graph.edges"),
    ),
    mutation(
        "degrees counted before the cut",
        (
            f"{CUT}::test_no_link_crosses_parts_and_degrees_count_inside",
            f"{PARTS}::test_one_document_moves_only_its_own_part",
        ),
        swap(
            "cut",
            "matrix = any_matrix if edges.shape[1] else None",
            """
            matrix = any_matrix if edges.shape[1] else None
            if matrix is not None:
                ends = place[graph.edges].flatten()
                scale = (torch.bincount(ends, minlength=len(graph)) + 1).double().rsqrt()
                rows = torch.repeat_interleave(torch.arange(len(graph)), matrix.lengths)
                values = (scale[rows] * scale[matrix.columns]).float()
                matrix = SparseRows(matrix.offsets, matrix.columns, values, matrix.width)
            """,
        ),
    ),
    mutation(
        "class weights from all labels",
        (
            f"{PARTS}::test_each_replica_sums_its_own_sample",
            f"{PARTS}::test_one_document_moves_only_its_own_part",
        ),
        swap(
            "PartitionedGraph.loss_weights",
            "((self.labels >= 0) & (self.labels < self.classes)).float()",
            "(self.labels >= 0).float() * len(self) / (1 + torch.bincount("
            "self.labels.clamp(min=0), minlength=self.classes)[self.labels.clamp(min=0)])",
        ),
    ),
    mutation(
        "one owner split over two parts",
        f"{PARTITIONING}::test_no_part_splits_an_owner",
        swap(
            "parts_of_documents",
            "random_parts(count, any_parts, any_seed)[member]",
            "random_parts(len(graph), any_parts, any_seed)",
        ),
    ),
    mutation(
        "the partition follows the labels",
        f"{PARTITIONING}::test_content_has_no_say",
        behave(
            "parts_of_documents",
            """
            def parts_of_documents(graph, facts, columns):
                part_of = original_parts_of_documents(graph, facts, columns)
                return part_of[torch.argsort(graph.labels, stable=True)]
            """,
        ),
    ),
    mutation(
        "documents without links come first in the partition",
        f"{PARTITIONING}::test_content_has_no_say",
        behave(
            "parts_of_documents",
            """
            def parts_of_documents(graph, facts, columns):
                part_of = original_parts_of_documents(graph, facts, columns)
                degrees = torch.bincount(graph.edges.flatten(), minlength=len(graph))
                return part_of[torch.argsort(degrees, stable=True)]
            """,
        ),
    ),
)

BEFORE_THE_PLAN: tuple[Mutation, ...] = (
    mutation(
        "a learning rate taken from the words documents have",
        _PUBLIC_FACTS,
        swap(
            "_private_trainer",
            "with_rate(settings.training, plan)",
            "with_rate(settings.training.model_copy(update={'reach':"
            " float((train.features.dense() != 0).any(0).sum())}), plan)",
        ),
    ),
    mutation(
        "a learning rate that follows how much owners write",
        f"{PUBLIC}::test_how_much_an_owner_writes_decides_nothing",
        swap(
            "_private_trainer",
            "with_rate(settings.training, plan)",
            "with_rate(settings.training.model_copy(update={'reach':"
            " settings.training.reach * len(train) / plan.units}), plan)",
        ),
    ),
    mutation(
        "early stopping in a private run",
        f"{FIT}::test_early_stopping_is_refused_in_a_private_run",
        swap("fit", "settings.training.patience > 0", "settings.training.patience < 0"),
    ),
    mutation(
        "threads follow the words",
        f"{FIT}::test_how_much_somebody_writes_sets_no_threads",
        swap(
            "_public_step_size",
            "plan.units * words * any_outputs",
            "train.features.stored * model.layers[0].outputs",
        ),
    ),
    mutation(
        "documents without a label are not counted as units",
        (_PUBLIC_FACTS, f"{PLANNING}::test_content_has_no_say_in_the_plan"),
        behave(
            "make_plan",
            """
            def make_plan(privacy, graph, *, epochs, seed, columns):
                units = int((graph.labels >= 0).sum())
                return plan_for_units(
                    privacy, units, epochs=epochs, seed=seed, columns=columns
                )
            """,
        ),
    ),
    mutation(
        "more links, more steps",
        (_PUBLIC_FACTS, f"{PLANNING}::test_content_has_no_say_in_the_plan"),
        swap(
            "make_plan",
            "plan_for_units(privacy, units, epochs=epochs, seed=seed, columns=columns)",
            "plan_for_units(privacy, units, epochs=epochs + graph.edges.shape[1] // 10,"
            " seed=seed, columns=columns)",
        ),
    ),
    mutation(
        "a clip norm fitted to the rows",
        _PUBLIC_FACTS,
        swap(
            "_private_trainer",
            "graph = cut_as_planned(any_train, plan, columns)",
            """
            graph = cut_as_planned(any_train, plan, columns)
            middle = float(graph.features.row_sums(2).sqrt().median())
            object.__setattr__(plan, "clip_norm", max(middle, 1e-6))
            """,
        ),
    ),
    mutation(
        "first weights of the length that rows have",
        _PUBLIC_FACTS,
        swap(
            "_private_trainer",
            "[parameter.to(device) for parameter in first]",
            "[(parameter + float(train.features.row_sums(2).mean())).to(device)"
            " for parameter in first]",
        ),
    ),
    mutation(
        "another optimiser where many documents have a label",
        _PUBLIC_FACTS,
        swap(
            "_private_trainer",
            "with_rate(settings.training, any_plan)",
            "with_rate(settings.training.model_copy(update={'optimizer': 'adam' if"
            " (train.labels >= 0).float().mean() > 0.5 else 'sgd'}), any_plan)",
        ),
    ),
    mutation(
        "rows are centred only where they point one way",
        _PUBLIC_FACTS,
        behave(
            "_takes_outline",
            """
            def _takes_outline(train, settings):
                if not original_takes_outline(train, settings):
                    return False
                return float(train.features.dense().mean(0).norm()) > 0.3
            """,
        ),
    ),
    mutation(
        "as many columns as there are words",
        f"{REGISTRY}::test_hashing_is_as_wide_and_as_deep_whatever_others_write",
        behave(
            "HashingWords.fit",
            """
            def fit(self, corpus):
                texts = texts_of(corpus, self.kind)
                words = {word for text in texts for word in text.split()}
                self.dimension = max(2, min(self.dimension, 64 * len(words)))
                return self
            """,
        ),
    ),
    mutation(
        "words of a single document are left out of the features",
        f"{REGISTRY}::test_hashing_is_as_wide_and_as_deep_whatever_others_write",
        swap(
            "HashingWords.transform",
            "counts.eliminate_zeros()",
            "counts = counts.multiply((counts != 0).sum(0) > 1).tocsr()",
        ),
    ),
    mutation(
        "long texts choose another kind of features",
        f"{REGISTRY}::test_content_does_not_choose_the_kind_of_features",
        behave(
            "make_featurizer",
            """
            def make_featurizer(kind, options, corpus, *, language="english", documents=None):
                if kind is None and corpus.vectors is None:
                    lengths = [len(text) for text in corpus.texts or ()]
                    kind = "bow" if max(lengths, default=0) > 500 else None
                return original_make_featurizer(
                    kind, options, corpus, language=language, documents=documents
                )
            """,
        ),
    ),
    mutation(
        "classes in the order of their size",
        f"{FOLDER}::test_how_often_a_class_occurs_does_not_order_the_classes",
        swap(
            "data.folder:_labels",
            "tuple(sorted(any_values))",
            "tuple(sorted(any_values, key=lambda name: (-list(values).count(name), name)))",
        ),
    ),
    mutation(
        "a random split that follows the number of an owner's documents",
        f"{SPLITS}::test_owners_stay_together_and_their_sizes_do_not_matter",
        behave(
            "random_split",
            """
            def random_split(count, seed, owners=None):
                seed = seed if owners is None else seed + count
                return original_random_split(count, seed, owners)
            """,
        ),
    ),
    mutation(
        "owners of a folder are numbered as they appear",
        f"{FOLDER}::test_how_much_an_owner_writes_moves_nobody_else",
        swap(
            "data.folder:_owners",
            "tuple(sorted(any_values))",
            "tuple(dict.fromkeys(values))",
        ),
    ),
    mutation(
        "owners of a frame are numbered as they appear",
        f"{FOLDER}::test_how_much_an_owner_writes_moves_nobody_else",
        swap("checked_owners", "tuple(sorted(set(named)))", "tuple(dict.fromkeys(named))"),
    ),
    mutation(
        "a document that is not finite is an error",
        "tests/unit/graph/test_textgraph.py"
        "::test_from_a_corpus_empties_rows_that_are_not_finite",
        behave(
            "TextGraph.from_corpus",
            """
            @classmethod
            def from_corpus(cls, corpus, features):
                if not bool(torch.isfinite(rows_of(features).row_sums(2)).all()):
                    raise DataError("A feature is not finite.")
                return cls.original_from_corpus(corpus, features)
            """,
        ),
    ),
    mutation(
        "rows centred by their true mean",
        f"{ORDER}::test_training_takes_off_the_released_centre_and_no_other",
        swap(
            "_private_trainer",
            "graph.features.centred(outline.centre[:, 0])",
            "graph.features.centred("
            "torch.nn.functional.normalize(graph.features.dense()).mean(0))",
        ),
    ),
    mutation(
        "training tells how long its sum is",
        f"{PUBLIC}::test_training_says_nothing",
        swap(
            "PrivateTrainer._move",
            "self.optimiser.step(any_released)",
            """
            print(float(sums[0].norm()))
            self.optimiser.step(any_released)
            """,
        ),
    ),
)

WISHES: tuple[Mutation, ...] = (
    mutation(
        "of two wishes for privacy the second is dropped",
        f"{WISHED}::test_two_wishes_for_privacy_that_contradict_each_other_are_refused",
        swap("recipes:merged", "name.startswith(PRIVACY) and any_difference", "False"),
    ),
    mutation(
        "a flag nobody typed stands above --set",
        f"{WALK}::test_a_seed_is_never_ignored",
        swap("cli.tune:tune", "seed", "seed or 0"),
    ),
    mutation(
        "a wish for privacy without an epsilon is dropped",
        f"{WISHED}::test_a_wish_for_privacy_without_an_epsilon_is_refused",
        swap(
            "recipes:resolve",
            "private = [name for name in said if name.startswith(PRIVACY)]",
            """
            private = [name for name in said if bounded and name.startswith(PRIVACY)]
            said = said if bounded else {n: v for n, v in said.items() if PRIVACY not in n}
            """,
        ),
    ),
    mutation(
        "the settings of a classifier cannot ask for more than its defaults",
        f"{WALK}::test_a_wish_for_privacy_reaches_the_run_or_is_refused",
        swap("GraphClassifier._make_settings", "self.relation", "self.relation or 'remove'"),
    ),
    mutation(
        "a private run trains again for a baseline",
        f"{REPLICAS}::test_a_private_run_trains_once_on_private_documents",
        swap("score_table", "settings.privacy is None", "True"),
    ),
)

SCHEDULES: tuple[Mutation, ...] = (
    mutation(
        "visit every part once but account Poisson",
        _SAMPLES,
        behave(
            "PoissonParts.sample",
            """
            def sample(self, step, source):
                return np.array([step % self.parts])
            """,
        ),
    ),
    mutation(
        "a fixed-size sampler accounted as Poisson",
        _SAMPLES,
        behave(
            "PoissonParts.sample",
            """
            def sample(self, step, source):
                size = round(self.parts * self.sampling_probability)
                return np.sort(np.argsort(source.words(self.parts))[:size])
            """,
        ),
    ),
    mutation(
        "each part sampled at twice the accounted rate",
        _SAMPLES,
        swap(
            "PoissonParts.sample",
            "self.sampling_probability",
            "min(1.0, 2 * self.sampling_probability)",
        ),
    ),
    mutation(
        "an epoch accounted as one pass",
        f"{NOISE}::test_the_epoch_schedule_visits_each_part_once_and_pays_for_it",
        behave(
            "EpochParts.composition",
            """
            def composition(self, steps):
                return Composition(1.0, 1)
            """,
        ),
    ),
    mutation(
        "an epoch that was begun is not paid",
        (
            "tests/unit/privacy/test_schedule.py"
            "::test_epoch_uses_each_part_as_often_as_it_pays",
            "tests/unit/privacy/test_schedule.py::test_no_step_is_free",
        ),
        behave(
            "EpochParts.composition",
            """
            def composition(self, steps):
                return Composition(1.0, max(1, steps // self.parts))
            """,
        ),
    ),
)

RANDOMNESS: tuple[Mutation, ...] = (
    mutation(
        "sampler and noise seeded from --seed in a releasable run",
        f"{NOISE}::test_two_releasable_runs_differ_in_noise_and_samples",
        swap(
            "_private_trainer",
            "source, masks = secret_draws(device), secret_draws(device)",
            """
            from privgcn.randomness import RandomSource
            source = RandomSource.reproducible(seeds[0], "noise")
            source.releasable, masks = True, secret_draws(device)
            """,
        ),
    ),
    mutation(
        "dropout masks seeded from --seed in a releasable run",
        f"{NOISE}::test_no_part_of_a_releasable_run_is_seeded",
        swap(
            "_private_trainer",
            "source, masks = secret_draws(device), secret_draws(device)",
            """
            from privgcn.randomness import RandomSource
            source = secret_draws(device)
            masks = RandomSource.reproducible(seeds[0], "dropout")
            """,
        ),
    ),
    mutation(
        "training draws from a key of its own making",
        f"{SECRETS}::test_training_draws_from_secret_sources_and_no_others",
        swap(
            "_private_trainer",
            "source, masks = secret_draws(device), secret_draws(device)",
            """
            import hashlib, os
            from privgcn.randomness import RandomSource
            key = hashlib.sha256(os.urandom(3)).digest()
            source = RandomSource(key, releasable=True)
            masks = secret_draws(device)
            """,
        ),
    ),
    mutation(
        "seeds share one stream",
        f"{FIT}::test_a_seed_gives_the_same_run_whatever_trains_beside_it",
        swap(
            "_private_trainer",
            "seeded_draws(seeds, f'noise and samples from step {begun}', device)",
            "seeded_draws(seeds[:1] * len(seeds), f'noise from step {begun}', device)",
        ),
    ),
    mutation(
        "a seeded run calls itself releasable",
        (
            f"{FIT}::test_same_seed_same_parameters_bit_for_bit",
            f"{TRAIN_CLI}::test_reproducible_runs_agree_and_are_never_released",
        ),
        swap("fit", "trainer.source.releasable", "True"),
    ),
)

RESUMING: tuple[Mutation, ...] = (
    mutation(
        "a resume reuses the noise",
        f"{NOISE}::test_noise_is_fresh_after_a_resume",
        swap(
            "_private_trainer",
            "f'noise and samples from step {begun}'",
            "'noise and samples'",
        ),
    ),
    mutation(
        "a resume takes all steps again",
        f"{NOISE}::test_noise_is_fresh_after_a_resume",
        swap("Optimiser.restore", "int(state['steps'])", "0"),
    ),
    mutation(
        "a checkpoint counts one step too few",
        f"{CHECKPOINT}::test_a_resumed_run_goes_on_where_it_was",
        swap(
            "Optimiser.state",
            "torch.tensor(self.steps)",
            "torch.tensor(max(0, self.steps - 1))",
        ),
    ),
    mutation(
        "a resumed run releases its centre again",
        "tests/unit/privacy/test_centre.py::test_a_resumed_run_keeps_its_centre",
        swap(
            "_private_trainer",
            "Outline(any_centre, any_shares)",
            "released_outline(graph, plan, source.of_replica(0), summed)",
        ),
    ),
    mutation(
        "a run with other settings goes on from a checkpoint",
        f"{CHECKPOINT}::test_a_state_of_another_run_is_not_taken",
        behave(
            "Checkpoint._digest",
            """
            def _digest(self, key):
                return "any run"
            """,
        ),
    ),
    mutation(
        "a run with other classes goes on from a checkpoint",
        f"{CHECKPOINT}::test_other_seeds_or_documents_are_another_run",
        swap(
            "training.fit:fit",
            "Checkpoint(any_folder, purpose)",
            "Checkpoint(any_folder, {**purpose, 'classes': None})",
        ),
    ),
    mutation(
        "a run with other documents goes on from a checkpoint",
        f"{CHECKPOINT}::test_a_state_is_not_taken_once_a_document_was_replaced",
        swap("training.fit:fit", "fingerprint(train, any_columns)", "None"),
    ),
)

_SHARES = f"{SHARED}::test_every_part_is_on_one_rank_and_shares_are_even"
_SAME_BITS = f"{RANKS}::test_several_ranks_leave_the_tensors_of_one"

SHARING: tuple[Mutation, ...] = (
    mutation(
        "every rank adds noise of its own",
        f"{RANKS}::test_noise_is_added_once_secretly_and_anew_in_every_run[2]",
        swap(
            "OwnParts._whole",
            "per_unit = any_number",
            """
            from privgcn.privacy.mechanism.noise import noisy
            per_unit = any_number
            if self.share.first:
                sums = noisy(
                    sums,
                    grid_of(self.task.plan),
                    self.task.plan.noise_multiplier,
                    RandomSource.secret(),
                )
            """,
        ),
    ),
    mutation(
        "neighbouring ranks have a part in common",
        (_SHARES, f"{SHARED}::test_no_person_is_on_two_ranks[2]"),
        swap("Share.of", "cls(first, last)", "cls(max(0, first - 1), last)"),
    ),
    mutation(
        "each rank draws a sample of its own",
        f"{_SAME_BITS}[2-auto, sampled]",
        swap(
            "_serve",
            "samples = np.split(any_parts, any_ends)",
            "samples = [task.plan.schedule.sample(0, RandomSource.secret())] * replicas",
        ),
    ),
    mutation(
        "the masks of every run over ranks come from its seed",
        f"{SHARED}::test_masks_of_a_run_that_may_be_released_are_every_ranks_own_secret",
        swap("Task.masks", "not self.shared_masks", "False"),
    ),
    mutation(
        "a rank keeps the documents of the others",
        f"{SHARED}::test_a_rank_holds_its_own_documents_only",
        swap("_selected", "graph.select(any_parts)", "graph"),
    ),
    mutation(
        "a step goes on without the rank that was lost",
        f"{RANKS}::test_a_lost_rank_ends_the_run_with_one_clear_line",
        swap("Team._heard", "raise RankLostError(any_words) from None", "pass"),
    ),
)

ACCOUNTS: tuple[Mutation, ...] = (
    mutation(
        "2C accounted as C: replacing",
        (
            f"{SENSITIVITY}::test_the_worst_case_reaches_the_tables_value",
            f"{LOSS}::test_the_measured_loss_stays_under_the_claim_and_close_to_it"
            "[document-replace-each-all-1-2]",
        ),
        swap("sensitivity_in_clips", "if relation == 'replace':\n    return 2", "pass"),
    ),
    mutation(
        "2C accounted as C: removing from a shared part",
        f"{SENSITIVITY}::test_neighbours_move_the_sum_by_at_most_the_tables_value",
        swap("sensitivity_in_clips", "1 if any_test else 2", "1"),
    ),
    mutation(
        "2C accounted as C: parts of owners for unit document",
        f"{PLAN}::test_unit_relation_and_partition_decide_the_sensitivity",
        behave(
            "PrivacyPlan.part_is_unit",
            """
            @property
            def part_is_unit(self):
                return self.partition.kind == "each"
            """,
        ),
    ),
    mutation(
        "2C accounted as C: side queries and unsampled steps",
        (
            f"{ACCOUNTING}::test_two_clip_norms_unsampled_are_half_the_noise",
            f"{ACCOUNTING}::test_a_side_query_costs_and_the_order_does_not_matter",
        ),
        swap(
            "merge",
            "release.sensitivity / release.noise_multiplier",
            "1 / release.noise_multiplier",
        ),
    ),
    mutation(
        "2C accounted as C: sampled, by Renyi divergences",
        f"{RENYI}::test_group_bound_dominates_the_replacement_divergence",
        swap("_half_order_curve", "release.sensitivity == 2", "False"),
    ),
    mutation(
        "sampled releases of one kind are counted once",
        (
            f"{ACCOUNTING}::test_splitting_a_run_in_two_costs_the_same",
            f"{ACCOUNTING}::test_mixed_releases_compose_like_their_sum_where_the_sum_is_known",
        ),
        swap("merge", "counts.get(one, 0) + release.count", "release.count"),
    ),
    mutation(
        "side queries are free",
        f"{PLAN}::test_side_queries_are_paid_for",
        swap(
            "PrivacyPlan._releases",
            "(training, *(query.release for query in self.side_queries))",
            "(training,)",
        ),
    ),
    mutation(
        "validation documents do not count for delta",
        f"{SEARCH}::test_the_plan_costs_what_the_search_costs",
        behave(
            "PrivacyPlan.protected_units",
            """
            @property
            def protected_units(self):
                return self.units
            """,
        ),
    ),
    mutation(
        "calibration returns the noise just below",
        f"{CALIBRATION}::test_the_target_is_met_and_nearly_used_up",
        swap(
            "calibration:_search",
            "Calibration(math.exp(high), high_cost)",
            "Calibration(math.exp(high) * 0.999, high_cost)",
        ),
    ),
    mutation(
        "a search costs what its winner costs",
        f"{SEARCH}::test_the_plan_costs_what_the_search_costs",
        swap("PrivacyPlan._releases", "(self.selection.release,)", "(training,)"),
    ),
    mutation(
        "the scores of a search are free",
        f"{SEARCH}::test_the_plan_costs_what_the_search_costs",
        drop(
            "Selection.release",
            "if self.score is not None:\n    alternatives.append((self.score.release,))",
        ),
    ),
    mutation(
        "the first candidate of a search counts for all",
        f"{SELECTION}::test_the_worst_alternative_counts",
        swap("SelectedRelease.curve", "np.max(curves, axis=0)", "curves[0]"),
    ),
    mutation(
        "a longer search costs no more",
        f"{SELECTION}::test_more_runs_cost_more",
        swap("RunCount.bound", "curve + any_cost", "curve"),
        swap("RunCount.bound", "result + self.parameter * deltas", "result"),
    ),
    mutation(
        "a search makes twice as many runs as it pays for",
        (_LAW, f"{SELECTION}::test_the_number_of_runs_has_the_stated_mean"),
        behave(
            "RunCount.draw",
            """
            def draw(self, source):
                return 2 * self.original_draw(source)
            """,
        ),
    ),
    mutation(
        "numbers for people are rounded to the nearest",
        f"{STATEMENT}::test_numbers_for_people_are_rounded_up",
        swap(
            "round_up",
            "Context(prec=digits, rounding=ROUND_CEILING)",
            "Context(prec=digits)",
        ),
    ),
    mutation(
        "a release that is hardly ever made hides the others",
        f"{ACCOUNTING}::test_a_release_that_is_hardly_ever_made_hides_no_other",
        swap("_pld", "ratio == 0.0 and any_rarity", "any_rarity"),
    ),
    mutation(
        "equal searches count once",
        f"{SELECTION}::test_equal_searches_cost_as_often_as_they_were_made",
        swap(
            "composed_curve",
            "for release in releases:\n    if any_test:\n        curve = any_sum",
            "for release in set(releases):\n    if any_test:\n        curve = any_sum",
        ),
    ),
    mutation(
        "the alternative that is dearest at one order counts at all",
        f"{SELECTION}::test_no_alternative_costs_more_than_the_search_at_any_order",
        swap(
            "SelectedRelease.curve",
            "np.max(curves, axis=0)",
            "max(curves, key=lambda c: c[-1])",
        ),
    ),
)

_OTHER_CUTS = f"{LEDGER}::test_releases_of_different_cuts_do_not_add_up"
_CHANGED_LEDGER = f"{LEDGER}::test_a_changed_ledger_is_noticed"

LEDGERS: tuple[Mutation, ...] = (
    mutation(
        "the ledger keeps the dearest release only",
        f"{LEDGER}::test_releases_add_up_like_one_longer_run",
        swap(
            "Ledger._composed",
            "epsilon_of_releases(releases, delta=delta, accountant=any_name)",
            "max((epsilon_of_releases([one], delta=delta, accountant=any_name)"
            " for one in releases), default=0.0)",
        ),
    ),
    mutation(
        "models of one plan count as one model",
        f"{LEDGER}::test_releases_add_up_like_one_longer_run",
        swap(
            "Ledger.record",
            "entry.digest in {other.digest for other in entries}",
            "entry.plan in [other.plan for other in entries]",
        ),
    ),
    mutation(
        "the budget is compared before the release is added",
        f"{LEDGER}::test_the_budget_stops_a_release_and_nothing_is_written",
        swap("Ledger.record", "entries if known else (*entries, entry)", "entries"),
    ),
    mutation(
        "releases of different units add up",
        f"{LEDGER}::test_what_may_not_be_released",
        swap(
            "Ledger._check_same_units",
            "(first.unit, first.relation) != (plan.unit, plan.relation)",
            "False",
        ),
    ),
    mutation(
        "the ledger takes an experiment",
        f"{LEDGER}::test_what_may_not_be_released",
        drop("Ledger.record", "if not statement.releasable:\n    raise any_error"),
    ),
    mutation(
        "different cuts add up",
        (_OTHER_CUTS, f"{LEDGER}::test_a_ledger_that_mixes_cuts_has_no_sum"),
        swap(
            "Ledger._check_same_units",
            "(plan.partition, plan.units) != (first.partition, first.units)",
            "False",
        ),
    ),
    mutation(
        "a cut that its facts do not determine adds up",
        _OTHER_CUTS,
        swap("Ledger._check_same_units", "not listed", "False"),
    ),
    mutation(
        "cuts of more and of fewer documents add up",
        _OTHER_CUTS,
        swap(
            "Ledger._check_same_units",
            "(plan.partition, plan.units) != (first.partition, first.units)",
            "plan.partition != first.partition",
        ),
    ),
    mutation(
        "a shortened ledger is accepted",
        _CHANGED_LEDGER,
        behave(
            "ledger_file:_hash",
            """
            def _hash(content):
                return original_hash(content[: content.find(b"\\n") + 1])
            """,
        ),
    ),
    mutation(
        "an edited ledger is accepted",
        (_CHANGED_LEDGER, f"{LEDGER}::test_an_edited_only_line_is_noticed"),
        behave(
            "ledger_file:_hash",
            """
            def _hash(content):
                return original_hash(b"\\n" * content.count(b"\\n"))
            """,
        ),
    ),
    mutation(
        "a deleted ledger begins anew",
        _CHANGED_LEDGER,
        swap(
            "OpenLedger.__init__",
            "[] if self._content else [b'']",
            "[] if self._content else [remembered]",
        ),
    ),
    mutation(
        "two at once do not wait for each other",
        f"{LEDGER_FILE}::test_two_at_once_wait_for_each_other",
        drop("LedgerFile._locked", "lock(any_head, shared=any_kind)"),
    ),
    mutation(
        "the head is written before the lines",
        f"{LEDGER_FILE}::test_killed_at_any_moment_it_holds_the_old_lines_or_the_new",
        swap(
            "OpenLedger.add",
            """
            write_atomically(self._file.path, content)
            self._content = content
            self.remember()
            """,
            """
            self._content = content
            self.remember()
            write_atomically(self._file.path, content)
            """,
        ),
    ),
    mutation(
        "a budget may be exceeded by a little",
        f"{LEDGER}::test_a_budget_is_a_limit_to_the_last_digit",
        swap("Ledger.record", "total > budget.epsilon", "total > 1.0001 * budget.epsilon"),
    ),
    mutation(
        "a budget is kept at the delta of the release",
        f"{LEDGER}::test_a_budget_is_kept_at_its_own_delta",
        swap(
            "Ledger.record",
            "statement.delta if budget is None else budget.delta",
            "statement.delta",
        ),
    ),
)

STATEMENTS: tuple[Mutation, ...] = (
    mutation(
        "a default fills what a stored plan leaves out",
        f"{PLAN}::test_no_default_fills_what_a_file_leaves_out",
        swap("read_strictly", "in_plain_values(made) != record", "False"),
    ),
    mutation(
        "a plan takes a schedule of the user's own making",
        f"{PLAN}::test_a_home_made_schedule_is_refused",
        behave(
            "_known_schedule",
            """
            def _known_schedule(schedule):
                return schedule
            """,
        ),
    ),
    mutation(
        "a changed copy of a schema 1 statement keeps its digest",
        "tests/unit/privacy/test_schema1.py::test_a_changed_copy_does_not_verify",
        swap("PrivacyStatement.verify", "not unchanged", "False"),
    ),
    mutation(
        "what a schema 1 statement repeats of its plan is not compared",
        "tests/unit/privacy/test_schema1.py::test_an_edit_is_noticed_even_with_a_fresh_digest",
        swap("schema1:_plan", "any_kind or not any_close", "False"),
    ),
    mutation(
        "a statement that omits classes read off the labels",
        _LABELS,
        swap("runs.assumptions:not_covered", "not corpus.facts.classes_declared", "False"),
    ),
    mutation(
        "classes of arrays count as declared",
        _LABELS,
        behave(
            "corpus_of_arrays",
            """
            def corpus_of_arrays(vectors, labels, classes):
                from dataclasses import replace

                made = original_corpus_of_arrays(vectors, labels, classes)
                return replace(made, facts=replace(made.facts, classes_declared=True))
            """,
        ),
    ),
    mutation(
        "features that learn are not named",
        f"{CLAIMS}::test_features_that_learn_are_named_on_every_road",
        swap("runs.assumptions:not_covered", "featurizer.learned is not None", "False"),
    ),
    mutation(
        "full-graph predictions count as covered",
        _COVERAGE,
        swap(
            "modes:MODES",
            "ModeFacts(any_words, covered=False)",
            "ModeFacts(any_words, covered=True)",
        ),
    ),
    mutation(
        "predict calls full-graph covered",
        f"{PREDICT}::test_only_predictions_without_training_documents_are_covered",
        drop("_coverage", "if mode == 'full-graph':\n    return any_answer"),
    ),
    mutation(
        "a statement is not computed again",
        f"{STATEMENT}::test_an_edit_is_noticed_even_with_a_fresh_digest",
        swap(
            "PrivacyStatement._check_epsilon",
            "not math.isclose(any_claim, any_value, rel_tol=any_a, abs_tol=any_b)",
            "False",
        ),
    ),
    mutation(
        "the digest leaves out what is not covered",
        f"{STATEMENT}::test_every_single_edit_is_noticed",
        swap(
            "PrivacyStatement.digest",
            "content.pop('digest', None)",
            "[content.pop(name, None) for name in ('digest', 'not_covered', 'assumed_public')]",
        ),
        drop("PrivacyStatement.verify", "self._check_facts(plan)"),
    ),
    mutation(
        "other weights pass for the stated ones",
        f"{VERIFY}::test_other_weights_are_noticed",
        swap("_check_model", "found != statement.model_sha256", "False"),
    ),
    mutation(
        "a statement of another model is taken",
        f"{VERIFY}::test_a_resealed_statement_does_not_match_its_model",
        swap("_check_model", "metadata.get(DIGEST_KEY) != statement.digest()", "False"),
    ),
    mutation(
        "edited settings pass",
        f"{VERIFY}::test_edited_settings_are_noticed",
        swap("_check_settings", "got is not None and not _same(got, value)", "False"),
    ),
    mutation(
        "the plan a model was saved with is not compared",
        f"{VERIFY}::test_a_model_saved_with_another_plan_is_noticed",
        swap("_check_record", "record.get(name) != value", "False"),
    ),
    mutation(
        "several replicas, one statement",
        f"{CLASSIFIER}::test_several_replicas_are_several_releases",
        swap("statement_of", "replicas != 1", "False"),
    ),
    mutation(
        "a person on both sides of the split",
        f"{CLASSIFIER}::test_a_person_on_both_sides_of_the_split_is_refused",
        swap("check_owners", "unit == 'person' and whole.owners_cross_splits", "False"),
    ),
    mutation(
        "what an encoder may have seen is not named",
        f"{CLAIMS}::test_what_an_encoder_may_have_seen_is_named_though_it_learns_nothing",
        swap(
            "runs.assumptions:not_covered",
            "featurizer.learned is not None",
            "featurizer.learns",
        ),
    ),
    mutation(
        "a statement tells how much people wrote",
        f"{DISK}::test_how_much_a_person_wrote_is_told_nowhere",
        behave(
            "runs.assumptions:assumed_public",
            """
            def assumed_public(corpus, featurizer):
                facts = original_assumed_public(corpus, featurizer)
                return [*facts, f"Training documents: {len(corpus)}."]
            """,
        ),
    ),
)

RELEASES: tuple[Mutation, ...] = (
    mutation(
        "a model file counts labels",
        _ALIKE,
        swap(
            "Fit.serialised",
            "save(any_tensors, metadata)",
            "save({**any_tensors, 'counts': torch.zeros(3)}, metadata)",
        ),
    ),
    mutation(
        "a fingerprint of the training documents in the model's record",
        _ALIKE,
        swap(
            "runs.train:train",
            "ready = any_prepared",
            """
            ready = any_prepared
            train = ready.train
            print_ = float(train.features.dense().sum() + train.labels.sum())
            state = ready.featurizer.state()
            ready.featurizer.state = lambda: {**state, "fingerprint": print_}
            """,
        ),
    ),
    mutation(
        "a statement that tells the number of links",
        _ALIKE,
        behave(
            "runs.assumptions:assumed_public",
            """
            def assumed_public(corpus, featurizer):
                facts = original_assumed_public(corpus, featurizer)
                return [*facts, f"Links: {corpus.edges.shape[1]}."]
            """,
        ),
    ),
    mutation(
        "a statement that tells how large the classes are",
        _ALIKE,
        behave(
            "runs.assumptions:not_covered",
            """
            def not_covered(corpus, featurizer):
                gaps = original_not_covered(corpus, featurizer)
                sizes = [int((corpus.labels == code).sum()) for code in range(2)]
                return [*gaps, f"Classes of {sizes} documents."]
            """,
        ),
    ),
    mutation(
        "when a model was trained is part of its record",
        f"{DISK}::test_the_same_run_twice_is_the_same_on_disk",
        swap(
            "model_files",
            "json.dumps(record, indent=1, default=any_default)",
            "json.dumps({**record, 'time': __import__('time').time_ns()}, indent=1,"
            " default=any_default)",
        ),
    ),
    mutation(
        "the number of empty documents in the settings",
        _ALIKE,
        swap(
            "runs.train:train",
            "fitted = any_fit",
            """
            fitted = any_fit
            from dataclasses import replace
            empty = int((ready.train.features.row_sums(2) == 0).sum())
            data = settings.data.model_copy(update={"source": f"documents-{empty}"})
            fitted = replace(fitted, settings=settings.model_copy(update={"data": data}))
            """,
        ),
    ),
    mutation(
        "a release says where the documents lay",
        f"{TRAIN_CLI}::test_a_release_holds_nothing_that_is_not_covered",
        swap("write_release", "public_settings(any_settings)", "any_settings"),
    ),
    mutation(
        "a release says where word vectors lay",
        f"{TRAIN_CLI}::test_a_release_does_not_say_where_word_vectors_lay",
        swap("write_release", "without_places(any_state)", "any_state"),
    ),
    mutation(
        "a release takes its scores along",
        f"{TRAIN_CLI}::test_a_release_holds_nothing_that_is_not_covered",
        swap(
            "write_release",
            "{**model_files(bare), **pages}",
            "{**model_files(bare), **pages, 'scores.json': run.stored.content('scores.json')}",
        ),
    ),
    mutation(
        "learned features leave without being asked for",
        f"{CLAIMS}::test_a_run_with_learned_features_is_released_on_request_only",
        swap("releasable_statement", "featurizer.learns and not learned_features", "False"),
    ),
    mutation(
        "a seeded run is released",
        f"{TRAIN_CLI}::test_reproducible_runs_agree_and_are_never_released",
        swap("releasable_statement", "not any_stated or not any_saved", "False"),
        drop("Ledger.record", "if not statement.releasable:\n    raise any_error"),
        swap("report.card:_card", "not statement.releasable", "False"),
    ),
    mutation(
        "an edited run is released",
        f"{TRAIN_CLI}::test_a_run_with_an_edited_file_is_not_released",
        swap(
            "Run.statement",
            "None if any_v is None else any_v.statement",
            "read_statement(self.stored)",
        ),
    ),
    mutation(
        "an edited file passes for the one on the manifest",
        f"{VERIFY}::test_anything_edited_missing_or_added_is_noticed",
        drop("read_folder", "if any_hash != expected:\n    raise any_error"),
    ),
    mutation(
        "seeded noise is released if the statement does not say so",
        f"{CLAIMS}::test_seeded_noise_is_not_released_whichever_file_says_so",
        swap(
            "_check_record", "{'plan': any_plan, 'releasable': any_word}", "{'plan': any_plan}"
        ),
        swap("releasable_statement", "not any_stated or not any_saved", "not any_stated"),
    ),
    mutation(
        "a baseline that knows the training labels",
        _SCORES_STAY,
        swap(
            "baseline_scores",
            "majority(truth, len(classes))",
            "np.full_like(truth, np.bincount(1 + trial.corpus.labels)[1:].argmax())",
        ),
    ),
    mutation(
        "scores count the labels of training documents",
        _SCORES_STAY,
        swap(
            "score_table",
            "list(corpus.classes)",
            "[f'{name} {(corpus.labels == i).sum()}' for i, name in enumerate(corpus.classes)]",
        ),
    ),
)

SEARCHES: tuple[Mutation, ...] = (
    mutation(
        "a fixed number of runs in tune",
        _LAW,
        swap("runs.tune:search", "count.draw(source)", "round(count.expected)"),
    ),
    mutation(
        "the number of runs follows the seed",
        _LAW,
        swap(
            "runs.tune:search",
            "count.draw(source)",
            "count.draw(RandomSource.reproducible(settings.seed, 'runs'))",
        ),
    ),
    mutation(
        "the first candidate is always tried first",
        _LAW,
        swap(
            "runs.tune:search",
            "int(any_word % any_candidates)",
            "0 if best is None else int(any_word % any_candidates)",
        ),
    ),
    mutation(
        "scores on private validation documents without noise",
        f"{TUNING}::test_the_score_of_a_run_has_the_noise_it_is_accounted_with",
        swap("_Runs.score", "noise.noisy([total], any_grid, any_scale, source)", "[total]"),
    ),
    mutation(
        "one noise for the scores of all runs",
        f"{TUNING}::test_the_score_of_a_run_has_the_noise_it_is_accounted_with",
        swap(
            "_Runs.score",
            "noise.noisy([total], any_grid, any_scale, source)",
            "[total + self.__dict__.setdefault('drawn',"
            " noise.noisy([0 * total], any_grid, any_scale, source)[0])]",
        ),
    ),
    mutation(
        "the noise of a score is not on the grid",
        _SCORE_GRID,
        swap(
            "_Runs.score",
            "noise.noisy([total], any_grid, any_scale, source)",
            "[total + any_scale * source.normal([(1,)])[0]]",
        ),
    ),
    mutation(
        "the share of an owner in a score is not on the grid",
        _SCORE_GRID,
        swap("_Runs.score", "rounded(any_right, grid.step)", "any_right"),
    ),
    mutation(
        "a search changes what a part is",
        f"{TUNING}::test_what_decides_the_units_is_not_searched_over",
        drop("_Runs.__init__", "_check_same_units(drafts)"),
    ),
    mutation(
        "private validation documents are scored with their links",
        f"{SECRET_RUNS}::test_private_documents_are_scored_each_by_itself",
        swap("_Runs.score", "'own-graph' if self.public else 'alone'", "'own-graph'"),
    ),
    mutation(
        "an owner counts once for every document in a score",
        f"{TUNING}::test_one_unit_moves_a_private_score_by_at_most_one",
        swap("_Runs.score", "np.bincount(owner, right) / np.bincount(owner)", "right"),
    ),
    mutation(
        "a search states more noise in its scores than they have",
        f"{TUNING}::test_the_score_of_a_run_has_the_noise_it_is_accounted_with",
        swap(
            "_Runs.__init__",
            "GaussianQuery(_SCORE, noise.score, 1)",
            "GaussianQuery(_SCORE, 1000 * noise.score, 1)",
        ),
    ),
    mutation(
        "what losing candidates learned is not named",
        f"{TUNING}::test_candidates_with_features_that_learn_are_named_whoever_wins",
        swap(
            "_Runs.winner",
            "[gap for each in any_features for gap in not_covered(train, each)]",
            "not_covered(train, ready.featurizer)",
        ),
    ),
    mutation(
        "tune tells how many runs there were",
        f"{TUNE_CLI}::test_nothing_tells_how_many_runs_there_were",
        swap(
            "cli.tune:tune",
            "any_record['chosen'] = any_choice",
            """
            any_record["chosen"] = any_choice
            any_record["runs"] = 3
            """,
        ),
    ),
    mutation(
        "a candidate that is drawn again is not trained again",
        _BOUNDS_RUNS,
        swap(
            "runs.tune:search",
            "runs.train(number)",
            "runs.__dict__.setdefault(f'made {number}', runs.train(number))",
        ),
    ),
    mutation(
        "candidates come in turn",
        _BOUNDS_RUNS,
        swap(
            "runs.tune:search",
            "int(any_word % any_candidates)",
            "0 if best is None else (number + 1) % len(runs.candidates)",
        ),
    ),
    mutation(
        "a search stops where the score is good enough",
        _BOUNDS_RUNS,
        swap(
            "runs.tune:search",
            "best = (score, number, fitted)",
            """
            best = (score, number, fitted)
            if score > len(corpus):
                break
            """,
        ),
    ),
    mutation(
        "a search reads its vocabulary off validation texts",
        f"{CLAIMS}::test_features_learn_from_training_documents_only",
        swap(
            "Prepared.of",
            "any_featurizer.fit(train)",
            "any_featurizer.fit(corpus)",
        ),
    ),
)

PREDICTIONS: tuple[Mutation, ...] = (
    mutation(
        "own-graph sees the training documents",
        f"{INFERENCE}::test_own_graph_never_sees_the_other_documents",
        swap("scores_in_mode", "mode != 'full-graph'", "mode == 'alone'"),
    ),
    mutation(
        "alone sees the links among new documents",
        f"{INFERENCE}::test_alone_sees_no_other_document",
        swap("prediction.inference:_scores", "mode == 'alone'", "False"),
    ),
    mutation(
        "prediction reads the labels of new documents",
        f"{INFERENCE}::test_labels_of_new_documents_have_no_influence",
        swap(
            "prediction.inference:_scores",
            "matched_scores(any_released, seen, rows, restart=any_restart, hops=any_hops)",
            "matched_scores(any_released, seen, rows, restart=any_restart, hops=any_hops)"
            " + (seen.labels >= 0).float()[:, None, None]"
            " * torch.nn.functional.one_hot(seen.labels.clamp(min=0), seen.classes)[:, None]",
        ),
    ),
    mutation(
        "training documents are predicted as new ones",
        f"{TRAIN_CLI}::test_predict_never_takes_training_documents_for_new_ones",
        swap("predict_source", "~seen if own else any_rows", "any_rows"),
    ),
    mutation(
        "the run's own folder under another name is taken for new",
        f"{PREDICT}::test_however_the_runs_own_folder_is_spelled_no_training_document_is_predicted",
        swap(
            "Run.is_own_source",
            "resolved_source(own) == resolved_source(source)",
            "own == source",
        ),
    ),
    mutation(
        "predictions without privacy count as covered",
        f"{PREDICT}::test_predictions_of_a_run_without_privacy_are_not_covered",
        drop("_coverage", "if not private:\n    return any_answer"),
    ),
    mutation(
        "a run is evaluated on another split than its own",
        f"{PREDICT}::test_a_run_finds_the_split_of_its_own_seed_again",
        swap("Run.corpus", "self.settings.seed", "0"),
    ),
)

MUTATIONS: tuple[Mutation, ...] = (
    *PARTITION,
    *BEFORE_THE_PLAN,
    *WISHES,
    *SCHEDULES,
    *RANDOMNESS,
    *RESUMING,
    *SHARING,
    *ACCOUNTS,
    *LEDGERS,
    *STATEMENTS,
    *RELEASES,
    *SEARCHES,
    *PREDICTIONS,
    *ENGINE,
    *GRID,
    *DEVICE,
)
