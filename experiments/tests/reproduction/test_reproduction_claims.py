"""The claims of the papers: their experiments exist, and their tests decide as stated."""

import json
import math
from dataclasses import replace
from datetime import datetime
from string import Formatter

import pytest
from reproduction.archive import Archive, ArchivedRun
from reproduction.claim import (
    Claim,
    Median,
    Runs,
    TrueIn,
    accuracy,
    at_least,
    at_most,
    close,
    last,
    less,
    more_often,
    of_chance,
    of_success,
    score,
    steps_below,
    steps_between,
    value,
)
from reproduction.claims import CLAIMS
from reproduction.evidence import ArchivedEvidence, is_at_chance
from reproduction.recipes import RECIPES

from eigenrnn_experiments.recipes import Computed, Recipe, Row
from eigenrnn_experiments.training.run_key import Length
from recipes_for_results import row

# when the test of each claim was last changed, and its fingerprint
PINNED = {
    "scornn-copy-1000": ("2026-11-24T00:09:34+00:00", "ceafef53ca11"),
    "scornn-copy-2000": ("2026-11-26T05:25:40+00:00", "eeca5ffce29a"),
    "scornn-adding": ("2026-11-27T20:30:00+00:00", "7979c2c36c85"),
    "scornn-psmnist": ("2026-11-24T00:09:34+00:00", "2618a9b1216f"),
    "scornn-smnist": ("2026-11-24T00:09:34+00:00", "eeaace88a829"),
    "enrnn-adding": ("2026-11-26T05:30:02+00:00", "e706d8f3891b"),
    "enrnn-copy": ("2026-11-24T00:09:34+00:00", "cac311334096"),
    "enrnn-both": ("2026-11-24T00:09:34+00:00", "27c91762bffb"),
    "enrnn-speech": ("2026-11-24T00:09:34+00:00", "a268bc9dd25b"),
    "enrnn-ptb": ("2026-11-24T00:09:34+00:00", "36d56a3c9d38"),
    "nnrnn-copy": ("2026-11-24T00:09:34+00:00", "7fd2ef2621a7"),
    "nnrnn-ptb": ("2026-11-24T00:09:34+00:00", "d23c72a0792a"),
    "nnrnn-psmnist": ("2026-11-24T00:09:34+00:00", "defcde6851bf"),
    "nnrnn-theta": ("2026-11-24T00:09:34+00:00", "4270d64777f7"),
    "nnrnn-fisher": ("2026-11-24T00:09:34+00:00", "b664483e46dc"),
    "ncgru-parenthesis": ("2026-11-24T00:09:34+00:00", "a097d96ccdb1"),
    "ncgru-denoise": ("2026-11-24T00:09:34+00:00", "cb6fa96c731b"),
    "ncgru-adding": ("2026-11-24T00:09:34+00:00", "d1622bff8b89"),
    "ncgru-copy": ("2026-11-24T00:09:34+00:00", "94e0890680fa"),
    "ncgru-ptb": ("2026-11-24T00:09:34+00:00", "ea1b08248983"),
    "ncgru-neumann": ("2026-11-26T05:25:40+00:00", "d1724822e328"),
    "chain-copy": ("2026-11-24T00:09:34+00:00", "3b376549dc30"),
    "chain-others": ("2026-11-24T00:09:34+00:00", "e03eaa105f2a"),
    "chain-words": ("2026-11-26T17:16:00+00:00", "3d3daacbd74c"),
    "chain-henrici": ("2026-11-25T17:50:51+00:00", "55beae24eed1"),
    "chain-memory": ("2026-11-24T00:09:34+00:00", "69328d583354"),
}

NAME = "paper/table1"
OURS, THEIRS = Runs(NAME, "ours"), Runs(NAME, "theirs")
SETTINGS = replace(row().settings, steps=None, epochs=4)
ROWS = tuple(row(label, settings=SETTINGS) for label in ("ours", "theirs"))
KNOWN = {NAME: Recipe(NAME, "A table.", ROWS, "Nobody, 2020", (0, 1))}
SHORT = Length("epochs", 3)


