"""Losses and gradient norms, kept on the device until the host needs them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from eigenrnn_experiments.errors import NonFiniteLossError

__all__ = ["DeferredMetrics", "StepMetrics"]

_MAX_LISTED = 5  # gradient norms in a message


@dataclass(frozen=True)
class StepMetrics:
    """The metrics of one training step, before the optimiser update.

    Args:
        step: The number of the step, from one.
        loss: The mean loss over the whole batch, without the penalty.
        penalty: The penalty of the constraints.
        grad_norm: The norm of the gradient of all parameters together, before clipping.
    """

    step: int
    loss: float
    penalty: float
    grad_norm: float


class DeferredMetrics:
    """The metrics of the steps since the last read.

    Reading makes the host wait for the device, so it is done once for many steps. An error still
    names the step whose loss was not finite, and the gradients of that step.

    Args:
        names: The names of the parameters.
        check_gradients: Whether gradients must be finite too. A gradient scaler skips steps with
            non-finite gradients by design, so they are then not checked.
    """

    def __init__(self, names: Sequence[str], *, check_gradients: bool) -> None:
        self._names = names
        self._check_gradients = check_gradients
        self._steps: list[int] = []
        self._rows: list[Tensor] = []

    def add(self, step: int, loss: Tensor, penalty: Tensor, norms: Sequence[Tensor]) -> None:
        """Record a step; `norms` are the gradient norms of the parameters."""
        like = loss
        if norms:  # which are in double precision
            like = norms[0]
        numbers = [number.detach().to(like) for number in (loss, penalty, *norms)]
        self._steps.append(step)
        self._rows.append(torch.stack(numbers))

    def read(self) -> list[StepMetrics]:
        """Return the metrics since the last read.

        Raises:
            NonFiniteLossError: If a number is not finite; the message names the first such step
                and its largest gradient norms.
        """
        table = torch.stack(self._rows)  # (steps, 2 + parameters)
        metrics: list[StepMetrics] = []
        for step, (loss, penalty, *norms) in zip(self._steps, table.tolist(), strict=True):
            metrics.append(StepMetrics(step, loss, penalty, math.hypot(*norms)))
            self._check_finite(metrics[-1], norms)
        self._steps.clear()
        self._rows.clear()
        return metrics

    def _check_finite(self, metrics: StepMetrics, norms: list[float]) -> None:
        """Check the loss and, unless a gradient scaler is used, the gradients.

        Raises:
            NonFiniteLossError: If one of them is not finite.
        """
        if not math.isfinite(metrics.loss):
            cause = f"the loss of step {metrics.step} is {metrics.loss}"
        elif self._check_gradients and not math.isfinite(metrics.grad_norm):
            cause = f"a gradient of step {metrics.step} is not finite (loss {metrics.loss:.4g})"
        else:
            return

        def size(named: tuple[float, str]) -> float:
            norm, _ = named
            if math.isnan(norm):  # it comes first, because it may be the cause
                return math.inf
            return norm

        # a stable sort, so equal norms keep the order of the parameters
        largest = sorted(zip(norms, self._names, strict=True), key=size, reverse=True)
        listed = ", ".join(f"{name} {norm:.3g}" for norm, name in largest[:_MAX_LISTED])
        raise NonFiniteLossError(f"{cause}; largest gradient norms: {listed}")
