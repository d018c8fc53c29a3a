"""The claims of the papers: their experiments exist, and their tests decide as stated."""

import math
from dataclasses import replace
from datetime import datetime

import pytest
from reproduction.archive import ArchivedRun
from reproduction.claim import (
    AtLeast,
    AtMost,
    Claim,
    Close,
    Less,
    MoreOften,
    Progress,
    Runs,
    accuracy,
    is_at_chance,
    last,
    of_baseline,
    of_success,
    score,
    steps_below,
    steps_between,
    value,
)
from reproduction.claims import CLAIMS
from reproduction.evidence import row_of
from reproduction.recipes import RECIPES

from eigenrnn.experiments.recipes import Computed, Row
from eigenrnn.experiments.training.run_key import Length

# when the test of each claim was last changed, and its fingerprint
PINNED = {
    "scornn-copy-1000": ("2026-11-24T00:09:34+00:00", "28c7f6933511"),
    "scornn-copy-2000": ("2026-11-26T05:25:40+00:00", "e6d476921fc3"),
    "scornn-adding": ("2026-11-26T05:30:02+00:00", "7d2792b7a2d2"),
    "scornn-psmnist": ("2026-11-24T00:09:34+00:00", "3d943f100f83"),
    "scornn-smnist": ("2026-11-24T00:09:34+00:00", "3a4c470cbe5f"),
    "enrnn-adding": ("2026-11-26T05:30:02+00:00", "54c7f2f60e27"),
    "enrnn-copy": ("2026-11-24T00:09:34+00:00", "fa7179e3f135"),
    "enrnn-both": ("2026-11-24T00:09:34+00:00", "0b8eedb76d79"),
    "enrnn-speech": ("2026-11-24T00:09:34+00:00", "830578ca3d23"),
    "enrnn-ptb": ("2026-11-24T00:09:34+00:00", "eb838b963ec2"),
    "nnrnn-copy": ("2026-11-24T00:09:34+00:00", "c0d64af94120"),
    "nnrnn-ptb": ("2026-11-24T00:09:34+00:00", "39bdec5e282d"),
    "nnrnn-psmnist": ("2026-11-24T00:09:34+00:00", "bdbf4c9495a2"),
    "nnrnn-theta": ("2026-11-24T00:09:34+00:00", "2da8faf9c343"),
    "nnrnn-fisher": ("2026-11-24T00:09:34+00:00", "76eba599d66b"),
    "ncgru-parenthesis": ("2026-11-24T00:09:34+00:00", "edf7539b2676"),
    "ncgru-denoise": ("2026-11-24T00:09:34+00:00", "b8f68313ba05"),
    "ncgru-adding": ("2026-11-24T00:09:34+00:00", "8e79b77cac34"),
    "ncgru-copy": ("2026-11-24T00:09:34+00:00", "f7b8054dc77c"),
    "ncgru-ptb": ("2026-11-24T00:09:34+00:00", "4234b632af51"),
    "ncgru-neumann": ("2026-11-26T05:25:40+00:00", "15d77a7f67a3"),
    "chain-copy": ("2026-11-24T00:09:34+00:00", "97d24bc3f1fe"),
    "chain-others": ("2026-11-24T00:09:34+00:00", "b06f11a68bf0"),
    "chain-words": ("2026-11-26T17:16:00+00:00", "485eee070e1c"),
    "chain-henrici": ("2026-11-25T17:50:51+00:00", "2f7c60b45024"),
    "chain-memory": ("2026-11-24T00:09:34+00:00", "36fb90c25456"),
}

OURS, THEIRS = Runs("paper/table1", "ours"), Runs("paper/table1", "theirs")
SHORT = Length("epochs", 3)


def run(number=None, seed=0, *, loss=0.1, **changes):
    """Return a run with a number and a best test loss, of a chance level of 1."""
    known = {"state": "ended", "value": number, "baseline": 1.0, "best": {"test": {"loss": loss}}}
    return ArchivedRun("paper/table1", "ours", "", seed, **{**known, **changes})


class Known:
    """Evidence that consists of these runs, by network and length."""

    def __init__(self, found, progress=None):
        self.found = found
        self.known_progress = progress or {}

    def runs(self, network):
        return self.found.get(network, {})

    def progress(self, network):
        seeds = max((len(its) for its in self.runs(network).values()), default=0)
        return self.known_progress.get(network, Progress(float(seeds > 0), seeds, 1.0))


def numbers(ours, theirs=()):
    """Return the evidence of two networks with these numbers, one for each seed."""
    found = {
        network: {None: [run(number, seed) for seed, number in enumerate(its)]}
        for network, its in ((OURS, ours), (THEIRS, theirs))
        if its
    }
    return Known(found)


