"""The gated recurrence: its definition and its backends; README.md has the derivations."""

from eigenrnn.ops.gru.gru import BACKENDS, gru

__all__ = ["BACKENDS", "gru"]
