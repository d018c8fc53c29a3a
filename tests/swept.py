"""A sweep so small that it takes no time, and how tests read, start and look at one."""

import csv
import json
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
import yaml

from eigenrnn.cli.sweep_file import read_sweep
from eigenrnn.sweep.folder import open_folder
from eigenrnn.sweep.worker import train_points
from eigenrnn.train import fit
from training_run import QUIET, one_thread, read_metrics

TINY = {
    "task": {"name": "copying", "delay": 3, "symbols": 2, "test_examples": 10},
    "layer": "scornn",
    "hidden_size": 6,
    "steps": 8,
    "eval_every": 2,
    "batch_size": 2,
    "log_every": 1,
    "accelerator": "cpu",
}
SEEDS = {"seeds": [0]}


def read(tmp_path, content):
    file = tmp_path / "sweep.yaml"
    file.write_text(
        content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    )
    return read_sweep(file)


def begun(tmp_path, content=TINY | SEEDS):
    """Read a sweep and open its folder; return its first point's trials too."""
    sweep = read(tmp_path, content)
    open_folder(tmp_path / "out", sweep.description, overwrite=False)
    return sweep, sweep.source.trials(0, sweep.plan.points[0])


def train(sweep, trials, tmp_path, report=lambda *_: None):
    """Train trials as a worker does."""
    mark = json.loads((tmp_path / "out" / "sweep.json").read_text())["mark"]
    with one_thread():
        return train_points(trials, sweep.source, tmp_path / "out", mark, 1, report)


def written(path, content):
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path


def plain(sweep, status, folder):
    """Train what a trial trained, without a sweep."""
    prepared = sweep.source.prepare(status.trial, folder)
    with one_thread():
        return fit(prepared.model, prepared.task, prepared.settings, folder, console=QUIET)


def numbers(folder):
    return [{n: v for n, v in row.items() if n != "seconds"} for row in read_metrics(folder)]


def table(folder):
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@contextmanager
def started(tmp_path, *options):
    """Start the sweep of `sweep.yaml`; it is killed if it has not ended by then."""
    command = [
        sys.executable,
        "-m",
        "eigenrnn.cli",
        "sweep",
        "sweep.yaml",
        "--out",
        "out",
        *options,
    ]
    with (tmp_path / "said.txt").open("w") as said:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=said, stderr=said)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_until_saved(process, out, attempt, said):
    """Wait until a run has been begun so many times, and has saved a checkpoint since."""
    deadline, before = time.time() + 240, time.time()
    while time.time() < deadline:
        assert process.poll() is None, said.read_text()
        for file in out.glob("*/seed-0/last.pt"):
            begun = json.loads((file.parent / "trial.json").read_text())["attempts"]
            if begun == attempt and file.stat().st_mtime > before:
                return
        time.sleep(0.01)
    pytest.fail(said.read_text())
