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
    "check_decay",
    "check_operand_dtypes",
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


def check_decay(operands: LinearOperands) -> None:
    """Check the shape of the decay, which is one of two.

    Raises:
        ValueError: If it is neither.
    """
    decay = operands.decay
    expected = linear_shapes(operands)["decay"]
    # one comparison: an export with a free T must not ask whether T is N
    if decay.shape != expected:
        T, B, N = operands.x.shape
        raise ValueError(
            f"expected decay of shape {(N,)} or {(T, B, N)} to go with x, got {tuple(decay.shape)}"
        )


def check_operand_dtypes(operands: LinearOperands) -> None:
    """Check that all operands have one dtype and one device.

    Raises:
        TypeError: If no backend supports the dtype of x, or another one differs from it.
        ValueError: If the tensors are on several devices.
    """
    x = operands.x
    if x.dtype not in DTYPES:
        names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in DTYPES))
        raise TypeError(f"expected x of one of the types {names}, got {x.dtype}")
    for name in ("decay", "h0"):
        tensor: Tensor = getattr(operands, name)
        if tensor.dtype != x.dtype:
            message = f"expected {name} of {x.dtype} to go with x, got {tensor.dtype}"
            if tensor.is_complex() != x.is_complex():
                message += ": convert both to complex"
            raise TypeError(message)
        if tensor.device != x.device:
            raise ValueError(f"expected {name} on {x.device}, where x is, got {tensor.device}")
