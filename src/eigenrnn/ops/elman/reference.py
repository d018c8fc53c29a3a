"""The Elman recurrence by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping

import torch
from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, pairs_to_complex
from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.elman.operands import (
    ElmanOperands,
    elman_saved_parts,
)
from eigenrnn.ops.norm_zoneout import apply_layer_norm, apply_zoneout
from eigenrnn.ops.recurrence import Recurrence

__all__ = ["ELMAN"]


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
    saved_parts=elman_saved_parts,
)
"""The Elman recurrence, with a head and without."""
