"""The delta rule by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from eigenrnn.ops.arguments import to_float32
from eigenrnn.ops.delta.operands import DeltaOperands, DeltaOptions, delta_shapes
from eigenrnn.ops.dispatch import Reference
from eigenrnn.ops.recurrence import Product, Recurrence

__all__ = ["DELTA", "DeltaReference", "output", "reflect"]


def _step(
    states: Mapping[str, Tensor],  # (B, H, K, V)
    now: Mapping[str, Tensor],  # each (B, H, ...)
    _operands: Any,
    _options: Any,
) -> tuple[Tensor, dict[str, Tensor]]:  # (B, H, V), (B, H, K, V)
    """Evaluate the equations one reflection at a time; each input is an operand at one step."""
    state = states["S0"]
    if "log_decay" in now:
        state = now["log_decay"][..., None, None].exp() * state
    k = now["k"]
    v = now["v"]
    beta = now["beta"]
    for j in range(k.shape[2]):
        state = reflect(state, k[:, :, j], v[:, :, j], beta[:, :, j])
    return output(state, now["q"]), {"S0": state}


def _inputs(operands: DeltaOperands, _options: DeltaOptions) -> dict[str, Tensor]:
    """Return all operands but the state."""
    given = operands._asdict().items()
    return {name: tensor for name, tensor in given if tensor is not None and name != "S0"}


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
    own_shapes=delta_shapes,
    wide=("log_decay", "S0"),
    step=_step,
    inputs=_inputs,
    features=frozenset({"resets"}),  # a layer writes them as decays of zero
    products=_products,
)
"""The delta rule with R reflections a step."""


class DeltaReference(Reference):
    """The definition, in float32 or better."""

    def run(self, operands: DeltaOperands, options: DeltaOptions) -> tuple[Tensor, Tensor]:
        o, S_n = super().run(to_float32(operands), options)
        return o.to(operands.q.dtype), S_n
