"""The claims of the papers: their experiments exist, and their tests decide as stated."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from eigenrnn.experiments.claims.claim import (
    AtLeast,
    AtMost,
    Claim,
    Close,
    Less,
    MoreOften,
    Runs,
    accuracy,
    last,
    of_baseline,
    score,
    selected,
    steps_below,
    value,
)
from eigenrnn.experiments.recipes import Computed, Row
from eigenrnn.experiments.registry import CLAIMS, RECIPES
from eigenrnn.experiments.training.run_key import Length

OURS, THEIRS = Runs("paper/table1", "ours"), Runs("paper/table1", "theirs")


def run(number=None, **changes):
    """Return the numbers of a run."""
    known = {"state": "ended", "value": number, "selected": None, "baseline": None, "scores": {}}
    return SimpleNamespace(**{**known, "evaluated": {}, "training": {}, **changes})


def finder(ours, theirs=()):
    """Return the function that finds the runs of both networks by their numbers."""
    found = {OURS: [run(number) for number in ours], THEIRS: [run(number) for number in theirs]}
    return found.__getitem__


def claim(*checks, **changes):
    """Return a claim with a test."""
    known = {"id": "a", "paper": "scoRNN", "sentence": "It works.", "place": "table 1"}
    return Claim(**{**known, "test": checks, **changes})


# data


def test_there_are_26_claims_of_five_papers():
    assert len(CLAIMS) == 26
    assert len({claim.paper for claim in CLAIMS.values()}) == 5


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_the_runs_of_a_claim_exist(claim):
    for runs in claim.experiment:
        rows = {row.label: row for row in RECIPES[runs.recipe].rows}
        row = rows[runs.row]
        if isinstance(row, Computed):
            continue
        assert isinstance(row, Row)
        assert row.layer is not None
        assert set(runs.points) <= set(row.points())
        if runs.reduced is not None:
            assert runs.reduced.number < getattr(row.settings, runs.reduced.unit)


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_a_claim_is_one_sentence_with_its_place(claim):
    assert claim.sentence.endswith(".")
    assert claim.place.startswith("section")
    assert claim.test


# comparisons


@pytest.mark.parametrize(
    ("ours", "theirs", "factor", "share"),
    [
        ([1.0], [2.0], 1, 1.0),
        ([1.0], [2.0], 2, 0.0),
        ([1.0, 3.0], [2.0, 4.0], 1, 0.75),
        ([1.0, None], [2.0], 1, None),
        ([], [2.0], 1, None),
    ],
)
def test_less_compares_all_pairs_of_runs(ours, theirs, factor, share):
    assert Less(OURS, THEIRS, factor).check(finder(ours, theirs)).share == share


def test_close_compares_all_pairs_of_runs():
    check = Close(OURS, THEIRS, within=0.5).check(finder([1.0, 2.0], [1.5, 3.0]))
    assert (check.share, check.numbers) == (0.5, (1.5, 2.25))


def test_more_often_compares_shares_of_successes():
    check = MoreOften(OURS, THEIRS)
    assert check.check(finder([0.0, 0.0, 1.0], [0.0, 0.0, 0.0])).is_true
    assert not check.check(finder([0.0, 1.0], [0.0, 1.0])).is_true


def test_bounds_are_inclusive():
    assert AtMost(OURS, 1.0).check(finder([1.0, 0.5])).is_true
    assert not AtMost(OURS, 1.0).check(finder([1.0, 1.5])).is_true
    assert AtLeast(OURS, 1.0).check(finder([1.0, 1.5])).is_true
    assert not AtLeast(OURS, 1.0).check(finder([1.0, 0.5])).is_true


# numbers


def test_numbers_are_read_from_the_record_and_its_curves():
    evaluated = {"step": [10, 20, 30], "test_loss": [0.9, 0.4, None]}
    training = {"step": [1, 2, 3], "train_loss": [1.0, 0.7, 0.2]}
    found = run(0.5, selected=0.6, baseline=1.0, scores={"norm": 3.0})
    found.evaluated, found.training = evaluated, training
    assert value.of(found) == 0.5
    assert selected.of(found) == 0.6
    assert score("norm").of(found) == 3.0
    assert score("other").of(found) is None
    assert last("test_loss").of(found) == 0.4
    assert last("other").of(found) is None
    assert steps_below(0.5).of(found) == 20
    assert steps_below(0.5, "train_loss").of(found) == 3
    assert steps_below(0.1).of(found) == math.inf
    assert of_baseline(last("test_loss")).of(found) == 0.4
    found.baseline = None
    assert steps_below(0.5).of(found) is None
    assert of_baseline(value).of(found) is None


def test_a_diverged_run_counts_as_the_worst():
    diverged = run(None, state="diverged")
    assert (value.read(diverged), accuracy.read(diverged)) == (math.inf, 0.0)
    assert not AtMost(OURS, 1.0).check(lambda _: [diverged]).is_true


# verdicts


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [((1.0, 1.0), "holds"), ((1.0, 0.1), "partly"), ((0.1, 0.1), "fails")],
)
def test_all_comparisons_of_a_claim_must_be_true(bounds, verdict):
    test = tuple(AtMost(OURS, bound) for bound in bounds)
    assert claim(*test).judge(finder([0.5])).verdict == verdict


def test_a_claim_with_a_missing_number_is_not_tried():
    assert (
        claim(AtMost(OURS, 1.0), AtMost(THEIRS, 1.0)).judge(finder([0.5])).verdict == "not tried"
    )


def test_a_claim_with_a_reduced_run_holds_reduced():
    reduced = Runs("paper/table1", "ours", reduced=Length("epochs", 3))
    judged = claim(AtMost(reduced, 1.0)).judge({reduced: [run(0.5)]}.get)
    assert judged.verdict == "holds reduced"


def test_full_runs_decide_where_a_comparison_has_them_all():
    shorter = Length("epochs", 3)
    ours, theirs = (replace(each, reduced=shorter) for each in (OURS, THEIRS))
    archived = {OURS: [run(0.1)], ours: [run(0.5)], theirs: [run(0.2)]}
    found = claim(AtMost(ours, 0.3), Less(ours, theirs)).judge(archived.get)
    assert [result.numbers for result in found.results] == [(0.1,), (0.5, 0.2)]
    assert found.verdict == "partly"


def test_a_claim_that_cannot_be_judged_says_so():
    judged = claim(AtMost(OURS, 1.0), unjudged="its numbers are rounding errors").judge(
        finder([0.5])
    )
    assert judged.verdict == "cannot be judged"
