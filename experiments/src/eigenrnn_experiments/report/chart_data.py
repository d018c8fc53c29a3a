"""The data of the charts, as values that JSON can hold."""

from collections.abc import Sequence
from typing import Any

from eigenrnn_experiments.report.learning_curves import Curve, Group, curve
from eigenrnn_experiments.report.network_analyses import NetworkAnalysis, main_matrix
from eigenrnn_experiments.report.tables import chosen_by
from eigenrnn_experiments.statistics import rounded

__all__ = [
    "Styles",
    "fisher_curves",
    "heat_map_charts",
    "learning_curve_chart",
    "spectrum_charts",
]

_DIGITS = 5  # significant ones, finer than a pixel; more would only lengthen the page


class Styles:
    """The colour and dash pattern of each group; every network has one colour in all charts."""

    def __init__(self, groups: Sequence[Group]) -> None:
        networks = list(dict.fromkeys(each.network for each in groups))
        self._of: dict[tuple[str, str], dict[str, int]] = {}
        count: dict[tuple[str, str], int] = {}
        for each in groups:
            colour = networks.index(each.network)
            key = each.network, each.task
            # points of a search share the colour of their network and differ by their dash
            # patterns; each network begins with another one
            dash = colour + count.get(key, 0)
            count[key] = count.get(key, 0) + 1
            self._of[each.label, each.task] = {"colour": colour, "dash": dash}

    def of(self, group: Group) -> dict[str, int]:
        """Return the indices of the colour and the dash pattern."""
        return self._of[group.label, group.task]


def learning_curve_chart(groups: Sequence[Group], styles: Styles) -> dict[str, Any] | None:
    """Return the learning curves of one task; None if no run has metrics yet."""
    quantities: list[str] = []
    series: list[dict[str, Any]] = []
    for each in groups:
        values: dict[str, Any] = {}
        for name in each.quantities:
            values[name] = _curve_lists(curve(each.runs, name))
            if name not in quantities:
                quantities.append(name)
        series.append(
            {
                "label": _with_count(each),
                **styles.of(each),
                "shown": each.shown,
                "values": values,
            }
        )
    if not quantities:
        return None
    initial = chosen_by(groups).replace(" ", "_")  # such as validation_accuracy
    if initial not in quantities:
        initial = quantities[0]
    return {"quantities": quantities, "initial": initial, "series": series}


def spectrum_charts(networks: Sequence[NetworkAnalysis], styles: Styles) -> list[dict[str, Any]]:
    """Return the eigenvalues of each network for which they are known."""
    charts: list[dict[str, Any]] = []
    for network in networks:
        spectrum = network.spectrum
        if spectrum is None:
            continue
        charts.append(
            {
                "label": network.name,
                "colour": styles.of(network.group)["colour"],
                "main": main_matrix(list(spectrum["spectra"])),
                "matrices": spectrum["spectra"],
                "steps": spectrum["steps"],
                "measures": spectrum["measures"],
                "gradients": spectrum["gradients"],
                "note": spectrum["note"],
            }
        )
    return charts


def heat_map_charts(
    networks: Sequence[NetworkAnalysis], styles: Styles, kind: str
) -> list[dict[str, Any]]:
    """Return the heat maps of one kind, `schur` or `gradient`."""
    found: list[dict[str, Any]] = []
    for network in networks:
        pictures = getattr(network, kind)
        if pictures:
            found.append(
                {
                    "label": network.name,
                    "colour": styles.of(network.group)["colour"],
                    "main": main_matrix(list(pictures)),
                    "matrices": pictures,
                }
            )
    return found


def fisher_curves(networks: Sequence[NetworkAnalysis], styles: Styles) -> list[dict[str, Any]]:
    """Return the Fisher memory curves; only the one of the main matrix is shown initially."""
    found: list[dict[str, Any]] = []
    for network in networks:
        if not network.fisher:
            continue
        main = main_matrix(list(network.fisher))
        style = styles.of(network.group)
        for number, (name, memory) in enumerate(network.fisher.items()):
            label = network.name
            if len(network.fisher) > 1:
                label += f": {name}"
            found.append(
                {
                    "label": label,
                    "colour": style["colour"],
                    "dash": style["dash"] + number,
                    "shown": name == main,
                    "values": memory["values"],
                    "total": memory["total"],
                }
            )
    return found


def _with_count(group: Group) -> str:
    if len(group.runs) == 1:
        return group.label
    noun = group.averaged_over
    return f"{group.label} ({len(group.runs)} {noun})"


def _curve_lists(found: Curve) -> dict[str, list[float | None]]:
    return {
        "step": rounded(found.step, 9),  # exact up to a thousand million steps
        "mean": rounded(found.mean, _DIGITS),
        "error": rounded(found.error, _DIGITS),
        "low": rounded(found.low, _DIGITS),
        "high": rounded(found.high, _DIGITS),
        "count": rounded(found.count, _DIGITS),
    }
