"""The backward pass of the Elman recurrence in operations that autograd and `vmap` follow."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, pairs_to_complex
from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops.time_steps import first_steps, weight_gradient
from eigenrnn.tracing import is_batched, under_transform

__all__ = ["bias_gradient", "deltas", "gradients", "register_gradients", "state_gradients"]


def deltas(  # noqa: PLR0913, the signature of all backends
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    h: Tensor,  # (T, B, N), connected to the inputs in the autograd graph
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
    moduli: Tensor,  # (T, B, N) or, of pairs, (T, B, N / 2); (0, ...) if unused
    g_moduli: Tensor | None,  # the shape of moduli
) -> tuple[Tensor, Tensor]:  # (T, B, N), (T, B, N)
    """Return the gradients of all pre-activations and of all states.

    The moduli of complex modReLU are also connected to the inputs.
    """
    T, B, _ = h.shape
    sizes = batch_sizes or [B] * T
    delta_steps: list[Tensor] = []
    dh_steps: list[Tensor] = []
    delta_t = torch.zeros_like(h0)
    running = torch.zeros(B, 1, dtype=torch.bool, device=h.device)
    for t in range(T) if reverse else reversed(range(T)):
        continues, running = running, (torch.arange(B, device=h.device) < sizes[t]).unsqueeze(1)
        dh = delta_t @ W.conj()
        if g_last is not None:
            dh = dh + torch.where(running & ~continues, g_last, 0)
        if g is not None:
            dh = dh + g[t]
        modulus = moduli[t] if len(moduli) else None
        delta_t = _backward(nonlinearity, dh, h[t], bias, modulus)
        if g_moduli is not None:
            delta_t = delta_t + _modulus_gradient(nonlinearity, g_moduli[t], h[t])
        delta_t = torch.where(running, delta_t, 0)
        delta_steps.append(delta_t)
        dh_steps.append(torch.where(running, dh, 0))
    order = slice(None) if reverse else slice(None, None, -1)
    return torch.stack(delta_steps[order]), torch.stack(dh_steps[order])


def gradients(  # noqa: PLR0913, the signature of all backends
    g: Tensor | None,  # (T, B, N)
    g_last: Tensor | None,  # (B, N)
    g_y: Tensor | None,  # (T, B, K), with V
    x: Tensor | None,  # (T, B, M), with U
    W: Tensor,  # (N, N)
    h0: Tensor,  # (B, N)
    bias: Tensor | None,  # (N,)
    U: Tensor | None,  # (N, M)
    V: Tensor | None,  # (K, N)
    h: Tensor,  # (T, B, N)
    moduli: Tensor,  # (T, B, N / 2) or (0, B, N / 2)
    g_moduli: Tensor | None,  # the shape of moduli
    needed: Sequence[bool],
    nonlinearity: str,
    batch_sizes: Sequence[int] | None,
    reverse: bool,
) -> list[Tensor]:
    """Return the requested gradients, among those of x, W, h0, bias, U, c, V and d."""
    if g_y is not None and V is not None:
        g = g_y @ V if g is None else g + g_y @ V
    options = nonlinearity, batch_sizes, reverse
    delta, total = deltas(g, g_last, h, W, h0, bias, *options, moduli, g_moduli)
    first = first_steps(delta, batch_sizes, reverse)
    gradients_of = (
        lambda: delta if U is None else delta @ U,
        lambda: weight_gradient(delta, first, h, h0, reverse),
        lambda: first @ W.conj(),
        lambda: (total * _phases(nonlinearity, h)).sum((0, 1)),
        lambda: _outer(delta, _required(x)),
        lambda: delta.sum((0, 1)),
        lambda: _outer(_required(g_y), h),
        lambda: _required(g_y).sum((0, 1)),
    )
    return [make() for make, is_needed in zip(gradients_of, needed, strict=True) if is_needed]


def state_gradients(
    g: Tensor,  # (T, B, N)
    delta: Tensor,  # (T, B, N)
    W: Tensor,  # (N, N)
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Return the gradients of all states from those of the pre-activations; padding is zero."""
    later = delta @ W.conj()
    zero = torch.zeros_like(later[:1])
    return g + torch.cat([zero, later[:-1]] if reverse else [later[1:], zero])


