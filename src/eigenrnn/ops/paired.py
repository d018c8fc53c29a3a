"""Complex numbers as pairs of neighbouring real numbers, which is how they lie in memory."""

import torch
from torch import Tensor

__all__ = ["as_complex", "as_pairs", "matrix_of_pairs"]


def as_pairs(
    z: Tensor,  # (..., N), complex
) -> Tensor:  # (..., 2N)
    """Write real and imaginary parts side by side."""
    return torch.view_as_real(z.resolve_conj()).flatten(-2)


def as_complex(
    pairs: Tensor,  # (..., 2N)
) -> Tensor:  # (..., N), complex
    """Read every two numbers as one."""
    return torch.view_as_complex(pairs.unflatten(-1, (-1, 2)))


def matrix_of_pairs(
    W: Tensor,  # (N, M), complex
) -> Tensor:  # (2N, 2M)
    r"""Write W as the real matrix that does the same to pairs.

    Each entry :math:`a + b\,i` becomes the block :math:`\begin{pmatrix} a & -b \\ b & a
    \end{pmatrix}`.
    """
    columns = torch.stack([W, W * 1j], dim=-1)  # what 1 and i are sent to: (N, M, 2)
    return torch.view_as_real(columns).permute(0, 3, 1, 2).flatten(2).flatten(0, 1)
