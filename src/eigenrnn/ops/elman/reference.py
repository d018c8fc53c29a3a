"""The Elman recurrence by definition: its record, in plain differentiable operations."""

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, pairs_to_complex
from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.arguments import Options, map_inputs
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend
from eigenrnn.ops.elman.operands import ElmanOperands, elman_saved_parts, elman_shapes
from eigenrnn.ops.norm_zoneout import apply_layer_norm, apply_zoneout
from eigenrnn.ops.recurrence import Recurrence
from eigenrnn.ops.time_steps import states_and_last, without_padding

__all__ = ["ELMAN", "ElmanReference", "elman_reference", "elman_step"]


def elman_reference(
    operands: ElmanOperands, options: Options
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    r"""Evaluate :math:`h_t = f(x_t + h_{t-1} W^\top)` one step at a time.

    LayerNorm is applied to the argument of f, and zoneout to its value. Autograd records
    T steps of small operations, so the backward pass is slow and needs much memory.
    """
    x, h, mask = operands.x, operands.h0, operands.mask
    T, B, _ = x.shape
    sizes = options.batch_sizes or [B] * T
    x = without_padding(x, options.batch_sizes)
    # indexing would allocate a gradient of the size of x at every step
    xs = map_inputs(x, operands.U, operands.c).unbind()
    states: list[Tensor] = []
    for t in reversed(range(T)) if options.reverse else range(T):
        n = sizes[t]
        h_new = elman_step(xs[t][:n], h[:n], operands, options)
        h_new = apply_zoneout(h_new, h[:n], mask, options.rate, t)
        # a finished sequence keeps its state; one that has not begun keeps h0
        h = torch.cat([h_new, h[n:]]) if n < B else h_new
        states.append(torch.cat([h_new, torch.zeros_like(h[n:])]) if n < B else h_new)
    steps = torch.stack(states[::-1] if options.reverse else states)
    return states_and_last(steps, options.batch_sizes, options.reverse)


def elman_step(
    x: Tensor,  # (B, N)
    h: Tensor,  # (B, N)
    operands: ElmanOperands,
    options: Options,
) -> Tensor:  # (B, N)
    """Return the state after one time step of mapped inputs, before zoneout."""
    name = options.nonlinearity
    f = _OF_PARTS[name] if name in _OF_PARTS else NONLINEARITIES[name].forward
    z = apply_layer_norm(x + h @ operands.W.T, operands.gain, operands.shift)
    return f(z, operands.bias)


def _modrelu_of_pairs(
    z: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,), each entry twice
) -> Tensor:  # (B, N)
    """Apply modReLU to complex numbers written as pairs of real numbers."""
    if bias is None:
        return z
    complex_z = pairs_to_complex(z)
    modulus = complex_z.abs().repeat_interleave(2, dim=-1)
    return complex_to_pairs(complex_z.sgn()) * torch.relu(modulus + bias)


def _modrelu_of_parts(
    z: Tensor,  # (B, 2 N)
    bias: Tensor | None,  # (N,)
) -> Tensor:  # (B, 2 N)
    """Apply modReLU to complex numbers written as all real parts and then all imaginary parts."""
    if bias is None:
        return z
    real, imaginary = z.chunk(2, dim=-1)
    modulus = (real * real + imaginary * imaginary).sqrt()
    scale = torch.relu(modulus + bias) / torch.where(modulus > 0, modulus, 1)
    return torch.cat([scale * real, scale * imaginary], dim=-1)


_OF_PARTS = {"modrelu_paired": _modrelu_of_pairs, "modrelu_of_parts": _modrelu_of_parts}


def _elman_results(
    operands: ElmanOperands, options: Options
) -> tuple[Tensor, Tensor, Tensor | None]:  # (T, B, N), (B, N), (T, B, K)
    """Return all states, the last states and, with V, the outputs of the head."""
    h, last = elman_reference(operands, options)
    return h, last, None if operands.V is None else F.linear(h, operands.V, operands.d)


ELMAN = Recurrence(
    "elman",
    operands=ElmanOperands,
    options=Options,
    states=("h0",),
    results=("h", "last", "y"),
    shapes=elman_shapes,
    definition=_elman_results,
    saved_parts=elman_saved_parts,
)
"""The Elman recurrence, with a head and without."""


class ElmanReference(Backend):
    """The definition, one step at a time."""

    name = "reference"
    description = "naive loop, differentiable any number of times"
    dtypes = REAL | COMPLEX
    features = frozenset({"layer_norm", "zoneout"})

    def run(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
        return elman_reference(operands, options)
