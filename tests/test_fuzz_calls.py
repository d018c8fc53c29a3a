"""Random calls of public functions end in the right values or in an error that says what to do."""

import pytest

from fuzzed import calls, fault

FEW, MANY = 2_000, 18_000


@pytest.mark.parametrize(
    ("seed", "count"),
    [(0, FEW), pytest.param(1, MANY, marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_random_calls_give_what_the_definition_gives_or_a_named_error(seed, count):
    faults = list(filter(None, map(fault, calls(seed, count))))
    assert not faults, "\n".join([f"{len(faults)} of {count}", *faults[:40]])
