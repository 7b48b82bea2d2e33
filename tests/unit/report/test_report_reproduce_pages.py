"""What ``privgcn reproduce`` writes, a later ``privgcn report`` can say again."""

import json
from types import SimpleNamespace

import pytest

from privgcn import Report
from privgcn.experiments.paper.pages import write_pages
from privgcn.experiments.paper.reproduce import Shown
from privgcn.experiments.results import Presentation, Results
from privgcn.experiments.store import RecordStore
from privgcn.report import Table
from privgcn.report.results import Takeaway

NOTE = "This emulation is not private and can not make a statement."
TABLE = Table(title="T", columns=("a",), rows=(("x",),))


def done_with(folder, *names):
    made = Presentation([TABLE], [], [NOTE])
    shown = []
    for name in names:
        place = folder / name if len(names) > 1 else folder
        shown.append(Shown(name, f"Title of {name}", place, made))
    failure = {"label": "train on cora", "settings": {}, "seeds": [3], "reason": "MemoryError"}
    return SimpleNamespace(
        shown=shown,
        failures=[failure],
        takeaways=[Takeaway("Noise helps.", "survives in part", ("cora: 0.1.",), "A rule.")],
        compared=[],
        results=Results(RecordStore(folder), (0,)),
    )


@pytest.mark.parametrize("names", [("table1",), ("table1", "as-released")])
def test_notes_titles_and_failures_survive_on_every_page(tmp_path, names):
    page = write_pages(tmp_path, done_with(tmp_path, *names))
    pages = [page.read_text("utf-8"), Report.of_folders([tmp_path]).html()]
    for name in names[1:]:
        pages.append((tmp_path / name / "report.html").read_text("utf-8"))

    for html in pages:
        assert NOTE in html
        assert "train on cora" in html
        assert "MemoryError" in html
    for name in names:
        assert f"Title of {name}" in pages[0]
    assert pages[0] == pages[1]


def test_several_experiments_say_what_survives_and_why_ours_differ(tmp_path):
    write_pages(tmp_path, done_with(tmp_path, "table1", "as-released"))
    html = Report.of_folders([tmp_path]).html()

    for words in (
        "What survives",
        "Noise helps.",
        "survives in part",
        "Every published number",
    ):
        assert words in html


def test_the_table_of_an_earlier_call_is_not_taken_for_the_last(tmp_path):
    earlier = done_with(tmp_path, "mnist")
    stale = [{**TABLE.model_dump(mode="json"), "title": "Stale"}]
    (tmp_path / "tables.json").write_text(json.dumps(stale), "utf-8")
    write_pages(tmp_path, earlier)
    write_pages(tmp_path, done_with(tmp_path, "table1", "as-released"))

    assert "Stale" not in Report.of_folders([tmp_path]).html()
