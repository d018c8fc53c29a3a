"""Draws what the analyses have found; the one place that knows matplotlib."""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["bars", "canvas", "contours", "heat_map", "histogram", "label", "lines", "plane"]

_WIDTH, _HEIGHT = 5.0, 3.8  # inches
_STYLES = ("-", "--", "-.", ":")
_LEAST = 1e-10


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
    bands: Mapping[str, ArrayLike] | None = None,
    marker: str | None = None,
) -> None:
    """Draw curves by name, each with a band of this half width where there is one.

    One that lies upon another shows through its dashes. On a logarithmic axis zero stays blank,
    and what is ten orders below the top is cut off.
    """
    for name, y, style in zip(series, series.values(), cycle(_STYLES), strict=False):
        (line,) = axes.plot(x, y, label=name, linestyle=style, marker=marker, markersize=3)
        if bands and name in bands:
            middle, half = np.asarray(y), np.asarray(bands[name])
            axes.fill_between(x, middle - half, middle + half, color=line.get_color(), alpha=0.2)
    if log:
        axes.set_yscale("log", nonpositive="mask")
        low, high = axes.get_ylim()
        if high < 2 * low:  # rounding is no trend
            low, high = low / 2, high * 2
        axes.set_ylim(max(low, high * _LEAST), high)
    if len(series) > 1:
        axes.legend(fontsize="small", frameon=False)


def heat_map(
    axes: "Axes",
    values: ArrayLike,  # (rows, columns)
    name: str,
    *,
    log: bool = False,
    around_zero: bool = False,
) -> None:
    """Draw a matrix with its first row on top, and a bar that says what the colours mean.

    Args:
        axes: Where to.
        values: The matrix; NaN stays blank.
        name: What the numbers are.
        log: Whether colours stand for powers of ten; zero stays blank.
        around_zero: Whether the middle colour is zero.
    """
    from matplotlib.colors import LogNorm, Normalize

    shown = np.ma.masked_invalid(np.asarray(values, dtype=np.float64))
    shown = np.ma.masked_less_equal(shown, 0) if log else shown
    top = float(np.ma.max(np.ma.abs(shown))) if shown.count() else 1.0
    if log and shown.count():
        norm: Normalize = LogNorm(max(float(shown.min()), top * 1e-12), top)
    else:
        norm = Normalize(-top if around_zero else None, top if around_zero else None)
    colours = "RdBu_r" if around_zero else "viridis"
    image = axes.imshow(shown, cmap=colours, norm=norm, aspect="equal", interpolation="nearest")
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.85)
    bar.set_label(name)


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


def bars(axes: "Axes", heights: Mapping[str, float]) -> None:
    """Draw a bar for each number, by name."""
    axes.bar(list(heights), list(heights.values()))
