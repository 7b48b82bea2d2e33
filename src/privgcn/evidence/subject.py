"""What is audited or attacked: a finished run, or a corpus with settings for one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from privgcn.config import Settings
from privgcn.data import Corpus, load_corpus
from privgcn.data.catalogue import resolved_source
from privgcn.errors import ConfigError
from privgcn.privacy.plan import PrivacyPlan
from privgcn.runs.assumptions import check_owners
from privgcn.runs.run import Run
from privgcn.runs.train import Prepared
from privgcn.training.planning import make_plan


@dataclass(frozen=True, eq=False)
class Subject:
    """Documents and the settings of a run on them.

    Attributes:
        corpus: Documents with their split.
        settings: Of the run.
        run: The finished run; ``None`` where there is none yet.
    """

    corpus: Corpus
    settings: Settings
    run: Run | None = None

    @classmethod
    def of_run(cls, folder: Path) -> Subject:
        """The documents and settings of a run, loaded again from their source."""
        run = Run(folder)
        return cls(run.corpus(), run.settings, run)

    @classmethod
    def of_corpus(cls, settings: Settings) -> Subject:
        """Documents that a run with these settings would train on."""
        source = resolved_source(str(settings.data.source))
        corpus = load_corpus(source, classes=settings.data.classes, seed=settings.seed)
        corpus.check_trainable()
        check_owners(corpus, settings.privacy.unit if settings.privacy else None)
        return cls(corpus, settings.changed({"data.source": source}))

    @cached_property
    def ready(self) -> Prepared:
        """The documents with the run's features."""
        if self.run is None:
            return Prepared.of(self.corpus, self.settings)
        model = self.run.model
        return Prepared(self.corpus, model.featurizer, model.graph(self.corpus))

    @cached_property
    def plan(self) -> PrivacyPlan:
        """The plan of the run.

        Raises:
            ConfigError: It was trained without privacy.
        """
        if self.settings.privacy is None:
            raise ConfigError(
                "An audit needs a private run: without a claim there is nothing to hold it "
                "to. Got one without privacy. Add --epsilon 1."
            )
        if self.run is not None and self.run.model.fitted.plan is not None:
            return self.run.model.fitted.plan
        return make_plan(
            self.settings.privacy,
            self.ready.train,
            epochs=self.settings.training.epochs,
            seed=self.settings.seed,
            columns=self.corpus.train.columns,
        )

    @property
    def claim(self) -> float:
        """The epsilon that the statement claims, or the plan where there is none yet."""
        statement = None if self.run is None else self.run.statement
        return self.plan.epsilon if statement is None else statement.epsilon

    @property
    def dense(self) -> bool:
        """Whether features are dense."""
        return self.ready.graph.features.is_dense

    def with_settings(self, settings: Settings) -> Subject:
        """The same documents and features for another run."""
        other = replace(self, settings=settings, run=None)
        if settings.features == self.settings.features:
            other.__dict__["ready"] = self.ready
        return other
