"""The gradients of the Elman recurrence where a backward pass gives those of pre-activations."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.elman.differentiable import bias_gradient, deltas, totals_of
from eigenrnn.ops.steps import first_steps, weight_gradient
from eigenrnn.tracing import is_batched, under_transform

__all__ = ["differentiate"]


def differentiate(forward: Any, backward: Callable[..., Tensor]) -> None:
    """Tell autograd the gradients of an operator.

    Args:
        forward: The operator. It takes x, W, h0, the bias, the nonlinearity, batch_sizes and
            reverse, and gives all states and the moduli that complex modReLU needs.
        backward: It takes the gradient of the states, what the operator gave and, without x, what
            it took, and gives the gradients of all pre-activations.
    """

    def pull_back(
        ctx: Any, g: Tensor | None, g_moduli: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        W, h0, bias, h, moduli = ctx.saved_tensors
        nonlinearity, batch_sizes, reverse = ctx.options
        _, needs_W, needs_h0, needs_bias, *_ = ctx.needs_input_grad
        g_moduli = g_moduli if len(moduli) else None
        if g is None and g_moduli is None:
            return (None,) * 7
        recorded = torch.is_grad_enabled() or under_transform() or is_batched(g)
        if g is None or recorded or g_moduli is not None:  # which come from second derivatives
            given = W, h0, bias, nonlinearity, batch_sizes, reverse
            delta, total = deltas(g, None, h, *given, moduli, g_moduli)
        else:
            delta = backward(g, h, moduli, W, h0, bias, nonlinearity, batch_sizes, reverse)
            total = totals_of(g, delta, W, reverse) if needs_bias and len(moduli) else delta
        first = first_steps(delta, batch_sizes, reverse)
        grad_W = weight_gradient(delta, first, h, h0, reverse) if needs_W else None
        grad_h0 = first @ W.conj() if needs_h0 else None
        grad_bias = bias_gradient(total, h, nonlinearity) if needs_bias else None
        return delta, grad_W, grad_h0, grad_bias, None, None, None

    forward.register_autograd(pull_back, setup_context=_remember)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, W, h0, bias, *ctx.options = inputs
    ctx.set_materialize_grads(False)  # that of the moduli is there in second derivatives alone
    ctx.save_for_backward(W, h0, bias, *output)  # the pre-activations are not needed
