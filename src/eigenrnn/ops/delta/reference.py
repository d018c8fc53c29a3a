"""The delta rule by definition: its record, in plain differentiable operations."""

from collections.abc import Sequence

import torch
from torch import Tensor

from eigenrnn.ops.arguments import to_float32
from eigenrnn.ops.delta.operands import DeltaOperands, DeltaOptions, delta_shapes
from eigenrnn.ops.dispatch import REAL, Backend
from eigenrnn.ops.recurrence import Product, Recurrence
from eigenrnn.ops.time_steps import sizes_of_steps, steps_in_order

__all__ = ["DELTA", "DeltaReference", "delta_reference", "output", "reflect"]


def delta_reference(
    operands: DeltaOperands, options: DeltaOptions
) -> tuple[Tensor, Tensor]:  # (T, B, H, V), (B, H, K, V)
    """Evaluate the equations one reflection at a time.

    Autograd records every state, so the backward pass is slow and needs much memory.
    """
    T, B, _, R, _ = operands.k.shape
    sizes = sizes_of_steps(options.batch_sizes, T, B)
    # indexing would allocate a gradient of the size of the inputs at every step
    q = operands.q.unbind()
    k = operands.k.unbind()
    v = operands.v.unbind()
    beta = operands.beta.unbind()
    log_decay: Sequence[Tensor] | None = None
    if operands.log_decay is not None:
        log_decay = operands.log_decay.unbind()
    states = operands.S0
    outputs: list[Tensor] = []
    for t in steps_in_order(T, options.reverse):
        n = sizes[t]
        now = states[:n]
        if log_decay is not None:
            now = log_decay[t][:n, :, None, None].exp() * now
        for j in range(R):
            now = reflect(now, k[t][:n, :, j], v[t][:n, :, j], beta[t][:n, :, j])
        o = output(now, q[t][:n])
        if n < B:
            # a finished sequence keeps its state; one that has not begun keeps the initial one
            waiting = states[n:]
            now = torch.cat([now, waiting])
            o = torch.cat([o, torch.zeros_like(waiting[:, :, 0])])
        states = now
        outputs.append(o)
    if options.reverse:
        outputs.reverse()
    return torch.stack(outputs), states


def reflect(
    S: Tensor,  # (B, H, K, V)
    k: Tensor,  # (B, H, K)
    v: Tensor,  # (B, H, V)
    beta: Tensor,  # (B, H)
) -> Tensor:  # (B, H, K, V)
    r"""Return :math:`S + \beta k (v - S^\top k)^\top`."""
    error = v - output(S, k)
    return S + beta[..., None, None] * k.unsqueeze(3) * error.unsqueeze(2)


def output(
    S: Tensor,  # (B, H, K, V)
    q: Tensor,  # (B, H, K)
) -> Tensor:  # (B, H, V)
    r"""Return :math:`S^\top q`."""
    return (q.unsqueeze(2) @ S).squeeze(2)


def _products(operands: DeltaOperands, _options: DeltaOptions) -> list[Product]:
    """Return those of the states with keys and queries."""
    _, _, H, R, K = operands.k.shape
    size = H * K * operands.v.shape[4]
    return [Product("k", "state", R * size, initial=size), Product("q", "o", size)]


DELTA = Recurrence(
    "delta",
    operands=DeltaOperands,
    options=DeltaOptions,
    states=("S0",),
    results=("o", "S_n"),
    shapes=delta_shapes,
    definition=delta_reference,
    products=_products,
)
"""The delta rule with R reflections a step."""


class DeltaReference(Backend):
    """The definition, one reflection at a time."""

    name = "reference"
    description = "naive loop, differentiable any number of times"
    dtypes = REAL
    features = frozenset({"resets"})  # a layer writes them as decays of zero

    def run(self, operands: DeltaOperands, options: DeltaOptions) -> tuple[Tensor, Tensor]:
        o, S_n = delta_reference(to_float32(operands), options)
        return o.to(operands.q.dtype), S_n
