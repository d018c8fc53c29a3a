"""The recurrent matrices by which a network runs now, with what constrains each."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from eigenrnn.analysis.recurrence import gates_of, recurrent_layers, recurrent_matrices
from eigenrnn.constraints import Constraint
from eigenrnn.constraints.constrain import ConstrainedRows
from eigenrnn.layers.stacked import Stacked

__all__ = ["InUse", "in_use"]


class InUse(NamedTuple):
    """A recurrent matrix in the precision of the run.

    Args:
        W: The matrix.
        U: The weights by which inputs enter beside it.
        constraint: What gives it, if anything does.
    Shape:
        W: :math:`(N, N)`; U: :math:`(N, M)`; complex both or neither.
    """

    W: Tensor
    U: Tensor
    constraint: Constraint | None


@torch.no_grad()
def in_use(model: nn.Module) -> dict[str, InUse]:
    """Return the recurrent matrices of a network by the names of `recurrent_matrices`.

    Those are what the constraints give in double precision; these are what training goes by.

    Args:
        model: A recurrent layer, ours or torch's, or a model with some of them.
    """
    found = [each for layer in recurrent_layers(model).values() for each in _of_layer(layer)]
    return dict(zip(recurrent_matrices(model), found, strict=True))


def _of_layer(layer: Stacked[Any] | nn.RNNBase) -> Iterator[InUse]:
    """Yield the matrices of a layer, in torch's order."""
    if isinstance(layer, Stacked):
        for direction in layer.all_directions():
            gates = len(gates_of(direction))
            matrices = [matrix.detach() for matrix in direction.matrices()[:gates]]
            constraints = direction.constraints()[:gates]
            inputs = list(direction.weight_ih.detach().chunk(gates))
            if direction.state_size != direction.hidden_size:  # real parts, then imaginary ones
                inputs = [torch.complex(*both.chunk(2)) for both in inputs]
            yield from map(InUse, matrices, inputs, constraints)
        return
    for depth in range(layer.num_layers):
        for turn in ("", "_reverse") if layer.bidirectional else ("",):
            blocks = _blocks(layer, name := f"weight_hh_l{depth}{turn}")
            each = getattr(layer, name).detach().split(layer.hidden_size)
            inputs = getattr(layer, name.replace("hh", "ih")).detach().split(layer.hidden_size)
            rows = range(0, len(each) * layer.hidden_size, layer.hidden_size)
            yield from map(InUse, each, inputs, map(blocks.get, rows))


def _blocks(layer: nn.RNNBase, name: str) -> dict[int, Constraint]:
    """Return the constraints that `constrain` has put on a weight, by their first row."""
    if not parametrize.is_parametrized(layer, name):
        return {}
    (only,) = layer.parametrizations[name]  # type: ignore[index]
    return dict(only.blocks()) if isinstance(only, ConstrainedRows) else {}
