"""Fewer cases of long products: a cover of all pairs of options, and a few of many."""

from itertools import combinations

import pytest

__all__ = ["few", "pair_cover"]


def pair_cover(rows):
    """Choose rows that together have every pair of values that occurs in any row.

    Args:
        rows: The values of each row by the name of the option.

    Returns:
        The chosen places in `rows`, in order. Every value occurs, also that of a single option.
    """
    wanted = []
    for row in rows:
        options = sorted(row.items())
        singles = {(option,) for option in options}
        wanted.append(singles | set(combinations(options, 2)))
    uncovered = set().union(*wanted)
    chosen = []
    while uncovered:
        # the first of several equal ones, so that every process chooses the same
        best = max(range(len(rows)), key=lambda place: len(wanted[place] & uncovered))
        uncovered -= wanted[best]
        chosen.append(best)
    return sorted(chosen)


def few(names, cases, kept):
    """Parametrise a test by named cases; the tests of all but the kept ones are long.

    Args:
        names: The arguments of the test, as for `pytest.mark.parametrize`.
        cases: The value of each case by its name.
        kept: The names of the cases that the short tests run.

    Raises:
        ValueError: If a kept name is not among the cases.
    """
    unknown = set(kept) - set(cases)
    if unknown:
        raise ValueError(f"expected names among {list(cases)}, got {sorted(unknown)}")
    parameters = []
    for name, case in cases.items():
        marks = () if name in kept else pytest.mark.long
        values = case if isinstance(case, tuple) else (case,)
        parameters.append(pytest.param(*values, id=name, marks=marks))
    return pytest.mark.parametrize(names, parameters)
