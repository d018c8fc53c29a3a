"""A sweep without Ray: its runs, its folder, its table and its page of a recipe."""

import math
import socket
import sys
from dataclasses import replace

import pytest
from small_sweep import (
    SEEDS,
    TINY,
    fit_alone,
    read_content,
    read_table,
    run_here,
    states,
    untimed_rows,
    write_yaml,
)

from eigenrnn_experiments.cli import main
from eigenrnn_experiments.errors import FolderInUseError, RunExistsError
from eigenrnn_experiments.loading import load
from eigenrnn_experiments.recipes import reproduce
from eigenrnn_experiments.recipes.comparison import compare
from eigenrnn_experiments.recipes.reproduce import train
from eigenrnn_experiments.registry import RECIPES
from eigenrnn_experiments.sweep.run import _open
from eigenrnn_experiments.training import Callback, RunFolder, runs
from eigenrnn_experiments.training.run import locked
from training_run import QUIET, one_thread

GRID = TINY | {"grid": {"lr": [0.01, 0.001]}, "seeds": [0, 1]}


class Stop(Callback):
    """Raises an error after an evaluation of seed 0, and records the evaluations."""

    def __init__(self, step, error):
        self.step = step
        self.error = error
        self.steps = []

    def after_evaluation(self, step, *_):
        self.steps.append(step)
        if step == self.step:
            raise self.error


def stop_seed_0(monkeypatch, step, error):
    """Let the runs of seed 0 raise an error after the evaluation of a step."""
    stop = Stop(step, error)

    def stopped(row, key, folder, **options):
        callbacks = [stop] if key.seed == 0 else []
        return train(row, key, folder, callbacks=callbacks, **options)

    monkeypatch.setattr("eigenrnn_experiments.sweep.run.train", stopped)
    return stop


# runs


def test_a_grid_has_the_numbers_of_single_runs(tmp_path):
    sweep, runs = run_here(tmp_path, GRID)
    keys = [run.key for run in runs]
    assert [(key.varied["lr"], key.seed) for key in keys] == [
        *[(0.01, 0), (0.01, 1), (0.001, 0), (0.001, 1)]
    ]
    for run, row in zip(runs, read_table(tmp_path / "out"), strict=True):
        place = run.key.path
        expected = fit_alone(sweep, run, tmp_path / "alone" / place)
        assert untimed_rows(tmp_path / "out" / place) == untimed_rows(tmp_path / "alone" / place)
        assert float(row["best_test_loss"]) == expected.best["test"]["loss"]
        assert float(row["last_validation_accuracy"]) == expected.last["validation"]["accuracy"]
        found = row["lr"], row["seed"], row["state"], row["folder"]
        assert found == (str(run.key.varied["lr"]), str(run.key.seed), "ended", place.as_posix())


@pytest.mark.parametrize(("best_by", "sign"), [("accuracy", 1), ("loss", -1)])
def test_the_number_of_a_run_is_that_of_its_task(tmp_path, best_by, sign):
    sweep, (run,) = run_here(tmp_path, TINY | SEEDS | {"best_by": best_by})
    assert sweep.value_of(run) == run.best["validation"][best_by]
    below = replace(run, best={"validation": {best_by: -2.5}})  # as a density has
    assert (sweep.value_of(below), sweep.score_of(below)) == (-2.5, sign * -2.5)


def test_a_column_of_the_grid_stands_once(tmp_path):
    content = {name: value for name, value in TINY.items() if name != "steps"}
    run_here(tmp_path, content | {"grid": {"steps": [2, 4]}})
    header, *_ = (tmp_path / "out" / "results.csv").read_text().splitlines()
    assert header.split(",").count("steps") == 1
    assert [row["steps"] for row in read_table(tmp_path / "out")] == ["2", "4"]


def test_whole_numbers_stay_whole_where_a_run_has_diverged(tmp_path):
    run_here(tmp_path, TINY | {"grid": {"lr": [0.01, 1e30]}})
    good, bad = read_table(tmp_path / "out")
    assert (bad["state"], bad["best_step"]) == ("diverged", "")
    assert good["best_step"].isdigit()


