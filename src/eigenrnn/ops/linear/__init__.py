"""The linear recurrence: its definition and its backends; README.md has the derivations."""

from eigenrnn.ops.linear.linear import BACKENDS, evaluate, linear
from eigenrnn.ops.linear.reference import LinearOperands, LinearOptions

__all__ = ["BACKENDS", "LinearOperands", "LinearOptions", "evaluate", "linear"]
