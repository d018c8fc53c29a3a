"""The gated recurrence by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.norm_zoneout import apply_layer_norm, apply_zoneout
from eigenrnn.ops.recurrence import (
    Product,
    Recurrence,
    products_of_matrices,
)

__all__ = ["FORMS", "GRU", "GRUOperands", "GRUOptions", "form_features"]


class GRUOperands(NamedTuple):
    """The tensors of one call, as `gru` describes them."""

    x: Annotated[Tensor, "T", "B", "M"]  # without U they are mapped: (T, B, 3 N)
    W: Annotated[Tensor, "3N", "N"]
    h0: Annotated[Tensor, "B", "N"]
    bias: Annotated[Tensor | None, "N"] = None
    recurrent_bias: Annotated[Tensor | None, "N"] = None
    U: Annotated[Tensor | None, "3N", "M"] = None
    c: Annotated[Tensor | None, "3N"] = None
    gain: Annotated[Tensor | None, "3N"] = None
    shift: Annotated[Tensor | None, "3N"] = None
    mask: Annotated[Tensor | None, "T", "B", "N"] = None  # bool
    resets: Annotated[Tensor | None, "T", "B"] = None  # bool


class GRUOptions(NamedTuple):
    """The options of one call: those of `gru` and, like all recurrences, those of `Options`."""

    nonlinearity: str = "tanh"
    reset_after: bool = True
    update_keeps: bool = True
    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False
    products: str = "float32"
    rate: float = 0.0


FORMS = frozenset({"reset_after=False", "update_keeps=False"})
"""The forms that differ from `torch.nn.GRU`, as features of a backend."""


def form_features(reset_after: bool, update_keeps: bool) -> list[str]:
    """Return the features among `FORMS` that a call uses."""
    form = {"reset_after": reset_after, "update_keeps": update_keeps}
    return [f"{name}=False" for name, flag in form.items() if not flag]


def _saved_parts(operands: GRUOperands, options: GRUOptions) -> list[str]:
    """Return what the kernels save of each unit.

    These are r, u and c; if the reset is after the matrix, the product that it multiplies; and
    with LayerNorm the normalised arguments of the three.
    """
    parts = ["reset", "update", "candidate"]
    if options.reset_after:
        parts.append("product")
    if operands.gain is not None:
        parts += ["normed_reset", "normed_update", "normed_candidate"]
    return parts


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
    saved_parts=_saved_parts,
    products=_products,
)
"""The gated recurrence, in all its forms."""
