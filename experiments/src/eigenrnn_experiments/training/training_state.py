"""The progress of a run, as stored in its checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from eigenrnn_experiments.training.run import Metrics

__all__ = ["BestModel", "TrainingState"]


@dataclass(frozen=True)
class BestModel:
    """The best evaluation so far and its model: part of the checkpoint, and all of `best.pt`.

    Args:
        step: The number of steps taken before the evaluation.
        metrics: The loss and the metric of each split.
        model: The `state_dict` of the model.
    """

    step: int
    metrics: Metrics
    model: Mapping[str, Any]

    @classmethod
    def from_checkpoint(cls, state: Mapping[str, Any] | None) -> Self | None:
        """Build it from the entry of a checkpoint.

        Raises:
            KeyError: If a part is missing.
        """
        if state is None:
            return None
        return cls(state["step"], state["metrics"], state["model"])


@dataclass
class TrainingState:
    """The counters and metrics of a run; the field names are the keys in its checkpoint.

    Args:
        step: The number of steps taken.
        seconds: The wall-clock time of these steps and of the evaluations.
        processor_seconds: The processor time of all threads of this process.
        train_loss: The loss of the last step.
        losses: The sum and the number of losses since the last row of `metrics.csv`.
        last: The metrics of the last evaluation.
        deciding: The selection metric at every evaluation, negated if lower is better.
        plateaus: The number of evaluations without improvement.
        waited: The number of evaluations since the best one.
        ended: Whether early stopping ended the run before its last step.
    """

    step: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    train_loss: float = float("nan")
    losses: tuple[float, int] = (0.0, 0)
    last: Metrics = field(default_factory=dict)
    deciding: list[float] = field(default_factory=list[float])
    plateaus: int = 0
    waited: int = 0
    ended: bool = False

    @classmethod
    def from_checkpoint(cls, state: Mapping[str, Any]) -> Self:
        """Build it from the entry of a checkpoint.

        Raises:
            KeyError: If a field is missing.
        """
        return cls(**{f.name: state[f.name] for f in fields(cls)})
