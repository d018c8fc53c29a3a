"""The cover of pairs, against an enumeration of all of them."""

from itertools import combinations, product

import pytest

from crossing import cover, few, pair_cover


def rows_of(*sizes):
    axes = [range(size) for size in sizes]
    return [dict(zip("abcdefgh", values, strict=False)) for values in product(*axes)]


def pairs_in(rows):
    return {
        (one, row[one], other, row[other])
        for row in rows
        for one, other in combinations(sorted(row), 2)
    }


@pytest.mark.parametrize("sizes", [(3,), (2, 2, 2), (3, 4, 2, 2), (10, 4, 4, 3)], ids=str)
def test_the_cover_has_every_pair_in_few_rows(sizes):
    rows = rows_of(*sizes)
    chosen = [rows[place] for place in pair_cover(rows)]
    assert pairs_in(chosen) == pairs_in(rows)
    assert {value for row in chosen for value in row.items()} == {
        value for row in rows for value in row.items()
    }
    first, second, *_ = (*sorted(sizes, reverse=True), 1)
    assert len(chosen) <= 1.5 * first * second


def test_a_row_that_does_not_occur_is_not_needed():
    rows = [row for row in rows_of(3, 3, 2) if row["a"] != row["b"]]
    chosen = [rows[place] for place in pair_cover(rows)]
    assert pairs_in(chosen) == pairs_in(rows)


def test_all_but_the_kept_cases_are_long():
    parameters = few("case", {"one": 1, "two": 2, "three": 3}, ["two"]).args[1]
    long = [parameter.id for parameter in parameters if parameter.marks]
    assert long == ["one", "three"]


def test_a_kept_case_must_exist():
    with pytest.raises(ValueError, match=r"got \['two'\]"):
        few("case", {"one": 1}, ["two"])


def test_drawn_rows_have_every_possible_pair():
    axes = {"a": range(4), "b": range(4), "c": range(3), "d": range(2)}

    def possible(a, b, c, d):
        return a != b and not (c == 2 and d == 1)

    rows = cover(axes, possible)
    everything = [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]
    assert pairs_in(rows) == pairs_in([row for row in everything if possible(**row)])
    assert len(rows) <= 24
    assert rows == cover(axes, possible)
    assert rows != cover(axes, possible, seed=1)
