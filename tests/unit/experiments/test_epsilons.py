from __future__ import annotations

from privgcn.experiments.paper import mnist
from privgcn.experiments.paper.epsilons import noise_table
from privgcn.experiments.paper.published import published


def test_every_epsilon_of_the_noise_table_has_the_printed_digits() -> None:
    table = noise_table()
    column = table.columns.index("same digits")
    assert [row[column] for row in table.rows] == [True] * 8


def test_four_of_five_mnist_epsilons_have_the_printed_digits_and_the_fifth_a_reason() -> None:
    table = mnist.epsilon_table()
    column = table.columns.index("same digits")
    assert [row[column] for row in table.rows] == [True, True, True, True, False]
    (note,) = table.notes
    assert "0.5248 after 100 epochs where 0.50 is published" in note
    assert "82 to 88 epochs" in note


def test_the_text_gives_one_mnist_epsilon_to_four_digits() -> None:
    assert round(mnist.epsilon(published()["mnist"][0], "moments"), 4) == 1.2586
