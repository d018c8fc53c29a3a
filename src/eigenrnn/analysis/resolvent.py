"""How near zI - W is to a singular matrix, for many numbers z at once."""

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from eigenrnn.analysis.matrices import NumberArray, power_of_two
from eigenrnn.linalg import check_finite

__all__ = ["smallest_singular_values", "triangular"]

_BLOCK = 32  # rows that are solved one by one, between products of matrices
_NUMBERS_AT_ONCE = 2**19
_MOST_STEPS = 256
_CHECKED_AFTER = frozenset(
    (1, 2, 3, 4, 6, 8, 11, 14, 18, 22, 27, 32, 40, 50, 64, 90, 128, 180, 256)
)

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


def triangular(W: NumberArray) -> Complexes:  # (N, N)
    """Return the upper triangular matrix that W is in some orthonormal basis."""
    check_finite(W)
    # what is triangular already keeps its eigenvalues to the last digit
    if not np.tril(W, -1).any():
        return W.astype(np.complex128)
    if not np.triu(W, 1).any():
        return W[::-1, ::-1].astype(np.complex128)
    schur: Any = scipy.linalg.schur
    return schur(W, output="complex")[0]


def smallest_singular_values(
    T: Complexes,  # (N, N)
    z: Complexes,  # (points,)
    *,
    tolerance: float = 1e-4,
) -> Floats:  # (points,)
    r"""Compute the smallest singular value of :math:`z I - T` for each z.

    By the Lanczos iteration on :math:`((z I - T)^H (z I - T))^{-1}`, which two triangular solves
    apply; all points take their steps together. Of a normal matrix they are distances to the
    nearest eigenvalue.

    Args:
        T: An upper triangular matrix, of which any other is made by `triangular`.
        z: The points.
        tolerance: The residual, as a share of the eigenvalue that is sought, at which the
            iteration ends. The relative error is at most half of it where the iteration has not
            taken the second smallest value for the smallest; most often it is near its square.
            Below :math:`\epsilon \|z I - T\|`, which stands for zero, no number has a meaning.
    Shape:
        T: :math:`(N, N)`; z and what is returned: (points,).
    Source:
        Trefethen, Computation of pseudospectra, Acta Numerica 8, 1999, section 8.
        https://doi.org/10.1017/S0962492900002932 (departures: points take their steps together,
        and what does not converge is handed to a singular value decomposition).
    Example:
        >>> smallest_singular_values(np.diag([1.0 + 0j, 2.0]), np.array([4.0 + 0j, 1.0])).round(6)
        array([2., 0.])
    """
    # all that follows has squares, which are to stay in range
    scale = max(power_of_two(T), power_of_two(z))
    return scale * _scaled_values(T / scale, z / scale, tolerance)


def _scaled_values(T: Complexes, z: Complexes, tolerance: float) -> Floats:  # (points,)
    eps, size = np.finfo(np.float64).eps, float(np.linalg.norm(T, 2))
    at_once = max(1, _NUMBERS_AT_ONCE // len(T))
    pieces = [z[k : k + at_once] for k in range(0, len(z), at_once)]
    if np.linalg.norm(np.triu(T, 1)) <= 10 * len(T) * eps * size:
        found = [np.abs(piece[:, None] - T.diagonal()).min(1) for piece in pieces]
    else:
        with np.errstate(all="ignore"):  # a singular matrix overflows, and is told by it
            found = [_lanczos(T, piece, tolerance) for piece in pieces]
    return np.maximum(np.concatenate(found), eps * (np.abs(z) + size))


def _lanczos(T: Complexes, z: Complexes, tolerance: float) -> Floats:
    largest = np.full(len(z), np.nan)  # eigenvalue of the inverse's square
    open_ = np.arange(len(z))
    q = _start(len(T), len(z))
    before, beta = np.zeros_like(q), np.zeros(len(z))
    alphas, betas = np.empty((_MOST_STEPS, len(z))), np.empty((_MOST_STEPS, len(z)))
    for k in range(_MOST_STEPS):
        r = _solve(T, z[open_], _solve_adjoint(T, z[open_], q))
        r -= beta * before
        alpha = np.einsum("np,np->p", q.conj(), r).real
        r -= alpha * q
        beta = np.linalg.norm(r, axis=0)
        alphas[k, open_], betas[k, open_] = alpha, beta
        before, q = q, r / np.where(beta > 0, beta, 1)
        if k + 1 in _CHECKED_AFTER:
            largest[open_], done = _judged(
                alphas[: k + 1, open_], betas[: k + 1, open_], tolerance
            )
            open_, before, q, beta = open_[~done], before[:, ~done], q[:, ~done], beta[~done]
            if not len(open_):
                break
    found = 1 / np.sqrt(largest)
    I = np.eye(len(T))
    for point in open_:
        found[point] = np.linalg.svd(z[point] * I - T, compute_uv=False)[-1]
    return found


def _start(n: int, points: int) -> Complexes:
    # one vector without a preferred direction for all points, the same at every call
    parts = np.random.default_rng(0).standard_normal((2, n))
    q = parts[0] + 1j * parts[1]
    return np.repeat((q / np.linalg.norm(q))[:, None], points, axis=1)


def _judged(alphas: Floats, betas: Floats, tolerance: float) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the largest eigenvalue so far of each point, and whether it is good enough."""
    steps, points = alphas.shape
    lost = ~(np.isfinite(alphas).all(0) & np.isfinite(betas).all(0))
    tridiagonal = np.zeros((points, steps, steps))
    k = np.arange(steps)
    tridiagonal[:, k, k] = np.where(lost, 1, alphas).T
    tridiagonal[:, k[1:], k[:-1]] = np.where(lost, 0, betas[:-1]).T
    values, vectors = np.linalg.eigh(tridiagonal)
    top = values[:, -1]
    residual = np.where(lost, 0, betas[-1]) * np.abs(vectors[:, -1, -1])
    top = np.where(lost, np.inf, top)
    return top, lost | (residual <= tolerance * top)


def _solve(T: Complexes, z: Complexes, B: Complexes) -> Complexes:
    """Return the columns x that solve (z I - T) x = b, each with a z of its own."""
    X = B.copy()
    for top in reversed(range(0, len(T), _BLOCK)):
        end = min(top + _BLOCK, len(T))
        X[top:end] += T[top:end, end:] @ X[end:]
        for i in reversed(range(top, end)):
            X[i] = (X[i] + T[i, i + 1 : end] @ X[i + 1 : end]) / (z - T[i, i])
    return X


def _solve_adjoint(T: Complexes, z: Complexes, B: Complexes) -> Complexes:
    """Return the columns x that solve (z I - T)^H x = b, each with a z of its own."""
    X, H, conjugate = B.copy(), T.conj().T, z.conj()
    for top in range(0, len(T), _BLOCK):
        end = min(top + _BLOCK, len(T))
        X[top:end] += H[top:end, :top] @ X[:top]
        for i in range(top, end):
            X[i] = (X[i] + H[i, top:i] @ X[top:i]) / (conjugate - H[i, i])
    return X
