"""The LSTM: its definition and its backends; README.md has the derivations."""

from eigenrnn.ops.lstm.lstm import BACKENDS, lstm
from eigenrnn.ops.lstm.operands import LSTMOperands, LSTMOptions

__all__ = ["BACKENDS", "LSTMOperands", "LSTMOptions", "lstm"]
