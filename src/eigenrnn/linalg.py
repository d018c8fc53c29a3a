"""Small pieces of linear algebra on square matrices."""

import math

import torch
from torch import Tensor

from eigenrnn.transforms import is_traced

__all__ = [
    "at_least_float32",
    "cayley",
    "exp_skew",
    "lower",
    "orthogonality_error",
    "planar_rotation",
    "planar_skew",
    "polar_step",
    "skew",
    "strictly_lower",
    "symmetric",
    "tol",
]


def tol(dtype: torch.dtype, n: int) -> float:
    r"""Tolerance :math:`10\, n\, \varepsilon` for a computation on n x n matrices of a dtype."""
    return 10 * max(n, 1) * torch.finfo(dtype).eps


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """Return float32 for the 16-bit floating-point types and the type itself for all others."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def strictly_lower(
    A: Tensor,  # (N, N)
) -> Tensor:  # (N (N - 1) / 2,)
    """Return the entries below the diagonal, row by row."""
    n = A.shape[-1]
    rows, columns = torch.tril_indices(n, n, offset=-1, device=A.device)
    return A[rows, columns]


def lower(
    A: Tensor,  # (N, N)
) -> Tensor:  # (N (N + 1) / 2,)
    """Return the entries on and below the diagonal, row by row."""
    n = A.shape[-1]
    rows, columns = torch.tril_indices(n, n, device=A.device)
    return A[rows, columns]


def skew(
    raw: Tensor,  # (N (N - 1) / 2,)
    n: int,
) -> Tensor:  # (N, N)
    r"""Skew-symmetric matrix whose strict lower triangle holds `raw`, row by row.

    .. math:: A_{ij} = -A_{ji} = \text{raw}_{i (i - 1) / 2 + j}, \qquad i > j
    """
    rows, columns = torch.tril_indices(n, n, offset=-1, device=raw.device)
    lower = raw.new_zeros(n * n).index_put((rows * n + columns,), raw).view(n, n)
    return lower - lower.T


def symmetric(
    raw: Tensor,  # (N (N + 1) / 2,)
    n: int,
) -> Tensor:  # (N, N)
    r"""Symmetric matrix whose lower triangle, diagonal included, holds `raw`, row by row.

    .. math:: S_{ij} = S_{ji} = \text{raw}_{i (i + 1) / 2 + j}, \qquad i \ge j
    """
    rows, columns = torch.tril_indices(n, n, device=raw.device)
    half = raw.new_zeros(n * n).index_put((rows * n + columns,), raw).view(n, n)
    return half + half.tril(-1).T


def planar_skew(
    rates: Tensor,  # (N // 2,)
    n: int,
) -> Tensor:  # (N (N - 1) / 2,)
    r"""Raw entries of a skew matrix made of 2 x 2 blocks ``[[0, s], [-s, 0]]`` on the diagonal.

    An odd `n` leaves a last row and column of zeros.
    """
    i = 2 * torch.arange(n // 2, device=rates.device) + 1  # row of the entry -s of each block
    raw = rates.new_zeros(n * (n - 1) // 2)
    return raw.index_put((i * (i - 1) // 2 + i - 1,), -rates)


def planar_rotation(
    gamma: Tensor,  # (N / 2,)
    theta: Tensor,  # (N / 2,)
) -> Tensor:  # (N, N)
    r"""Matrix of 2 x 2 blocks :math:`\gamma R(\theta)` on the diagonal: turned and scaled planes.

    .. math:: R(\theta) = \begin{bmatrix} \cos \theta & -\sin \theta \\
        \sin \theta & \cos \theta \end{bmatrix}
    """
    n = 2 * len(gamma)
    i = torch.arange(0, n, 2, device=gamma.device)  # first row of each block
    c, s = gamma * torch.cos(theta), gamma * torch.sin(theta)
    places = torch.cat([i * n + i, i * n + i + 1, (i + 1) * n + i, (i + 1) * n + i + 1])
    return c.new_zeros(n * n).index_put((places,), torch.cat([c, -s, s, c])).view(n, n)


def cayley(
    A: Tensor,  # (N, N)
) -> Tensor:  # (N, N)
    r"""Cayley transform :math:`(I + A)^{-1} (I - A)` of a skew-symmetric matrix.

    An eigenvalue :math:`\pm i \tan(t / 2)` of A becomes :math:`e^{\mp i t}`.
    """
    I = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return torch.linalg.solve(I + A, I - A)


# Coefficients of the diagonal Pade approximants of exp and the largest norm that each serves to
# full precision: Higham, SIAM J. Matrix Anal. Appl. 26, 2005, table 2.3 and equation 2.1
_PADE_7 = (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0)
_PADE_13 = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)
_PADE = {torch.float32: (_PADE_7, 3.925724783138660), torch.float64: (_PADE_13, 5.371920351148152)}
_MOST_SQUARINGS = 10


def exp_skew(
    A: Tensor,  # (N, N)
) -> Tensor:  # (N, N)
    r"""Matrix exponential of a skew-symmetric matrix, orthogonal to rounding.

    .. math:: \exp(A) = \left(q(-A / 2^s)^{-1}\, q(A / 2^s)\right)^{2^s}

    The quotient is the diagonal Pade approximant, which maps skew matrices to orthogonal ones
    exactly; `torch.linalg.matrix_exp` loses about two digits of orthogonality in float32.

    Source:
        Higham, SIAM J. Matrix Anal. Appl. 26, 2005, algorithm 2.3.
        https://doi.org/10.1137/04061101X (departures: the norm that chooses s is a bound of the
        2-norm, and s is at most 10).
    """
    coefficients, largest = _PADE[A.dtype]
    value = A.detach()
    # the eigenvalues of A are pairs +-i lambda, so the Frobenius norm counts each twice
    norm = torch.minimum(_norm(value, 1), _norm(value) / math.sqrt(2))
    squarings = torch.log2(norm / largest).ceil().nan_to_num(0).clamp(0, _MOST_SQUARINGS)
    scaled = A / 2**squarings
    even, odd = _halves(scaled @ scaled, coefficients)
    odd = scaled @ odd
    power = torch.linalg.solve(even - odd, even + odd)
    if is_traced() or A.is_meta:  # there the number of squarings cannot depend on the norm
        for k in range(_MOST_SQUARINGS):
            power = torch.where(k < squarings, power @ power, power)
        return polar_step(power)
    for _ in range(int(squarings)):
        power = power @ power
    return polar_step(power) if squarings > 0 else power  # each squaring doubles the rounding


_norm = torch.linalg.matrix_norm


def _halves(A2: Tensor, coefficients: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Evaluate the even part of q, and the odd part over A, as polynomials of A squared."""
    power = torch.eye(A2.shape[-1], dtype=A2.dtype, device=A2.device)
    even, odd = coefficients[0] * power, coefficients[1] * power
    for k in range(2, len(coefficients), 2):
        power = A2 @ power if k > 2 else A2
        even = even + coefficients[k] * power
        odd = odd + coefficients[k + 1] * power
    return even, odd


def polar_step(
    W: Tensor,  # (N, N)
) -> Tensor:  # (N, N)
    """Take one Newton step from W, unitary but for rounding, towards its polar factor."""
    I = torch.eye(W.shape[-1], dtype=W.dtype, device=W.device)
    return W @ (1.5 * I - 0.5 * W.mH @ W)


def orthogonality_error(
    W: Tensor,  # (N, N)
) -> float:
    r"""Departure from orthogonality :math:`\|W^* W - I\|_F`, measured in double precision."""
    exact = W.detach().to(torch.complex128 if W.is_complex() else torch.float64)
    gram = exact.mH @ exact
    return float(_norm(gram - torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)))
