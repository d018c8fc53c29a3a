"""Data, tasks, training, recipes of papers and the command line."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigenrnn_experiments.loading import load

__all__ = ["__version__", "load"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from eigenrnn_experiments.loading import load

    return load