def run(number=None, seed=0, *, loss=0.1, **changes):
    """Return a run with a number and a best test loss, of a chance level of 1."""
    known = {"state": "ended", "value": number, "baseline": 1.0, "best": {"test": {"loss": loss}}}
    return replace(ArchivedRun(NAME, "ours", "", seed, **known), **changes)


class Known(ArchivedEvidence):
    """Evidence that consists of these runs, by network."""

    def __init__(self, found):
        super().__init__(KNOWN, NoRuns())
        for network, runs in found.items():
            its = [replace(run, row=network.row) for run in runs]
            self._runs[network.recipe, network.row] = its


class NoRuns:
    """An archive without runs."""

    def runs(self):
        return []


def numbers(ours, theirs=()):
    """Return the evidence of two networks with these numbers, one for each seed."""
    found = {OURS: ours, THEIRS: theirs}
    return Known(
        {
            network: [run(number, seed) for seed, number in enumerate(its)]
            for network, its in found.items()
        }
    )


def claim(*decisive, **changes):
    """Return a claim with a test."""
    known = {"id": "a", "paper": "scoRNN", "sentence": "It works.", "place": "table 1"}
    changed = "2026-01-02T00:00:00+00:00"
    return Claim(
        **{**known, "decides": "Its loss.", "decisive": decisive, "changed": changed, **changes}
    )


def judge(claim, evidence):
    """Return what the runs say of a claim."""
    (judgement,) = evidence.judge({claim.id: claim})
    return judgement


def share(result):
    """Return the share of the outcomes that are true; None if there are none."""
    return sum(result.outcomes) / len(result.outcomes) if result.outcomes else None


def medians(result):
    """Return the medians of a comparison, in the order of its networks."""
    return list(result.medians.values())


def test_there_are_26_claims_of_five_papers():
    assert len(CLAIMS) == 26
    assert len({claim.paper for claim in CLAIMS.values()}) == 5


def test_the_runs_of_all_claims_exist():
    rows = {(recipe.name, row.label): row for recipe in RECIPES.values() for row in recipe.rows}
    for network in [network for claim in CLAIMS.values() for network in claim.networks]:
        row = rows[network.recipe, network.row]
        if isinstance(row, Computed):
            continue
        assert isinstance(row, Row)
        assert row.layer is not None
        assert set(network.points) <= set(row.points())
        if network.least is not None:
            assert network.least.number < getattr(row.settings, network.least.unit)


def test_every_verdict_and_number_in_a_sentence_is_that_of_the_archive():
    """Where this fails, correct the sentence of the claim by hand."""
    judgements = ArchivedEvidence(RECIPES, Archive()).judge(CLAIMS)
    assert [each for judgement in judgements for each in judgement.mismatches()] == []


@pytest.mark.parametrize("name", CLAIMS)
def test_a_sentence_states_each_of_its_numbers(name):
    known = CLAIMS[name]
    fields = [field for _, field, *_ in Formatter().parse(known.seen) if field]
    assert sorted(fields) == sorted(known.numbers)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_says_what_is_needed_what_was_seen_and_what_was_tried(name):
    known = CLAIMS[name]
    is_decided = known.verdict != "not decided yet"
    assert (known.hours is None) == is_decided
    assert bool(known.seen) == is_decided
    if known.verdict in ("partly", "fails"):
        assert known.tried.endswith(".")


def archive_with(tmp_path, recipe, label, **changes):
    """Return a copy of the archive of NC-GRU's paper in which runs of a row are changed."""
    source = Archive().folder / "nc_gru.jsonl"
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    for line in lines:
        if (line["recipe"], line["row"]) == (recipe, label):
            line.update({key: change(line[key]) for key, change in changes.items()})
    (tmp_path / source.name).write_text("\n".join(map(json.dumps, lines)))
    return Archive(tmp_path)


def test_a_number_that_no_longer_holds_is_named(tmp_path):
    archive = archive_with(tmp_path, "nc_gru/table4", "GRU 78 T=1000", value=lambda v: 1.01 * v)
    known = CLAIMS["ncgru-copy"]
    judgement = judge(known, ArchivedEvidence(RECIPES, archive))
    (said,) = judgement.mismatches()
    assert said.startswith("ncgru-copy: its 'gru' is 74.1, got 74.8")


