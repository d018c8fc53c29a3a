"""Picks the backend of a recurrence, can be told which, and says which and why."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from eigenrnn.ops.backend import Backend, Call

__all__ = ["choose", "explain", "use_backend"]

_forced: list[str | None] = []  # a plain stack, which torch.compile can read


@contextmanager
def use_backend(name: str | None) -> Generator[None]:
    """Force a backend for every recurrence inside the block; None lets the dispatch choose.

    The environment variable ``EIGENRNN_BACKEND`` does the same for a whole process, and the
    argument `backend` of a layer or an op for one call; the narrower wins.

    Example:
        >>> with use_backend("reference"):
        ...     h, _ = eigenrnn.ops.elman(torch.ones(3, 1, 2), torch.eye(2), nonlinearity="tanh")
    """
    _forced.append(name)
    try:
        yield
    finally:
        _forced.pop()


def choose(backends: Mapping[str, Backend], call: Call, backend: str | None = None) -> Backend:
    """Return the first backend that can serve the call, or the forced one.

    Args:
        backends: The backends of one recurrence, the preferred first.
        call: The facts about the call.
        backend: The forced one, if any; else `use_backend` and ``EIGENRNN_BACKEND`` are asked.
    Raises:
        ValueError: If the forced backend does not exist or cannot serve the call.
    """
    inner = _forced[-1] if _forced else os.environ.get("EIGENRNN_BACKEND") or None
    forced = backend or inner
    if forced is None:
        return next(
            b for b in backends.values() if b.objection(call) is None and b.reluctant(call) is None
        )
    if forced not in backends:
        raise ValueError(f"expected backend to be one of {list(backends)}, got {forced!r}")
    objection = backends[forced].objection(call)
    if objection is not None:
        raise ValueError(f"expected a call that backend {forced!r} can serve: {objection}")
    return backends[forced]


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
