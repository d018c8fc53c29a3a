"""The claims of the papers: their experiments exist, and their tests decide as stated."""

import json
import math
from dataclasses import fields, replace
from datetime import datetime
from itertools import product
from string import Formatter

import pytest
from reproduction.archive import Archive
from reproduction.claim import (
    Claim,
    Median,
    Runs,
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

from eigenrnn import ScoRNN
from eigenrnn_experiments.baselines import TorchLSTM
from eigenrnn_experiments.recipes import Computed, Recipe, Reported, Row
from eigenrnn_experiments.training.run import Length, Run, RunKey, RunNumber
from recipes_for_results import archived_run, row

# when the test of each claim was last changed, and its fingerprint
PINNED = {
    "scornn-copy-1000": ("2026-11-24T00:09:34+00:00", "f9030366cb80"),
    "scornn-copy-2000": ("2026-12-01T14:20:00+00:00", "d487675e1d4c"),
    "scornn-adding": ("2026-11-29T22:58:00+00:00", "23e567f60823"),
    "scornn-psmnist": ("2026-11-28T14:10:00+00:00", "816344e3a129"),
    "scornn-smnist": ("2026-11-28T14:10:00+00:00", "6c1b84fac089"),
    "enrnn-adding": ("2026-11-28T14:10:00+00:00", "3197f10b2de0"),
    "enrnn-copy": ("2026-12-01T17:30:00+00:00", "077a875ca2ff"),
    "enrnn-both": ("2026-11-24T00:09:34+00:00", "ad6181ef4608"),
    "enrnn-speech": ("2026-11-24T00:09:34+00:00", "7ef9a61aede3"),
    "enrnn-ptb": ("2026-11-28T14:10:00+00:00", "db664755bb3f"),
    "nnrnn-copy": ("2026-11-24T00:09:34+00:00", "4f3700b226bb"),
    "nnrnn-ptb": ("2026-11-28T14:10:00+00:00", "09bd0b535dc8"),
    "nnrnn-psmnist": ("2026-11-28T14:10:00+00:00", "342f13005e43"),
    "nnrnn-theta": ("2026-11-28T14:10:00+00:00", "d3daa20e2f0f"),
    "nnrnn-fisher": ("2026-11-24T00:09:34+00:00", "6c3e2e6a116b"),
    "ncgru-parenthesis": ("2026-11-28T14:10:00+00:00", "b689e38ab361"),
    "ncgru-denoise": ("2026-11-28T14:10:00+00:00", "52df9cb3ec2e"),
    "ncgru-adding": ("2026-11-24T00:09:34+00:00", "ef93b9adc8cd"),
    "ncgru-copy": ("2026-11-24T00:09:34+00:00", "cf40ba40b249"),
    "ncgru-ptb": ("2026-11-28T14:10:00+00:00", "539bc47e5982"),
    "ncgru-neumann": ("2026-11-28T14:10:00+00:00", "24831a22c7c6"),
    "chain-copy": ("2026-11-28T14:10:00+00:00", "c3ed7b6fb2cd"),
    "chain-others": ("2026-11-28T14:10:00+00:00", "edd5d812593f"),
    "chain-words": ("2026-11-28T14:10:00+00:00", "e8399a341011"),
    "chain-henrici": ("2026-11-29T05:47:00+00:00", "b70e113c6a40"),
    "chain-memory": ("2026-11-24T00:09:34+00:00", "5e94b020e903"),
}

NAME = "scornn/table1"
OURS, THEIRS = Runs(NAME, "ours"), Runs(NAME, "theirs")
SETTINGS = replace(row().settings, steps=None, epochs=4)
ROWS = tuple(
    row(label, settings=SETTINGS, layer=layer, reported=(Reported(None, "table 1"),))
    for label, layer in (("ours", ScoRNN), ("theirs", TorchLSTM))
)
KNOWN = {NAME: Recipe(NAME, "A table.", ROWS, "Nobody, 2020", (0, 1))}
SHORT = Length("epochs", 3)


def run(number=None, seed=0, *, loss=0.1, **changes):
    """Return a run with a number and a best test loss, of a chance level of 1."""
    known = Run(
        key=RunKey(NAME, "ours", seed=seed),
        state="ended",
        numbers={"best test accuracy": None if number is None else RunNumber(number)},
        baseline=1.0,
        best={"test": {"loss": loss}},
        settings={"lr": 1e-3},
    )
    return changed(known, **changes)


def changed(run, **changes):
    """Return a run with other fields, those of its key and its curves among them."""
    names = {each.name for each in fields(RunKey)}
    of_key = {name: changes.pop(name) for name in names & changes.keys()}
    curves = {name: changes.pop(name) for name in ("evaluated", "training") if name in changes}
    known = {"key": replace(run.key, **of_key), "curves": {**run.curves, **curves}}
    return replace(run, **known, **changes)


def three(number, *, spread=1.01, **changes):
    """Return runs of three seeds around a number."""
    return [
        run(number * factor, seed, **changes)
        for seed, factor in enumerate((1 / spread, 1.0, spread))
    ]


class Known(ArchivedEvidence):
    """Evidence that consists of these runs, by network."""

    def __init__(self, found):
        super().__init__(KNOWN, KnownRuns())
        for network, runs in found.items():
            its = [changed(run, row=network.row) for run in runs]
            self._runs[network.recipe, network.row] = its


class KnownRuns:
    """An archive of these runs."""

    def __init__(self, runs=()):
        self._all = list(runs)

    def runs(self):
        return self._all


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


def medians(result):
    """Return the medians of a comparison, in the order of its networks."""
    return list(result.numbers.values())


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
def test_a_claim_says_what_is_needed_what_was_seen_and_why(name):
    known = CLAIMS[name]
    assert (known.hours is None) <= (known.verdict != "not decided")
    assert bool(known.seen) or known.verdict == "not decided"
    assert bool(known.why) or known.before in ("", known.verdict)
    if known.verdict in ("partly", "refuted at our settings"):
        assert known.tried.endswith(".")


def archive_with(tmp_path, recipe, label, change):
    """Return a copy of the archive of NC-GRU's paper in which runs of a row are changed."""
    source = Archive().folder / "nc_gru.jsonl"
    lines = [json.loads(line) for line in source.read_text().splitlines()]
    for line in lines:
        if (line["key"]["recipe"], line["key"]["row"]) == (recipe, label):
            main = next(iter(line["numbers"].values()))
            main["value"] = change(main["value"])
    (tmp_path / source.name).write_text("\n".join(map(json.dumps, lines)))
    return Archive(tmp_path)


def test_a_number_that_no_longer_holds_is_named(tmp_path):
    archive = archive_with(tmp_path, "nc_gru/table4", "GRU 78 T=1000", lambda v: 1.01 * v)
    known = CLAIMS["ncgru-copy"]
    judgement = judge(known, ArchivedEvidence(RECIPES, archive))
    (said,) = judgement.mismatches()
    assert said.startswith("ncgru-copy: its 'gru' is 74.1, got 74.8")


def test_a_verdict_that_the_runs_no_longer_carry_is_named(tmp_path):
    archive = archive_with(tmp_path, "nc_gru/table4", "GRU 78 T=1000", lambda v: v / 3)
    judgement = judge(CLAIMS["ncgru-copy"], ArchivedEvidence(RECIPES, archive))
    said = judgement.mismatches()[0]
    assert said.startswith("ncgru-copy: its verdict is 'holds', got 'not decided': GRU 78 T=1000 ")
    assert "does not train" in said  # half of the chance level, which its losses are above


@pytest.mark.parametrize("name", CLAIMS)
def test_a_test_does_not_change_without_its_date(name):
    """Where this fails, set `changed` to the time of the change, and then both values here."""
    assert (CLAIMS[name].changed, CLAIMS[name].digest) == PINNED[name]


def test_a_claim_is_one_sentence_with_its_place():
    for each in CLAIMS.values():
        assert each.sentence.endswith(".")
        assert each.place.startswith("section")
        assert each.decisive
        assert datetime.fromisoformat(each.changed).tzinfo is not None
        assert each.decides.endswith(".")


# the rule


def beside(ours, theirs=(), check=None, **options):
    """Return the result of a comparison: that ours is less, unless another is given."""
    return Known({OURS: ours, THEIRS: theirs}).compare(check or less(OURS, THEIRS, **options))


def test_the_noise_of_a_share_is_at_least_that_of_its_test_examples():
    result = beside(three(0.5, spread=1.0), three(0.51, spread=1.0), less(OURS, THEIRS, accuracy))
    assert result.outcome is True
    assert result.noise == pytest.approx(math.sqrt((0.25 + 0.51 * 0.49) / 10_000))
    close_by = beside(three(0.5, spread=1.0), three(0.506, spread=1), less(OURS, THEIRS, accuracy))
    assert close_by.undecided == "the margin is within the noise"


@pytest.mark.parametrize(
    ("theirs", "spread", "outcome"),
    [(0.60, 0.01, True), (0.56, 0.01, None), (0.60, 0.03, None), (0.60, None, None)],
)
def test_one_seed_needs_ten_errors_and_four_times_the_spread_on_the_task(theirs, spread, outcome):
    """Ten standard errors of two shares near a half are 0.07."""
    evidence = Known({OURS: [run(0.5)], THEIRS: [run(theirs)]})
    if spread is not None:  # of a third network on the same task
        others = [run(0.3 + k * spread, k, row="other") for k in range(3)]
        evidence._runs[NAME, "other"] = others
    result = evidence.compare(less(OURS, THEIRS, accuracy))
    assert result.outcome is outcome
    assert outcome or result.undecided == "fewer than three seeds"


def test_one_seed_decides_no_loss():
    assert beside([run(0.001)], [run(0.9)]).undecided == "fewer than three seeds"


TRAINED_AT = [(rate, clip) for rate, clip in product((1e-4, 1e-3, 1e-2), (None, 1.0))]


@pytest.mark.parametrize(
    ("loss", "tried", "verdict"),
    [
        (0.4, TRAINED_AT[:1], "refuted at our settings"),
        (0.6, TRAINED_AT[:1], "not decided"),
        (0.6, TRAINED_AT[:5], "not decided"),
        (0.6, TRAINED_AT, "refuted at our settings"),
    ],
)
def test_a_baseline_that_does_not_train_refutes_nothing(loss, tried, verdict):
    """It is the LSTM that the paper finds best."""
    names = [f"arm {k}" for k in range(len(tried))]
    arms = tuple(replace(THEIRS, points=(name,)) for name in names)
    baseline = replace(THEIRS, points=(names[0],), arms=arms[1:])
    runs = [
        changed(each, point=name, settings={"lr": rate, "clip_norm": clip})
        for name, (rate, clip) in zip(names, tried, strict=True)
        for each in three(5.0, loss=loss)
    ]
    evidence = Known({OURS: three(1.0), THEIRS: runs})
    judged = judge(claim(less(baseline, OURS), verdict="refuted at our settings"), evidence)
    assert judged.verdict == verdict
    assert bool(judged.mismatches()) == (verdict == "not decided")


def test_a_proposed_network_that_does_not_train_refutes_its_claim():
    assert beside(three(5.0, loss=0.9), three(1.0)).outcome is False


def test_a_network_stands_at_the_best_of_its_rates():
    slow, fast = replace(THEIRS, points=("slow",)), replace(THEIRS, points=("fast",))
    runs = [changed(each, point="slow") for each in three(9.0, loss=0.45)]
    runs += [changed(each, point="fast") for each in three(2.0, loss=0.2)]
    evidence = Known({OURS: three(4.0), THEIRS: runs})
    network = replace(slow, arms=(fast,))
    assert evidence.compare(less(network, OURS)).outcome is True
    assert evidence.compare(less(slow, OURS)).outcome is False


def printed(ours, theirs):
    """Return a recipe whose rows report these numbers."""
    numbers = zip(ROWS, (ours, theirs), strict=True)
    rows = [replace(each, reported=(Reported(number, "table 1"),)) for each, number in numbers]
    return {(NAME, each.label): each for each in rows}


@pytest.mark.parametrize(
    ("numbers", "verdict"), [((1.0, 2.0), "refuted at our settings"), ((2.0, 1.0), "not decided")]
)
def test_a_test_that_the_papers_own_numbers_fail_decides_nothing(numbers, verdict):
    evidence = Known({OURS: three(5.0), THEIRS: three(1.0)})
    evidence.rows = printed(*numbers)
    judged = judge(claim(less(OURS, THEIRS), verdict="refuted at our settings"), evidence)
    assert judged.verdict == verdict
    said = judged.mismatches()
    assert [("the paper's own numbers fail this test" in each) for each in said] == [True] * len(
        said
    )
    assert len(said) == (verdict == "not decided")


def test_a_number_that_a_figure_shows_has_to_pass_too():
    """The authors' own curves are 3.4 points apart after 20 epochs."""
    runs = three(0.9, spread=1.0), three(0.95, spread=1.0)
    for apart, outcome in ((0.034, None), (0.018, False)):
        assert beside(*runs, close(OURS, THEIRS, 0.03, accuracy, apart)).outcome is outcome


def successes(*of_seeds):
    return [run(float(number), seed) for seed, number in enumerate(of_seeds)]


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        ([1] * 3, [0] * 3, True),
        ([1] * 2, [0] * 2, None),
        ([0] * 8, [0] * 8, None),
        ([0] * 3, [1] * 3, False),
        # it stops after the third pair, whatever follows
        ([1] * 3 + [0] * 5, [0] * 3 + [1] * 5, True),
        # beyond eight pairs at 2.5 %: 4 and 0 of 9 have 4.1 %, 5 and 0 of 10 1.6 %
        ([0] * 5 + [1] * 5, [0] * 10, True),
        ([0] * 5 + [1] * 4, [0] * 9, None),
    ],
)
def test_rates_of_success_are_compared_by_fishers_test_after_each_pair(ours, theirs, outcome):
    check = more_often(OURS, THEIRS)
    found = Known({OURS: successes(*ours), THEIRS: successes(*theirs)}).compare(check)
    assert found.outcome is outcome


