"""How strongly each state depends on each input and on each earlier state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.spectral_norms import SpectralNorms
from eigenrnn.analysis.trajectory import trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["GradientMap", "gradient_map"]

_HUGE, _SMALL = 1e100, 1e-100
_NOTHING = 1e-200
_STEPS_TO_CLEAR = 8


@dataclass(frozen=True)
class GradientMap(Analysis):
    r"""The norms of the derivatives of states by what came before them.

    Args:
        by_input: :math:`\|\partial h_\tau / \partial x_t\|_2` at :math:`[\tau, t]`, of each block
            of the state and of the ``"whole"``; NaN where :math:`t > \tau`; empty if not asked
            for. Steps count from 1, as in the picture and the table; arrays from 0.
        by_state: :math:`\|\partial h_\tau / \partial h_t\|_2`, likewise; one where
            :math:`t = \tau`.
    Shape:
        by_input, by_state: :math:`(T, T)` each.
    """

    by_input: dict[str, NDArray[np.float64]]
    by_state: dict[str, NDArray[np.float64]]

    def plot(self) -> "Figure":
        maps = self._maps()
        rows = bool(self.by_input) + bool(self.by_state)
        figure, axes = plot.canvas(len(maps) // rows, rows)
        for panel, ((kind, block), values) in zip(axes, maps.items(), strict=True):
            source = "input" if kind == "input" else "state"
            plot.heat_map(panel, values, "gradient norm", log=True, first=1)
            title = "state" if block == "whole" else f"{block} part of the state"
            plot.label(
                panel, f"step t of the {source}", "step τ of the state", f"{title} by {source}"
            )
        return figure

    def table(self) -> Table:
        maps = self._maps()
        T = len(next(iter(maps.values())))
        tau, t = np.tril_indices(T)
        columns = {f"{block}_by_{kind}": values[tau, t] for (kind, block), values in maps.items()}
        return {"tau": tau + 1, "t": t + 1, **columns}

    def headline(self) -> dict[str, float]:
        maps = self._maps().items()
        return {f"last {block} by first {kind}": float(A[-1, 0]) for (kind, block), A in maps}

    def _maps(self) -> dict[tuple[str, str], NDArray[np.float64]]:
        kinds = {"input": self.by_input, "state": self.by_state}
        return {(kind, block): A for kind, maps in kinds.items() for block, A in maps.items()}


@torch.no_grad()
def gradient_map(
    layer: nn.Module,
    x: Tensor | ArrayLike,  # (T, B, M)
    *,
    of: Sequence[str] = ("input", "state"),
    which: str = "l0",
) -> GradientMap:
    r"""Measure how strongly every state depends on every input and on every earlier state.

    .. math:: \left\|\frac{\partial h_\tau}{\partial x_t}\right\|_2, \qquad
        \left\|\frac{\partial h_\tau}{\partial h_t}\right\|_2 =
        \Bigl\|\prod_{s=t+1}^{\tau} \frac{\partial h_s}{\partial h_{s-1}}\Bigr\|_2

    Norms are spectral ones and are averaged over the batch. Where a state has parts, the long and
    the short memory of an ENRNN, h and c of an LSTM, each part's rows have maps of their own.
    Products are carried with a scale of their own, so that a norm is infinite or zero only where
    a double cannot hold it; entries 1e100 times smaller than a product's norm may count as zero.
    Norms of more than 16 numbers by 16 are right to half a per cent, see
    `SpectralNorms`; smaller ones to rounding. Memory is that of :math:`T B S (S + M)` numbers.

    Args:
        layer: A recurrent layer, ours or torch's, or a model with one.
        x: The sequences, as the first layer takes them.
        of: What to differentiate by: ``"input"``, ``"state"`` or both.
        which: The layer and direction. The input of a later one is what the earlier give. That of
            a second direction is counted in the order in which it reads, from the last step.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; :math:`(B, T, M)` of a layer with `batch_first`.
    Returns:
        The maps.
    Raises:
        ValueError: If there is no such layer or direction, an input does not fit or is not finite,
            or `of` is neither.
    Source:
        Helfrich and Ye, AAAI 2020, figures 4 and 5. https://arxiv.org/abs/1911.07964 (departures:
        the mean of the norms of each sequence's own gradients, where the paper names a batch).
    Example:
        >>> found = gradient_map(torch.nn.RNN(2, 3), torch.zeros(5, 1, 2))
        >>> found.by_state["whole"].shape, float(found.by_state["whole"][4, 4])
        ((5, 5), 1.0)
    """
    kinds = (of,) if isinstance(of, str) else tuple(of)
    if not kinds or not set(kinds) <= {"input", "state"}:
        raise ValueError(f"expected of to name 'input', 'state' or both, got {of!r}")
    path = trajectory(layer, x, which)
    T, B, M = path.x.shape
    S = path.states.shape[2]
    blocks = {"whole": slice(0, S), **path.recurrence.blocks}
    sizes = {"input": M, "state": S}
    carried = {kind: _Carried(T, B, sizes[kind], S, blocks) for kind in kinds}
    maps = {kind: {block: np.full((T, T), np.nan) for block in blocks} for kind in kinds}
    own = {"state": torch.eye(S, dtype=torch.float64).expand(B, S, S)}
    for tau, (by_state, by_input) in enumerate(path.jacobians()):
        own["input"] = by_input.mT
        for kind, products in carried.items():
            norms = products.advance(tau, by_state, own[kind])
            for block, norm in norms.items():
                maps[kind][block][tau, : tau + 1] = norm.mean(0).numpy()
    return GradientMap(maps.get("input", {}), maps.get("state", {}))


class _Carried:
    """The transposed derivatives of one state by all that came before, and their scales."""

    def __init__(self, T: int, B: int, K: int, S: int, blocks: dict[str, slice]) -> None:
        self.products = torch.zeros(B, T, K, S, dtype=torch.float64)
        self.spare = torch.zeros_like(self.products)
        self.scale = torch.zeros(B, T, dtype=torch.float64)  # natural logarithms
        self.norms = {
            name: SpectralNorms(B, T, (K, S), columns) for name, columns in blocks.items()
        }

    def advance(
        self,
        tau: int,
        by_state: Tensor,  # (B, S, S)
        own: Tensor,  # (B, K, S)
    ) -> dict[str, Tensor]:  # (B, tau + 1) each
        """Go one step on, and return the norms of the derivatives of that step's state."""
        before, after = (each[:, :tau].flatten(1, 2) for each in (self.products, self.spare))
        torch.bmm(before, by_state.mT, out=after)
        self.products, self.spare = self.spare, self.products
        self.products[:, tau] = own
        now, scale = self.products[:, : tau + 1], self.scale[:, : tau + 1]
        if tau % _STEPS_TO_CLEAR == 0:  # numbers below the normal ones would slow all down
            now.masked_fill_(now.abs() < _NOTHING, 0)
        found = {name: norms(now, by_state) for name, norms in self.norms.items()}
        size = found["whole"]
        far = (size > _HUGE) | ((size < _SMALL) & (size > 0))
        result = {name: (norm.log() + scale).exp() for name, norm in found.items()}
        if bool(far.any()):
            step = torch.where(far, size, 1.0)
            now /= step[..., None, None]
            scale += step.log()
            for norms in self.norms.values():
                norms.rescale(1 / step)
        return result