def test_a_finished_run_is_not_repeated(tmp_path):
    run_here(tmp_path, GRID)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*/seed-*/*")}
    run_here(tmp_path, GRID, resume=True)
    assert {path: path.stat().st_mtime_ns for path in files} == files
    assert len(files) == 20


def test_a_damaged_record_is_named_and_written_again_once_it_is_deleted(tmp_path):
    _, (run,) = run_here(tmp_path, TINY | SEEDS)
    files = RunFolder(tmp_path / "out" / run.key.path)
    rows = untimed_rows(files.path)
    files.run_file.write_text('{"steps": 8, "seco')
    with pytest.raises(ValueError, match=str(files.run_file)):
        run_here(tmp_path, TINY | SEEDS, resume=True)
    files.run_file.unlink()
    _, (again,) = run_here(tmp_path, TINY | SEEDS, resume=True)
    assert (again.best, untimed_rows(files.path)) == (run.best, rows)


def test_an_interrupted_run_resumes_from_its_checkpoint(tmp_path, monkeypatch):
    run_here(tmp_path, TINY | SEEDS, "reference")
    stop = stop_seed_0(monkeypatch, 4, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_here(tmp_path, TINY | SEEDS)
    stop.step = None
    _, (run,) = run_here(tmp_path, TINY | SEEDS, resume=True)
    assert stop.steps == [2, 4, 4, 6, 8], "the checkpoint of step 2 was resumed"
    assert states(tmp_path, [run]) == ["ended"]
    folders = [tmp_path / name / run.key.path for name in ("reference", "out")]
    assert untimed_rows(folders[0]) == untimed_rows(folders[1])
    one, other = (RunFolder(folder).run for folder in folders)
    assert (one.best, one.last, one.best_step) == (other.best, other.last, other.best_step)


def test_an_error_ends_its_own_run_only_and_is_tried_again(tmp_path, monkeypatch):
    content = TINY | {"seeds": [0, 1]}
    stop = stop_seed_0(monkeypatch, 4, RuntimeError("a fault"))
    _, runs = run_here(tmp_path, content)
    assert states(tmp_path, runs) == ["failed", "ended"]
    rows = [(row["state"], row["message"]) for row in read_table(tmp_path / "out")]
    assert rows == [("failed", "RuntimeError: a fault"), ("ended", "")]
    stop.step = None
    run_here(tmp_path, content, resume=True)
    assert states(tmp_path, runs) == ["ended", "ended"]


def test_a_run_that_diverges_is_final_and_the_others_continue(tmp_path):
    content = TINY | {"layer": "TanhRNN", "optimiser": "sgd", "grid": {"lr": [1e38, 0.01]}}
    sweep, runs = run_here(tmp_path, content)
    rows = read_table(tmp_path / "out")
    assert [(row["lr"], row["state"]) for row in rows] == [
        *[("1e+38", "diverged"), ("0.01", "ended")]
    ]
    assert "largest gradient norms" in rows[0]["message"]
    assert sweep.is_final([run.key for run in runs], tmp_path / "out")


def test_a_run_of_another_worker_is_left_to_it(tmp_path):
    _, (run,) = run_here(tmp_path, TINY | SEEDS, "other")
    with locked(tmp_path / "out" / run.key.path), pytest.raises(FolderInUseError):
        run_here(tmp_path, TINY | SEEDS)
    assert not (tmp_path / "out" / run.key.path / "run.json").exists()


# the folder


def test_a_folder_that_holds_a_sweep_is_neither_resumed_nor_overwritten_unasked(tmp_path):
    run_here(tmp_path, TINY | SEEDS)
    with pytest.raises(RunExistsError, match=r"out .*--resume"):
        run_here(tmp_path, TINY | SEEDS)


def test_a_sweep_of_another_file_is_kept(tmp_path):
    run_here(tmp_path, TINY | SEEDS)
    before = (tmp_path / "out" / "sweep.json").read_bytes()
    with pytest.raises(ValueError, match="steps was 8, now 9"):
        run_here(tmp_path, TINY | SEEDS | {"steps": 9}, resume=True)
    assert (tmp_path / "out" / "sweep.json").read_bytes() == before
    run_here(tmp_path, TINY | SEEDS | {"retries": 3}, resume=True)


def test_a_damaged_description_is_named(tmp_path):
    run_here(tmp_path, TINY | SEEDS)
    for content in ('{"task": {', "[]", "{}"):
        (tmp_path / "out" / "sweep.json").write_text(content)
        with pytest.raises(ValueError, match=r"out"):
            run_here(tmp_path, TINY | SEEDS, resume=True)


@pytest.mark.parametrize("options", [{"resume": True}, {}])
def test_a_folder_with_runs_of_another_command_is_kept(tmp_path, options):
    (tmp_path / "out" / "run").mkdir(parents=True)
    (tmp_path / "out" / "run" / "run.json").write_text("{}")
    with pytest.raises(RunExistsError):
        run_here(tmp_path, TINY | SEEDS, **options)
    assert (tmp_path / "out" / "run" / "run.json").exists()


# the score


def test_a_score_is_the_metric_at_the_best_evaluation_and_larger_is_better(tmp_path):
    scores = {}
    for name in ("accuracy", "loss"):
        sweep, (run,) = run_here(tmp_path, TINY | SEEDS | {"best_by": name}, name)
        assert sweep.score([run.key], tmp_path / "nowhere") == -math.inf
        rows = untimed_rows(tmp_path / name / run.key.path)
        values = [float(row[f"validation_{name}"]) for row in rows if row[f"validation_{name}"]]
        assert len(values) == 4
        scores[name] = sweep.score([run.key], tmp_path / name), values
    assert scores["accuracy"][0] == max(scores["accuracy"][1])
    assert scores["loss"][0] == -min(scores["loss"][1])


def test_a_run_that_its_point_does_not_allow_is_the_worst(tmp_path):
    sweep, (run,) = run_here(tmp_path, TINY | SEEDS)
    failed = replace(run, state="failed", key=replace(run.key, varied={"layer": "nothing"}))
    assert sweep.score_of(failed) == -math.inf


def test_a_score_of_nan_is_the_worst(tmp_path):
    sweep, (run,) = run_here(tmp_path, TINY | SEEDS)
    best = {"validation": {**run.best["validation"], "accuracy": math.nan}}
    RunFolder(tmp_path / "out" / run.key.path).write(replace(run, best=best))
    assert sweep.score([run.key], tmp_path / "out") == -math.inf


@pytest.mark.parametrize("state", ["diverged", "failed"])
def test_a_seed_without_a_result_makes_its_point_the_worst(tmp_path, state):
    sweep, runs = run_here(tmp_path, TINY | {"seeds": [0, 1]})
    keys = [run.key for run in runs]
    both = [sweep.score_of(run) for run in runs]
    assert sweep.score(keys, tmp_path / "out") == pytest.approx(sum(both) / 2)
    RunFolder(tmp_path / "out" / keys[1].path).write(replace(runs[1], state=state))
    assert sweep.score(keys, tmp_path / "out") == -math.inf


# the command


@pytest.fixture
def without_ray(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)


@pytest.mark.usefixtures("without_ray")
def test_the_command_shows_the_best_runs_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.chdir(tmp_path)
    content = TINY | {"grid": {"layer.negative": [1, 2], "lr": [0.1, 0.01]}, "steps": 2}
    write_yaml(tmp_path / "mine.yaml", content)
    assert main(["sweep", "mine.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:5]
    rows = {row["folder"]: row for row in read_table(tmp_path / "runs" / "mine")}
    assert list(rows) == [
        "000-layer-negative-1-lr-0-1/seed-0",
        "001-layer-negative-1-lr-0-01/seed-0",
        "002-layer-negative-2-lr-0-1/seed-0",
        "003-layer-negative-2-lr-0-01/seed-0",
    ]
    shown = [line.rpartition("runs/mine/")[2] for line in lines]
    scores = [float(rows[folder]["best_validation_accuracy"]) for folder in shown]
    assert scores == sorted(scores, reverse=True)
    assert [float(line.split()[2]) for line in lines] == scores


@pytest.mark.usefixtures("without_ray")
def test_runs_of_tasks_with_different_metrics_are_ranked_apart(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    adding = {"class_path": "Adding", "init_args": {"length": 6, "test_examples": 10}}
    write_yaml(tmp_path / "mine.yaml", TINY | {"grid": {"task": [TINY["task"], adding]}})
    assert main(["sweep", "mine.yaml"]) == 0
    by_copying, by_adding = read_table(tmp_path / "runs" / "mine")
    lines = capsys.readouterr().out.splitlines()
    for metric, row in (("accuracy", by_copying), ("loss", by_adding)):
        value = float(row[f"best_validation_{metric}"])
        assert f"validation {metric} {value:.6g} in runs/mine/{row['folder']}" in lines


@pytest.mark.usefixtures("without_ray")
def test_the_command_fails_if_a_run_should_be_tried_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_yaml(tmp_path / "mine.yaml", TINY | {"seeds": [0, 1]})
    stop = stop_seed_0(monkeypatch, 4, RuntimeError("a fault"))
    assert main(["sweep", "mine.yaml"]) == 1
    assert "1 failed" in capsys.readouterr().out
    stop.step = None
    assert main(["sweep", "mine.yaml", "--resume"]) == 0


def test_a_search_needs_ray(tmp_path):
    with pytest.raises(ImportError):
        run_here(tmp_path, TINY | {"search": {"lr": {"low": 0.001, "high": 0.1}}})
    assert not list(tmp_path.glob("out/**/run.json"))


