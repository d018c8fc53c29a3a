"""The pictures of the report: learning curves by plotly, and figures of analyses as SVG."""

import hashlib
import io
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import TYPE_CHECKING, Any

from eigenrnn_experiments.report.learning_curves import Curve, Group, curve
from eigenrnn_experiments.report.tables import chosen_by
from eigenrnn_experiments.statistics import rounded

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["as_svg", "learning_curves"]

# legible on light and on dark pages
_COLOURS = ("#2f97cf", "#d9682e", "#1aa67f", "#bd63a4", "#b88412", "#7a84d6", "#838b94")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_GREY = "#7d8791"
_DIGITS = 5  # significant ones, finer than a pixel; more would only lengthen the page
_CONFIG = {"displayModeBar": False, "responsive": True}


def learning_curves(groups: Sequence[Group], networks: Sequence[str], name: str) -> str:
    """Return the learning curves of one task as an element of a page that has plotly's script.

    A menu chooses the quantity, and another one the scale. A click into the legend hides a curve.

    Args:
        groups: The groups of runs of the task.
        networks: The networks of all tasks; each has one colour.
        name: The identifier of the element.
    Returns:
        The element; empty if no run has metrics yet.
    """
    import plotly.graph_objects as go

    # points of a search share the colour of their network and differ by their dash patterns
    dashes: dict[str, int] = {}
    traces: list[Any] = []
    quantity_of: list[str] = []
    for each in groups:
        colour = networks.index(each.network)
        dash = _DASHES[(colour + dashes.get(each.network, 0)) % len(_DASHES)]
        dashes[each.network] = dashes.get(each.network, 0) + 1
        style = {"color": _COLOURS[colour % len(_COLOURS)], "dash": dash}
        for quantity in each.quantities:
            drawn = _traces(each, curve(each.runs, quantity), style)
            traces += drawn
            quantity_of += [quantity] * len(drawn)
    if not traces:
        return ""
    initial = chosen_by(groups).replace(" ", "_")  # such as validation_accuracy
    if initial not in quantity_of:
        initial = quantity_of[0]
    buttons: list[dict[str, Any]] = []
    for quantity in dict.fromkeys(quantity_of):
        visible = [
            trace["visible"] if of == quantity else False
            for trace, of in zip(traces, quantity_of, strict=True)
        ]
        title = {"yaxis.title.text": _words(quantity)}
        arguments = [{"visible": visible}, title]
        buttons.append({"label": _words(quantity), "method": "update", "args": arguments})
    names = list(dict.fromkeys(quantity_of))
    for trace, quantity in zip(traces, quantity_of, strict=True):
        if quantity != initial:
            trace["visible"] = False
    scales = [
        {"label": label, "method": "relayout", "args": [{"yaxis.type": kind}]}
        for label, kind in (("Linear", "linear"), ("Logarithmic", "log"))
    ]
    menu = {"type": "dropdown", "direction": "down", "y": 1.02, "yanchor": "bottom"}
    figure = go.Figure(
        traces,
        {
            "font": {"color": _GREY, "size": 13},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "margin": {"l": 60, "r": 14, "t": 50, "b": 44},
            "legend": {"orientation": "h", "y": -0.18},
            "xaxis": {"title": "training steps", "gridcolor": "rgba(125,135,145,0.25)"},
            "yaxis": {"title": _words(initial), "gridcolor": "rgba(125,135,145,0.25)"},
            "updatemenus": [
                {**menu, "buttons": buttons, "active": names.index(initial), "x": 0.0}
                | {"xanchor": "left"},
                {**menu, "buttons": scales, "x": 1.0, "xanchor": "right"},
            ],
        },
    )
    return figure.to_html(
        config=_CONFIG,
        include_plotlyjs=False,
        full_html=False,
        default_height="420px",
        div_id=name,
    )


def _traces(group: Group, values: Curve, style: dict[str, str]) -> list[dict[str, Any]]:
    """Return the curve of a group and, over several runs, a band of one standard error."""
    label = _plain(group.label)
    if len(group.runs) > 1:
        label += f" ({len(group.runs)} {group.averaged_over})"
    shared = {
        "type": "scatter",
        "mode": "lines",
        "visible": True if group.shown else "legendonly",
        "legendgroup": label,
    }
    x = rounded(values.step, 9)  # exact up to a thousand million steps
    mean = {**shared, "name": label, "x": x, "y": rounded(values.mean, _DIGITS), "line": style}
    if len(x) == 1:
        mean["mode"] = "markers"
    if len(group.runs) == 1:
        return [mean]
    low = rounded(values.mean - values.error, _DIGITS)
    high = rounded(values.mean + values.error, _DIGITS)
    around: list[float | None] = []
    ends: list[float | None] = []
    # a closed line around each stretch of steps that several runs have
    points = zip(x, low, high, strict=True)
    for has_error, stretch in groupby(points, key=lambda point: point[1] is not None):
        if has_error:
            steps, lower, upper = zip(*stretch, strict=True)
            around += [*steps, *reversed(steps), None]
            ends += [*upper, *reversed(lower), None]
    band = {
        **shared,
        "x": around,
        "y": ends,
        "fill": "toself",
        "fillcolor": style["color"],
        "opacity": 0.2,
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    return [mean, band]


def _plain(text: str) -> str:
    """Escape a text from a file, because plotly interprets markup and links."""
    return escape(text, quote=False)


def _words(quantity: str) -> str:
    return _plain(quantity.replace("_", " "))


def as_svg(figure: "Figure") -> str:
    """Return a figure as an SVG element whose texts are text, for a page of either theme."""
    from matplotlib import rc_context

    plain = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "report"}):
        figure.savefig(plain, format="svg", transparent=True, metadata={"Date": None})
    svg = plain.getvalue()
    # the identifiers in a figure would be those of another one
    salt = hashlib.sha256(svg.encode()).hexdigest()[:8]
    for old in ('id="', 'href="#', "url(#"):
        svg = svg.replace(old, f"{old}s{salt}-")
    return svg[svg.index("<svg") :]