def test_a_verdict_that_the_runs_no_longer_carry_is_named(tmp_path):
    archive = archive_with(tmp_path, "nc_gru/table4", "GRU 78 T=1000", value=lambda v: v / 2)
    judgement = judge(CLAIMS["ncgru-copy"], ArchivedEvidence(RECIPES, archive))
    assert judgement.verdict == "fails"
    assert "its verdict is 'holds', got 'fails'" in judgement.mismatches()[0]


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
        assert each.decides.endswith(".")
        assert each.id == "nnrnn-fisher" or max(len(n.seeds) for n in each.networks) >= each.seeds


@pytest.mark.parametrize(
    ("ours", "theirs", "changes", "expected"),
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
def test_less_compares_all_pairs_of_runs(ours, theirs, changes, expected):
    result = numbers(ours, theirs).compare(less(OURS, THEIRS, **changes))
    assert share(result) == expected
    assert result.is_true == (expected is not None and expected >= 0.75)


def test_close_compares_all_pairs_of_runs():
    result = numbers([1.0, 2.0], [1.5, 3.0]).compare(close(OURS, THEIRS, 0.5))
    assert (share(result), medians(result)) == (0.5, [1.5, 2.25])


def test_more_often_compares_shares_of_successes():
    check = more_often(OURS, THEIRS)
    assert numbers([0.0, 0.0, 1.0], [0.0, 0.0, 0.0]).compare(check).is_true
    assert not numbers([0.0, 1.0], [0.0, 1.0]).compare(check).is_true


def test_bounds_are_inclusive():
    assert numbers([1.0, 0.5]).compare(at_most(OURS, 1.0)).is_true
    assert not numbers([1.0, 1.5]).compare(at_most(OURS, 1.0)).is_true
    assert numbers([1.0, 1.5]).compare(at_least(OURS, 1.0)).is_true
    assert not numbers([1.0, 0.5]).compare(at_least(OURS, 1.0)).is_true


def test_a_number_of_successes_leaves_other_runs_out():
    curves = {"step": [1, 2], "test_loss": [0.4, 0.6]}
    success = run(3.0, 0, evaluated=curves)
    failure = run(1.0, 1, evaluated={**curves, "test_loss": [1, 1]})
    diverged = replace(success, seed=2, state="diverged")
    check = at_least(OURS, 2.0, of_success(value))
    assert medians(Known({OURS: [success, failure, diverged]}).compare(check)) == [3.0]
    assert Known({OURS: [failure, diverged]}).compare(check).outcomes == ()


SHORT_OURS, SHORT_THEIRS = replace(OURS, least=SHORT), replace(THEIRS, least=SHORT)


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ([run(1.0), run(3.0, reduced=SHORT)], [run(2.0, reduced=SHORT)], [3.0, 2.0]),
        # of lengths with equally many seeds the longest
        ([run(1.0), run(3.0, reduced=SHORT)], [run(1.0), run(3.0, reduced=SHORT)], [1.0, 1.0]),
        # a length with more seeds
        (
            [run(1.0), run(3.0, reduced=SHORT), run(5.0, 1, reduced=SHORT)],
            [run(1.0), run(3.0, reduced=SHORT), run(5.0, 1, reduced=SHORT)],
            [4.0, 4.0],
        ),
        ([run(1.0)], [run(2.0, reduced=SHORT)], []),
        # shorter than the least length
        ([run(1.0)], [run(2.0, reduced=Length("epochs", 2))], []),
    ],
)
def test_numbers_that_grow_are_compared_at_one_length(ours, theirs, expected):
    evidence = Known({OURS: ours, THEIRS: theirs})
    assert medians(evidence.compare(less(SHORT_OURS, SHORT_THEIRS))) == expected


def test_the_longest_run_of_each_seed_counts_for_a_bound():
    runs = [run(3.0, reduced=SHORT), run(5.0, 1, reduced=SHORT), run(1.0)]
    result = Known({OURS: runs}).compare(at_most(SHORT_OURS, 9.0))
    assert medians(result) == [3.0]  # the median of 1 and 5


def test_a_seed_of_a_search_counts_once_it_has_all_points():
    network = replace(OURS, points=("a", "b"))
    runs = [run(1.0, point="a"), run(2.0, 1, point="a"), run(4.0, 1, point="b")]
    result = Known({OURS: runs}).runs(network)
    assert [(each.seed, each.point) for each in result[None]] == [(1, "a"), (1, "b")]


