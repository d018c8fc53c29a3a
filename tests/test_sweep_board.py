"""What is told of a sweep on the console and in its table; no cluster is needed."""

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
from eigenrnn.experiments.sweep import Status, StoppedError, Sweep
from eigenrnn.experiments.sweep.board import Board
from eigenrnn.experiments.sweep.results import is_current
from eigenrnn.experiments.sweep.stops import Stops
from eigenrnn.experiments.sweep.tuning import Tuning, _Tell
from swept import TINY, begun, train

SEEDS = TINY | {"seeds": [0, 1, 2]}


def opened(tmp_path):
    """Open a sweep of three seeds and its board; return too where the board speaks."""
    sweep, trials = begun(tmp_path, SEEDS)
    told = io.StringIO()
    console, criterion = Console(file=told, width=200), sweep.decides()
    board = Board(tmp_path / "out", sweep.source, 3, console, criterion)
    board.add(trials)
    board.write()
    return SimpleNamespace(sweep=sweep, trials=trials, board=board, told=told.getvalue)


def states(tmp_path):
    with (tmp_path / "out" / "results.csv").open(newline="") as file:
        return [row["status"] for row in csv.DictReader(file)]


def test_the_table_follows_the_seeds_of_a_point(tmp_path):
    of = opened(tmp_path)
    assert states(tmp_path) == ["waiting"] * 3
    of.board.started(of.trials)
    assert states(tmp_path) == ["running", "waiting", "waiting"]
    seen = []

    def looked(trial, step, metrics):
        of.board.looked(trial, step, metrics)
        seen.append((trial.seed, states(tmp_path)))

    of.board.ended(train(of.sweep, of.trials, tmp_path, looked))
    assert (0, ["running", "waiting", "waiting"]) in seen
    assert (1, ["ended", "running", "waiting"]) in seen
    assert (2, ["ended", "ended", "running"]) in seen
    assert states(tmp_path) == ["ended"] * 3


def test_the_table_says_what_was_stopped(tmp_path):
    of = opened(tmp_path)
    of.board.started(of.trials)

    def stop(trial, step, _):
        if (trial.seed, step) == (1, 4):
            raise StoppedError(2)

    with pytest.raises(StoppedError):
        train(of.sweep, of.trials, tmp_path, stop)
    of.board.close(is_over=False)
    assert states(tmp_path) == ["ended", "stopped", "waiting"]
    assert "out of date" not in of.told()
    found = [Status.read(trial, tmp_path / "out") for trial in of.trials]
    found[1] = replace(found[1], state="stopped")
    assert is_current(tmp_path / "out", found, of.sweep.decides())


def test_a_table_that_cannot_be_written_is_told_of_once_and_is_out_of_date(tmp_path, monkeypatch):
    of, write = opened(tmp_path), Path.open

    def full(path, mode="r", *args, **options):
        if "w" in mode and path.name.startswith("results.csv"):
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return write(path, mode, *args, **options)

    monkeypatch.setattr(Path, "open", full)
    of.board.started(of.trials)
    statuses = train(of.sweep, of.trials, tmp_path)
    of.board.ended(statuses)
    of.board.close(is_over=True)
    assert of.told().count("could not be written: cannot write") == 1
    assert of.told().endswith("results.csv is out of date: --resume writes it anew\n")
    assert states(tmp_path) == ["waiting"] * 3, "the old table is untouched"
    assert not is_current(tmp_path / "out", statuses, of.sweep.decides())

    monkeypatch.undo()
    of.board.close(is_over=True)
    assert states(tmp_path) == ["ended"] * 3
    assert is_current(tmp_path / "out", statuses, of.sweep.decides())


def test_an_evaluation_is_told_by_the_figure_that_decides(tmp_path):
    of = opened(tmp_path)
    of.board.looked(of.trials[0], 4, {"validation": {"loss": 0.25, "accuracy": 0.5}, "test": {}})
    assert of.told() == "seed 0: step 4, validation accuracy 0.5\n"


def test_what_was_tried_before_does_not_count_as_over(tmp_path):
    of = opened(tmp_path)
    Status(of.trials[0], "failed", "a fault", attempts=1).write(tmp_path / "out")
    of.board.add(of.trials)
    of.board.ended([Status(of.trials[1], "ended")])
    assert "[1/3] seed 1 ended" in of.told()


def test_a_damaged_file_is_told_of_when_the_sweep_goes_on(tmp_path):
    of = opened(tmp_path)
    (tmp_path / "out" / of.trials[1].place).mkdir(parents=True)
    (tmp_path / "out" / of.trials[1].place / "trial.json").write_text("")
    of.board.add(of.trials)
    assert "seed 1: " in of.told()
    assert "trial.json is truncated or damaged" in of.told()


def test_tune_ends_the_sweep_at_its_next_step_after_a_signal_was_dropped(tmp_path):
    of, stops = opened(tmp_path), Stops()
    stops._asked = 2
    tuning = Tuning(of.sweep.source, tmp_path / "out", "mark", 1, 0, 3, None)
    with pytest.raises(StoppedError):
        _Tell(of.board, tuning, [of.trials], stops).on_step_begin(0, [])


def console_of(tmp_path, monkeypatch, capsys, ends):
    """Run the command with trials that come to these ends; return its status and its lines."""
    content = TINY | {"grid": {"layer.negative": [1, 2], "lr": [0.1, 0.01]}}
    monkeypatch.chdir(tmp_path)
    Path("sweep.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    sweep, _ = begun(tmp_path, content)
    trials = [sweep.source.trials(n, point)[0] for n, point in enumerate(sweep.plan.points)]
    (ended,) = train(sweep, trials[:1], tmp_path)
    made = [replace(ended, trial=trial) for trial in trials]
    given = [replace(status, **end) for status, end in zip(made, ends, strict=True)]
    monkeypatch.setattr(Sweep, "run", lambda *_, **__: given)
    status = main(["sweep", "sweep.yaml", "--out", "out"])
    return status, capsys.readouterr().out


@pytest.mark.parametrize("width", ["40", "80", "200"])
def test_the_last_table_names_the_folders_in_full(tmp_path, monkeypatch, capsys, width):
    monkeypatch.setenv("COLUMNS", width)
    status, said = console_of(tmp_path, monkeypatch, capsys, [{}] * 4)
    shown = said.partition("best:")[0].split()
    assert [word for word in shown if "/seed-0" in word] == [
        "000-layer-negative-1-lr-0-1/seed-0",
        "001-layer-negative-1-lr-0-01/seed-0",
        "002-layer-negative-2-lr-0-1/seed-0",
        "003-layer-negative-2-lr-0-01/seed-0",
    ]
    assert "best: out/000-layer-negative-1-lr-0-1/seed-0" in said
    # nothing was run, and so there is no table
    assert (status, said.splitlines()[-1]) == (1, "in out: results.csv is out of date")


def test_what_went_wrong_is_counted_at_the_end_and_not_told_again(tmp_path, monkeypatch, capsys):
    wrong = {"state": "failed", "message": "a fault", "result": None}
    ends = [{}, wrong, wrong, {"state": "diverged", "message": "too large", "result": None}]
    status, said = console_of(tmp_path, monkeypatch, capsys, ends)
    assert status == 1
    assert "of 4 trials 2 failed, 1 diverged; --resume tries again those" in said
    assert "a fault" not in said
