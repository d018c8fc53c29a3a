"""Weight averaging: torch's AveragedModel, and ours for models with a moving base."""

import io
from functools import partial

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel as TorchAverage
from torch.optim.swa_utils import get_ema_multi_avg_fn

import eigenrnn
from cases import NAMED, OURS
from draws import stream
from eigenrnn import DtrivRNN
from eigenrnn.constraints import Exponential, MovingCayley, Schur
from eigenrnn.layers import RNN
from eigenrnn.layers.stacked import Stacked
from eigenrnn.linalg import orthogonality_error, tol

T, B, M, N = 5, 2, 3, 8
LAYERS = OURS | NAMED
MOVING = {
    "DtrivRNN": partial(DtrivRNN, period=2),
    "FullCapacityURNN": NAMED["FullCapacityURNN"],
    "NnRNN-dtriv": partial(
        RNN, constraint=partial(Schur, orthogonal=partial(Exponential, period=2))
    ),
    "RNN-moving": partial(RNN, constraint=MovingCayley),
}
WITHOUT_MOVING_BASE = {name: make for name, make in LAYERS.items() if name not in MOVING}

each_layer = pytest.mark.parametrize("make", WITHOUT_MOVING_BASE.values(), ids=WITHOUT_MOVING_BASE)
each_moving = pytest.mark.parametrize("make", MOVING.values(), ids=MOVING)
with_or_without_buffers = pytest.mark.parametrize("use_buffers", [False, True])
each_kind = pytest.mark.parametrize(
    "options", [{}, {"multi_avg_fn": get_ema_multi_avg_fn(0.9)}], ids=["mean", "ema"]
)


def normal(*shape, seed=1):
    return torch.randn(shape, generator=stream(seed))


def train(layer, averaged, steps=7, lr=0.05):
    optimiser = torch.optim.Adam(layer.parameters(), lr=lr)
    for k in range(steps):
        optimiser.zero_grad()
        layer(normal(T, B, M, seed=k))[0].square().sum().backward()
        optimiser.step()
        averaged.update_parameters(layer)
    return averaged.module


def rebuilt(average, layer, make):
    """A new layer with the parameters of an average and the buffers of a layer."""
    fresh = make(M, N, generator=stream(5))
    own = dict(average.named_parameters())
    state = {
        name: own[name].detach() if name in own else value
        for name, value in layer.state_dict().items()
    }
    fresh.load_state_dict(state)
    return fresh


@each_kind
@with_or_without_buffers
@pytest.mark.parametrize(
    ("make", "orthogonal"),
    [
        (LAYERS["EURNN"], True),
        (partial(LAYERS["EURNN"], capacity=4), True),
        (LAYERS["GORU"], True),
        (LAYERS["URNN"], True),
        (LAYERS["NCGRU"], True),
        (LAYERS["ScoRNN"], True),
        (LAYERS["NnRNN"], False),
        (LAYERS["ENRNN"], False),
    ],
)
def test_torchs_average_has_the_matrix_of_the_averaged_parameters(
    make, orthogonal, use_buffers, options
):
    layer = make(M, N, generator=stream())
    average = train(layer, TorchAverage(layer, use_buffers=use_buffers, **options))
    got = average.recurrent_matrices()
    expected = rebuilt(average, layer, make).recurrent_matrices()
    for W, expected_W in zip(got, expected, strict=True):
        torch.testing.assert_close(W, expected_W, rtol=0, atol=tol(torch.float32, N))
    assert not orthogonal or (average.orthogonality_error() <= tol(torch.float32, N)).all()
    assert not torch.equal(got[-1], layer.recurrent_matrices()[-1])


def matrices_with_moving_base(layer):
    parts = [part for part in layer.modules() if isinstance(part, Exponential | MovingCayley)]
    return [part().detach() for part in parts if part.has_moving_base]


