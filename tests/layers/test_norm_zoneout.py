"""LayerNorm, zoneout and locked dropout as options of the layers."""

import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from cases import NAMED, OURS
from crossing import few
from draws import normal, stream
from eigenrnn import GRU, NCGRU, RNN, DeltaNet, ScoRNN, ScuRNN
from eigenrnn.constraints import FourierProduct, Unconstrained
from eigenrnn.layers import EURNN, LRU, LSTM, URNN, FullCapacityURNN, LeakyRNN, MinGRU
from eigenrnn.linalg import tol

T, B, M, N = 6, 3, 4, 8
BOTH = {"layer_norm": True, "zoneout": 0.3}

# these have neither option
WITHOUT = LRU | LSTM | MinGRU | DeltaNet | LeakyRNN
ALL = {n: make for n, make in (OURS | NAMED).items() if not isinstance(make(2, 8), WITHOUT)}
COMPLEX = {"EURNN": EURNN, "FullCapacityURNN": FullCapacityURNN, "ScuRNN": ScuRNN, "URNN": URNN}
REAL = {name: make for name, make in ALL.items() if name not in COMPLEX}
TANH_RNN = partial(RNN, nonlinearity="tanh", constraint=Unconstrained)

each_real = pytest.mark.parametrize("make", REAL.values(), ids=REAL.keys())
each_complex = pytest.mark.parametrize("make", COMPLEX.values(), ids=COMPLEX.keys())
each_recurrence = pytest.mark.parametrize("make", [TANH_RNN, ScoRNN, GRU, NCGRU])


def near(dtype=torch.float64, n=T * N):
    return {"rtol": 0, "atol": 10 * tol(dtype, n)}


