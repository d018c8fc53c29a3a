"""The named layers of papers: outputs and options."""

import inspect
from types import NoneType
from typing import get_type_hints

import pytest
import torch

import eigenrnn.layers
from cases import NAMED
from eigenrnn.constraints import (
    BlockTriangular,
    BoundedSVD,
    Exponential,
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
    GRU,
    NCGRU,
    ORNN,
    RNN,
    DeltaNet,
    DtrivRNN,
    ExpRNN,
    FullCapacityURNN,
    NnRNN,
    ScoRNN,
    ScuRNN,
    SpectralRNN,
)
from eigenrnn.layers.options import DeltaNetOptions, GRUOptions, LayerOptions, RNNOptions
from eigenrnn.layers.stacked import Stacked
from eigenrnn.linalg import tol


@pytest.fixture(params=NAMED, ids=list(NAMED))
def layer(request):
    return NAMED[request.param](3, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def x():
    return torch.randn(5, 4, 3, generator=torch.Generator().manual_seed(1))


def test_outputs_are_real_and_have_the_stated_width(layer, x):
    output, _ = layer(x)
    assert (output.shape, output.dtype) == ((5, 4, layer.output_size), torch.float32)


def test_the_last_state_is_accepted_as_h0(layer, x):
    whole, _ = layer(x)
    _, middle = layer(x[:2])
    assert torch.allclose(layer(x[2:], middle)[0], whole[2:], atol=tol(torch.float32, 8))


def test_every_parameter_gets_a_gradient(layer, x):
    output, _ = layer(x)
    output.square().sum().backward()
    missing = [name for name, p in layer.named_parameters() if p.grad is None]
    assert missing == []


def test_eurnn_outputs_only_the_real_parts():
    assert EURNN(3, 8)(torch.ones(2, 1, 3))[0].shape == (2, 1, 8)


def test_a_real_eurnn_has_real_states():
    assert EURNN(3, 8, dtype=torch.float32)(torch.ones(2, 1, 3))[1].shape == (1, 1, 8)


@pytest.mark.parametrize(("dtype", "width"), [(torch.float64, 8), (torch.complex128, 16)], ids=str)
def test_a_double_precision_eurnn_is_double_precision_throughout(dtype, width):
    layer = EURNN(3, 8, dtype=dtype, output="real_imag")
    output, _ = layer(torch.ones(2, 1, 3, dtype=torch.float64))
    assert (output.dtype, output.shape[-1]) == (torch.float64, width)
    assert layer.orthogonality_error() <= tol(torch.float64, 8)


SCHUR = {
    "gamma_penalty": 0.5,
    "gamma": "clamped",
    "gamma_value": 0.958,
    "orthogonal": ScaledCayley,
}
NEUMANN = {
    "negative": 1,
    "init": "zero",
    "order": 3,
    "reset_every": 7,
    "max_error": 0.5,
    "gradient_rate": 1e-3,
}
BLOCKS = {"short_size": 3, "coupling": False, "coupling_init": zeros_}

# a layer, one of its constraints, and a value that differs from the default for each option
LAYER_OPTIONS = {
    "ScoRNN": (ScoRNN, ScaledCayley, {"negative": 1, "init": "zero"}),
    "ScuRNN": (ScuRNN, ScaledCayley, {"init": "zero"}),
    "ExpRNN": (ExpRNN, Exponential, {"init": "haar"}),
    "DtrivRNN": (DtrivRNN, Exponential, {"init": "haar", "period": 7}),
    "ORNN": (ORNN, Householder, {"reflections": 3}),
    "FullCapacityURNN": (FullCapacityURNN, MovingCayley, {"init": "haar"}),
    "EURNN": (EURNN, Givens, {"layers": 3, "style": "fft", "dtype": torch.float32}),
    "GORU": (GORU, Givens, {"layers": 3, "style": "fft"}),
    "SpectralRNN": (SpectralRNN, BoundedSVD, {"reflections": 3, "margin": 0.2}),
    "NnRNN": (NnRNN, Schur, SCHUR),
    "ENRNN": (ENRNN, BlockTriangular, BLOCKS),
    "ENRNN-long": (ENRNN, ScaledCayley, {"negative": 1, "init": "zero"}),
    "ENRNN-short": (ENRNN, SpectralRadius, {"epsilon": 0.1}),
    "NCGRU": (NCGRU, NeumannCayley, NEUMANN),
}

# the options of the constraint that the layer fixes
FIXED_OPTIONS = {
    "ScoRNN": {"dtype"},
    "ScuRNN": {"dtype", "negative"},  # D is trained
    "ExpRNN": {"period"},  # with a period it is DtrivRNN
    "FullCapacityURNN": {"dtype"},
    "GORU": {"dtype"},
    "ENRNN": {"long", "short"},
    "ENRNN-long": {"dtype"},
}

LAYER_NAMES = {"layers": "capacity", "init": "matrix_init"}


@pytest.mark.parametrize("name", LAYER_OPTIONS)
def test_every_option_of_the_constraint_is_an_option_of_the_layer_or_fixed(name):
    _, kind, options = LAYER_OPTIONS[name]
    assert options.keys() | FIXED_OPTIONS.get(name, set()) == inspect.signature(
        kind
    ).parameters.keys() - {"size"}


# other options of the constraint that the layer sets
REQUIRED_OPTIONS = {
    "ScuRNN": {"dtype": torch.complex64},
    "FullCapacityURNN": {"dtype": torch.complex64, "init": "urnn"},
    "EURNN": {"dtype": torch.complex64},
}


def attributes_of(constraint):
    """The plain attributes and the types of a constraint and its submodules, by path."""
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
    ("name", "option"),
    [(name, option) for name in LAYER_OPTIONS for option in LAYER_OPTIONS[name][2]],
)
def test_an_option_reaches_the_constraint(name, option):
    make, kind, options = LAYER_OPTIONS[name]
    required, changed_option = REQUIRED_OPTIONS.get(name, {}), {option: options[option]}
    layer = make(3, 8, **{LAYER_NAMES.get(option, option): options[option]})
    constraint = next(part for part in layer.modules() if isinstance(part, kind))
    default = attributes_of(kind(constraint.size, **required))
    expected = attributes_of(kind(constraint.size, **(required | changed_option)))
    changed = {key: value for key, value in expected.items() if default.get(key, ...) != value}
    assert changed
    assert {key: attributes_of(constraint)[key] for key in changed} == changed


