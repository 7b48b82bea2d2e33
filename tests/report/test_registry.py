"""Entries of the deployments registry, against the rules of its schema written out by hand."""

from __future__ import annotations

import pytest

from privacy.plans import statement as make_statement
from privgcn.errors import ConfigError
from privgcn.report.registry import registry_entry

STATEMENT = make_statement()
ANSWERS = {
    "name": ["Letters to a clinic"],
    "data_curators": ["Clinic of Kiel", "Health Board"],
    "description": ['Sorts "letters": by department\nand by ward.'],
    "intended_use": ["Triage of new letters"],
    "data_product_region": ["Germany"],
    "publication_date": ["2026-03-01"],
    "registry_authors": ["A. Clerk"],
}
SECOND = {"release_type": ["One release"], "data_source_type": ["Static"]}
THIRD = {
    "actors": ["The clinic, and whoever downloads the model."],
    "preprocessing_and_hyperparameter_tuning": ["Names were taken out before."],
    "justification": ["The usual epsilon of the board."],
}
SECTORS = ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")
VARIANTS = ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Custom")
MODELS = ("Local", "Central", "Shuffle", "Federated", "Varies")
# Of each section the texts, and the values that other fields may have; a star: must be there.
TEXTS = {
    "basic": "name* intended_use* data_product_region* description* publication_date*",
    "dp_variant": "data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters_details",
    "deployment_model": "model_name_details actors release_type_details access_type_details "
    "data_source_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes",
}
OTHERS = {
    "basic": {"data_curators*": list, "data_product_sector": SECTORS}
    | {"data_product_type*": ("Machine learning model",)},
    "dp_variant": {"variant_name": VARIANTS},
    "privacy_loss": {"privacy_parameters": dict},
    "deployment_model": {"model_name": MODELS, "data_source_type": ("Static", "Dynamic")}
    | {"release_type": ("One release", "Many releases")}
    | {"access_type": ("Interactive", "Non-interactive")},
    "administrative": {"registry_authors*": list},
}


def read(text):
    return dict(pytest.importorskip("yaml").safe_load(text))


def check(deployment):
    assert deployment.keys() == TEXTS.keys()
    for section, names in TEXTS.items():
        rules = dict.fromkeys(names.split(), str) | OTHERS.get(section, {})
        known = {name.rstrip("*"): rule for name, rule in rules.items()}
        assert set(deployment[section]) <= set(known)
        assert {name[:-1] for name in rules if name.endswith("*")} <= set(deployment[section])
        for name, value in deployment[section].items():
            rule = known[name]
            if isinstance(rule, tuple):
                assert value in rule, name
                continue
            assert isinstance(value, rule), name
            texts = value if rule is list else [value] if rule is str else ["a number"]
            assert texts, name
            assert all(isinstance(text, str) and text.strip() for text in texts), name


@pytest.mark.parametrize(
    ("more", "tier"), [({}, 1), (SECOND, 2), (THIRD, 1), ({**SECOND, **THIRD}, 3)]
)
def test_an_entry_keeps_the_rules_of_the_schema(more, tier):
    text = registry_entry(STATEMENT, {**ANSWERS, **more})
    record = read(text)
    assert record.keys() == {"url_slug", "status", "tier", "deployment"}
    check(record["deployment"])
    assert (record["tier"], record["status"]) == (tier, "Draft")
    # As the registry makes it: name, curators and year.
    assert record["url_slug"] == "letters-to-a-clinic-clinic-of-kiel-health-board-2026"
    deployment = record["deployment"]
    for name, given in {**ANSWERS, **more}.items():
        sections = [part[name] for part in deployment.values() if name in part]
        assert sections == [
            given if name in ("data_curators", "registry_authors") else given[0]
        ]
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert STATEMENT.epsilon <= parameters["epsilon"] <= STATEMENT.epsilon * 1.001
    assert parameters == {"epsilon": parameters["epsilon"], "delta": STATEMENT.delta}
    assert STATEMENT.digest in deployment["administrative"]["notes"]
    assert "full-graph" in deployment["dp_variant"]["unprotected_quantities"]
    # Nothing stands in for what nobody said.
    assert not {*SECOND, *THIRD} & {n for part in deployment.values() for n in part} - set(more)


def test_a_hostile_answer_stays_one_text():
    said = "- a: b # c\n\t{x} \x1b[2J \u2028 'y' \\ \U0001f600 %"
    text = registry_entry(STATEMENT, {**ANSWERS, "notes": [said]})
    notes = read(text)["deployment"]["administrative"]["notes"]
    assert notes.startswith("- a: b # c\n\t{x} ")
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"colour": ["blue"]}, "'colour' of a registry entry is unknown"),
        ({"name": ["a", "b"]}, "name.*must be a valid string"),
        ({"name": [" "]}, "must have at least 1 character"),
        ({"publication_date": ["1.3.2026"]}, "publication_date"),
        ({"publication_date": ["20260301"]}, "publication_date"),
        ({"data_product_sector": ["Gardening"]}, "must be 'Technology', 'Health"),
    ],
)
def test_what_an_entry_cannot_hold_is_refused(change, match):
    with pytest.raises(ConfigError, match=match):
        registry_entry(STATEMENT, {**ANSWERS, **change})


def test_all_that_is_missing_is_named_at_once():
    with pytest.raises(ConfigError, match=r"data_curators \(.*registry_authors \(") as caught:
        registry_entry(STATEMENT, {"name": ["Letters"]})
    assert '--entry "data_curators=' in str(caught.value)
