"""Which function writes which recurrence in C: a new one is a file and a line here."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.nn.utils.parametrize import type_before_parametrizations

from eigenrnn.export.c.delta import delta
from eigenrnn.export.c.elman import elman
from eigenrnn.export.c.gru import gru
from eigenrnn.export.c.linear import lru, min_gru
from eigenrnn.export.c.lstm import lstm
from eigenrnn.export.c.source import Layer, Source
from eigenrnn.layers.delta import DeltaNetDirection
from eigenrnn.layers.gru import GatedDirection
from eigenrnn.layers.linear import LRUDirection, MinGRUDirection
from eigenrnn.layers.lstm import LSTMDirection
from eigenrnn.layers.rnn import RNNDirection
from eigenrnn.layers.stacked import Stacked

__all__ = ["TEMPLATES", "directions_of"]

TEMPLATES: Mapping[type, Callable[[Any, str, Source], Layer]] = {
    RNNDirection: elman,
    GatedDirection: gru,
    LSTMDirection: lstm,
    LRUDirection: lru,
    MinGRUDirection: min_gru,
    DeltaNetDirection: delta,
}
"""By the class of a direction."""


def directions_of(layer: Any) -> list[nn.Module]:
    """Return the directions of a layer, each of which has a template.

    Raises:
        ValueError: If one has none, or the layer reads its input backwards too.
    """
    name = type(layer).__name__
    if not isinstance(layer, Stacked):
        raise ValueError(f"expected a recurrent layer of eigenrnn or torch, got {name}")
    if layer.bidirectional:
        raise ValueError(f"expected a layer of one direction, got {name} with bidirectional=True")
    directions = list(layer.all_directions())
    kinds = map(type_before_parametrizations, directions)
    unknown = [kind.__name__ for kind in kinds if kind not in TEMPLATES]
    if unknown:
        raise ValueError(f"expected a layer with a template in C, got {name} ({unknown[0]})")
    return directions
