"""The papers' layers by name choose a set, and leave its options to the user."""

import inspect
from types import NoneType

import pytest
import torch

from eigenrnn.constraints import (
    BlockTriangular,
    BoundedSVD,
    Exponential,
    FourierProduct,
    Givens,
    Householder,
    MovingCayley,
    NeumannCayley,
    ScaledCayley,
    Schur,
    SpectralRadius,
)
from eigenrnn.init import zeros_
from eigenrnn.layers import (
    ENRNN,
    EURNN,
    GORU,
    NCGRU,
    ORNN,
    URNN,
    DtrivRNN,
    ExpRNN,
    FullCapacityURNN,
    NnRNN,
    ScoRNN,
    ScuRNN,
    SpectralRNN,
)

SCHUR = {
    "gamma_penalty": 0.5,
    "decay": 0.25,
    "gamma": "clamped",
    "gamma_value": 0.958,
    "in_block": False,
    "orthogonal": ScaledCayley,
}
NEUMANN = {
    "negative": 1,
    "start": "zero",
    "order": 3,
    "reset_every": 7,
    "max_error": 0.5,
    "gradient_rate": 1e-3,
}
BLOCKS = {"short_size": 3, "coupling": False, "coupling_init": zeros_}

# a layer, one of its sets, and a value that is no default for each option of it
OFFERED = {
    "ScoRNN": (ScoRNN, ScaledCayley, {"negative": 1, "start": "zero"}),
    "ScuRNN": (ScuRNN, ScaledCayley, {"start": "zero"}),
    "ExpRNN": (ExpRNN, Exponential, {"start": "haar"}),
    "DtrivRNN": (DtrivRNN, Exponential, {"start": "haar", "period": 7}),
    "ORNN": (ORNN, Householder, {"reflections": 3, "projected": False}),
    "URNN": (URNN, FourierProduct, {"permutation_seed": 5}),
    "FullCapacityURNN": (FullCapacityURNN, MovingCayley, {"start": "haar"}),
    "EURNN": (EURNN, Givens, {"layers": 3, "style": "fft", "dtype": torch.float32}),
    "GORU": (GORU, Givens, {"layers": 3, "style": "fft"}),
    "SpectralRNN": (SpectralRNN, BoundedSVD, {"reflections": 3, "margin": 0.2}),
    "NnRNN": (NnRNN, Schur, SCHUR),
    "ENRNN": (ENRNN, BlockTriangular, BLOCKS),
    "ENRNN-long": (ENRNN, ScaledCayley, {"negative": 1, "start": "zero"}),
    "ENRNN-short": (ENRNN, SpectralRadius, {"epsilon": 0.1}),
    "NCGRU": (NCGRU, NeumannCayley, NEUMANN),
}

# the options of the set that are the layer's own choice
CHOSEN = {
    "ScoRNN": {"dtype"},
    "ScuRNN": {"dtype", "negative"},  # D is trained
    "ExpRNN": {"period"},  # with one it is DtrivRNN
    "FullCapacityURNN": {"dtype"},
    "GORU": {"dtype"},
    "NnRNN": {"dtype"},
    "ENRNN": {"long", "short"},
    "ENRNN-long": {"dtype"},
}

IN_THE_LAYER = {"layers": "capacity"}


@pytest.mark.parametrize("name", OFFERED)
def test_every_option_of_the_set_is_offered_or_chosen(name):
    _, kind, options = OFFERED[name]
    assert options.keys() | CHOSEN.get(name, set()) == inspect.signature(
        kind
    ).parameters.keys() - {"size"}


# with what else the options of a set make sense
BESIDE = {
    "ScuRNN": {"dtype": torch.complex64},
    "FullCapacityURNN": {"dtype": torch.complex64, "start": "urnn"},
    "EURNN": {"dtype": torch.complex64},
}


def settings_of(constraint):
    """The plain attributes and the kinds of a set and of its parts, by their paths."""
    plain = (bool, int, float, str, NoneType, type(zeros_))
    kinds = {(path, type): type(part) for path, part in constraint.named_modules()}
    values = {
        (path, name): value
        for path, part in constraint.named_modules()
        for name, value in vars(part).items()
        if type(value) in plain
    }
    return kinds | values


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name in OFFERED for option in OFFERED[name][2]]
)
def test_an_option_reaches_the_set(name, option):
    make, kind, options = OFFERED[name]
    beside, given = BESIDE.get(name, {}), {option: options[option]}
    layer = make(3, 8, **{IN_THE_LAYER.get(option, option): options[option]})
    reached = next(part for part in layer.modules() if isinstance(part, kind))
    without = settings_of(kind(reached.size, **beside))
    wanted = settings_of(kind(reached.size, **(beside | given)))
    changed = {key: value for key, value in wanted.items() if without.get(key, ...) != value}
    assert changed
    assert {key: settings_of(reached)[key] for key in changed} == changed
