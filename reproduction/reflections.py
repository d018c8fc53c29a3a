"""What a trained layer of the delta rule does with the letters of S3: is it a triangle?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn.analysis import Analysis, plot, transition_spectra
from eigenrnn.analysis.base import Figure, Table
from eigenrnn.layers import DeltaNet
from eigenrnn_experiments.tasks import StateTracking

__all__ = ["Reflections", "measure_reflections"]

LETTERS = ("neutral", "swap", "cycle")
ELEMENTS = ("012", "021", "102", "120", "201", "210")
"""The images of 0, 1 and 2 under the elements of S3, in their order in the task."""

EVEN = ("012", "120", "201")
ODD = ("021", "102", "210")

_WORDS = 50
_STEPS = 60
_SHOWN = 10  # points of each element


@dataclass(frozen=True)
class Reflections(Analysis):
    r"""The transitions of the three letters of S3 in one head, and its states in a plane.

    Args:
        eigenvalues: Those that each letter chooses.
        plane: What each letter does to the plane that the cycle rotates.
        points: States in the plane after words with each product, over their mean distance from
            the centre.
    Shape:
        eigenvalues: :math:`(R,)` each; plane: (2, 2) each; points: :math:`(n, 2)` each.
    """

    eigenvalues: Mapping[str, NDArray[np.complex128]]
    plane: Mapping[str, NDArray[np.float64]]
    points: Mapping[str, NDArray[np.float64]]

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "Reflections":
        """Return what `measure_reflections` measured."""
        eigenvalues: dict[str, NDArray[np.complex128]] = {}
        for name, pairs in entry["eigenvalues"].items():
            eigenvalues[name] = np.array(pairs) @ np.array([1, 1j])
        plane = {name: np.array(matrix) for name, matrix in entry["plane"].items()}
        points = {name: np.array(places) for name, places in entry["points"].items()}
        return cls(eigenvalues, plane, points)

    def plot(self) -> Figure:
        figure, (left, right) = plot.canvas(2)
        plot.plane(left, self.eigenvalues)
        left.set_title("eigenvalues that a letter chooses", fontsize="medium")
        clouds: dict[str, NDArray[np.complex128]] = {}
        triangles: dict[str, NDArray[np.complex128]] = {}
        for kind, names in (("rotations", EVEN), ("reflections", ODD)):
            each = [np.asarray(self.points[name] @ [1, 1j], np.complex128) for name in names]
            clouds[kind] = np.concatenate(each)
            corners = [points.mean() for points in each]
            triangles[", ".join(names)] = np.array(corners, np.complex128)
        plot.plane(right, clouds, joined=triangles)
        plot.label(right, "first axis", "second axis", "states after words with each product")
        return figure

    def table(self) -> Table:
        names = np.repeat(list(self.points), [len(points) for points in self.points.values()])
        points = np.concatenate(list(self.points.values()))
        return {"product": names, "first_axis": points[:, 0], "second_axis": points[:, 1]}


@torch.no_grad()
def measure_reflections(layer: DeltaNet, task: StateTracking) -> dict[str, Any]:
    """Measure a layer that was trained on the generators of S3.

    Of the heads, the one is chosen whose cycle rotates a plane by the angle closest to 120
    degrees. The states of a head have several columns, and not all of them follow the group. The
    two directions among the columns are found that separate the products best, relative to what
    varies among words with the same product. Of the combinations of these two, that is shown in
    which the six products are farthest apart: others may lie on an axis of a reflection.

    Returns:
        The head, the eigenvalues that the letters choose, what they do to the plane, and points.
    """
    import scipy.linalg

    layer = layer.double().eval()
    letters = torch.eye(len(LETTERS), dtype=torch.float64).unsqueeze(1)
    chosen = transition_spectra(layer, letters).chosen[:, 0]  # (letters, H, R)
    angles = np.abs(np.angle(chosen[LETTERS.index("cycle")]))
    head = int(np.abs(angles - 2 * np.pi / 3).min(-1).argmin())
    transitions = layer.transitions(letters)[0, :, 0, head]
    basis = _rotated_plane(transitions[LETTERS.index("cycle")])  # (2, K)
    plane = basis @ transitions @ basis.T

    batch = next(task.batches("test", _WORDS))
    words = batch.inputs[:_STEPS].double()
    products = batch.targets[:_STEPS].flatten().numpy()
    states = _states(layer, words, head)  # (words and steps, K, K)
    seen = (basis @ states).numpy()  # (words and steps, 2, K)
    means = np.stack([seen[products == g].mean(0) for g in range(len(ELEMENTS))])
    centred = means - means.mean(0)
    within = (seen - means[products]).reshape(-1, seen.shape[2])
    between = centred.reshape(-1, seen.shape[2])
    spread = within.T @ within / len(within)
    ridge = 1e-9 * np.trace(spread) + np.finfo(np.float64).tiny
    _, directions = scipy.linalg.eigh(between.T @ between, spread + ridge * np.eye(len(spread)))
    # the columns that follow the group span two dimensions at most, as the plane does
    direction = _farthest_apart(centred, directions[:, -2:])
    corners = centred @ direction
    places = (seen - means.mean(0)) @ direction
    radius = np.linalg.norm(corners, axis=1).mean()
    eigenvalues: dict[str, list[list[float]]] = {}
    maps: dict[str, list[list[float]]] = {}
    for i, name in enumerate(LETTERS):
        eigenvalues[name] = []
        for z in chosen[i, head]:
            eigenvalues[name].append([round(float(z.real), 5), round(float(z.imag), 5)])
        maps[name] = plane[i].numpy().round(4).tolist()
    points: dict[str, list[list[float]]] = {}
    for g, name in enumerate(ELEMENTS):
        points[name] = (places[products == g][:_SHOWN] / radius).round(4).tolist()
    return {"head": head, "eigenvalues": eigenvalues, "plane": maps, "points": points}


def _farthest_apart(
    means: NDArray[np.float64],  # (6, 2, K)
    directions: NDArray[np.float64],  # (K, 2)
) -> NDArray[np.float64]:  # (K,)
    """Return the combination of directions in which the closest two means are farthest apart."""
    best = directions[:, -1]
    largest = -1.0
    for angle in np.linspace(0, np.pi, 180, endpoint=False):
        direction = directions @ np.array([np.sin(angle), np.cos(angle)])
        corners = means @ direction
        distances = np.linalg.norm(corners[:, None] - corners, axis=2)
        closest = distances[np.triu_indices(len(corners), 1)].min()
        relative = closest / np.linalg.norm(corners, axis=1).mean()
        if relative > largest:
            best = direction
            largest = relative
    return best


def _rotated_plane(A: Tensor) -> Tensor:  # (K, K) to (2, K)
    """Return an orthonormal basis of the plane that a matrix rotates by about 120 degrees."""
    eigenvalues, vectors = torch.linalg.eig(A)
    nearest = (eigenvalues.angle() - 2 * torch.pi / 3).abs().argmin()
    pair = torch.stack([vectors[:, nearest].real, vectors[:, nearest].imag], dim=1)
    return torch.linalg.qr(pair)[0].T


def _states(layer: DeltaNet, words: Tensor, head: int) -> Tensor:  # (T, B, M) to (T B, K, K)
    """Return the matrix of a head after each letter of each word."""
    K = layer.hidden_size // layer.heads
    state = layer.initial_state(words.shape[1])
    found: list[Tensor] = []
    for x_t in words:
        _, state = layer.step(x_t, state)
        found.append(state[0, :, head * K * K : (head + 1) * K * K])
    return torch.cat(found).unflatten(1, (K, K))
