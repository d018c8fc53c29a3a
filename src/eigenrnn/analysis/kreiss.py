"""How far the powers of a matrix rise before they fall, told by its resolvent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.matrices import Matrix, given_matrix
from eigenrnn.analysis.numerical_abscissa import numerical_abscissa
from eigenrnn.analysis.resolvent import smallest_singular_values, triangular

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Kreiss", "kreiss"]

_NEAREST = 1e-7  # to the unit circle: nearer, z itself is rounded by too much of its distance
_FARTHEST = 1e3  # in units of the norm
_RADII, _ANGLES, _EIGENVALUES = 40, 73, 24
_STARTS = 3
_MOST_ROUNDS = 40
_DIRECTIONS = 36
_SLACK = 0.02  # what values of the grid may be wrong by

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Kreiss(Analysis):
    r"""The Kreiss constant, and the curve of which it is the maximum.

    Args:
        constant: K; infinite where the powers have no bound.
        where: The z at which it is reached; infinite where K is 1, the limit far away, and where
            K is infinite.
        lower: What :math:`\sup_k \|W^k\|_2` is at least: K.
        upper: What it is at most: :math:`e N K`.
        distances: :math:`|z| - 1`.
        curve: :math:`(|z| - 1) \|(z I - W)^{-1}\|_2`, the largest of some angles.
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
            r"$(|z| - 1)\,\|(zI - W)^{-1}\|_2$, largest of all angles",
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
    r"""Compute the Kreiss constant, which says how far a linear network's states can grow.

    .. math:: K(W) = \sup_{|z| > 1} (|z| - 1)\, \|(z I - W)^{-1}\|_2, \qquad
        K(W) \le \sup_{k \ge 0} \|W^k\|_2 \le e N K(W)

    It is 1 exactly where the numerical radius is at most 1, as of any normal matrix without an
    eigenvalue outside of the unit circle. The maximum is sought on a grid of radii and angles,
    those of the largest eigenvalues among them, and refined from its three highest peaks. It is
    never overestimated but for round-off. Where a closed form is known, the relative error was
    below 1e-7; a peak much narrower than the grid can be missed.

    Args:
        W: The recurrent matrix, or a layer with only one. Single precision carries eigenvalues
            of the unit circle outside: give it in double precision.
    Shape:
        W: :math:`(N, N)`.
    Returns:
        The constant. It is infinite if an eigenvalue is outside of the unit circle by more than
        :math:`10 N \epsilon \max(1, \|W\|_2)`, or if the curve still rises as the circle is
        approached to within 1e-7, as where an eigenvalue on it is defective.
    Raises:
        ValueError: If W is not square or not finite.
    Source:
        Kreiss, BIT 2, 1962. https://doi.org/10.1007/BF01957330; Trefethen and Embree, Spectra and
        Pseudospectra, 2005, section 18 (departures: none).
    Example:
        >>> found = kreiss([[0.0, 8.0], [0.0, 0.0]])
        >>> round(found.constant, 6), round(abs(found.where), 3)
        (2.125, 2.133)
    """
    matrix = given_matrix(W)
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
    elif numerical_abscissa(matrix, angles=_DIRECTIONS).radius <= 1 + rounding:
        constant, where = 1.0, complex(np.inf)  # which is exact, and sooner known
    else:
        constant, where = _highest(T, distances, angles, values)
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
    own = np.abs(np.angle(largest)) if is_real else np.angle(largest) % (2 * np.pi)
    return np.unique(np.concatenate([even, own]))


def _distances(T: Complexes, angles: Floats, norm: float) -> Floats:
    # the resolvent shrinks away from the circle: nearer than this, the curve is below 1
    circle: Complexes = np.exp(1j * angles).astype(np.complex128)
    nearest = smallest_singular_values(T, circle, tolerance=1e-2).min() / 10
    return np.geomspace(max(nearest, _NEAREST), _FARTHEST * norm, _RADII)


def _still_rises(distances: Floats, curve: Floats) -> bool:
    near = distances <= 1e3 * _NEAREST
    return bool(near.sum() > 1 and curve[0] > 2 * curve[near][-1])


def _values(T: Complexes, distances: Floats, angles: Floats, tolerance: float) -> Floats:
    distances, angles = np.broadcast_arrays(distances, angles)
    z: Complexes = ((1 + distances) * np.exp(1j * angles)).astype(np.complex128)
    sigma = smallest_singular_values(T, z.ravel(), tolerance=tolerance)
    return distances / sigma.reshape(z.shape)


def _highest(
    T: Complexes,  # (N, N)
    distances: Floats,  # (radii,)
    angles: Floats,  # (angles,)
    values: Floats,  # (radii, angles)
) -> tuple[float, complex]:
    """Return the maximum and its place, from the values of a grid."""
    padded = np.pad(values, 1, constant_values=-np.inf)
    around = [
        padded[1 + i : len(padded) - 1 + i, 1 + j : padded.shape[1] - 1 + j]
        for i in (-1, 0, 1)
        for j in (-1, 0, 1)
    ]
    peaks = np.argwhere(values >= np.max(around, axis=0))
    # what rises to the end of the grid rises to 1, but for less than 1e-6
    peaks = peaks[(peaks[:, 0] < len(distances) - 1) & (values[tuple(peaks.T)] > 1 - _SLACK)]
    if not len(peaks):
        return 1.0, complex(np.inf)
    peaks = peaks[np.argsort(-values[tuple(peaks.T)], kind="stable")][:_STARTS]
    starts = np.stack([np.log(distances[peaks[:, 0]]), angles[peaks[:, 1]]], axis=1)
    widths = np.array([np.log(distances[1] / distances[0]), np.pi / (_ANGLES - 1)])

    def f(places: Floats) -> Floats:
        away = np.clip(np.exp(places[..., 0]), distances[0], distances[-1])
        return _values(T, away, places[..., 1], tolerance=1e-5)

    log, angle = _climb(f, starts, widths)
    distance = np.clip(np.exp(log), distances[0], distances[-1])
    z = complex((1 + distance) * np.exp(1j * angle))
    sigma = np.linalg.svd(z * np.eye(len(T)) - T, compute_uv=False)[-1]
    found = float(distance / sigma)
    # far away the limit is 1: what is not above it by more than round-off is no maximum
    slack = 10 * len(T) * np.finfo(np.float64).eps * np.linalg.norm(T, 2) / distance
    return (found, z) if found > 1 + slack else (1.0, complex(np.inf))


def _climb(
    f: Callable[[Floats], Floats],  # (..., 2) to (...)
    starts: Floats,  # (starts, 2)
    width: Floats,  # (2,)
) -> Floats:  # (2,)
    """Return the best place near any start, by stencils that move, or shrink where they do not."""
    side = np.linspace(-1, 1, 5)
    stencil = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    stencil = stencil[np.abs(stencil).sum(1).argsort()]  # its centre first
    centres, widths = starts, np.tile(width, (len(starts), 1))
    best = np.full(len(starts), -np.inf)
    for _ in range(_MOST_ROUNDS):
        places = centres[:, None] + stencil * widths[:, None]
        values = f(places)
        chosen, rows = values.argmax(1), np.arange(len(starts))
        # a gain of no more than what values are rounded by is none
        chosen[values[rows, chosen] <= values[:, 0] * (1 + 1e-9)] = 0
        best, centres = values[rows, chosen], places[rows, chosen]
        at_edge = np.abs(stencil[chosen]) == 1
        widths = np.where(at_edge, widths, widths * 0.5)
        if (widths < 1e-5 * width).all():
            break
    return centres[best.argmax()]
