"""The operands and the options of the linear recurrence."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from eigenrnn.ops.arguments import check_shapes, schema
from eigenrnn.ops.dispatch import COMPLEX, REAL

__all__ = [
    "DTYPES",
    "SCHEMA",
    "LinearOperands",
    "LinearOptions",
    "check_operand_dtypes",
    "check_operand_shapes",
    "records",
]

DTYPES = REAL | COMPLEX
"""The dtypes that the backends in torch operations support."""


class LinearOperands(NamedTuple):
    """The tensors of one call, as `linear` describes them."""

    x: Tensor  # (T, B, N)
    decay: Tensor  # (N,) or (T, B, N)
    h0: Tensor  # (B, N)


class LinearOptions(NamedTuple):
    """The options of one call, as `linear` describes them."""

    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False


SCHEMA = schema(LinearOperands, LinearOptions)
"""The arguments that all operators of this recurrence share."""


def records(arguments: Sequence[Any]) -> tuple[LinearOperands, LinearOptions]:
    """Return the operands and the options from the arguments of an operator."""
    n, m = len(LinearOperands._fields), len(LinearOptions._fields)
    return LinearOperands(*arguments[:n]), LinearOptions(*arguments[n : n + m])


def check_operand_shapes(operands: LinearOperands) -> None:
    """Check the shapes of x, the decay and the initial state.

    Raises:
        ValueError: If one is wrong.
    """
    x, decay, _ = operands
    if x.dim() != 3 or x.shape[0] < 1:
        raise ValueError(f"expected x of shape (T, B, N) with T >= 1, got {tuple(x.shape)}")
    T, B, N = x.shape
    # one comparison: an export with a free T must not ask whether T is N
    if decay.shape != ((N,) if decay.dim() == 1 else (T, B, N)):
        raise ValueError(
            f"expected decay of shape {(N,)} or {(T, B, N)} to go with x, got {tuple(decay.shape)}"
        )
    check_shapes(operands, {"h0": (B, N)})


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
            hint = ": convert both to complex" if tensor.is_complex() != x.is_complex() else ""
            raise TypeError(f"expected {name} of {x.dtype} to go with x, got {tensor.dtype}{hint}")
        if tensor.device != x.device:
            raise ValueError(f"expected {name} on {x.device}, where x is, got {tensor.device}")
