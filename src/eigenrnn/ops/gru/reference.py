"""The gated recurrence by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.arguments import mapped_inputs
from eigenrnn.ops.dispatch import REAL, Backend
from eigenrnn.ops.gru.operands import (
    FORMS,
    GRUOperands,
    GRUOptions,
    gru_saved_parts,
)
from eigenrnn.ops.norm_zoneout import apply_layer_norm, apply_zoneout
from eigenrnn.ops.recurrence import (
    Product,
    Recurrence,
    axes_of,
    matrix_shapes,
    products_of_matrices,
)
from eigenrnn.ops.time_steps import run_steps, without_padding

__all__ = ["GRU", "GRUReference", "gru_reference", "gru_step"]


def gru_reference(
    operands: GRUOperands, options: GRUOptions
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Evaluate the four equations of the recurrence one step at a time.

    LayerNorm is applied to the argument of each nonlinearity, so it follows the reset. Zoneout is
    applied to the new state. Autograd records T steps of small operations, so the backward pass is
    slow and needs much memory.
    """
    x = without_padding(operands.x, options.batch_sizes)
    h, last = run_steps(
        partial(gru_step, options=options),
        {"h0": operands.h0},
        mapped_inputs(operands._replace(x=x)),
        operands,
        options.batch_sizes,
        options.reverse,
    )
    return h, last["h0"]


def gru_step(
    states: Mapping[str, Tensor],  # (B, N)
    now: Mapping[str, Tensor],  # (B, 3 N), (B, N)
    operands: GRUOperands,
    options: GRUOptions,
) -> dict[str, Tensor]:  # (B, N)
    """Return the state after one time step of mapped inputs."""
    h = states["h0"]
    gain = operands.gain
    shift = operands.shift
    recurrent_bias = operands.recurrent_bias
    f = NONLINEARITIES[options.nonlinearity].forward
    W_r, W_u, W_c = operands.W.chunk(3)
    gains: Sequence[Tensor | None] = (None, None, None)
    shifts: Sequence[Tensor | None] = (None, None, None)
    if gain is not None and shift is not None:
        gains = gain.chunk(3)
        shifts = shift.chunk(3)
    gain_r, gain_u, gain_c = gains
    shift_r, shift_u, shift_c = shifts
    x_r, x_u, x_c = now["x"].chunk(3, dim=1)
    r = torch.sigmoid(apply_layer_norm(x_r + h @ W_r.T, gain_r, shift_r))
    u = torch.sigmoid(apply_layer_norm(x_u + h @ W_u.T, gain_u, shift_u))
    if options.reset_after:
        recurrent = h @ W_c.T
        if recurrent_bias is not None:
            recurrent = recurrent + recurrent_bias
        q = r * recurrent
    else:
        q = (r * h) @ W_c.T
    c = f(apply_layer_norm(x_c + q, gain_c, shift_c), operands.bias)
    if options.update_keeps:
        h_new = u * h + (1 - u) * c
    else:
        h_new = (1 - u) * h + u * c
    return {"h0": apply_zoneout(h_new, h, now.get("mask"), options.rate)}


def _products(operands: GRUOperands, options: GRUOptions) -> list[Product]:
    """Return those of the matrices; the reset gate may stand between a state and W of f."""
    of_states, *others = products_of_matrices(operands, options)
    if not options.reset_after:
        # a first state without gradient leaves that of the product with the gate
        of_states = of_states._replace(initial=of_states.size * 2 // 3)
    return [of_states, *others]


GRU = Recurrence(
    "gru",
    operands=GRUOperands,
    options=GRUOptions,
    states=("h0",),
    results=("h", "last"),
    shapes=partial(matrix_shapes, axes_of(GRUOperands), 3),
    definition=gru_reference,
    gates=3,
    saved_parts=gru_saved_parts,
    products=_products,
)
"""The gated recurrence, in all its forms."""


class GRUReference(Backend):
    """The definition, one step at a time."""

    name = "reference"
    description = "naive loop, differentiable any number of times"
    dtypes = REAL
    features = FORMS | {"layer_norm", "zoneout", "resets"}

    def run(self, operands: GRUOperands, options: GRUOptions) -> tuple[Tensor, Tensor]:
        return gru_reference(operands, options)
