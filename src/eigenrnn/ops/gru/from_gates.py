"""The gradients of the gated recurrence where a backward pass gives those of the gates."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.gru.backward import backward_reference
from eigenrnn.ops.steps import first_steps, weight_gradient
from eigenrnn.tracing import is_batched, under_transform

__all__ = ["differentiate"]


def differentiate(
    forward: Any,
    backward: Callable[..., tuple[Tensor, Tensor, Tensor]],
) -> None:
    """Tell autograd the gradients of an operator.

    Args:
        forward: The operator. It takes x, W, h0, both biases, the options and whether to keep the
            gates, and gives all states, and r, u, q and c of all steps if they are kept.
        backward: It takes the gradient of the states, both outputs, W, h0, the bias and the
            options, and gives the gradients of x, of q where the reset is after W, and of h0.
    """

    def pull_back(ctx: Any, g: Tensor | None, g_gates: Tensor | None) -> tuple[Tensor | None, ...]:
        W, h0, bias, h, gates = ctx.saved_tensors
        _, needs_W, _, needs_bias, needs_recurrent_bias, *_ = ctx.needs_input_grad
        g = torch.zeros_like(h) if g is None else g
        recorded = torch.is_grad_enabled() or under_transform() or is_batched(g, g_gates)
        if g_gates is None and not recorded:
            dx, dq, dh0 = backward(g, h, gates, W, h0, bias, *ctx.options)
        else:
            dx, dq, dh0 = backward_reference(g, g_gates, h, gates, W, h0, bias, *ctx.options)
        N = h0.shape[1]
        dc, c = dx[..., 2 * N :], gates[..., 3 * N :]
        dW = _of_matrices(dx, dq, h, gates, h0, *ctx.options[1:]) if needs_W else None
        db = (dc * c.sgn()).sum((0, 1)) if needs_bias else None
        db_recurrent = dq.sum((0, 1)) if needs_recurrent_bias else None
        return dx, dW, dh0, db, db_recurrent, *(None,) * 6

    forward.register_autograd(pull_back, setup_context=_remember)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, W, h0, bias, _, *ctx.options, _ = inputs
    ctx.save_for_backward(W, h0, bias, *output)
    ctx.set_materialize_grads(False)  # that of the gates is there in second derivatives alone


def _of_matrices(  # noqa: PLR0913, all that meets in them
    dx: Tensor,  # (T, B, 3 N)
    dq: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    gates: Tensor,  # (T, B, 4 N)
    h0: Tensor,  # (B, N)
    reset_after: bool,
    _update_keeps: bool,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> Tensor:  # (3 N, N)
    N = h0.shape[1]

    def met_states(delta: Tensor) -> Tensor:
        first = first_steps(delta, batch_sizes, reverse)
        return weight_gradient(delta, first, h, h0, reverse)

    if reset_after:
        dW_c = met_states(dq)
    else:
        rows = dx.shape[0] * dx.shape[1]
        dx_c, q = dx[..., 2 * N :], gates[..., 2 * N : 3 * N]
        dW_c = dx_c.reshape(rows, N).T @ q.reshape(rows, N)
    return torch.cat([met_states(dx[..., : 2 * N]), dW_c])
