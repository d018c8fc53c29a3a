"""Deferred Ctrl-C and SIGTERM, so that a loop ends after the current step."""

import signal
import threading
from types import FrameType
from typing import Any, Self

__all__ = ["DeferredSignals"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class DeferredSignals:
    """A context in which the first Ctrl-C or SIGTERM only sets `received`.

    A second signal acts immediately, as it does outside. If an exception leaves the context after
    the first signal, the signal is raised again, so it is not lost. Outside the main thread, where
    Python receives no signals, the context does nothing.

    Attributes:
        number: The number of the signal received; None if there was none.

    Example:
        >>> with DeferredSignals() as signals:
        ...     signals.received
        False
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._previous: dict[int, Any] = {}

    @property
    def received(self) -> bool:
        """Whether a signal was received."""
        return self.number is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
            for number in _SIGNALS:
                signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._restore()
        if self.number is not None and isinstance(error, Exception):
            signal.raise_signal(self.number)

    def _receive(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            if handler is None:  # it was not installed from Python and cannot be restored
                signal.signal(number, signal.SIG_DFL)
            else:
                signal.signal(number, handler)
        self._previous = {}
