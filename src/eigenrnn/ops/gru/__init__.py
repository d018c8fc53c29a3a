"""The gated recurrence: its definition and its backends; README.md has the derivations."""

from eigenrnn.ops.gru.gru import BACKENDS, gru
from eigenrnn.ops.gru.reference import GRUOperands, GRUOptions

__all__ = ["BACKENDS", "GRUOperands", "GRUOptions", "gru"]
