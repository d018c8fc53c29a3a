"""The operands of the Elman recurrence."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, real_matrix_of_complex
from eigenrnn.ops.arguments import NORM_ZONEOUT, Options, check_shapes, schema

__all__ = [
    "PLAIN_SCHEMA",
    "SCHEMA",
    "ElmanOperands",
    "as_pairs",
    "check_operand_shapes",
    "plain_arguments",
    "plain_records",
    "records",
]


class ElmanOperands(NamedTuple):
    """The tensors of one call, as `elman` describes them."""

    x: Tensor  # (T, B, N) or (T, B, M)
    W: Tensor  # (N, N)
    h0: Tensor  # (B, N)
    bias: Tensor | None = None  # (N,), real
    U: Tensor | None = None  # (N, M)
    c: Tensor | None = None  # (N,)
    V: Tensor | None = None  # (K, N)
    d: Tensor | None = None  # (K,)
    gain: Tensor | None = None  # (N,)
    shift: Tensor | None = None  # (N,)
    mask: Tensor | None = None  # (T, B, N), bool


SCHEMA = schema(ElmanOperands, Options)
"""The arguments of an operator that computes LayerNorm and zoneout."""

PLAIN_SCHEMA = schema(ElmanOperands, Options, without=NORM_ZONEOUT)
"""The arguments of an operator that computes neither."""


def records(arguments: Sequence[Any]) -> tuple[ElmanOperands, Options]:
    """Return the operands and the options from the arguments of an operator."""
    n, m = len(ElmanOperands._fields), len(Options._fields)
    return ElmanOperands(*arguments[:n]), Options(*arguments[n : n + m])


def plain_records(arguments: Sequence[Any]) -> tuple[ElmanOperands, Options]:
    """Return the operands and the options from arguments with `PLAIN_SCHEMA`."""
    return ElmanOperands(*arguments[:8]), Options(*arguments[8:12])


def plain_arguments(operands: ElmanOperands, options: Options) -> tuple[Any, ...]:
    """Return the arguments with `PLAIN_SCHEMA`."""
    return *operands[:8], *options[:4]


def check_operand_shapes(operands: ElmanOperands) -> None:
    """Check the shapes of x, the weights, the biases and the initial state.

    Raises:
        ValueError: If one is wrong.
    """
    x, W, _, _, U, c, V, d, *_ = operands
    if x.dim() != 3 or x.shape[0] < 1:
        raise ValueError(f"expected x of shape (T, B, N) with T >= 1, got {tuple(x.shape)}")
    for name, one, other, bias_of in (("c", c, "U", U), ("d", d, "V", V)):
        if one is not None and bias_of is None:
            raise ValueError(f"expected {name} to go with {other}, got {name} alone")
    (_, B, M), N = x.shape, W.shape[-1] if U is not None and W.dim() else x.shape[2]
    K = V.shape[0] if V is not None and V.dim() else 1
    shapes = {"W": (N, N), "h0": (B, N), "bias": (N,), "U": (N, M), "c": (N,), "V": (K, N)}
    check_shapes(operands, {**shapes, "d": (K,)})


def as_pairs(operands: ElmanOperands, options: Options) -> tuple[ElmanOperands, Options]:
    """Write complex operands as real ones: each complex number becomes a pair of real numbers."""
    x, W, h0, bias, U, c, *_ = operands
    pairs = ElmanOperands(
        complex_to_pairs(x) if x.is_complex() else x,
        real_matrix_of_complex(W),
        complex_to_pairs(h0),
        None if bias is None else bias.repeat_interleave(2),
        None if U is None else _map_of_pairs(U, x),
        None if c is None else complex_to_pairs(c),
        mask=None if operands.mask is None else operands.mask.repeat_interleave(2, dim=2),
    )
    if options.nonlinearity == "modrelu" and bias is not None:
        options = options._replace(nonlinearity="modrelu_paired")
    return pairs, options


def _map_of_pairs(U: Tensor, x: Tensor) -> Tensor:  # (2N, M) or (2N, 2M)
    """Return a complex map of real or complex inputs as a real matrix."""
    return real_matrix_of_complex(U) if x.is_complex() else complex_to_pairs(U.T).T
