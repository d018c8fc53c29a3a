"""What came out of a run."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self, cast

from eigenrnn.experiments.training.run_directory import write_json

__all__ = ["Metrics", "Result", "are_metrics", "is_count", "is_number"]

_REMEDY = "delete it: resume=True (--resume) writes it again from the checkpoint"
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
            ValueError: If the file is damaged; the message says what to do.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is truncated or damaged: {error}; {_REMEDY}") from None
        return cls.from_json(content, path.parent)

    @classmethod
    def from_json(cls, content: Mapping[str, Any], directory: Path) -> Self:
        """Build the result of a run that has ended from what its file holds.

        Raises:
            ValueError: If a key or a value is wrong; the message names the file.
        """
        path = directory / "result.json"
        try:
            result = cls(**content, directory=directory)
        except TypeError as error:
            raise ValueError(f"{path} is damaged: {error}; {_REMEDY}") from None
        if not _has_right_types(content):
            raise ValueError(f"{path} is damaged: a value has the wrong type; {_REMEDY}")
        return result


def is_number(value: object) -> bool:
    """Whether a value is a number; true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: object) -> bool:
    """Whether a value is a whole number of at least zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def are_metrics(value: object) -> bool:
    """Whether a value maps names to numbers."""
    return isinstance(value, dict) and all(map(is_number, cast("dict[str, Any]", value).values()))


def _has_right_types(content: Mapping[str, Any]) -> bool:
    optional = {"best_step": is_count, "processor_seconds": is_number}
    return (
        is_count(content["steps"])
        and all(is_number(content[name]) for name in ("seconds", "train_loss"))
        and all(
            isinstance(content[name], dict) and all(map(are_metrics, content[name].values()))
            for name in ("last", "best")
        )
        and all(content.get(n) is None or is_right(content[n]) for n, is_right in optional.items())
        and isinstance(content["best_by"], str | None)
    )
