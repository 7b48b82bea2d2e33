"""One Chromium for all pages; each page is watched for errors, requests and dialogs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from privgcn.config import Settings
from privgcn.privacy.partition import PartitionFacts
from privgcn.privacy.plan import PrivacyPlan
from privgcn.privacy.schedule import make_schedule
from privgcn.privacy.statement import PrivacyStatement
from privgcn.report import Figure, Report, Table, card_html
from privgcn.report.comparison import RunRecord
from privgcn.report.results import Outcome, write_outcome
from privgcn.report.scores import Scores

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror="alert(2)">',
    "'/><svg onload=alert(3)>",
    "{{ 7 * 7 }}",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = (
    "--no-sandbox",
    "--headless",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@dataclass
class Watched:
    """A page and what it did that it should not."""

    page: Any
    url: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium found; looked for " + ", ".join(NAMES))
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture
def look(chromium: Any, pages: dict[str, Path]) -> Iterator[Any]:
    """Opens one of ``pages`` from disk, in a given width and colour scheme."""
    contexts = []

    def opened(name: str, *, width: int = 1280, scheme: str = "light") -> Watched:
        context = chromium.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=scheme,
            reduced_motion="reduce",
        )
        contexts.append(context)
        watched = Watched(context.new_page(), pages[name].as_uri())
        page = watched.page
        page.on("console", lambda message: watched.complaints.append(message.text))
        page.on("pageerror", lambda error: watched.complaints.append(str(error)))
        page.on("request", lambda request: watched.requests.append(request.url))

        def on_dialog(dialog: Any) -> None:
            watched.complaints.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("dialog", on_dialog)
        page.goto(watched.url)
        return watched

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One page of each kind, with hostile names and with 41 classes."""
    folder = tmp_path_factory.mktemp("pages with spaces & signs")
    statement = _statement(8.0)
    settings = Settings(recipe="auto").changed({"privacy.noise_multiplier": 8.0})
    reports = {
        "run": Report.of_run(settings, statement, _scores(HOSTILE)),
        "classes": Report.of_run(
            Settings(), None, _scores(tuple(f"a long class name {i}" for i in range(41)))
        ),
        "runs": Report.of_runs(
            [
                RunRecord(
                    HOSTILE[i % 2],
                    settings,
                    _statement(8.0 + i),
                    Scores.read(_scores(HOSTILE), "a run"),
                )
                for i in range(3)
            ]
        ),
        "experiment": Report.of_experiment(
            HOSTILE[0], *_results(), [HOSTILE[1]], outcome=_outcome(folder / "results")
        ),
    }
    paths = {name: report.save(folder / f"{name}.html") for name, report in reports.items()}
    paths["card"] = folder / "card.html"
    paths["card"].write_text(
        card_html(statement, settings.model_dump(exclude={"data"})), encoding="utf-8"
    )
    return paths


def _statement(noise_multiplier: float) -> PrivacyStatement:
    plan = PrivacyPlan(
        unit="document",
        relation="remove",
        partition=PartitionFacts(kind="each", parts=200),
        schedule=make_schedule("all", 200, None),
        clip_norm=1.0,
        noise_multiplier=noise_multiplier,
        steps=3,
        delta=1e-5,
        units=200,
    )
    return PrivacyStatement.of(plan, releasable=True, not_covered=HOSTILE)


def _scores(classes: tuple[str, ...]) -> dict[str, Any]:
    size = len(classes)
    # Every level of the heat table occurs.
    matrix = [[(i * 7 + j * 3) % 11 * (j in (0, i)) for j in range(size)] for i in range(size)]
    rows = [
        {"class": name, "precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 10}
        for name in classes
    ]
    entry = {"micro_f1": 0.6, "macro_f1": 0.5, "accuracy": 0.6}
    return {
        "dataset": HOSTILE[1],
        "synthetic": True,
        "features": 384,
        "classes": list(classes),
        "modes": {
            mode: {**entry, "per_class": rows, "confusion": matrix}
            for mode in ("alone", "own-graph", "full-graph")
        },
        "baselines": {"majority": entry, HOSTILE[0]: entry},
    }


def _outcome(folder: Path) -> Outcome:
    folder.mkdir()
    failure = {"label": HOSTILE[0], "seeds": [0], "reason": HOSTILE[1], "settings": {}}
    claim = {
        "claim": HOSTILE[2],
        "verdict": "survives in part (own-graph: survives; full-graph: does not survive)",
        "evidence": list(HOSTILE),
        "rule": HOSTILE[0],
    }
    told = {"title": HOSTILE[1], "columns": ["a", "b"], "rows": [["x", HOSTILE[2]]]}
    return write_outcome(
        folder, HOSTILE[0], failures=[failure], takeaways=[claim], disagreements=told
    )


def _results() -> tuple[list[Table], list[Figure]]:
    wide = [f"column {i}" for i in range(14)]
    table = {
        "title": HOSTILE[2],
        "columns": wide,
        "rows": [[0.123] * 14],
        "notes": [HOSTILE[0]],
    }
    points = [[x, 0.1 * x, 0.05] for x in range(1, 8)]
    lines = {
        "title": HOSTILE[0],
        "x_label": HOSTILE[1],
        "y_label": HOSTILE[2],
        "series": [{"name": name, "points": points} for name in HOSTILE],
    }
    bars = {
        "title": "bars",
        "kind": "bar",
        "series": [{"name": n, "points": [[h, 0.5, 0.1] for h in HOSTILE]} for n in "ab"],
    }
    keyed = {
        "title": "keyed",
        "columns": ["dataset", "method", "epsilon", *wide[:8]],
        "rows": [["cora", method, 2, *[0.5] * 8] for method in ("sgd", "adam")],
    }
    tables = [Table.model_validate(one) for one in (table, keyed)]
    return tables, [Figure.model_validate(one) for one in (lines, bars)]
