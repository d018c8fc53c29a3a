"""Recurrent layers for PyTorch whose recurrent matrix has a spectrum that you choose."""

from eigenrnn.averaging import AveragedModel
from eigenrnn.constraints import constrain
from eigenrnn.language_model import Dropouts, LanguageModel
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
from eigenrnn.models import SequenceModel
from eigenrnn.version import __version__

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
