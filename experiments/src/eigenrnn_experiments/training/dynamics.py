"""The callback `Dynamics`, which records spectra and gradient norms during training."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from eigenrnn.analysis import gradient_norms, recurrent_weights
from eigenrnn.constraints import Constraint, Schur
from eigenrnn.errors import check_positive_integer
from eigenrnn.linalg import double_precision, orthogonality_error
from eigenrnn_experiments.statistics import rounded
from eigenrnn_experiments.tasks.base import Batch, Task
from eigenrnn_experiments.training.callbacks import Callback, Measurements
from eigenrnn_experiments.training.run import RunFolder

__all__ = ["Dynamics", "probe_batch"]

Snapshot = dict[str, dict[str, Any]]

_DIGITS = 6  # significant ones

_COLUMNS = {
    "radius": "spectrum",
    "orthogonality_error": "orthogonality_error",
    "henrici": "henrici",
    "gamma_mean": "gamma",
    "gamma_min": "gamma",
    "gamma_max": "gamma",
    "gradient_first": "gradient_norms",
    "gradient_last": "gradient_norms",
}
"""The columns of `metrics.csv`, and the entry of a snapshot that each summarises."""


class Dynamics(Callback):
    r"""Records the recurrent matrices and the gradient norms every few steps.

    For every matrix: its eigenvalues, :math:`\|W^* W - I\|_F`, Henrici's departure from normality
    and, for a `Schur` constraint, :math:`\gamma`. For every layer: the norm of the gradient of the
    loss with respect to its state at each time step, for a few fixed sequences.

    All of it goes to `dynamics.jsonl` in the folder of the run, one JSON object per line, the
    first one before any step. The scalars also go to `metrics.csv` and TensorBoard, and histograms
    of the moduli and angles of the eigenvalues to TensorBoard. Numbers are rounded to six digits.
    A resumed run leaves the same records as an uninterrupted one.

    Args:
        every: The number of steps between two records.
        sequences: The number of sequences whose gradient norms are computed.
    Raises:
        ValueError: If a number is not positive.
    Example:
        >>> fit(model, task, settings, "runs/a", callbacks=[Dynamics(100)])  # doctest: +SKIP
    """

    def __init__(self, every: int = 500, sequences: int = 4) -> None:
        check_positive_integer("every", every)
        check_positive_integer("sequences", sequences)
        self.every = every
        self.sequences = sequences
        self._batch: Batch | None = None
        self._files: RunFolder | None = None  # in the first process only
        self._task: Task | None = None

    def begin(self, step: int, model: nn.Module, task: Task, folder: Path) -> None:
        self._task = task
        self._batch = probe_batch(task, "train", self.sequences).to(dtype=torch.float64)
        self._files = RunFolder(folder)
        self._files.discard_dynamics(after=step)
        snapshot = self._snapshot(model)
        self.columns = [
            f"{column}_{name}"
            for column, entry in _COLUMNS.items()
            for name in snapshot.get(entry, ())
        ]
        if step == 0 and snapshot:
            self._files.write_dynamics({"step": 0, **snapshot})

    def measure(self, step: int, model: nn.Module) -> Measurements:
        if step % self.every or self._files is None:
            return {}
        snapshot = self._snapshot(model)
        if not snapshot:
            return {}
        self._files.write_dynamics({"step": step, **snapshot})
        return _measurements(snapshot)

    def _snapshot(self, model: nn.Module) -> Snapshot:
        """Measure all matrices and gradients; empty if a matrix is not finite."""
        spectra: dict[str, list[list[float]]] = {}
        errors: dict[str, float] = {}
        departures: dict[str, float] = {}
        gammas: dict[str, dict[str, float]] = {}
        for name, each in recurrent_weights(model).items():
            W = each.W.to("cpu", double_precision(each.W.dtype)).numpy()
            if not np.isfinite(W).all():
                return {}  # the training loop raises the error
            eigenvalues = np.linalg.eigvals(W)
            spectra[name] = [[_rounded(z.real), _rounded(z.imag)] for z in eigenvalues.tolist()]
            errors[name] = _rounded(orthogonality_error(each.W))
            departures[name] = _rounded(_departure(W, eigenvalues))
            gamma = _schur_moduli(each.constraint)
            if gamma is not None:
                gammas[name] = _range(gamma)
        return {
            "spectrum": spectra,
            "orthogonality_error": errors,
            "henrici": departures,
            "gamma": gammas,
            "gradient_norms": self._gradient_norms(model),
        }

    def _gradient_norms(self, model: nn.Module) -> dict[str, list[float | None]]:
        batch = self._batch
        task = self._task
        if batch is None or task is None:
            return {}

        def loss(outputs: Tensor) -> Tensor:
            return task.loss(outputs, batch.targets)

        try:
            # a network with noise in evaluation: the same at every step, and after a resumption
            with torch.random.fork_rng([]):
                torch.manual_seed(0)
                found = gradient_norms(model, batch.inputs, loss)
        except ValueError:  # overflowing states, or a loss that does not depend on them
            return {}
        curves: dict[str, list[float | None]] = {}
        for name, norms in found.curves.items():
            curves[name] = rounded(norms, _DIGITS)
        return curves


def probe_batch(task: Task, split: str, sequences: int) -> Batch:
    """Return the first sequences of a split, all of the same length.

    If their lengths differ, only the longest ones are returned.

    Args:
        task: The task.
        split: One of its splits.
        sequences: The number of sequences; at most as many as the split has.
    """
    batch = next(task.batches(split, sequences))
    if batch.lengths is None:
        return batch
    longest = int(batch.lengths.max())
    rows = torch.nonzero(batch.lengths == longest).flatten()
    if batch.targets_batch_dim == 0:  # one target for each sequence
        targets = batch.targets[rows]
    else:
        targets = batch.targets[:longest, rows]
    return replace(batch, inputs=batch.inputs[:longest, rows], targets=targets, lengths=None)


def _measurements(snapshot: Snapshot) -> dict[str, float | NDArray[np.float64]]:
    """Return the scalars of a snapshot, and the arrays for the histograms, by column."""
    row: dict[str, float | NDArray[np.float64]] = {}
    for name, pairs in snapshot["spectrum"].items():
        real, imaginary = np.transpose(pairs)
        moduli = np.hypot(real, imaginary)
        row[f"radius_{name}"] = _rounded(moduli.max())
        row[f"modulus_{name}"] = moduli
        row[f"angle_{name}"] = np.arctan2(imaginary, real)
    for entry in ("orthogonality_error", "henrici"):
        for name, number in snapshot[entry].items():
            row[f"{entry}_{name}"] = number
    for name, gamma in snapshot["gamma"].items():
        for which, number in gamma.items():
            row[f"gamma_{which}_{name}"] = number
    for name, norms in snapshot["gradient_norms"].items():
        if norms[0] is not None:
            row[f"gradient_first_{name}"] = norms[0]
        if norms[-1] is not None:
            row[f"gradient_last_{name}"] = norms[-1]
    return row


def _departure(W: NDArray[Any], eigenvalues: NDArray[Any]) -> float:
    """Compute Henrici's departure from normality from known eigenvalues."""
    squared = np.linalg.norm(W) ** 2
    excess = squared - np.sum(np.abs(eigenvalues) ** 2)
    # a normal matrix has departure 0: anything smaller is rounding
    tolerance = 10 * len(W) * np.finfo(np.float64).eps * squared
    if not excess > tolerance:
        return 0.0
    return math.sqrt(excess)


def _schur_moduli(constraint: Constraint | None) -> Tensor | None:
    """Return gamma of a `Schur` constraint, which may be part of another constraint."""
    if constraint is None:
        return None
    for part in constraint.modules():
        if isinstance(part, Schur):
            return part.gamma.detach()
    return None


def _range(gamma: Tensor) -> dict[str, float]:
    numbers = {"mean": gamma.mean(), "min": gamma.min(), "max": gamma.max()}
    return {name: _rounded(float(number)) for name, number in numbers.items()}


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")
