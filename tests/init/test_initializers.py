"""Initialisers: each fills in place, uses its generator alone and has its published spread."""

import math
from functools import partial

import pytest
import torch

from draws import stream
from eigenrnn import init
from eigenrnn.constraints import Unconstrained
from eigenrnn.init import (
    chain_,
    constant_,
    fan_normal_,
    fan_uniform_,
    feedback_chain_,
    glorot_normal_,
    glorot_uniform_,
    haar_,
    identity_,
    kaiming_normal_,
    kaiming_uniform_,
    orthogonal_,
    ramp_,
    recurrent_,
    source_,
    uniform_,
    weights_,
    zeros_,
)
from eigenrnn.layers import GRU, LSTM, RNN
from eigenrnn.linalg import orthogonality_error, tol

RANDOM = {
    "uniform": uniform_,
    "uniform-wide": partial(uniform_, bound=2.0),
    "fan-uniform": fan_uniform_,
    "glorot-uniform": glorot_uniform_,
    "glorot-normal": glorot_normal_,
    "kaiming-normal": kaiming_normal_,
    "kaiming-uniform": kaiming_uniform_,
    "haar": haar_,
    "fan-normal": fan_normal_,
    "orthogonal": orthogonal_,
}
ALL = RANDOM | {
    "zeros": zeros_,
    "constant": partial(constant_, value=0.5),
    "identity": identity_,
    "chain": chain_,
    "feedback-chain": feedback_chain_,
    "ramp": ramp_,
    "source": source_,
}

each_random = pytest.mark.parametrize("fill", RANDOM.values(), ids=RANDOM.keys())
each_of_all = pytest.mark.parametrize("fill", ALL.values(), ids=ALL.keys())


def draw(fill, *shape, seed=0, dtype=torch.float32):
    return fill(torch.empty(shape, dtype=dtype), generator=stream(seed))


def test_every_initialiser_has_a_case():
    covered = {getattr(fill, "func", fill).__name__ for fill in ALL.values()}
    assert covered == {name for name in init.__all__ if name.endswith("_")} - {
        "recurrent_",
        "weights_",
    }


@each_of_all
def test_it_fills_in_place_and_returns_the_weight(fill):
    weight = torch.full((4, 4), torch.nan)
    assert fill(weight) is weight
    assert weight.isfinite().all()


@pytest.mark.usefixtures("global_streams_untouched")
@each_of_all
def test_it_is_a_function_of_the_generator(fill):
    assert torch.equal(draw(fill, 4, 4), draw(fill, 4, 4))


@each_random
def test_without_a_generator_it_draws_from_the_global_stream(fill):
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        weight = fill(torch.empty(4, 4))
    assert torch.equal(weight, draw(fill, 4, 4))


@each_random
def test_it_fills_double_precision(fill):
    assert draw(fill, 4, 4, dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize(
    ("fill", "shape", "bound"),
    [
        (uniform_, (90, 40), 0.01),
        (partial(uniform_, bound=2.0), (90, 40), 2.0),
        (fan_uniform_, (400, 20), 1 / 20),
        (fan_uniform_, (4000,), 1 / math.sqrt(4000)),
        (glorot_uniform_, (90, 60), 0.2),
        (glorot_uniform_, (3000,), math.sqrt(6 / 6000)),
    ],
    ids=["uniform", "wide", "fan", "fan of a vector", "glorot", "glorot of a vector"],
)
def test_a_uniform_initialiser_fills_its_interval(fill, shape, bound):
    weight = draw(fill, *shape)
    assert -bound <= weight.min() < -0.99 * bound
    assert 0.99 * bound < weight.max() <= bound


def test_zeros_are_zeros():
    assert not draw(zeros_, 3, 4).any()


@pytest.mark.parametrize(
    ("fill", "spread"),
    [
        (kaiming_normal_, math.sqrt(2 / 50)),
        (glorot_normal_, math.sqrt(2 / 550)),
        (fan_normal_, 0.9 / math.sqrt(500)),
    ],
    ids=["kaiming", "glorot", "fan"],
)
def test_a_normal_initialiser_has_its_published_standard_deviation(fill, spread):
    weight = draw(fill, 500, 50)
    # the standard error of a standard deviation is that deviation over the root of 2 n
    assert abs(weight.std().item() - spread) < 4 * spread / math.sqrt(2 * weight.numel())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_a_haar_draw_is_orthogonal_to_rounding(n, dtype):
    assert orthogonality_error(draw(haar_, n, n, dtype=dtype)) <= tol(dtype, n)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_a_haar_draw_is_a_rotation(n):
    determinants = [
        torch.linalg.det(draw(haar_, n, n, seed=seed, dtype=torch.float64)).item()
        for seed in range(20)
    ]
    assert all(abs(determinant - 1) <= tol(torch.float64, n) for determinant in determinants)


def test_a_haar_draw_is_the_same_in_both_precisions():
    single, double = (draw(haar_, 5, 5, dtype=d) for d in (torch.float32, torch.float64))
    assert torch.equal(single, double.float())


def test_haar_draws_are_spread_uniformly():
    generator = stream()
    draws = torch.stack([haar_(torch.empty(4, 4), generator=generator) for _ in range(500)])
    standard_error = 1 / math.sqrt(500)
    # on SO(4) an entry has mean 0 and variance 1 / 4, and the trace has mean 0 and variance 1
    assert draws.mean(0).abs().max() < 4 * standard_error / 2
    assert (draws.square().mean(0) - 1 / 4).abs().max() < 4 * standard_error / 2
    traces = draws.diagonal(dim1=1, dim2=2).sum(1)
    assert abs(traces.mean().item()) < 4 * standard_error
    assert abs(traces.square().mean().item() - 1) < 4 * standard_error * math.sqrt(2)


@pytest.mark.parametrize("fill", [kaiming_normal_, kaiming_uniform_, orthogonal_, source_])
def test_a_vector_is_refused_by_initialisers_of_matrices(fill):
    with pytest.raises(ValueError, match=r"expected a matrix, got shape \(4,\)"):
        fill(torch.empty(4))


def test_what_is_no_initialiser_is_named():
    with pytest.raises(ValueError, match="expected an initialiser or a tuple of them, got 3"):
        weights_(GRU(3, 4), gate_bias=3)


PLAIN = partial(RNN, nonlinearity="tanh", constraint=Unconstrained)


@pytest.mark.parametrize("kind", [GRU, LSTM, PLAIN])
def test_a_frozen_layer_computes_with_what_is_drawn(kind):
    layer = kind(3, 6).freeze()
    x = torch.randn(5, 2, 3)
    layer(x)
    recurrent_(layer, "ortho", generator=torch.Generator().manual_seed(0))
    before = layer(x)[0]
    assert torch.equal(layer.train().eval()(x)[0], before)
