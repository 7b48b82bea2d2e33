"""One Chromium for all pages; each page is watched for errors, requests and dialogs."""

from __future__ import annotations

import shutil
from typing import Any, NamedTuple

import pytest

from privacy.plans import statement as make_statement
from privgcn.report.card import privacy_card
from privgcn.report.page import run_page, runs_page
from report.samples import make_scores, make_settings, record

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror="alert(2)">',
    "'/><svg onload=alert(3)>",
    "{{ 7 * 7 }}",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]


class Watched(NamedTuple):
    """A page and what it did that it should not."""

    page: Any
    url: str
    complaints: list[str]
    requests: list[str]


@pytest.fixture(scope="session")
def chromium():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("no Chromium path; looked for " + ", ".join(NAMES))
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def look(chromium, pages):
    """Opens one of ``pages`` from disk, in a given width and colour scheme."""
    contexts = []

    def opened(name, *, width=1280, scheme="light"):
        size = {"width": width, "height": 800}
        context = chromium.new_context(
            viewport=size, color_scheme=scheme, reduced_motion="reduce"
        )
        contexts.append(context)
        page, complaints, requests = context.new_page(), [], []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.on("dialog", lambda box: complaints.append(box.message) or box.dismiss())
        page.goto(pages[name].as_uri())
        return Watched(page, pages[name].as_uri(), complaints, requests)

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """One page of each kind, with hostile names and with 41 classes."""
    folder = tmp_path_factory.mktemp("pages with spaces & signs")
    statement = make_statement(not_covered=HOSTILE)
    settings = make_settings(statement)
    scores = make_scores(HOSTILE, synthetic=True)
    scores["dataset"] = HOSTILE[1]
    scores["baselines"][HOSTILE[0]] = {"micro_f1": 0.6}
    many = make_scores(tuple(f"a long class name {i}" for i in range(41)))
    html = {
        "run": run_page(settings, statement, scores),
        "classes": run_page(make_settings(None), None, many),
        "runs": runs_page([record(name, statement, scores) for name in HOSTILE]),
        "card": privacy_card(statement, settings, template="card.html"),
    }
    for name, page in html.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in html}
