"""How much a linear network's state tells of an input that is some steps old."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

__all__ = ["FisherMemory", "fisher_memory"]

_MOST_DOUBLINGS = 60


@dataclass(frozen=True)
class FisherMemory:
    """A Fisher memory curve.

    Args:
        curve: J(k) for k = 0, 1, ...: what the state knows of the input k steps ago.
    Shape:
        curve: (steps,)
    """

    curve: NDArray[np.float64]

    @property
    def total(self) -> float:
        """The sum of the curve; at most 1 for a normal matrix, at most N for any."""
        return float(self.curve.sum())


def fisher_memory(
    W: Tensor | ArrayLike,  # (N, N)
    source: Tensor | ArrayLike,  # (N,)
    steps: int,
    *,
    noise_steps: int | None = None,
) -> FisherMemory:
    r"""Compute the Fisher memory curve of a linear network with noise in every unit.

    .. math:: h_t = W h_{t-1} + v s_t + \xi_t, \qquad \xi_t \sim \mathcal N(0, I), \qquad
        J(k) = v^\top (W^k)^\top C^{-1} W^k v, \qquad C = \sum_{k \ge 0} W^k (W^k)^\top

    C is summed in double precision, doubling the number of its terms at every turn.

    Args:
        W: The recurrent matrix.
        source: The vector v by which the input enters.
        steps: The number of points of the curve.
        noise_steps: Sum only the noise of about so many steps (the next power of two); None takes
            all of it, which must then have a finite covariance.
    Shape:
        W: :math:`(N, N)`; source: :math:`(N,)`; curve: (steps,).
    Raises:
        ValueError: If a shape is wrong, a number is not finite, or the noise adds up without end.
    Source:
        Ganguli, Huh and Sompolinsky, PNAS 105(48), 2008. https://doi.org/10.1073/pnas.0804451105;
        Kerg et al., NeurIPS 2019, section 3.2 (departures: none).
    Example:
        >>> round(fisher_memory(0.5 * np.eye(3), [1.0, 0.0, 0.0], 60).total, 6)
        1.0
    """
    matrix, v = _double(W), _double(source)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or v.shape != matrix.shape[:1]:
        raise ValueError(f"expected W (N, N) and source (N,), got {matrix.shape} and {v.shape}")
    if not (np.isfinite(matrix).all() and np.isfinite(v).all()):
        raise ValueError("expected finite numbers in W and source, got others")
    if steps < 1:
        raise ValueError(f"expected steps >= 1, got {steps}")
    C = _noise_covariance(matrix, noise_steps)
    states = np.empty((len(v), steps))
    for k in range(steps):
        states[:, k] = v
        v = matrix @ v
    return FisherMemory(np.einsum("nk,nk->k", states, np.linalg.solve(C, states)))


def _double(given: Tensor | ArrayLike) -> NDArray[np.float64]:
    if isinstance(given, Tensor):
        given = given.detach().to("cpu", torch.float64).numpy()
    return np.asarray(given, dtype=np.float64)


def _noise_covariance(W: NDArray[np.float64], noise_steps: int | None) -> NDArray[np.float64]:
    """Sum C; as many terms as are asked for, or until they add nothing more.

    Raises:
        ValueError: If the sum has no end.
    """
    total, power = np.eye(len(W)), W
    doublings = _MOST_DOUBLINGS if noise_steps is None else max(0, (noise_steps - 1).bit_length())
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(doublings):
            more = power @ total @ power.T
            total, power = total + more, power @ power
            size = np.linalg.norm(total)
            if np.isfinite(size) and np.linalg.norm(more) <= np.finfo(np.float64).eps * size:
                return total
    if noise_steps is None or not np.isfinite(total).all():
        radius = np.abs(np.linalg.eigvals(W)).max()
        raise ValueError(
            f"expected a spectral radius below 1, for noise to have a finite covariance, got "
            f"{radius:.6g}; scale W down, or give noise_steps"
        )
    return total
