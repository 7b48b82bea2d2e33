"""How to cite the paper and the program."""

from __future__ import annotations

from privgcn import __version__

_PAPER = """\
@inproceedings{igamberdiev-habernal-2022-privacy,
  title     = {Privacy-Preserving Graph Convolutional Networks for Text Classification},
  author    = {Igamberdiev, Timour and Habernal, Ivan},
  booktitle = {Proceedings of the 13th Language Resources and Evaluation Conference},
  publisher = {European Language Resources Association},
  address   = {Marseille, France},
  year      = {2022}
}"""


def citations() -> list[dict[str, str]]:
    """The method's paper and this program, in words and as BibTeX."""
    program = (
        "@software{privgcn,\n"
        "  title   = {privgcn: Text classification on graphs of documents, under "
        "differential privacy},\n"
        f"  version = {{{__version__}}}\n"
        "}"
    )
    return [
        {
            "what": "The method",
            "words": "Timour Igamberdiev and Ivan Habernal. 2022. Privacy-Preserving Graph "
            "Convolutional Networks for Text Classification. In Proceedings of the 13th "
            "Language Resources and Evaluation Conference (LREC 2022), Marseille, France.",
            "bibtex": _PAPER,
        },
        {
            "what": "The program",
            "words": f"privgcn, version {__version__}: text classification on graphs of "
            "documents, under differential privacy.",
            "bibtex": program,
        },
    ]
