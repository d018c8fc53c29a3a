"""The command `evaluate`: its metrics beside plain definitions, its file and its section."""

import json
import math
import shlex
import shutil
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pandas
import pytest
import torch
from torch import nn

from eigenrnn import GRU, SequenceModel
from eigenrnn_experiments import load
from eigenrnn_experiments.cli import main
from eigenrnn_experiments.data.in_memory import from_arrays
from eigenrnn_experiments.evaluation import evaluate_series
from eigenrnn_experiments.report import write_report
from eigenrnn_experiments.tasks import Series
from eigenrnn_experiments.tasks.preprocessing import SeriesPreprocessing
from eigenrnn_experiments.training import RunFolder
from eigenrnn_experiments.training.records import Evaluation
from training_run import one_thread, read_metrics, small_fit, small_settings

CLASSES = ("a", "b", "c")


class Copy(nn.Module):
    """Returns the inputs as outputs: all of them, or the last."""

    def __init__(self, readout):
        super().__init__()
        self.readout = readout

    def forward(self, inputs, lengths):
        if self.readout == "all":
            return inputs
        return inputs[lengths - 1, torch.arange(len(lengths))]


def classes(count=60, seed=0):
    """Logits of three classes as the last step of each sequence, and true classes."""
    generator = np.random.default_rng(seed)
    logits = generator.normal(size=(count, 3)) * 2
    truth = generator.integers(0, 3, count)
    logits[np.arange(count), truth] += 1
    arrays = [np.stack([np.zeros(3), row]) for row in logits]
    names = [CLASSES[k] for k in truth]
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    fitted = SeriesPreprocessing("class", ("1", "2", "3"), (0.0,) * 3, (1.0,) * 3, CLASSES)
    return fitted, from_arrays(arrays, labels=names), p, truth


def test_the_metrics_of_classes_have_their_definitions():
    fitted, sequences, p, truth = classes()
    found = evaluate_series(Copy("last"), fitted, sequences)
    guess = p.argmax(1)
    recalls, scores, areas = [], [], []
    for k in range(3):
        right = ((guess == k) & (truth == k)).sum()
        recalls.append(right / (truth == k).sum())
        scores.append(2 * right / ((guess == k).sum() + (truth == k).sum()))
        wins = [
            (one > other) + 0.5 * (one == other)
            for one in p[truth == k, k]
            for other in p[truth != k, k]
        ]
        areas.append(np.mean(wins))
    assert found.metrics == {
        "accuracy": pytest.approx((guess == truth).mean()),
        "balanced accuracy": pytest.approx(np.mean(recalls)),
        "macro F1": pytest.approx(np.mean(scores)),
        "log loss": pytest.approx(-np.log(p[np.arange(60), truth]).mean(), rel=1e-5),
        "AUC": pytest.approx(np.mean(areas)),
        "calibration error": pytest.approx(
            sum(
                n * abs(right - chance)
                for n, right, chance in zip(
                    found.calibration.count,
                    found.calibration.correct,
                    found.calibration.probability,
                    strict=True,
                )
            )
            / 60,
            rel=1e-4,
        ),
    }
    expected = [[((truth == i) & (guess == j)).sum() for j in range(3)] for i in range(3)]
    assert [list(row) for row in found.confusion] == expected


def test_the_calibration_curve_has_the_tenths_that_occur():
    fitted, sequences, p, truth = classes(400)
    found = evaluate_series(Copy("last"), fitted, sequences).calibration
    chance, is_right = p.max(1), p.argmax(1) == truth
    rows = []
    for low, high in pairwise(np.linspace(0, 1, 11)):
        inside = (chance > low) & (chance <= high)
        if inside.any():
            rows.append((inside.sum(), is_right[inside].mean(), chance[inside].mean()))
    count, correct, probability = zip(*rows, strict=True)
    assert found.count == count
    np.testing.assert_allclose(found.correct, correct)
    np.testing.assert_allclose(found.probability, probability, rtol=1e-5)


