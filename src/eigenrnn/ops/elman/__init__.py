"""The Elman recurrence: its definition and its backends; README.md has the derivations."""

from eigenrnn.ops.elman.elman import BACKENDS, elman

__all__ = ["BACKENDS", "elman"]