def bias_gradient(
    total: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    nonlinearity: str,
) -> Tensor:  # (N,)
    """Sum the state gradients along the phases, in blocks that fit into the cache.

    The gradients of the pre-activations have the same components along the phases. Across the
    phases, complex ones may be so large that rounding destroys these components.
    """
    steps = max(1, 2**17 // max(1, h[0].numel()))
    blocks = zip(total.split(steps), h.split(steps), strict=True)
    parts = ((d * _phases(nonlinearity, s).conj()).sum((0, 1)).real for d, s in blocks)
    return sum(parts)  # type: ignore[return-value]


def _backward(
    nonlinearity: str, g: Tensor, h: Tensor, bias: Tensor | None, modulus: Tensor | None
) -> Tensor:
    if nonlinearity != "modrelu_paired":
        return NONLINEARITIES[nonlinearity].backward(g, h, bias, modulus)
    backward = NONLINEARITIES["modrelu"].backward
    return complex_to_pairs(backward(pairs_to_complex(g), pairs_to_complex(h), bias, modulus))


def _modulus_gradient(
    nonlinearity: str,
    g_modulus: Tensor,  # (B, N) or, of pairs, (B, N / 2)
    h: Tensor,  # (B, N)
) -> Tensor:  # (B, N)
    """Return the gradient of pre-activations from that of their moduli."""
    # an inactive unit does not depend on its modulus
    if nonlinearity != "modrelu_paired":
        return g_modulus * h.sgn()
    return complex_to_pairs(g_modulus * pairs_to_complex(h).sgn())


def _phases(nonlinearity: str, h: Tensor) -> Tensor:  # (T, B, N)
    """Return the signs or phases of the states; the bias of modReLU shifts states along them."""
    if nonlinearity != "modrelu_paired":
        return h.sgn()
    return complex_to_pairs(pairs_to_complex(h).sgn())


def _outer(
    a: Tensor,  # (T, B, K)
    b: Tensor,  # (T, B, M)
) -> Tensor:  # (K, M)
    # the older vmap of `torch.autograd` does not support `flatten`
    rows = a.shape[0] * a.shape[1]
    return a.reshape(rows, a.shape[-1]).T @ b.reshape(rows, b.shape[-1])


def _required(tensor: Tensor | None) -> Tensor:
    assert tensor is not None  # noqa: S101, x exists with U, and g_y with V
    return tensor


def register_gradients(forward: Any, backward: Callable[..., Tensor]) -> None:
    """Register the gradients of an operator whose backward pass returns those of pre-activations.

    Args:
        forward: The operator. It takes x, W, h0, the bias, the nonlinearity, batch_sizes and
            reverse. It returns all states and the moduli that complex modReLU needs.
        backward: The backward operator. It takes the gradient of the states, the results of
            `forward` and its arguments but x. It returns the gradients of all pre-activations.
    """

    def backward_pass(
        ctx: Any, g: Tensor | None, g_moduli: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        W, h0, bias, h, moduli = ctx.saved_tensors
        nonlinearity, batch_sizes, reverse = ctx.options
        _, needs_W, needs_h0, needs_bias, *_ = ctx.needs_input_grad
        g_moduli = g_moduli if len(moduli) else None
        if g is None and g_moduli is None:
            return (None,) * 7
        recorded = torch.is_grad_enabled() or under_transform() or is_batched(g)
        if g is None or recorded or g_moduli is not None:  # only in second derivatives
            arguments = W, h0, bias, nonlinearity, batch_sizes, reverse
            delta, total = deltas(g, None, h, *arguments, moduli, g_moduli)
        else:
            delta = backward(g, h, moduli, W, h0, bias, nonlinearity, batch_sizes, reverse)
            total = state_gradients(g, delta, W, reverse) if needs_bias and len(moduli) else delta
        first = first_steps(delta, batch_sizes, reverse)
        grad_W = weight_gradient(delta, first, h, h0, reverse) if needs_W else None
        grad_h0 = first @ W.conj() if needs_h0 else None
        grad_bias = bias_gradient(total, h, nonlinearity) if needs_bias else None
        return delta, grad_W, grad_h0, grad_bias, None, None, None

    forward.register_autograd(backward_pass, setup_context=_setup_context)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    _, W, h0, bias, *ctx.options = inputs
    ctx.set_materialize_grads(False)  # the moduli have a gradient only in second derivatives
    ctx.save_for_backward(W, h0, bias, *output)  # the pre-activations are not needed
