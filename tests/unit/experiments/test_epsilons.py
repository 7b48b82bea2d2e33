from __future__ import annotations

from privgcn.experiments.paper.epsilons import mnist_epsilon, mnist_epsilon_table, noise_table
from privgcn.experiments.paper.published import published


def test_every_epsilon_of_the_noise_table_has_the_printed_digits() -> None:
    table = noise_table()
    column = table["columns"].index("same digits")
    assert len(table["rows"]) == 8
    assert {row[column] for row in table["rows"]} == {"yes"}


def test_four_of_five_mnist_epsilons_have_the_printed_digits_and_the_fifth_a_reason() -> None:
    table = mnist_epsilon_table()
    column = table["columns"].index("same digits")
    assert [row[column] for row in table["rows"]] == ["yes", "yes", "yes", "yes", "no"]
    assert "0.5248 after 100 epochs where 0.50 is published" in table["notes"][0]
    assert "82 to 88 epochs" in table["notes"][0]


def test_the_text_gives_one_mnist_epsilon_to_four_digits() -> None:
    row = published().mnist[0]
    epsilon = mnist_epsilon(row.lot_size, row.noise_multiplier, "moments")
    assert round(epsilon, 4) == 1.2586