def test_held_out_seeds_decide_nothing():
    runs = [*three(1.0), changed(run(50.0), seed=11), changed(run(60.0), seed=12)]
    archived = KnownRuns(
        [
            replace(
                archived_run(ROWS[0].with_seed(each.key.seed), each.key, value=each.value),
                baseline=each.baseline,
                best=each.best,
            )
            for each in runs
        ]
    )
    for held_out, expected in ((False, 1.0), (True, 55.0)):
        evidence = ArchivedEvidence(KNOWN, archived, held_out=held_out)
        assert medians(evidence.compare(at_most(OURS, 9.0))) == [expected]


def test_a_number_of_successes_leaves_other_runs_out():
    curves = {"step": [1, 2], "test_loss": [0.4, 0.6]}
    success = run(3.0, 0, evaluated=curves)
    failure = run(1.0, 1, evaluated={**curves, "test_loss": [1, 1]})
    diverged = changed(success, seed=2, state="diverged")
    check = at_least(OURS, 2.0, of_success(value))
    assert medians(Known({OURS: [success, failure, diverged]}).compare(check)) == [3.0]
    assert Known({OURS: [failure, diverged]}).compare(check).outcome is None


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
    assert [(each.key.seed, each.key.point) for each in result[None]] == [(1, "a"), (1, "b")]


