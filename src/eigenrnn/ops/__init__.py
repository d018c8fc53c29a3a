"""Recurrences as functions of an input and a matrix."""

from eigenrnn.ops.dispatch import explain, use_backend
from eigenrnn.ops.elman import elman
from eigenrnn.ops.gru import gru

__all__ = ["elman", "explain", "gru", "use_backend"]
