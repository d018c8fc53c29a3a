"""The delta rule: its definition and its backends; README.md has the derivations."""

from eigenrnn.ops.delta.delta import BACKENDS, delta
from eigenrnn.ops.delta.reference import DeltaOperands, DeltaOptions

__all__ = ["BACKENDS", "DeltaOperands", "DeltaOptions", "delta"]
