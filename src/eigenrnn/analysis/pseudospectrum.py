"""Pseudospectra and the Kreiss constant, from the smallest singular values of zI - W."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from eigenrnn.analysis import plot
from eigenrnn.analysis.arguments import Matrix, NumberArray, as_matrix
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.errors import check_positive, check_positive_integer

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Kreiss", "Pseudospectrum", "kreiss", "pseudospectrum"]

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

_EPS = float(np.finfo(np.float64).eps)
_RADIUS_ERROR = 1e-6  # relative, of the pseudospectral radius
_MIN_DISTANCE = 1e-7  # of `kreiss` to the unit circle: any closer, rounding of z is too large


@dataclass(frozen=True)
class Pseudospectrum(Analysis):
    r"""The distance of zI - W from singularity, over a rectangle in the plane.

    Args:
        x: The real parts of the grid points z.
        y: The imaginary parts of the grid points z.
        sigma_min: The smallest singular value of :math:`z I - W`.
        eigenvalues: The eigenvalues of W.
        epsilon: The perturbation size :math:`\epsilon` of the radius.
        radius: The largest modulus in :math:`\Lambda_\epsilon`, inside the rectangle or not.
    Shape:
        x: (columns,); y: (rows,); sigma_min: (rows, columns); eigenvalues: (N,).
    """

    x: Floats
    y: Floats
    sigma_min: Floats
    eigenvalues: Complexes
    epsilon: float
    radius: float

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        power = np.log10(self.sigma_min)
        low = max(np.ceil(power.min()), -8.0)
        step = 0.5 if low >= -3 else 1.0
        levels = np.arange(low, power.max(), step)
        if len(levels) > 1:
            name = r"$\log_{10}\,\sigma_{\min}(zI - W)$"
            plot.contours(axes, self.x, self.y, power, name, levels)
        plot.plane(axes, {"eigenvalues": self.eigenvalues})
        axes.set_xlim(self.x[0], self.x[-1])
        axes.set_ylim(self.y[0], self.y[-1])
        plot.label(axes, "real part", "imaginary part", "pseudospectra and eigenvalues (dots)")
        return figure

    def table(self) -> Table:
        x, y = np.meshgrid(self.x, self.y)
        return {"x": x.ravel(), "y": y.ravel(), "sigma_min": self.sigma_min.ravel()}

    def headline(self) -> dict[str, float]:
        """Return the spectral radius, and its largest value under a perturbation of epsilon."""
        return {
            "spectral radius": float(np.abs(self.eigenvalues).max()),
            f"pseudospectral radius at {self.epsilon:g}": self.radius,
        }


def pseudospectrum(
    W: Matrix,  # (N, N)
    *,
    resolution: int | None = None,
    epsilon: float = 0.01,
) -> Pseudospectrum:
    r"""Compute the pseudospectra of a matrix, the eigenvalues of its perturbations.

    .. math:: \Lambda_\epsilon(W) = \{ z : \sigma_{\min}(z I - W) \le \epsilon \}
        = \{ z : z \text{ is an eigenvalue of } W + E, \ \|E\|_2 \le \epsilon \}

    The radius does not depend on the grid. Circles and rays take turns: the circle just beyond the
    radius so far meets the boundary of :math:`\Lambda_\epsilon` at eigenvalues of modulus 1 of a
    pencil of 2N rows, and a ray leads from the deepest point of its arcs to the boundary. The
    search ends at a circle without a point inside: nothing lies further out, because every part of
    :math:`\Lambda_\epsilon` contains an eigenvalue. The relative error is at most 1e-5 for N up to
    256, by closed forms and by singular values on dense circles. The radius is at least the
    spectral radius plus :math:`\epsilon`, and exactly that for a normal matrix.

    Args:
        W: The recurrent matrix, or a layer with only one.
        resolution: The number of points along each side of the grid, a square around all
            eigenvalues and the unit circle; None means 60 for up to 64 units, fewer for more, and
            at least 20. Each point costs a singular value decomposition.
        epsilon: The size of perturbations for the radius.
    Shape:
        W: :math:`(N, N)`.
    Returns:
        The smallest singular values. Those below the rounding error,
        :math:`10^{-16} \|z I - W\|_2`, are replaced by it.
    Raises:
        ValueError: If W is not square or not finite, the resolution is below 2, or epsilon is not
            positive.
    Source:
        Trefethen, Computation of pseudospectra, Acta Numerica 8, 1999.
        https://doi.org/10.1017/S0962492900002932; Mengi and Overton, IMA Journal of Numerical
        Analysis 25, 2005. https://doi.org/10.1093/imanum/dri012 (departures: a ray ends at any
        crossing beyond the circle, because the next circle finds all that lies further out).
    Example:
        >>> pseudospectrum(np.diag([0.5, -0.5]), resolution=3).sigma_min.round(3)
        array([[1.458, 1.346, 1.458],
               [0.75 , 0.5  , 0.75 ],
               [1.458, 1.346, 1.458]])
        >>> pseudospectrum(0.5 * np.eye(3)).radius
        0.51
    """
    matrix = as_matrix(W)
    if resolution is None:
        resolution = int(np.clip(3840 // len(matrix), 20, 60))
    check_positive_integer("resolution", resolution)
    if resolution < 2:
        raise ValueError(f"expected resolution >= 2, got {resolution}")
    check_positive("epsilon", epsilon)
    eigenvalues = np.linalg.eigvals(matrix).astype(np.complex128)
    reach = 1.25 * max(1.0, float(np.abs(eigenvalues).max()))
    x = np.linspace(-reach, reach, resolution)
    # sigma_min of a real matrix is the same at z and at its conjugate
    mirrored = not np.iscomplexobj(matrix)
    rows = x[: (resolution + 1) // 2] if mirrored else x
    sigma_min = _smallest_singular_values(matrix, x + 1j * rows[:, None])
    if mirrored:  # the middle row of an odd number is its own image
        sigma_min = np.concatenate([sigma_min, sigma_min[: resolution // 2][::-1]])
    radius = _pseudospectral_radius(matrix, eigenvalues, epsilon)
    return Pseudospectrum(x, x, sigma_min, eigenvalues, epsilon, radius)


def _smallest_singular_values(W: NumberArray, z: NDArray[Any]) -> Floats:  # of the shape of z
    I = np.eye(len(W))
    smallest: list[float] = []
    for point in z.flat:
        sigma = np.linalg.svd(point * I - W, compute_uv=False)
        smallest.append(max(sigma[-1], _EPS * sigma[0]))
    return np.reshape(smallest, z.shape)


def _pseudospectral_radius(W: NumberArray, eigenvalues: Complexes, epsilon: float) -> float:
    """Return the largest modulus of a point whose smallest singular value is at most epsilon."""
    import scipy.optimize

    highest = float(np.linalg.norm(W, 2)) + 2 * epsilon  # outside: |z| <= |W| + epsilon
    radius = float(np.abs(eigenvalues).max()) + epsilon  # some perturbation reaches this far
    brentq: Any = scipy.optimize.brentq
    while True:
        beyond = (1 + _RADIUS_ERROR) * radius
        angles = _crossings(W, beyond, epsilon)
        directions = np.array([1.0 + 0j])  # without a crossing, any point of the circle will do
        if len(angles):
            following = np.append(angles[1:], angles[0] + 2 * np.pi)
            directions = np.exp(0.5j * (angles + following))
        sigma = _smallest_singular_values(W, beyond * directions)
        if sigma.min() >= epsilon:
            return radius
        ray = directions[sigma.argmin()]

        def excess(r: float, ray: complex = ray) -> float:
            return _smallest_singular_values(W, np.array(r * ray)).item() - epsilon

        radius = brentq(excess, beyond, highest, xtol=1e-9 * beyond)


def _crossings(W: NumberArray, r: float, epsilon: float) -> Floats:  # (crossings,)
    r"""Return the rising angles at which :math:`\epsilon` is a singular value on a circle.

    With :math:`z = r \lambda`, the vectors of the singular value :math:`\epsilon` of
    :math:`z I - W` solve :math:`L v = \lambda R v`.
    """
    I = np.eye(len(W))
    zero = np.zeros_like(W)
    L = np.block([[-epsilon * I, W], [r * I, zero]])
    R = np.block([[zero, r * I], [W.conj().T, -epsilon * I]])
    # A Cayley transform, lambda = mu (1 + s) / (1 - s), turns the pencil into one matrix, whose
    # eigenvalues are several times as fast. Any mu of modulus 1 will do, unless -mu is one of
    # them: those of real matrices are often 1 or -1.
    mu = np.exp(0.3j)
    s = np.linalg.eigvals(np.linalg.solve(L + mu * R, L - mu * R))
    s = s[s != 1]  # lambda is infinite
    found = mu * (1 + s) / (1 - s)
    # loose, because an angle too many only splits an arc
    return np.sort(np.angle(found[np.abs(np.abs(found) - 1) <= 1e-4]))


@dataclass(frozen=True)
class Kreiss(Analysis):
    r"""The Kreiss constant, and the curve whose maximum it is.

    Args:
        constant: K; infinite if the powers are unbounded.
        where: The maximiser z; infinite if K is 1, its limit at infinity, or if K is infinite.
        distances: :math:`|z| - 1`.
        curve: :math:`(|z| - 1) \|(z I - W)^{-1}\|_2`, its maximum over the angles of the grid.
    Shape:
        distances, curve: (radii,).
    """

    constant: float
    where: complex
    distances: Floats
    curve: Floats

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        plot.lines(axes, np.log10(self.distances), {"curve": self.curve}, log=True)
        name = r"$(|z| - 1)\,\|(zI - W)^{-1}\|_2$, maximum over angles"
        title = f"Kreiss constant {self.constant:.4g}"
        plot.label(axes, r"$\log_{10}(|z| - 1)$", name, title)
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
    eigenvalues outside the unit circle. The maximum is searched on a grid of 20 radii and 24
    angles, with those of the 12 largest eigenvalues, and refined from its three highest peaks.
    Apart from rounding, the result is a lower bound: a peak much narrower than the grid can be
    missed. For matrices with a closed form, the relative error was below 1e-7; on random matrices
    with K above 1e12, a finer search found up to half as much again.

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
    eigenvalues = np.linalg.eigvals(matrix)
    # the curve peaks in front of eigenvalues, and more narrowly the closer they are to the circle
    outermost = eigenvalues[np.argsort(-np.abs(eigenvalues))[:12]]
    angles = np.concatenate([np.linspace(0, 2 * np.pi, 25), np.angle(outermost)])
    if not np.iscomplexobj(matrix):  # then conjugate points have the same value
        angles = np.unique(np.abs(angles[angles <= np.pi]))
    circle = np.exp(1j * angles)
    # closer than this the resolvent is about that on the circle, so the curve is below 1
    nearest = float(_smallest_singular_values(matrix, circle).min()) / 10
    norm = max(1.0, float(np.linalg.norm(matrix, 2)))
    distances = np.geomspace(max(nearest, _MIN_DISTANCE), 1e3 * norm, 20)
    values = _heights(matrix, (1 + distances[:, None]) * circle)
    curve = values.max(1)
    near = distances <= 1e3 * _MIN_DISTANCE
    still_rises = near.sum() > 1 and curve[0] > 2 * curve[near][-1]
    rounding = 10 * len(matrix) * _EPS * norm
    if still_rises or np.abs(eigenvalues).max() > 1 + rounding:
        return Kreiss(np.inf, complex(np.inf), distances, curve)
    constant = 1.0  # the limit at infinity
    where = complex(np.inf)
    # without the last distance: a rise towards it is one to the limit
    neighbours = np.maximum(curve[1:], np.append(0, curve[:-2]))
    peaks = np.flatnonzero(curve[:-1] >= neighbours)
    for k in peaks[np.argsort(-curve[peaks])][:3]:
        z = _refined(matrix, float(distances[k]), angles[values[k].argmax()])
        value = _heights(matrix, z).item()
        if value > constant + rounding * (1 + 1 / (abs(z.item()) - 1)):
            constant = value
            where = z.item()
    return Kreiss(constant, where, distances, curve)


def _heights(W: NumberArray, z: NDArray[Any]) -> Floats:  # of the shape of z
    return (np.abs(z) - 1) / _smallest_singular_values(W, z)


def _refined(W: NumberArray, distance: float, angle: float) -> Complexes:  # ()
    """Return the maximiser of the heights near a point."""
    import scipy.optimize

    # near the circle, heights change over angles of the size of the distance
    width = min(distance, 0.1)

    def point(x: Floats) -> Complexes:
        further = max(distance * np.exp(x[0]), _MIN_DISTANCE)
        return np.array((1 + further) * np.exp(1j * (angle + width * x[1])))

    def negative(x: Floats) -> float:
        return -np.log(_heights(W, point(x)).item())

    minimise: Any = scipy.optimize.minimize
    corners = [[0.0, 0.0], [0.5, 0.0], [0.0, 1.0]]
    options = {"initial_simplex": corners, "xatol": 1e-2, "fatol": 1e-9}
    return point(minimise(negative, corners[0], method="Nelder-Mead", options=options).x)