def test_a_class_that_does_not_occur_has_no_part_in_the_averages():
    fitted, sequences, p, _ = classes()
    kept = [k for k, label in enumerate(sequences.labels) if label != "c"]
    arrays = [sequences.values[2 * k : 2 * k + 2] for k in kept]
    labels = [sequences.labels[k] for k in kept]
    found = evaluate_series(Copy("last"), fitted, from_arrays(arrays, labels=labels))
    recalls = [
        np.mean([p[k].argmax() == n for k in kept if sequences.labels[k] == CLASSES[n]])
        for n in range(2)
    ]
    assert found.metrics["balanced accuracy"] == pytest.approx(np.mean(recalls))
    assert found.confusion[2] == (0, 0, 0)
    alone = from_arrays(arrays[:1], labels=labels[:1])
    assert "AUC" not in evaluate_series(Copy("last"), fitted, alone).metrics


def test_numbers_are_compared_in_the_units_of_the_file():
    fitted = SeriesPreprocessing("number", ("x",), (0.0,), (1.0,), (), 10.0, 2.0)
    guesses, truth = [-1.0, 0.0, 2.0], [7.0, 10.0, 16.0]
    sequences = from_arrays([np.array([[g]]) for g in guesses], targets=truth)
    found = evaluate_series(Copy("last"), fitted, sequences).metrics
    assert found == {
        "mean squared error": pytest.approx((1 + 0 + 4) / 3),
        "mean absolute error": pytest.approx(1.0),
        "R2": pytest.approx(1 - 5 / (16 + 1 + 25)),
    }


def test_next_values_are_compared_where_they_are_known():
    arrays = [
        np.array([[1.0, 5.0], [2.0, 3.0], [4.0, np.nan]]),
        np.array([[0.0, 1.0], [1.0, 0.0]]),
    ]
    sequences = from_arrays(arrays, allow_missing=True)
    fitted = SeriesPreprocessing("next", ("1", "2"), (1.0, 0.0), (2.0, 1.0), missing="forward")
    model = Copy("all")
    model.forward = lambda inputs, _: inputs[..., :2]
    found = evaluate_series(model, fitted, sequences).metrics
    pairs = [(1, 2), (2, 4), (0, 1), (5, 3), (1, 0)]  # value, next value
    errors = [other - one for one, other in pairs]
    assert found["mean squared error"] == pytest.approx(np.square(errors).mean())
    assert found["mean absolute error"] == pytest.approx(np.abs(errors).mean())


def test_files_without_answers_and_unknown_classes_are_named():
    fitted, sequences, *_ = classes(4)
    arrays = np.split(sequences.values, 4)
    with pytest.raises(ValueError, match="the column 'label'"):
        evaluate_series(Copy("last"), fitted, from_arrays(arrays))
    with pytest.raises(ValueError, match=r"got 'd' in .*index 2"):
        evaluate_series(Copy("last"), fitted, from_arrays(arrays, labels=["a", "b", "d", "a"]))
    number = SeriesPreprocessing("number", ("1", "2", "3"), (0.0,) * 3, (1.0,) * 3)
    with pytest.raises(ValueError, match="a target"):
        evaluate_series(Copy("last"), number, from_arrays(arrays))


