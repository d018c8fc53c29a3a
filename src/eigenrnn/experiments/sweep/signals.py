"""Ctrl-C and SIGTERM as exceptions that end a sweep."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, Self

__all__ = ["RaisingSignals", "StoppedError"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedError(KeyboardInterrupt):
    """A signal ended the sweep.

    Args:
        number: The number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.number = number


class RaisingSignals:
    """A context in which Ctrl-C and SIGTERM raise `StoppedError`, and are remembered.

    Python drops exceptions raised where nobody can catch them, such as in the hooks of a fork, and
    Ray forks often; `check` raises a dropped one again. Outside the main thread, where Python
    receives no signals, the context does nothing.
    """

    def __init__(self) -> None:
        self._received: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
            self._install()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for number, handler in self._previous.items():
            # None is a handler that was not installed from Python and cannot be restored
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous = {}
        # Ray may replace ours by a plain KeyboardInterrupt or an error about its dead processes
        if error is not None and not isinstance(error, StoppedError):
            self.check()

    @contextmanager
    def sigterm_blocked(self) -> Generator[None]:
        """Block SIGTERM while Ray starts and installs its own handlers; then reinstall ours.

        The processes started in the context inherit the block. A batch queue sends SIGTERM to all
        processes of a job, and if Ray's own ended first, they would break the sweep.
        """
        can_block = hasattr(signal, "pthread_sigmask")  # not on Windows, which has no SIGTERM
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]) if can_block else ()
        try:
            yield
        finally:
            self._install()
            if can_block:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _install(self) -> None:
        for number in self._previous:
            signal.signal(number, self._receive)

    def check(self) -> None:
        """Raise the error of a signal that was received before.

        Raises:
            StoppedError: If there was one.
        """
        if self._received is not None:
            raise StoppedError(self._received)

    def _receive(self, number: int, _frame: FrameType | None) -> NoReturn:
        self._received = number
        raise StoppedError(number)
