"""What is found in the trained networks: eigenvalues, Schur forms, gradients, memory."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from eigenrnn.analysis import recurrent_matrices, schur_structure
from eigenrnn.analysis.in_use import InUse, in_use
from eigenrnn.analysis.network_memory import has_no_gates, network_memory
from eigenrnn.experiments.report.collect import RunRecord, task_name
from eigenrnn.experiments.report.curves import Group
from eigenrnn.experiments.report.dynamics import watched
from eigenrnn.experiments.report.gradients import gradient_pictures
from eigenrnn.experiments.report.numbers import by_blocks, in_powers, listed, positive
from eigenrnn.linalg import check_finite

__all__ = ["MOST_NETWORKS", "Network", "Rebuild", "Trained", "look_into"]

MOST_NETWORKS = 16
"""Of more networks than this the last ones are left out of the charts of matrices."""

_MOST_CELLS = 128  # rows and columns of a heat map
_FLOOR = 1e-8  # of the largest number
_MAIN = ("hh", "candidate", "cell")


@dataclass(frozen=True)
class Trained:
    """A network as it was trained, and something for it to read.

    Args:
        model: The network with its best weights.
        inputs: What its recurrent layer reads; None leaves out what is seen of it at work.
    Shape:
        inputs: :math:`(T, B, M)`.
    """

    model: nn.Module
    inputs: Tensor | None


Rebuild = Callable[[Path], Trained | None]
"""Makes the network of a run again from its folder; a `ValueError` says why it cannot."""


@dataclass
class Network:
    """What is known of the network of a run; an analysis that failed says why in `whys`.

    Args:
        group: The runs that it stands for.
        run: The one that is looked into.
        spectrum: Eigenvalues and measures, over training if somebody watched.
        schur: A picture of the Schur form by matrix.
        gradient: A picture of the gradients between time steps by layer.
        fisher: Curves by matrix.
        whys: Why one of these is missing, by name.
        on: Its task, where another network has the same label.
    """

    group: Group
    run: RunRecord
    on: str = ""
    spectrum: dict[str, Any] | None = None
    schur: dict[str, Any] = field(default_factory=dict[str, Any])
    gradient: dict[str, Any] = field(default_factory=dict[str, Any])
    fisher: dict[str, Any] = field(default_factory=dict[str, Any])
    whys: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        """The label, and which of its seeds is shown."""
        seed = f"seed {self.run.seed}" if len(self.group.runs) > 1 else ""
        return ", ".join(part for part in (self.group.label, self.on, seed) if part)

    def explain(self, why: str, *names: str) -> None:
        """Say why something is missing."""
        for name in names:
            self.whys.setdefault(name, why)


def look_into(groups: Sequence[Group], rebuild: Rebuild | None) -> list[Network]:
    """Analyse one network of each group that is shown: the first that was watched, or the first.

    An analysis that fails, for whatever reason, leaves the page to the others.
    """
    labels = [each.label for each in groups]
    networks = [
        Network(
            each, _chosen(each), on="" if labels.count(each.label) == 1 else task_name(each.task)
        )
        for each in groups
        if each.shown
    ]
    for network in networks[:MOST_NETWORKS]:
        _look_into(network, rebuild)
    return networks[:MOST_NETWORKS]


def main_matrix(names: Sequence[str]) -> str:
    """Name the matrix by which the state itself goes on, and not a gate."""
    for kind in _MAIN:
        found = [name for name in names if name.rpartition(".")[2].startswith(kind)]
        if found:
            return found[0]
    return names[0]


def _chosen(group: Group) -> RunRecord:
    return next((run for run in group.runs if run.dynamics), group.runs[0])


def _look_into(network: Network, rebuild: Rebuild | None) -> None:
    with _explained(network, "spectrum"):
        network.spectrum = watched(network.run)
    if network.spectrum is not None:
        left_out = network.spectrum.pop("left_out")
        network.spectrum["note"] = f"{left_out} looks between are left out." if left_out else ""
    missing = ["schur", "gradient", "fisher", *(() if network.spectrum else ("spectrum",))]
    with _explained(network, *missing):
        trained = None if rebuild is None else rebuild(network.run.folder)
        if trained is None:
            raise ValueError("the trained network was not built again for this page")
        _analyse(network, trained)


def _analyse(network: Network, trained: Trained) -> None:
    matrices = recurrent_matrices(trained.model)
    if network.spectrum is None and "spectrum" not in network.whys:
        with _explained(network, "spectrum"):
            network.spectrum = _of_now(matrices)
    with _explained(network, "schur", "fisher"):
        _analyse_matrices(network, trained.model, matrices)
    if trained.inputs is None:
        network.explain("there is nothing for it to read: its data is not here", "gradient")
        return
    with _explained(network, "gradient"):
        network.gradient = gradient_pictures(trained.model, trained.inputs)


@contextmanager
def _explained(network: Network, *names: str) -> Generator[None]:
    """Say on the page why something is missing, whatever it was that failed."""
    try:
        yield
    except (ValueError, OSError) as error:  # which say what is wrong in words
        network.explain(str(error), *names)
    except Exception as error:  # files of any origin, and models that no analysis was made for
        network.explain(f"{type(error).__name__}: {error}", *names)


def _of_now(matrices: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Take the eigenvalues of the trained network alone."""
    for name, W in matrices.items():
        check_finite(W, name)
    found = {name: np.linalg.eigvals(W) for name, W in matrices.items()}
    return {
        "steps": [None],
        "spectra": {
            name: [{"re": listed(z.real, 4), "im": listed(z.imag, 4)}] for name, z in found.items()
        },
        "measures": {},
        "gradients": {},
        "note": "Those of the trained network alone: nobody watched this run.",
    }


def _analyse_matrices(
    network: Network, model: nn.Module, matrices: Mapping[str, NDArray[Any]]
) -> None:
    used = in_use(model)
    if not any(map(has_no_gates, matrices)):
        network.explain("its matrices are those of gates, which alone make no network", "fisher")
    for name, W in matrices.items():
        try:
            # of a network with one matrix, the form that its constraint is made of, if it is
            given = model if len(matrices) == 1 else W
            network.schur[name] = _schur_picture(schur_structure(given))
            if has_no_gates(name):
                network.fisher[name] = _memory(W, used[name])
        except (ValueError, np.linalg.LinAlgError) as error:
            network.explain(f"{name}: {error}", "schur" if name not in network.schur else "fisher")


def _memory(W: NDArray[Any], used: InUse) -> dict[str, Any]:
    found = network_memory(W, used)
    return {"values": positive(found.curve, _FLOOR), "total": found.total}


def _schur_picture(found: Any) -> dict[str, Any]:
    entries = np.abs(found.Theta)
    cells, block, _ = by_blocks(entries, _MOST_CELLS)
    places = list(range(1, len(entries) + 1, block))
    made = "The form that the network has learned" if found.learned else "A computed form"
    note = (
        f"{made}; {found.off_diagonal:.1%} of the norm is below the blocks of its diagonal, "
        f"and the largest modulus of an eigenvalue is {found.moduli.max():.4g}."
    )
    if block > 1:
        note += f" Each cell is the largest of {block} x {block} entries."
    return {
        "map": {
            "z": in_powers(cells, _FLOOR),
            "x": places,
            "y": places,
            "x_name": "from mode",
            "y_name": "to mode",
            "name": "|entry|",
            "log": True,
        },
        "profile": {
            "x": list(range(len(entries))),
            "y": positive(found.by_diagonal, _FLOOR),
            "x_name": "sub-diagonal",
            "y_name": "mean |entry|",
            "log": True,
        },
        "note": note,
    }