def until(steps, *losses, **changes):
    """Return a run that is evaluated at each update and ends after so many."""
    curve = {"step": list(range(1, len(losses) + 1)), "test_loss": list(losses)}
    return run(steps=steps, evaluated=curve, **changes)


def test_a_network_that_never_gets_there_counts_with_the_length_of_its_training():
    ours = [until(40, *[1.0] * 9, 0.1, seed=seed) for seed in range(3)]
    for length, outcome in ((12, True), (9, False)):
        theirs = [until(length, *[1.0] * length, seed=seed) for seed in range(3)]
        result = beside(ours, theirs, less(OURS, THEIRS, steps_below(0.5)))
        assert result.margin == pytest.approx(math.log(length / 10))
        assert medians(result) == [10, math.inf]
        assert result.outcome is outcome


@pytest.mark.parametrize(("loss", "expected"), [(0.94, False), (0.95, True), (1.2, True)])
def test_a_network_is_at_chance_from_95_percent_of_its_loss(loss, expected):
    assert is_at_chance(run(loss=loss)) == expected


def test_two_networks_at_chance_have_no_order():
    result = beside(three(1.0, loss=0.97), three(2.0, loss=0.98))
    assert result.undecided == "both networks are at the chance level"
    assert beside(three(1.0, loss=0.5), three(2.0, loss=0.98)).outcome is True


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


