"""The Elman recurrence by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, pairs_to_complex, real_matrix_of_complex
from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.norm_zoneout import apply_layer_norm, apply_zoneout
from eigenrnn.ops.recurrence import Recurrence

__all__ = ["ELMAN", "ElmanOperands", "as_pairs"]


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


def _saved_parts(operands: ElmanOperands, options: Options) -> list[str]:
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


def _step(
    states: Mapping[str, Tensor],  # each (B, N)
    now: Mapping[str, Tensor],  # each (B, N)
    operands: ElmanOperands,
    options: Options,
) -> tuple[Tensor, dict[str, Tensor]]:  # (B, N)
    r"""Return :math:`f(x_t + h_{t-1} W^\top)` of mapped inputs.

    LayerNorm is applied to the argument of f, and zoneout to its value. A leak mixes the values
    of f or, with v0, their arguments.
    """
    h = states["h0"]
    name = options.nonlinearity
    if name in _OF_PARTS:
        f = _OF_PARTS[name]
    else:
        f = NONLINEARITIES[name].forward
    z = apply_layer_norm(now["x"] + h @ operands.W.T, operands.gain, operands.shift)
    leak = now.get("leak", operands.leak)
    if leak is not None and "v0" in states:
        v = (1 - leak) * states["v0"] + leak * z
        h = f(v, operands.bias)
        return h, {"h0": h, "v0": v}
    h_new = f(z, operands.bias)
    if leak is not None:
        h = (1 - leak) * h + leak * h_new
    else:
        h = apply_zoneout(h_new, h, now.get("mask"), options.rate)
    return h, {"h0": h}


def _modrelu_of_pairs(
    z: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,), each entry twice
) -> Tensor:  # (B, N)
    """Apply modReLU to complex numbers written as pairs of real numbers."""
    if bias is None:
        return z
    complex_z = pairs_to_complex(z)
    is_zero = complex_z == 0
    complex_z = complex_z.masked_fill(is_zero, 1)  # as in `modrelu`
    modulus = complex_z.abs().repeat_interleave(2, dim=-1)
    h = complex_to_pairs(complex_z.sgn()) * torch.relu(modulus + bias)
    return h.masked_fill(is_zero.repeat_interleave(2, dim=-1), 0)


def _modrelu_of_parts(
    z: Tensor,  # (B, 2 N)
    bias: Tensor | None,  # (N,)
) -> Tensor:  # (B, 2 N)
    """Apply modReLU to complex numbers written as all real parts and then all imaginary parts."""
    if bias is None:
        return z
    real, imaginary = z.chunk(2, dim=-1)
    square = real * real + imaginary * imaginary
    is_zero = square == 0
    # the root has no derivative at zero
    modulus = square.masked_fill(is_zero, 1).sqrt()
    scale = (torch.relu(modulus + bias) / modulus).masked_fill(is_zero, 0)
    return torch.cat([scale * real, scale * imaginary], dim=-1)


# complex numbers as real ones: in pairs for the kernels, in two halves for exports
_OF_PARTS = {"modrelu_paired": _modrelu_of_pairs, "modrelu_of_parts": _modrelu_of_parts}


ELMAN = Recurrence(
    "elman",
    operands=ElmanOperands,
    options=Options,
    states=("h0",),
    results=("h", "last", "y"),
    step=_step,
    argument="v0",
    features=frozenset({"layer_norm", "zoneout", "leak", "current", "resets"}),
    saved_parts=_saved_parts,
)
"""The Elman recurrence, with a head and without."""
