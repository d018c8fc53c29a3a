"""The exceptions of the experiments."""

__all__ = [
    "CheckpointError",
    "ChecksumError",
    "FolderInUseError",
    "MissingDataError",
    "NonFiniteLossError",
    "RunExistsError",
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
