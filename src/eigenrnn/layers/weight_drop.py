"""Dropout on recurrent weights, for our layers and for torch's."""

from typing import TypeVar

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from eigenrnn.constraints.constrain import give_own_class, rebuild_each_pass
from eigenrnn.layers.stacked import Stacked
from eigenrnn.torch_internals import weight_names

__all__ = ["weight_drop"]

_Layer = TypeVar("_Layer", bound=nn.Module)


def weight_drop(layer: _Layer, rate: float) -> _Layer:
    r"""Apply dropout to the entries of recurrent matrices, with one mask for all time steps.

    .. math:: W' = \frac{m \odot W}{1 - p}, \qquad m_{ij} \sim \text{Bernoulli}(1 - p)

    While training, each call of the layer draws a mask from torch's global generator. Dropout is
    applied after the constraint: W stays in its set, but W' does not. If W is orthogonal, W' does
    not keep norms: they grow by :math:`1 / \sqrt{1 - p}` in one step on average, and with a sparse
    W, as at initialisation, by up to :math:`1 / (1 - p)` in each later one, without bound if the
    nonlinearity is unbounded.

    Args:
        layer: One of our recurrent layers, or torch's RNN, GRU or LSTM; changed in place. Add its
            constraints first.
        rate: The dropout probability p; it replaces that of an earlier call.
    Returns:
        The layer.
    Raises:
        ValueError: If the rate is not in [0, 1), or the layer is not a recurrent one, or has no
            recurrent matrices.
    Source:
        Merity, Keskar and Socher, ICLR 2018, section 2. https://arxiv.org/abs/1708.02182
        (departures: none).
    Example:
        >>> lstm = weight_drop(torch.nn.LSTM(3, 4), 0.5)
        >>> bool((lstm.weight_hh_l0 == 0).any())
        True
    """
    if not 0 <= rate < 1:
        raise ValueError(f"expected 0 <= rate < 1, got {rate}")
    if isinstance(layer, Stacked):
        directions = layer.all_directions()
        if rate and not directions[0].has_matrix:
            raise ValueError(
                f"expected a layer with recurrent matrices, got {type(layer).__name__}, whose "
                "units are independent of each other"
            )
        for direction in directions:
            direction.weight_drop = rate
        return layer
    if not isinstance(layer, nn.RNNBase):
        raise ValueError(f"expected a recurrent layer, got {type(layer).__name__}")
    for name in weight_names(layer):
        if not name.startswith("weight_hh"):
            continue
        existing: list[WeightDropout] = []
        if parametrize.is_parametrized(layer, name):
            chain = list(layer.parametrizations[name])  # type: ignore[index]
            existing = [each for each in chain if isinstance(each, WeightDropout)]
        if existing:  # a second one would drop entries of what the first has left
            existing[0].rate = rate
        elif rate:
            if parametrize.is_parametrized(layer):
                give_own_class(layer)
            # unsafe: torch's check would draw a mask, and so change all later draws
            parametrize.register_parametrization(layer, name, WeightDropout(rate), unsafe=True)
            rebuild_each_pass(layer)
    return layer


class WeightDropout(nn.Module):
    """Dropout on the entries of a matrix, as a parametrisation.

    Args:
        rate: The dropout probability.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, W: Tensor) -> Tensor:
        return F.dropout(W, self.rate, self.training)
