"""How the learning rates fall in the course of a run."""

from bisect import bisect_right
from typing import Literal

from eigenrnn.experiments.training.settings import Settings

__all__ = ["lr_decay"]


def lr_decay(settings: Settings, *, step: int, per_epoch: int | None, plateaus: int) -> float:
    """Return what the learning rates of a step are multiplied with.

    Args:
        settings: The factor and when it applies.
        step: The number of the step, from one.
        per_epoch: The number of steps in an epoch; None for endless data.
        plateaus: The number of evaluations so far that were no better than the best before.
    """
    when: Literal["epoch", "plateau"] | tuple[int, ...] = settings.lr_decay_at
    if when == "plateau":
        return settings.lr_decay**plateaus
    epochs = (step - 1) // per_epoch if per_epoch else 0
    return settings.lr_decay ** (epochs if when == "epoch" else bisect_right(when, epochs))
