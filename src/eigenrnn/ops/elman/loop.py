"""The Elman recurrence as a loop of in-place products, with an explicit backward pass.

README.md in this folder has the derivation and the reasons for each choice.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import map_inputs
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend, Call
from eigenrnn.ops.elman.backward import register_gradients
from eigenrnn.ops.elman.loop_norm_zoneout import run_norm_zoneout
from eigenrnn.ops.inplace_nonlinearities import (
    apply_in_place,
    backward_in_place,
    moduli_like,
    split_moduli,
)
from eigenrnn.ops.time_steps import previous_state, split_steps, states_and_last

__all__ = ["BACKEND", "elman_loop"]

_OPTIONS = "str nonlinearity, SymInt[]? batch_sizes, bool reverse"


@torch.library.custom_op(
    "eigenrnn::elman_loop",
    mutates_args=(),
    schema=f"(Tensor x, Tensor W, Tensor h0, Tensor? bias, {_OPTIONS}) -> (Tensor, Tensor)",
)
def elman_loop(
    x: Tensor,  # (T, B, N)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (T, B, N) or (0, B, N)
    """Evaluate the recurrence with one product and a few in-place operations per step.

    Return the states and, for complex modReLU, the moduli of the pre-activations.
    """
    T, B, _ = x.shape
    sizes = batch_sizes or [B] * T
    h = x.new_zeros(x.shape) if sizes[-1] < B else x.new_empty(x.shape)
    moduli = moduli_like(x, nonlinearity, bias, zeros=sizes[-1] < B)
    f_ = apply_in_place(nonlinearity, bias, h0)
    Wt = W.T.contiguous()
    xs, hs, ms = split_steps(x, sizes), split_steps(h, sizes), split_moduli(moduli, sizes)
    for t in reversed(range(T)) if reverse else range(T):
        torch.addmm(xs[t], previous_state(t, hs, h0, sizes, reverse), Wt, out=hs[t])
        f_(hs[t], ms[t])
    return h, moduli


@torch.library.custom_op(
    "eigenrnn::elman_loop_backward",
    mutates_args=(),
    schema="(Tensor g, Tensor h, Tensor moduli, Tensor W, Tensor h0, Tensor? bias, "
    f"{_OPTIONS}) -> Tensor",
)
def _elman_loop_backward(  # noqa: PLR0913, the signature of all backends
    g: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    moduli: Tensor,  # (T, B, N) or (0, B, N)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Return the gradients of all pre-activations."""
    T, B, _ = h.shape
    sizes = batch_sizes or [B] * T
    delta = h.new_zeros(h.shape) if sizes[-1] < B else h.new_empty(h.shape)
    backward_ = backward_in_place(nonlinearity, bias, h0)
    conjugate = W.conj_physical().contiguous()
    gs, hs, deltas = split_steps(g, sizes), split_steps(h, sizes), split_steps(delta, sizes)
    ms = split_moduli(moduli, sizes)
    delta_next: Tensor | None = None
    for t in range(T) if reverse else reversed(range(T)):
        if delta_next is None:
            deltas[t].copy_(gs[t])
        elif delta_next.shape[0] < sizes[t]:  # only forward: some sequences end at this step
            n = delta_next.shape[0]
            torch.addmm(gs[t][:n], delta_next, conjugate, out=deltas[t][:n])
            deltas[t][n:].copy_(gs[t][n:])
        else:
            torch.addmm(gs[t], delta_next[: sizes[t]], conjugate, out=deltas[t])
        backward_(deltas[t], hs[t], ms[t])
        delta_next = deltas[t]
    return delta


@elman_loop.register_fake
def _(
    x: Tensor,
    W: Tensor,  # noqa: ARG001, the operator's signature
    h0: Tensor,  # noqa: ARG001
    bias: Tensor | None,
    nonlinearity: str,
    *_: Any,
) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), moduli_like(x, nonlinearity, bias)


@_elman_loop_backward.register_fake
def _(g: Tensor, h: Tensor, *_: Any) -> Tensor:  # noqa: ARG001, the operator's signature
    return h.new_empty(h.shape)


register_gradients(elman_loop, _elman_loop_backward)


def _run(  # noqa: PLR0913, the signature of all backends
    x: Tensor,  # (T, B, N) or (T, B, M)
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    c: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
    **options: Any,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    arguments = map_inputs(x, U, c), W, h0, bias, nonlinearity, batch_sizes, reverse
    h = run_norm_zoneout(*arguments, **options) if options else elman_loop(*arguments)[0]
    return states_and_last(h, batch_sizes, reverse)


def _unsupported(call: Call) -> str | None:
    if call.transformed:
        return "torch.func transforms and forward mode need differentiable operations"
    if "layer_norm" in call.options and call.dtype in (torch.float16, torch.bfloat16):
        return "layer_norm in 16 bits keeps its moments in dtypes that differ between devices"
    return None


BACKEND = Backend(
    name="loop",
    run=_run,
    description="in-place torch operations, any device",
    dtypes=REAL | COMPLEX,
    unavailable=lambda: None,
    unsupported=_unsupported,
    features=frozenset({"layer_norm", "zoneout"}),
)
