"""Lets Ctrl-C and SIGTERM ask a loop to end instead of breaking it in the middle."""

import signal
import threading
from types import FrameType
from typing import Any, Self

__all__ = ["Interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """A context in which the first Ctrl-C or SIGTERM only sets `requested`.

    The second one acts as it does outside, at once. An error that leaves the context after the
    first one does not hide it: the signal is then sent again. Outside the main thread, where
    Python has no signals, the context does nothing.

    Attributes:
        number: The signal that came; None if none has.

    Example:
        >>> with Interrupts() as interrupts:
        ...     interrupts.requested
        False
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._previous: dict[int, Any] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal came."""
        return self.number is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
            for number in _SIGNALS:
                signal.signal(number, self._request)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._restore()
        if self.number is not None and isinstance(error, Exception):
            signal.raise_signal(self.number)

    def _request(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            # None stands for a handler that was not set from Python and cannot be put back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous = {}
