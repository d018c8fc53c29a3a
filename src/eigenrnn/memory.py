"""What becomes of the memory of freed tensors."""

import ctypes

__all__ = ["keep_freed_memory"]

# the parameters of mallopt as malloc.h of the GNU C library numbers them
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3

_NEVER = -1
_LARGEST = 1 << 30  # bytes


def keep_freed_memory() -> bool:
    """Keep the memory of freed tensors on the CPU for those of the next step.

    By default the C library of most Linux systems returns the memory of each freed tensor above 32
    MB to the system. The next step gets it back page by page, filled with zeros, which can take
    longer than its numbers. From this call on the process keeps what it has had, but for tensors
    above 1 GB. Its largest use of memory grows, by a tenth to a half where we measured it. Results
    stay the same to the last bit.

    This holds for the whole process, so eigenrnn calls it nowhere but in its command line.

    Returns:
        Whether the C library can do it, which is the one of GNU.
    Source:
        The manual of mallopt. https://man7.org/linux/man-pages/man3/mallopt.3.html
    Example:
        >>> supported = keep_freed_memory()  # once, before the training
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # Windows has no library of that name
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST) and mallopt(_TRIM_THRESHOLD, _NEVER))
