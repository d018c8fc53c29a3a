"""Recurrent layers for PyTorch whose recurrent matrix has a spectrum that you choose.

Names are imported on first use (PEP 562), so ``import eigenrnn`` does not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eigenrnn import analysis, constraints, export, init, layers, linalg, models, ops
    from eigenrnn.averaging import AveragedModel
    from eigenrnn.closed_loop import rollout
    from eigenrnn.constraints import constrain
    from eigenrnn.layers import (
        ENRNN,
        EURNN,
        GORU,
        GRU,
        LRU,
        LSTM,
        NCGRU,
        ORNN,
        RNN,
        URNN,
        DeltaNet,
        DeltaProduct,
        DtrivRNN,
        ExpRNN,
        FullCapacityURNN,
        GatedDeltaNet,
        GRUCell,
        LeakyRNN,
        LSTMCell,
        MinGRU,
        NnRNN,
        RNNCell,
        RNNGlorot,
        RNNOrth,
        ScoRNN,
        ScuRNN,
        SpectralRNN,
    )
    from eigenrnn.memory import keep_freed_memory
    from eigenrnn.models import (
        Dropouts,
        LanguageModel,
        ResidualStack,
        SequenceModel,
        parameter_groups,
    )
    from eigenrnn.streaming import Stream

__all__ = [
    "ENRNN",
    "EURNN",
    "GORU",
    "GRU",
    "LRU",
    "LSTM",
    "NCGRU",
    "ORNN",
    "RNN",
    "URNN",
    "AveragedModel",
    "DeltaNet",
    "DeltaProduct",
    "Dropouts",
    "DtrivRNN",
    "ExpRNN",
    "FullCapacityURNN",
    "GRUCell",
    "GatedDeltaNet",
    "LSTMCell",
    "LanguageModel",
    "LeakyRNN",
    "MinGRU",
    "NnRNN",
    "RNNCell",
    "RNNGlorot",
    "RNNOrth",
    "ResidualStack",
    "ScoRNN",
    "ScuRNN",
    "SequenceModel",
    "SpectralRNN",
    "Stream",
    "__version__",
    "analysis",
    "constrain",
    "constraints",
    "export",
    "init",
    "keep_freed_memory",
    "layers",
    "linalg",
    "models",
    "ops",
    "parameter_groups",
    "rollout",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    packages = ("analysis", "constraints", "export", "init", "layers", "linalg", "models", "ops")
    if name in packages:
        return import_module(f"{__name__}.{name}")
    places = (
        "layers",
        "models",
        "constraints",
        "averaging",
        "streaming",
        "closed_loop",
        "memory",
    )
    modules = (import_module(f"{__name__}.{module}") for module in places)
    value = next(getattr(module, name) for module in modules if name in module.__all__)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
