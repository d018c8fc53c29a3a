"""The matrices of figure 1 and table 6: a chain, with feed-forward links and with a diagonal."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["UNITS", "named", "triangular"]

UNITS = 100


def triangular(alpha: float, beta: float, d: float = 0.0) -> NDArray[np.float64]:  # (N, N)
    r"""Make the matrix of equation 2, with 100 units.

    .. math:: \Theta_{i j} = d\, \delta_{i, j} + \alpha\, \delta_{i, j + 1} + \beta\, [i \ge j + 2]

    Args:
        alpha: What is below the diagonal.
        beta: What is further down.
        d: What is on the diagonal.
    """
    theta = np.diag(np.full(UNITS - 1, alpha), -1) + np.diag(np.full(UNITS, d))
    return theta + np.tril(np.full((UNITS, UNITS), beta), -2)


def named() -> Iterator[tuple[str, float, float]]:
    """Yield the six pairs of alpha and beta of the figure, each with its name."""
    for beta in (0.0, 0.005):
        for alpha in (0.95, 1.0, 1.05):
            yield f"alpha={alpha:g} beta={beta:g}", alpha, beta