def test_a_number_that_the_test_does_not_compare_is_no_number_of_the_runs():
    stated = {"theirs": Median("0.5", THEIRS, value)}
    known = claim(at_most(OURS, 1.0), verdict="holds", numbers=stated)
    assert len(judge(known, Known({OURS: three(0.5), THEIRS: three(0.5)})).mismatches()) == 1


def test_a_diverged_run_counts_as_the_worst():
    diverged = run(None, state="diverged")
    assert (value.read(diverged), accuracy.read(diverged)) == (math.inf, 0.0)
    assert (
        beside([*three(0.1), changed(diverged, seed=3)], check=at_most(OURS, 1.0)).outcome is None
    )


@pytest.mark.parametrize("bound", [0.1, 1.0])
def test_partial_evidence_decides_nothing_in_either_direction(bound):
    judged = claim(at_most(OURS, bound), at_most(THEIRS, 1.0))
    assert judge(judged, Known({OURS: three(0.5)})).verdict == "not decided"
    begun = Known({OURS: three(0.5), THEIRS: three(0.5, reduced=SHORT)})
    assert judge(judged, begun).verdict == "not decided"


def test_the_digest_is_that_of_the_test_and_not_of_its_words():
    known = claim(less(OURS, THEIRS))
    assert claim(less(OURS, THEIRS), decides="By its loss.").digest == known.digest
    others = [
        claim(less(THEIRS, OURS)),
        claim(less(OURS, THEIRS, factor=2.0)),
        claim(less(OURS, THEIRS, accuracy)),
        claim(less(OURS, THEIRS, replace(value, grows=False))),
        claim(less(OURS, THEIRS, replace(value, is_in_updates=True))),
        claim(less(OURS, THEIRS, replace(value, examples=5))),
        claim(less(OURS, THEIRS, replace(value, diverged=0.0))),
        claim(replace(less(OURS, THEIRS), printed=(1.0, 2.0))),
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
