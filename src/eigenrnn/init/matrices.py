"""Starts of weights, in place, in the style of `torch.nn.init`, each with its own generator."""

import math
from typing import Protocol

import torch
from torch import Generator, Tensor

from eigenrnn.init.chains import (
    check_matrix,
    check_square,
    check_weight,
    source_,
)

__all__ = [
    "Initializer",
    "constant_",
    "fan_normal_",
    "fan_uniform_",
    "glorot_normal_",
    "glorot_uniform_",
    "haar_",
    "identity_",
    "kaiming_normal_",
    "orthogonal_",
    "uniform_",
    "zeros_",
]


class Initializer(Protocol):
    """Fills a weight in place, as every function here does."""

    def __call__(self, weight: Tensor, *, generator: Generator | None = None) -> Tensor: ...


@torch.no_grad()
def uniform_(weight: Tensor, bound: float = 0.01, *, generator: Generator | None = None) -> Tensor:
    """Fill with draws from U(-bound, bound)."""
    check_weight(weight)
    return weight.uniform_(-bound, bound, generator=generator)


@torch.no_grad()
def fan_uniform_(
    weight: Tensor,  # (N, ...)
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill with draws from :math:`U(-1/\sqrt N, 1/\sqrt N)`, as `torch.nn.RNN` does."""
    check_weight(weight, 1)
    bound = 1 / math.sqrt(weight.shape[0]) if weight.shape[0] else 0.0
    return weight.uniform_(-bound, bound, generator=generator)


@torch.no_grad()
def glorot_uniform_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:
    r"""Fill with draws from :math:`U(-a, a)`, :math:`a^2 = 6 / (\text{fan in} + \text{fan out})`.

    A vector counts as a map of its own length to its own length, as in TensorFlow 1.

    Source:
        Glorot and Bengio, AISTATS 2010. https://proceedings.mlr.press/v9/glorot10a.html
    """
    check_weight(weight, 1)
    bound = math.sqrt(6 / max(1, weight.shape[0] + weight.shape[-1]))
    return weight.uniform_(-bound, bound, generator=generator)


@torch.no_grad()
def glorot_normal_(
    weight: Tensor,  # (N, M)
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill with draws of standard deviation :math:`\sqrt{2 / (N + M)}`.

    Source:
        Glorot and Bengio, AISTATS 2010. https://proceedings.mlr.press/v9/glorot10a.html
    """
    check_weight(weight, 1)
    return weight.normal_(0, math.sqrt(2 / max(1, sum(weight.shape))), generator=generator)


@torch.no_grad()
def kaiming_normal_(
    weight: Tensor,  # (N, M)
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill with draws of standard deviation :math:`\sqrt{2 / M}`.

    Source:
        He, Zhang, Ren and Sun, ICCV 2015. https://arxiv.org/abs/1502.01852
    """
    check_weight(weight, 2)
    return weight.normal_(0, math.sqrt(2 / max(1, weight.shape[1])), generator=generator)


@torch.no_grad()
def haar_(
    weight: Tensor,  # (N, N)
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with a uniformly distributed rotation, or unitary matrix where the weight is complex.

    The Haar measure on SO(N) or U(N).

    Raises the errors of `check_square`.

    Source:
        Mezzadri, Notices of the AMS 54, 2007. https://arxiv.org/abs/math-ph/0609050
    """
    check_square(weight)
    exact = torch.complex128 if weight.is_complex() else torch.float64
    gaussian = torch.empty_like(weight, dtype=exact).normal_(generator=generator)
    Q, R = torch.linalg.qr(gaussian)
    uniform = Q * R.diagonal().sgn()  # without the signs of R, QR is not uniform
    if not weight.is_complex():
        uniform[:, 0] *= torch.linalg.det(uniform).sgn()
    return weight.copy_(uniform)


@torch.no_grad()
def zeros_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:  # noqa: ARG001
    """Fill with zeros; the generator is there for the common signature."""
    check_weight(weight)
    return weight.zero_()


@torch.no_grad()
def constant_(
    weight: Tensor,
    value: float,
    *,
    generator: Generator | None = None,  # noqa: ARG001
) -> Tensor:
    """Fill with one value."""
    check_weight(weight)
    return weight.fill_(value)


@torch.no_grad()
def fan_normal_(
    weight: Tensor,  # (N, ...)
    scale: float = 0.9,
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill with draws of standard deviation :math:`s / \sqrt N`, s the scale.

    Source:
        Orhan and Pitkow, ICLR 2020: the input matrix beside an orthogonal or identity W.
        https://arxiv.org/abs/1905.13715
    """
    check_weight(weight, 1)
    return weight.normal_(0, scale / math.sqrt(max(1, weight.shape[0])), generator=generator)


@torch.no_grad()
def identity_(
    weight: Tensor,  # (N, N)
    scale: float = 1.0,
    *,
    generator: Generator | None = None,  # noqa: ARG001
) -> Tensor:
    r"""Fill with :math:`\lambda I`.

    Raises:
        ValueError: If the weight is not square.
    Source:
        Le, Jaitly and Hinton, 2015. https://arxiv.org/abs/1504.00941
    """
    check_square(weight)
    return source_(weight, scale)


@torch.no_grad()
def orthogonal_(
    weight: Tensor,  # (N, M)
    scale: float = 1.0,
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill with :math:`\lambda Q`, the first rows and columns of a rotation as `haar_` draws it.

    Raises the errors of `check_matrix`.
    """
    check_matrix(weight)
    N, M = weight.shape
    square = weight.new_empty(max(N, M), max(N, M))
    return weight.copy_(haar_(square, generator=generator)[:N, :M]).mul_(scale)