def until(steps, *losses, **changes):
    """Return a run that is evaluated at each update and ends after so many."""
    curve = {"step": list(range(1, len(losses) + 1)), "test_loss": list(losses)}
    return run(steps=steps, evaluated=curve, **changes)


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
    evidence = Known({OURS: [ours], THEIRS: [replace(theirs, reduced=SHORT)]})
    result = evidence.compare(less(SHORT_OURS, SHORT_THEIRS, steps_below(0.5)))
    assert tuple(result.outcomes) == outcomes


@pytest.mark.parametrize(("loss", "expected"), [(0.94, False), (0.95, True), (1.2, True)])
def test_a_network_is_at_chance_from_95_percent_of_its_loss(loss, expected):
    assert is_at_chance(run(loss=loss)) == expected


def test_two_networks_at_chance_have_no_order():
    evidence = Known({OURS: [run(1.0, loss=0.97)], THEIRS: [run(2.0, loss=0.98)]})
    check = less(OURS, THEIRS)
    assert share(evidence.compare(check)) is None
    assert judge(claim(check), evidence).verdict == "not decided yet"


def test_a_network_at_chance_is_above_one_that_is_not():
    evidence = Known({OURS: [run(1.0, loss=0.5)], THEIRS: [run(2.0, loss=0.98)]})
    assert judge(claim(less(OURS, THEIRS)), evidence).verdict == "holds"


def test_a_claim_whose_networks_are_all_at_chance_is_not_decided():
    evidence = Known({each: [run(1.0, loss=1.0)] for each in (OURS, THEIRS)})
    judged = judge(claim(at_least(OURS, 0.5), at_least(THEIRS, 0.5)), evidence)
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
    assert steps_between(0.01, 0.001).of(found) == math.inf
    assert of_chance(last("test_loss")).of(found) == 5.0
    assert of_success(last("test_loss"), 0.5).counts(found)
    assert not of_success(last("test_loss"), 0.01).counts(found)
    without_chance = replace(found, baseline=None)
    assert steps_below(0.5).of(without_chance) is None
    assert of_chance(value).of(without_chance) is None


@pytest.mark.parametrize(
    ("text", "found", "agrees"),
    [
        ("2.2", 2.1564, True),
        ("2.1", 2.1564, False),
        ("2.20", 2.1564, False),
        ("3,850", 3850.0, True),
        ("3,850", 3851.0, False),
        ("0.0000131", 1.3067e-05, True),
        ("0.0000131", 1.2e-05, False),
        ("100.0", 100.01, True),
        ("never", math.inf, True),
        ("never", 300.0, False),
        ("300", math.inf, False),
        ("300", math.nan, False),
    ],
)
def test_a_number_in_a_sentence_is_that_of_the_runs_rounded(text, found, agrees):
    assert Median(text, OURS, value).agrees(found) == agrees


@pytest.mark.parametrize(
    ("pairs", "said"), [("1 of 2", []), ("2 of 2", ["a: its 'pairs' is 2 of 2, got 1 of 2"])]
)
def test_a_count_in_a_sentence_is_that_of_the_pairs(pairs, said):
    check = less(OURS, THEIRS)
    stated = {"pairs": TrueIn(pairs, check)}
    known = claim(check, verdict="fails", seen="In {pairs} pairs.", numbers=stated)
    assert judge(known, numbers([1.0, 3.0], [2.0])).mismatches() == said
    assert known.evidence == f"In {pairs} pairs."


def test_a_number_that_the_test_does_not_compare_is_no_number_of_the_runs():
    stated = {"theirs": Median("0.5", THEIRS, value)}
    known = claim(at_most(OURS, 1.0), verdict="holds", numbers=stated)
    assert len(judge(known, numbers([0.5], [0.5])).mismatches()) == 1


def test_a_diverged_run_counts_as_the_worst():
    diverged = run(None, state="diverged")
    assert (value.read(diverged), accuracy.read(diverged)) == (math.inf, 0.0)
    assert not Known({OURS: [diverged]}).compare(at_most(OURS, 1.0)).is_true


