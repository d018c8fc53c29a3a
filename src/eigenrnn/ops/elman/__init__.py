"""The Elman recurrence: its definition and its backends; README.md has the derivations."""

from eigenrnn.ops.elman.elman import BACKENDS, elman
from eigenrnn.ops.elman.reference import ElmanOperands

__all__ = ["BACKENDS", "ElmanOperands", "elman"]
