"""Data, tasks, training, published experiments and the command line."""

from typing import TYPE_CHECKING, Any

from eigenrnn.experiments import extras as extras  # checks the extra on first import

if TYPE_CHECKING:
    from eigenrnn.experiments.cli.rebuild import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from eigenrnn.experiments.cli.rebuild import load

    return load
