"""By what trials are compared: the best of a run, in the figure that a search names."""

import csv
import json
from dataclasses import replace

import pytest

from eigenrnn.experiments.sweep import Criterion, Score, Status, StoppedError
from eigenrnn.experiments.sweep.results import write_table
from eigenrnn.experiments.sweep.tuning import objective
from swept import TINY, begun, read, table, train
from training_run import read_metrics

STEPS = (2, 4, 6, 8)
SEARCH = TINY | {"search": {"lr": {"low": 0.001, "high": 0.1}}, "seeds": [0, 1]}
# two runs: the first is best by accuracy at step 4, where its loss is not at its least
LOSSES = {0: (1.6, 1.794, 1.451, 1.5), 1: (1.7, 1.55, 1.6, 1.65)}
ACCURACIES = {0: (0.1, 0.4, 0.2, 0.3), 1: (0.2, 0.3, 0.35, 0.1)}
LOSS = Criterion("validation loss", "min", named=True)
ACCURACY = Criterion("validation accuracy", "max", named=True)


def rewrite(file, losses, accuracies):
    """Put other numbers in place of those that a run has measured."""
    rows = read_metrics(file.parent)
    measured = {str(step): each for step, *each in zip(STEPS, losses, accuracies, strict=True)}
    for row in rows:
        if row["step"] in measured:
            loss, accuracy = measured[row["step"]]
            row |= {"validation_loss": repr(loss), "validation_accuracy": repr(accuracy)}
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def two(tmp_path):
    """Two trials that have ended, with the numbers above."""
    sweep, trials = begun(tmp_path, TINY | {"seeds": [0, 1]})
    for status in train(sweep, trials, tmp_path):
        losses, accuracies = LOSSES[status.trial.seed], ACCURACIES[status.trial.seed]
        folder, best = status.result.directory, accuracies.index(max(accuracies))
        rewrite(folder / "metrics.csv", losses, accuracies)
        known = json.loads((folder / "result.json").read_text())
        known["best"]["validation"] = {"loss": losses[best], "accuracy": accuracies[best]}
        (folder / "result.json").write_text(json.dumps(known | {"best_step": STEPS[best]}))
    return [Status.read(trial, tmp_path / "out") for trial in trials]


def decides(tmp_path, **options):
    return read(tmp_path, SEARCH | options).decides()


def test_a_named_metric_is_taken_at_its_own_best_evaluation(two):
    assert LOSS.score(two[0]) == Score(1.451, 6)
    assert replace(LOSS, mode="max").score(two[0]) == Score(1.794, 4)
    assert ACCURACY.score(two[0]) == Score(0.4, 4)


def test_without_a_name_the_evaluation_is_that_of_the_best_model(two):
    assert replace(LOSS, named=False).score(two[0]) == Score(1.794, 4)


def test_a_search_hears_the_mean_of_what_each_run_had_best(two):
    assert objective(two, LOSS) == (1.451 + 1.55) / 2
    assert objective(two, ACCURACY) == (0.4 + 0.35) / 2


@pytest.mark.parametrize(("criterion", "first"), [(LOSS, 0), (ACCURACY, 0), (None, 1)])
def test_the_best_trial_is_that_with_the_best_score(two, criterion, first):
    # by the losses at the best accuracy, the second would be the first
    criterion = criterion or replace(LOSS, named=False)
    assert criterion.best_first(two)[0][1] is two[first]


def test_a_trial_that_did_not_end_has_no_score_though_it_has_evaluations(two):
    unfinished = [replace(two[0], state=state, result=None) for state in ("diverged", "stopped")]
    assert [LOSS.score(status) for status in unfinished] == [None, None]
    assert objective([*two, unfinished[0]], LOSS) is None
    assert [status for _, status in LOSS.best_first([*unfinished, two[1]])] == [two[1]]


def test_an_evaluation_that_is_no_number_does_not_count(two):
    nan = float("nan")
    rewrite(two[0].result.directory / "metrics.csv", (nan, 3.0, nan, 2.0), (nan,) * 4)
    assert LOSS.score(two[0]) == Score(2.0, 8)
    assert ACCURACY.score(two[0]) is None
    assert objective(two, ACCURACY) is None


def test_the_table_says_what_a_search_was_told(two, tmp_path):
    write_table(tmp_path, two, LOSS)
    rows = [(row["metric"], row["metric_best"], row["metric_step"]) for row in table(tmp_path)]
    assert rows == [("validation loss", "1.451", "6"), ("validation loss", "1.55", "4")]
    assert table(tmp_path)[0]["best_validation_loss"] == "1.794", "that of the best model"
    write_table(tmp_path, two, replace(LOSS, named=False))
    assert "metric" not in table(tmp_path)[0]


def test_a_score_is_kept_though_the_files_are_deleted(two):
    before = LOSS.score(two[0])
    (two[0].result.directory / "metrics.csv").unlink()
    assert LOSS.score(two[0]) == before


@pytest.mark.parametrize(
    "content", [None, "", "step,seconds\n2,1.0\n", "step,validation_loss\n2,x"]
)
def test_a_journal_that_is_damaged_is_named_with_a_way_out(two, content):
    file = two[0].result.directory / "metrics.csv"
    file.unlink() if content is None else file.write_text(content)
    with pytest.raises(ValueError, match=r"expected the evaluations .*metrics\.csv") as refused:
        LOSS.score(two[0])
    assert str(refused.value).endswith(f"delete {file.parent}, and --resume trains it again")


def test_a_run_that_was_stopped_comes_to_the_same_score(tmp_path):
    scores = []
    for name, last in (("undisturbed", None), ("disturbed", 4)):
        folder = tmp_path / name
        folder.mkdir()
        sweep, (trial,) = begun(folder, TINY | {"seeds": [0]})

        def stop(_, step, __, last=last):
            if step == last:
                raise StoppedError(2)

        if last is not None:
            with pytest.raises(StoppedError):
                train(sweep, [trial], folder, stop)
        train(sweep, [trial], folder)
        scores.append(LOSS.score(Status.read(trial, folder / "out")))
    assert scores[0] == scores[1]
    losses = [
        float(r["validation_loss"]) for r in read_metrics(folder / "out" / trial.place)[1::2]
    ]
    assert scores[0].value == min(losses)


def test_what_a_file_names_is_what_decides(tmp_path):
    assert decides(tmp_path, metric="validation loss") == LOSS
    assert decides(tmp_path, metric="validation accuracy") == ACCURACY
    assert decides(tmp_path, metric="test loss", mode="max") == Criterion("test loss", "max", True)
    assert decides(tmp_path) == replace(ACCURACY, named=False)
