"""What came out of a run."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, cast

from eigenrnn.train.run_directory import write_json

__all__ = ["Metrics", "Result"]

_OF_THE_CALL = ("interrupted", "out_of_time", "signal")

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
        interrupted: Whether a signal came or the time was over, so that the run ended early; after
            a signal in its last step it is complete. It goes on with `resume=True` either way.
        out_of_time: Whether it ended early as its `max_minutes` were over.
        signal: The number of the signal that came; None if none did.

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
    signal: int | None = None

    def write(self, path: Path) -> None:
        """Write all but the folder, which may be moved, and what interrupted the run."""
        numbers = asdict(self)
        for name in ("directory", *_OF_THE_CALL):
            del numbers[name]
        write_json(path, numbers)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the result of a run that has ended from its file.

        Raises:
            ValueError: If the file is damaged; says what to do.
        """
        hint = "delete it: resume=True (--resume) writes it again from the checkpoint"
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is truncated or damaged: {error}; {hint}") from None
        try:
            return cls.from_json(cast("dict[str, Any]", content), path.parent)
        except TypeError as error:
            raise ValueError(f"{path} is damaged: {error}; {hint}") from None

    @classmethod
    def from_json(cls, content: str | Mapping[str, Any], directory: Path) -> Self:
        """Read the result of a run that has ended."""
        numbers = json.loads(content) if isinstance(content, str) else content
        return cls(**numbers, directory=directory)
