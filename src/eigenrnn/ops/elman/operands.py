"""The operands of the Elman recurrence."""

from typing import Annotated, NamedTuple

from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, real_matrix_of_complex
from eigenrnn.ops.arguments import Options

__all__ = ["ElmanOperands", "as_pairs", "elman_saved_parts"]


class ElmanOperands(NamedTuple):
    """The tensors of one call, as `elman` describes them."""

    x: Annotated[Tensor, "T", "B", "M"]  # without U they are mapped: (T, B, N)
    W: Annotated[Tensor, "N", "N"]
    h0: Annotated[Tensor, "B", "N"]
    bias: Annotated[Tensor | None, "N"] = None  # real
    U: Annotated[Tensor | None, "N", "M"] = None
    c: Annotated[Tensor | None, "N"] = None
    V: Annotated[Tensor | None, "K", "N"] = None
    d: Annotated[Tensor | None, "K"] = None
    gain: Annotated[Tensor | None, "N"] = None
    shift: Annotated[Tensor | None, "N"] = None
    mask: Annotated[Tensor | None, "T", "B", "N"] = None  # bool
    leak: Annotated[Tensor | None, "N"] = None  # or (T, B, N)
    v0: Annotated[Tensor | None, "B", "N"] = None  # of mixing arguments of f; h0 is f(v0)
    resets: Annotated[Tensor | None, "T", "B"] = None  # bool


def elman_saved_parts(operands: ElmanOperands, options: Options) -> list[str]:
    """Return what the kernels save of each unit: parts of the argument of f, and its value."""
    parts: list[str] = []
    if operands.gain is not None:
        parts.append("normed")
    if operands.v0 is not None:
        parts.append("change")
    elif options.rate or operands.leak is not None:
        parts.append("value")
    return parts


def as_pairs(operands: ElmanOperands, options: Options) -> tuple[ElmanOperands, Options]:
    """Write complex operands as real ones: each complex number becomes a pair of real numbers."""
    x = operands.x
    input_map = operands.U  # (N, M), then (2 N, M) or (2 N, 2 M)
    if input_map is not None and x.is_complex():
        input_map = real_matrix_of_complex(input_map)
    elif input_map is not None:  # a real input enters each pair by one product for each number
        input_map = complex_to_pairs(input_map.T).T
    if x.is_complex():
        x = complex_to_pairs(x)
    c = operands.c
    if c is not None:
        c = complex_to_pairs(c)
    # f of a pair has one bias and one mask for both of its numbers
    bias = operands.bias
    if bias is not None:
        bias = bias.repeat_interleave(2)
    mask = operands.mask
    if mask is not None:
        mask = mask.repeat_interleave(2, dim=2)
    pairs = ElmanOperands(
        x=x,
        W=real_matrix_of_complex(operands.W),
        h0=complex_to_pairs(operands.h0),
        bias=bias,
        U=input_map,
        c=c,
        mask=mask,
        resets=operands.resets,
    )
    if options.nonlinearity == "modrelu" and bias is not None:
        options = options._replace(nonlinearity="modrelu_paired")
    return pairs, options
