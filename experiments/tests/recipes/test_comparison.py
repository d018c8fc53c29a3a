"""A number of a paper beside the runs of its row, and the table of a page."""

import pytest
from reproduction.archive import comparison_of

from eigenrnn_experiments.recipes import Reported
from eigenrnn_experiments.recipes.comparison import table_of
from eigenrnn_experiments.training import Run, RunKey
from eigenrnn_experiments.training.run import RunNumber
from recipes_for_results import row

REPORTED = Reported(0.5, "table 1")


def run(seed, value, point="", **known):
    """Return a run that has ended."""
    numbers = {REPORTED.measure: RunNumber(value)}
    key = RunKey("tiny/table1", "scoRNN 6", point, seed)
    return Run(**{"key": key, "state": "ended", "parameters": 1234, "numbers": numbers, **known})


def cells(*runs, reported=REPORTED):
    """Return the cells of the table of one row, by heading."""
    table = table_of([comparison_of(row(reported=(reported,)), reported, runs)])
    return dict(zip(table.headings, table.rows[0], strict=True))


def test_table_compares_our_mean_and_standard_error_with_the_paper():
    found = cells(run(0, 0.4, seconds=1.0), run(1, 0.6, seconds=3.0))
    # mean of .4 and .6, whose standard error is .1
    wanted = {"paper": "0.5", "ours": "0.5000 ± 0.100", "difference": "0", "runs": "2"}
    assert found == found | wanted | {"parameters": "1,234", "seconds per run": "2.0"}


def test_only_the_best_point_of_a_search_counts():
    losses = [{"test": {"loss": 2.0}}, {"test": {"loss": 1.0}}]
    pair = (run(0, 0.4, "lr=1", best=losses[0]), run(0, 0.6, "lr=2", best=losses[1]))
    assert cells(*pair)["ours"] == "0.6000"


def test_a_point_at_which_a_run_has_diverged_is_not_the_best():
    loss = {seed: {"test": {"loss": seed + 1.0}} for seed in (0, 1)}
    lost = run(1, 0.0, "lr=1", state="diverged", numbers=None)
    low = run(0, 0.4, "lr=1", best=loss[0])
    high = run(0, 0.6, "lr=2", best=loss[1])
    assert cells(low, lost, high)["ours"] == "0.6000"
    assert cells(low, lost)["ours"] == "0.4000"
    other = run(1, 0.0, "lr=2", state="diverged", numbers=None)
    third = run(2, 0.0, "lr=1", state="diverged", numbers=None)
    assert cells(low, lost, third, high, other)["ours"] == "0.6000"


def test_a_bound_replaces_the_papers_number():
    bound = Reported(None, "table 1", at_most=0.02)
    assert cells(run(0, 0.4), reported=bound)["paper"] == "at most 0.02"


def test_row_that_was_not_run_says_so():
    found = cells(reported=Reported(None, "table 1"))
    assert (found["ours"], found["paper"]) == ("no finished run", "not printed")


@pytest.mark.parametrize(("quantity", "values"), [("success", [1.0, 0.0]), ("loss", [1.0])])
def test_a_run_that_diverged_is_no_success_and_has_no_other_number(quantity, values):
    reported = Reported(0.5, "table 1", quantity=quantity)
    ended = run(0, 1.0, numbers={reported.measure: RunNumber(1.0)})
    lost = run(1, 0.0, state="diverged", numbers=None)
    found = comparison_of(row(reported=(reported,)), reported, [ended, lost])
    assert (found.values, found.diverged) == (values, ["seed 1"])
