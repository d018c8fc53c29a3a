"""What becomes of the memory of freed tensors."""

import ctypes

__all__ = ["keep_freed_memory"]

# the parameters of mallopt as malloc.h of the GNU C library numbers them
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_MMAP_MAX = -4

_NEVER = -1
_LARGEST = 1 << 30  # bytes


def keep_freed_memory() -> bool:
    """Keep the memory of freed tensors on the CPU for those of the next step.

    By default the GNU C library, that of most Linux systems, gives much of the memory of large
    tensors back to the system when they are freed. The next step gets it again page by page,
    filled with zeros, which can take longer than its numbers. From this call on the process keeps
    its memory, but for single tensors above 1 GB (before version 2.35 of the library, also those).
    `ctypes.CDLL(None).malloc_trim(0)` gives back what is unused, such as that of a deleted data
    set.

    The call holds for the whole process until it ends, and helps its main thread; in other threads
    it does nothing for tensors above 64 MB.

    Returns:
        Whether the C library took the settings. A preloaded jemalloc or tcmalloc ignores them.
    Source:
        The manual of mallopt. https://man7.org/linux/man-pages/man3/mallopt.3.html
    Example:
        >>> supported = keep_freed_memory()  # once, before the training
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # Windows has no library of that name
        return False
    # before version 2.35 no threshold above 32 MB is taken, but no tensor is mapped either
    keeps = mallopt(_MMAP_THRESHOLD, _LARGEST) or mallopt(_MMAP_MAX, 0)
    return bool(keeps and mallopt(_TRIM_THRESHOLD, _NEVER))
