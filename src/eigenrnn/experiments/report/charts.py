"""The numbers behind the charts of a page, as JSON can hold them."""

from collections.abc import Sequence
from typing import Any

from eigenrnn.experiments.report.curves import Curve, Group, curve
from eigenrnn.experiments.report.networks import Network, main_matrix
from eigenrnn.experiments.report.numbers import listed

__all__ = ["Styles", "curves_of", "fisher_series", "maps_of", "spectra_of"]

_FIRST_SHOWN = ("test", "validation", "train")
_DIGITS = 5


class Styles:
    """The colour and the dashes of each group: the same in all charts, a colour a network."""

    def __init__(self, groups: Sequence[Group]) -> None:
        networks = list(dict.fromkeys(each.network for each in groups))
        self._of: dict[tuple[str, str], dict[str, int]] = {}
        of_network: dict[tuple[str, str], int] = {}
        for each in groups:
            colour = networks.index(each.network)
            place = each.network, each.task
            dash = colour + of_network.get(place, 0)  # points of a search share a colour
            of_network[place] = of_network.get(place, 0) + 1
            self._of[each.label, each.task] = {"colour": colour, "dash": dash}

    def of(self, group: Group) -> dict[str, int]:
        """Return the numbers of colour and dashes."""
        return self._of[group.label, group.task]


def curves_of(groups: Sequence[Group], styles: Styles) -> dict[str, Any] | None:
    """Collect the learning curves of one task; None if there is no number yet."""
    quantities = list(dict.fromkeys(name for each in groups for name in each.quantities))
    if not quantities:
        return None
    series = [
        {
            "label": _with_seeds(each),
            **styles.of(each),
            "shown": each.shown,
            "values": {q: _as_lists(curve(each.runs, q)) for q in each.quantities},
        }
        for each in groups
    ]
    return {"quantities": quantities, "start": _most_telling(quantities), "series": series}


def spectra_of(networks: Sequence[Network], styles: Styles) -> list[dict[str, Any]]:
    """Collect the eigenvalues of every network that has some."""
    return [
        {
            "label": network.name,
            "colour": styles.of(network.group)["colour"],
            "main": main_matrix(list(network.spectrum["spectra"])),
            "matrices": network.spectrum["spectra"],
            **{k: network.spectrum[k] for k in ("steps", "measures", "gradients", "note")},
        }
        for network in networks
        if network.spectrum is not None
    ]


def maps_of(networks: Sequence[Network], styles: Styles, kind: str) -> list[dict[str, Any]]:
    """Collect the heat maps of a kind, `schur` or `gradient`."""
    found: list[dict[str, Any]] = []
    for network in networks:
        pictures = getattr(network, kind)
        if pictures:
            colour = styles.of(network.group)["colour"]
            main = main_matrix(list(pictures))
            known = {"label": network.name, "colour": colour, "main": main}
            found.append({**known, "matrices": pictures})
    return found


def fisher_series(networks: Sequence[Network], styles: Styles) -> list[dict[str, Any]]:
    """Collect the Fisher memory curves; those of gates are hidden at first."""
    found: list[dict[str, Any]] = []
    for network in networks:
        main = main_matrix(list(network.fisher)) if network.fisher else ""
        for number, (name, memory) in enumerate(network.fisher.items()):
            style = styles.of(network.group)
            label = network.name if len(network.fisher) == 1 else f"{network.name}: {name}"
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


def _with_seeds(group: Group) -> str:
    count = len(group.runs)
    return f"{group.label} ({count} seeds)" if count > 1 else group.label


def _most_telling(quantities: Sequence[str]) -> str:
    """Choose what is shown at first: the metric of the test set, if there is one."""
    for split in _FIRST_SHOWN:
        of_split = [name for name in quantities if name.startswith(f"{split}_")]
        if of_split:
            no_loss = [name for name in of_split if not name.endswith("_loss")]
            return no_loss[0] if no_loss and split != "train" else of_split[0]
    return quantities[0]


def _as_lists(found: Curve) -> dict[str, list[float | None]]:
    return {
        "step": listed(found.step, 9),
        **{
            name: listed(getattr(found, name), _DIGITS)
            for name in ("mean", "error", "low", "high", "count")
        },
    }
