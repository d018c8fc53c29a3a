"""Figures of the analyses; the only module that draws with matplotlib."""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = [
    "canvas",
    "heat_map",
    "label",
    "lines",
    "plane",
]

_PANEL = (5.0, 3.8)  # inches
_STYLES = ("-", "--", "-.", ":")
_MIN_SHARE = 1e-10  # of the top of a logarithmic axis
_MIN_LOG_RANGE = 0.3  # of a decimal logarithm
_ROUNDING = 1e-6  # a relative range below this is drawn as a constant


def canvas(
    columns: int = 1, rows: int = 1, panel: tuple[float, float] = _PANEL
) -> tuple["Figure", list["Axes"]]:
    """Create an empty figure; return it with its axes, row by row.

    Args:
        columns: The number of panels side by side.
        rows: The number of rows of panels.
        panel: The width and the height of a panel, in inches.
    """
    # without pyplot: no figure stays registered, and a notebook displays it once
    from matplotlib.figure import Figure

    width, height = panel
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes: NDArray[Any] = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.flat)


def label(axes: "Axes", x: str, y: str, title: str = "") -> None:
    """Label both axes, and set a title."""
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
) -> None:
    """Draw named curves, with optional bands.

    A band is a half width around its curve, or two rows of limits. Line styles differ, so curves
    that coincide stay visible. A logarithmic axis omits zeros and everything more than ten orders
    of magnitude below the top. A single point has a marker. Integer x have integer ticks.
    """
    for name, y, style in zip(series, series.values(), cycle(_STYLES), strict=False):
        values = np.asarray(y, dtype=np.float64)
        is_point = (np.isfinite(values) & ((values > 0) | (not log))).sum() == 1
        shape = "o" if is_point else marker
        shown = _as_label(name)
        (line,) = axes.plot(x, y, label=shown, linestyle=style, marker=shape, markersize=3)
        if bands and name in bands:
            band = np.asarray(bands[name])
            if band.ndim == 2:
                low, high = band
            else:
                middle = np.asarray(y)
                low = middle - band
                high = middle + band
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    # all x, because matplotlib ignores points with NaN: a curve that ends in them would set the
    # end of the axis
    x_values = np.asarray(x, dtype=np.float64)
    axes.update_datalim(np.stack([x_values, x_values], axis=1), updatey=False)
    axes.autoscale_view()
    _set_range(axes, log=log)
    if np.asarray(x).dtype.kind in "iu":
        _integer_ticks(axes.xaxis)
    if len(series) > 1:
        axes.legend(fontsize="small", frameon=False)


def _as_label(name: str) -> str:
    """Return the name of a curve as matplotlib draws it: no formula, and never left out."""
    text = name.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _set_range(axes: "Axes", *, log: bool) -> None:
    """Set a range in which rounding does not look like a trend and tiny values are cut off."""
    if log:
        axes.set_yscale("log", nonpositive="mask")
        low, high = axes.get_ylim()
        if high < 2 * low:  # so little that it may be rounding
            low = low / 2
            high = high * 2
        # a curve that grows from one is shown from its beginning
        axes.set_ylim(max(low, min(high, 1.0) * _MIN_SHARE), high)
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
    """Draw a matrix with its first row on top, and a colour bar.

    Args:
        axes: The axes to draw on.
        values: The matrix; NaN is left blank.
        name: The label of the colour bar.
        log: Whether colours show the decimal logarithm; zero is left blank.
        orders: The orders of magnitude that colours resolve; smaller values get the lowest colour.
        around_zero: Whether the colours are centred at zero.
        first: The number of the first row and column.
    """
    shown = np.ma.masked_invalid(np.asarray(values, dtype=np.float64))
    if log:
        shown = np.ma.log10(np.ma.masked_less_equal(shown, 0))
    low = 0.0
    high = 0.0
    if shown.count():
        low = float(shown.min())
        high = float(shown.max())
    if log:
        low = max(low, high - orders)
        if high - low < _MIN_LOG_RANGE:  # rounding should not look like a trend
            low = low - _MIN_LOG_RANGE / 2
            high = high + _MIN_LOG_RANGE / 2
    elif around_zero:
        low, high = min(low, -high), max(-low, high)
    # matplotlib also computes with what is under the mask, which may be infinite
    shown = np.ma.array(shown.filled(low), mask=np.ma.getmaskarray(shown))
    rows, columns = shown.shape
    image = axes.imshow(
        shown,
        vmin=low,
        vmax=high,
        cmap="RdBu_r" if around_zero else "viridis",
        aspect="equal",
        interpolation="nearest",
        extent=(first - 0.5, first + columns - 0.5, first + rows - 0.5, first - 0.5),
    )
    _integer_ticks(axes.xaxis)
    _integer_ticks(axes.yaxis)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.85)
    bar.set_label(f"log10 of {name}" if log else name)


def plane(
    axes: "Axes",
    points: Mapping[str, ArrayLike],  # (n,) complex, each
    *,
    joined: Mapping[str, ArrayLike] | None = None,
) -> None:
    """Draw complex numbers as points, with the unit circle and closed curves.

    Where points of several names coincide, the first is on top and the others are rings around it.
    """
    angles = np.linspace(0, 2 * np.pi, 361)
    axes.plot(np.cos(angles), np.sin(angles), color="0.6", linewidth=0.8)
    for name, curve in (joined or {}).items():
        points_of_curve = np.asarray(curve, dtype=np.complex128)
        closed = np.concatenate([points_of_curve, points_of_curve[:1]])
        axes.plot(closed.real, closed.imag, linewidth=1, label=_as_label(name))
    for k, (name, values) in enumerate(points.items()):
        z = np.asarray(values, dtype=np.complex128)
        # each larger than the one before and below it, so it shows as a ring
        axes.plot(
            z.real,
            z.imag,
            label=_as_label(name),
            linestyle="",
            marker=".",
            markersize=5 + 5 * k,
            zorder=3 - k / 100,
        )
    axes.set_aspect("equal")
    label(axes, "real part", "imaginary part")
    if len(points) + len(joined or {}) > 1:  # beside the panel, which is square
        axes.legend(fontsize="small", frameon=False, loc="upper left", bbox_to_anchor=(1, 1))


def _integer_ticks(axis: "Axis") -> None:
    """Put ticks at integers only."""
    from matplotlib.ticker import MaxNLocator

    steps = [1, 2, 2.5, 5, 10]
    axis.set_major_locator(MaxNLocator("auto", steps=steps, integer=True, min_n_ticks=1))
