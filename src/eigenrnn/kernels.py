"""The compiled CPU kernels, if they were built."""

from importlib import import_module
from typing import Any

try:
    # by name, because an import statement would also import the package, which lies above
    kernels: Any = import_module("eigenrnn._cpu")
except ModuleNotFoundError:
    kernels = None
    unavailable_reason = (
        "the compiled kernels were not built: there was no GCC when eigenrnn was "
        "installed, or the build failed (pip install --verbose shows the compiler's output)"
    )
except ImportError as error:  # a library that the kernels need is missing or too old
    kernels = None
    unavailable_reason = str(error)
else:
    unavailable_reason = None

__all__ = ["kernels", "unavailable_reason"]