def claim(*decisive, **changes):
    """Return a claim with a test."""
    known = {"id": "a", "paper": "scoRNN", "sentence": "It works.", "place": "table 1"}
    changed = "2026-01-02T00:00:00+00:00"
    return Claim(**{**known, "decisive": decisive, "changed": changed, **changes})


def medians(result):
    """Return the medians of a comparison, in the order of its networks."""
    return list(result.medians.values())


def test_there_are_26_claims_of_five_papers():
    assert len(CLAIMS) == 26
    assert len({claim.paper for claim in CLAIMS.values()}) == 5


def test_the_runs_of_all_claims_exist():
    for network in [network for claim in CLAIMS.values() for network in claim.networks]:
        row = row_of(RECIPES, network)
        if isinstance(row, Computed):
            continue
        assert isinstance(row, Row)
        assert row.layer is not None
        assert set(network.points) <= set(row.points())
        if network.least is not None:
            assert network.least.number < getattr(row.settings, network.least.unit)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_test_does_not_change_without_its_date(name):
    """Where this fails, set `changed` to the time of the change, and then both values here."""
    assert (CLAIMS[name].changed, CLAIMS[name].digest) == PINNED[name]


def test_a_claim_is_one_sentence_with_its_place_and_enough_seeds():
    for each in CLAIMS.values():
        assert each.sentence.endswith(".")
        assert each.place.startswith("section")
        assert each.decisive
        assert datetime.fromisoformat(each.changed).tzinfo is not None
        trained = [n for n in each.networks if isinstance(row_of(RECIPES, n), Row)]
        assert all(len(network.seeds) >= each.seeds for network in trained)


@pytest.mark.parametrize(
    ("ours", "theirs", "changes", "share"),
    [
        ([1.0], [2.0], {}, 1.0),
        ([1.0], [2.0], {"factor": 2}, 0.0),
        ([1.0], [2.0], {"margin": 0.5}, 1.0),
        ([1.0], [2.0], {"margin": 1.0}, 0.0),
        ([1.0, 3.0], [2.0, 4.0], {}, 0.75),
        ([1.0, None], [2.0], {}, None),
        ([], [2.0], {}, None),
    ],
)
def test_less_compares_all_pairs_of_runs(ours, theirs, changes, share):
    assert Less(OURS, THEIRS, **changes).check(numbers(ours, theirs)).share == share


def test_close_compares_all_pairs_of_runs():
    check = Close(OURS, THEIRS, within=0.5).check(numbers([1.0, 2.0], [1.5, 3.0]))
    assert (check.share, medians(check)) == (0.5, [1.5, 2.25])


def test_more_often_compares_shares_of_successes():
    check = MoreOften(OURS, THEIRS)
    assert check.check(numbers([0.0, 0.0, 1.0], [0.0, 0.0, 0.0])).is_true
    assert not check.check(numbers([0.0, 1.0], [0.0, 1.0])).is_true


def test_bounds_are_inclusive():
    assert AtMost(OURS, 1.0).check(numbers([1.0, 0.5])).is_true
    assert not AtMost(OURS, 1.0).check(numbers([1.0, 1.5])).is_true
    assert AtLeast(OURS, 1.0).check(numbers([1.0, 1.5])).is_true
    assert not AtLeast(OURS, 1.0).check(numbers([1.0, 0.5])).is_true


def test_a_number_of_successes_leaves_other_runs_out():
    curves = {"step": [1, 2], "test_loss": [0.4, 0.6]}
    success, failure = (
        run(3.0, evaluated=curves),
        run(1.0, evaluated={**curves, "test_loss": [1, 1]}),
    )
    diverged = replace(success, state="diverged")
    check = AtLeast(OURS, 2.0, of_success(value))
    assert medians(check.check(Known({OURS: {None: [success, failure, diverged]}}))) == [3.0]
    assert check.check(Known({OURS: {None: [failure, diverged]}})).share is None


def test_numbers_that_grow_are_compared_at_one_length():
    evidence = Known({OURS: {None: [run(1.0)], SHORT: [run(3.0)]}, THEIRS: {SHORT: [run(2.0)]}})
    assert medians(Less(OURS, THEIRS).check(evidence)) == [3.0, 2.0]


def test_of_lengths_with_equally_many_seeds_the_longest_is_compared():
    evidence = Known({each: {None: [run(1.0)], SHORT: [run(3.0)]} for each in (OURS, THEIRS)})
    assert medians(Less(OURS, THEIRS).check(evidence)) == [1.0, 1.0]


