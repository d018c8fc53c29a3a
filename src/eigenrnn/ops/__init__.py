"""Recurrences as functions of an input and a matrix; they know nothing of constraints."""

from eigenrnn.ops.dispatch import explain, use_backend
from eigenrnn.ops.elman import elman

__all__ = ["elman", "explain", "use_backend"]
