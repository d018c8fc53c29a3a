"""The operands and the options of the gated recurrence."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from eigenrnn.ops.arguments import NORM_ZONEOUT, check_shapes, schema

__all__ = [
    "FORMS",
    "PLAIN_SCHEMA",
    "SCHEMA",
    "GRUOperands",
    "GRUOptions",
    "check_operand_shapes",
    "form_features",
    "plain_arguments",
    "plain_records",
    "records",
]


class GRUOperands(NamedTuple):
    """The tensors of one call, as `gru` describes them."""

    x: Tensor  # (T, B, 3 N) or (T, B, M)
    W: Tensor  # (3 N, N)
    h0: Tensor  # (B, N)
    bias: Tensor | None = None  # (N,)
    recurrent_bias: Tensor | None = None  # (N,)
    U: Tensor | None = None  # (3 N, M)
    c: Tensor | None = None  # (3 N,)
    gain: Tensor | None = None  # (3 N,)
    shift: Tensor | None = None  # (3 N,)
    mask: Tensor | None = None  # (T, B, N), bool


class GRUOptions(NamedTuple):
    """The options of one call: those of `gru` and, like all recurrences, those of `Options`."""

    nonlinearity: str = "tanh"
    reset_after: bool = True
    update_keeps: bool = True
    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False
    rate: float = 0.0


SCHEMA = schema(GRUOperands, GRUOptions)
"""The arguments of an operator that computes LayerNorm and zoneout."""

PLAIN_SCHEMA = schema(GRUOperands, GRUOptions, without=NORM_ZONEOUT)
"""The arguments of an operator that computes neither."""

FORMS = frozenset({"reset_after=False", "update_keeps=False"})
"""The forms that differ from `torch.nn.GRU`, as features of a backend."""


def form_features(reset_after: bool, update_keeps: bool) -> list[str]:
    """Return the features among `FORMS` that a call uses."""
    form = {"reset_after": reset_after, "update_keeps": update_keeps}
    return [f"{name}=False" for name, flag in form.items() if not flag]


def records(arguments: Sequence[Any]) -> tuple[GRUOperands, GRUOptions]:
    """Return the operands and the options from the arguments of an operator."""
    n, m = len(GRUOperands._fields), len(GRUOptions._fields)
    return GRUOperands(*arguments[:n]), GRUOptions(*arguments[n : n + m])


def plain_records(arguments: Sequence[Any]) -> tuple[GRUOperands, GRUOptions]:
    """Return the operands and the options from arguments with `PLAIN_SCHEMA`."""
    return GRUOperands(*arguments[:7]), GRUOptions(*arguments[7:13])


def plain_arguments(operands: GRUOperands, options: GRUOptions) -> tuple[Any, ...]:
    """Return the arguments with `PLAIN_SCHEMA`."""
    return *operands[:7], *options[:6]


def check_operand_shapes(operands: GRUOperands) -> None:
    """Check the shapes of x, the weights, the biases and the initial state.

    Raises:
        ValueError: If one is wrong.
    """
    x, W, U, c = operands.x, operands.W, operands.U, operands.c
    mapped, last = (U is not None), "M" if U is not None else "3 N"
    if x.dim() != 3 or x.shape[0] < 1 or (not mapped and (x.shape[2] % 3 or not x.shape[2])):
        raise ValueError(f"expected x of shape (T, B, {last}) with T >= 1, got {tuple(x.shape)}")
    if c is not None and U is None:
        raise ValueError("expected c to go with U, got c alone: add it to x")
    (_, B, M), N = x.shape, W.shape[-1] if mapped and W.dim() else x.shape[2] // 3
    shapes = {"W": (3 * N, N), "h0": (B, N), "bias": (N,), "recurrent_bias": (N,)}
    check_shapes(operands, {**shapes, "U": (3 * N, M), "c": (3 * N,)})
