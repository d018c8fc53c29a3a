"""The eigenvalues that an input chooses along trajectories of the delta rule."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Figure, Table
from eigenrnn.analysis.forward_pass import layer_inputs
from eigenrnn.analysis.state_map import double_copy, recurrent_layers
from eigenrnn.linalg import on_cpu

__all__ = ["TransitionSpectra", "transition_spectra"]

_SHOWN = 8  # heads in the picture


@dataclass(frozen=True)
class TransitionSpectra(Analysis):
    r"""The eigenvalues of the transition of each step, sequence and head.

    Args:
        eigenvalues: By rising real part, so that the R that the input chooses come first. All
            others equal the decay of the head, or one.
        reflections: The number R of reflections in a step.
    Shape:
        eigenvalues: :math:`(T, B, H, K)`.
    """

    eigenvalues: NDArray[np.complex128]
    reflections: int

    @property
    def chosen(self) -> NDArray[np.complex128]:  # (T, B, H, min(R, K))
        """The eigenvalues that the input chooses."""
        return self.eigenvalues[..., : self.reflections]

    def plot(self) -> Figure:
        figure, (left, right) = plot.canvas(2)
        first = self.eigenvalues[:, 0, :, 0].real
        steps = np.arange(1, len(first) + 1)
        heads = min(_SHOWN, first.shape[1])
        plot.lines(left, steps, {f"head {h + 1}": first[:, h] for h in range(heads)})
        plot.label(left, "step", "smallest real part", "first sequence")
        points = {"chosen": self.chosen.ravel()}
        others = self.eigenvalues[..., self.reflections :].ravel()
        if others.size:
            points["decays"] = others
        plot.plane(right, points)
        return figure

    def table(self) -> Table:
        T, B, H, K = self.eigenvalues.shape
        t, sequence, head, number = np.indices((T, B, H, K)).reshape(4, -1)
        return {
            "t": t + 1,
            "sequence": sequence,
            "head": head,
            "number": number,
            "real": self.eigenvalues.real.ravel(),
            "imaginary": self.eigenvalues.imag.ravel(),
        }

    def headline(self) -> dict[str, float]:
        return {
            "smallest real part": float(self.eigenvalues.real.min()),
            "largest modulus": float(np.abs(self.eigenvalues).max()),
            "largest angle": float(np.abs(np.angle(self.eigenvalues)).max()),
        }


@on_cpu
@torch.no_grad()
def transition_spectra(
    network: nn.Module,
    x: Any,  # (T, B, M)
    *,
    which: str = "l0",
) -> TransitionSpectra:
    r"""Compute the eigenvalues of the transition of every step of the delta rule.

    .. math::
        S_t = A_t S_{t-1} + \dots, \qquad
        A_t = a_t (I - \beta_{t,R} k_{t,R} k_{t,R}^\top) \cdots
        (I - \beta_{t,1} k_{t,1} k_{t,1}^\top), \qquad A_t\, r_i = \lambda_i\, r_i

    An eigenvalue near :math:`-1` is a reflection, a pair :math:`e^{\pm i \theta}` a rotation, and
    one near zero forgets a direction of the state. A transition acts on each column of the state
    alike, so its Jacobian has each of these eigenvalues K times. For products over many steps see
    `lyapunov`.

    Args:
        network: A `DeltaNet`, a `GatedDeltaNet` or a `DeltaProduct` of one direction, or a model
            with one of them.
        x: The input of the network.
        which: The layer among the stacked ones of a `DeltaNet`.
    Shape:
        x: :math:`(T, B, M)`, or :math:`(T, M)`; :math:`(B, T, M)` of a layer with `batch_first`.
            For a model, what the model takes.
    Units:
        Angles in radians.
    Raises:
        ValueError: If the network has no such layer or several, if `which` does not exist, the
            layer is bidirectional, or the input does not fit.
    Source:
        Grazzi et al., ICLR 2025, section 4. https://arxiv.org/abs/2411.12537 (departures: products
        of R reflections and a decay, as in Siems et al., NeurIPS 2025).
    Example:
        >>> layer = DeltaNet(2, 8, heads=2, reflections=2)
        >>> transition_spectra(layer, torch.randn(5, 3, 2)).eigenvalues.shape
        (5, 3, 2, 4)
    """
    layers: dict[str, Any] = {
        name: each
        for name, each in recurrent_layers(network).items()
        if hasattr(each, "transitions")
    }
    if len(layers) != 1:
        raise ValueError(f"expected a network with one DeltaNet, got {list(layers)}")
    ((layer, chosen),) = layers.items()
    depths = [f"l{depth}" for depth in range(chosen.num_layers)]
    if which not in depths:
        raise ValueError(f"expected which to be one of {', '.join(depths)}, got {which!r}")
    inputs = layer_inputs(network, x)[layer]
    if isinstance(inputs, str):
        raise ValueError(f"expected an input of {layer!r}, but {inputs}")
    transitions = double_copy(chosen).transitions(inputs)[depths.index(which)]
    values = torch.linalg.eigvals(transitions)
    order = values.real.argsort(dim=-1)
    return TransitionSpectra(values.gather(-1, order).numpy(), chosen.reflections)
