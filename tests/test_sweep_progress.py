"""The messages and the table of a sweep; no cluster is needed."""

import csv
import errno
import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from rich.console import Console

from eigenrnn.experiments.cli import main
from eigenrnn.experiments.sweep import StoppedError, Sweep
from eigenrnn.experiments.sweep.progress import SweepProgress, is_current
from small_sweep import TINY, open_sweep, train

SEEDS = TINY | {"seeds": [0, 1, 2]}


def open_progress(tmp_path):
    """Open a sweep of three seeds, its progress and its console."""
    sweep, trials = open_sweep(tmp_path, SEEDS)
    output = io.StringIO()
    console, criterion = Console(file=output, width=200), sweep.criterion()
    progress = SweepProgress(tmp_path / "out", sweep.source, 3, console, criterion)
    progress.add(trials)
    progress.write()
    return SimpleNamespace(sweep=sweep, trials=trials, progress=progress, output=output.getvalue)


def states(tmp_path):
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        return [row["status"] for row in csv.DictReader(file)]


def test_the_table_is_updated_for_each_seed(tmp_path):
    opened = open_progress(tmp_path)
    assert states(tmp_path) == ["waiting"] * 3
    seen = []

    def report(event):
        opened.progress.report(event)
        seen.append((event[1], states(tmp_path)))

    for trial in opened.trials:
        (status,) = train(opened.sweep, [trial], tmp_path, report)
        opened.progress.ended(status)
    assert (None, ["running", "waiting", "waiting"]) in seen
    assert (8, ["ended", "running", "waiting"]) in seen
    assert (8, ["ended", "ended", "running"]) in seen
    assert states(tmp_path) == ["ended"] * 3


def test_the_table_shows_the_stopped_trial(tmp_path):
    opened = open_progress(tmp_path)

    def stop(event):
        opened.progress.report(event)
        if event[:2] == (opened.trials[1].path, 4):
            raise StoppedError(2)

    with pytest.raises(StoppedError):
        train(opened.sweep, opened.trials, tmp_path, stop)
    opened.progress.close()
    assert states(tmp_path) == ["ended", "stopped", "waiting"]
    assert "out of date" not in opened.output()
    found = [trial.read(tmp_path / "out") for trial in opened.trials]
    found[1] = replace(found[1], state="stopped")
    assert is_current(tmp_path / "out", found, opened.sweep.criterion())


def test_a_table_that_cannot_be_written_is_reported_once(tmp_path, monkeypatch):
    opened, write = open_progress(tmp_path), Path.open

    def full(path, mode="r", *args, **options):
        if ("w" in mode or "x" in mode) and path.name.startswith("results.csv"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, mode, *args, **options)

    monkeypatch.setattr(Path, "open", full)
    finished = train(opened.sweep, opened.trials, tmp_path, opened.progress.report)
    for status in finished:
        opened.progress.ended(status)
    opened.progress.close()
    assert opened.output().count("could not be written: cannot write") == 1
    assert opened.output().endswith("results.csv is out of date: --resume writes it again\n")
    assert states(tmp_path) == ["waiting"] * 3, "the old table is unchanged"
    assert not is_current(tmp_path / "out", finished, opened.sweep.criterion())

    monkeypatch.undo()
    opened.progress.close()
    assert states(tmp_path) == ["ended"] * 3
    assert is_current(tmp_path / "out", finished, opened.sweep.criterion())


def test_an_evaluation_prints_the_metric_of_the_criterion(tmp_path):
    opened = open_progress(tmp_path)
    metrics = {"validation": {"loss": 0.25, "accuracy": 0.5}, "test": {}}
    opened.progress.report((opened.trials[0].path, 4, metrics))
    assert opened.output() == "seed 0: step 4, validation accuracy 0.5\n"


def test_a_trial_that_failed_before_does_not_count_as_finished(tmp_path):
    opened = open_progress(tmp_path)
    replace(opened.trials[0], state="failed", message="a fault", attempts=1).write(
        tmp_path / "out"
    )
    opened.progress.add(opened.trials)
    opened.progress.ended(replace(opened.trials[1], state="ended"))
    assert "[1/3] seed 1 ended" in opened.output()


def test_a_damaged_file_is_reported_on_resuming(tmp_path):
    opened = open_progress(tmp_path)
    (tmp_path / "out" / opened.trials[1].path).mkdir(parents=True)
    (tmp_path / "out" / opened.trials[1].path / "status.json").write_text("")
    opened.progress.add(opened.trials)
    assert "seed 1: " in opened.output()
    assert "status.json is truncated or damaged" in opened.output()


def run_command(tmp_path, monkeypatch, capsys, outcomes):
    """Run the command with trials of the given outcomes; return its status and its output."""
    content = TINY | {"grid": {"layer.negative": [1, 2], "lr": [0.1, 0.01]}}
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    sweep, _ = open_sweep(tmp_path, content)
    trials = [sweep.source.trials(n, point)[0] for n, point in enumerate(sweep.plan.points)]
    (ended,) = train(sweep, trials[:1], tmp_path)
    trials = [replace(trial, state="ended", result=ended.result) for trial in trials]
    trials = [replace(t, **outcome) for t, outcome in zip(trials, outcomes, strict=True)]
    monkeypatch.setattr(Sweep, "run", lambda *_, **__: trials)
    status = main(["sweep", "sweep.yaml", "--out", "out"])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("width", ["40", "80", "200"])
def test_the_final_table_shows_full_folder_names(tmp_path, monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", width)
    status, output = run_command(tmp_path, monkeypatch, capsys, [{}] * 4)
    shown = output.partition("best:")[0].split()
    assert [word for word in shown if "/seed-0" in word] == [
        "000-layer-negative-1-lr-0-1/seed-0",
        "001-layer-negative-1-lr-0-01/seed-0",
        "002-layer-negative-2-lr-0-1/seed-0",
        "003-layer-negative-2-lr-0-01/seed-0",
    ]
    assert "best: out/000-layer-negative-1-lr-0-1/seed-0" in output
    # the run is mocked, so there is no table
    assert (status, output.splitlines()[-1]) == (1, "in out: results.csv is out of date")


def test_failures_are_counted_at_the_end_without_their_messages(tmp_path, monkeypatch, capsys):
    failed = {"state": "failed", "message": "a fault", "result": None}
    outcomes = [{}, failed, failed, {"state": "diverged", "message": "too large", "result": None}]
    status, output = run_command(tmp_path, monkeypatch, capsys, outcomes)
    assert status == 1
    assert "of 4 trials 2 failed, 1 diverged; --resume retries those" in output
    assert "a fault" not in output
