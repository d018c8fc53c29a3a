"""Losses and gradient norms, kept on the device until somebody must know them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eigenrnn.errors import NonFiniteLossError

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["Entry", "Ledger"]

_SHOWN = 5


@dataclass(frozen=True)
class Entry:
    """What one step measured before the optimisers moved.

    Args:
        step: The number of the step, from one.
        loss: The mean over the whole batch, without the penalty.
        penalty: That of the constraints.
        grad_norm: The norm of the gradient of all parameters together, before clipping.
    """

    step: int
    loss: float
    penalty: float
    grad_norm: float


class Ledger:
    """The entries since the last reading.

    Reading makes the host wait for the device, so it is done once for many steps; a loss that was
    not finite is then still traced to its own step and gradients.

    Args:
        fabric: The processes whose mean loss is meant.
        names: The names of the parameters.
        check_gradients: Whether gradients must be finite too. With a gradient scaler they need not
            be: it leaves out such steps by design.
    """

    def __init__(self, fabric: "Fabric", names: Sequence[str], *, check_gradients: bool) -> None:
        self._fabric = fabric
        self._names = names
        self._check_gradients = check_gradients
        self._steps: list[int] = []
        self._rows: list[Tensor] = []

    def add(self, step: int, loss: Tensor, penalty: Tensor, norms: Sequence[Tensor]) -> None:
        """Note a step, `norms` being those of the parameters' gradients."""
        numbers = [number.detach().to(loss) for number in (loss, penalty, *norms)]
        self._steps.append(step)
        self._rows.append(torch.stack(numbers))

    def read(self, *, stop: bool) -> tuple[list[Entry], bool]:
        """Give the entries since the last reading, and whether any process was asked to stop.

        Raises:
            NonFiniteLossError: If an entry is not finite; names the first such step and its
                largest gradients.
        """
        table = torch.stack(self._rows)  # (steps, 2 + parameters)
        if self._fabric.world_size > 1:
            shared = torch.cat([table[:, 0], table.new_full((1,), float(stop))])
            self._fabric.all_reduce(shared, reduce_op="mean")  # in place
            table[:, 0], stop = shared[:-1], bool(shared[-1] > 0)
        entries: list[Entry] = []
        for step, (loss, penalty, *norms) in zip(self._steps, table.tolist(), strict=True):
            entries.append(Entry(step, loss, penalty, math.hypot(*norms)))
            self._refuse_non_finite(entries[-1], norms)
        self._steps.clear()
        self._rows.clear()
        return entries, stop

    def _refuse_non_finite(self, entry: Entry, norms: list[float]) -> None:
        """Refuse an entry that is not finite.

        Raises:
            NonFiniteLossError: Always, in that case.
        """
        if not math.isfinite(entry.loss):
            culprit = f"the loss of step {entry.step} is {entry.loss}"
        elif self._check_gradients and not math.isfinite(entry.grad_norm):
            culprit = f"a gradient of step {entry.step} is not finite (loss {entry.loss:.4g})"
        else:
            return
        named = zip(norms, self._names, strict=True)
        largest = sorted(named, key=lambda pair: -math.inf if pair[0] != pair[0] else -pair[0])
        listed = ", ".join(f"{name} {norm:.3g}" for norm, name in largest[:_SHOWN])
        raise NonFiniteLossError(f"{culprit}; largest gradient norms: {listed}")
