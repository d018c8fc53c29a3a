"""The named cases of the shared test contracts: at least one for each export of a package."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from eigenrnn.constraints import (
    BlockTriangular,
    BoundedSVD,
    Constraint,
    Dale,
    DiagonalDisc,
    DiagonalRing,
    DiagonalSegment,
    Exponential,
    FourierProduct,
    Givens,
    Householder,
    LowRank,
    Masked,
    MovingCayley,
    NeumannCayley,
    Rounded,
    ScaledCayley,
    Schur,
    SpectralRadius,
    Unconstrained,
)
from eigenrnn.init import haar_
from eigenrnn.layers import (
    ENRNN,
    EURNN,
    GORU,
    GRU,
    LRU,
    LSTM,
    NCGRU,
    ORNN,
    RNN,
    URNN,
    DeltaNet,
    DeltaProduct,
    DtrivRNN,
    ExpRNN,
    FullCapacityURNN,
    GatedDeltaNet,
    GRUCell,
    LeakyRNN,
    LSTMCell,
    MinGRU,
    NnRNN,
    RNNCell,
    RNNGlorot,
    RNNOrth,
    ScoRNN,
    ScuRNN,
    SpectralRNN,
)
from eigenrnn.layers.stacked import Stacked
from eigenrnn.linalg import tol

INITS = ("henaff", "cayley", "haar")


def fixed_matrix(n):
    return torch.randn(n, n, generator=torch.Generator().manual_seed(n)) / n


# functions of the size N
CONSTRAINTS = {
    "unconstrained": Unconstrained,
    "unconstrained-haar": partial(Unconstrained, init=haar_),
    "scaled-cayley": ScaledCayley,
    "scaled-cayley-zero": partial(ScaledCayley, init="zero"),
    "scaled-cayley-0": partial(ScaledCayley, negative=0),
    "scaled-cayley-1": partial(ScaledCayley, negative=1),
    **{f"exponential-{init}": partial(Exponential, init=init) for init in INITS},
    **{f"dtriv-3-{init}": partial(Exponential, init=init, period=3) for init in INITS},
    "dtriv-1": partial(Exponential, period=1),
    "dtriv-inf": partial(Exponential, period=math.inf),
    "scaled-cayley-complex": partial(ScaledCayley, dtype=torch.complex64),
    "scaled-cayley-complex-zero": partial(ScaledCayley, dtype=torch.complex64, init="zero"),
    "fourier-product": FourierProduct,
    "givens": Givens,
    "givens-5-complex": partial(Givens, layers=5, dtype=torch.complex64),
    "givens-fft": partial(Givens, style="fft"),
    "givens-fft-complex": partial(Givens, style="fft", dtype=torch.complex64),
    "moving-cayley": MovingCayley,
    "moving-cayley-complex": partial(MovingCayley, dtype=torch.complex64),
    "moving-cayley-urnn": partial(MovingCayley, dtype=torch.complex64, init="urnn"),
    "householder": Householder,
    "householder-2": partial(Householder, reflections=2),
    "bounded-svd": partial(BoundedSVD, margin=0.2),
    "bounded-svd-3": partial(BoundedSVD, reflections=3),
    "neumann-cayley": partial(NeumannCayley, reset_every=3),
    "neumann-cayley-1": partial(NeumannCayley, negative=1, order=1),
    "neumann-cayley-exact": partial(NeumannCayley, init="zero", order=None),
    "schur": Schur,
    "schur-cayley": partial(Schur, orthogonal=ScaledCayley),
    "schur-clamped": partial(Schur, gamma="clamped", gamma_value=0.958),
    "diagonal-disc": DiagonalDisc,
    "diagonal-ring": DiagonalRing,
    "diagonal-ring-circle": partial(DiagonalRing, r_min=1.0),
    "diagonal-segment": DiagonalSegment,
    "spectral-radius": SpectralRadius,
    "spectral-radius-inside": partial(SpectralRadius, epsilon=0.1),
    "dale": Dale,
    "dale-half": partial(Dale, excitatory=0.5),
    "low-rank": partial(LowRank, rank=1),
    "low-rank-plus": partial(LowRank, rank=2, plus=fixed_matrix),
    "masked": partial(Masked, density=0.4),
    "masked-dale": partial(Masked, density=0.6, inner=Dale),
    "rounded": Rounded,
    "rounded-complex": partial(Rounded, inner=partial(MovingCayley, dtype=torch.complex64)),
    "block-triangular": partial(BlockTriangular, short_size=1),
    "block-triangular-moving": partial(
        BlockTriangular, long=partial(Exponential, period=3), coupling=False
    ),
}

# The contract holds for all of them; the lists below name the exceptions.

# `assign` raises NoInverseError
NO_INVERSE = [
    "fourier-product",
    "givens",
    "givens-5-complex",
    "givens-fft",
    "givens-fft-complex",
    "bounded-svd",
    "bounded-svd-3",
    "householder",
    "householder-2",
    "rounded",
    "rounded-complex",
]

# the sizes to test, for sets that do not allow every size
SIZES: dict[str, tuple[int, ...]] = {
    "givens": (2, 4, 8, 66),
    "givens-5-complex": (2, 4, 8, 66),
    "givens-fft": (2, 4, 8, 64),
    "givens-fft-complex": (2, 4, 8, 64),
    "householder-2": (4, 7, 8, 65),
    "bounded-svd-3": (5, 7, 8, 65),
    "dale-half": (2, 7, 8),
    "low-rank-plus": (2, 7, 8),
    "masked-dale": (4, 7, 8),
    **dict.fromkeys(
        (name for name in CONSTRAINTS if name.startswith("schur")),
        (2, 4, 8, 66),
    ),
    **dict.fromkeys(
        (name for name in CONSTRAINTS if name.startswith("block-triangular")), (2, 5, 7, 8, 65)
    ),
}
ANY_SIZE = (1, 2, 7, 8)

# the tolerance for a dtype and a size, where it is larger than `tol`
TOLERANCES: dict[str, Callable[[torch.dtype, int], float]] = {
    "neumann-cayley": lambda dtype, n: 0.01 + tol(dtype, n),  # between two exact inversions
    "neumann-cayley-1": lambda dtype, n: 0.01 + tol(dtype, n),
    "rounded": lambda dtype, n: n / 127 + tol(dtype, n),
    "rounded-complex": lambda dtype, n: n / 127 + tol(dtype, n),
}

# the gradient passes these maps as if they were the identity
STRAIGHT_THROUGH = ["rounded", "rounded-complex"]

# maps a W of the set to a matrix outside it, where adding 3 I does not
OUTSIDE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "dale": torch.neg,
    "masked": lambda W: W + 1,
    "masked-dale": lambda W: W + 1,
}

# constrained, but with a residual other than |W* W - I|
NOT_UNITARY = [
    "householder-2",
    "rounded",
    "rounded-complex",
    "bounded-svd",
    "bounded-svd-3",
    "diagonal-disc",
    "diagonal-ring",
    "diagonal-ring-circle",
    "diagonal-segment",
    *(n for n in CONSTRAINTS if n.startswith(("schur", "spectral-radius", "block-triangular"))),
    *(n for n in CONSTRAINTS if n.startswith(("dale", "low-rank", "masked"))),
]

# `penalty` is positive after training
PENALISED = [
    "schur",
    "schur-cayley",
]


@dataclass(frozen=True)
class Case:
    """A set by its name in CONSTRAINTS, with its sizes, tolerance and matrices outside it."""

    name: str

    def __call__(self, n):
        return CONSTRAINTS[self.name](n)

    @property
    def sizes(self):
        return SIZES.get(self.name, ANY_SIZE)

    def near(self, n):
        """The size to test that is nearest to n."""
        return min(SIZES.get(self.name, [n]), key=lambda size: abs(size - n))

    def tol(self, dtype, n):
        return TOLERANCES.get(self.name, tol)(dtype, n)

    def outside(self, W):
        return OUTSIDE.get(self.name, lambda W: W + 3 * torch.eye(len(W)))(W)

    def example(self) -> Constraint:
        return self(self.near(2))


ALL = {name: Case(name) for name in CONSTRAINTS}
CONFINED = {name: case for name, case in ALL.items() if case.example().constrained}
UNITARY = {name: case for name, case in CONFINED.items() if name not in NOT_UNITARY}
INVERTIBLE = {name: case for name, case in ALL.items() if name not in NO_INVERSE}
ONE_WAY = {name: case for name, case in ALL.items() if name in NO_INVERSE}
COMPLEX = {name: case for name, case in ALL.items() if case.example().is_complex}
REAL = {name: case for name, case in ALL.items() if name not in COMPLEX}

# Three that differ in what the base class sees: a plain map, a base that moves with the steps of
# an optimiser, and a set of two parts with a penalty.
FEW = ["scaled-cayley", "dtriv-3-haar", "schur"]
# One whole case of each class, and of each code path of its own.
ONE_OF_EACH = [
    "unconstrained",
    "scaled-cayley",
    "scaled-cayley-complex",
    "exponential-henaff",
    "dtriv-3-haar",
    "fourier-product",
    "givens-5-complex",
    "givens-fft",
    "moving-cayley-complex",
    "householder-2",
    "rounded",
    "rounded-complex",
    "bounded-svd-3",
    "neumann-cayley",
    "schur",
    "diagonal-disc",
    "diagonal-ring",
    "diagonal-segment",
    "spectral-radius",
    "dale-half",
    "low-rank-plus",
    "masked-dale",
    "block-triangular-moving",
]

# the base moves every third step
MOVING = {name: make for name, make in CONSTRAINTS.items() if name.startswith("dtriv-3")}

# functions of the input size and the hidden size
LAYERS = {
    "RNN": RNN,
    "RNN-tanh": partial(RNN, nonlinearity="tanh", constraint=Unconstrained),
    "LeakyRNN": LeakyRNN,
    "ScoRNN": ScoRNN,
    "ScoRNN-zero": partial(ScoRNN, negative=1, matrix_init="zero"),
    "ExpRNN": ExpRNN,
    "DtrivRNN": partial(DtrivRNN, period=2),
    "LSTM": LSTM,
    "LSTM-cayley": partial(LSTM, constraint=ScaledCayley),
    "LRU": LRU,
    "LRU-segment": partial(LRU, constraint=DiagonalSegment),
    "MinGRU": MinGRU,
    "MinGRU-negative": partial(MinGRU, decays=(-1, 1)),
    "DeltaNet": partial(DeltaNet, reflections=2, gated=True),
    "GRU": GRU,
    "GRU-before": partial(
        GRU, reset=Exponential, reset_after=False, update_keeps=False, nonlinearity="relu"
    ),
    "NCGRU": NCGRU,
    "NCGRU-all": partial(NCGRU, orthogonal=("reset", "update", "candidate"), reset_every=2),
    "NCGRU-torch": partial(NCGRU, reset_after=True, update_keeps=True),
    "GORU": GORU,
    "GORU-fft": partial(GORU, style="fft"),
    "torch's RNN": nn.RNN,
    "torch's GRU": nn.GRU,
    "torch's LSTM": nn.LSTM,
}

# the layers named for papers, with options for a hidden size of 8
NAMED = {
    "DeltaProduct": partial(DeltaProduct, heads=2),
    "ENRNN": partial(ENRNN, short_size=4),
    "EURNN": EURNN,
    "FullCapacityURNN": FullCapacityURNN,
    "GatedDeltaNet": partial(GatedDeltaNet, heads=2),
    "NnRNN": NnRNN,
    "ORNN": partial(ORNN, reflections=3),
    "RNNGlorot": RNNGlorot,
    "RNNOrth": RNNOrth,
    "ScuRNN": ScuRNN,
    "SpectralRNN": partial(SpectralRNN, reflections=3),
    "URNN": URNN,
}

CELLS = {"RNNCell": RNNCell, "GRUCell": GRUCell, "LSTMCell": LSTMCell}

OURS = {name: make for name, make in LAYERS.items() if isinstance(make(1, 2), Stacked)}
ELMAN = {name: make for name, make in LAYERS.items() if isinstance(make(1, 2), RNN)}
GATED = {name: make for name, make in LAYERS.items() if isinstance(make(1, 2), GRU)}

# the nonlinearity, and whether it has a bias
NONLINEARITIES = {
    "modrelu": ("modrelu", True),
    "modrelu-no-bias": ("modrelu", False),
    "tanh": ("tanh", False),
    "relu": ("relu", False),
    "elu": ("elu", False),
    "leaky_relu": ("leaky_relu", False),
    "leaky_relu_0.1": ("leaky_relu_0.1", False),
    "softplus": ("softplus", False),
    "retanh": ("retanh", False),
    "identity": ("identity", False),
}
