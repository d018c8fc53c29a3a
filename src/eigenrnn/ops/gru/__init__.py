"""The gated recurrence: its definition, its implementations, and what they were derived from."""

from eigenrnn.ops.gru.gru import BACKENDS, gru

__all__ = ["BACKENDS", "gru"]
