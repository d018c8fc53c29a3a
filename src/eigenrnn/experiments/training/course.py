"""How far a run has come, which is part of its checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

from eigenrnn.experiments.training import checkpoint
from eigenrnn.experiments.training.result import Metrics

__all__ = ["Best", "Course"]


@dataclass(frozen=True)
class Best:
    """The best evaluation so far and its model: a part of the checkpoint, and all of `best.pt`.

    Args:
        step: The step after which it was made.
        metrics: Loss and metric of each split.
        model: The state of the model.
    """

    step: int
    metrics: Metrics
    model: Mapping[str, Any]

    @classmethod
    def of_state(cls, state: Mapping[str, Any] | None) -> Self | None:
        """Read it from a checkpoint.

        Raises:
            KeyError: If it lacks a part.
        """
        if state is None:
            return None
        return cls(state["step"], state["metrics"], state["model"])

    def write(self, path: Path) -> None:
        """Write it as a checkpoint of its own.

        Raises:
            WriteError: If it cannot be written.
        """
        checkpoint.save(path, vars(self))


@dataclass
class Course:
    """How far a run has come.

    Args:
        step: The number of steps taken.
        seconds: What they and the evaluations took by the clock.
        processor_seconds: What all threads of this process computed for it; None if a checkpoint
            of an earlier version does not know.
        train_loss: The loss of the last step.
        losses: The sum of the losses since the last row of the journal, and their number.
        last: The figures of the last evaluation.
        deciding: The deciding metric of every evaluation, the higher the better.
        plateaus: How many evaluations were no better than the best before.
        waited: How many have been so since the best.
        ended: Whether the run has ended before its last step, as it was told to.
    """

    step: int = 0
    seconds: float = 0.0
    processor_seconds: float | None = None
    train_loss: float = float("nan")
    losses: tuple[float, int] = (0.0, 0)
    last: Metrics = field(default_factory=dict)
    deciding: list[float] = field(default_factory=list[float])
    plateaus: int = 0
    waited: int = 0
    ended: bool = False

    @classmethod
    def of_state(cls, state: Mapping[str, Any]) -> Self:
        """Read it from a checkpoint; what an earlier version did not know stays unknown.

        Raises:
            KeyError: If it has no number of steps.
        """
        names = {f.name for f in fields(cls)}
        known = {name: value for name, value in state.items() if name in names}
        return cls(**{**known, "step": state["step"]})
