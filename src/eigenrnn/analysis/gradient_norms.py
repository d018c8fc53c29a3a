"""How the gradient of a loss changes on its way back through the steps."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.layer_inputs import given_inputs, run_model
from eigenrnn.analysis.unroll import unrolled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["GradientNorms", "gradient_norms"]


@dataclass(frozen=True)
class GradientNorms(Analysis):
    r"""The norms of a loss's gradients by the states.

    Args:
        curves: :math:`\|\partial L / \partial h_t\|` for every t, by layer and direction, in the
            order in which it reads.
    Shape:
        curves: :math:`(T,)` each.
    """

    curves: dict[str, NDArray[np.float64]]

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        shown = {name: np.where(curve > 0, curve, np.nan) for name, curve in self.curves.items()}
        T = len(next(iter(shown.values())))
        plot.lines(axes, np.arange(1, T + 1), shown, log=True)
        plot.label(axes, "step t, as read", "norm of the gradient by $h_t$")
        return figure

    def table(self) -> Table:
        T = len(next(iter(self.curves.values())))
        return {"t": np.arange(1, T + 1), **self.curves}

    def headline(self) -> dict[str, float]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return {
                f"{name}: first step over last": float(curve[0] / curve[-1])
                for name, curve in self.curves.items()
            }


def gradient_norms(
    model: nn.Module,
    inputs: Any,
    loss: Callable[[Tensor], Tensor],
    *,
    lengths: Any = None,
) -> GradientNorms:
    r"""Measure how large the gradient of a loss is at every state.

    .. math:: \left\|\frac{\partial L}{\partial h_t}\right\| =
        \Bigl(\sum_{b} \bigl\|\partial L / \partial h_t^{(b)}\bigr\|_2^2\Bigr)^{1/2}

    The gradient is the whole one: what comes from the outputs of later steps and from that of step
    t itself. It is that of the loss as it is given; for a mean over B sequences it falls with
    :math:`\sqrt B`. Of an LSTM the state is (h, c).

    Args:
        model: A layer, ours or torch's, or a model with some of them; it is copied into double
            precision and evaluation mode.
        inputs: What the model takes.
        loss: A function of the model's output, of a bare layer that of its states, to a number.
        lengths: Passed to the model as its argument of that name, if given.
    Returns:
        A curve for each layer and direction.
    Raises:
        ValueError: If there is no recurrent layer, inputs are not finite or not what the model
            takes, the loss is not one finite number, or it does not depend on the states.
    Source:
        Kerg et al., NeurIPS 2019, figure 6. https://arxiv.org/abs/1905.12080 (departures: the
        norm over the batch, of which the paper does not say).
    Example:
        >>> layer = torch.nn.RNN(2, 3)
        >>> found = gradient_norms(layer, torch.zeros(5, 1, 2), lambda h: h[-1].sum())
        >>> found.curves["l0"].shape
        (5,)
    """
    made = unrolled(model)
    options = {} if lengths is None else {"lengths": lengths}
    with torch.enable_grad():
        output = run_model(made.model, given_inputs(inputs), options)
        value = loss(output[0] if isinstance(output, tuple) else output)
        _check_loss(value)
        value.sum().backward()
    return GradientNorms({name: _norms(states) for name, states in made.states.items()})


def _check_loss(value: object) -> None:
    """Refuse what has no gradient by the states.

    Raises:
        ValueError: If it is not one finite number, or does not depend on them.
    """
    asked = "expected loss to give one finite number"
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{asked} as a tensor, got {type(value).__name__}, which has no gradient; leave out "
            "item() or float()"
        )
    if value.numel() != 1:
        raise ValueError(f"{asked}, got shape {tuple(value.shape)}; reduce it by mean() or sum()")
    if not bool(value.isfinite().all()):
        raise ValueError(
            f"{asked}, got {value.item()}; states may grow without end, or the loss divides by "
            "zero or takes a logarithm of it"
        )
    if not value.requires_grad:
        raise ValueError("expected a loss that depends on the states, got one without gradient")


def _norms(states: list[Tensor]) -> NDArray[np.float64]:  # (T,)
    return np.array([0.0 if h.grad is None else float(h.grad.norm()) for h in states])
