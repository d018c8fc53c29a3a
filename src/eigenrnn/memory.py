"""Whether what is about to be read or laid out fits into the memory that is free."""

import os
from pathlib import Path

__all__ = ["check_memory", "free_memory"]

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")
_GIB = 2**30


def free_memory() -> int | None:
    """Measure how many bytes can still be had; None where the system does not say."""
    free = [bytes_free for bytes_free in (_free_of_machine(), _free_of_container()) if bytes_free]
    return min(free, default=None)


def check_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse, before anything is allocated, what cannot fit.

    Args:
        needed: The estimate in bytes.
        what: What would take them.
        remedy: What the user can do about it.

    Raises:
        ValueError: If less is free than is needed; gives both numbers.
    """
    free = free_memory()
    if free is not None and needed > free:
        raise ValueError(
            f"expected {what} to fit into the {free / _GIB:.2f} GiB of memory that are free, "
            f"got an estimate of {needed / _GIB:.2f} GiB; {remedy}"
        )


def _free_of_machine() -> int | None:
    if _MEMINFO.exists():
        lines = dict(line.split(":", 1) for line in _MEMINFO.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _free_of_container() -> int | None:
    limit, used = _CGROUP / "memory.max", _CGROUP / "memory.current"
    if not limit.exists() or limit.read_text().strip() == "max":
        return None
    return max(int(limit.read_text()) - int(used.read_text()), 1)
