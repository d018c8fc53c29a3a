"""The gradients of the Elman recurrence where a backward pass gives those of pre-activations."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.elman.differentiable import bias_gradient, deltas
from eigenrnn.ops.steps import first_steps, weight_gradient
from eigenrnn.transforms import is_batched, under_transform

__all__ = ["differentiate"]


def differentiate(forward: Any, backward: Callable[..., Tensor]) -> None:
    """Tell autograd the gradients of an operator.

    Args:
        forward: The operator. It takes x, W, h0, the bias, the nonlinearity, batch_sizes and
            reverse, and gives all states.
        backward: It takes their gradient, the states and, without x, the same, and gives the
            gradients of all pre-activations.
    """

    def pull_back(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        W, h0, bias, h = ctx.saved_tensors
        nonlinearity, batch_sizes, reverse = ctx.options
        _, needs_W, needs_h0, needs_bias, *_ = ctx.needs_input_grad
        if torch.is_grad_enabled() or under_transform() or is_batched(g):
            delta = deltas(g, None, h, W, h0, bias, nonlinearity, batch_sizes, reverse)
        else:
            delta = backward(g, h, W, h0, bias, nonlinearity, batch_sizes, reverse)
        first = first_steps(delta, batch_sizes, reverse)
        grad_W = weight_gradient(delta, first, h, h0, reverse) if needs_W else None
        grad_h0 = first @ W.conj() if needs_h0 else None
        grad_bias = bias_gradient(delta, h, nonlinearity) if needs_bias else None
        return delta, grad_W, grad_h0, grad_bias, None, None, None

    forward.register_autograd(pull_back, setup_context=_remember)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, W, h0, bias, *ctx.options = inputs
    ctx.save_for_backward(W, h0, bias, output)  # the pre-activations are not needed
