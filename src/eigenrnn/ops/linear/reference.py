"""The linear recurrence by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping

from torch import Tensor

from eigenrnn.ops.dispatch import Backend
from eigenrnn.ops.linear.operands import DTYPES, LinearOperands, LinearOptions, linear_shapes
from eigenrnn.ops.recurrence import Recurrence
from eigenrnn.ops.time_steps import run_steps

__all__ = ["LINEAR", "LinearReference", "linear_reference"]


def linear_reference(
    operands: LinearOperands, options: LinearOptions
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Evaluate the equation of the recurrence one step at a time.

    Autograd records T steps of small operations, so the backward pass is slow and needs much
    memory.
    """
    decay = operands.decay
    inputs = {"x": operands.x}
    if operands.resets is not None:
        inputs["resets"] = operands.resets
    if decay.dim() == 3:
        inputs["decay"] = decay
    else:
        operands = operands._replace(decay=decay.expand_as(operands.h0))
    h, last = run_steps(
        linear_step,
        {"h0": operands.h0},
        inputs,
        operands,
        options.batch_sizes,
        options.reverse,
    )
    return h, last["h0"]


def linear_step(
    states: Mapping[str, Tensor],  # (B, N)
    now: Mapping[str, Tensor],  # each (B, N)
    operands: LinearOperands,
) -> dict[str, Tensor]:  # (B, N)
    """Return the state after one time step; a decay without time is an operand, (B, N)."""
    x = now["x"]
    h = states["h0"]
    if "decay" in now:
        decay = now["decay"]
    else:  # the same at every step; the longest sequences are the first rows
        decay = operands.decay[: len(h)]
    return {"h0": decay * h + x}


LINEAR = Recurrence(
    "linear",
    operands=LinearOperands,
    options=LinearOptions,
    states=("h0",),
    results=("h", "last"),
    shapes=linear_shapes,
    definition=linear_reference,
    products=lambda _operands, _options: [],  # each unit scales its own state
)
"""The linear recurrence of independent units."""


class LinearReference(Backend):
    """The definition, one step at a time."""

    name = "reference"
    description = "naive loop, differentiable any number of times"
    dtypes = DTYPES
    features = frozenset({"resets"})

    def run(self, operands: LinearOperands, options: LinearOptions) -> tuple[Tensor, Tensor]:
        return linear_reference(operands, options)
