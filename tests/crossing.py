"""Fewer cases of long products: a cover of all pairs of options, and a few of many."""

import random
from itertools import combinations, product

import pytest

# So many rows are drawn for a pair. The one that also covers the most other pairs is kept.
TRIALS = 40


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


def some(values, kept):
    """The values of a parameter; the tests of all but the kept ones are long.

    Raises:
        ValueError: If a kept value is not among the values.
    """
    if any(value not in values for value in kept):
        raise ValueError(f"expected values among {values}, got {kept}")
    long = pytest.mark.long
    return [value if value in kept else pytest.param(value, marks=long) for value in values]


def cover(axes, possible, seed=0):
    """Draw rows of a product that together have every possible pair of its values.

    Args:
        axes: The values of each option by its name.
        possible: Whether a row can be tested.
        seed: Another one gives other rows.

    Returns:
        The rows, each with the value of each option by its name.
    """
    generator = random.Random(seed)
    # a value is its place in its axis: it need not be hashable, and a set of pairs is fast
    places = {name: range(len(values)) for name, values in axes.items()}
    pairs = []
    for one, other in combinations(axes, 2):
        pairs += [((one, a), (other, b)) for a, b in product(places[one], places[other])]
    generator.shuffle(pairs)
    uncovered = dict.fromkeys(pairs)
    rows = []
    while uncovered:
        pair, _ = uncovered.popitem()
        drawn = []
        for _ in range(TRIALS):
            chosen = {name: generator.choice(values) for name, values in places.items()}
            chosen |= dict(pair)
            row = {name: axes[name][place] for name, place in chosen.items()}
            if possible(**row):
                drawn.append((row, uncovered.keys() & set(combinations(chosen.items(), 2))))
        if drawn:  # else no row has this pair
            best, covered = max(drawn, key=lambda each: len(each[1]))
            for each in covered:
                del uncovered[each]
            rows.append(best)
    return rows
