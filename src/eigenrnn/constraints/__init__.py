"""Sets of recurrent matrices, one file each."""

from eigenrnn.constraints.base import Constraint
from eigenrnn.constraints.block_triangular import BlockTriangular
from eigenrnn.constraints.bounded_svd import BoundedSVD
from eigenrnn.constraints.constrain import constrain
from eigenrnn.constraints.dale import Dale
from eigenrnn.constraints.diagonal import DiagonalDisc, DiagonalRing, DiagonalSegment
from eigenrnn.constraints.exponential import Exponential
from eigenrnn.constraints.fourier_product import FourierProduct
from eigenrnn.constraints.givens import Givens
from eigenrnn.constraints.householder import Householder
from eigenrnn.constraints.low_rank import LowRank
from eigenrnn.constraints.masked import Masked
from eigenrnn.constraints.moving_cayley import MovingCayley
from eigenrnn.constraints.neumann_cayley import NeumannCayley
from eigenrnn.constraints.rounded import Rounded
from eigenrnn.constraints.scaled_cayley import ScaledCayley
from eigenrnn.constraints.schur import Schur
from eigenrnn.constraints.spectral_radius import SpectralRadius
from eigenrnn.constraints.unconstrained import Unconstrained

__all__ = [  # noqa: RUF022, in the order of the reference
    "constrain",
    "ScaledCayley",
    "Exponential",
    "MovingCayley",
    "NeumannCayley",
    "Householder",
    "Givens",
    "FourierProduct",
    "BoundedSVD",
    "Schur",
    "SpectralRadius",
    "BlockTriangular",
    "Dale",
    "LowRank",
    "Masked",
    "Rounded",
    "DiagonalDisc",
    "DiagonalRing",
    "DiagonalSegment",
    "Unconstrained",
    "Constraint",
]
