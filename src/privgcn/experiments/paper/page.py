"""``docs/reproduction.md``: written by the command, from records, never by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from privgcn.experiments.paper.takeaways import Takeaway
from privgcn.experiments.progress import duration
from privgcn.experiments.results import Table

if TYPE_CHECKING:
    from privgcn.experiments.paper.reproduce import Reproduction

_INTRODUCTION = """\
# Reproduction of the paper

<!-- Written by `{command}`. Do not edit: run the command again. -->

Every number of the paper's tables, and the figures of its running text that the package's
`published.toml` holds, beside ours. The paper trains graph convolutional networks on graphs of
documents under differential privacy. Its released code adds the noise of the paper to gradients
that it does not clip, and cuts no edge, so its published private scores carry no guarantee.
There are therefore four columns:

- **published**: the paper's number;
- **as released**: the behaviour of the released code, emulated (`privgcn reproduce
  as-released`). It has no guarantee and cannot make a statement;
- **done soundly**: the paper's own method with what it describes: one gradient per part,
  clipped to norm 1 over all tensors together, induced parts, exact accounting;
- **auto**: this package's recipe, which protects every document.

Scores are micro F1 on the test documents, mean ± sample standard deviation over seeds. Unless
a table says otherwise, predictions follow the paper's protocol (inference mode `full-graph`),
which sees training documents without noise and is not covered by any training guarantee.
Runs of experiments have seeded noise and must not be released.

Figures are not on this page: each experiment of a results folder has them as
`figures/*.svg`, and `report.html` shows them beside its tables.

{size}"""


def reproduction_page(done: Reproduction, command: str, render: Callable[[Table], str]) -> str:
    """The page as Markdown.

    Args:
        done: What a call of ``reproduce`` did.
        command: The command that writes the page.
        render: A table as Markdown; drawing is the report's business.
    """
    head = _INTRODUCTION.format(command=command, size=_size(done))
    blocks = [head, "## The five take-aways", *_takeaway_blocks(done.takeaways)]
    blocks += [
        "## Every published number, and the reason for each disagreement",
        render(done.disagreements),
    ]
    for shown in done.shown:
        blocks += [f"## {shown.title}", f"`privgcn reproduce {shown.name}`"]
        blocks += shown.presentation.notes
        blocks += [render(table) for table in shown.presentation.tables]
    if done.failures:
        blocks.append("## Runs that failed")
        blocks += [f"- {failure['label']}: {failure['reason']}" for failure in done.failures]
    return "\n\n".join(block.rstrip() for block in blocks) + "\n"


def _size(done: Reproduction) -> str:
    """How many runs there are, and how long they took where all of them are there."""
    made = done.summary.kept + done.summary.done
    if made < done.summary.runs:
        return (
            f"These tables hold {made} of the {done.summary.runs} runs that these experiments "
            "ask for; means are over the seeds that are there, and a dash stands for none."
        )
    time = duration(done.training_seconds)
    return f"These tables hold {made} runs. Training them took {time} in all, one by one."


def _takeaway_blocks(found: Sequence[Takeaway]) -> list[str]:
    blocks = []
    for number, one in enumerate(found, 1):
        lines = [f"{number}. **{one.claim}** Under sound clipping it **{one.verdict}**."]
        if one.verdict == "not measured":
            lines = [f"{number}. **{one.claim}** **Not measured** in these runs."]
        lines += [f"   - {sentence}" for sentence in one.evidence]
        lines.append(f"   - Rule: {one.rule}")
        blocks.append("\n".join(lines))
    return blocks
