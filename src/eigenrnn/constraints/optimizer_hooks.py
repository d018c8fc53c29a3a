"""Calls `advance` on constraints after each step of an optimiser.

Torch's hook after every step keeps a plain ``loss.backward(); optimiser.step()`` loop correct and
the forward pass free of side effects. A step that a gradient scaler skips is not counted.
"""

from collections.abc import Iterator
from typing import Any, Protocol
from weakref import WeakSet

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from eigenrnn.linalg import in_full_precision

__all__ = ["advance_after_steps"]


class _Advancing(Protocol):
    @property
    def device(self) -> torch.device: ...
    def parameters(self) -> Iterator[Tensor]: ...
    def advance(self) -> None: ...


_registered: WeakSet[Any] = WeakSet()  # of _Advancing
_hook_handles: list[Any] = []  # empty until the first constraint is registered


def advance_after_steps(constraint: _Advancing) -> None:
    """Call `constraint.advance()` after every optimiser step that changes its parameters."""
    if not _hook_handles:
        _hook_handles.append(register_optimizer_step_post_hook(_after_step))
    _registered.add(constraint)


def _after_step(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
    if getattr(optimiser, "found_inf", None):
        return  # a gradient scaler made a fused optimiser skip this step
    changed: set[int] = set()
    for group in optimiser.param_groups:
        # an optimiser skips parameters without a gradient
        changed.update(id(p) for p in group["params"] if p.grad is not None)
    for constraint in list(_registered):
        if any(id(p) in changed for p in constraint.parameters()):
            with in_full_precision(constraint.device):
                constraint.advance()
