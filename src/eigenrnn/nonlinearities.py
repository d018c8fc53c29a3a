"""Pointwise nonlinearities of the recurrences, with derivatives computed from their outputs.

A backward pass therefore need not store the pre-activations, and second derivatives follow from
the outputs. Complex modReLU also needs the modulus of the
pre-activation: ``|f(z)| - b`` loses the digits of ``|z|`` if ``|z|`` is far below b.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["LEAKY_SLOPES", "NONLINEARITIES", "Nonlinearity", "modrelu", "nonlinearity"]

LEAKY_SLOPES = {"leaky_relu": 0.01, "leaky_relu_0.1": 0.1}
"""Negative slopes of the leaky ReLUs: torch's default and that of oRNN."""


@dataclass(frozen=True)
class Nonlinearity:
    r"""A pointwise function f of a pre-activation z, by name.

    Args:
        name: The value of `nonlinearity=`.
        forward: :math:`(z, b) \mapsto h = f(z)`.
        backward: :math:`(g, h, b, |z|) \mapsto` the gradient of z from the gradient g of h. Only
            complex modReLU needs the modulus.
        has_bias: Whether f has a bias b, one real number per unit.
        supports_complex: Whether f is defined on complex states.
    """

    name: str
    forward: Callable[[Tensor, Tensor | None], Tensor]
    backward: Callable[[Tensor, Tensor, Tensor | None, Tensor | None], Tensor]
    has_bias: bool = False
    supports_complex: bool = False


def modrelu(
    z: Tensor,  # (..., N), real or complex
    bias: Tensor | None,  # (N,), real
) -> Tensor:  # (..., N)
    r"""Rectify the modulus of z and keep its sign or phase.

    .. math:: \operatorname{modReLU}(z) = \frac{z}{|z|} \max(|z| + b, 0), \qquad
        \operatorname{modReLU}(0) = 0

    Without a bias it is the identity.

    Source:
        Arjovsky, Shah and Bengio, ICML 2016, equation 8. https://arxiv.org/abs/1511.06464
        (departures: no epsilon under the modulus, as in Helfrich, Willmott and Ye, ICML 2018).
    """
    if bias is None:
        return z
    if not z.is_complex():
        return z.sgn() * torch.relu(z.abs() + bias)
    # |z| has no second derivative at zero, so another number takes its place
    is_zero = z == 0
    z = z.masked_fill(is_zero, 1)
    return (z.sgn() * torch.relu(z.abs() + bias)).masked_fill(is_zero, 0)


def _modrelu_backward(g: Tensor, h: Tensor, bias: Tensor | None, modulus: Tensor | None) -> Tensor:
    if bias is None:
        return g
    active = h != 0
    if not h.is_complex():
        return g * active
    # across the phase the gradient shrinks by |h| / |z|
    phase = h.sgn()
    shrink = h.abs() / torch.where(active, cast("Tensor", modulus), 1)
    # `conj` is lazy, and operators in a compiled graph ignore its flag
    radial = (g * phase.conj_physical()).real * phase
    return torch.where(active, shrink * (g - radial) + radial, 0)


NONLINEARITIES = {
    f.name: f
    for f in (
        Nonlinearity("modrelu", modrelu, _modrelu_backward, has_bias=True, supports_complex=True),
        Nonlinearity("tanh", lambda z, _: torch.tanh(z), lambda g, h, _b, _m: g * (1 - h * h)),
        Nonlinearity("relu", lambda z, _: torch.relu(z), lambda g, h, _b, _m: g * (h > 0)),
        Nonlinearity(
            "elu", lambda z, _: F.elu(z), lambda g, h, _b, _m: g * torch.where(h > 0, 1, h + 1)
        ),
        *(
            Nonlinearity(
                name,
                lambda z, _, slope=slope: F.leaky_relu(z, slope),
                lambda g, h, _b, _m, slope=slope: torch.where(h > 0, g, slope * g),
            )
            for name, slope in LEAKY_SLOPES.items()
        ),
        Nonlinearity(
            "softplus",
            # above the threshold it is z; torch's default of 20 is wrong by 1e-10 of z in float64
            lambda z, _: F.softplus(z, threshold=40.0),
            lambda g, h, _b, _m: g * -torch.expm1(-h),
        ),
        Nonlinearity(
            "retanh",  # the tanh of the positive part
            lambda z, _: torch.tanh(torch.relu(z)),
            lambda g, h, _b, _m: g * (1 - h * h) * (h > 0),
        ),
        Nonlinearity("identity", lambda z, _: z, lambda g, _h, _b, _m: g, supports_complex=True),
    )
}


def nonlinearity(name: str) -> Nonlinearity:
    """Look up a nonlinearity by its name.

    Raises:
        ValueError: If no nonlinearity has that name.
    """
    if name not in NONLINEARITIES:
        known = ", ".join(NONLINEARITIES)
        raise ValueError(f"expected a nonlinearity among {known}, got {name!r}")
    return NONLINEARITIES[name]