def run_seeded(run, *arguments, seed=5, **options):
    """Run with masks drawn from a seed."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return run(*arguments, **options)


def make_layer(make, *sizes, **options):
    """A layer in double precision with random gains and shifts."""
    layer = make(*(sizes or (M, N)), generator=stream(), dtype=torch.float64, **options)
    for k, direction in enumerate(layer.all_directions()):
        if options.get("layer_norm"):
            parameters = direction.norm_zoneout
            parameters.gain.data.copy_(1 + normal(*parameters.gain.shape, seed=k) / 3)
            parameters.shift.data.copy_(normal(*parameters.shift.shape, seed=k + 9))
    return layer


def norms_of(direction):
    parameters = direction.norm_zoneout
    pairs = zip(parameters.gain.split(N), parameters.shift.split(N), strict=True)
    return [partial(F.layer_norm, normalized_shape=(N,), weight=g, bias=s) for g, s in pairs]


def test_layer_norm_normalises_the_argument_of_the_nonlinearity():
    layer = make_layer(TANH_RNN, **BOTH).eval()
    direction, x = layer.all_directions()[0], normal(T, B, M)
    (norm,) = norms_of(direction)
    U, W, b = direction.weight_ih, direction.weight_hh, direction.input_bias
    h = x.new_zeros(B, N)
    for x_t in x:
        h = 0.3 * h + 0.7 * torch.tanh(norm(F.linear(x_t, U, b) + F.linear(h, W)))
    torch.testing.assert_close(layer(x)[1][0], h, **near())


@each_real
def test_layer_norm_is_initialised_as_in_torch(make):
    layer = make(M, N, layer_norm=True)
    for direction in layer.all_directions():
        assert (direction.norm_zoneout.gain == 1).all()
        assert (direction.norm_zoneout.shift == 0).all()
        assert direction.norm_zoneout.gain.shape == (len(direction.weight_ih),)


def kept_units(layer, x):
    """Mark the entries of the states that equal those of the previous time step."""
    h = run_seeded(layer, x)[0]
    return h[1:] == h[:-1]


@each_recurrence
def test_in_training_units_keep_their_state_with_the_zoneout_probability(make):
    rate, steps = 0.2, 101
    layer = make(M, 32, zoneout=rate, generator=stream(), dtype=torch.float64)
    if make in (ScoRNN, NCGRU):  # else modReLU sets units to zero, and they keep that zero
        layer.all_directions()[0].bias.data.fill_(0.1)
    kept = kept_units(layer, normal(steps, 16, M))
    draws = kept.numel()
    # six standard deviations of a mean of independent draws
    for dims in ((), 0, 1, 2):
        fraction = kept.double().mean(dims)
        error = math.sqrt(rate * (1 - rate) * fraction.numel() / draws)
        assert ((fraction - rate).abs() < 6 * error).all()


def test_masks_of_different_steps_sequences_and_units_are_independent():
    rate = 0.4
    mask = kept_units(
        TANH_RNN(M, 32, zoneout=rate, generator=stream()), normal(101, 16, M).float()
    )
    for one, other in (
        (mask[1:], mask[:-1]),
        (mask[:, 1:], mask[:, :-1]),
        (mask[..., 1:], mask[..., :-1]),
    ):
        both = (one & other).double().mean()
        assert abs(both - rate**2) < 6 * rate / math.sqrt(one.numel())


@pytest.mark.usefixtures("global_streams_untouched")
@each_recurrence
def test_in_evaluation_nothing_is_drawn(make):
    layer = make(M, N, **BOTH, generator=stream(), dtype=torch.float64).eval()
    x = normal(T, B, M)
    assert torch.equal(layer(x)[0], layer(x)[0])


def test_every_layer_and_direction_has_its_own_masks():
    layer = RNN(M, N, 2, bidirectional=True, zoneout=0.5)
    x = torch.zeros(T, B, M)
    masks = [direction.norm_zoneout_kwargs(x)["zoneout"] for direction in layer.all_directions()]
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 4


def input_of_top_layer(layer, x):
    """The input of the top layer."""
    seen = []
    hook = layer.all_directions()[-1].register_forward_pre_hook(lambda _, a: seen.append(a[0]))
    run_seeded(layer, x)
    hook.remove()
    return seen[0]


def two_layers(**options):
    return RNN(M, N, 2, dropout=0.5, nonlinearity="tanh", generator=stream(), **options)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_locked_mask_is_the_same_at_all_time_steps(bidirectional):
    layer = two_layers(locked_dropout=True, bidirectional=bidirectional)
    dropped = input_of_top_layer(layer, torch.ones(40, B, M)) == 0
    assert (dropped == dropped[0]).all()
    assert not (dropped[0, 0] == dropped[0, 1]).all()
    assert dropped[0].shape == (B, (1 + bidirectional) * N)


def test_locked_dropout_drops_units_with_the_dropout_probability():
    layer = RNN(M, 64, 2, dropout=0.3, locked_dropout=True, nonlinearity="tanh")
    dropped = input_of_top_layer(layer, torch.ones(2, 400, M))[0] == 0
    error = math.sqrt(0.3 * 0.7 / dropped.numel())
    assert abs(dropped.double().mean() - 0.3) < 6 * error


@each_real
def test_every_layer_accepts_the_options_and_all_parameters_get_gradients(make):
    layer = make(M, N, 2, dropout=0.2, locked_dropout=True, generator=stream(), **BOTH)
    assert (layer.layer_norm, layer.zoneout, layer.locked_dropout) == (True, 0.3, True)
    layer(normal(T, B, M, dtype=torch.float32))[0].square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@each_complex
def test_every_complex_layer_accepts_zoneout_and_locked_dropout(make):
    layer = make(M, N, 2, zoneout=0.3, dropout=0.2, locked_dropout=True)
    layer(normal(T, B, M, dtype=torch.float32))[0].square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


def test_zoneout_keeps_both_parts_of_a_complex_unit():
    layer = RNN(M, N, constraint=FourierProduct, zoneout=0.5, generator=stream())
    layer.all_directions()[0].bias.data.fill_(0.1)
    kept = kept_units(layer, normal(T, B, M).float())
    real, imaginary = kept.chunk(2, dim=2)
    assert torch.equal(real, imaginary)
    assert real.any()
    assert not real.all()


@pytest.mark.parametrize("frozen", [False, True], ids=["plain", "frozen"])
@each_recurrence
def test_single_steps_equal_the_whole_sequence_in_evaluation(make, frozen):
    layer = make_layer(make, num_layers=2, trainable_h0=True, **BOTH).eval()
    x = normal(T, B, M)
    output, h_n = layer(x)
    layer = layer.freeze() if frozen else layer
    h, outputs = None, []
    for x_t in x:
        y, h = layer.step(x_t, h)
        outputs.append(y)
    torch.testing.assert_close(torch.stack(outputs), output, **near())
    torch.testing.assert_close(h, h_n, **near())


# torch's compiler triggers these warnings itself
@pytest.mark.filterwarnings(
    "ignore:.torch.jit.script",
    "ignore:.*autograd.function.Function.* should not be instantiated",
    "ignore:.torch._prims_common.check",
)
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@few("make", {"tanh": TANH_RNN, "ScoRNN": ScoRNN, "GRU": GRU, "NCGRU": NCGRU}, ["ScoRNN", "GRU"])
def test_a_compiled_layer_agrees_without_graph_breaks(make, training):
    torch.compiler.reset()
    layer = make_layer(make, num_layers=2, **BOTH, dropout=0.2, locked_dropout=True).train(
        training
    )
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    x, weights = normal(T, B, M), normal(T, B, N, seed=2)

    def results(run):
        output, h_n = run_seeded(run, x)
        loss = (weights * output).sum() + h_n.sum()
        return output, h_n, *torch.autograd.grad(loss, [*layer.parameters()])

    for got, expected in zip(results(compiled), results(layer), strict=True):
        scale = max(1.0, float(expected.detach().abs().max()))
        torch.testing.assert_close(got, expected, rtol=0, atol=scale * near()["atol"])


@each_real
def test_the_options_only_add_gain_and_shift_to_the_state_dict(make):
    plain, extended = (make(M, N, generator=stream()), make(M, N, generator=stream(), **BOTH))
    assert not any("norm_zoneout" in name for name in plain.state_dict())
    added = extended.state_dict().keys() - plain.state_dict().keys()
    assert added == {f"directions.0.norm_zoneout.{name}" for name in ("gain", "shift")}
    assert all(
        torch.equal(value, extended.state_dict()[name])
        for name, value in plain.state_dict().items()
    )


def test_the_repr_lists_options_that_are_not_default():
    layer = RNN(2, 5, 2, dropout=0.5, constraint=Unconstrained, locked_dropout=True, **BOTH)
    assert "locked_dropout=True, layer_norm=True, zoneout=0.3" in repr(layer)
    assert "(norm_zoneout): NormZoneout(layer_norm=True, zoneout=0.3)" in repr(layer)
    assert "zoneout" not in repr(RNN(2, 5))


def test_explain_names_the_backend_that_supports_the_options():
    x = torch.zeros(T, B, M)
    assert RNN(M, N, **BOTH).explain(x)["cpu"] == "chosen"
    for training, options in ((False, {"zoneout": 0.1}), (True, BOTH)):
        explanation = GRU(M, N, **options).train(training).explain(x)
        assert "zoneout" in explanation["loop"]
        assert explanation["cpu"] == "chosen"
    drawn, plain = GRU(M, N, zoneout=0.1).explain(x), GRU(M, N).explain(x)
    assert drawn == plain


INVALID_ZONEOUT = {
    "one": ({"zoneout": 1.0}, r".*zoneout.*, got 1.0"),
    "nan": ({"zoneout": math.nan}, r".*zoneout.*, got nan"),
}


@pytest.mark.parametrize("make", [RNN, GRU])
@pytest.mark.parametrize(
    ("options", "message"), INVALID_ZONEOUT.values(), ids=INVALID_ZONEOUT.keys()
)
def test_an_invalid_zoneout_probability_raises(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(M, N, **options)


@each_complex
def test_layer_norm_of_complex_states_raises_and_suggests_alternatives(make):
    message = "expected layer_norm=False, .* complex states; choose a set of real matrices"
    with pytest.raises(ValueError, match=message):
        make(M, N, layer_norm=True)


@pytest.mark.parametrize("make", [RNN, GRU])
def test_layer_norm_of_one_unit_raises(make):
    with pytest.raises(ValueError, match="hidden_size > 1"):
        make(M, 1, layer_norm=True)


@pytest.mark.parametrize("options", [{"layer_norm": True}, {"zoneout": 0.1}], ids=str)
@pytest.mark.parametrize(("make", "kind"), [(TANH_RNN, nn.RNN), (GRU, nn.GRU)])
def test_load_torch_raises_with_layer_norm_or_zoneout(make, kind, options):
    with pytest.raises(ValueError, match="expected"):
        make(M, N, **options).load_torch(kind(M, N))
