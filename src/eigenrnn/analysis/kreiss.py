"""The Kreiss constant: transient growth of the powers of a matrix, from its resolvent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, as_matrix
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.numerical_abscissa import numerical_abscissa
from eigenrnn.analysis.resolvent import smallest_singular_values, triangular

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Kreiss", "kreiss"]

_MIN_DISTANCE = 1e-7  # to the unit circle: any closer, rounding of z is too large
_MAX_DISTANCE = 1e3  # in units of the norm
_RADII, _ANGLES, _EIGENVALUES = 40, 73, 24
_MAX_PEAKS = 3
_MAX_ITERATIONS = 40
_RANGE_ANGLES = 36
_GRID_ERROR = 0.02  # the error of values on the grid

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Kreiss(Analysis):
    r"""The Kreiss constant, and the curve whose maximum it is.

    Args:
        constant: K; infinite if the powers are unbounded.
        where: The maximiser z; infinite if K is 1, its limit at infinity, or if K is infinite.
        lower: A lower bound on :math:`\sup_k \|W^k\|_2`: K.
        upper: An upper bound on it: :math:`e N K`.
        distances: :math:`|z| - 1`.
        curve: :math:`(|z| - 1) \|(z I - W)^{-1}\|_2`, its maximum over the angles of the grid.
    Shape:
        distances, curve: (radii,).
    """

    constant: float
    where: complex
    lower: float
    upper: float
    distances: Floats
    curve: Floats

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        is_wide = bool(self.curve.max() > 10 * self.curve.min())
        plot.lines(axes, np.log10(self.distances), {"curve": self.curve}, log=is_wide)
        if not is_wide:
            axes.set_ylim(0, 1.1 * self.curve.max())
        title = f"Kreiss constant {self.constant:.4g}"
        plot.label(
            axes,
            r"$\log_{10}(|z| - 1)$",
            r"$(|z| - 1)\,\|(zI - W)^{-1}\|_2$, maximum over angles",
            title,
        )
        return figure

    def table(self) -> Table:
        return {"distance": self.distances, "value": self.curve}

    def headline(self) -> dict[str, float]:
        return {"Kreiss constant": self.constant}


def kreiss(
    W: Matrix,  # (N, N)
) -> Kreiss:
    r"""Compute the Kreiss constant, which bounds the transient growth of a linear network.

    .. math:: K(W) = \sup_{|z| > 1} (|z| - 1)\, \|(z I - W)^{-1}\|_2, \qquad
        K(W) \le \sup_{k \ge 0} \|W^k\|_2 \le e N K(W)

    It is 1 exactly if the numerical radius is at most 1, as for a normal matrix without
    eigenvalues outside the unit circle. The maximum is searched on a grid of radii and
    angles, which include those of the largest eigenvalues, and refined from its three highest
    peaks. It is never overestimated beyond rounding, but a peak much narrower than the grid can
    be missed. Against closed forms the relative error was below 1e-7.

    Args:
        W: The recurrent matrix, or a layer with only one. Use double precision: rounding to
            single precision moves eigenvalues on the unit circle outside.
    Shape:
        W: :math:`(N, N)`.
    Returns:
        The constant. It is infinite if an eigenvalue lies outside the unit circle by more than
        :math:`10 N \epsilon \max(1, \|W\|_2)`. It is also infinite if the curve still rises
        within 1e-7 of the circle, as for a defective eigenvalue on it.
    Raises:
        ValueError: If W is not square or not finite.
    Source:
        Kreiss, BIT 2, 1962. https://doi.org/10.1007/BF01957330; Trefethen and Embree, Spectra and
        Pseudospectra, 2005, section 18 (departures: none).
    Example:
        >>> result = kreiss([[0.0, 8.0], [0.0, 0.0]])
        >>> round(result.constant, 6), round(abs(result.where), 3)
        (2.125, 2.133)
    """
    matrix = as_matrix(W)
    T, is_real = triangular(matrix), not np.iscomplexobj(matrix)
    norm = max(1.0, float(np.linalg.norm(matrix, 2)))
    angles = _angles(T.diagonal(), is_real=is_real)
    distances = _distances(T, angles, norm)
    values = _values(T, distances[:, None], angles, tolerance=1e-2)
    curve = values.max(1)
    rounding = 10 * len(T) * np.finfo(np.float64).eps * norm
    outside = np.abs(T.diagonal()).max() - 1 > rounding
    if outside or _still_rises(distances, curve):
        constant, where = np.inf, complex(np.inf)
    elif numerical_abscissa(matrix, angles=_RANGE_ANGLES).radius <= 1 + rounding:
        constant, where = 1.0, complex(np.inf)  # exact, and cheaper
    else:
        constant, where = _refined_maximum(T, distances, angles, values)
    return Kreiss(
        constant=constant,
        where=where,
        lower=constant,
        upper=float(np.e * len(T) * constant),
        distances=distances,
        curve=curve,
    )


def _angles(eigenvalues: Complexes, *, is_real: bool) -> Floats:
    largest = eigenvalues[np.argsort(-np.abs(eigenvalues))[:_EIGENVALUES]]
    even = np.linspace(0, np.pi if is_real else 2 * np.pi, _ANGLES)
    own_angles = np.abs(np.angle(largest)) if is_real else np.angle(largest) % (2 * np.pi)
    return np.unique(np.concatenate([even, own_angles]))


def _distances(T: Complexes, angles: Floats, norm: float) -> Floats:
    # closer than this the resolvent is about that on the circle, so the curve is below 1
    circle: Complexes = np.exp(1j * angles).astype(np.complex128)
    nearest = smallest_singular_values(T, circle, tolerance=1e-2).min() / 10
    return np.geomspace(max(nearest, _MIN_DISTANCE), _MAX_DISTANCE * norm, _RADII)


def _still_rises(distances: Floats, curve: Floats) -> bool:
    near = distances <= 1e3 * _MIN_DISTANCE
    return bool(near.sum() > 1 and curve[0] > 2 * curve[near][-1])


def _values(T: Complexes, distances: Floats, angles: Floats, tolerance: float) -> Floats:
    distances, angles = np.broadcast_arrays(distances, angles)
    z: Complexes = ((1 + distances) * np.exp(1j * angles)).astype(np.complex128)
    sigma = smallest_singular_values(T, z.ravel(), tolerance=tolerance)
    return distances / sigma.reshape(z.shape)


def _refined_maximum(
    T: Complexes,  # (N, N)
    distances: Floats,  # (radii,)
    angles: Floats,  # (angles,)
    values: Floats,  # (radii, angles)
) -> tuple[float, complex]:
    """Return the maximum and the maximiser, starting from values on a grid."""
    padded = np.pad(values, 1, constant_values=-np.inf)
    neighbours = [
        padded[1 + i : len(padded) - 1 + i, 1 + j : padded.shape[1] - 1 + j]
        for i in (-1, 0, 1)
        for j in (-1, 0, 1)
    ]
    peaks = np.argwhere(values >= np.max(neighbours, axis=0))
    # a rise to the end of the grid is a rise to 1, up to 1e-6
    peaks = peaks[(peaks[:, 0] < len(distances) - 1) & (values[tuple(peaks.T)] > 1 - _GRID_ERROR)]
    if not len(peaks):
        return 1.0, complex(np.inf)
    peaks = peaks[np.argsort(-values[tuple(peaks.T)], kind="stable")][:_MAX_PEAKS]
    initial = np.stack([np.log(distances[peaks[:, 0]]), angles[peaks[:, 1]]], axis=1)
    widths = np.array([np.log(distances[1] / distances[0]), np.pi / (_ANGLES - 1)])

    def f(points: Floats) -> Floats:
        within_grid = np.clip(np.exp(points[..., 0]), distances[0], distances[-1])
        return _values(T, within_grid, points[..., 1], tolerance=1e-5)

    log, angle = _stencil_search(f, initial, widths)
    distance = np.clip(np.exp(log), distances[0], distances[-1])
    z = complex((1 + distance) * np.exp(1j * angle))
    sigma = np.linalg.svd(z * np.eye(len(T)) - T, compute_uv=False)[-1]
    maximum = float(distance / sigma)
    # the limit at infinity is 1: a maximum must exceed it by more than rounding
    slack = 10 * len(T) * np.finfo(np.float64).eps * np.linalg.norm(T, 2) / distance
    return (maximum, z) if maximum > 1 + slack else (1.0, complex(np.inf))


def _stencil_search(
    f: Callable[[Floats], Floats],  # (..., 2) to (...)
    initial: Floats,  # (points, 2)
    width: Floats,  # (2,)
) -> Floats:  # (2,)
    """Return the maximiser near any initial point, by stencils that move or else shrink."""
    side = np.linspace(-1, 1, 5)
    stencil = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    stencil = stencil[np.abs(stencil).sum(1).argsort()]  # centre first
    centres, widths = initial, np.tile(width, (len(initial), 1))
    best = np.full(len(initial), -np.inf)
    for _ in range(_MAX_ITERATIONS):
        points = centres[:, None] + stencil * widths[:, None]
        values = f(points)
        best_index, rows = values.argmax(1), np.arange(len(initial))
        # a gain within rounding does not count
        best_index[values[rows, best_index] <= values[:, 0] * (1 + 1e-9)] = 0
        best, centres = values[rows, best_index], points[rows, best_index]
        at_edge = np.abs(stencil[best_index]) == 1
        widths = np.where(at_edge, widths, widths * 0.5)
        if (widths < 1e-5 * width).all():
            break
    return centres[best.argmax()]
