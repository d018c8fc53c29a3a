"""Unitary matrices as a product of diagonals, reflections and Fourier transforms."""

import math

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.init import glorot_uniform_
from eigenrnn.linalg import orthogonality_error

__all__ = ["FourierProduct"]


class FourierProduct(Constraint):
    r"""Unitary matrices as a product of diagonals, reflections and Fourier transforms.

    .. math:: W = D_3 R_2 \mathcal F^{-1} D_2 \Pi R_1 \mathcal F D_1, \qquad
        D_k = \operatorname{diag}(e^{i \theta_k}), \qquad
        R_k = I - 2 \frac{v_k v_k^*}{\|v_k\|^2}

    W is unitary for all phases and all nonzero vectors; :math:`\mathcal F` is the Fourier
    transform with the factor :math:`1 / \sqrt N`, and :math:`\Pi` a fixed permutation. The 7 N
    real parameters reach only a thin subset of the unitary matrices, which no formula describes.
    So `residual` measures the distance from all unitary matrices, and `assign` raises an error.

    Args:
        size: The number N of rows and columns.
    Shape:
        theta: :math:`(3, N)`, the phases of :math:`D_1, D_2, D_3`.
        v: :math:`(2, 2 N)`, the real and then the imaginary parts of :math:`v_1` and :math:`v_2`.
        permutation: :math:`(N,)`, the source index of each entry.
    Units:
        Phases in radians; all else dimensionless.
    Raises:
        ValueError: If `size` is not a positive integer.
    Source:
        Arjovsky, Shah and Bengio, ICML 2016, equation 6. https://arxiv.org/abs/1511.06464
        (departures: none; its code applies the same factors in the same order to row vectors, so
        :math:`D_1` acts first there, as it does in :math:`W h`).
    Example:
        >>> W = FourierProduct(8)()
        >>> torch.allclose(W @ W.mH, torch.eye(8, dtype=W.dtype), atol=1e-6)
        True
    """

    is_complex = True

    tensor_attributes = ("permutation",)

    def __init__(self, size: int) -> None:
        super().__init__(size)
        # the same generator and seed as in the published code
        permutation = np.random.RandomState(1234).permutation(self.size)
        self.permutation = torch.as_tensor(permutation, device="cpu")
        self.theta = Parameter(torch.empty(3, self.size))
        self.v = Parameter(torch.empty(2, 2 * self.size))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self.theta.uniform_(-math.pi, math.pi, generator=generator)
        glorot_uniform_(self.v, generator=generator)

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        return orthogonality_error(W)

    def _matrix(self) -> Tensor:
        # the factors act on all columns of the identity at once, in O(N^2 log N)
        D = torch.exp(1j * self.theta).unsqueeze(-1)
        real, imaginary = self.v.chunk(2, dim=1)
        v = torch.complex(real, imaginary)
        h = torch.fft.fft(torch.diag(D[0, :, 0]), dim=0, norm="ortho")
        h = D[1] * _reflected(h, v[0])[self.permutation.to(self.device)]
        h = torch.fft.ifft(h, dim=0, norm="ortho")
        return D[2] * _reflected(h, v[1])


def _reflected(
    h: Tensor,  # (N, N)
    v: Tensor,  # (N,)
) -> Tensor:  # (N, N)
    """Reflect every column in the hyperplane orthogonal to v."""
    u = v / torch.linalg.vector_norm(v)
    return h - 2 * torch.outer(u, u.conj() @ h)
