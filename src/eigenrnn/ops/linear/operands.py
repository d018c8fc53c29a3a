"""The operands and the options of the linear recurrence."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from eigenrnn.ops.dispatch import COMPLEX, REAL
from eigenrnn.ops.recurrence import Shape

__all__ = [
    "DTYPES",
    "LinearOperands",
    "LinearOptions",
    "linear_shapes",
]

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


def linear_shapes(operands: LinearOperands) -> dict[str, Shape]:
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
