"""What a run assumes to be public and what its guarantee does not cover, in words.

Only what this run adds: what is true of every run is in ``privgcn.privacy.statement``.
"""

from __future__ import annotations

from privgcn.corpus import Corpus
from privgcn.errors import PrivacyContractError
from privgcn.features import Featurizer
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.statement import PrivacyStatement
from privgcn.privacy.verification import weights_sha256
from privgcn.training.fit import Fit


def statement_of(
    fitted: Fit, corpus: Corpus, featurizer: Featurizer
) -> PrivacyStatement | None:
    """The statement of one trained replica; ``None`` where it was trained without privacy."""
    if fitted.plan is None:
        return None
    replicas = fitted.parameters[0].shape[-2]
    if replicas != 1:
        raise PrivacyContractError(
            f"A statement is about one released model. Got {replicas} replicas, which cost "
            f"{replicas} releases together. Take one with Fit.replica."
        )
    return PrivacyStatement.of(
        fitted.plan,
        releasable=fitted.releasable,
        assumed_public=assumed_public(fitted.plan, corpus, featurizer),
        not_covered=not_covered(corpus, featurizer),
        model_sha256=weights_sha256(fitted.serialised()),
    )


def check_owners(corpus: Corpus, unit: str | None) -> None:
    """Refuses to protect a person who is on both sides of the split.

    Raises:
        PrivacyContractError: Some owner has training documents and documents to predict.
    """
    whole = corpus.whole or corpus
    if unit == "person" and whole.owners_cross_splits:
        raise PrivacyContractError(
            "Unit 'person' needs a split by owner: here some owner has documents both in "
            "training and outside of it. Leave the 'split' column out to have it drawn by "
            "owner, or protect unit 'document'."
        )


def assumed_public(plan: PrivacyPlan, corpus: Corpus, featurizer: Featurizer) -> list[str]:
    """Facts that anybody may know, in every neighbouring dataset alike."""
    index = "owners" if plan.unit == "person" else "documents"
    facts = [
        f"The number of training {index}: {plan.units}.",
        f"Features: {featurizer.dimension} of kind '{featurizer.kind}'.",
    ]
    if corpus.facts.classes_declared:
        facts.append(f"The set of classes: {corpus.num_classes}, declared.")
    if plan.partition.kind == "column":
        facts.append(f"The column '{plan.partition.column}', declared public by the user.")
    if corpus.facts.public_vectors is not None and featurizer.kind == "given":
        facts.append(f"How the vectors were made: {corpus.facts.public_vectors}.")
    return facts


def not_covered(corpus: Corpus, featurizer: Featurizer) -> list[str]:
    """What the guarantee says nothing about."""
    gaps: list[str] = []
    if not corpus.facts.classes_declared:
        gaps.append(
            f"The set of classes: {corpus.num_classes}, read off the labels. Declare it with "
            "--classes to make it a public fact."
        )
    if corpus.facts.split_origin == "stratified":
        gaps.append("The split: it was stratified by label.")
    if featurizer.learned is not None:
        gaps.append(f"Features: {featurizer.learned}.")
    return gaps + list(corpus.facts.not_covered)
