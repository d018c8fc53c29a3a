"""The Elman recurrence: its definition, its implementations, and what they were derived from."""

from eigenrnn.ops.elman.elman import BACKENDS, elman

__all__ = ["BACKENDS", "elman"]
