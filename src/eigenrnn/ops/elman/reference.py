"""The reference implementation of the Elman recurrence, in plain differentiable operations."""

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, pairs_to_complex
from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.arguments import Options, map_inputs
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend
from eigenrnn.ops.elman.operands import ElmanOperands
from eigenrnn.ops.norm_zoneout import apply_layer_norm, apply_zoneout
from eigenrnn.ops.time_steps import states_and_last

__all__ = ["ElmanReference", "elman_reference", "elman_results"]


def elman_reference(
    operands: ElmanOperands, options: Options
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    r"""Evaluate :math:`h_t = f(x_t + h_{t-1} W^\top)` one step at a time.

    LayerNorm is applied to the argument of f, and zoneout to its value. Autograd records
    T steps of small operations, so the backward pass is slow and needs much memory.
    """
    x, W, h, bias, U, c, _, _, gain, shift, mask = operands
    name = options.nonlinearity
    f = _modrelu_of_pairs if name == "modrelu_paired" else NONLINEARITIES[name].forward
    T, B, _ = x.shape
    sizes = options.batch_sizes or [B] * T
    # indexing would allocate a gradient of the size of x at every step
    xs = map_inputs(x, U, c).unbind()
    states: list[Tensor] = []
    for t in reversed(range(T)) if options.reverse else range(T):
        n = sizes[t]
        h_new = f(apply_layer_norm(xs[t][:n] + h[:n] @ W.T, gain, shift), bias)
        h_new = apply_zoneout(h_new, h[:n], mask, options.rate, t)
        # a finished sequence keeps its state; one that has not begun keeps h0
        h = torch.cat([h_new, h[n:]]) if n < B else h_new
        states.append(torch.cat([h_new, torch.zeros_like(h[n:])]) if n < B else h_new)
    steps = torch.stack(states[::-1] if options.reverse else states)
    return states_and_last(steps, options.batch_sizes, options.reverse)


def elman_results(
    operands: ElmanOperands, options: Options
) -> tuple[Tensor, Tensor, Tensor | None]:  # (T, B, N), (B, N), (T, B, K)
    """Return all states, the last states and, with V, the outputs of the head."""
    h, last = elman_reference(operands, options)
    return h, last, None if operands.V is None else F.linear(h, operands.V, operands.d)


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


class ElmanReference(Backend):
    """The definition, one step at a time."""

    name = "reference"
    description = "naive loop, differentiable any number of times"
    dtypes = REAL | COMPLEX
    features = frozenset({"layer_norm", "zoneout"})

    def run(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
        return elman_reference(operands, options)
