"""The backends of a recurrence, and the choice of one for a call."""

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eigenrnn.linalg import at_least_float32
from eigenrnn.ops.arguments import is_mixed
from eigenrnn.ops.recurrence import Recurrence
from eigenrnn.tracing import is_dual, is_exporting, is_exporting_to_onnx, under_transform

__all__ = [
    "COMPLEX",
    "REAL",
    "Backend",
    "Call",
    "Reference",
    "choose",
    "explain",
    "exports_scan",
    "forced",
    "in_forced_block",
    "use_backend",
]

REAL = frozenset({torch.float32, torch.float64})
"""The real dtypes that a recurrence in plain torch operations supports."""

COMPLEX = frozenset({torch.complex64, torch.complex128})
"""The complex dtypes that it supports."""


@dataclass(frozen=True)
class Call:
    """The properties of one call that decide which backend can compute it.

    Args:
        device: The device type of all tensors, such as ``"cpu"``.
        dtype: The dtype of x. All other tensors share it, unless U maps real x to complex states.
            If x has 16 bits beside weights in float32, then float32.
        nonlinearity: The name of the nonlinearity.
        transformed: Whether a `torch.func` transform or forward-mode differentiation is active.
        state_size: The number of real numbers in one state.
        features: The optional features in use, such as ``"layer_norm"``, ``"zoneout"`` and
            ``"leak"``.
    """

    device: str
    dtype: torch.dtype
    nonlinearity: str
    transformed: bool
    state_size: int
    features: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        x: Tensor,
        nonlinearity: str,
        *others: Tensor | None,
        state_size: int,
        features: Iterable[str] = (),
        dtype: torch.dtype | None = None,
    ) -> "Call":
        """Describe a call by its tensors."""
        transformed = under_transform() or is_dual(x, *others)
        return cls(
            device=x.device.type,
            dtype=dtype or x.dtype,
            nonlinearity=nonlinearity,
            transformed=transformed,
            state_size=state_size,
            features=tuple(features),
        )


class Backend(ABC):
    """One implementation of a recurrence.

    A subclass sets the attributes and implements `run`. It overrides a method below only to
    restrict or extend what it supports.
    """

    name: str
    """The value of `backend=`."""

    description: str
    """A few words for the list of backends."""

    dtypes: frozenset[torch.dtype]
    """The supported dtypes. Numbers of 16 bits are computed as if in float32."""

    features: frozenset[str] = frozenset()
    """The optional features that it computes: ``"layer_norm"``, ``"zoneout"``, ``"leak"``."""

    is_transformable = False
    """Whether `torch.func` and forward mode can pass through what it runs."""

    @abstractmethod
    def run(self, operands: Any, options: Any) -> tuple[Tensor, ...]:
        """Return all states, or the outputs of the head, the last states, and the last cells.

        Args:
            operands: The tensors of the call, a named tuple such as `ElmanOperands`.
            options: The options of the call, such as `Options`.
        """

    def run_mixed(self, operands: Any, options: Any) -> tuple[Tensor, ...]:
        """Return what `run` does, also for an x of 16 bits beside weights in float32.

        All states then have the dtype of x, and the last ones float32.
        """
        if not is_mixed(operands):
            return self.run(operands, options)
        x = operands.x
        h, *last = self.run(operands._replace(x=x.float()), options)
        return h.to(x.dtype), *last

    def unavailable(self) -> str | None:
        """Return why this machine cannot use the backend, or None."""
        return None

    def unsupported(self, call: Call) -> str | None:  # noqa: ARG002, for subclasses
        """Return why the backend cannot compute a call, or None."""
        return None

    def experimental(self, call: Call) -> str | None:  # noqa: ARG002, for subclasses
        """Return why the backend is never chosen automatically, or None."""
        return None

    def when_chosen(self, call: Call) -> str:  # noqa: ARG002, for subclasses
        """Return what `explain` says of the backend if it computes the call."""
        return "chosen"

    def fuses_head(self, V: Tensor) -> bool:  # noqa: ARG002, for subclasses
        """Whether `run` takes this V and returns the outputs instead of all states."""
        return False

    def reason_against(self, call: Call) -> str | None:
        """Return why the backend cannot compute the call, or None."""
        reason = self.unavailable()
        if reason is not None:
            return reason
        if at_least_float32(call.dtype) not in self.dtypes:  # see `Entry`
            return f"it has no kernels for {call.dtype}"
        lacking = [feature for feature in call.features if feature not in self.features]
        if lacking:
            return f"it does not compute {' and '.join(lacking)}"
        reason = self.unsupported(call)
        if reason is None and call.transformed and not self.is_transformable:
            return "torch.func transforms and forward mode need differentiable operations"
        return reason

    def __repr__(self) -> str:
        return f"<backend {self.name!r}>"


