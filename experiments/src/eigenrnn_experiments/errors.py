"""The exceptions of the experiments."""

import difflib
from collections.abc import Iterable

import torch

__all__ = [
    "CheckpointError",
    "ChecksumError",
    "FolderInUseError",
    "MissingDataError",
    "NonFiniteLossError",
    "RunExistsError",
    "StoppedError",
    "WriteError",
    "is_out_of_memory",
    "unknown_name",
]


class MissingDataError(FileNotFoundError):
    """A data file is in none of the searched folders."""


class ChecksumError(ValueError):
    """A data file differs from the published one."""


class CheckpointError(ValueError):
    """A checkpoint is missing, damaged or of another format."""


class RunExistsError(FileExistsError):
    """A folder already holds a run."""


class FolderInUseError(BlockingIOError):
    """Another process is writing to a folder."""


class NonFiniteLossError(ArithmeticError):
    """The training loss is infinite or NaN."""


class StoppedError(KeyboardInterrupt):
    """A signal has ended a training, which can be resumed.

    Args:
        signal: The number of the signal.
    """

    def __init__(self, signal: int) -> None:
        super().__init__(f"stopped by signal {signal}")
        self.signal = signal


class WriteError(OSError):
    """A file cannot be written, for instance because the disk is full.

    Args:
        errno: The error number of the operating system.
        strerror: Its error message.
        filename: The file that could not be written.
    """

    def __str__(self) -> str:
        return f"cannot write {self.filename}: {self.strerror}"


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of the machine or of a device is exhausted."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # torch's allocator on a CPU raises a plain RuntimeError
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def unknown_name(kind: str, name: str, names: Iterable[str]) -> str:
    """Return the message for an unknown name, with similar names and where to find all."""
    names = list(names)
    hint = ""
    similar = difflib.get_close_matches(name, sorted(names))
    if similar:
        hint = f" (did you mean {' or '.join(similar)}?)"
    listed = f"there are {', '.join(names)}"
    if kind == "recipe":
        listed = "see eigenrnn list recipes"
    return f"expected a {kind}, got {name!r}{hint}; {listed}"
