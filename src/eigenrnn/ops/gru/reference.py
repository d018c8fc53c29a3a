"""The reference implementation of the gated recurrence, in plain differentiable operations."""

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.arguments import map_inputs
from eigenrnn.ops.dispatch import REAL, Backend
from eigenrnn.ops.gru.operands import FORMS, GRUOperands, GRUOptions
from eigenrnn.ops.norm_zoneout import apply_layer_norm, apply_zoneout
from eigenrnn.ops.time_steps import states_and_last

__all__ = ["GRUReference", "gru_reference"]


def gru_reference(
    operands: GRUOperands, options: GRUOptions
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Evaluate the four equations of the recurrence one step at a time.

    LayerNorm is applied to the argument of each nonlinearity, so it follows the reset. Zoneout is
    applied to the new state. Autograd records T steps of small operations, so the backward pass is
    slow and needs much memory.
    """
    x, W, h, bias, recurrent_bias, U, c, gain, shift, mask = operands
    f = NONLINEARITIES[options.nonlinearity].forward
    W_r, W_u, W_c = W.chunk(3)
    gain_r, gain_u, gain_c = (None,) * 3 if gain is None else gain.chunk(3)
    shift_r, shift_u, shift_c = (None,) * 3 if shift is None else shift.chunk(3)
    T, B, _ = x.shape
    sizes = options.batch_sizes or [B] * T
    # indexing would allocate a gradient of the size of x at every step
    xs = map_inputs(x, U, c).unbind()
    states: list[Tensor] = []
    for t in reversed(range(T)) if options.reverse else range(T):
        n = sizes[t]
        x_r, x_u, x_c = xs[t][:n].chunk(3, dim=1)
        r = torch.sigmoid(apply_layer_norm(x_r + h[:n] @ W_r.T, gain_r, shift_r))
        u = torch.sigmoid(apply_layer_norm(x_u + h[:n] @ W_u.T, gain_u, shift_u))
        if options.reset_after:
            recurrent = h[:n] @ W_c.T
            q = r * (recurrent if recurrent_bias is None else recurrent + recurrent_bias)
        else:
            q = (r * h[:n]) @ W_c.T
        c_t = f(apply_layer_norm(x_c + q, gain_c, shift_c), bias)
        h_new = u * h[:n] + (1 - u) * c_t if options.update_keeps else (1 - u) * h[:n] + u * c_t
        h_new = apply_zoneout(h_new, h[:n], mask, options.rate, t)
        # a finished sequence keeps its state; one that has not begun keeps h0
        h = torch.cat([h_new, h[n:]]) if n < B else h_new
        states.append(torch.cat([h_new, torch.zeros_like(h[n:])]) if n < B else h_new)
    steps = torch.stack(states[::-1] if options.reverse else states)
    return states_and_last(steps, options.batch_sizes, options.reverse)


class GRUReference(Backend):
    """The definition, one step at a time."""

    name = "reference"
    description = "naive loop, differentiable any number of times"
    dtypes = REAL
    features = FORMS | {"layer_norm", "zoneout"}

    def run(self, operands: GRUOperands, options: GRUOptions) -> tuple[Tensor, Tensor]:
        return gru_reference(operands, options)
