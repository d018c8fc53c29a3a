"""The curves of a run, as few points as a picture needs."""

from pathlib import Path

import numpy as np

from eigenrnn.experiments.report.files import Columns, read_table
from eigenrnn.experiments.report.numbers import listed, thinned
from eigenrnn.experiments.results.archive import Curve

__all__ = ["MOST_POINTS", "evaluated_curve", "training_curve"]

MOST_POINTS = 120
_DIGITS = 5


def training_curve(metrics: Path) -> Curve:
    """Read the loss of training: its mean over the logged steps where there is one."""
    columns = read_table(metrics)
    means = columns.get("train_loss_mean")
    known = "train_loss" if means is None or np.isnan(means).all() else "train_loss_mean"
    return _thin(columns, [known])


def evaluated_curve(metrics: Path) -> Curve:
    """Read what was measured on the fixed splits."""
    columns = read_table(metrics)
    return _thin(columns, [n for n in columns if n.startswith(("validation_", "test_"))])


def _thin(columns: Columns, names: list[str]) -> Curve:
    """Keep the rows that have one of these numbers, evenly thinned, first and last included."""
    if not names:
        return {}
    there = np.flatnonzero(np.any([~np.isnan(columns[name]) for name in names], axis=0))
    kept = there[thinned(len(there), MOST_POINTS)]
    steps: list[float | None] = [int(step) for step in columns["step"][kept]]
    return {"step": steps, **{name: listed(columns[name][kept], _DIGITS) for name in names}}
