"""The dynamics of a network, written down while it is trained."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from eigenrnn.analysis.gradient_norms import gradient_norms
from eigenrnn.analysis.in_use import in_use
from eigenrnn.constraints import Constraint, Schur
from eigenrnn.errors import check_positive_integer
from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.training.callbacks import Callback, Measured
from eigenrnn.experiments.training.json_lines import JsonLines
from eigenrnn.experiments.training.probe import probe
from eigenrnn.experiments.training.processes import is_first
from eigenrnn.linalg import orthogonality_error

__all__ = ["Dynamics"]

Snapshot = dict[str, dict[str, Any]]

_ROW = {
    "radius": "spectrum",
    "orthogonality_error": "orthogonality_error",
    "henrici": "henrici",
    "gamma_mean": "gamma",
    "gamma_min": "gamma",
    "gamma_max": "gamma",
    "gradient_first": "gradient_norms",
    "gradient_last": "gradient_norms",
}
"""The columns, and the part of a snapshot that each is of."""


class Dynamics(Callback):
    r"""Looks at the recurrent matrices, and at how far back gradients reach, every few steps.

    Of every matrix: its eigenvalues, :math:`\|W^* W - I\|_F`, Henrici's departure from normality
    and, of a `Schur` constraint, :math:`\gamma`. Of every layer: the norm of the gradient of the
    loss by its state at each step of time, for a few sequences that stay the same.

    `dynamics.jsonl` in the folder of the run gets all of it, a JSON object a line, the first one
    before any step; `metrics.csv` and the board get the scalars, the board histograms of moduli
    and angles of the eigenvalues too. All numbers are rounded to six digits. What was found does
    not depend on whether the run was stopped in between.

    Args:
        every: The number of steps between two looks.
        sequences: The number of sequences of which gradients are taken.
    Raises:
        ValueError: If a number is not positive.
    Example:
        >>> fit(model, task, settings, "runs/a", callbacks=[Dynamics(100)])  # doctest: +SKIP
    """

    def __init__(self, every: int = 500, sequences: int = 4) -> None:
        check_positive_integer("every", every)
        check_positive_integer("sequences", sequences)
        self.every, self.sequences = every, sequences
        self._batch: Batch | None = None
        self._lines: JsonLines | None = None  # only the first process writes
        self._task: Task | None = None

    def begin(self, step: int, model: nn.Module, task: Task, folder: Path) -> None:
        if not is_first():
            return
        self._task = task
        self._batch = probe(task, "train", self.sequences).to(dtype=torch.float64)
        self._lines = JsonLines(folder / "dynamics.jsonl", step=step)
        found = self._look(model)
        self.columns = [
            f"{name}_{of}" for name, part in _ROW.items() for of in found.get(part, ())
        ]
        if step == 0 and found:
            self._lines.write(0, found)

    def measured(self, step: int, model: nn.Module) -> Measured:
        if step % self.every or self._lines is None:
            return {}
        found = self._look(model)
        if not found:
            return {}
        self._lines.write(step, found)
        return _row(found)

    def _look(self, model: nn.Module) -> Snapshot:
        """Measure everything; nothing of a matrix that is not finite, of which the loop tells."""
        found = in_use(model)
        matrices = {name: _exact(given.W) for name, given in found.items()}
        if not all(np.isfinite(W).all() for W in matrices.values()):
            return {}
        moduli = {name: _schur_moduli(given.constraint) for name, given in found.items()}
        spectra = {name: np.linalg.eigvals(W) for name, W in matrices.items()}
        return {
            "spectrum": {name: _pairs(values) for name, values in spectra.items()},
            "orthogonality_error": {
                name: _rounded(orthogonality_error(given.W)) for name, given in found.items()
            },
            "henrici": {
                name: _rounded(_departure(W, spectra[name])) for name, W in matrices.items()
            },
            "gamma": {name: _range(gamma) for name, gamma in moduli.items() if gamma is not None},
            "gradient_norms": self._gradient_norms(model),
        }

    def _gradient_norms(self, model: nn.Module) -> dict[str, list[float | None]]:
        batch, task = self._batch, self._task
        if batch is None or task is None:
            return {}

        def loss(outputs: Tensor) -> Tensor:
            return task.loss(outputs, batch.targets)

        try:
            found = gradient_norms(model, batch.inputs, loss)
        except ValueError:  # states that explode, or a loss that no state reaches, end no run
            return {}
        # JSON has no word for what is not finite
        return {
            name: [_rounded(norm) if np.isfinite(norm) else None for norm in norms.tolist()]
            for name, norms in found.curves.items()
        }


def _row(found: Snapshot) -> dict[str, float | NDArray[np.float64]]:
    """Name the scalars, and what the board shows as histograms."""
    row: dict[str, float | NDArray[np.float64]] = {}
    for name, pairs in found["spectrum"].items():
        moduli, angles = np.hypot(*np.transpose(pairs)), np.arctan2(*np.transpose(pairs)[::-1])
        row |= {f"radius_{name}": _rounded(moduli.max())}
        row |= {f"modulus_{name}": moduli, f"angle_{name}": angles}
    for part in ("orthogonality_error", "henrici"):
        row |= {f"{part}_{name}": number for name, number in found[part].items()}
    for name, gamma in found["gamma"].items():
        row |= {f"gamma_{which}_{name}": number for which, number in gamma.items()}
    for name, norms in found["gradient_norms"].items():
        ends = {f"gradient_first_{name}": norms[0], f"gradient_last_{name}": norms[-1]}
        row |= {end: norm for end, norm in ends.items() if norm is not None}
    return row


def _exact(W: Tensor) -> NDArray[Any]:
    return W.to("cpu", torch.complex128 if W.is_complex() else torch.float64).numpy()


def _departure(W: NDArray[Any], eigenvalues: NDArray[Any]) -> float:
    """Compute Henrici's departure from normality from the eigenvalues, which are known already."""
    squared = np.linalg.norm(W) ** 2
    left = squared - np.sum(np.abs(eigenvalues) ** 2)
    # what rounding leaves of a normal matrix is none
    return math.sqrt(left) if left > 10 * len(W) * np.finfo(np.float64).eps * squared else 0.0


def _schur_moduli(constraint: Constraint | None) -> Tensor | None:
    """Return gamma of a Schur form, also of one that is a part of another set."""
    parts = () if constraint is None else constraint.modules()
    return next((part.gamma.detach() for part in parts if isinstance(part, Schur)), None)


def _range(gamma: Tensor) -> dict[str, float]:
    numbers = {"mean": gamma.mean(), "min": gamma.min(), "max": gamma.max()}
    return {name: _rounded(float(number)) for name, number in numbers.items()}


def _pairs(eigenvalues: NDArray[Any]) -> list[list[float]]:
    return [[_rounded(z.real), _rounded(z.imag)] for z in eigenvalues.tolist()]


def _rounded(number: float) -> float:
    return float(f"{number:.6g}")
