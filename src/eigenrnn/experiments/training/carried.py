"""The states that a network is left in, kept for the batch that goes on from there."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch import Tensor

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["State", "detached", "gathered", "own_rows"]

State: TypeAlias = "Tensor | tuple[State, ...] | None"
"""A tensor of which dimension 1 counts the sequences, a tuple of such, or nothing."""


def detached(state: State) -> State:
    """Cut a state off from the graph that made it."""
    return _each(torch.Tensor.detach, state)


def gathered(fabric: "Fabric", state: State) -> State:
    """Put the states of all processes side by side, in the order of their sequences."""
    if fabric.world_size == 1:
        return state

    def gather(own: Tensor) -> Tensor:
        everyone = fabric.all_gather(own.contiguous())  # (processes, L, B, N)
        return torch.cat(list(everyone), dim=1)

    return _each(gather, state)


def own_rows(fabric: "Fabric", state: State) -> State:
    """Take this process's part of what was gathered, onto its device."""

    def take(everyone: Tensor) -> Tensor:
        rows = everyone.chunk(fabric.world_size, dim=1)[fabric.global_rank]
        return rows.to(fabric.device)

    return _each(take, state)


def _each(change: Callable[[Tensor], Tensor], state: State) -> State:
    if state is None:
        return None
    if isinstance(state, Tensor):
        return change(state)
    return tuple(_each(change, part) for part in state)
