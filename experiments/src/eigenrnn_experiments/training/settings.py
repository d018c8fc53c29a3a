"""The settings of a training run, validated when they are created."""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from eigenrnn_experiments.tasks.base import Task, check_choices

__all__ = [
    "IGNORED_SETTINGS",
    "MAY_CHANGE_ON_RESUME",
    "Accelerator",
    "OptimiserName",
    "Pace",
    "Precision",
    "Schedule",
    "Settings",
]

Accelerator = Literal["auto", "cpu", "cuda", "gpu", "mps"]
OptimiserName = Literal["rmsprop", "rmsprop_tf1", "adam", "adamw", "sgd"]
Schedule = Literal["constant", "linear", "cosine"]
Precision = Literal["32-true", "64-true", "16-true", "bf16-true", "16-mixed", "bf16-mixed"]

IGNORED_SETTINGS = frozenset({"accelerator", "checkpoint_every"})
"""Where a run is trained and how often it is saved; they change its numbers by rounding only."""

MAY_CHANGE_ON_RESUME = IGNORED_SETTINGS | {
    *("steps", "epochs", "eval_every", "eval_batch_size", "log_every")
}
"""The settings that may differ when a run is resumed, for its length if it is not scheduled."""


class Pace(NamedTuple):
    """How long a run is, and when it is evaluated and saved, in steps.

    Args:
        steps: The number of optimiser steps of the whole run.
        per_epoch: The number of steps in an epoch; None for endless data.
        eval_every: The number of steps between evaluations.
        checkpoint_every: The number of steps between checkpoints.
    """

    steps: int
    per_epoch: int | None
    eval_every: int
    checkpoint_every: int


