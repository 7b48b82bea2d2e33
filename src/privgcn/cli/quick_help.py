"""Help without a wait: what Typer imports for it and never uses here is imported if used.

Markdown and pretty tracebacks are two thirds of what Typer's help imports. Both are off.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

_UNUSED = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}


class _Later(type):
    """A class that stands in for one of a module that is imported when it is used."""

    origin: str

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        return getattr(import_module(cls.origin), cls.__name__)(*arguments, **options)

    def __getattr__(cls, name: str) -> Any:
        return getattr(getattr(import_module(cls.origin), cls.__name__), name)


def import_help() -> None:
    """Imports Typer's help; all other imports of the process are as always."""
    ours = [module for module in _UNUSED if module not in sys.modules]
    for module in ours:
        sys.modules[module] = ModuleType(module)
        name = _UNUSED[module]
        setattr(sys.modules[module], name, _Later(name, (), {"origin": module}))
    # A Typer that wants more of them imports its help by itself, later.
    with suppress(ImportError):
        import_module("typer.rich_utils")
    for module in ours:
        del sys.modules[module]