@pytest.mark.parametrize(
    ("options", "layer"),
    [(LayerOptions, Stacked), (RNNOptions, RNN), (GRUOptions, GRU), (DeltaNetOptions, DeltaNet)],
)
def test_the_typed_options_are_those_of_the_layer_that_takes_them(options, layer):
    taken = get_type_hints(Stacked.__init__) | get_type_hints(layer.__init__)
    stated = get_type_hints(options)
    assert stated.items() <= taken.items()


CLASSES = [getattr(eigenrnn.layers, name) for name in eigenrnn.layers.__all__]
LAYER_CLASSES = [each for each in CLASSES if isinstance(each, type) and issubclass(each, Stacked)]


@pytest.mark.parametrize("kind", LAYER_CLASSES)
def test_the_signature_names_every_option_with_the_default_of_the_layer(kind):
    parameters = inspect.signature(kind).parameters
    layer = kind(4, 8)
    plain = (bool, int, float, str)
    defaults = {name: each.default for name, each in parameters.items()}
    stated = {name: value for name, value in defaults.items() if type(value) in plain}
    taken = {name: getattr(layer, name, stated[name]) for name in stated}
    taken["trainable_h0"] = any(name.endswith("h0") for name, _ in layer.named_parameters())
    assert stated == taken
    assert parameters.keys() >= {"batch_first", "device", "generator"}
    assert "options" not in parameters


def test_a_subclass_and_an_instance_have_signatures_of_their_own():
    class OfOne(ORNN):
        def __init__(self, hidden_size, **options):
            super().__init__(1, hidden_size, **options)

    assert list(inspect.signature(OfOne).parameters) == ["hidden_size", "options"]
    assert inspect.signature(ORNN(2, 8)) == inspect.signature(torch.nn.RNN(2, 8))