def test_a_length_with_more_seeds_is_preferred():
    its = {None: [run(1.0)], SHORT: [run(3.0), run(5.0, 1)]}
    assert medians(Less(OURS, THEIRS).check(Known({OURS: its, THEIRS: its}))) == [4.0, 4.0]


def test_without_a_common_length_nothing_is_compared():
    evidence = Known({OURS: {None: [run(1.0)]}, THEIRS: {SHORT: [run(2.0)]}})
    assert Less(OURS, THEIRS).check(evidence).share is None


def test_the_longest_run_of_each_seed_counts_for_a_bound():
    evidence = Known({OURS: {None: [run(1.0)], SHORT: [run(3.0), run(5.0, 1)]}})
    assert medians(AtMost(OURS, 9.0).check(evidence)) == [3.0]  # the median of 1 and 5


def until(steps, *losses):
    """Return a run that is evaluated at each update and ends after so many."""
    curve = {"step": list(range(1, len(losses) + 1)), "test_loss": list(losses)}
    return run(steps=steps, evaluated=curve)


@pytest.mark.parametrize(
    ("theirs", "outcomes"),
    [
        (until(3, 1.0, 1.0, 1.0), (True,)),
        (until(3, 0.1, 0.1, 0.1), (False,)),
        (until(2, 0.1, 0.1), (False,)),
        # whether it falls at the third update is unknown, and ours has not fallen by the second
        (until(2, 1.0, 1.0), ()),
    ],
)
def test_a_first_update_is_compared_up_to_the_end_of_the_shorter_run(theirs, outcomes):
    ours = until(4, 1.0, 1.0, 0.1, 0.1)
    if len(theirs.evaluated["step"]) == 3:
        ours = until(4, 1.0, 0.1, 0.1, 0.1)
    evidence = Known({OURS: {None: [ours]}, THEIRS: {SHORT: [theirs]}})
    assert Less(OURS, THEIRS, number=steps_below(0.5)).check(evidence).outcomes == outcomes


@pytest.mark.parametrize(("loss", "expected"), [(0.94, False), (0.95, True), (1.2, True)])
def test_a_network_is_at_chance_from_95_percent_of_its_loss(loss, expected):
    assert is_at_chance(run(loss=loss)) == expected


def test_two_networks_at_chance_have_no_order():
    its = {OURS: {None: [run(1.0, loss=0.97)]}, THEIRS: {None: [run(2.0, loss=0.98)]}}
    judged = claim(Less(OURS, THEIRS)).judge(Known(its))
    assert (judged.results[0].share, judged.verdict) == (None, "not decided yet")


def test_a_network_at_chance_is_above_one_that_is_not():
    its = {OURS: {None: [run(1.0, loss=0.5)]}, THEIRS: {None: [run(2.0, loss=0.98)]}}
    assert claim(Less(OURS, THEIRS)).judge(Known(its)).verdict == "holds"


def test_a_claim_whose_networks_are_all_at_chance_is_not_decided():
    its = {each: {None: [run(1.0, loss=1.0)]} for each in (OURS, THEIRS)}
    judged = claim(AtLeast(OURS, 0.5), AtLeast(THEIRS, 0.5)).judge(Known(its))
    assert judged.verdict == "not decided yet"


def test_numbers_are_read_from_the_record_and_its_curves():
    found = run(
        0.5,
        scores={"norm": 3.0},
        evaluated={"step": [10, 20, 30, 40], "test_loss": [0.9, 0.4, 0.05, None]},
        training={"step": [1, 2, 3], "train_loss": [1.0, 0.7, 0.2]},
    )
    assert value.of(found) == 0.5
    assert score("norm").of(found) == 3.0
    assert score("other").of(found) is None
    assert last("test_loss").of(found) == 0.05
    assert last("other").of(found) is None
    assert steps_below(0.5).of(found) == 20
    assert steps_below(0.5, "train_loss").of(found) == 3
    assert steps_below(0.01).of(found) == math.inf
    assert steps_between(0.95, 0.1).of(found) == 20
    assert steps_between(0.95, 0.01).of(found) == math.inf
    assert of_baseline(last("test_loss")).of(found) == 0.05
    assert of_success(last("test_loss"), 0.5).counts(found)
    assert not of_success(last("test_loss"), 0.01).counts(found)
    without_chance = replace(found, baseline=None)
    assert steps_below(0.5).of(without_chance) is None
    assert of_baseline(value).of(without_chance) is None


