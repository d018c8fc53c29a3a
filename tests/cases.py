"""What the shared contracts run over, by name: each export of a package has at least one case."""

import math
from functools import partial

from torch import nn

from eigenrnn.constraints import Exponential, ScaledCayley, Unconstrained
from eigenrnn.initializers import haar_
from eigenrnn.layers import GRU, LSTM, RNN, DtrivRNN, ExpRNN, ScoRNN, TanhRNN
from eigenrnn.tasks import Copying, PixelMNIST

STARTS = ("henaff", "cayley", "haar")

# functions of the size N
CONSTRAINTS = {
    "unconstrained": Unconstrained,
    "unconstrained-haar": partial(Unconstrained, init=haar_),
    "scaled-cayley": ScaledCayley,
    "scaled-cayley-zero": partial(ScaledCayley, start="zero"),
    "scaled-cayley-0": partial(ScaledCayley, negative=0),
    "scaled-cayley-1": partial(ScaledCayley, negative=1),
    **{f"exponential-{start}": partial(Exponential, start=start) for start in STARTS},
    **{f"dtriv-3-{start}": partial(Exponential, start=start, period=3) for start in STARTS},
    "dtriv-1": partial(Exponential, period=1),
    "dtriv-inf": partial(Exponential, period=math.inf),
}

CONFINED = {name: make for name, make in CONSTRAINTS.items() if make(2).constrained}

# those whose base moves every third step
MOVING = {name: make for name, make in CONSTRAINTS.items() if name.startswith("dtriv-3")}

# functions of the numbers of inputs and units
LAYERS = {
    "RNN": RNN,
    "RNN-tanh": partial(RNN, nonlinearity="tanh", constraint=Unconstrained),
    "ScoRNN": ScoRNN,
    "ScoRNN-zero": partial(ScoRNN, negative=1, start="zero"),
    "ExpRNN": ExpRNN,
    "DtrivRNN": partial(DtrivRNN, period=2),
    "LSTM": LSTM,
    "LSTM-glorot": partial(LSTM, forget_bias=1.0, start="glorot"),
    "GRU": GRU,
    "TanhRNN": TanhRNN,
}

OURS = {name: make for name, make in LAYERS.items() if isinstance(make(1, 2), RNN)}
BASELINES = {name: make for name, make in LAYERS.items() if isinstance(make(1, 2), nn.RNNBase)}

# the nonlinearity, and whether it is given a bias
NONLINEARITIES = {
    "modrelu": ("modrelu", True),
    "modrelu-no-bias": ("modrelu", False),
    "tanh": ("tanh", False),
    "relu": ("relu", False),
    "elu": ("elu", False),
    "leaky_relu": ("leaky_relu", False),
    "identity": ("identity", False),
}

TASKS = {
    "copying": Copying(delay=6, test_examples=7),
    "copying-at": Copying(delay=6, recall="at", test_examples=7),
    "copying-scalar": Copying(delay=6, coding="scalar", test_examples=7),
    "copying-blank-last": Copying(delay=6, blank="last", test_examples=7),
    "copying-fixed": Copying(delay=6, train_examples=8, test_examples=7),
    "copying-shuffled": Copying(delay=6, train_examples=8, test_examples=7, shuffle=True),
    "mnist": PixelMNIST(),
    "mnist-permuted": PixelMNIST(permuted=True),
    "mnist-full": PixelMNIST(split="full"),
    "mnist-nnrnn": PixelMNIST(permuted=True, split="nnrnn", shuffle=False),
}
