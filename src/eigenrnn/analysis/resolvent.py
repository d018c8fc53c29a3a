"""Distances of zI - W from singularity, for many numbers z at once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis.arguments import NumberArray, power_of_two
from eigenrnn.linalg import check_finite

__all__ = ["smallest_singular_values", "triangular"]

_BLOCK = 32  # rows solved one by one between matrix products
_CHUNK_ENTRIES = 2**19
_MAX_STEPS = 256
_CHECK_AFTER = frozenset((1, 2, 3, 4, 6, 8, 11, 14, 18, 22, 27, 32, 40, 50, 64, 90, 128, 180, 256))

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


def triangular(W: NumberArray) -> Complexes:  # (N, N)
    """Return an upper triangular matrix that is unitarily similar to W."""
    import scipy.linalg

    check_finite(W)
    # a triangular matrix keeps its eigenvalues exactly
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

    The Lanczos iteration runs on :math:`((z I - T)^H (z I - T))^{-1}`, applied by two triangular
    solves, at all points together. For a normal matrix the results are the distances to the
    nearest eigenvalue.

    Args:
        T: An upper triangular matrix; `triangular` reduces any other matrix to one.
        z: The points.
        tolerance: The residual, relative to the eigenvalue, at which the iteration stops. The
            relative error is at most half of it, unless the iteration converges to the second
            smallest value; it is mostly close to its square. Results below
            :math:`\epsilon \|z I - T\|` are replaced by it and mean zero.
    Shape:
        T: :math:`(N, N)`; z and the result: (points,).
    Source:
        Trefethen, Computation of pseudospectra, Acta Numerica 8, 1999, section 8.
        https://doi.org/10.1017/S0962492900002932 (departures: all points iterate together, and
        points that do not converge get a singular value decomposition).
    Example:
        >>> smallest_singular_values(np.diag([1.0 + 0j, 2.0]), np.array([4.0 + 0j, 1.0])).round(6)
        array([2., 0.])
    """
    # scaled so that squares stay in range
    scale = max(power_of_two(T), power_of_two(z))
    return scale * _scaled_values(T / scale, z / scale, tolerance)


def _scaled_values(T: Complexes, z: Complexes, tolerance: float) -> Floats:  # (points,)
    eps, size = np.finfo(np.float64).eps, float(np.linalg.norm(T, 2))
    chunk = max(1, _CHUNK_ENTRIES // len(T))
    chunks = [z[k : k + chunk] for k in range(0, len(z), chunk)]
    if np.linalg.norm(np.triu(T, 1)) <= 10 * len(T) * eps * size:
        sigma = [np.abs(part[:, None] - T.diagonal()).min(1) for part in chunks]
    else:
        with np.errstate(all="ignore"):  # overflow marks a singular matrix
            sigma = [_lanczos(T, part, tolerance) for part in chunks]
    return np.maximum(np.concatenate(sigma), eps * (np.abs(z) + size))


def _lanczos(T: Complexes, z: Complexes, tolerance: float) -> Floats:
    largest = np.full(len(z), np.nan)  # eigenvalue of the squared inverse
    active = np.arange(len(z))
    q = _initial_vectors(len(T), len(z))
    previous, beta = np.zeros_like(q), np.zeros(len(z))
    alphas, betas = np.empty((_MAX_STEPS, len(z))), np.empty((_MAX_STEPS, len(z)))
    for k in range(_MAX_STEPS):
        r = _solve(T, z[active], _solve_adjoint(T, z[active], q))
        r -= beta * previous
        alpha = np.einsum("np,np->p", q.conj(), r).real
        r -= alpha * q
        beta = np.linalg.norm(r, axis=0)
        alphas[k, active], betas[k, active] = alpha, beta
        previous, q = q, r / np.where(beta > 0, beta, 1)
        if k + 1 in _CHECK_AFTER:
            largest[active], done = _ritz_values(
                alphas[: k + 1, active], betas[: k + 1, active], tolerance
            )
            active, previous, q, beta = active[~done], previous[:, ~done], q[:, ~done], beta[~done]
            if not len(active):
                break
    sigma = 1 / np.sqrt(largest)
    I = np.eye(len(T))
    for point in active:
        sigma[point] = np.linalg.svd(z[point] * I - T, compute_uv=False)[-1]
    return sigma


def _initial_vectors(n: int, points: int) -> Complexes:
    # one isotropic vector for all points, the same at every call
    parts = np.random.default_rng(0).standard_normal((2, n))
    q = parts[0] + 1j * parts[1]
    return np.repeat((q / np.linalg.norm(q))[:, None], points, axis=1)


def _ritz_values(
    alphas: Floats, betas: Floats, tolerance: float
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the largest eigenvalue estimate of each point, and whether it has converged."""
    steps, points = alphas.shape
    overflowed = ~(np.isfinite(alphas).all(0) & np.isfinite(betas).all(0))
    tridiagonal = np.zeros((points, steps, steps))
    k = np.arange(steps)
    tridiagonal[:, k, k] = np.where(overflowed, 1, alphas).T
    tridiagonal[:, k[1:], k[:-1]] = np.where(overflowed, 0, betas[:-1]).T
    values, vectors = np.linalg.eigh(tridiagonal)
    top = values[:, -1]
    residual = np.where(overflowed, 0, betas[-1]) * np.abs(vectors[:, -1, -1])
    top = np.where(overflowed, np.inf, top)
    return top, overflowed | (residual <= tolerance * top)


def _solve(T: Complexes, z: Complexes, B: Complexes) -> Complexes:
    """Solve (z I - T) x = b for each column b of B, with its own z."""
    X = B.copy()
    for top in reversed(range(0, len(T), _BLOCK)):
        end = min(top + _BLOCK, len(T))
        X[top:end] += T[top:end, end:] @ X[end:]
        for i in reversed(range(top, end)):
            X[i] = (X[i] + T[i, i + 1 : end] @ X[i + 1 : end]) / (z - T[i, i])
    return X


def _solve_adjoint(T: Complexes, z: Complexes, B: Complexes) -> Complexes:
    """Solve (z I - T)^H x = b for each column b of B, with its own z."""
    X, H, conjugate = B.copy(), T.conj().T, z.conj()
    for top in range(0, len(T), _BLOCK):
        end = min(top + _BLOCK, len(T))
        X[top:end] += H[top:end, :top] @ X[:top]
        for i in range(top, end):
            X[i] = (X[i] + H[i, top:i] @ X[top:i]) / (conjugate - H[i, i])
    return X
