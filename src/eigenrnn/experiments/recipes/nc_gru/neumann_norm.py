"""Whether the Neumann series of NC-GRU converges, looked at while a network is trained."""

import csv
import io
import math
from pathlib import Path

from torch import Tensor, nn

from eigenrnn.analysis import neumann_condition
from eigenrnn.atomic import write_atomically
from eigenrnn.constraints import NeumannCayley
from eigenrnn.experiments.training import Callback
from eigenrnn.experiments.training.processes import is_first
from eigenrnn.linalg import skew

__all__ = ["NeumannNorm"]


class NeumannNorm(Callback):
    r"""Writes how large the terms of the series are to a file of the run, `neumann_norm.csv`.

    .. math:: \| (I + A_{k-1})^{-1}\, \delta A_k \|_2, \qquad A_k = A_{k-1} - \delta A_k

    The series converges where this is below one. The inverse is exact here. The file has a column
    for each orthogonal matrix; of a run that goes on it keeps the rows before.

    Args:
        folder: That of the run.
        every: The number of steps between rows.

    Source:
        Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, section 5.3.
        https://arxiv.org/abs/2208.06496 (departures: not every step has a row).
    """

    def __init__(self, folder: str | Path, every: int = 10) -> None:
        if every < 2:
            raise ValueError(
                f"expected every >= 2, got {every}: a row compares two consecutive steps"
            )
        self.path, self.every = Path(folder) / "neumann_norm.csv", every
        self._before: dict[str, Tensor] = {}
        self._begun = False

    def after_step(self, step: int, loss: Tensor, model: nn.Module) -> None:  # noqa: ARG002
        """Write the norms of a step of which there is to be a row."""
        if step % self.every == self.every - 1:
            self._before = {name: A.clone() for name, A in _skew_parts(model).items()}
        elif step % self.every == 0 and self._before:
            parts = _skew_parts(model)
            norms = {name: _norm(A, parts[name]) for name, A in self._before.items()}
            if is_first():
                self._write(step, norms)

    def _write(self, step: int, norms: dict[str, float]) -> None:
        if not self._begun:
            header = ["step", *norms]
            write_atomically(self.path, _lines([header, *self._earlier(step)]).encode())
            self._begun = True
        with self.path.open("a") as file:
            file.write(_lines([[str(step), *(f"{norm:.6g}" for norm in norms.values())]]))

    def _earlier(self, step: int) -> list[list[str]]:
        """Read the rows before a step, written by a run that stopped."""
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return [row for row in list(csv.reader(file))[1:] if int(row[0]) < step]


def _lines(rows: list[list[str]]) -> str:
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(rows)
    return table.getvalue()


def _skew_parts(model: nn.Module) -> dict[str, Tensor]:
    """Return the entries of each A, by the name of its matrix."""
    return {
        name: module.cayley.raw.detach()
        for name, module in model.named_modules()
        if isinstance(module, NeumannCayley)
    }


def _norm(
    before: Tensor,  # (N (N - 1) / 2)
    after: Tensor,  # (N (N - 1) / 2)
) -> float:
    size = (1 + math.isqrt(1 + 8 * len(before))) // 2
    return neumann_condition(skew(before, size), skew(after, size)).norm
