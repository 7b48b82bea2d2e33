"""Messages of errors: one line that a screen holds, whatever a file contained."""

import pickle

from privgcn.errors import LONGEST_MESSAGE, ConfigError, PrivGCNError


def test_a_message_is_one_line_and_loses_its_middle_when_long():
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
