"""How far a run has come, which is part of its checkpoint."""

from dataclasses import dataclass, field

from eigenrnn.train.result import Metrics

__all__ = ["Course"]


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
        best: Those of the best one.
        best_step: The step of the best one.
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
    best: Metrics = field(default_factory=dict)
    best_step: int | None = None
    deciding: list[float] = field(default_factory=list[float])
    plateaus: int = 0
    waited: int = 0
    ended: bool = False
