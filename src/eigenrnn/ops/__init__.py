"""Recurrences as functions of an input and a matrix."""

from eigenrnn.ops.delta import delta
from eigenrnn.ops.dispatch import explain, use_backend
from eigenrnn.ops.elman import elman
from eigenrnn.ops.gru import gru
from eigenrnn.ops.linear import linear
from eigenrnn.ops.lstm import lstm

__all__ = ["delta", "elman", "explain", "gru", "linear", "lstm", "use_backend"]
