"""How much a linear network's state tells of an input that is some steps old."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.matrices import (
    Matrix,
    NumberArray,
    given_matrix,
    given_vector,
    spectral_radius,
)
from eigenrnn.errors import check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FisherMemory", "fisher_memory"]

_EPSILON = float(np.finfo(np.float64).eps)
_MOST_DOUBLINGS = 60  # 1 - eps to the power of 2^60 is zero


@dataclass(frozen=True)
class FisherMemory(Analysis):
    """A Fisher memory curve.

    Args:
        curve: J(k) for k = 0, 1, ...: what the state knows of the input k steps ago.
    Shape:
        curve: (steps,)
    """

    curve: NDArray[np.float64]

    @property
    def total(self) -> float:
        """The sum of the curve; of a unit source at most 1 for a normal matrix, N for any."""
        return float(self.curve.sum())

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        plot.lines(axes, np.arange(len(self.curve)), {"J": self.curve})
        title = f"Fisher memory, {self.total:.4g} in all"
        plot.label(axes, "age k of the input (steps)", "Fisher information J(k)", title)
        return figure

    def table(self) -> Table:
        return {"age": np.arange(len(self.curve)), "fisher_memory": self.curve}

    def headline(self) -> dict[str, float]:
        return {"total Fisher memory": self.total}


def fisher_memory(
    W: Matrix,  # (N, N)
    source: Tensor | ArrayLike,  # (N,)
    steps: int,
    *,
    noise_steps: int | None = None,
) -> FisherMemory:
    r"""Compute the Fisher memory curve of a linear network with noise in every unit.

    .. math:: h_t = W h_{t-1} + v s_t + \xi_t, \qquad \xi_t \sim \mathcal N(0, I), \qquad
        J(k) = v^* (W^k)^* C^{-1} W^k v, \qquad C = \sum_{k \ge 0} W^k (W^k)^*

    C solves the Lyapunov equation :math:`C = W C W^* + I`. It is never formed: what is doubled in
    length is its triangular root, :math:`[L_m, W^m L_m] = L_{2 m} Q`, so that only the root of its
    condition number is lost. In table 6 of nnRNN this number reaches 1e27: seven digits of each
    total stay right, where C itself, be it summed or solved for, leaves one.

    Args:
        W: The recurrent matrix, real or complex, or a layer with one.
        source: The vector v by which the input enters, or a matrix of this one column.
        steps: The number of points of the curve.
        noise_steps: Sum the noise of exactly so many steps; None takes all of it, which must then
            have a finite covariance.
    Shape:
        W: :math:`(N, N)`; source: :math:`(N,)`; curve: (steps,).
    Raises:
        ValueError: If a shape is wrong, a number is not finite, the noise adds up without end, or
            powers of W leave double precision.
    Source:
        Ganguli, Huh and Sompolinsky, PNAS 105(48), 2008. https://doi.org/10.1073/pnas.0804451105;
        Kerg et al., NeurIPS 2019, section 3.2. https://arxiv.org/abs/1905.12080
        (departures: none).
    Example:
        >>> round(fisher_memory(0.5 * np.eye(3), [1.0, 0.0, 0.0], 60).total, 6)
        1.0
    """
    matrix = given_matrix(W)
    v = given_vector(source, len(matrix), "source")
    check_positive_integer("steps", steps)
    if noise_steps is None:
        _check_decay(matrix)
    else:
        check_positive_integer("noise_steps", noise_steps)
    with np.errstate(over="ignore", invalid="ignore"):  # asked for once it is done
        root = _noise_root(matrix, noise_steps)
        states = _responses(matrix, v, steps)
    if not (np.isfinite(root).all() and np.isfinite(states).all()):
        raise ValueError(
            "expected noise and signal within double precision, got numbers above 1e308; "
            "scale W down, or give fewer steps and noise_steps"
        )
    solve: Any = scipy.linalg.solve_triangular
    white: NumberArray = solve(root, states, lower=True, check_finite=False)
    return FisherMemory(np.square(np.abs(white)).sum(0))


def _responses(W: NumberArray, v: NumberArray, steps: int) -> NumberArray:  # (N, steps)
    """Return what a pulse has become after 0, 1, ... steps."""
    states = np.empty((len(v), steps), np.result_type(W, v))
    states[:, 0] = v
    for k in range(1, steps):
        states[:, k] = W @ states[:, k - 1]
    return states


def _noise_root(W: NumberArray, terms: int | None) -> NumberArray:  # (N, N)
    """Return the lower triangular L for which L L* is C, of so many terms or of all."""
    I = np.eye(len(W))
    root, power = I, W  # of m terms, and W^m, with m = 1
    further = "0" * 2 * _MOST_DOUBLINGS if terms is None else f"{terms:b}"[1:]
    for bit in further:  # of the number of terms: m becomes 2 m, or 2 m + 1
        more = power @ root
        if not np.isfinite(more).all():
            return more
        if np.linalg.norm(more) ** 2 <= _EPSILON:  # C is at least I: no further term is seen in it
            return root
        root, power = _joined(root, more), power @ power
        if bit == "1":
            root, power = _joined(I, W @ root), W @ power
    return root


def _joined(K: NumberArray, L: NumberArray) -> NumberArray:  # (N, N)
    """Return a root of K K* + L L*."""
    R: Any = np.linalg.qr(np.hstack([K, L]).conj().T, mode="r")
    return R.conj().T


def _check_decay(W: NumberArray) -> None:
    """Refuse a matrix whose powers do not vanish.

    Raises:
        ValueError: With the spectral radius.
    """
    # not by eigenvalues: those of a matrix far from normal may be computed outside of the circle
    power = W
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(_MOST_DOUBLINGS):
            size = np.linalg.norm(power)
            if size < 1:
                return
            if not np.isfinite(size):
                break
            power = power @ power
    radius, advice = spectral_radius(W), "scale W down, or give noise_steps"
    if radius < 1:
        raise ValueError(
            "expected powers of W that vanish within double precision, got a spectral radius of "
            f"{radius:.6g} but powers that grow beyond it before; {advice}"
        )
    raise ValueError(
        "expected a spectral radius below 1, for noise to have a finite covariance, got "
        f"{radius:.6g}; {advice}"
    )
