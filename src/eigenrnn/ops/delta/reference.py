"""The delta rule by definition: its record, in plain differentiable operations."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from eigenrnn.linalg import at_least_float32, tol
from eigenrnn.ops.recurrence import Product, Recurrence, Shape
from eigenrnn.ops.time_steps import without_padding

__all__ = [
    "DELTA",
    "DeltaOperands",
    "DeltaOptions",
    "check_values",
    "in_order",
    "output",
    "reflect",
    "state_dtype",
]


# rounding a unit key of hundreds of numbers to bfloat16 changes its norm by less
NORM_SLACK = 0.01


class DeltaOperands(NamedTuple):
    """The tensors of one call, as `delta` describes them."""

    q: Tensor  # (T, B, H, K)
    k: Tensor  # (T, B, H, R, K)
    v: Tensor  # (T, B, H, R, V)
    beta: Tensor  # (T, B, H, R)
    log_decay: Tensor | None  # (T, B, H)
    S0: Tensor  # (B, H, K, V)


class DeltaOptions(NamedTuple):
    """The options of one call, as `delta` describes them."""

    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False


def _shapes(operands: DeltaOperands) -> dict[str, Shape]:
    """Return the shape of each operand.

    Raises:
        ValueError: If k and v are no sequences of keys and values.
    """
    k = operands.k
    v = operands.v
    if k.dim() != 5 or k.shape[0] < 1 or k.shape[3] < 1 or k.shape[4] < 1:
        raise ValueError(
            "expected k of shape (T, B, H, R, K) with T, R and K of at least 1, "
            f"got {tuple(k.shape)}: R is the number of reflections in a step"
        )
    T, B, H, R, K = k.shape
    if v.dim() != 5 or v.shape[4] < 1:
        raise ValueError(
            f"expected v of shape {(T, B, H, R)} and V, at least 1, got {tuple(v.shape)}"
        )
    V = v.shape[4]
    return {
        "q": (T, B, H, K),
        "k": (T, B, H, R, K),
        "v": (T, B, H, R, V),
        "beta": (T, B, H, R),
        "log_decay": (T, B, H),
        "S0": (B, H, K, V),
    }


def state_dtype(q: Tensor) -> torch.dtype:
    """Return the dtype of states and decays: float32 for inputs of 16 bits."""
    return at_least_float32(q.dtype)


def in_order(operands: DeltaOperands, options: DeltaOptions) -> DeltaOperands:
    """Return the operands in the order of the recurrence, without what lies in the padding.

    Padding becomes reflections of strength zero without decay, which leave the state as it is.
    """
    if options.batch_sizes is None and not options.reverse:
        return operands
    changed: dict[str, Tensor] = {}
    for name, tensor in operands._asdict().items():
        if name == "S0" or tensor is None:
            continue
        rows = without_padding(tensor.flatten(2), options.batch_sizes)
        if options.reverse:
            rows = rows.flip(0)
        changed[name] = rows.reshape(tensor.shape)
    return operands._replace(**changed)


def check_values(operands: DeltaOperands, batch_sizes: Sequence[int] | None) -> None:
    """Check all strengths and decays, and the keys of the first step.

    All keys are not read, because that takes a noticeable part of a call. Keys that nobody
    normalised are too long at the first step already.

    Raises:
        ValueError: If a transition could expand a state.
    """
    beta = without_padding(operands.beta.detach().flatten(2), batch_sizes)
    if not beta.numel():
        return
    least = float(beta.min())
    most = float(beta.max())
    slack = tol(beta.dtype, 1)
    if math.isnan(least):
        raise ValueError(
            "expected strengths beta between 0 and 2, got NaN: look for NaN or infinite numbers "
            "in what they are computed from, the inputs or the weights of a layer"
        )
    if not (least >= -slack and most <= 2 + slack):
        raise ValueError(
            "expected strengths beta between 0 and 2, so that no transition expands a state, "
            f"got values from {least:.6g} to {most:.6g}"
        )
    if operands.log_decay is not None:
        most = float(without_padding(operands.log_decay.detach(), batch_sizes).max())
        if not most <= 0:
            raise ValueError(f"expected logarithms log_decay <= 0, got one of {most:.6g}")
    longest = float(torch.linalg.vector_norm(operands.k[0].detach(), dim=-1).max())
    if not longest <= 1 + NORM_SLACK:
        raise ValueError(
            f"expected unit keys, got a key of norm {longest:.6g} at the first step: "
            "divide k by its norm, as torch.nn.functional.normalize(k, dim=-1) does"
        )


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
    own_shapes=_shapes,
    wide=("log_decay", "S0"),
    step=_step,
    inputs=_inputs,
    features=frozenset({"resets"}),  # a layer writes them as decays of zero
    products=_products,
)
"""The delta rule with R reflections a step."""
