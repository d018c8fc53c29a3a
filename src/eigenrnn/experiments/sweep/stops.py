"""Lets Ctrl-C and SIGTERM end a sweep, whatever is being done when they come."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Self

__all__ = ["StoppedError", "Stops"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedError(KeyboardInterrupt):
    """A sweep was asked to end.

    Args:
        number: The signal that asked.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class Stops:
    """A context in which Ctrl-C and SIGTERM raise `StoppedError`, and are remembered.

    Python drops what is raised where nobody can catch it, such as in what it calls when a process
    is forked, and Ray forks many: `check` raises again what was dropped. Outside the main thread,
    where Python has no signals, the context does nothing.
    """

    def __init__(self) -> None:
        self._asked: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
            self._listen()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for number, handler in self._previous.items():
            # None stands for a handler that was not set from Python and cannot be put back
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous = {}
        # Ray raises others in its place: a plain KeyboardInterrupt, or that its processes are gone
        if error is not None and not isinstance(error, StoppedError):
            self.check()

    @contextmanager
    def held_back(self) -> Generator[None]:
        """Hold SIGTERM back while Ray starts, which puts handlers of its own in place of ours.

        What is started meanwhile never hears of it: a batch queue sends the signal to all
        processes of a job, and Ray's would take the sweep along if they ended first.
        """
        can_hold = hasattr(signal, "pthread_sigmask")  # not on Windows, where none is sent either
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]) if can_hold else ()
        try:
            yield
        finally:
            self._listen()
            if can_hold:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _listen(self) -> None:
        for number in self._previous:
            signal.signal(number, self._ask)

    def check(self) -> None:
        """End the sweep if that was asked for.

        Raises:
            StoppedError: If it was.
        """
        if self._asked is not None:
            raise StoppedError(self._asked)

    def _ask(self, number: int, _frame: FrameType | None) -> NoReturn:
        self._asked = number
        raise StoppedError(number)