@dataclass(frozen=True)
class Settings:
    """The settings of a training run.

    Args:
        steps: The number of optimiser steps; set either this or `epochs`.
        epochs: The number of passes over a finite training set.
        batch_size: The number of sequences per step.
        optimiser: `rmsprop` (torch's), `rmsprop_tf1` (TensorFlow 1's, whose initialisation acts
            as a warm-up), `adam`, `adamw` (Adam with decoupled weight decay, which `weight_decay`
            sets) or `sgd`.
        lr: The learning rate.
        optimiser_recurrent: The optimiser of the constrained matrices; None means `optimiser`.
        lr_recurrent: The learning rate of the constrained matrices; None means a tenth of `lr`.
        lr_recurrent_of: Uses `optimiser_recurrent` and `lr_recurrent` for the parameters whose
            name contains one of these strings; None means the constrained matrices, if any.
        alpha: The decay of RMSprop's mean square; None means the default of the optimiser (0.99
            for `rmsprop`, 0.9 for `rmsprop_tf1`).
        lr_decay: The factor by which all learning rates are multiplied at each decay.
        lr_decay_at: When the learning rates decay: after every `epoch`, after every evaluation
            without improvement (`plateau`), or after these numbers of epochs.
        lr_schedule: How all learning rates fall after the warm-up: not at all (`constant`), on a
            line to zero (`linear`) or on half a cosine to zero (`cosine`). Decays multiply it.
        warmup_steps: The number of first steps in which all learning rates rise on a line.
        weight_decay: The weight decay of all parameters except the raw parameters of constraints
            and trained leaks.
        weight_decay_of: Applies the weight decay to the parameters whose name contains one of
            these strings instead; never to the constrained matrices.
        rate_penalty: The factor of the mean square of the states of the recurrent layer, the rates
            of the units, in the loss. Only for models with outputs at all steps.
        weight_penalty: The factor of the mean square entries of the input map, of every recurrent
            matrix W and of the head in the loss, one mean for each. Unlike weight decay it acts
            on W itself, whatever its raw parameters.
        clip_norm: The largest norm of the gradient of all parameters together; None disables it.
        clip_value: The largest absolute value of a gradient entry; None disables it.
        best_by: The metric of the task that selects the best model, such as `f1`; None means the
            main one of the task. It also decides what an improvement is for `plateau`, `patience`
            and `average_after`.
        average_after: Starts averaging the parameters, as AWD-LSTM's averaged SGD does, once the
            validation metric is worse than its best value from more than this number of
            evaluations ago. From then on, the average is evaluated and saved. None disables it.
        patience: The run ends after this number of evaluations in a row without improvement; None
            disables it.
        stop_below: The run ends once the validation loss is below this value; None disables it.
            Without a validation set, the test set takes its place, as it does for `plateau`,
            `average_after` and `patience`.
        eval_every: The number of steps between evaluations; None means an epoch, or 100 steps for
            endless data. The last step is always evaluated.
        eval_batch_size: The batch size of evaluations; None means `batch_size`.
        log_every: The number of steps between lines of `metrics.csv`.
        checkpoint_every: The number of steps between checkpoints; None means `eval_every`.
        seed: The seed of the batches and of dropout. `eigenrnn train` and the recipes also
            initialise the model from it.
        precision: The precision of the computation, by Lightning Fabric's name; `16-mixed` and
            `bf16-mixed` use autocast.
        accelerator: The device to train on; `auto` chooses a GPU if there is one.

    Raises:
        ValueError: If a setting is out of range.
    """

    steps: int | None = None
    epochs: int | None = None
    batch_size: int = 20
    optimiser: OptimiserName = "rmsprop"
    lr: float = 1e-3
    optimiser_recurrent: OptimiserName | None = None
    lr_recurrent: float | None = None
    lr_recurrent_of: tuple[str, ...] | None = None
    alpha: float | None = None
    lr_decay: float = 1.0
    lr_decay_at: Literal["epoch", "plateau"] | tuple[int, ...] = ()
    lr_schedule: Schedule = "constant"
    warmup_steps: int = 0
    weight_decay: float = 0.0
    weight_decay_of: tuple[str, ...] | None = None
    rate_penalty: float = 0.0
    weight_penalty: float = 0.0
    clip_norm: float | None = None
    clip_value: float | None = None
    best_by: str | None = None
    average_after: int | None = None
    patience: int | None = None
    stop_below: float | None = None
    eval_every: int | None = None
    eval_batch_size: int | None = None
    log_every: int = 10
    checkpoint_every: int | None = None
    seed: int = 0
    precision: Precision = "32-true"
    accelerator: Accelerator = "auto"

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            got = f", not both; got {self.steps} and {self.epochs}"
            if self.steps is None:
                got = ", got neither"
            raise ValueError(
                f"expected steps or epochs{got}; say how long to train, such as steps=1000 "
                "(on the command line: --steps 1000)"
            )
        kinds: dict[str, Any] = {
            "optimiser": OptimiserName,
            "lr_schedule": Schedule,
            "precision": Precision,
            "accelerator": Accelerator,
        }
        if self.optimiser_recurrent is not None:
            kinds["optimiser_recurrent"] = OptimiserName
        if isinstance(self.lr_decay_at, str):
            kinds["lr_decay_at"] = Literal["epoch", "plateau"]
        check_choices(self, **kinds)
        self._check_decay()
        for name in ("lr_recurrent_of", "weight_decay_of"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"expected {name} as a tuple, got {getattr(self, name)!r}")
        counts = "steps epochs batch_size eval_every eval_batch_size log_every checkpoint_every"
        for name in (*counts.split(), "average_after", "patience"):
            number = getattr(self, name)
            if number is not None and (not _is_whole(number) or number < 1):
                raise ValueError(f"expected {name} to be a whole number >= 1, got {number!r}")
        if self.warmup_steps < 0 or self.warmup_steps % 1:  # unlike the counts above, it may be 0
            raise ValueError(
                f"expected warmup_steps to be a whole number >= 0, got {self.warmup_steps!r}"
            )
        seed: object = self.seed
        if not _is_whole(seed) or not 0 <= self.seed < 2**63:
            raise ValueError(
                f"expected seed to be a whole number from 0 to 2^63 - 1, got {seed!r}"
            )
        rates = ("lr", "lr_recurrent", "weight_decay")
        penalties = ("rate_penalty", "weight_penalty")
        for name in (*rates, *penalties, "clip_norm", "clip_value", "stop_below"):
            number = getattr(self, name)
            is_number = not isinstance(number, bool) and isinstance(
                number, int | float | np.number
            )
            if number is not None and not (is_number and 0 <= number < math.inf):
                raise ValueError(f"expected a finite {name} >= 0, got {number!r}")
        for name in ("clip_norm", "clip_value"):
            if getattr(self, name) == 0:
                raise ValueError(f"expected {name} > 0, or None to disable clipping, got 0")
        if self.alpha is not None and not 0 <= self.alpha < 1:
            raise ValueError(f"expected 0 <= alpha < 1, got {self.alpha}")
        recurrent_optimiser, _ = self.recurrent
        has_alpha = {"rmsprop", "rmsprop_tf1"} & {self.optimiser, recurrent_optimiser}
        if self.alpha is not None and not has_alpha:
            raise ValueError(
                f"expected alpha only with rmsprop or rmsprop_tf1, got {self.optimiser!r}"
            )

    def _check_decay(self) -> None:
        """Check when the learning rate falls, and by how much.

        Raises:
            ValueError: If it cannot be so.
        """
        at: Any = self.lr_decay_at
        if not 0 < self.lr_decay <= 1:
            raise ValueError(f"expected 0 < lr_decay <= 1, got {self.lr_decay}")
        if isinstance(at, str):
            return
        is_sequence = isinstance(at, list | tuple)
        if not is_sequence or not all(map(_is_whole, at)) or sorted({0, *at}) != [0, *at]:
            raise ValueError(
                "expected lr_decay_at to be 'epoch', 'plateau' or numbers of epochs, each larger "
                f"than the one before, got {at!r}"
            )
        if self.lr_decay < 1 and not at:
            raise ValueError(f"expected lr_decay_at with lr_decay={self.lr_decay}, got none")

    def batch_size_of(self, split: str) -> int:
        """Return the batch size of the steps on `train`, or of the evaluations of another set."""
        if split == "train":
            return self.batch_size
        return self.eval_batch_size or self.batch_size

    @property
    def recurrent(self) -> tuple[OptimiserName, float]:
        """The optimiser and the learning rate of the constrained matrices."""
        optimiser = self.optimiser_recurrent or self.optimiser
        if self.lr_recurrent is None:
            return optimiser, self.lr / 10
        return optimiser, self.lr_recurrent

    def pace(self, task: Task) -> Pace:
        """Return the length of the run of a task, and when it is evaluated and saved.

        Raises:
            ValueError: If `epochs` is set, or the learning rate falls after some, for a task with
                endless data, or the warm-up is as long as the run.
        """
        per_epoch = task.steps_per_epoch(self.batch_size)
        steps = self.steps or 0
        if self.epochs is not None:
            if per_epoch is None:
                raise ValueError(f"expected steps, got epochs: {task} generates data without end")
            steps = self.epochs * per_epoch
        if per_epoch is None and self.lr_decay < 1 and self.lr_decay_at != "plateau":
            raise ValueError(
                f"expected lr_decay_at='plateau', got {self.lr_decay_at!r}: {task} generates data "
                "without end, which has no epochs"
            )
        if self.warmup_steps >= steps:
            raise ValueError(
                f"expected warmup_steps < {steps}, the steps of the run, got {self.warmup_steps}"
            )
        eval_every = self.eval_every or per_epoch or 100
        return Pace(steps, per_epoch, eval_every, self.checkpoint_every or eval_every)


def _is_whole(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | np.integer)
