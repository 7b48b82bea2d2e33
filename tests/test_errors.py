"""Messages of errors: one line that a screen holds, whatever a file contained."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from privgcn.config import command_line, resolve
from privgcn.errors import LONGEST_MESSAGE, ConfigError, PrivGCNError


def test_a_message_is_one_line_and_loses_its_middle_when_long() -> None:
    said = str(ConfigError("The rule.\n" + "\0" * 20_000 + "\tThe remedy."))
    assert len(said) <= LONGEST_MESSAGE
    assert said.startswith(r"The rule.\n\x00")
    assert " … " in said
    assert said.endswith(r"\x00\tThe remedy.")
    assert str(PrivGCNError("Naïve 文書.")) == "Naïve 文書."
    # One that crossed processes says the same.
    error = ConfigError("a" * 20_000)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (ConfigError, str(error))


def test_python_and_the_command_line_cut_a_message_alike(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(f"recipe = '{'a' * 20_000}'\n")
    with pytest.raises(ConfigError) as caught:
        resolve(*command_line({}, None, path))
    said = str(caught.value)
    assert len(said) <= LONGEST_MESSAGE
    assert "'recipe'" in said
    command = [sys.executable, "-m", "privgcn", "train", "clinic", "--config", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"Error: {said}"
