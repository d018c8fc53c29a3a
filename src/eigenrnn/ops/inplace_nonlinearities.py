"""The nonlinearities of the loops and their backward passes, as in-place operations."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.nonlinearities import LEAKY_SLOPES, NONLINEARITIES
from eigenrnn.ops.time_steps import split_steps

__all__ = ["apply_in_place", "backward_in_place", "moduli_like", "split_moduli"]

_aten = torch.ops.aten

_Apply = Callable[[Tensor, Tensor | None], object]
_Backward = Callable[[Tensor, Tensor, Tensor | None], object]

_APPLY: dict[str, _Apply] = {
    "tanh": lambda z, _: torch.tanh_(z),
    "relu": lambda z, _: torch.relu_(z),
    "elu": lambda z, _: F.elu_(z),
    # a beta of one, and the threshold of `nonlinearities.py`
    "softplus": lambda z, _: _aten.softplus.out(z, 1, 40, out=z),
    "retanh": lambda z, _: torch.relu_(z).tanh_(),
    "identity": lambda z, _: z,
}

# torch's own backward kernels: one pass over g and h each
_BACKWARD: dict[str, _Backward] = {
    "tanh": lambda g, h, _: _aten.tanh_backward.grad_input(g, h, grad_input=g),
    "relu": lambda g, h, _: _aten.threshold_backward.grad_input(g, h, 0, grad_input=g),
    # alpha, scale and input scale of one; from the result h, not from z
    "elu": lambda g, h, _: _aten.elu_backward.grad_input(g, 1, 1, 1, True, h, grad_input=g),
    # h = log(1 + exp(z)), so its derivative is sigmoid(z) = 1 - exp(-h)
    "softplus": lambda g, h, _: g.mul_(-torch.expm1(-h)),
    "retanh": lambda g, h, _: _retanh_backward(g, h),
    "identity": lambda g, _h, _m: g,
}


def _add_leaky_relu(name: str, slope: float) -> None:
    leaky_relu_backward = _aten.leaky_relu_backward.grad_input
    _APPLY[name] = lambda z, _: F.leaky_relu_(z, slope)
    _BACKWARD[name] = lambda g, h, _: leaky_relu_backward(g, h, slope, True, grad_input=g)


for _name, _slope in LEAKY_SLOPES.items():
    _add_leaky_relu(_name, _slope)


def _retanh_backward(g: Tensor, h: Tensor) -> None:
    _aten.tanh_backward.grad_input(g, h, grad_input=g)
    _aten.threshold_backward.grad_input(g, h, 0, grad_input=g)


def moduli_like(
    x: Tensor,  # (T, B, N), complex or pairs of real numbers
    nonlinearity: str,
    bias: Tensor | None,
) -> Tensor:  # (T, B, N) or, of pairs, (T, B, N / 2); (0, ...) if unused
    """Allocate memory for the moduli that the backward pass of complex modReLU needs."""
    T, B, N = x.shape
    paired = nonlinearity == "modrelu_paired"
    used = bias is not None and (paired or (nonlinearity == "modrelu" and x.is_complex()))
    if not used:
        return x.new_empty(0, B, N)
    shape = (T, B, N // 2 if paired else N)
    return x.new_empty(shape, dtype=x.dtype.to_real())


def split_moduli(
    moduli: Tensor,  # (T, B, N) or (0, B, N)
    sizes: Sequence[int],
) -> list[Tensor | None]:  # T of (sizes[t], N), or None if unused
    """Return one view per step of the running sequences, as `split_steps` does."""
    if not len(moduli):
        return [None] * len(sizes)
    return list(split_steps(moduli, sizes))


def apply_in_place(
    name: str,
    bias: Tensor | None,  # (N,)
    like: Tensor,  # (B, N)
) -> _Apply:
    """Return the nonlinearity as an in-place operation on the first rows of a batch.

    The operation takes the pre-activations and, if they are complex, memory for their moduli.
    """
    if name != "modrelu":
        return _APPLY[name]
    if bias is None:
        return _APPLY["identity"]
    scratch = torch.empty_like(like, dtype=bias.dtype)

    def apply(z: Tensor, moduli: Tensor | None) -> None:
        shifted = scratch[: z.shape[0]]
        modulus = moduli
        if modulus is None:  # real: the backward pass needs no moduli
            modulus = shifted
        torch.abs(z, out=modulus)
        torch.add(modulus, bias, out=shifted).relu_()
        z.sgn_().mul_(shifted)

    return apply


def backward_in_place(
    name: str,
    bias: Tensor | None,  # (N,)
    like: Tensor,  # (B, N)
) -> _Backward:
    """Return the in-place map from the gradient of h to the gradient of z.

    The map takes the gradient, h and, if they are complex, the moduli of z.
    """
    if name != "modrelu":
        return _BACKWARD[name]
    if bias is None:
        return _BACKWARD["identity"]
    if like.is_complex():
        return lambda g, h, m: g.copy_(NONLINEARITIES["modrelu"].backward(g, h, bias, m))
    # allocated once for all steps
    scratch = torch.empty_like(like)

    def backward(g: Tensor, h: Tensor, _: Tensor | None) -> None:
        # the gradient passes where h is not zero; the threshold kernel compares with |h| > 0
        modulus = scratch[: h.shape[0]]
        torch.abs(h, out=modulus)
        _aten.threshold_backward.grad_input(g, modulus, 0, grad_input=g)

    return backward
