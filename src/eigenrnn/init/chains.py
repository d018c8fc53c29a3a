"""Non-normal starts of recurrent matrices, through which a signal passes as along a chain.

A matrix acts on a state as W h, as in `torch.nn.RNN`: its entry at row i and column j takes unit j
to unit i.
"""

from typing import Literal

import torch
from torch import Generator, Tensor

__all__ = ["ChainDirection", "chain_", "check_square", "feedback_chain_", "ramp_", "source_"]

ChainDirection = Literal["forward", "backward"]


@torch.no_grad()
def chain_(
    weight: Tensor,  # (N, N)
    alpha: float = 1.0,
    *,
    direction: ChainDirection = "forward",
    generator: Generator | None = None,
) -> Tensor:
    r"""Fill with a chain, by which a pulse passes through all units once and leaves.

    .. math:: W_{i j} = \alpha\, \delta_{i, j + 1} \qquad W^N = 0

    Args:
        weight: The recurrent matrix, changed in place.
        alpha: What each unit passes on to the next; 0.99 to 1.05 in the paper.
        direction: ``"forward"``, in which unit i drives unit i + 1, is the paper's. The released
            code for torch builds ``"backward"``: its input, which enters at the first units, is
            gone after as many steps.
        generator: There for the common signature.
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
    r"""Fill with a chain whose units also drive the one before them.

    .. math:: W_{i j} = \alpha\, \delta_{i, j + 1} + \beta\, \delta_{i, j - 1}

    Args:
        weight: The recurrent matrix, changed in place.
        alpha: What each unit passes on to the next.
        beta: What it passes back; 0.01 to 0.07 in the paper.
        direction: See `chain_`.
        generator: There for the common signature.
    Raises:
        ValueError: If the weight is not square or the direction is unknown.
    Source:
        Orhan and Pitkow, ICLR 2020. https://arxiv.org/abs/1905.13715
    """
    check_square(weight)
    off = {"forward": -1, "backward": 1}.get(direction)
    if off is None:
        raise ValueError(f"expected direction to be 'forward' or 'backward', got {direction!r}")
    weight.zero_()
    weight.diagonal(off).fill_(alpha)
    weight.diagonal(-off).fill_(beta)
    return weight


@torch.no_grad()
def ramp_(
    weight: Tensor,  # (N, N)
    end: float = 0.01,
    *,
    direction: ChainDirection = "forward",
    generator: Generator | None = None,  # noqa: ARG001
) -> Tensor:
    r"""Fill with a Toeplitz matrix that rises from one corner to the other.

    .. math:: W_{i j} = e\, \frac{i - j}{N - 1}

    Args:
        weight: The recurrent matrix of a sigmoid gate, changed in place.
        end: The entry e of the corner at the lower left.
        direction: ``"backward"`` gives the transpose, as in the released code for torch.
        generator: There for the common signature.
    Raises:
        ValueError: If the weight is not square or the direction is unknown.
    Source:
        Orhan and Pitkow, ICLR 2020: the sigmoid gates of the LSTM called mixed.
        https://arxiv.org/abs/1905.13715
    """
    check_square(weight)
    if direction not in ("forward", "backward"):
        raise ValueError(f"expected direction to be 'forward' or 'backward', got {direction!r}")
    n = weight.shape[0]
    i = torch.arange(n, device=weight.device, dtype=weight.real.dtype)
    ramp = end * (i[:, None] - i) / max(n - 1, 1)
    return weight.copy_(ramp if direction == "forward" else ramp.T)


@torch.no_grad()
def source_(
    weight: Tensor,  # (N, M)
    scale: float = 0.9,
    *,
    generator: Generator | None = None,  # noqa: ARG001
) -> Tensor:
    r"""Fill with :math:`s I`, by which input j enters at unit j, the source of a chain.

    Source:
        Orhan and Pitkow, ICLR 2020: the input matrix beside a chain.
        https://arxiv.org/abs/1905.13715
    """
    check_matrix(weight)
    weight.zero_()
    weight.diagonal().fill_(scale)
    return weight


def check_weight(weight: object, dim: int = 0) -> None:
    """Refuse what cannot be filled with numbers, or has fewer axes than are needed.

    Raises:
        TypeError: If it is not a dense tensor of a floating-point or complex type.
        ValueError: If it has fewer than `dim` axes.
    """
    if not isinstance(weight, Tensor):
        raise TypeError(f"expected the weight to be a tensor, got {type(weight).__name__}")
    fills = weight.is_floating_point() or weight.is_complex()
    if not fills or weight.itemsize < 2 or weight.layout != torch.strided:
        raise TypeError(
            f"expected a dense floating-point weight, got {weight.dtype}, {weight.layout}"
        )
    if weight.dim() < dim:
        raise ValueError(f"expected a weight of {dim} axes, got shape {tuple(weight.shape)}")


def check_matrix(weight: Tensor) -> None:
    """Refuse a weight that is not a matrix.

    Raises:
        ValueError: If it is not.

    And raises the errors of `check_weight`.
    """
    check_weight(weight)
    if weight.dim() != 2:
        raise ValueError(f"expected a matrix, got shape {tuple(weight.shape)}")


def check_square(weight: Tensor) -> None:
    """Refuse a weight that is no square matrix.

    Raises:
        ValueError: If it is none.

    And raises the errors of `check_weight`.
    """
    check_weight(weight)
    if weight.dim() != 2 or weight.shape[0] != weight.shape[1]:
        raise ValueError(f"expected a square matrix, got shape {tuple(weight.shape)}")
