"""The exceptions of the experiments."""

import torch

__all__ = [
    "CheckpointError",
    "ChecksumError",
    "FolderInUseError",
    "MissingDataError",
    "NonFiniteLossError",
    "RunExistsError",
    "is_out_of_memory",
]


class MissingDataError(FileNotFoundError):
    """A data file is in none of the searched folders."""


class ChecksumError(ValueError):
    """A data file differs from the published one."""


class CheckpointError(ValueError):
    """A checkpoint is missing, damaged or of another format."""


class RunExistsError(FileExistsError):
    """A run directory already holds a run."""


class FolderInUseError(BlockingIOError):
    """Another process is writing to a folder."""


class NonFiniteLossError(ArithmeticError):
    """The training loss is infinite or NaN."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of the machine or of a device is exhausted."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # torch's allocator on a CPU raises a plain RuntimeError
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
