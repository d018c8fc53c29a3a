"""The gated recurrence by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
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
    products_of_matrices,
)

__all__ = ["GRU"]


def _step(
    states: Mapping[str, Tensor],  # (B, N)
    now: Mapping[str, Tensor],  # (B, 3 N), (B, N)
    operands: GRUOperands,
    options: GRUOptions,
) -> tuple[Tensor, dict[str, Tensor]]:  # (B, N)
    """Evaluate the four equations of the recurrence on mapped inputs.

    LayerNorm is applied to the argument of each nonlinearity, so it follows the reset. Zoneout is
    applied to the new state.
    """
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
    h = apply_zoneout(h_new, h, now.get("mask"), options.rate)
    return h, {"h0": h}


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
    step=_step,
    features=FORMS | {"layer_norm", "zoneout", "resets"},
    gates=3,
    saved_parts=gru_saved_parts,
    products=_products,
)
"""The gated recurrence, in all its forms."""
