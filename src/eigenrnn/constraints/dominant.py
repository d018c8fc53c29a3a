"""The eigenvalue of the largest modulus, which is the spectral radius, and its eigenvectors."""

from typing import TypeAlias

import torch
from torch import Generator, Tensor

from eigenrnn.linalg import check_finite

__all__ = ["dominant"]

_Pair: TypeAlias = tuple[Tensor, Tensor, Tensor]
"""An eigenvalue, its right eigenvector u of length 1, its left eigenvector v with v* u = 1."""

# Milliseconds on one core, medians over the steps of a run, taken in turn (the right vectors only
# for torch.linalg.eig). Runs: adding at N = 64, speech at 94 and text at 720 with the rates of the
# ENRNN paper, text with many close moduli "at first"; and Gaussian matrices that walk at random.
#
#       N           torch.linalg.eig    all eigenvalues, one solve    Arnoldi from the last pair
#      64                        0.9                           0.8                           3.2
#      94                        2.5                           1.9                           6.9
#     256 walk                    27                            23                            22
#     384 walk                    56                            44                            34
#     512 walk                   380                           359                            67
#     720 at first               207                           180                            16
#     720                        213                           184                             8
#     720 walk                   251                           207                           139
#
# Iterating a plane of two vectors takes 250 products at N = 64 (7 ms), and does not arrive at
# N = 720 where the eigenvalue is real and the next two are close to each other.
_LARGE = 256

# after which numbers of products the iteration looks whether it has arrived
_LOOKS = (12, 18, 24, 32, 40, 50, 60, 75, 90, 110, 130, 155, 185, 220)


@torch.library.custom_op("eigenrnn::dominant", mutates_args=())
def dominant(
    T: Tensor,  # (N, N)
    seen: Tensor,  # (N, N)
    rho: Tensor,  # ()
    right: Tensor,  # (N, 2)
    left: Tensor,  # (N, 2)
) -> tuple[Tensor, Tensor, Tensor]:  # (), (N, 2), (N, 2)
    r"""Return the spectral radius of T and the two factors of its gradient.

    .. math:: \frac{\partial \rho}{\partial T} = L R^\top, \qquad
        R = [\Re u, \Im u], \qquad L = [\Re w, \Im w], \qquad
        w = \frac{\lambda}{|\lambda|} \frac{v}{u^* v}

    for :math:`T u = \lambda u`, :math:`v^* T = \lambda v^*` and :math:`|\lambda| = \rho(T)`. L is
    zero where there is no gradient to be had: where T is nilpotent, or cannot be told from a
    matrix with a multiple eigenvalue at the precision of its type.

    Args:
        T: The matrix, real.
        seen: The matrix of which `rho`, `right` and `left` are what this function gave; they are
            given again if it equals T, and are where the search begins if not.
        rho: The spectral radius of `seen`.
        right: R of `seen`.
        left: L of `seen`.
    Source:
        Helfrich and Ye, AAAI 2020, Proposition 3.2. https://arxiv.org/abs/1911.07964 (departures:
        the derivative of the modulus has the 1 / rho of equation 7, see `SpectralRadius`).
    """
    if torch.equal(T, seen):
        return rho.clone(), right.clone(), left.clone()
    zero = torch.zeros_like(right)
    if not bool(torch.isfinite(T).all()):
        return T.new_full((), torch.nan), zero, zero.clone()
    exact = T.cpu().double()
    epsilon = torch.finfo(T.dtype).eps
    begin = right.cpu().double(), left.cpu().double()
    pair = _by_iteration(exact, *begin, epsilon) if len(T) > _LARGE else None
    eigenvalue, u, v = _from_all(exact) if pair is None else pair
    found = eigenvalue.abs().to(T)
    # rounding parts a multiple eigenvalue by about sqrt(epsilon), where |v| is one over that
    if not (found > 0 and torch.linalg.vector_norm(v) * epsilon**0.5 < 0.1):  # or it is NaN
        return found, zero, zero.clone()
    w = v * eigenvalue.sgn()
    return found, torch.view_as_real(u).to(T), torch.view_as_real(w).to(T)


