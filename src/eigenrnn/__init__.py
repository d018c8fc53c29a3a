"""Recurrent layers for PyTorch whose recurrent matrix has a spectrum that you choose."""

from eigenrnn.constraints import constrain
from eigenrnn.layers import GORU, GRU, NCGRU, RNN, DtrivRNN, ExpRNN, ScoRNN
from eigenrnn.models import SequenceModel
from eigenrnn.version import __version__

__all__ = [
    "GORU",
    "GRU",
    "NCGRU",
    "RNN",
    "DtrivRNN",
    "ExpRNN",
    "ScoRNN",
    "SequenceModel",
    "__version__",
    "constrain",
]