@each_kind
@with_or_without_buffers
@each_moving
def test_our_average_of_a_moving_base_is_nearest_to_the_mean_of_its_matrices(
    make, use_buffers, options
):
    layer = make(M, N, generator=stream())
    averaged = eigenrnn.AveragedModel(layer, use_buffers=use_buffers, **options)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    weights, steps = [], 7
    for k in range(steps):
        optimiser.zero_grad()
        layer(normal(T, B, M, seed=k))[0].square().sum().backward()
        optimiser.step()
        averaged.update_parameters(layer)
        weights.append(matrices_with_moving_base(layer))
    decayed = [0.9**6, *(0.1 * 0.9**k for k in reversed(range(6)))]
    shares = decayed if options else [1 / steps] * steps
    for got, *drawn in zip(matrices_with_moving_base(averaged.module), *weights, strict=True):
        mean = sum(share * W for share, W in zip(shares, drawn, strict=True))
        left, _, right = torch.linalg.svd(mean)
        torch.testing.assert_close(got, left @ right, rtol=0, atol=tol(torch.float32, N))
        assert orthogonality_error(got) <= tol(torch.float32, N)
        assert float((got - drawn[-1]).abs().max()) > 100 * tol(torch.float32, N)


@each_moving
def test_autocast_does_not_round_the_average_of_a_moving_base(make):
    layer = make(M, N, generator=stream())
    averaged = eigenrnn.AveragedModel(layer)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    for k in range(3):
        optimiser.zero_grad()
        layer(normal(T, B, M, seed=k))[0].square().sum().backward()
        optimiser.step()
        with torch.autocast("cpu", torch.bfloat16):
            averaged.update_parameters(layer)
    for W in matrices_with_moving_base(averaged.module):
        assert orthogonality_error(W) <= tol(torch.float32, N)


@each_layer
def test_our_average_equals_torchs_without_a_moving_base(make):
    layer = make(M, N, generator=stream())
    ours, torchs = eigenrnn.AveragedModel(layer), TorchAverage(layer)
    train(layer, ours, steps=3)
    layer = make(M, N, generator=stream())
    train(layer, torchs, steps=3)
    got, expected = ours.module.recurrent_matrices(), torchs.module.recurrent_matrices()
    torch.testing.assert_close(got, expected, rtol=0, atol=tol(torch.float32, N))


def test_our_average_includes_the_buffers_of_other_modules():
    model = nn.Sequential(nn.BatchNorm1d(M), DtrivRNN(M, N, period=1))
    averaged = eigenrnn.AveragedModel(model, use_buffers=True)
    for mean in (1.0, 3.0):
        model[0].running_mean.fill_(mean)
        averaged.update_parameters(model)
    assert averaged.module[0].running_mean.tolist() == [2.0] * M


def test_our_average_can_be_saved_and_continued():
    layer = DtrivRNN(M, N, period=2, generator=stream())
    averaged = eigenrnn.AveragedModel(layer)
    train(layer, averaged)
    file = io.BytesIO()
    torch.save(averaged.state_dict(), file)
    file.seek(0)
    resumed = eigenrnn.AveragedModel(DtrivRNN(M, N, period=2))
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for each in (averaged, resumed):
        each.update_parameters(DtrivRNN(M, N, period=2, generator=stream(3)))
    x = normal(T, B, M)
    assert torch.equal(averaged(x)[0], resumed(x)[0])


def test_our_average_updates_frozen_matrices():
    layer = DtrivRNN(M, N, period=2, generator=stream())
    averaged = eigenrnn.AveragedModel(layer)
    averaged.update_parameters(layer)
    averaged.module.freeze()
    averaged.update_parameters(DtrivRNN(M, N, period=2, generator=stream(3)))
    (W,) = averaged.module.recurrent_matrices()
    assert not torch.equal(W, layer.recurrent_matrices()[0])


def test_a_mean_without_a_nearest_orthogonal_matrix_is_rejected():
    layer = RNN(M, 2, constraint=MovingCayley)
    averaged = eigenrnn.AveragedModel(layer)
    for sign in (1.0, -1.0):
        layer.all_directions()[0].constraint.assign(sign * torch.eye(2))
        if sign > 0:
            averaged.update_parameters(layer)
    with pytest.raises(ValueError, match="close enough"):
        averaged.update_parameters(layer)


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_no_buffer_holds_integers_that_an_average_would_change(make):
    layer = make(M, N)
    assert all(buffer.is_floating_point() for buffer in layer.buffers())
    assert isinstance(layer, Stacked)
