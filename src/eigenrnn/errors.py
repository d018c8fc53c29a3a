"""The exceptions that eigenrnn raises besides `ValueError` and `TypeError`, and common checks."""

import errno
import math
import operator
from importlib.util import find_spec

__all__ = [
    "CheckpointError",
    "ChecksumError",
    "FolderInUseError",
    "MissingDataError",
    "NoInverseError",
    "NonFiniteLossError",
    "NotInSetError",
    "RunExistsError",
    "WriteError",
    "check_installed",
    "check_not_negative",
    "check_positive_integer",
]


class NotInSetError(ValueError):
    """A matrix was given to a constraint whose set does not contain it."""

    def __init__(self, set_name: str, residual: float, tolerance: float, hint: str = "") -> None:
        message = (
            f"expected a matrix in {set_name}, got one with residual {residual:.3g} "
            f"(tolerance {tolerance:.3g})"
        )
        super().__init__(f"{message}; {hint}" if hint else message)
        self.residual = residual
        self.tolerance = tolerance


class NoInverseError(ValueError):
    """A matrix was given to a constraint whose map has no inverse that can be computed."""


class MissingDataError(FileNotFoundError):
    """A data file is in none of the places that were looked at."""


class ChecksumError(ValueError):
    """A data file is not the published one."""


class CheckpointError(ValueError):
    """A checkpoint is missing, damaged or of another format."""


class RunExistsError(FileExistsError):
    """A run directory already holds a run."""


class FolderInUseError(BlockingIOError):
    """Another process is writing to a folder."""


class WriteError(OSError):
    """A file cannot be written, for instance because the disk is full.

    Args:
        errno: The number of the system's error.
        strerror: What the system says of it.
        filename: The file that was to be written.
    """

    def __str__(self) -> str:
        said = f"cannot write {self.filename}: {self.strerror}"
        if self.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            return said
        return (
            f"{said}; free some space and run it again (a run that had begun goes on with "
            "resume=True, on the command line --resume)"
        )


class NonFiniteLossError(ArithmeticError):
    """Training met a loss that is not finite."""


def check_installed(extra: str, purpose: str, *packages: str) -> None:
    """Check that the packages of an optional extra are installed, without importing them.

    Args:
        extra: The extra of eigenrnn that brings the packages, such as ``"analysis"``.
        purpose: What needs them; the subject of the message.
        packages: The names by which they are imported.
    Raises:
        ImportError: If one is not installed; the message has the line that installs it.
    Example:
        >>> check_installed("analysis", "eigenrnn.analysis", "scipy")
    """
    absent = [package for package in packages if find_spec(package) is None]
    if absent:
        raise ImportError(
            f"{purpose} needs {' and '.join(absent)}: pip install 'eigenrnn[{extra}]'",
            name=absent[0],
        )


def check_not_negative(name: str, value: float) -> None:
    """Refuse what is no weight, rate or margin.

    Raises:
        ValueError: If `value` is negative, infinite or NaN.
    """
    if not 0 <= value < math.inf:
        raise ValueError(f"expected {name} to be finite and not negative, got {value}")


def check_positive_integer(name: str, value: object) -> None:
    """Refuse what is no count.

    Raises:
        ValueError: If `value` is not an integer above zero.
    """
    try:
        count = 0 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # as of an array of several numbers
        count = 0
    if count < 1:
        raise ValueError(f"expected {name} to be a positive integer, got {value!r}")
