"""The linear recurrence by definition: its record, in plain differentiable operations."""

import torch
from torch import Tensor

from eigenrnn.ops.dispatch import Backend
from eigenrnn.ops.linear.operands import DTYPES, LinearOperands, LinearOptions, linear_shapes
from eigenrnn.ops.recurrence import Recurrence

__all__ = ["LINEAR", "LinearReference", "linear_reference"]


def linear_reference(
    operands: LinearOperands, options: LinearOptions
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Evaluate the equation of the recurrence one step at a time.

    Autograd records T steps of small operations, so the backward pass is slow and needs much
    memory.
    """
    x, decay, h = operands
    T, B, _ = x.shape
    sizes = options.batch_sizes or [B] * T
    xs = x.unbind()  # indexing would allocate a gradient of the size of x at every step
    decays = [decay.expand_as(h)] * T if decay.dim() == 1 else decay.unbind()
    states: list[Tensor] = []
    for t in reversed(range(T)) if options.reverse else range(T):
        n = sizes[t]
        h_new = decays[t][:n] * h[:n] + xs[t][:n]
        # a finished sequence keeps its state; one that has not begun keeps h0
        h = torch.cat([h_new, h[n:]]) if n < B else h_new
        states.append(torch.cat([h_new, torch.zeros_like(h[n:])]) if n < B else h_new)
    return torch.stack(states[::-1] if options.reverse else states), h


LINEAR = Recurrence(
    "linear",
    operands=LinearOperands,
    options=LinearOptions,
    states=("h0",),
    results=("h", "last"),
    shapes=linear_shapes,
    definition=linear_reference,
)
"""The linear recurrence of independent units."""


class LinearReference(Backend):
    """The definition, one step at a time."""

    name = "reference"
    description = "naive loop, differentiable any number of times"
    dtypes = DTYPES

    def run(self, operands: LinearOperands, options: LinearOptions) -> tuple[Tensor, Tensor]:
        return linear_reference(operands, options)
