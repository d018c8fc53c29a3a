"""The pictures of a published figure, drawn from what a recipe has trained."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import nn

from eigenrnn.analysis import Analysis
from eigenrnn.experiments.tasks import Batch
from eigenrnn.experiments.training import checkpoint
from eigenrnn.experiments.training.run_directory import RunDirectory

if TYPE_CHECKING:
    from eigenrnn.experiments.recipes.base import Row

__all__ = ["Panel", "Trained"]


@dataclass(frozen=True)
class Trained:
    """A run that has ended.

    Args:
        row: What was trained, of one point of its search.
        seed: The seed of its start.
        folder: That of the run.
    """

    row: "Row"
    seed: int
    folder: Path

    def model(self) -> nn.Module:
        """Build the network with the weights of its best evaluation, or else the last ones."""
        files = RunDirectory(self.folder)
        if files.best.exists():
            weights = checkpoint.load(files.best, "model")["model"]
        else:
            weights = checkpoint.load(files.last, "learner")["learner"]["model"]
        model = self.row.build(self.seed)
        model.load_state_dict(weights)
        return model.eval()

    def batch(self, size: int) -> Batch:
        """Draw the first training batch of this many sequences."""
        return next(self.row.task.batches("train", size, self.seed))

    def names(self, file: str = "metrics.csv") -> list[str]:
        """Return the columns of a file of the run, beside the step."""
        with (self.folder / file).open(newline="") as text:
            return [name for name in next(csv.reader(text)) if name != "step"]

    def column(self, name: str, file: str = "metrics.csv") -> tuple[list[int], list[float]]:
        """Read a column of a file of the run: the steps that have a number, and the numbers.

        Raises:
            ValueError: If there is no such column.
        """
        path = self.folder / file
        with path.open(newline="") as text:
            rows = list(csv.DictReader(text))
        if rows and name not in rows[0]:
            raise ValueError(f"expected a column {name} in {path}, got {', '.join(rows[0])}")
        known = [row for row in rows if row[name]]
        return [int(row["step"]) for row in known], [float(row[name]) for row in known]


@dataclass(frozen=True)
class Panel:
    """One picture.

    Args:
        name: That of its files, such as ``"c"`` for `c.png` and `c.csv`.
        about: What it shows.
        draw: Computes what it shows from the runs of each label that it needs.
        needs: The labels of the rows that must have been trained.
    """

    name: str
    about: str
    draw: Callable[[Mapping[str, Sequence[Trained]]], Analysis]
    needs: tuple[str, ...] = ()

    def save(self, folder: Path, trained: Mapping[str, Sequence[Trained]]) -> bool:
        """Write picture and numbers, if all runs are there; return whether they are."""
        if not all(trained.get(label) for label in self.needs):
            return False
        self.draw(trained).save(folder / self.name)
        return True
