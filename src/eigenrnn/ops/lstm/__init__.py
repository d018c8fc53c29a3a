"""The LSTM: its definition and its backends; README.md has the derivations."""

from eigenrnn.ops.lstm.lstm import BACKENDS, lstm
from eigenrnn.ops.lstm.reference import LSTMOperands, LSTMOptions

__all__ = ["BACKENDS", "LSTMOperands", "LSTMOptions", "lstm"]
