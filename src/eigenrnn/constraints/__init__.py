"""Sets of recurrent matrices: one file each, one line here."""

from eigenrnn.constraints.base import Constraint
from eigenrnn.constraints.constrain import constrain
from eigenrnn.constraints.exponential import Exponential
from eigenrnn.constraints.scaled_cayley import ScaledCayley
from eigenrnn.constraints.unconstrained import Unconstrained

__all__ = ["Constraint", "Exponential", "ScaledCayley", "Unconstrained", "constrain"]
