"""Draws what the analyses have found; the one place that knows matplotlib."""

import math
from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["canvas", "contours", "heat_map", "histogram", "label", "lines", "plane"]

_WIDTH, _HEIGHT = 5.0, 3.8  # inches
_STYLES = ("-", "--", "-.", ":")
_LEAST = 1e-10
_HUGE = 1e100
_LEAST_RANGE = 0.3  # of a decimal logarithm
_ROUNDING = 1e-6


def canvas(columns: int = 1, rows: int = 1) -> tuple["Figure", list["Axes"]]:
    """Make an empty figure; return it with its axes, row by row."""
    # not pyplot's: nothing is kept alive, and a notebook shows it once
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH * columns, _HEIGHT * rows), layout="constrained")
    axes: NDArray[Any] = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def label(axes: "Axes", x: str, y: str, title: str = "") -> None:
    """Name both axes, and say what is shown."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, fontsize="medium")


def lines(
    axes: "Axes",
    x: ArrayLike,  # (n,)
    series: Mapping[str, ArrayLike],  # (n,) each
    *,
    log: bool = False,
    bands: Mapping[str, ArrayLike] | None = None,  # (n,) or (2, n) each
    marker: str | None = None,
    legend_above: bool = False,
) -> None:
    """Draw curves by name, each with a band of this half width where there is one.

    A band of two rows lies between them. One curve that lies upon another shows through its
    dashes. On a logarithmic axis zero stays blank, and what is ten orders below the top is cut
    off. A point alone has a marker. Where x is of whole numbers, so are its ticks.
    """
    for name, y, style in zip(series, series.values(), cycle(_STYLES), strict=False):
        is_point = _shown(y, log=log) == 1
        shape = "o" if is_point else marker
        (line,) = axes.plot(x, y, label=name, linestyle=style, marker=shape, markersize=3)
        if bands and name in bands:
            middle, half = np.asarray(y), np.asarray(bands[name])
            low, high = half if half.ndim == 2 else (middle - half, middle + half)
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    all_of_x = np.asarray(x, dtype=np.float64)  # seen or not
    axes.update_datalim(np.stack([all_of_x, all_of_x], axis=1), updatey=False)
    axes.autoscale_view()
    _open_range(axes, log=log)
    if np.asarray(x).dtype.kind in "iu":
        _whole(axes.xaxis)
    if len(series) > 1 and legend_above:
        axes.figure.legend(loc="outside upper center", ncols=4, fontsize="small", frameon=False)
    elif len(series) > 1:
        axes.legend(fontsize="small", frameon=False)


def _open_range(axes: "Axes", *, log: bool) -> None:
    """Keep rounding from looking like a trend, and what is next to nothing out of the picture."""
    if log:
        axes.set_yscale("log", nonpositive="mask")
        low, high = axes.get_ylim()
        if high < 2 * low:
            low, high = low / 2, high * 2
        axes.set_ylim(max(low, high * _LEAST), high)
        return
    low, high = axes.get_ylim()
    if high - low < _ROUNDING * max(abs(low), abs(high)):
        middle = (low + high) / 2
        axes.set_ylim(middle - abs(middle) / 10, middle + abs(middle) / 10)


def heat_map(
    axes: "Axes",
    values: ArrayLike,  # (rows, columns)
    name: str,
    *,
    log: bool = False,
    around_zero: bool = False,
    orders: int = 12,
    first: int = 0,
) -> None:
    """Draw a matrix with its first row on top, and a bar that says what the colours mean.

    Args:
        axes: Where to.
        values: The matrix; NaN stays blank.
        name: What the numbers are.
        log: Whether colours stand for the decimal logarithm; zero stays blank.
        orders: How many orders of magnitude they tell apart; what is below has the lowest colour.
        around_zero: Whether the middle colour is zero.
        first: The number of the first row and column.
    """
    shown = np.ma.masked_invalid(np.asarray(values, dtype=np.float64))
    shown = np.ma.log10(np.ma.masked_less_equal(shown, 0)) if log else shown
    low, high = (float(shown.min()), float(shown.max())) if shown.count() else (0.0, 0.0)
    if log:
        low = max(low, high - orders)
        if high - low < _LEAST_RANGE:  # rounding is no trend
            low, high = low - _LEAST_RANGE / 2, high + _LEAST_RANGE / 2
    elif around_zero:
        low, high = min(low, -high), max(-low, high)
    # colours are linear between the ends, whose distance must be a number
    size = _unit_of(low, high)
    shown = np.ma.array(shown.filled(low), mask=np.ma.getmaskarray(shown))
    rows, columns = shown.shape
    image = axes.imshow(
        shown / size,
        vmin=low / size,
        vmax=high / size,
        cmap="RdBu_r" if around_zero else "viridis",
        aspect="equal",
        interpolation="nearest",
        extent=(first - 0.5, first + columns - 0.5, first + rows - 0.5, first - 0.5),
    )
    _whole(axes.xaxis)
    _whole(axes.yaxis)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.85)
    said = f"log10 of {name}" if log else name
    bar.set_label(said if size == 1 else f"{said} / {size:.0e}")


def plane(
    axes: "Axes",
    points: Mapping[str, ArrayLike],  # (n,) complex, each
    *,
    circle: bool = True,
    joined: Mapping[str, ArrayLike] | None = None,
) -> None:
    """Draw complex numbers as points, with the unit circle and curves through others."""
    if circle:
        turns = np.linspace(0, 2 * np.pi, 361)
        axes.plot(np.cos(turns), np.sin(turns), color="0.6", linewidth=0.8)
    for name, curve in (joined or {}).items():
        around = np.asarray(curve, dtype=np.complex128)
        closed = np.concatenate([around, around[:1]])
        axes.plot(closed.real, closed.imag, linewidth=1, label=name)
    for name, values in points.items():
        z = np.asarray(values, dtype=np.complex128)
        axes.plot(z.real, z.imag, linestyle="", marker=".", markersize=5, label=name)
    axes.set_aspect("equal")
    label(axes, "real part", "imaginary part")
    if len(points) + len(joined or {}) > 1:
        axes.legend(fontsize="small", frameon=False, loc="upper left")


def contours(
    axes: "Axes",
    x: ArrayLike,  # (columns,)
    y: ArrayLike,  # (rows,)
    values: ArrayLike,  # (rows, columns)
    name: str,
    levels: ArrayLike | None = None,
) -> None:
    """Draw lines of equal value over a plane."""
    drawn = axes.contour(x, y, values, levels=levels, cmap="viridis", linewidths=1)
    axes.figure.colorbar(drawn, ax=axes, shrink=0.85).set_label(name)


def histogram(axes: "Axes", values: ArrayLike, bins: ArrayLike | int = 30) -> None:
    """Draw how often values come in each bin."""
    axes.hist(np.asarray(values).ravel(), bins=bins)  # pyright: ignore[reportArgumentType]


def _shown(y: ArrayLike, *, log: bool) -> int:
    """Return how many points of a curve can be seen."""
    values = np.asarray(y, dtype=np.float64)
    return int((np.isfinite(values) & ((values > 0) | (not log))).sum())


def _whole(axis: "Axis") -> None:
    """Put ticks at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    steps = [1, 2, 2.5, 5, 10]
    axis.set_major_locator(MaxNLocator("auto", steps=steps, integer=True, min_n_ticks=1))


def _unit_of(low: float, high: float) -> float:
    """Return the power of ten by which numbers are to be shown: one, if they are not huge."""
    top = max(abs(low), abs(high))
    return 1.0 if top < _HUGE else 10.0 ** math.floor(math.log10(top))
