"""Complex numbers as pairs of neighbouring real numbers, which is how they lie in memory."""

import torch
from torch import Tensor

__all__ = ["as_complex", "as_pairs", "matrix_of_pairs"]


def as_pairs(
    z: Tensor,  # (..., N), complex
) -> Tensor:  # (..., 2N)
    """Write real and imaginary parts side by side."""
    if not z.shape[-1]:  # whose gradient a view would not take
        return z.real
    return torch.view_as_real(z.resolve_conj()).flatten(-2)


def as_complex(
    pairs: Tensor,  # (..., 2N)
) -> Tensor:  # (..., N), complex
    """Read every two numbers as one."""
    numbers = pairs.unflatten(-1, (pairs.shape[-1] // 2, 2))
    if not pairs.shape[-1]:  # whose strides a view would not take
        return torch.complex(numbers[..., 0], numbers[..., 1])
    return torch.view_as_complex(numbers)


def matrix_of_pairs(
    W: Tensor,  # (N, M), complex
) -> Tensor:  # (2N, 2M)
    r"""Write W as the real matrix that does the same to pairs.

    Each entry :math:`a + b\,i` becomes the block :math:`\begin{pmatrix} a & -b \\ b & a
    \end{pmatrix}`.
    """
    a, b = W.real, W.imag
    upper, lower = torch.stack([a, -b], dim=-1), torch.stack([b, a], dim=-1)  # (N, M, 2)
    return torch.stack([upper, lower], dim=1).flatten(2).flatten(0, 1)
