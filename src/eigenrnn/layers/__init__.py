"""Recurrent layers: those that take any constraint, and the papers' by name."""

from eigenrnn.layers.as_rnn import AsRNN
from eigenrnn.layers.baselines import LSTM, TanhRNN, TorchGRU
from eigenrnn.layers.gated import GORU, NCGRU
from eigenrnn.layers.gru import GRU
from eigenrnn.layers.named import ORNN, DtrivRNN, ExpRNN, ScoRNN
from eigenrnn.layers.named_general import ENRNN, IRNN, NnRNN, RNNGlorot, RNNOrth, SpectralRNN
from eigenrnn.layers.named_unitary import EURNN, URNN, FullCapacityURNN, ScuRNN
from eigenrnn.layers.rnn import RNN
from eigenrnn.layers.weight_drop import weight_drop

__all__ = [
    "ENRNN",
    "EURNN",
    "GORU",
    "GRU",
    "IRNN",
    "LSTM",
    "NCGRU",
    "ORNN",
    "RNN",
    "URNN",
    "AsRNN",
    "DtrivRNN",
    "ExpRNN",
    "FullCapacityURNN",
    "NnRNN",
    "RNNGlorot",
    "RNNOrth",
    "ScoRNN",
    "ScuRNN",
    "SpectralRNN",
    "TanhRNN",
    "TorchGRU",
    "weight_drop",
]
