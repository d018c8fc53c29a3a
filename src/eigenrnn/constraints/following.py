"""Calls `advance` on constraints with a moving reference after the optimiser steps that move them.

One hook on all optimisers keeps a plain ``loss.backward(); optimiser.step()`` loop right, leaves
the forward pass free of side effects, and stays silent where a gradient scaler skips a step.
"""

from typing import Any, Protocol, runtime_checkable
from weakref import WeakSet

from torch import Tensor
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

__all__ = ["follow"]


@runtime_checkable
class _Moving(Protocol):
    def parameters(self) -> Any: ...
    def advance(self) -> None: ...


_followed: WeakSet[_Moving] = WeakSet()
_hooked: list[Any] = []  # the hook's handle, once there is something to follow


def follow(constraint: _Moving) -> None:
    """Call `constraint.advance()` after every optimiser step that changes its parameters."""
    if not _hooked:
        _hooked.append(register_optimizer_step_post_hook(_advance_stepped))
    _followed.add(constraint)


def _advance_stepped(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
    if not _followed:
        return
    if getattr(optimiser, "found_inf", None):
        return  # a gradient scaler made a fused optimiser leave this step out
    stepped = {id(p) for p in _parameters(optimiser) if p.grad is not None}
    for constraint in list(_followed):
        if any(id(p) in stepped for p in constraint.parameters()):
            constraint.advance()


def _parameters(optimiser: Optimizer) -> list[Parameter | Tensor]:
    return [p for group in optimiser.param_groups for p in group["params"]]
