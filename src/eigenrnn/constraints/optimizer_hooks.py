"""Calls `advance` on constraints once after each update of an optimiser.

Two global optimiser hooks keep a plain ``loss.backward(); optimiser.step()`` loop correct and the
forward pass free of side effects. A step that a gradient scaler skips is not counted. If one
optimiser calls the `step` of another, the update is complete only when the outer `step` returns.
An example is `ZeroRedundancyOptimizer`, which sends the parameters to the other processes after
its inner step.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from eigenrnn.torch_internals import has_step_hooks, outer_optimisers

__all__ = ["advance_after_steps"]


class _Advancing(Protocol):
    has_moving_base: bool

    def parameters(self) -> Iterator[Tensor]: ...
    def buffers(self) -> Iterator[Tensor]: ...
    def check_raw(self, *, whole: bool = False) -> None: ...
    def advance(self) -> None: ...


class _InnerUpdate(NamedTuple):
    """The state of a constraint after an inner step, compared once the outer step has ended."""

    parameters: list[Tensor]
    buffers: list[Tensor]
    outer: list[Optimizer]  # the optimisers whose step was still running


_registered: WeakSet[Any] = WeakSet()  # of _Advancing
_inner_updates: WeakKeyDictionary[Any, _InnerUpdate] = WeakKeyDictionary()
_hook_handles: list[Any] = []  # empty until the first constraint is registered


def advance_after_steps(constraint: _Advancing) -> None:
    """Call `constraint.advance()` after every optimiser step that changes its parameters."""
    if not _hook_handles:
        _hook_handles.append(register_optimizer_step_pre_hook(_before_step))
        _hook_handles.append(register_optimizer_step_post_hook(_after_step))
    _registered.add(constraint)


def _before_step(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
    for constraint in _constraints_of(optimiser):
        constraint.check_raw(whole=True)
        update = _inner_updates.pop(constraint, None)
        # no hook runs after an outer optimiser without hooks: this is the first chance to check
        if update and not any(map(has_step_hooks, update.outer)):
            _check_unchanged(constraint, update)


def _after_step(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
    if getattr(optimiser, "found_inf", None):
        return  # a gradient scaler made a fused optimiser skip this step
    constraints = _constraints_of(optimiser)
    if not constraints:
        return
    running = outer_optimisers(optimiser)
    for constraint in constraints:
        update = _inner_updates.pop(constraint, None)
        if update and any(each is optimiser for each in update.outer):
            _check_unchanged(constraint, update)
        # an optimiser skips parameters without a gradient
        if all(p.grad is None for p in _shared_parameters(constraint, optimiser)):
            continue
        outer = [each for each in running if _shared_parameters(constraint, each)]
        # an outer optimiser with hooks ends the update, and this function runs once more for it
        if not any(map(has_step_hooks, outer)):
            constraint.advance()
        if outer and constraint.has_moving_base:
            raw = constraint.parameters()
            buffers = constraint.buffers()
            _inner_updates[constraint] = _InnerUpdate(_clone(raw), _clone(buffers), outer)


def _constraints_of(optimiser: Optimizer) -> list[_Advancing]:
    """Return the registered constraints with a parameter in the optimiser."""
    return [each for each in list(_registered) if _shared_parameters(each, optimiser)]


def _shared_parameters(constraint: _Advancing, optimiser: Optimizer) -> list[Tensor]:
    """Return the raw parameters that are in the optimiser."""
    raw = {id(p) for p in constraint.parameters()}
    shared: list[Tensor] = []
    for group in optimiser.param_groups:
        shared.extend(p for p in group["params"] if id(p) in raw)
    return shared


def _clone(tensors: Iterator[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _check_unchanged(constraint: _Advancing, update: _InnerUpdate) -> None:
    """Check that no outer optimiser changed the raw parameters after the base moved.

    Raises:
        RuntimeError: If one did.
    """
    if not all(map(torch.equal, constraint.buffers(), update.buffers)):
        return  # `assign`, `reset` or `load_state_dict` replaced the state
    if not all(map(torch.equal, constraint.parameters(), update.parameters)):
        kind = type(constraint).__name__
        names = " and ".join(type(each).__name__ for each in update.outer)
        raise RuntimeError(
            f"expected an optimiser that updates the raw parameters of {kind} once in a "
            f"step, got {names}, which changes them again after its inner optimiser. Once the "
            "base has moved, earlier raw parameters stand for other matrices, so they must "
            "not be averaged; use the inner optimiser alone, or a constraint without a moving base"
        )
