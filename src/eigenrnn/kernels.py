"""The compiled CPU kernels, if they were built."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

try:
    # by name, because an import statement would also import the package, which lies above
    kernels: Any = import_module("eigenrnn._cpu")
except ModuleNotFoundError:
    kernels = None
    unavailable_reason = (
        "the compiled kernels were not built: there was no GCC or Clang when eigenrnn was "
        "installed, or the build failed (pip install --verbose shows the compiler's output)"
    )
except ImportError as error:  # a library that the kernels need is missing or too old
    kernels = None
    unavailable_reason = str(error)
else:
    unavailable_reason = None

_SUFFIX = "dylib" if sys.platform == "darwin" else "so"
_TORCH = Path(torch.__file__).with_name("lib") / f"libtorch_cpu.{_SUFFIX}"
has_threads: bool = kernels is not None and kernels.find_threads(str(_TORCH))
"""Whether the kernels use torch's OpenMP threads; else they run on one thread."""

__all__ = ["NUMBERS", "has_threads", "kernels", "unavailable_reason"]

NUMBERS = {torch.float32: "float32", torch.float64: "float64"}
"""The dtypes of the kernels, and the names that these have there."""
