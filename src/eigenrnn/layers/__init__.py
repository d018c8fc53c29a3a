"""Recurrent layers: one that takes any constraint, and the papers' by name."""

from eigenrnn.layers.baselines import GRU, LSTM, TanhRNN
from eigenrnn.layers.named import DtrivRNN, ExpRNN, ScoRNN
from eigenrnn.layers.rnn import RNN

__all__ = ["GRU", "LSTM", "RNN", "DtrivRNN", "ExpRNN", "ScoRNN", "TanhRNN"]
