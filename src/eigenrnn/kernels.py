"""The compiled CPU kernels, if they were built."""

from typing import Any

try:
    # `from eigenrnn import _cpu` would report a missing module as a circular import
    import eigenrnn._cpu as _cpu  # pyright: ignore[reportMissingModuleSource]
except ModuleNotFoundError:
    kernels: Any = None
    unavailable_reason = (
        "the compiled kernels were not built: there was no GCC when eigenrnn was "
        "installed, or the build failed (pip install --verbose shows the compiler's output)"
    )
except ImportError as error:  # a library that the kernels need is missing or too old
    kernels = None
    unavailable_reason = str(error)
else:
    kernels = _cpu
    unavailable_reason = None

__all__ = ["kernels", "unavailable_reason"]
