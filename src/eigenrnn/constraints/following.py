"""Calls `advance` on constraints with a moving reference, once for each update of an optimiser.

Two hooks on all optimisers keep a plain ``loss.backward(); optimiser.step()`` loop right, leave
the forward pass free of side effects, and stay silent where a gradient scaler skips a step. Where
an optimiser's `step` runs inside that of another, the outer one decides when the update is whole:
`ZeroRedundancyOptimizer` sends the parameters to the other processes after its inner step.
"""

import inspect
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

__all__ = ["follow"]


class _Moving(Protocol):
    moves_base: bool

    def parameters(self) -> Iterator[Tensor]: ...
    def buffers(self) -> Iterator[Tensor]: ...
    def check_raw(self, *, whole: bool = False) -> None: ...
    def advance(self) -> None: ...


class _Update(NamedTuple):
    """What an inner step made of a constraint, to be compared once the outer one has ended."""

    values: list[Tensor]  # the raw parameters
    buffers: list[Tensor]
    around: list[Optimizer]  # whose steps were running around it


_followed: WeakSet[Any] = WeakSet()  # of _Moving
_updates: WeakKeyDictionary[Any, _Update] = WeakKeyDictionary()
_hooked: list[Any] = []  # the handles of the hooks, once there is something to follow


def follow(constraint: _Moving) -> None:
    """Call `constraint.advance()` after every optimiser step that changes its parameters."""
    if not _hooked:
        _hooked.append(register_optimizer_step_pre_hook(_check_before))
        _hooked.append(register_optimizer_step_post_hook(_advance_stepped))
    _followed.add(constraint)


def _check_before(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
    for constraint in _held_by(optimiser):
        constraint.check_raw(whole=True)
        update = _updates.pop(constraint, None)
        # an optimiser without hooks that ran around the last step can be asked only now
        if update and not any(map(_is_hooked, update.around)):
            _refuse_changes(constraint, update)


def _advance_stepped(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
    if getattr(optimiser, "found_inf", None):
        return  # a gradient scaler made a fused optimiser leave this step out
    held = _held_by(optimiser)
    running = _running_around(optimiser) if held else []
    for constraint in held:
        update = _updates.pop(constraint, None)
        if update and any(each is optimiser for each in update.around):
            _refuse_changes(constraint, update)
        if all(p.grad is None for p in _shared(constraint, optimiser)):
            continue
        around = [each for each in running if _shared(constraint, each)]
        if not any(map(_is_hooked, around)):
            constraint.advance()
        if around and constraint.moves_base:
            raw, buffers = constraint.parameters(), constraint.buffers()
            _updates[constraint] = _Update(_copies(raw), _copies(buffers), around)


def _held_by(optimiser: Optimizer) -> list[_Moving]:
    return [constraint for constraint in list(_followed) if _shared(constraint, optimiser)]


def _shared(constraint: _Moving, optimiser: Optimizer) -> list[Tensor]:
    """Return the raw parameters that are in the optimiser."""
    raw = {id(p) for p in constraint.parameters()}
    return [p for group in optimiser.param_groups for p in group["params"] if id(p) in raw]


def _running_around(optimiser: Optimizer) -> list[Optimizer]:
    """Return the optimisers whose `step` is running around the one that has just ended."""
    found: list[Optimizer] = []
    if torch.compiler.is_compiling():
        return found  # whose frames are not those of Python
    frame = inspect.currentframe()
    while frame is not None:
        runs = frame.f_locals.get("self") if frame.f_code.co_name in ("step", "wrapper") else None
        hooked = frame.f_code is _HOOKED_STEP
        if isinstance(runs, Optimizer) and hooked == _is_hooked(runs):
            found.append(runs)
        frame = frame.f_back
    own = found and found[0] is optimiser  # not if it is compiled
    return found[1:] if own else found


# torch calls the hooks from this function, which it puts around the `step` of each class
_HOOKED_STEP = Optimizer.profile_hook_step(lambda: None).__code__


def _is_hooked(optimiser: Optimizer) -> bool:
    """Whether torch calls hooks for it: not where it never called the constructor of its base."""
    return getattr(type(optimiser).step, "hooked", False)


def _copies(tensors: Iterator[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _refuse_changes(constraint: _Moving, update: _Update) -> None:
    if not all(map(torch.equal, constraint.buffers(), update.buffers)):
        return  # `assign`, `reset` or `load_state_dict` took the place of what was
    if not all(map(torch.equal, constraint.parameters(), update.values)):
        kind = type(constraint).__name__
        names = " and ".join(type(each).__name__ for each in update.around)
        raise RuntimeError(
            f"expected an optimiser that updates the raw parameters of {kind} once in a "
            f"step, got {names}, which changes them again after its inner optimiser. Once the "
            "base has moved, earlier raw parameters stand for other matrices, so that they must "
            "not be averaged; use the inner optimiser alone, or a constraint without a moving base"
        )
