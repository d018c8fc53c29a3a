"""How far a trained matrix is from a normal one, written down while it is trained."""

import csv
import io
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eigenrnn.analysis import henrici
from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.training import Callback
from eigenrnn.experiments.training.result import Metrics

__all__ = ["HenriciJournal", "henrici_index"]

_COLUMNS = ["step", "henrici"]


def henrici_index(
    W: Tensor,  # (N, N)
) -> float:
    r"""Measure the departure from normality, which is zero for a normal matrix alone.

    .. math:: d(W) = \sqrt{\lVert W \rVert_F^2 - \sum_i |\lambda_i|^2}

    Source:
        Henrici, Numerische Mathematik 4, 1962. https://doi.org/10.1007/BF01386294
    """
    return henrici(W).absolute


class HenriciJournal(Callback):
    """Writes the index of the recurrent matrix into `henrici.csv` at every evaluation.

    A run that goes on from a checkpoint forgets what came after it.

    Args:
        folder: That of the run.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / "henrici.csv"

    def after_evaluation(self, step: int, metrics: Metrics, model: nn.Module) -> None:  # noqa: ARG002
        layer: Any = model.layer
        (direction,) = layer.all_directions()
        with torch.no_grad():
            index = henrici_index(direction.constraint())
        rows = [row for row in self._written() if int(row[0]) < step]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [_COLUMNS, *rows, [str(step), repr(index)]]
        )
        write_atomically(self.path, text.getvalue().encode())

    def _written(self) -> list[list[str]]:
        if not self.path.exists():
            return []
        with self.path.open(newline="") as file:
            return list(csv.reader(file))[1:]
