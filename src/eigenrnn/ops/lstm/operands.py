"""The operands and the options of the LSTM."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from eigenrnn.ops.arguments import check_shapes, schema

__all__ = ["SCHEMA", "LSTMOperands", "LSTMOptions", "check_operand_shapes", "records"]


class LSTMOperands(NamedTuple):
    """The tensors of one call, as `lstm` describes them."""

    x: Tensor  # (T, B, 4 N) or (T, B, M)
    W: Tensor  # (4 N, N)
    h0: Tensor  # (B, N)
    c0: Tensor  # (B, N)
    U: Tensor | None = None  # (4 N, M)
    c: Tensor | None = None  # (4 N,)


class LSTMOptions(NamedTuple):
    """The options of one call, as `lstm` describes them."""

    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False


SCHEMA = schema(LSTMOperands, LSTMOptions)
"""The arguments that all operators of this recurrence share."""


def records(arguments: Sequence[Any]) -> tuple[LSTMOperands, LSTMOptions]:
    """Return the operands and the options from the arguments of an operator."""
    n, m = len(LSTMOperands._fields), len(LSTMOptions._fields)
    return LSTMOperands(*arguments[:n]), LSTMOptions(*arguments[n : n + m])


def check_operand_shapes(operands: LSTMOperands) -> None:
    """Check the shapes of x, the weights, the bias and the initial states.

    Raises:
        ValueError: If one is wrong.
    """
    x, W, U, c = operands.x, operands.W, operands.U, operands.c
    mapped, last = (U is not None), "M" if U is not None else "4 N"
    if x.dim() != 3 or x.shape[0] < 1 or (not mapped and (x.shape[2] % 4 or not x.shape[2])):
        raise ValueError(f"expected x of shape (T, B, {last}) with T >= 1, got {tuple(x.shape)}")
    if c is not None and U is None:
        raise ValueError("expected c to go with U, got c alone: add it to x")
    (_, B, M), N = x.shape, W.shape[-1] if mapped and W.dim() else x.shape[2] // 4
    shapes = {"W": (4 * N, N), "h0": (B, N), "c0": (B, N)}
    check_shapes(operands, {**shapes, "U": (4 * N, M), "c": (4 * N,)})
