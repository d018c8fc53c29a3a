"""A small training run for tests, also as a script for tests that interrupt it."""

import argparse
import csv
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from eigenrnn import RNN, SequenceModel
from eigenrnn.constraints import Exponential
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.training import Dynamics, Settings, fit

TASK = Copying(delay=4, symbols=2, test_examples=30)
QUIET = Console(quiet=True)


def small_settings(steps=20, **options):
    defaults = {"batch_size": 4, "accelerator": "cpu", "log_every": 1, "eval_every": 10}
    return Settings(steps=steps, **(defaults | options))


def small_model(*, dropout=0.3, period=7, constraint=None):
    """Two layers with dropout between them, whose base matrices move every seventh step."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = RNN(
            TASK.input_size,
            6,
            num_layers=2,
            dropout=dropout,
            constraint=constraint or partial(Exponential, period=period),
        )
        return SequenceModel(layer, TASK.output_size)


def small_fit(directory, settings=None, *, model=None, task=TASK, **options):
    """Train the small model on the small task, without console output."""
    model, settings = model or small_model(), settings or small_settings()
    with one_thread():
        return fit(model, task, settings, directory, **{"console": QUIET, **options})


@contextmanager
def one_thread():
    """Use one thread: at these sizes a second one slows the computation down."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def read_metrics(directory):
    """Read `metrics.csv` as a list of rows."""
    with (Path(directory) / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def losses(directory):
    """Map each logged step to its loss, as the text in `metrics.csv`."""
    return {int(row["step"]): row["train_loss"] for row in read_metrics(directory)}


def main(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("directory")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--checkpoint_every", type=int, default=20)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--accelerator", default="cpu")
    parser.add_argument("--dynamics_every", type=int)
    options = vars(parser.parse_args(arguments))
    directory, dropout = options.pop("directory"), options.pop("dropout")
    every = options.pop("dynamics_every")
    small_fit(
        directory,
        small_settings(**options),
        model=small_model(dropout=dropout),
        callbacks=[] if every is None else [Dynamics(every)],
    )


if __name__ == "__main__":
    main(sys.argv[1:])
