"""Dropout of recurrent weights, for our layers and for torch's."""

from typing import TypeVar

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from eigenrnn.constraints.constrain import rebuild_each_pass
from eigenrnn.layers.stacked import Stacked

__all__ = ["weight_drop"]

_Layer = TypeVar("_Layer", bound=nn.Module)


def weight_drop(layer: _Layer, rate: float) -> _Layer:
    r"""Let dropout silence entries of the recurrent matrices, the same ones at all steps.

    .. math:: W' = \frac{m \odot W}{1 - p}, \qquad m_{ij} \sim \text{Bernoulli}(1 - p)

    While training, the mask is drawn at every call of the layer, from torch's global stream. A
    matrix with a constraint loses entries after its constraint has made it: what is trained stays
    in the set, what the sequence meets does not: an orthogonal W no longer keeps norms, which grow
    by :math:`1 / \sqrt{1 - p}` a step, without end where the nonlinearity is unbounded.

    Args:
        layer: One of our recurrent layers, or torch's RNN, GRU or LSTM; changed in place. Give it
            its constraints before.
        rate: The share p of the entries that are silenced, in place of an earlier one.
    Returns:
        The layer.
    Raises:
        ValueError: If the rate is no share, or the layer is no recurrent one.
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
        for direction in layer.all_directions():
            direction.weight_drop = rate
        return layer
    if not isinstance(layer, nn.RNNBase):
        raise ValueError(f"expected a recurrent layer, got {type(layer).__name__}")
    flat: list[str] = vars(layer)["_flat_weights_names"]  # no public list
    for name in [name for name in flat if name.startswith("weight_hh")]:
        earlier = _earlier(layer, name)
        if earlier is not None:
            earlier.rate = rate
        elif rate:
            parametrize.register_parametrization(layer, name, Dropped(rate), unsafe=True)
            rebuild_each_pass(layer)
    return layer


class Dropped(nn.Module):
    """A matrix with some entries silenced while training.

    Args:
        rate: The share of them.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, W: Tensor) -> Tensor:
        return F.dropout(W, self.rate, self.training)


def _earlier(layer: nn.Module, name: str) -> Dropped | None:
    """Return what an earlier call has put on a matrix."""
    if not parametrize.is_parametrized(layer, name):
        return None
    chain = list(layer.parametrizations[name])  # type: ignore[index]
    return next((each for each in chain if isinstance(each, Dropped)), None)
