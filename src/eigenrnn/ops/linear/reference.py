"""The linear recurrence by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping

from torch import Tensor

from eigenrnn.ops.linear.operands import LinearOperands, LinearOptions, linear_shapes
from eigenrnn.ops.recurrence import Recurrence

__all__ = ["LINEAR"]


def _step(
    states: Mapping[str, Tensor],  # (B, N)
    now: Mapping[str, Tensor],  # each (B, N)
    operands: LinearOperands,
    _options: LinearOptions,
) -> tuple[Tensor, dict[str, Tensor]]:  # (B, N)
    """Evaluate the equation of the recurrence; a decay may be the same at every step."""
    h = now.get("decay", operands.decay) * states["h0"] + now["x"]
    return h, {"h0": h}


LINEAR = Recurrence(
    "linear",
    operands=LinearOperands,
    options=LinearOptions,
    states=("h0",),
    results=("h", "last"),
    own_shapes=linear_shapes,
    step=_step,
    features=frozenset({"resets"}),
    products=lambda _operands, _options: [],  # each unit scales its own state
)
"""The linear recurrence of independent units."""
