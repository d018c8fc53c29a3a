"""Recurrent layers: `RNN`, `GRU` and `LSTM` with any constraint, and those of papers."""

from eigenrnn.layers.cells import GRUCell, LSTMCell, RNNCell
from eigenrnn.layers.delta import DeltaNet
from eigenrnn.layers.gru import GRU
from eigenrnn.layers.leaky import LeakyRNN
from eigenrnn.layers.linear import LRU, MinGRU
from eigenrnn.layers.lstm import LSTM
from eigenrnn.layers.named import (
    ENRNN,
    EURNN,
    ORNN,
    URNN,
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
from eigenrnn.layers.named_delta import DeltaProduct, GatedDeltaNet
from eigenrnn.layers.named_gated import GORU, NCGRU
from eigenrnn.layers.rnn import RNN
from eigenrnn.layers.stacked import Layer
from eigenrnn.layers.weight_drop import weight_drop

__all__ = [  # noqa: RUF022, in the order of the reference
    "RNN",
    "GRU",
    "LSTM",
    "LeakyRNN",
    "LRU",
    "MinGRU",
    "DeltaNet",
    "ScoRNN",
    "ExpRNN",
    "DtrivRNN",
    "ORNN",
    "NnRNN",
    "ENRNN",
    "SpectralRNN",
    "ScuRNN",
    "URNN",
    "FullCapacityURNN",
    "EURNN",
    "NCGRU",
    "GORU",
    "GatedDeltaNet",
    "DeltaProduct",
    "RNNOrth",
    "RNNGlorot",
    "RNNCell",
    "GRUCell",
    "LSTMCell",
    "Layer",
    "weight_drop",
]
