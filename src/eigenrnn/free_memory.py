"""Checks that data fits into the free memory before it is allocated."""

import os
from pathlib import Path

import torch

__all__ = ["check_memory", "free_memory", "is_out_of_memory"]

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_GIB = 2**30


def free_memory() -> int | None:
    """Return the number of free bytes, or None if the system does not report it."""
    free = [bytes_free for bytes_free in (_machine_free(), _container_free()) if bytes_free]
    return min(free, default=None)


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Check that an allocation fits into the free memory.

    Args:
        needed: The estimated size in bytes.
        what: What needs the memory; part of the message.
        remedy: What the user can change; the end of the message.

    Raises:
        ValueError: If less memory is free. The message has both sizes.
    """
    free = free_memory()
    if free is not None and needed > free:
        raise ValueError(
            f"expected {what} to fit into the {free / _GIB:.2f} GiB of memory that are free, "
            f"got an estimate of {needed / _GIB:.2f} GiB; {remedy}"
        )


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory of the machine or of a device is exhausted."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # torch's allocator on a CPU raises a plain RuntimeError
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def _machine_free() -> int | None:
    if _MEMINFO.exists():
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _container_free() -> int | None:
    limit = _CGROUP / "memory.max"
    used = _CGROUP / "memory.current"
    if not limit.exists() or limit.read_text().strip() == "max":
        return None
    return max(int(limit.read_text()) - int(used.read_text()), 1)
