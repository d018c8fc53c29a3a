"""How many dimensions states fill, as a number that need not be whole."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.matrices import (
    Matrix,
    NumberArray,
    given_array,
    given_matrix,
    power_of_two,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Dimension", "effective_rank", "participation_ratio"]


@dataclass(frozen=True)
class Dimension(Analysis):
    """A number of dimensions, and the spectrum that it sums up.

    Args:
        name: Which number it is.
        value: The number; 0 where there is nothing but zeros.
        spectrum: The variances or singular values, the largest first.
        shares: Each over their sum; right where squares of the states leave double precision.
        kind: What the spectrum is made of.
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
    r"""Count the dimensions in which states vary, by the eigenvalues of their covariance.

    .. math:: \mathrm{PR} = \frac{\big(\sum_i \lambda_i\big)^2}{\sum_i \lambda_i^2}, \qquad
        1 \le \mathrm{PR} \le N

    N of an isotropic cloud, 1 of a line; 0 is returned where nothing varies.

    Args:
        states: States of any number of steps and sequences, all taken together.
    Shape:
        states: :math:`(T, B, N)` or :math:`(n, N)`, at least two states.
    Returns:
        The ratio, with the covariance's eigenvalues :math:`\lambda`.
    Raises:
        ValueError: If the shape is another, there is only one state, or a number is not finite.
    Source:
        Gao et al., A theory of multineuronal dimensionality, dynamics and measurement, 2017.
        https://doi.org/10.1101/214262 (departures: none).
    Example:
        >>> round(participation_ratio([[1, 0], [-1, 0], [0, 1], [0, -1]]).value, 6)
        2.0
    """
    rows = _rows(states)
    if len(rows) < 2:
        raise ValueError("expected at least 2 states, to vary between them, got 1")
    size = power_of_two(rows)
    centred = rows / size - (rows / size).mean(0)
    spread = power_of_two(centred)
    centred = centred / spread
    covariance = centred.conj().T @ centred / (len(rows) - 1)
    # rounding may leave a zero below zero
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
    r"""Compute the effective rank, the number of singular values as their entropy counts them.

    .. math:: \mathrm{erank} = \exp\Big({-\sum_i} p_i \ln p_i\Big), \qquad
        p_i = \frac{\sigma_i}{\sum_j \sigma_j}, \qquad 1 \le \mathrm{erank} \le \mathrm{rank}

    States are not centred, as the paper's are not: take their mean away first if only what varies
    shall count. 0 is returned of zeros.

    Args:
        states_or_matrix: States of any number of steps and sequences, all taken together; or any
            matrix; or a layer with one recurrent matrix.
    Shape:
        states_or_matrix: :math:`(T, B, N)` or :math:`(n, N)`.
    Returns:
        The rank, with the singular values :math:`\sigma`.
    Raises:
        ValueError: If the shape is another, or a number is not finite.
    Source:
        Roy and Vetterli, EUSIPCO 2007, section 2. https://infoscience.epfl.ch/record/110188
        (departures: none).
    Example:
        >>> round(effective_rank(np.diag([3.0, 3.0, 0.0])).value, 6)
        2.0
    """
    if isinstance(states_or_matrix, nn.Module):
        rows = given_matrix(states_or_matrix)
    else:
        rows = _rows(states_or_matrix)
    sigma: NDArray[np.float64] = np.linalg.svd(rows, compute_uv=False).astype(np.float64)
    shares = _shares(sigma / power_of_two(sigma))
    present = shares[shares > 0]
    value = float(np.exp(-present @ np.log(present))) if len(present) else 0.0
    return Dimension("effective rank", value, sigma, shares, "singular value")


def _rows(states: Tensor | ArrayLike) -> NumberArray:  # (n, N)
    """Return all states in double precision, one a row.

    Raises:
        ValueError: If the shape is wrong, or a number is not finite.
    """
    array = given_array(states, "states")
    if array.ndim not in (2, 3) or not array.size:
        raise ValueError(f"expected states (T, B, N) or (n, N), got shape {array.shape}")
    rows: NumberArray = array.reshape(-1, array.shape[-1])
    if not np.isfinite(rows).all():
        raise ValueError("expected finite states, got others")
    return rows


def _shares(spectrum: NDArray[np.float64]) -> NDArray[np.float64]:
    total = spectrum.sum()
    return spectrum / total if total else spectrum
