"""Calls `advance` on constraints once after each update of an optimiser.

Torch's hooks before and after every step keep a plain ``loss.backward(); optimiser.step()`` loop
correct and the forward pass free of side effects. A step that a gradient scaler skips is not
counted. If one optimiser calls the `step` of another, the update is complete only when the outer
`step` returns. An example is `ZeroRedundancyOptimizer`, which sends the parameters to the other
processes after its inner step.
"""

import inspect
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple, Protocol, cast
from weakref import WeakSet

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

__all__ = ["advance_after_steps"]


class _Advancing(Protocol):
    def parameters(self) -> Iterator[Tensor]: ...
    def advance(self) -> None: ...


class _Step(NamedTuple):
    optimiser: Optimizer
    frame: FrameType  # of torch's function around `step`, which calls the hooks

    def has_ended(self) -> bool:
        try:
            self.frame.clear()
        except RuntimeError:  # while it runs, as documented
            return False
        return True


class _Running(threading.local):
    """The steps that this thread is running, from the outermost."""

    def __init__(self) -> None:
        self.steps: list[_Step] = []

    def drop_failed(self) -> None:
        """Remove steps that raised an error, after which torch calls no hook."""
        while self.steps and self.steps[-1].has_ended():
            self.steps.pop()


_registered: WeakSet[Any] = WeakSet()  # of _Advancing
_running = _Running()
_hook_handles: list[Any] = []  # empty until the first constraint is registered


def advance_after_steps(constraint: _Advancing) -> None:
    """Call `constraint.advance()` after every optimiser step that changes its parameters."""
    if not _hook_handles:
        _hook_handles.append(register_optimizer_step_pre_hook(_before_step))
        _hook_handles.append(register_optimizer_step_post_hook(_after_step))
    _registered.add(constraint)


def _before_step(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
    _running.drop_failed()
    around = cast("Any", inspect.currentframe()).f_back
    _running.steps.append(_Step(optimiser, around))


def _after_step(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
    _running.drop_failed()
    _running.steps.pop()
    if getattr(optimiser, "found_inf", None):
        return  # a gradient scaler made a fused optimiser skip this step
    # also the optimiser itself, if this is the step of its base class
    outer = [step.optimiser for step in _running.steps]
    for constraint in list(_registered):
        # an optimiser skips parameters without a gradient
        if all(p.grad is None for p in _shared_parameters(constraint, optimiser)):
            continue
        if not any(_shared_parameters(constraint, each) for each in outer):
            constraint.advance()


def _shared_parameters(constraint: _Advancing, optimiser: Optimizer) -> list[Tensor]:
    """Return the raw parameters that are in the optimiser."""
    raw = {id(p) for p in constraint.parameters()}
    shared: list[Tensor] = []
    for group in optimiser.param_groups:
        shared.extend(p for p in group["params"] if id(p) in raw)
    return shared