def test_an_address_without_a_cluster_raises_before_anything_is_written(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for wrong in (address, "nowhere", "127.0.0.1:port"):
        with pytest.raises(ConnectionError, match=wrong):
            read_content(tmp_path, TINY | SEEDS).run(tmp_path / "out", address=wrong)
    assert not (tmp_path / "out").exists()


# recipes


def test_a_row_that_a_sweep_changes_is_not_compared_with_the_paper(tmp_path, capsys):
    content = {"recipe": "nnrnn/fig2", "rows": ["LSTM 128 copying"], "seeds": [0], "quick": True}
    (row,) = (r for r in RECIPES["nnrnn/fig2"].rows if r.label == "LSTM 128 copying")
    grid = {"task.delay": [5], "steps": [2], "lr": [row.settings.lr]}  # the rate is the paper's
    run_here(tmp_path, content | {"grid": grid})
    changed = "task.delay=5, steps=2"
    table = runs([tmp_path / "out"])
    (compared,) = compare(RECIPES["nnrnn/fig2"], table, quick=True, listed=())
    assert (compared.reported, compared.difference) == (row.reported[0], None)
    assert compared.reason == f"changed by the sweep: {changed}"
    page = (tmp_path / "out/results.md").read_text()
    assert "| not comparable |" in page
    assert f"- {row.label}: changed by the sweep: {changed}." in page
    assert main(["compare", str(tmp_path / "out")]) == 0
    assert "(not comparable with the paper)" in capsys.readouterr().out


def test_a_sweep_does_not_replace_the_runs_of_a_row(tmp_path):
    recipe, rows = RECIPES["nonnormal/fig3"], ["identity copying"]
    content = {"recipe": recipe.name, "rows": rows, "seeds": [0], "quick": True}
    with one_thread():
        reproduce(recipe, tmp_path / "own", rows=rows, seeds=[0], quick=True, console=QUIET)
    run_here(tmp_path, content | {"grid": {"lr": [0.7]}})
    before, after = (
        compare(recipe, runs(folders), quick=True, listed=())
        for folders in ([tmp_path / "own"], [tmp_path])
    )
    for one, other in zip(before, after, strict=True):
        assert other.values == one.values
        assert other.reason == one.reason


def test_a_sweep_of_a_recipe_has_the_summary_of_reproduce(tmp_path):
    content = {"rows": ["identity copying", "chain copying"], "seeds": [0, 1], "quick": True}
    run_here(tmp_path, {"recipe": "nonnormal/fig3", **content})
    with one_thread():
        reproduce(RECIPES["nonnormal/fig3"], tmp_path / "reproduced", console=QUIET, **content)
    swept, reproduced = (
        compare(RECIPES["nonnormal/fig3"], runs([tmp_path / name]), quick=True, listed=())
        for name in ("out", "reproduced")
    )
    assert [each.values for each in swept] == [each.values for each in reproduced]
    assert {len(each.values) for each in swept} == {2}
    for run in (tmp_path / "out").glob("**/seed-*"):
        assert load(run).settings.steps == 30


def test_runs_of_no_sweep_are_not_resumed(tmp_path):
    run = tmp_path / "run" / "run.json"
    run.parent.mkdir()
    run.write_text("{}")
    with pytest.raises(RunExistsError, match=r"holds runs but no sweep\.json"):
        _open(tmp_path, {}, resume=True)
    with pytest.raises(RunExistsError, match="already holds runs"):
        _open(tmp_path, {}, resume=False)
