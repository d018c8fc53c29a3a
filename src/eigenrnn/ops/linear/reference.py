"""The linear recurrence by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from torch import Tensor

from eigenrnn.ops.dispatch import COMPLEX, REAL
from eigenrnn.ops.recurrence import Recurrence, Shape

__all__ = ["DTYPES", "LINEAR", "LinearOperands", "LinearOptions"]


DTYPES = REAL | COMPLEX
"""The dtypes that the backends in torch operations support."""


class LinearOperands(NamedTuple):
    """The tensors of one call, as `linear` describes them."""

    x: Tensor  # (T, B, N)
    decay: Tensor  # (N,) or (T, B, N)
    h0: Tensor  # (B, N)
    resets: Tensor | None = None  # (T, B), bool


class LinearOptions(NamedTuple):
    """The options of one call, as `linear` describes them."""

    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False


def _shapes(operands: LinearOperands) -> dict[str, Shape]:
    """Return the shape of each operand.

    Raises:
        ValueError: If x is no sequence of inputs.
    """
    x = operands.x
    decay = operands.decay
    if x.dim() != 3 or x.shape[0] < 1:
        raise ValueError(f"expected x of shape (T, B, N) with T >= 1, got {tuple(x.shape)}")
    T, B, N = x.shape
    shapes: dict[str, Shape] = {
        "x": (T, B, N),
        "decay": (T, B, N),
        "h0": (B, N),
        "resets": (T, B),
    }
    if decay.dim() == 1:  # the same at every step
        shapes["decay"] = (N,)
    return shapes


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
    own_shapes=_shapes,
    step=_step,
    features=frozenset({"resets"}),
    products=lambda _operands, _options: [],  # each unit scales its own state
)
"""The linear recurrence of independent units."""
