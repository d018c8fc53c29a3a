"""What came out of a run."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from eigenrnn.train.run_directory import write_json

__all__ = ["Metrics", "Result"]

Metrics = dict[str, dict[str, float]]
"""Loss and metric by name, for each split."""


@dataclass(frozen=True)
class Result:
    """The outcome of `fit`.

    Args:
        steps: The number of optimiser steps taken in all.
        seconds: The time that they and the evaluations took, earlier beginnings included.
        processor_seconds: What all threads of this process computed in that time, which other
            programs on the machine hardly change; None if it was not recorded.
        train_loss: The loss of the last step.
        last: Loss and metric of each split at the last evaluation.
        best: The same at the best evaluation; the model of that step is in `best.pt`.
        best_step: The step of the best evaluation; None if nothing was evaluated.
        best_by: What the best was chosen by, such as `validation accuracy`; None if nothing was.
        directory: The folder of the run.
        interrupted: Whether the run was asked to end early, and can go on.
        out_of_time: Whether that was as its `max_minutes` were over.

    Units:
        Times in seconds; losses and metrics in those of the task.
    """

    steps: int
    seconds: float
    train_loss: float
    last: Metrics
    best: Metrics
    best_step: int | None
    best_by: str | None
    directory: Path
    interrupted: bool = False
    out_of_time: bool = False
    processor_seconds: float | None = None

    def write(self, path: Path) -> None:
        """Write all but the folder, which may be moved, and whether it was interrupted."""
        numbers = asdict(self)
        del numbers["directory"], numbers["interrupted"], numbers["out_of_time"]
        write_json(path, numbers)

    @classmethod
    def from_json(cls, content: str | Mapping[str, Any], directory: Path) -> Self:
        """Read the result of a run that has ended."""
        numbers = json.loads(content) if isinstance(content, str) else content
        return cls(**numbers, directory=directory)
