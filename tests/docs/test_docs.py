"""Docs that are executed or generated: README, tutorials, reference pages, docstrings."""

from __future__ import annotations

import doctest
import json
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
import reference
from typer.testing import CliRunner

from privgcn.cli.app import app
from privgcn.errors import PrivGCNError

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOURCE = ROOT / "src"
EXAMPLES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
# What a command prints whatever its noise, the machine and its speed.
CERTAIN = ("Error: ", "Read ", "Found ", "Note: ", "Nothing ", "verified: ", "Dry run: ")


def blocks(text: str) -> list[tuple[str, str]]:
    return re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)


def printed(command: str) -> tuple[int, str]:
    program, *arguments = shlex.split(command)
    assert program == "privgcn", command
    try:
        done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    except PrivGCNError as error:
        return error.exit_code, f"Error: {error}"
    return done.exit_code, done.output


def check_record(block: str) -> None:
    """Commands after ``$``: what the page shows of them, as far as it is certain, is true."""
    for record in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *shown = record.strip().splitlines()
        certain = [line for line in shown if line.startswith(CERTAIN)]
        code, output = printed(command)
        output = " ".join(output.replace(f"{Path.cwd()}/", "").split())
        assert code == (2 if any(line.startswith("Error: ") for line in certain) else 0), output
        for line in certain:
            assert " ".join(line.split()) in output


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs_from_top_to_bottom(path: Path, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    executed = blocks(path.read_text(encoding="utf-8"))
    assert executed
    names: dict[str, object] = {}
    for kind, block in executed:
        if kind == "python":
            exec(compile(block, path.name, "exec"), names)
        elif kind == "console":
            check_record(block)
        elif kind == "sh":
            for line in block.strip().splitlines():
                code, output = printed(line)
                assert code == 0, (line, output)


@pytest.mark.filterwarnings("ignore")
def test_the_notebook_runs_from_top_to_bottom(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((ROOT / "docs" / "tutorials" / "first-model.ipynb").read_text())
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            exec(compile("".join(cell["source"]), "first-model.ipynb", "exec"), names)
    assert (tmp_path / "model" / "statement.json").exists()


def test_commands_of_the_readme_run_one_after_the_other_and_again(
    tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    listed = [
        line.split("#")[0].strip()
        for kind, block in blocks(README)
        if kind == "sh"
        for line in block.splitlines()
    ]
    commands = [line for line in listed if line.startswith("privgcn ")]
    assert any(line.startswith("privgcn train") for line in commands)
    for line in listed:
        if line.startswith("make"):
            assert re.search(rf"^{line.split()[1]}:", makefile, flags=re.MULTILINE)
    inline = re.findall(r"`(privgcn plan --[^`]*)`", README)
    assert len(inline) >= 2
    for command in [*commands, *inline, *commands]:
        code, output = printed(command)
        assert code == 0, (command, output)
    assert (tmp_path / "released" / "README.md").exists()


@pytest.mark.parametrize("code", [block for kind, block in blocks(README) if kind == "python"])
def test_snippets_of_the_readme_run(code: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "model" / "statement.json").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", reference.PAGES)
def test_reference_pages_are_those_of_the_code(name: str) -> None:
    assert (ROOT / "docs" / "reference" / name).read_text() == reference.PAGES[name]()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_a_module_run(name: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = doctest.testmod(import_module(name))
    assert done.attempted
    assert not done.failed


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in PAGES[2:]:
        name = str(page.relative_to(ROOT / "docs"))
        assert name in navigation or name.startswith("decisions/"), name


# hazard 34
def test_the_threat_model_names_timing() -> None:
    text = (ROOT / "docs" / "concepts" / "threat-model.md").read_text(encoding="utf-8").lower()
    assert "timing" in text
    assert "sampler" in text or "noise" in text[text.index("timing") :][:400]
