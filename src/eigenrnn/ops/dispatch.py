"""Picks the backend of a recurrence, can be told which, and says which and why."""

import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from eigenrnn.ops.backend import Backend, Call

__all__ = ["choose", "explain", "use_backend"]


class _Forced(threading.local):
    """The names that blocks of this thread force, the innermost last.

    torch.compile can read it, which it cannot do with a context variable.
    """

    names: tuple[str | None, ...] = ()


_forced = _Forced()


@contextmanager
def use_backend(name: str | None) -> Generator[None]:
    """Force a backend for every recurrence inside the block; None lets the dispatch choose.

    It holds in the thread that enters the block, and in no other.

    The environment variable ``EIGENRNN_BACKEND`` does the same for a whole process, and the
    argument `backend` of a layer or an op for one call; the narrower wins.

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


def choose(backends: Mapping[str, Backend], call: Call, backend: str | None = None) -> Backend:
    """Return the first backend that can serve the call, or the forced one.

    Args:
        backends: The backends of one recurrence, the preferred first.
        call: The facts about the call.
        backend: The forced one, if any; else `use_backend` and ``EIGENRNN_BACKEND`` are asked.
    Raises:
        ValueError: If the forced backend does not exist or cannot serve the call.
    """
    check_name(backends, backend)
    inner = _forced.names[-1] if _forced.names else os.environ.get("EIGENRNN_BACKEND") or None
    forced = backend or inner
    if forced is None:
        return next(
            b for b in backends.values() if b.objection(call) is None and b.reluctant(call) is None
        )
    check_name(backends, forced)
    objection = backends[forced].objection(call)
    if objection is not None:
        raise ValueError(f"expected a call that backend {forced!r} can serve: {objection}")
    return backends[forced]


def check_name(backends: Mapping[str, Backend], name: object) -> None:
    """Refuse what names no backend.

    Raises:
        ValueError: If it is neither None, nor empty, nor one of the names.
    """
    if name is None or (isinstance(name, str) and (not name or name in backends)):
        return
    raise ValueError(f"expected backend to be one of {list(backends)}, got {name!r}")


def explain(
    backends: Mapping[str, Backend], call: Call, backend: str | None = None
) -> dict[str, str]:
    """Say of each backend whether it would be chosen for the call, could be, or why not."""
    chosen = choose(backends, call, backend).name
    return {
        name: b.objection(call)
        or ("chosen" if name == chosen else b.reluctant(call) or "possible, less preferred")
        for name, b in backends.items()
    }