@dominant.register_fake
def _(
    T: Tensor,
    seen: Tensor,  # noqa: ARG001, the operator's signature
    rho: Tensor,
    right: Tensor,
    left: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return T.new_empty(rho.shape), T.new_empty(right.shape), T.new_empty(left.shape)


def _from_all(T: Tensor) -> _Pair:
    """Compute all eigenvalues, and the vectors of one by inverse iteration."""
    check_finite(T, "T")
    eigenvalues = torch.linalg.eigvals(T)
    eigenvalue = eigenvalues[eigenvalues.abs().argmax()]
    nearby = eigenvalue * (1 + 1e-10)  # at the eigenvalue itself there is nothing to invert
    I = torch.eye(len(T), dtype=eigenvalues.dtype)
    LU, pivots, _ = torch.linalg.lu_factor_ex(T - nearby * I)
    u = v = _anywhere(len(T)).to(LU).unsqueeze(1)
    for _ in range(2):
        u = _unit(torch.linalg.lu_solve(LU, pivots, u))
        v = _unit(torch.linalg.lu_solve(LU, pivots, v, adjoint=True))
    return eigenvalue, u[:, 0], _normalised(v[:, 0], u[:, 0])


def _by_iteration(
    T: Tensor,  # (N, N)
    right: Tensor,  # (N, 2)
    left: Tensor,  # (N, 2)
    tolerance: float,
) -> _Pair | None:
    """Search both Krylov spaces, from where the pair was last."""
    found = _arnoldi(T, right, tolerance)
    if found is None:
        return None
    eigenvalue, u = found
    found = _arnoldi(T.T, left, tolerance, eigenvalue.conj())
    if found is None:
        return None
    v = _normalised(found[1], u)
    return v.conj() @ (T.to(u) @ u), u, v  # its error is the product of those of u and v


def _arnoldi(
    T: Tensor,  # (N, N)
    begin: Tensor,  # (N, 2)
    tolerance: float,
    wanted: Tensor | None = None,
) -> tuple[Tensor, Tensor] | None:
    """Return the eigenvalue nearest to `wanted`, or the largest, and its right eigenvector."""
    most = _LOOKS[-1]
    basis, H = T.new_empty(most + 1, len(T)), T.new_zeros(most + 1, most)
    # a part of everything shows an eigenvalue that has overtaken the last one
    basis[0] = _unit(_unit(begin.sum(1)) + 0.05 * _anywhere(len(T)))
    for k in range(1, most + 1):
        y = T @ basis[k - 1]
        for _ in range(2):  # once would lose orthogonality
            h = basis[:k] @ y
            y = y - h @ basis[:k]
            H[:k, k - 1] += h
        H[k, k - 1] = torch.linalg.vector_norm(y)
        if not H[k, k - 1] > 1e-12 * torch.linalg.vector_norm(H[:k, k - 1]):
            return None  # the space is exhausted
        basis[k] = y / H[k, k - 1]
        if k in _LOOKS:
            check_finite(H, "the Hessenberg matrix of T")
            eigenvalues, X = torch.linalg.eig(H[:k, :k])
            i = _settled(eigenvalues, H[k, k - 1] * X[-1].abs(), tolerance, wanted)
            if i is not None:
                return eigenvalues[i], _unit(X[:, i] @ basis[:k].to(X))
    return None


def _settled(
    eigenvalues: Tensor,  # (k,)
    errors: Tensor,  # (k,)
    tolerance: float,
    wanted: Tensor | None,
) -> int | None:
    """Say which estimate is the one, once it is exact enough and no other may exceed it."""
    sizes = eigenvalues.abs()
    i = int(sizes.argmax() if wanted is None else (eigenvalues - wanted).abs().argmin())
    if not errors[i] <= tolerance * sizes[i]:
        return None
    own = (eigenvalues == eigenvalues[i]) | (eigenvalues == eigenvalues[i].conj())
    rivals = ~own & (sizes + errors > sizes[i])
    return None if wanted is None and bool(rivals.any()) else i


def _anywhere(n: int) -> Tensor:  # (N,)
    """Return a fixed vector of length 1 that no eigenvector is orthogonal to."""
    return _unit(torch.randn(n, dtype=torch.float64, generator=Generator().manual_seed(0)))


def _unit(x: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(x)
    return x / torch.where(length > 0, length, 1)


def _normalised(v: Tensor, u: Tensor) -> Tensor:
    """Scale v so that v* u = 1."""
    return v / (u.conj() @ v)
