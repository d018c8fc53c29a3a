"""Recurrent layers for PyTorch whose recurrent matrix has a spectrum that you choose."""

import importlib
from typing import TYPE_CHECKING, Any

from eigenrnn.averaging import AveragedModel
from eigenrnn.constraints import constrain
from eigenrnn.layers import (
    ENRNN,
    EURNN,
    GORU,
    GRU,
    IRNN,
    NCGRU,
    ORNN,
    RNN,
    URNN,
    AsRNN,
    DtrivRNN,
    ExpRNN,
    FullCapacityURNN,
    NnRNN,
    RNNGlorot,
    RNNOrth,
    ScoRNN,
    ScuRNN,
    SpectralRNN,
)
from eigenrnn.models import Dropouts, LanguageModel, SequenceModel
from eigenrnn.version import __version__

if TYPE_CHECKING:
    from eigenrnn import analysis as analysis
    from eigenrnn import data as data
    from eigenrnn import recipes as recipes
    from eigenrnn import starts as starts
    from eigenrnn import tasks as tasks
    from eigenrnn import train as train

__all__ = [
    "ENRNN",
    "EURNN",
    "GORU",
    "GRU",
    "IRNN",
    "NCGRU",
    "ORNN",
    "RNN",
    "URNN",
    "AsRNN",
    "AveragedModel",
    "Dropouts",
    "DtrivRNN",
    "ExpRNN",
    "FullCapacityURNN",
    "LanguageModel",
    "NnRNN",
    "RNNGlorot",
    "RNNOrth",
    "ScoRNN",
    "ScuRNN",
    "SequenceModel",
    "SpectralRNN",
    "__version__",
    "constrain",
]


def __getattr__(name: str) -> Any:
    if name in {"analysis", "data", "recipes", "starts", "tasks", "train"}:  # imported when used
        return importlib.import_module(f"eigenrnn.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "analysis", "data", "recipes", "starts", "tasks", "train"})
