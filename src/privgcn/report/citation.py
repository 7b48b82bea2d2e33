"""How to cite the paper and the program."""

from __future__ import annotations

from privgcn import __version__

_AUTHOR = "privgcn contributors"
_YEAR = 2026
_TITLE = "privgcn: Text classification on graphs of documents, under differential privacy"
_URL = "https://github.com/privgcn/privgcn"
_PAPER = """\
@inproceedings{igamberdiev-habernal-2022-privacy,
  title     = {Privacy-Preserving Graph Convolutional Networks for Text Classification},
  author    = {Igamberdiev, Timour and Habernal, Ivan},
  booktitle = {Proceedings of the 13th Language Resources and Evaluation Conference},
  publisher = {European Language Resources Association},
  address   = {Marseille, France},
  year      = {2022}
}"""
_PROGRAM = f"""\
@software{{privgcn,
  title   = {{{_TITLE}}},
  author  = {{{{{_AUTHOR}}}}},
  year    = {{{_YEAR}}},
  version = {{{__version__}}},
  url     = {{{_URL}}}
}}"""


def citations() -> list[dict[str, str]]:
    """The method's paper and this program, in words and as BibTeX."""
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
            "words": f"{_AUTHOR}. {_YEAR}. {_TITLE}. Version {__version__}. {_URL}",
            "bibtex": _PROGRAM,
        },
    ]
