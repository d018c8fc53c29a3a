"""Pseudospectra and the Kreiss constant, from the norm of the resolvent."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, NumberArray, as_matrix, power_of_two
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.nonnormality import numerical_abscissa
from eigenrnn.errors import check_positive_integer
from eigenrnn.linalg import check_finite

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "Extent",
    "Kreiss",
    "Pseudospectrum",
    "kreiss",
    "pseudospectrum",
    "smallest_singular_values",
    "triangular",
]

Extent = tuple[float, float, float, float]
"""Left, right, bottom and top of a rectangle in the complex plane."""

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

# of Pseudospectrum
_MARGIN = 1.25  # of the square over the eigenvalues and the unit circle
_LOWEST_LEVEL = -8  # decimal logarithm of the smallest contour in the picture
_MIN_GRID_POINTS = 9  # of a contour that the grid resolves
# rings of points around an eigenvalue
_RING_POINTS = 12
_MAX_RINGS = 24  # each smaller than the one before by the root of 2
# of the radius: a coarse scan of rays, then windows around its peaks, then a circle that checks
_SCANNED_RADII = 16
_SCANNED_ANGLES = 37
_NARROWINGS = 6
_NARROWING = 0.25  # of a window from one pass to the next
_ANGLES_OF_PEAK = 7  # in a window
_CHECKED_ANGLES = 361
_MAX_CHECKS = 8
_RADIUS_ERROR = 1e-5  # relative: ten times better than promised
_MAX_BISECTIONS = 60

# of Kreiss
_MIN_DISTANCE = 1e-7  # to the unit circle: any closer, rounding of z is too large
_MAX_DISTANCE = 1e3  # in units of the norm: further away the curve only tends to 1
_RADII = 40
_ANGLES = 73
_EIGENVALUES = 24
_MAX_PEAKS = 3
_MAX_ITERATIONS = 40
_RANGE_ANGLES = 36
_GRID_ERROR = 0.02  # the error of values on the grid

# of smallest_singular_values
_BLOCK = 32  # rows solved one by one between matrix products
_CHUNK_ENTRIES = 2**19  # of the vectors of all points that iterate together: memory
_MAX_STEPS = 256
# Each check costs an eigenvalue decomposition of k rows for each point, so checks become rarer.
_CHECK_AFTER = frozenset((1, 2, 3, 4, 6, 8, 11, 14, 18, 22, 27, 32, 40, 50, 64, 90, 128, 180, 256))


@dataclass(frozen=True)
class Pseudospectrum(Analysis):
    r"""The distance of zI - W from singularity, over a rectangle in the plane.

    Args:
        x: The real parts of the grid points z.
        y: The imaginary parts of the grid points z.
        sigma_min: The smallest singular value of :math:`z I - W`.
        eigenvalues: The eigenvalues of W.
        epsilon: The perturbation size :math:`\epsilon` that the points resolve.
        radius: The largest modulus in :math:`\Lambda_\epsilon`, inside the rectangle or not.
        near: Further points, on rings around eigenvalues between the points of the grid.
        sigma_near: The smallest singular value at these points.
    Shape:
        x: (columns,); y: (rows,); sigma_min: (rows, columns); eigenvalues: (N,); near, sigma_near:
        (points,).
    """

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    sigma_min: NDArray[np.float64]
    eigenvalues: NDArray[np.complex128]
    epsilon: float
    radius: float
    near: NDArray[np.complex128]
    sigma_near: NDArray[np.float64]

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        levels = self._levels()
        if len(levels) > 1:
            columns = self.table()
            power = np.log10(columns["sigma_min"])
            name = r"$\log_{10}\,\sigma_{\min}(zI - W)$"
            plot.contours(axes, columns["x"], columns["y"], power, name, levels)
        plot.plane(axes, {"eigenvalues": self.eigenvalues})
        axes.set_xlim(self.x[0], self.x[-1])
        axes.set_ylim(self.y[0], self.y[-1])
        plot.label(axes, "real part", "imaginary part", "pseudospectra and eigenvalues (dots)")
        return figure

    def table(self) -> Table:
        x, y = np.meshgrid(self.x, self.y)
        return {
            "x": np.concatenate([x.ravel(), self.near.real]),
            "y": np.concatenate([y.ravel(), self.near.imag]),
            "sigma_min": np.concatenate([self.sigma_min.ravel(), self.sigma_near]),
        }

    def headline(self) -> dict[str, float]:
        """Return the spectral radius, and its largest value under a perturbation of epsilon."""
        return {
            "spectral radius": float(np.abs(self.eigenvalues).max()),
            f"pseudospectral radius at {self.epsilon:g}": self.radius,
        }

    def _levels(self) -> Floats:
        """Return round levels that the points resolve, at most about a dozen of them."""
        power = np.sort(np.log10(self.sigma_min), axis=None)
        # a contour needs some points of the grid inside it, or those of the rings around an
        # eigenvalue
        lowest = power[min(_MIN_GRID_POINTS, len(power)) - 1]
        if len(self.near):
            lowest = min(lowest, np.log10(self.epsilon))
        # the next half; 1e-9 keeps a half that rounding has raised
        low = max(np.ceil(2 * lowest - 1e-9) / 2, float(_LOWEST_LEVEL))
        if low < -3:  # whole powers of ten, as halves would be too many
            return np.arange(np.ceil(low), power[-1], 1.0)
        return np.arange(low, power[-1], 0.5)


def pseudospectrum(
    W: Matrix,  # (N, N)
    *,
    extent: Extent | None = None,
    resolution: int = 60,
    epsilon: float = 0.01,
) -> Pseudospectrum:
    r"""Compute the pseudospectra of a matrix, the eigenvalues of its perturbations.

    .. math:: \Lambda_\epsilon(W) = \{ z : \sigma_{\min}(z I - W) \le \epsilon \}
        = \{ z : z \text{ is an eigenvalue of } W + E, \ \|E\|_2 \le \epsilon \}

    After one Schur decomposition, a Lanczos iteration with triangular solves runs at all points
    together. For a real matrix and a symmetric extent, only the points on one side of
    the real axis are computed. Relative errors are at most 5e-5, and mostly below 1e-7.

    Every part of :math:`\Lambda_\epsilon` contains an eigenvalue. Where the grid does not resolve
    such a part, points on rings around the eigenvalue are added. The radius does not depend on
    the grid: it is searched along rays, and then on circles just outside of what was found. Its
    relative error is at most 1e-4 for N up to 256, by closed forms and an independent search. It
    takes about 2 seconds of one core for N = 64, 3 for 128 and 10 for 256. It is at least the
    spectral radius plus :math:`\epsilon`, and exactly that for a normal matrix.

    Args:
        W: The recurrent matrix, or a layer with only one.
        extent: Left, right, bottom and top of the grid; None means a square around all
            eigenvalues and the unit circle.
        resolution: The number of points along each side.
        epsilon: The size of perturbations that the points must resolve, and of the radius.
    Shape:
        W: :math:`(N, N)`; memory grows with :math:`N^2` and with the number of points.
    Returns:
        The smallest singular values. Those below the rounding error,
        :math:`10^{-16} \|z I - W\|_2`, are replaced by it.
    Raises:
        ValueError: If W is not square or not finite, the extent is empty, the resolution is
            below 2, or epsilon is not positive.
    Source:
        Trefethen, Computation of pseudospectra, Acta Numerica 8, 1999, sections 2 and 8.
        https://doi.org/10.1017/S0962492900002932 (departures: all points iterate together).
    Example:
        >>> result = pseudospectrum(np.diag([0.5, -0.5]), extent=(0, 1, -1, 1), resolution=3)
        >>> result.sigma_min.round(3)
        array([[1.118, 1.   , 1.118],
               [0.5  , 0.   , 0.5  ],
               [1.118, 1.   , 1.118]])
        >>> pseudospectrum(0.5 * np.eye(3)).radius
        0.51
    """
    matrix = as_matrix(W)
    check_positive_integer("resolution", resolution)
    if resolution < 2:
        raise ValueError(f"expected resolution >= 2, got {resolution}")
    if not 0 < epsilon < np.inf:
        raise ValueError(f"expected a finite epsilon > 0, got {epsilon}")
    if extent is not None:
        _check_extent(extent)
    T = triangular(matrix)
    eigenvalues = T.diagonal()
    reach = _MARGIN * max(1.0, float(np.abs(eigenvalues).max()))
    left, right, bottom, top = extent or (-reach, reach, -reach, reach)
    x = np.linspace(left, right, resolution)
    y = np.linspace(bottom, top, resolution)
    is_real = not np.iscomplexobj(matrix)
    # sigma_min of a real matrix is the same at z and at its conjugate
    mirrored = is_real and bottom == -top
    rows = y[: (resolution + 1) // 2] if mirrored else y
    z = (x + 1j * rows[:, None]).ravel()
    sigma_min = smallest_singular_values(T, z).reshape(len(rows), resolution)
    if mirrored:  # the middle row of an odd number is its own image
        sigma_min = np.concatenate([sigma_min, sigma_min[: resolution // 2][::-1]])
    near = _rings(x, y, sigma_min, eigenvalues, epsilon)
    sigma_near = np.empty(0)
    if len(near):
        sigma_near = smallest_singular_values(T, near)
    return Pseudospectrum(
        x=x,
        y=y,
        sigma_min=sigma_min,
        eigenvalues=eigenvalues,
        epsilon=epsilon,
        radius=_pseudospectral_radius(T, epsilon, is_real=is_real),
        near=near,
        sigma_near=sigma_near,
    )


def _rings(
    x: Floats,  # (columns,)
    y: Floats,  # (rows,)
    sigma_min: Floats,  # (rows, columns)
    eigenvalues: Complexes,
    epsilon: float,
) -> Complexes:
    """Return points around eigenvalues inside the grid with no point of the region beside them."""
    # the grid points right of and above each eigenvalue
    columns = np.searchsorted(x, eigenvalues.real)
    rows = np.searchsorted(y, eigenvalues.imag)
    inside = (columns > 0) & (columns < len(x)) & (rows > 0) & (rows < len(y))
    columns = columns[inside]
    rows = rows[inside]
    hidden = eigenvalues[inside]
    if len(hidden):
        corners = [
            sigma_min[rows, columns],
            sigma_min[rows, columns - 1],
            sigma_min[rows - 1, columns],
            sigma_min[rows - 1, columns - 1],
        ]
        hidden = hidden[np.min(corners, axis=0) > epsilon]
    # Radii that shrink by the root of 2, from beyond the diagonal of a cell to below epsilon.
    # Where that needs too many rings, they begin at half the diagonal and end above epsilon.
    spacing = float(np.hypot(x[1] - x[0], y[1] - y[0]))
    count = int(np.clip(np.ceil(2 * np.log2(spacing / epsilon)) + 3, 0, _MAX_RINGS))
    outermost = max(epsilon, spacing * 2 ** (-_MAX_RINGS / 2)) * 2 ** ((count - 2) / 2)
    radii = outermost * 2 ** (-np.arange(count) / 2)
    ring = np.exp(2j * np.pi * np.arange(_RING_POINTS) / _RING_POINTS)
    points: Complexes = (hidden[:, None, None] + radii[:, None] * ring).ravel()
    visible = (x[0] <= points.real) & (points.real <= x[-1])
    return points[visible & (y[0] <= points.imag) & (points.imag <= y[-1])]


def _pseudospectral_radius(T: Complexes, epsilon: float, *, is_real: bool) -> float:
    """Return the largest modulus of a point whose smallest singular value is at most epsilon.

    The peaks of a scan are refined. Then a circle just outside of the result is searched for
    points that the scan missed, which are refined as well, until there are none.
    """
    eigenvalues = T.diagonal()
    # Perturbations can move the outermost eigenvalue outwards by epsilon. Only if the matrix is
    # not normal can they move one further.
    lowest = float(np.abs(eigenvalues).max()) + epsilon
    highest = float(np.linalg.norm(T, 2)) + epsilon  # |lambda| <= |W + E| <= |W| + epsilon
    if highest <= lowest * (1 + 10 * len(T) * np.finfo(np.float64).eps):
        return lowest
    # the radius may be far from both ends: 10.9 of [[0.9, 1e4], [0, 0.9]], from 0.91 to 10,000
    radii = np.geomspace(lowest, highest, _SCANNED_RADII)

    def excess(radius: Floats | float, angle: Floats, tolerance: float) -> Floats:
        z: Complexes = (radius * np.exp(1j * angle)).astype(np.complex128)
        sigma = smallest_singular_values(T, z.ravel(), tolerance=tolerance)
        return sigma.reshape(z.shape) - epsilon

    end = _end_angle(is_real=is_real)
    own = _own_angles(eigenvalues, is_real=is_real)
    outermost_first = np.argsort(-np.abs(eigenvalues))
    even = np.linspace(0, end, _SCANNED_ANGLES)
    # a narrow part of the region around an eigenvalue may lie between the even angles
    angles = np.unique(np.concatenate([even, own[outermost_first[:_EIGENVALUES]]]))
    # the first circle touches the region, up to the error of this coarse scan
    last = _last_within(excess(radii[:, None], angles, 1e-2) <= 0.01 * epsilon)
    reached = np.where(last >= 0, radii[last], 0.0)
    neighbours = np.maximum(np.roll(reached, 1), np.roll(reached, -1))
    peaks = angles[(reached > 0) & (reached >= neighbours)]
    checked = np.unique(np.concatenate([np.linspace(0, end, _CHECKED_ANGLES), own]))
    best = lowest
    window = 2 * end / _SCANNED_ANGLES
    for _ in range(_MAX_CHECKS):
        if len(peaks):
            best = max(best, _refined_radius(excess, peaks, window, radii))
        # what reaches further crosses this circle
        beyond = best * (1 + _RADIUS_ERROR)
        outside = excess(beyond, checked, 1e-6)
        lower_than_neighbours = outside <= np.minimum(np.roll(outside, 1), np.roll(outside, -1))
        peaks = checked[(outside <= 0) & lower_than_neighbours]
        if not len(peaks):
            break
        radii = np.geomspace(beyond, highest, _SCANNED_RADII)
        window = 2 * end / _CHECKED_ANGLES
    return best


def _last_within(
    within: NDArray[np.bool_],  # (radii, rays)
) -> NDArray[np.intp]:  # (rays,)
    """Return the last radius of each ray that is within the region; -1 if none is."""
    # argmax returns the first true value, which from the end is the last one
    last = within.shape[0] - 1 - within[::-1].argmax(0)
    return np.where(within.any(0), last, -1)


def _end_angle(*, is_real: bool) -> float:
    """Return the end of the angles to search, a half circle for a real matrix."""
    return np.pi if is_real else 2 * np.pi


def _own_angles(eigenvalues: Complexes, *, is_real: bool) -> Floats:
    """Return the angles of eigenvalues, from 0 to `_end_angle`."""
    if is_real:  # eigenvalues in the lower half are the conjugates of those in the upper half
        return np.abs(np.angle(eigenvalues))
    return np.angle(eigenvalues) % (2 * np.pi)


def _refined_radius(
    excess: Callable[[Floats | float, Floats, float], Floats],
    peaks: Floats,  # (peaks,)
    window: float,
    radii: Floats,  # (radii,)
) -> float:
    """Return the largest radius of the region in windows of angles that narrow around peaks."""
    best = 0.0
    centres = peaks[:, None]
    for _ in range(_NARROWINGS):
        candidates = centres + window * np.linspace(-1, 1, _ANGLES_OF_PEAK)
        rays = candidates.ravel()
        # the boundary of each ray lies between its last radius within and the next one
        last = _last_within(excess(radii[:, None], rays, 1e-4) <= 0)
        inner = radii[np.maximum(last, 0)]
        outer = radii[np.minimum(last + 1, len(radii) - 1)]
        found = _outermost(lambda r, rays=rays: excess(r, rays, 1e-6), inner, outer)
        found = np.where(last >= 0, found, 0.0).reshape(candidates.shape)
        best = max(best, float(found.max()))
        centres = np.take_along_axis(candidates, found.argmax(1)[:, None], 1)
        # three peaks are enough once their order is known
        centres = centres[np.argsort(-found.max(1), kind="stable")][:_MAX_PEAKS]
        window *= _NARROWING
    return best


def _outermost(
    f: Callable[[Floats], Floats],
    inner: Floats,  # (rays,)
    outer: Floats,  # (rays,)
) -> Floats:  # (rays,)
    """Return the root of a function between radii, by brackets that close until they converge.

    Secants and bisections take turns, so a bracket halves at least every second time.
    """
    low = inner.copy()
    high = outer.copy()
    at_low = f(low)
    at_high = f(high)
    for step in range(_MAX_BISECTIONS):
        if (high - low <= 0.01 * _RADIUS_ERROR * high).all():
            break
        if step % 2 == 0:
            # a ray without a change of sign gets any finite point of its bracket
            rise = np.where(at_high > at_low, at_high - at_low, 1)
            middle = np.clip(low - at_low * (high - low) / rise, low, high)
        else:
            middle = (low + high) / 2
        value = f(middle)
        below = value <= 0
        low = np.where(below, middle, low)
        at_low = np.where(below, value, at_low)
        high = np.where(below, high, middle)
        at_high = np.where(below, at_high, value)
    return low


def _check_extent(extent: Extent) -> None:
    """Check that an extent is a rectangle.

    Raises:
        ValueError: If it is not.
    """
    expected = "expected an extent (left < right, bottom < top)"
    try:
        left, right, bottom, top = map(float, extent)
    except (TypeError, ValueError):
        raise ValueError(f"{expected}, got {extent}") from None
    if not (np.isfinite([left, right, bottom, top]).all() and left < right and bottom < top):
        raise ValueError(f"{expected}, got {extent}")


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
        if np.isinf(self.constant):
            title = "infinite Kreiss constant: the powers of W grow without bound"
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
    peaks. Apart from rounding, the result is a lower bound: a peak much narrower than the grid
    can be missed. For matrices with a closed form, the relative error was below 1e-7.

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
    T = triangular(matrix)
    is_real = not np.iscomplexobj(matrix)
    norm = max(1.0, float(np.linalg.norm(matrix, 2)))
    angles = _angles(T.diagonal(), is_real=is_real)
    distances = _distances(T, angles, norm)
    values = _values(T, distances[:, None], angles, tolerance=1e-2)  # within _GRID_ERROR
    curve = values.max(1)
    rounding = 10 * len(T) * np.finfo(np.float64).eps * norm
    outside = np.abs(T.diagonal()).max() - 1 > rounding
    if outside or _still_rises(distances, curve):
        constant = np.inf
        where = complex(np.inf)
    elif numerical_abscissa(matrix, angles=_RANGE_ANGLES).radius <= 1 + rounding:
        # then K is 1 exactly, where a search would stop just above or below
        constant = 1.0
        where = complex(np.inf)
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
    even = np.linspace(0, _end_angle(is_real=is_real), _ANGLES)
    # the curve peaks in front of eigenvalues, and more narrowly the closer they are to the circle
    return np.unique(np.concatenate([even, _own_angles(largest, is_real=is_real)]))


def _distances(T: Complexes, angles: Floats, norm: float) -> Floats:
    # closer than this the resolvent is about that on the circle, so the curve is below 1
    circle: Complexes = np.exp(1j * angles).astype(np.complex128)
    nearest = smallest_singular_values(T, circle, tolerance=1e-2).min() / 10
    return np.geomspace(max(nearest, _MIN_DISTANCE), _MAX_DISTANCE * norm, _RADII)


def _still_rises(distances: Floats, curve: Floats) -> bool:
    """Whether the curve more than doubles over the last three decades before the circle."""
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
    # a peak is at least as high as all points around it, and the grid ends in minus infinity
    padded = np.pad(values, 1, constant_values=-np.inf)
    around = np.lib.stride_tricks.sliding_window_view(padded, (3, 3))
    rows, columns = np.nonzero(values >= around.max((2, 3)))
    # a rise to the end of the grid is a rise to 1, up to 1e-6
    chosen = (rows < len(distances) - 1) & (values[rows, columns] > 1 - _GRID_ERROR)
    rows = rows[chosen]
    columns = columns[chosen]
    if not len(rows):
        return 1.0, complex(np.inf)
    highest = np.argsort(-values[rows, columns], kind="stable")[:_MAX_PEAKS]
    # the logarithm of the distance, because the radii form a geometric sequence
    initial = np.stack([np.log(distances[rows[highest]]), angles[columns[highest]]], axis=1)
    widths = np.array([np.log(distances[1] / distances[0]), np.pi / (_ANGLES - 1)])

    def f(points: Floats) -> Floats:
        within_grid = np.clip(np.exp(points[..., 0]), distances[0], distances[-1])
        return _values(T, within_grid, points[..., 1], tolerance=1e-5)

    log, angle = _stencil_search(f, initial, widths)
    distance = np.clip(np.exp(log), distances[0], distances[-1])
    z = complex((1 + distance) * np.exp(1j * angle))
    # once more by a decomposition, as the search needs only 1e-5
    sigma = np.linalg.svd(z * np.eye(len(T)) - T, compute_uv=False)[-1]
    maximum = float(distance / sigma)
    # the limit at infinity is 1: a maximum must exceed it by more than rounding
    slack = 10 * len(T) * np.finfo(np.float64).eps * np.linalg.norm(T, 2) / distance
    if maximum <= 1 + slack:
        return 1.0, complex(np.inf)
    return maximum, z


def _stencil_search(
    f: Callable[[Floats], Floats],  # (..., 2) to (...)
    initial: Floats,  # (points, 2)
    width: Floats,  # (2,)
) -> Floats:  # (2,)
    """Return the maximiser near any initial point, by stencils that move or else shrink."""
    side = np.linspace(-1, 1, 5)
    stencil = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    stencil = stencil[np.abs(stencil).sum(1).argsort()]  # centre first, so index 0 means no gain
    centres = initial
    widths = np.tile(width, (len(initial), 1))
    best = np.full(len(initial), -np.inf)
    for _ in range(_MAX_ITERATIONS):
        points = centres[:, None] + stencil * widths[:, None]
        values = f(points)
        best_index = values.argmax(1)
        rows = np.arange(len(initial))
        # a gain within rounding does not count
        best_index[values[rows, best_index] <= values[:, 0] * (1 + 1e-9)] = 0
        best = values[rows, best_index]
        centres = points[rows, best_index]
        at_edge = np.abs(stencil[best_index]) == 1
        widths = np.where(at_edge, widths, widths * 0.5)
        if (widths < 1e-5 * width).all():
            break
    return centres[best.argmax()]


def triangular(W: NumberArray) -> Complexes:  # (N, N)
    """Return an upper triangular matrix that is unitarily similar to W."""
    import scipy.linalg

    check_finite(W)
    # a triangular matrix keeps its eigenvalues exactly
    if not np.tril(W, -1).any():
        return W.astype(np.complex128)
    if not np.triu(W, 1).any():  # reversing the order of the units is a unitary map
        return W[::-1, ::-1].astype(np.complex128)
    schur: Any = scipy.linalg.schur
    T, _ = schur(W, output="complex")
    return T


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
    eps = np.finfo(np.float64).eps
    size = float(np.linalg.norm(T, 2))
    chunk = max(1, _CHUNK_ENTRIES // len(T))
    chunks = [z[k : k + chunk] for k in range(0, len(z), chunk)]
    # a triangular matrix is normal exactly if it is diagonal
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
    previous = np.zeros_like(q)
    beta = np.zeros(len(z))
    alphas = np.empty((_MAX_STEPS, len(z)))
    betas = np.empty((_MAX_STEPS, len(z)))
    for k in range(_MAX_STEPS):
        # the three-term recurrence: A q_k = beta_(k-1) q_(k-1) + alpha_k q_k + beta_k q_(k+1)
        r = _solve(T, z[active], _solve_adjoint(T, z[active], q))
        r -= beta * previous
        alpha = np.einsum("np,np->p", q.conj(), r).real
        r -= alpha * q
        beta = np.linalg.norm(r, axis=0)
        alphas[k, active] = alpha
        betas[k, active] = beta
        previous = q
        q = r / np.where(beta > 0, beta, 1)  # zero if the space of q has been exhausted
        if k + 1 in _CHECK_AFTER:
            top, done = _ritz_values(alphas[: k + 1, active], betas[: k + 1, active], tolerance)
            largest[active] = top
            # the solves of the next steps run at the remaining points only
            active = active[~done]
            previous = previous[:, ~done]
            q = q[:, ~done]
            beta = beta[~done]
            if not len(active):
                break
    sigma = 1 / np.sqrt(largest)
    I = np.eye(len(T))
    for point in active:  # those that have not converged
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
    # of a point that overflowed the identity, because one NaN would make eigh fail for all
    tridiagonal[:, k, k] = np.where(overflowed, 1, alphas).T
    tridiagonal[:, k[1:], k[:-1]] = np.where(overflowed, 0, betas[:-1]).T  # eigh reads this half
    values, vectors = np.linalg.eigh(tridiagonal)
    top = values[:, -1]
    # the norm of the residual of a Ritz vector is beta_k times the last entry of its eigenvector
    residual = np.where(overflowed, 0, betas[-1]) * np.abs(vectors[:, -1, -1])
    top = np.where(overflowed, np.inf, top)  # zI - T is singular: sigma is zero
    return top, overflowed | (residual <= tolerance * top)


def _solve(T: Complexes, z: Complexes, B: Complexes) -> Complexes:
    """Solve (z I - T) x = b for each column b of B, with its own z."""
    # Back substitution in which each row is one operation for all points. The rows of a block
    # first take everything below the block, in one matrix product.
    X = B.copy()
    for top in reversed(range(0, len(T), _BLOCK)):
        end = min(top + _BLOCK, len(T))
        X[top:end] += T[top:end, end:] @ X[end:]
        for i in reversed(range(top, end)):
            X[i] = (X[i] + T[i, i + 1 : end] @ X[i + 1 : end]) / (z - T[i, i])
    return X


def _solve_adjoint(T: Complexes, z: Complexes, B: Complexes) -> Complexes:
    """Solve (z I - T)^H x = b for each column b of B, with its own z."""
    # as in `_solve`, but the adjoint is lower triangular, so the first row comes first
    X = B.copy()
    H = T.conj().T
    conjugate = z.conj()
    for top in range(0, len(T), _BLOCK):
        end = min(top + _BLOCK, len(T))
        X[top:end] += H[top:end, :top] @ X[:top]
        for i in range(top, end):
            X[i] = (X[i] + H[i, top:i] @ X[top:i]) / (conjugate - H[i, i])
    return X