@pytest.mark.parametrize(
    ("decisive", "further", "verdict"),
    [(1.0, 1.0, "holds"), (1.0, 0.1, "partly"), (0.1, 1.0, "fails"), (0.1, 0.1, "fails")],
)
def test_a_claim_holds_partly_only_if_its_decisive_comparison_does(decisive, further, verdict):
    judged = claim(at_most(OURS, decisive), further=(at_most(OURS, further),))
    assert judge(judged, numbers([0.5])).verdict == verdict


def test_a_claim_with_a_missing_number_is_not_decided():
    judged = claim(at_most(OURS, 1.0), at_most(THEIRS, 1.0))
    assert judge(judged, numbers([0.5])).verdict == "not decided yet"


@pytest.mark.parametrize(
    ("seeds", "loss", "verdict"),
    [(1, None, "fails"), (2, None, "not decided yet"), (1, 1.0, "not decided yet")],
)
def test_one_false_comparison_decides_whatever_is_missing(seeds, loss, verdict):
    judged = claim(at_most(OURS, 0.1), at_most(THEIRS, 1.0), seeds=seeds)
    evidence = Known({OURS: [run(0.5, loss=loss)]})
    assert judge(judged, evidence).verdict == verdict


@pytest.mark.parametrize(("seeds", "verdict"), [(1, "not decided yet"), (2, "holds")])
def test_a_claim_needs_its_seeds(seeds, verdict):
    network = replace(OURS, seeds=(0, 1))
    judged = judge(claim(at_most(network, 1.0), seeds=2), numbers([0.5] * seeds))
    assert (judged.verdict, judged.done) == (verdict, seeds / 2)


@pytest.mark.parametrize(
    ("epochs", "done", "verdict"), [(1, 1 / 3, "not decided yet"), (3, 1.0, "holds")]
)
def test_a_claim_needs_the_least_length(epochs, done, verdict):
    evidence = Known({OURS: [run(0.5, reduced=Length("epochs", epochs))]})
    judged = judge(claim(at_most(SHORT_OURS, 1.0)), evidence)
    assert (judged.verdict, judged.done) == (verdict, done)


def test_the_network_furthest_behind_says_how_much_is_done():
    begun = run(0.5, state="unfinished", steps=1, all_steps=4)
    evidence = Known({OURS: [run(0.5)], THEIRS: [begun]})
    assert judge(claim(less(OURS, THEIRS)), evidence).done == 0.25


def test_a_number_without_training_needs_no_seeds():
    evidence = Known({OURS: [run(0.5, None, state="computed")]})
    recipe = KNOWN[NAME]
    evidence.rows = {(NAME, "ours"): Computed("ours", lambda: 0.5, recipe.rows[0].reported)}
    judged = judge(claim(at_most(OURS, 1.0), seeds=3), evidence)
    assert (judged.verdict, judged.trained) == ("holds", [])


def test_the_digest_is_that_of_the_test_and_not_of_its_words():
    known = claim(less(OURS, THEIRS))
    assert claim(less(OURS, THEIRS), decides="By its loss.").digest == known.digest
    others = [
        claim(less(THEIRS, OURS)),
        claim(less(OURS, THEIRS, factor=2.0)),
        claim(less(OURS, THEIRS, accuracy)),
        claim(less(OURS, THEIRS, replace(value, grows=False))),
        claim(less(OURS, THEIRS, replace(value, is_first_update=True))),
        claim(less(OURS, THEIRS, replace(value, diverged=0.0))),
        claim(less(OURS, THEIRS), seeds=2),
        claim(less(replace(OURS, seeds=(0, 1)), THEIRS)),
        claim(less(replace(OURS, least=SHORT), THEIRS)),
        claim(further=(less(OURS, THEIRS),)),
    ]
    assert known.digest not in {each.digest for each in others}


def test_the_runs_that_ended_before_the_test_was_changed_are_counted():
    ends = ("2026-01-01T00:00:00+00:00", "2026-01-03T00:00:00+00:00", None)
    runs = [run(0.5, seed, ended=end) for seed, end in enumerate(ends)]
    judged = judge(claim(at_most(OURS, 1.0)), Known({OURS: runs}))
    assert judged.before_test == 1
