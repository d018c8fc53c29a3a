"""A small sweep, and functions of tests to read, train and inspect sweeps."""

import csv
import sys

import pytest
import yaml

from eigenrnn_experiments.cli.sweep import read_sweep
from eigenrnn_experiments.recipes.reproduce import train
from eigenrnn_experiments.training import RunFolder
from training_run import QUIET, one_thread, read_metrics

TINY = {
    "task": {
        "class_path": "Copying",
        "init_args": {"delay": 3, "symbols": 2, "test_examples": 10},
    },
    "layer": "ScoRNN",
    "hidden_size": 6,
    "steps": 8,
    "eval_every": 2,
    "batch_size": 2,
    "log_every": 1,
    "accelerator": "cpu",
}
SEEDS = {"seeds": [0]}


def write_yaml(path, content):
    text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    path.write_text(text)
    return path


def read_content(folder, content):
    return read_sweep(write_yaml(folder / "sweep.yaml", content))


def run_here(folder, content, out="out", **options):
    """Run a sweep without Ray, one run after another; return the sweep and its runs."""
    sweep = read_content(folder, content)
    with pytest.MonkeyPatch.context() as patch, one_thread():
        patch.setitem(sys.modules, "ray", None)
        return sweep, sweep.run(folder / out, **options)


def states(folder, runs):
    return [RunFolder(folder / "out" / run.key.path).run.state for run in runs]


def fit_alone(sweep, run, folder, **options):
    """Train a run of a sweep without the sweep."""
    with one_thread():
        return train(sweep.row_of(run.key), run.key, folder, console=QUIET, **options)


def untimed_rows(folder):
    """Read `metrics.csv` without the column of seconds."""
    return [{n: v for n, v in row.items() if n != "seconds"} for row in read_metrics(folder)]


def read_table(folder):
    """Read `results.csv`."""
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))