def test_the_matrix_is_printed_in_columns():
    shown = Evaluation("a.csv", 3, {"accuracy": 2 / 3}, ("no", "yes"), ((1, 10), (0, 2)))
    assert shown.lines() == [
        "accuracy: 0.6667",
        "confusion matrix, rows are true classes:",
        "     no  yes",
        " no   1   10",
        "yes   0    2",
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluated")
    generator = np.random.default_rng(0)
    rows = [
        {"sequence": n, "x": generator.normal() + n % 2, "label": "<b>&" if n % 2 else "1"}
        for n in range(20)
        for _ in range(4)
    ]
    pandas.DataFrame(rows).to_csv(folder / "a.csv", index=False)
    line = (
        f"train --task Series --task.train {folder / 'a.csv'} --task.folds 2 --layer GRU "
        f"--hidden_size 4 --steps 6 --out {folder / 'run'}"
    )
    with one_thread():
        assert main(shlex.split(line)) == 0
    return folder / "run"


def test_the_command_prints_and_stores_what_the_function_returns(run, capsys):
    assert main(["evaluate", str(run), str(run.parent / "a.csv")]) == 0
    printed = capsys.readouterr().out.splitlines()
    loaded = load(run)
    sequences = loaded.preprocessing.read(run.parent / "a.csv")
    found = evaluate_series(loaded.model, loaded.preprocessing, sequences)
    assert printed == ["20 sequences", *found.lines(), f"in {run / 'evaluation.json'}"]
    stored = json.loads((run / "evaluation.json").read_text())
    assert stored == json.loads(json.dumps(asdict(found)))
    assert math.isfinite(stored["metrics"]["AUC"])


def test_training_reports_the_metrics_of_the_command(run):
    loaded = load(run)
    file = run.parent / "a.csv"
    task = Series(train=file, test=file, validation=0)
    model = SequenceModel(GRU(1, 4), 2, "last")
    settings = small_settings(6, optimiser="adam", lr=1e-2)
    result = small_fit(run.parent / "other", settings, model=model, task=task)
    weights, _ = RunFolder(run.parent / "other").read_weights()
    model.load_state_dict(weights)
    sequences = loaded.preprocessing.read(file)
    found = evaluate_series(model.eval(), task.preprocessing, sequences).metrics
    names = {
        "accuracy": "accuracy",
        "f1": "macro F1",
        "auc": "AUC",
        "log_loss": "log loss",
        "calibration_error": "calibration error",
    }
    reported = result.best["test"]
    expected = {name: found[printed] for name, printed in names.items()}
    assert {name: reported[name] for name in names} == pytest.approx(expected, rel=1e-4)
    assert len({round(number, 6) for number in reported.values()}) > 3  # no trivial numbers
    row = read_metrics(run.parent / "other")[-1]
    assert {name: float(row[f"test_{name}"]) for name in names} == pytest.approx(
        {name: result.last["test"][name] for name in names}
    )


def test_the_report_shows_the_matrix_and_the_curve(run, tmp_path):
    main(["evaluate", str(run), str(run.parent / "a.csv")])
    page = write_report([run], tmp_path / "page.html").read_text()
    stored = json.loads((run / "evaluation.json").read_text())
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    (chart,) = data["evaluation"]
    shown = chart["matrices"]["a.csv"]
    assert shown["map"]["counts"] == stored["confusion"]
    assert shown["map"]["x"] == ["1", "<b>&"]
    for shares, counts in zip(shown["map"]["z"], stored["confusion"], strict=True):
        np.testing.assert_allclose(shares, np.array(counts) / sum(counts), atol=1e-3)
    np.testing.assert_allclose(shown["profile"]["y"], stored["calibration"]["correct"], atol=1e-4)
    assert f"{stored['metrics']['macro F1']:.4g}" in page
    assert "<b>&<" not in page


def test_an_evaluation_on_another_file_is_kept_beside_the_first(run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    text = (run.parent / "a.csv").read_text()
    (tmp_path / "b.csv").write_text(text)
    for name in (run.parent / "a.csv", tmp_path / "b.csv", run.parent / "a.csv"):
        assert main(["evaluate", str(tmp_path / "run"), str(name)]) == 0
    found = [content.file for content in RunFolder(tmp_path / "run").evaluations]
    assert found == [str(run.parent / "a.csv"), str(tmp_path / "b.csv")]
    page = write_report([tmp_path / "run"], tmp_path / "page.html").read_text()
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    (chart,) = data["evaluation"]
    assert list(chart["matrices"]) == ["a.csv", "b.csv"]
    (curves,) = data["curves"].values()
    assert curves["initial"] == "validation_accuracy"  # which chose the model


def test_a_report_without_an_evaluation_has_no_such_section(run, tmp_path):
    for file in RunFolder(run).evaluation_files():
        file.unlink()
    page = write_report([run], tmp_path / "page.html").read_text()
    assert 'id="evaluation"' not in page
    assert 'href="#evaluation"' not in page


def test_a_run_on_no_series_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("EIGENRNN_DEBUG", raising=False)
    line = "train --task Copying --task.delay 3 --hidden_size 4 --steps 1 --out"
    with one_thread():
        assert main([*line.split(), str(tmp_path / "run")]) == 0
    assert main(["evaluate", str(tmp_path / "run"), "a.csv"]) == 2
    assert "expected a run of the task Series" in capsys.readouterr().err