class Reference(Backend):
    """The definition of a recurrence, one step at a time."""

    name = "reference"
    description = "naive loop, differentiable any number of times"
    is_transformable = True

    def __init__(self, recurrence: Recurrence, dtypes: frozenset[torch.dtype]) -> None:
        self.recurrence = recurrence
        self.dtypes = dtypes
        self.features = recurrence.features

    def run(self, operands: Any, options: Any) -> tuple[Tensor, ...]:
        return self.recurrence.returned(operands, self.recurrence.define(operands, options))


class _Forced(threading.local):
    """The backends forced by the `use_backend` blocks of this thread, the innermost last.

    It is not a context variable because torch.compile cannot read one.
    """

    # a block of None must differ from no block: it overrides the environment variable
    names: tuple[str | None, ...] = ()


_forced = _Forced()


@contextmanager
def use_backend(name: str | None) -> Generator[None]:
    """Force a backend for every recurrence inside the block; None restores automatic choice.

    The block affects only the thread that enters it. On a GPU, what checkpointing computes again
    runs in a thread of autograd: name the backend by the argument there. The environment variable
    ``EIGENRNN_BACKEND`` forces a backend for the whole process, and the argument `backend` of a
    layer or an op for one call. An argument overrides a block, and a block overrides the variable.
    Set the variable before the first call: steps of frozen layers and streams read it once.

    Example:
        >>> with use_backend("reference"):
        ...     h, _ = eigenrnn.ops.elman(torch.ones(3, 1, 2), torch.eye(2), nonlinearity="tanh")
    """
    before = _forced.names
    _forced.names = *before, name
    try:
        yield
    finally:
        _forced.names = before


def forced() -> str | None:
    """Return the backend that `use_backend` or ``EIGENRNN_BACKEND`` forces, or None."""
    if _forced.names:
        return _forced.names[-1]
    return os.environ.get("EIGENRNN_BACKEND") or None  # an empty variable forces nothing


def in_forced_block() -> bool:
    """Whether the thread is inside a `use_backend` block."""
    return bool(_forced.names)


def choose(backends: Mapping[str, Backend], call: Call, backend: str | None = None) -> Backend:
    """Return the forced backend, or the first one that can compute the call.

    Args:
        backends: The backends of one recurrence, in order of preference.
        call: The call to compute.
        backend: The name of a forced backend; by default that of `use_backend` or of
            ``EIGENRNN_BACKEND``.
    Raises:
        ValueError: If the forced backend does not exist or cannot compute the call.
    """
    check_name(backends, backend)
    name = backend or forced()
    if name is None:
        # the reference, which is last, computes every call
        return next(
            b
            for b in backends.values()
            if b.reason_against(call) is None and b.experimental(call) is None
        )
    check_name(backends, name)  # also that of a block or of the environment
    reason = backends[name].reason_against(call)
    if reason is not None:
        raise ValueError(f"expected a call that backend {name!r} can compute: {reason}")
    return backends[name]


def exports_scan(backend: str | None = None) -> bool:
    """Whether a call is exported as torch's `scan`, which needs no operators of ours.

    `torch.export` keeps the operators of a forced backend; ONNX has none of them.
    """
    if not is_exporting():
        return False
    return is_exporting_to_onnx() or (backend or forced()) is None


def check_name(backends: Mapping[str, Backend], name: object) -> None:
    """Check the name of a backend; None and the empty string mean automatic choice.

    Raises:
        ValueError: If no backend has that name.
    """
    if name is None or (isinstance(name, str) and (not name or name in backends)):
        return
    raise ValueError(f"expected backend to be one of {list(backends)}, got {name!r}")


def explain(
    backends: Mapping[str, Backend], call: Call, backend: str | None = None
) -> dict[str, str]:
    """Return for each backend whether it is chosen, possible, or why it is not."""
    chosen = choose(backends, call, backend)
    reasons: dict[str, str] = {}
    for name, each in backends.items():
        reason = each.reason_against(call)
        if reason is None and each is chosen:
            reason = each.when_chosen(call)
        if reason is None:
            reason = each.experimental(call)
        reasons[name] = reason or "possible, less preferred"
    return reasons
