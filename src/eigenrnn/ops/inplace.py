"""The nonlinearities of the loops as in-place operations, forward and back."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.nonlinearities import LEAKY_SLOPES, NONLINEARITIES

__all__ = ["apply_in_place", "pull_in_place"]

_aten = torch.ops.aten

_APPLY: dict[str, Callable[[Tensor], object]] = {
    "tanh": torch.tanh_,
    "relu": torch.relu_,
    "elu": F.elu_,
    **{name: partial(F.leaky_relu_, negative_slope=slope) for name, slope in LEAKY_SLOPES.items()},
    "identity": lambda z: z,
}

# torch's own backward kernels, each one pass over g and h
_PULL: dict[str, Callable[[Tensor, Tensor], object]] = {
    "tanh": lambda g, h: _aten.tanh_backward.grad_input(g, h, grad_input=g),
    "relu": lambda g, h: _aten.threshold_backward.grad_input(g, h, 0, grad_input=g),
    "elu": lambda g, h: _aten.elu_backward.grad_input(g, 1, 1, 1, True, h, grad_input=g),
    **{
        name: lambda g, h, slope=slope: _aten.leaky_relu_backward.grad_input(
            g, h, slope, True, grad_input=g
        )
        for name, slope in LEAKY_SLOPES.items()
    },
    "identity": lambda g, _: g,
}


def apply_in_place(
    name: str,
    bias: Tensor | None,  # (N,)
    like: Tensor,  # (B, N)
) -> Callable[[Tensor], object]:
    """Return the nonlinearity as an in-place operation on the first rows of a batch."""
    if name != "modrelu":
        return _APPLY[name]
    if bias is None:
        return _APPLY["identity"]
    scratch = torch.empty_like(like, dtype=bias.dtype)

    def apply(z: Tensor) -> None:
        modulus = scratch[: z.shape[0]]
        torch.abs(z, out=modulus)
        modulus.add_(bias).relu_()
        z.sgn_().mul_(modulus)

    return apply


def pull_in_place(
    name: str,
    bias: Tensor | None,  # (N,)
    like: Tensor,  # (B, N)
) -> Callable[[Tensor, Tensor], object]:
    """Return the map from the gradient of h to that of z, in place, given h."""
    if name != "modrelu":
        return _PULL[name]
    if bias is None:
        return _PULL["identity"]
    if like.is_complex():
        return lambda g, h: g.copy_(NONLINEARITIES["modrelu"].pull(g, h, bias))
    scratch = torch.empty_like(like)

    def pull(g: Tensor, h: Tensor) -> None:
        modulus = scratch[: h.shape[0]]
        torch.abs(h, out=modulus)
        _aten.threshold_backward.grad_input(g, modulus, 0, grad_input=g)

    return pull
