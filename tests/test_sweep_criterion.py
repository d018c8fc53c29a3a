"""The metric by which trials are compared, and the score of a trial."""

import csv
import json
import shutil
from dataclasses import replace

import pytest

from eigenrnn.experiments.sweep import Criterion, Score, StoppedError
from eigenrnn.experiments.sweep.progress import write_table
from small_sweep import TINY, open_sweep, read_content, read_table, train, train_two_seeds
from training_run import read_metrics

STEPS = (2, 4, 6, 8)
SEARCH = TINY | {"search": {"lr": {"low": 0.001, "high": 0.1}}, "seeds": [0, 1]}
# two runs: the first has its best accuracy at step 4, where its loss is not minimal
LOSSES = {0: (1.6, 1.794, 1.451, 1.5), 1: (1.7, 1.55, 1.6, 1.65)}
ACCURACIES = {0: (0.1, 0.4, 0.2, 0.3), 1: (0.2, 0.3, 0.35, 0.1)}
LOSS = Criterion("validation loss", "min", explicit=True)
ACCURACY = Criterion("validation accuracy", "max", explicit=True)


def rewrite(file, losses, accuracies):
    """Replace the metrics of a run."""
    rows = read_metrics(file.parent)
    metrics = {str(step): each for step, *each in zip(STEPS, losses, accuracies, strict=True)}
    for row in rows:
        if row["step"] in metrics:
            loss, accuracy = metrics[row["step"]]
            row |= {"validation_loss": repr(loss), "validation_accuracy": repr(accuracy)}
    with file.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train_two_seeds(tmp_path_factory.mktemp("trained"))


@pytest.fixture
def two(tmp_path, trained):
    """Two finished trials with the metrics above."""
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    trials = read_content(tmp_path, TINY | {"seeds": [0, 1]}).source.trials(0, {})
    for status in [trial.read(tmp_path / "out") for trial in trials]:
        losses, accuracies = LOSSES[status.seed], ACCURACIES[status.seed]
        folder, best = status.result.directory, accuracies.index(max(accuracies))
        rewrite(folder / "metrics.csv", losses, accuracies)
        known = json.loads((folder / "result.json").read_text())
        known["best"]["validation"] = {"loss": losses[best], "accuracy": accuracies[best]}
        (folder / "result.json").write_text(json.dumps(known | {"best_step": STEPS[best]}))
    return [trial.read(tmp_path / "out") for trial in trials]


def criterion_of(tmp_path, **options):
    return read_content(tmp_path, SEARCH | options).criterion()


def test_an_explicit_metric_scores_its_best_evaluation(two):
    assert LOSS.score(two[0]) == Score(1.451, 6)
    assert replace(LOSS, mode="max").score(two[0]) == Score(1.794, 4)
    assert ACCURACY.score(two[0]) == Score(0.4, 4)


def test_the_default_metric_scores_the_evaluation_of_the_best_model(two):
    assert replace(LOSS, explicit=False).score(two[0]) == Score(1.794, 4)


def test_the_objective_is_the_mean_of_the_scores(two):
    assert LOSS.objective(two) == (1.451 + 1.55) / 2
    assert ACCURACY.objective(two) == (0.4 + 0.35) / 2


@pytest.mark.parametrize(("criterion", "first"), [(LOSS, 0), (ACCURACY, 0), (None, 1)])
def test_the_best_trial_has_the_best_score(two, criterion, first):
    # by the loss at the best accuracy, the second trial is better
    criterion = criterion or replace(LOSS, explicit=False)
    assert criterion.best_first(two)[0][1] is two[first]


def test_an_unfinished_trial_has_no_score(two):
    unfinished = [replace(two[0], state=state, result=None) for state in ("diverged", "stopped")]
    assert [LOSS.score(status) for status in unfinished] == [None, None]
    assert LOSS.objective([*two, unfinished[0]]) is None
    assert [status for _, status in LOSS.best_first([*unfinished, two[1]])] == [two[1]]


def test_nan_evaluations_do_not_count(two):
    nan = float("nan")
    rewrite(two[0].result.directory / "metrics.csv", (nan, 3.0, nan, 2.0), (nan,) * 4)
    assert LOSS.score(two[0]) == Score(2.0, 8)
    assert ACCURACY.score(two[0]) is None
    assert ACCURACY.objective(two) is None


def test_the_table_shows_the_score_of_an_explicit_metric(two, tmp_path):
    write_table(tmp_path, two, LOSS)
    rows = [
        (row["metric"], row["metric_best"], row["metric_step"]) for row in read_table(tmp_path)
    ]
    assert rows == [("validation loss", "1.451", "6"), ("validation loss", "1.55", "4")]
    assert read_table(tmp_path)[0]["best_validation_loss"] == "1.794", "the loss of the best model"
    write_table(tmp_path, two, replace(LOSS, explicit=False))
    assert "metric" not in read_table(tmp_path)[0]


def test_a_score_is_cached(two):
    before = LOSS.score(two[0])
    (two[0].result.directory / "metrics.csv").unlink()
    assert LOSS.score(two[0]) == before


@pytest.mark.parametrize(
    "content", [None, "", "step,seconds\n2,1.0\n", "step,validation_loss\n2,x"]
)
def test_a_damaged_metrics_csv_raises_with_a_remedy(two, content):
    file = two[0].result.directory / "metrics.csv"
    file.unlink() if content is None else file.write_text(content)
    with pytest.raises(ValueError, match=r"expected the evaluations .*metrics\.csv") as caught:
        LOSS.score(two[0])
    assert str(caught.value).endswith(f"delete {file.parent}, and --resume trains it again")


def test_a_resumed_trial_has_the_same_score(tmp_path):
    scores = []
    for name, last in (("uninterrupted", None), ("interrupted", 4)):
        folder = tmp_path / name
        folder.mkdir()
        sweep, (trial,) = open_sweep(folder, TINY | {"seeds": [0]})

        def stop(event, last=last):
            if event[1] == last:
                raise StoppedError(2)

        if last is not None:
            with pytest.raises(StoppedError):
                train(sweep, [trial], folder, stop)
        train(sweep, [trial], folder)
        scores.append(LOSS.score(trial.read(folder / "out")))
    assert scores[0] == scores[1]
    losses = [float(r["validation_loss"]) for r in read_metrics(folder / "out" / trial.path)[1::2]]
    assert scores[0].value == min(losses)


def test_the_criterion_follows_the_sweep_file(tmp_path):
    assert criterion_of(tmp_path, metric="validation loss") == LOSS
    assert criterion_of(tmp_path, metric="validation accuracy") == ACCURACY
    assert criterion_of(tmp_path, metric="test loss", mode="max") == Criterion(
        "test loss", "max", True
    )
    assert criterion_of(tmp_path) == replace(ACCURACY, explicit=False)