@pytest.mark.parametrize(
    ("number", "amount", "said"),
    [
        (value, 0.00031415, "0.000314"),
        (accuracy, 0.9432, "of 94.3 %"),
        (value, 1.31e-5, "0.0000131"),
        (of_baseline(value), 0.00009, "at less than 0.01 %"),
        (steps_below(0.5), 3100, "after 3,100 updates"),
        (steps_below(0.5), math.inf, "never"),
    ],
)
def test_a_number_is_said_in_words(number, amount, said):
    assert number.say(amount) == said


def test_a_diverged_run_counts_as_the_worst():
    diverged = run(None, state="diverged")
    assert (value.read(diverged), accuracy.read(diverged)) == (math.inf, 0.0)
    assert not AtMost(OURS, 1.0).check(Known({OURS: {None: [diverged]}})).is_true


@pytest.mark.parametrize(
    ("decisive", "further", "verdict"),
    [(1.0, 1.0, "holds"), (1.0, 0.1, "partly"), (0.1, 1.0, "fails"), (0.1, 0.1, "fails")],
)
def test_a_claim_holds_partly_only_if_its_decisive_comparison_does(decisive, further, verdict):
    judged = claim(AtMost(OURS, decisive), further=(AtMost(OURS, further),))
    assert judged.judge(numbers([0.5])).verdict == verdict


def test_a_claim_with_a_missing_number_is_not_decided():
    judged = claim(AtMost(OURS, 1.0), AtMost(THEIRS, 1.0)).judge(numbers([0.5]))
    assert judged.verdict == "not decided yet"


@pytest.mark.parametrize(("seeds", "verdict"), [(1, "not decided yet"), (2, "holds")])
def test_a_claim_needs_its_seeds(seeds, verdict):
    judged = claim(AtMost(OURS, 1.0), seeds=2).judge(numbers([0.5] * seeds))
    assert (judged.verdict, judged.seeds) == (verdict, seeds)


@pytest.mark.parametrize(("share", "verdict"), [(0.99, "not decided yet"), (1.0, "holds")])
def test_a_claim_needs_the_least_length(share, verdict):
    evidence = Known({OURS: {None: [run(0.5)]}}, {OURS: Progress(share, 1, share)})
    judged = claim(AtMost(OURS, 1.0)).judge(evidence)
    assert (judged.verdict, judged.share) == (verdict, share)


def test_a_number_without_training_needs_no_seeds():
    computed = Progress(share=1.0, seeds=0, longest=1.0, is_trained=False)
    evidence = Known({OURS: {None: [run(0.5, None, state="computed")]}}, {OURS: computed})
    judged = claim(AtMost(OURS, 1.0), seeds=3).judge(evidence)
    assert (judged.verdict, judged.is_computed) == ("holds", True)


def test_only_seeds_that_were_compared_are_counted():
    curves = {"step": [1], "test_loss": [0.1]}
    runs = [run(1.0, 0, evaluated=curves), run(1.0, 1, evaluated={**curves, "test_loss": [0.9]})]
    check = AtMost(OURS, 2.0, of_success(value))
    evidence = Known({OURS: {None: runs}, THEIRS: {None: runs}})
    assert claim(check).judge(evidence).seeds_compared == (1, 1)
    assert claim(check, AtMost(THEIRS, 2.0)).judge(evidence).seeds_compared == (1, 2)


def test_the_digest_is_that_of_the_test_and_not_of_its_words():
    known = claim(Less(OURS, THEIRS))
    named = replace(OURS, name="a name")
    assert claim(Less(named, THEIRS), note="A note.").digest == known.digest
    others = [
        claim(Less(THEIRS, OURS)),
        claim(Less(OURS, THEIRS, factor=2.0)),
        claim(Less(OURS, THEIRS, number=accuracy)),
        claim(Less(OURS, THEIRS, number=replace(value, grows=False))),
        claim(Less(OURS, THEIRS, number=replace(value, is_first_update=True))),
        claim(Less(OURS, THEIRS, number=replace(value, diverged=0.0))),
        claim(Less(OURS, THEIRS), seeds=2),
        claim(Less(replace(OURS, seeds=(0, 1)), THEIRS)),
        claim(Less(replace(OURS, least=SHORT), THEIRS)),
        claim(further=(Less(OURS, THEIRS),)),
    ]
    assert known.digest not in {each.digest for each in others}


def test_the_runs_that_ended_before_the_test_was_changed_are_counted():
    ends = ("2026-01-01T00:00:00+00:00", "2026-01-03T00:00:00+00:00", None)
    runs = [run(0.5, seed, ended=end) for seed, end in enumerate(ends)]
    judged = claim(AtMost(OURS, 1.0)).judge(Known({OURS: {None: runs}}))
    assert judged.runs_before_test == 1
