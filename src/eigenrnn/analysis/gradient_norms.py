"""How the gradient of a loss changes as it propagates back through time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from eigenrnn.analysis import plot
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.forward_pass import model_inputs, run_model, unroll

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["GradientNorms", "gradient_norms"]


@dataclass(frozen=True)
class GradientNorms(Analysis):
    r"""The norms of the gradients of a loss with respect to the states.

    Args:
        curves: :math:`\|\partial L / \partial h_t\|` for every t, by layer and direction, in
            processing order.
    Shape:
        curves: :math:`(T,)` each.
    """

    curves: dict[str, NDArray[np.float64]]

    def plot(self) -> "Figure":
        figure, (axes,) = plot.canvas()
        nonzero = {name: np.where(curve > 0, curve, np.nan) for name, curve in self.curves.items()}
        T = len(next(iter(nonzero.values())))
        plot.lines(axes, np.arange(1, T + 1), nonzero, log=True)
        plot.label(axes, "step t, in processing order", "norm of the gradient at $h_t$")
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
    r"""Measure the norm of the gradient of a loss with respect to every state.

    .. math:: \left\|\frac{\partial L}{\partial h_t}\right\| =
        \Bigl(\sum_{b} \bigl\|\partial L / \partial h_t^{(b)}\bigr\|_2^2\Bigr)^{1/2}

    This is the total gradient: through the output of step t and through all later steps. The loss
    is differentiated as given; the mean over B sequences scales the norm by :math:`1 / \sqrt B`.
    The state of an LSTM is (h, c).

    Args:
        model: A layer, ours or torch's, or a model with at least one. It is copied into double
            precision and evaluation mode.
        inputs: The inputs of the model.
        loss: A function from the output of the model to a scalar. For a bare layer the output is
            the sequence of its states.
        lengths: Passed to the model as the argument `lengths`, unless None.
    Returns:
        A curve for each layer and direction.
    Raises:
        ValueError: If the model has no recurrent layer, the inputs are not finite, the model
            rejects them, the loss is not one finite number, or it does not depend on the states.
    Source:
        Kerg et al., NeurIPS 2019, figure 6. https://arxiv.org/abs/1905.12080 (departures: the
        norm runs over the batch; the paper does not specify this).
    Example:
        >>> layer = torch.nn.RNN(2, 3)
        >>> result = gradient_norms(layer, torch.zeros(5, 1, 2), lambda h: h[-1].sum())
        >>> result.curves["l0"].shape
        (5,)
    """
    unrolled = unroll(model)
    options = {} if lengths is None else {"lengths": lengths}
    with torch.enable_grad():
        output = run_model(unrolled.model, model_inputs(inputs), options)
        value = loss(output[0] if isinstance(output, tuple) else output)
        _check_loss(value)
        value.sum().backward()
    return GradientNorms({name: _norms(states) for name, states in unrolled.states.items()})


def _check_loss(value: object) -> None:
    """Check that a loss can be differentiated with respect to the states.

    Raises:
        ValueError: If it is not one finite number, or does not depend on the states.
    """
    expected = "expected loss to give one finite number"
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{expected} as a tensor, got {type(value).__name__}, which has no gradient; leave "
            "out item() or float()"
        )
    if value.numel() != 1:
        raise ValueError(
            f"{expected}, got shape {tuple(value.shape)}; reduce it by mean() or sum()"
        )
    if not bool(value.isfinite().all()):
        raise ValueError(
            f"{expected}, got {value.item()}; the states may grow without bound, or the loss "
            "divides by zero or takes the logarithm of zero"
        )
    if not value.requires_grad:
        raise ValueError("expected a loss that depends on the states, got one without gradient")


def _norms(states: list[Tensor]) -> NDArray[np.float64]:  # (T,)
    return np.array([0.0 if h.grad is None else float(h.grad.norm()) for h in states])
