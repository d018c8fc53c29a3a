"""Effective dimension of a set of states, as a real number."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import (
    Matrix,
    NumberArray,
    as_array,
    as_matrix,
    power_of_two,
)
from eigenrnn.analysis.base import Analysis, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Dimension", "effective_rank", "participation_ratio"]


@dataclass(frozen=True)
class Dimension(Analysis):
    """An effective dimension, and the spectrum that it summarises.

    Args:
        name: The name of the measure.
        value: The dimension; 0 if the spectrum is zero.
        spectrum: The variances or singular values, largest first.
        shares: Each value over their sum; correct even where squares of the states overflow.
        kind: The quantity in the spectrum.
    Shape:
        spectrum, shares: (dimensions,).
    """

    name: str
    value: float
    spectrum: NDArray[np.float64]
    shares: NDArray[np.float64]
    kind: str

    def plot(self) -> "Figure":
        figure, (left, right) = plot.canvas(2)
        rank = np.arange(1, len(self.spectrum) + 1)
        plot.lines(left, rank, {"spectrum": self.spectrum}, marker="o")
        plot.label(left, "rank", self.kind, f"{self.name} {self.value:.4g} of {len(rank)}")
        plot.lines(right, rank, {"share": self._cumulative()}, marker="o")
        right.set_ylim(0, 1.05)
        plot.label(right, "rank", f"share of {self.kind}s up to this rank")
        return figure

    def table(self) -> Table:
        return {
            "rank": np.arange(1, len(self.spectrum) + 1),
            self.kind.replace(" ", "_"): self.spectrum,
            "cumulative_share": self._cumulative(),
        }

    def headline(self) -> dict[str, float]:
        return {self.name: self.value}

    def _cumulative(self) -> NDArray[np.float64]:
        return np.cumsum(self.shares)


def participation_ratio(
    states: Tensor | ArrayLike,  # (T, B, N) or (n, N)
) -> Dimension:
    r"""Compute the participation ratio of the eigenvalues of the covariance of states.

    .. math:: \mathrm{PR} = \frac{\big(\sum_i \lambda_i\big)^2}{\sum_i \lambda_i^2}, \qquad
        1 \le \mathrm{PR} \le N

    It is N for an isotropic cloud, 1 for a line, and 0 for states that do not vary.

    Args:
        states: States; time steps and sequences are pooled.
    Shape:
        states: :math:`(T, B, N)` or :math:`(n, N)`, at least two states.
    Returns:
        The ratio, with the eigenvalues :math:`\lambda` of the covariance.
    Raises:
        ValueError: If the shape is wrong, there is only one state, or a number is not finite.
    Source:
        Gao et al., A theory of multineuronal dimensionality, dynamics and measurement, 2017.
        https://doi.org/10.1101/214262 (departures: none).
    Example:
        >>> round(participation_ratio([[1, 0], [-1, 0], [0, 1], [0, -1]]).value, 6)
        2.0
    """
    rows = _state_rows(states)
    if len(rows) < 2:
        raise ValueError("expected at least 2 states, to vary between them, got 1")
    size = power_of_two(rows)
    centred = rows / size - (rows / size).mean(0)
    spread = power_of_two(centred)
    centred = centred / spread
    covariance = centred.conj().T @ centred / (len(rows) - 1)
    # rounding can make a zero eigenvalue negative
    variances = np.maximum(np.linalg.eigvalsh(covariance)[::-1], 0)
    shares = _shares(variances)
    squares = float(shares @ shares)
    value = 1 / squares if squares else 0.0
    with np.errstate(over="ignore"):
        spectrum = variances * spread**2 * size * size
    return Dimension("participation ratio", value, spectrum, shares, "variance")


def effective_rank(
    states_or_matrix: Matrix,  # (T, B, N) or (n, N)
) -> Dimension:
    r"""Compute the effective rank, the exponential of the entropy of the singular values.

    .. math:: \mathrm{erank} = \exp\Big({-\sum_i} p_i \ln p_i\Big), \qquad
        p_i = \frac{\sigma_i}{\sum_j \sigma_j}, \qquad 1 \le \mathrm{erank} \le \mathrm{rank}

    States are not centred, as in the paper; subtract their mean first to measure only their
    variation. It is 0 for a zero matrix.

    Args:
        states_or_matrix: States, whose time steps and sequences are pooled; or any matrix; or a
            layer with one recurrent matrix.
    Shape:
        states_or_matrix: :math:`(T, B, N)` or :math:`(n, N)`.
    Returns:
        The rank, with the singular values :math:`\sigma`.
    Raises:
        ValueError: If the shape is wrong, or a number is not finite.
    Source:
        Roy and Vetterli, EUSIPCO 2007, section 2. https://infoscience.epfl.ch/record/110188
        (departures: none).
    Example:
        >>> round(effective_rank(np.diag([3.0, 3.0, 0.0])).value, 6)
        2.0
    """
    if isinstance(states_or_matrix, nn.Module):
        rows = as_matrix(states_or_matrix)
    else:
        rows = _state_rows(states_or_matrix)
    sigma: NDArray[np.float64] = np.linalg.svd(rows, compute_uv=False).astype(np.float64)
    shares = _shares(sigma / power_of_two(sigma))
    nonzero = shares[shares > 0]
    value = float(np.exp(-nonzero @ np.log(nonzero))) if len(nonzero) else 0.0
    return Dimension("effective rank", value, sigma, shares, "singular value")


def _state_rows(states: Tensor | ArrayLike) -> NumberArray:  # (n, N)
    """Return all states in double precision, one per row.

    Raises:
        ValueError: If the shape is wrong, or a number is not finite.
    """
    array = as_array(states, "states")
    if array.ndim not in (2, 3) or not array.size:
        raise ValueError(f"expected states (T, B, N) or (n, N), got shape {array.shape}")
    rows: NumberArray = array.reshape(-1, array.shape[-1])
    if not np.isfinite(rows).all():
        raise ValueError("expected finite states, got others")
    return rows


def _shares(spectrum: NDArray[np.float64]) -> NDArray[np.float64]:
    total = spectrum.sum()
    return spectrum / total if total else spectrum
