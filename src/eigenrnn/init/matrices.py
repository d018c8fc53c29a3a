"""In-place initialisers of weights, in the style of `torch.nn.init`; each takes a generator.

In a chain, a signal passes from unit to unit. The entry at row i and column j connects unit j to
unit i, as in `torch.nn.RNN`.
"""

import math
from typing import Literal, Protocol

import torch
from torch import Generator, Tensor

__all__ = [
    "ChainDirection",
    "Initializer",
    "chain_",
    "check_square",
    "constant_",
    "fan_normal_",
    "fan_uniform_",
    "feedback_chain_",
    "glorot_normal_",
    "glorot_uniform_",
    "haar_",
    "identity_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "orthogonal_",
    "ramp_",
    "source_",
    "uniform_",
    "zeros_",
]

ChainDirection = Literal["forward", "backward"]


class Initializer(Protocol):
    """The type of the initialisers: a function that fills a weight in place."""

    def __call__(self, weight: Tensor, *, generator: Generator | None = None) -> Tensor: ...


@torch.no_grad()
def uniform_(weight: Tensor, bound: float = 0.01, *, generator: Generator | None = None) -> Tensor:
    """Fill with draws from U(-bound, bound)."""
    return weight.uniform_(-bound, bound, generator=generator)


@torch.no_grad()
def fan_uniform_(
    weight: Tensor,  # (N, ...)
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill with draws from :math:`U(-1/\sqrt N, 1/\sqrt N)`, as `torch.nn.RNN` does."""
    bound = 1 / math.sqrt(max(1, weight.shape[0]))  # a weight may be empty
    return weight.uniform_(-bound, bound, generator=generator)


@torch.no_grad()
def glorot_uniform_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:
    r"""Fill with draws from :math:`U(-a, a)`, :math:`a^2 = 6 / (\text{fan in} + \text{fan out})`.

    For a vector of length n, both fans are n, as in TensorFlow 1.

    Source:
        Glorot and Bengio, AISTATS 2010. https://proceedings.mlr.press/v9/glorot10a.html
    """
    bound = math.sqrt(6 / max(1, weight.shape[0] + weight.shape[-1]))  # a weight may be empty
    return weight.uniform_(-bound, bound, generator=generator)


@torch.no_grad()
def glorot_normal_(
    weight: Tensor,  # (N, M)
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill an (N, M) weight with normal draws of standard deviation :math:`\sqrt{2 / (N + M)}`.

    Source:
        Glorot and Bengio, AISTATS 2010. https://proceedings.mlr.press/v9/glorot10a.html
    """
    return weight.normal_(0, math.sqrt(2 / max(1, sum(weight.shape))), generator=generator)


@torch.no_grad()
def kaiming_normal_(
    weight: Tensor,  # (N, M)
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill an (N, M) weight with normal draws of standard deviation :math:`\sqrt{2 / M}`.

    Source:
        He, Zhang, Ren and Sun, ICCV 2015. https://arxiv.org/abs/1502.01852
    """
    _check_matrix(weight)
    return weight.normal_(0, math.sqrt(2 / max(1, weight.shape[1])), generator=generator)


@torch.no_grad()
def kaiming_uniform_(
    weight: Tensor,  # (N, M)
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill an (N, M) weight with draws from :math:`U(-a, a)`, :math:`a^2 = 6 / M`.

    Source:
        He, Zhang, Ren and Sun, ICCV 2015. https://arxiv.org/abs/1502.01852
    """
    _check_matrix(weight)
    bound = math.sqrt(6 / max(1, weight.shape[1]))  # a weight may be empty
    return weight.uniform_(-bound, bound, generator=generator)


@torch.no_grad()
def haar_(
    weight: Tensor,  # (N, N)
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Fill with a random rotation, or unitary matrix if complex, from the Haar measure.

    The Haar measure is the uniform distribution on SO(N) or U(N).

    Raises:
        ValueError: If the weight is not square.
    Source:
        Mezzadri, Notices of the AMS 54, 2007. https://arxiv.org/abs/math-ph/0609050
    """
    check_square(weight)
    uniform = _haar_columns(weight, generator)
    if not weight.is_complex():  # from O(N) to SO(N)
        uniform[:, 0] *= torch.linalg.det(uniform).sgn()
    return weight.copy_(uniform)


@torch.no_grad()
def zeros_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:  # noqa: ARG001
    """Fill with zeros; the generator is unused."""
    return weight.zero_()


@torch.no_grad()
def constant_(
    weight: Tensor,
    value: float,
    *,
    generator: Generator | None = None,  # noqa: ARG001
) -> Tensor:
    """Fill with one value."""
    return weight.fill_(value)


@torch.no_grad()
def fan_normal_(
    weight: Tensor,  # (N, ...)
    scale: float = 0.9,
    *,
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill with normal draws of standard deviation :math:`s / \sqrt N`, where s is the scale.

    Source:
        Orhan and Pitkow, ICLR 2020: the input matrix beside an orthogonal or identity W.
        https://arxiv.org/abs/1905.13715
    """
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
    r"""Fill with :math:`\lambda Q`; Q is distributed as the leading part of a draw of `haar_`."""
    _check_matrix(weight)
    N, M = weight.shape
    if N == M:
        haar_(weight, generator=generator)
    else:  # of fewer columns than rows no determinant has to be one
        tall = weight if N > M else weight.T
        tall.copy_(_haar_columns(tall, generator))
    return weight.mul_(scale)


@torch.no_grad()
def chain_(
    weight: Tensor,  # (N, N)
    alpha: float = 1.0,
    *,
    direction: ChainDirection = "forward",
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill with a chain, through which a pulse visits each unit once.

    .. math:: W_{i j} = \alpha\, \delta_{i, j + 1} \qquad W^N = 0

    Args:
        weight: The recurrent matrix, changed in place.
        alpha: The weight from each unit to the next; 0.99 to 1.05 in the paper.
        direction: ``"forward"``, as in the paper: unit i drives unit i + 1. The released code for
            torch builds ``"backward"``: its M inputs enter at the first M units, and the signal is
            gone after M steps.
        generator: Unused; part of the common signature.
    Raises:
        ValueError: If the weight is not square or the direction is unknown.
    Source:
        Orhan and Pitkow, ICLR 2020. https://arxiv.org/abs/1905.13715
    """
    return feedback_chain_(weight, alpha, 0.0, direction=direction, generator=generator)


@torch.no_grad()
def feedback_chain_(
    weight: Tensor,  # (N, N)
    alpha: float = 0.99,
    beta: float = 0.01,
    *,
    direction: ChainDirection = "forward",
    generator: Generator | None = None,  # noqa: ARG001
) -> Tensor:
    r"""Fill with a chain whose units also drive the previous unit.

    .. math:: W_{i j} = \alpha\, \delta_{i, j + 1} + \beta\, \delta_{i, j - 1}

    Args:
        weight: The recurrent matrix, changed in place.
        alpha: The weight from each unit to the next.
        beta: The weight from each unit to the previous one; 0.01 to 0.07 in the paper.
        direction: See `chain_`.
        generator: Unused; part of the common signature.
    Raises:
        ValueError: If the weight is not square or the direction is unknown.
    Source:
        Orhan and Pitkow, ICLR 2020. https://arxiv.org/abs/1905.13715
    """
    check_square(weight)
    _check_direction(direction)
    # the entry below the diagonal, at row j + 1 and column j, leads from unit j to the next
    towards_next = -1 if direction == "forward" else 1
    weight.zero_()
    weight.diagonal(towards_next).fill_(alpha)
    weight.diagonal(-towards_next).fill_(beta)
    return weight


@torch.no_grad()
def ramp_(
    weight: Tensor,  # (N, N)
    end: float = 0.01,
    *,
    direction: ChainDirection = "forward",
    generator: Generator | None = None,  # noqa: ARG001
) -> Tensor:
    r"""Fill with a Toeplitz matrix whose diagonals rise linearly from -e to e.

    .. math:: W_{i j} = e\, \frac{i - j}{N - 1}

    Args:
        weight: The recurrent matrix of a sigmoid gate, changed in place.
        end: The entry e at the lower left corner.
        direction: ``"backward"`` gives the transpose, as in the released code for torch.
        generator: Unused; part of the common signature.
    Raises:
        ValueError: If the weight is not square or the direction is unknown.
    Source:
        Orhan and Pitkow, ICLR 2020: the sigmoid gates of the "mixed" LSTM.
        https://arxiv.org/abs/1905.13715
    """
    check_square(weight)
    _check_direction(direction)
    n = weight.shape[0]
    i = torch.arange(n, dtype=torch.float64, device="cpu")  # 16 bits cannot count to 300
    ramp = end * (i[:, None] - i) / max(n - 1, 1)
    if direction == "backward":
        ramp = ramp.T
    return weight.copy_(ramp)


@torch.no_grad()
def source_(
    weight: Tensor,  # (N, M)
    scale: float = 0.9,
    *,
    generator: Generator | None = None,  # noqa: ARG001
) -> Tensor:
    r"""Fill with :math:`s I`: input j enters at unit j, the source of a chain.

    Source:
        Orhan and Pitkow, ICLR 2020: the input matrix beside a chain.
        https://arxiv.org/abs/1905.13715
    """
    _check_matrix(weight)
    weight.zero_()
    weight.diagonal().fill_(scale)
    return weight


def _haar_columns(
    weight: Tensor,  # (N, M), N >= M
    generator: Generator | None,
) -> Tensor:  # (N, M)
    """Return the first columns of a uniform orthogonal or unitary matrix, in double precision.

    The rounded result then is as orthogonal as its type allows.
    """
    exact = torch.complex128 if weight.is_complex() else torch.float64
    gaussian = torch.empty_like(weight, dtype=exact).normal_(generator=generator)
    Q, R = torch.linalg.qr(gaussian)
    return Q * R.diagonal().sgn()  # without the signs of R, QR is not uniform


def _check_matrix(weight: Tensor) -> None:
    if weight.dim() != 2:
        raise ValueError(f"expected a matrix, got shape {tuple(weight.shape)}")


def _check_direction(direction: object) -> None:
    if direction not in ("forward", "backward"):
        raise ValueError(f"expected direction to be 'forward' or 'backward', got {direction!r}")


def check_square(weight: Tensor) -> None:
    """Check that a weight is a square matrix.

    Raises:
        ValueError: If it is not.
    """
    if weight.dim() != 2 or weight.shape[0] != weight.shape[1]:
        raise ValueError(f"expected a square matrix, got shape {tuple(weight.shape)}")
