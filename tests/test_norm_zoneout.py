"""LayerNorm, zoneout and locked dropout as options of the layers."""

import copy
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from cases import NAMED, OURS
from eigenrnn import GRU, NCGRU, RNN, AsRNN, ScoRNN, ScuRNN
from eigenrnn.constraints import FourierProduct, Unconstrained
from eigenrnn.layers import EURNN, URNN, FullCapacityURNN
from eigenrnn.linalg import tol

T, B, M, N = 6, 3, 4, 8
LENGTHS = [4, 6, 1]
BOTH = {"layer_norm": True, "zoneout": 0.3}

ALL = OURS | NAMED
COMPLEX = {"EURNN": EURNN, "FullCapacityURNN": FullCapacityURNN, "ScuRNN": ScuRNN, "URNN": URNN}
REAL = {name: make for name, make in ALL.items() if name not in COMPLEX}
PLAIN_TANH = partial(RNN, nonlinearity="tanh", constraint=Unconstrained)

each_real = pytest.mark.parametrize("make", REAL.values(), ids=REAL.keys())
each_complex = pytest.mark.parametrize("make", COMPLEX.values(), ids=COMPLEX.keys())
each_recurrence = pytest.mark.parametrize("make", [PLAIN_TANH, ScoRNN, GRU, NCGRU, AsRNN])


def stream(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=1, dtype=torch.float64):
    return torch.randn(shape, generator=stream(seed), dtype=dtype)


def near(dtype=torch.float64, n=T * N):
    return {"rtol": 0, "atol": 10 * tol(dtype, n)}


def seeded(run, *arguments, seed=5, **options):
    """Run with masks that the seed decides."""
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return run(*arguments, **options)


def made(make, *sizes, **options):
    """A layer in double precision whose gains and shifts are not those of the start."""
    layer = make(*(sizes or (M, N)), generator=stream(), dtype=torch.float64, **options)
    for k, direction in enumerate(layer.all_directions()):
        if options.get("layer_norm"):
            extra = direction.norm_zoneout
            extra.gain.data.copy_(1 + normal(*extra.gain.shape, seed=k) / 3)
            extra.shift.data.copy_(normal(*extra.shift.shape, seed=k + 9))
    return layer


# ------------------------------------------------- second definitions with torch's own LayerNorm


def norms_of(direction):
    extra = direction.norm_zoneout
    pairs = zip(extra.gain.split(N), extra.shift.split(N), strict=True)
    return [partial(F.layer_norm, normalized_shape=(N,), weight=g, bias=s) for g, s in pairs]


def test_the_layer_normalises_what_the_nonlinearity_is_applied_to():
    layer = made(PLAIN_TANH, **BOTH).eval()
    direction, x = layer.all_directions()[0], normal(T, B, M)
    (norm,) = norms_of(direction)
    U, W, b = direction.weight_ih, direction.weight_hh, direction.input_bias
    h = x.new_zeros(B, N)
    for x_t in x:
        h = 0.3 * h + 0.7 * torch.tanh(norm(F.linear(x_t, U, b) + F.linear(h, W)))
    torch.testing.assert_close(layer(x)[1][0], h, **near())


@pytest.mark.parametrize("reset_after", [False, True], ids=["before", "after"])
def test_the_gated_layer_normalises_each_gate_after_the_reset(reset_after):
    layer = made(GRU, reset_after=reset_after, **BOTH).eval()
    direction, x = layer.all_directions()[0], normal(T, B, M)
    norm_r, norm_u, norm_c = norms_of(direction)
    W_r, W_u, W_c = direction.matrices()
    h = x.new_zeros(B, N)
    for x_t in x:
        x_r, x_u, x_c = F.linear(x_t, direction.weight_ih, direction._biases()).chunk(3, dim=1)
        r, u = torch.sigmoid(norm_r(x_r + h @ W_r.T)), torch.sigmoid(norm_u(x_u + h @ W_u.T))
        heard = r * (h @ W_c.T + direction.recurrent_bias) if reset_after else (r * h) @ W_c.T
        h = 0.3 * h + 0.7 * (u * h + (1 - u) * torch.tanh(norm_c(x_c + heard)))
    torch.testing.assert_close(layer(x)[1][0], h, **near())


def test_as_rnn_normalises_the_argument_of_tanh():
    layer = made(AsRNN, layer_norm=True)
    direction, x = layer.all_directions()[0], normal(T, B, M)
    (norm,) = norms_of(direction)
    W, U_f = (constraint() for constraint in direction.constraints())
    W_f = U_f * (direction.s.abs() + direction.epsilon)
    h = x.new_zeros(B, N)
    for x_t in x:
        z = x_t @ direction.weight_ih.T + direction.input_bias + h @ W.T
        h = torch.linalg.solve(W_f, torch.tanh(norm(z @ W_f.T)).T).T
    # the small entries of W_f enlarge rounding on the way back
    torch.testing.assert_close(layer(x)[1][0], h, rtol=0, atol=1e3 * tol(torch.float64, T * N))


@each_real
def test_the_norm_starts_as_that_of_torch(make):
    layer = make(M, N, layer_norm=True)
    for direction in layer.all_directions():
        assert (direction.norm_zoneout.gain == 1).all()
        assert (direction.norm_zoneout.shift == 0).all()
        assert direction.norm_zoneout.gain.shape == (len(direction.weight_ih),)


@pytest.mark.parametrize("scale", [0.1, 100.0])
def test_the_norm_makes_the_states_independent_of_the_scale_of_all_weights(scale):
    layer = PLAIN_TANH(M, N, layer_norm=True, generator=stream(), dtype=torch.float64)
    scaled = copy.deepcopy(layer)
    with torch.no_grad():
        direction = scaled.all_directions()[0]
        for weight in (direction.weight_ih, direction.constraint.raw, direction.input_bias):
            weight.mul_(scale)
    x = 100 * normal(T, B, M)  # beside which the epsilon of the norm is small
    torch.testing.assert_close(scaled(x)[0], layer(x)[0], rtol=0, atol=1e-4)


# -------------------------------------------------------------------------------- zoneout


def kept_by(layer, x):
    """Which units of which states are bit by bit those of the step before."""
    h = seeded(layer, x)[0]
    return h[1:] == h[:-1]


@each_recurrence
def test_while_training_the_share_of_units_that_keep_their_state_is_the_rate(make):
    rate, steps = 0.2, 101
    layer = make(M, 32, zoneout=rate, generator=stream(), dtype=torch.float64)
    if make is AsRNN:  # its units are those of tanh
        masks = seeded(layer.all_directions()[0].options, normal(steps, 16, M))["zoneout"]
        kept = masks[1:]
    else:
        if make in (ScoRNN, NCGRU):  # or a unit that its bias silences keeps its zero
            layer.all_directions()[0].bias.data.fill_(0.1)
        kept = kept_by(layer, normal(steps, 16, M))
    draws = kept.numel()
    # six standard deviations of a mean of independent draws
    for dims in ((), 0, 1, 2):
        share = kept.double().mean(dims)
        error = math.sqrt(rate * (1 - rate) * share.numel() / draws)
        assert ((share - rate).abs() < 6 * error).all()


def test_masks_of_two_steps_sequences_and_units_are_independent():
    rate = 0.4
    mask = kept_by(PLAIN_TANH(M, 32, zoneout=rate, generator=stream()), normal(101, 16, M).float())
    for one, other in (
        (mask[1:], mask[:-1]),
        (mask[:, 1:], mask[:, :-1]),
        (mask[..., 1:], mask[..., :-1]),
    ):
        both = (one & other).double().mean()
        assert abs(both - rate**2) < 6 * rate / math.sqrt(one.numel())


@each_recurrence
def test_masks_are_drawn_anew_for_each_call_and_from_the_global_stream(make):
    layer, x = make(M, N, zoneout=0.5, generator=stream(), dtype=torch.float64), normal(T, B, M)
    first, second = seeded(lambda: (layer(x)[0], layer(x)[0]))
    assert not torch.equal(first, second)
    assert torch.equal(seeded(layer, x)[0], first)


@pytest.mark.usefixtures("global_streams_untouched")
@each_recurrence
def test_in_evaluation_nothing_is_drawn(make):
    layer = make(M, N, **BOTH, generator=stream(), dtype=torch.float64).eval()
    x = normal(T, B, M)
    assert torch.equal(layer(x)[0], layer(x)[0])


def test_evaluation_is_the_mean_of_training_over_one_step():
    layer = made(PLAIN_TANH, **BOTH)
    x, h0 = normal(1, B, M), normal(1, B, N, seed=2)
    draws = 4000
    trained = seeded(layer, x.repeat(1, draws, 1), h0.repeat(1, draws, 1))[0]
    mean = trained.view(draws, B, N).mean(0)
    error = trained.view(draws, B, N).std(0) / math.sqrt(draws)
    assert ((mean - layer.eval()(x, h0)[0][0]).abs() < 6 * error).all()


def test_every_layer_and_direction_has_masks_of_its_own():
    layer = RNN(M, N, 2, bidirectional=True, zoneout=0.5)
    x = torch.zeros(T, B, M)
    masks = [direction.options(x)["zoneout"] for direction in layer.all_directions()]
    assert len({tuple(mask.flatten().tolist()) for mask in masks}) == 4


# -------------------------------------------------------------------------- locked dropout


def between(layer, x):
    """What the second layer is given."""
    seen = []
    hook = layer.all_directions()[-1].register_forward_pre_hook(lambda _, a: seen.append(a[0]))
    seeded(layer, x)
    hook.remove()
    return seen[0]


def deep(**options):
    return RNN(M, N, 2, dropout=0.5, nonlinearity="tanh", generator=stream(), **options)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_locked_mask_is_the_same_at_all_steps_of_a_sequence(bidirectional):
    layer = deep(locked_dropout=True, bidirectional=bidirectional)
    silent = between(layer, torch.ones(40, B, M)) == 0
    assert (silent == silent[0]).all()
    assert not (silent[0, 0] == silent[0, 1]).all()
    assert silent[0].shape == (B, (1 + bidirectional) * N)


def test_a_mask_that_is_not_locked_differs_between_steps():
    silent = between(deep(), torch.ones(40, B, M)) == 0
    assert not (silent == silent[0]).all()


def test_units_that_a_locked_mask_leaves_are_scaled_by_what_it_takes():
    layer, x = deep(locked_dropout=True), torch.ones(T, B, M)
    left = between(layer, x)
    expected = between(layer.eval(), x)
    torch.testing.assert_close(left, torch.where(left == 0, 0, 2 * expected))


def test_the_share_that_a_locked_mask_silences_is_that_of_dropout():
    layer = RNN(M, 64, 2, dropout=0.3, locked_dropout=True, nonlinearity="tanh")
    silent = between(layer, torch.ones(2, 400, M))[0] == 0
    error = math.sqrt(0.3 * 0.7 / silent.numel())
    assert abs(silent.double().mean() - 0.3) < 6 * error


@pytest.mark.usefixtures("global_streams_untouched")
def test_in_evaluation_no_unit_is_silenced():
    x = torch.ones(T, B, M)
    assert torch.equal(deep(locked_dropout=True).eval()(x)[0], deep().eval()(x)[0])


def test_a_dropout_of_one_silences_all():
    layer = RNN(M, N, 2, dropout=1.0, locked_dropout=True, nonlinearity="tanh")
    assert not between(layer, torch.ones(T, B, M)).any()


# ------------------------------------------------------- with everything else a layer does


@each_real
def test_every_layer_takes_the_options_and_gives_gradients_to_all(make):
    layer = make(M, N, 2, dropout=0.2, locked_dropout=True, generator=stream(), **BOTH)
    assert (layer.layer_norm, layer.zoneout, layer.locked_dropout) == (True, 0.3, True)
    layer(normal(T, B, M, dtype=torch.float32))[0].square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@each_complex
def test_every_complex_layer_takes_zoneout_and_locked_dropout(make):
    layer = make(M, N, 2, zoneout=0.3, dropout=0.2, locked_dropout=True)
    layer(normal(T, B, M, dtype=torch.float32))[0].square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


def test_a_complex_unit_keeps_both_of_its_parts():
    layer = RNN(M, N, constraint=FourierProduct, zoneout=0.5, generator=stream())
    layer.all_directions()[0].bias.data.fill_(0.1)
    kept = kept_by(layer, normal(T, B, M).float())
    real, imaginary = kept.chunk(2, dim=2)
    assert torch.equal(real, imaginary)
    assert real.any()
    assert not real.all()


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@each_recurrence
def test_the_reference_gives_what_the_chosen_backend_gives(make, training):
    layer = made(make, 2 * M, N, num_layers=2, bidirectional=True, **BOTH).train(training)
    other = copy.deepcopy(layer)
    other.backend = "reference"
    x = normal(T, B, 2 * M)
    results = []
    for each in (layer, other):
        output, h_n = seeded(each, x, lengths=LENGTHS)
        gradients = torch.autograd.grad(output.square().sum(), [*each.parameters()])
        results.append((output, h_n, *gradients))
    for got, expected in zip(*results, strict=True):
        scale = max(1.0, float(expected.detach().abs().max()))
        torch.testing.assert_close(got, expected, rtol=0, atol=scale * near()["atol"])


@each_recurrence
def test_lengths_equal_packing(make):
    layer = made(make, num_layers=2, bidirectional=True, **BOTH)
    x = normal(T, B, M)
    packed = pack_padded_sequence(x, LENGTHS, enforce_sorted=False)
    output, h_n = seeded(layer, packed)
    got = seeded(layer, x, lengths=torch.tensor(LENGTHS))
    assert torch.equal(pad_packed_sequence(output)[0], got[0])
    assert torch.equal(h_n, got[1])


@each_recurrence
def test_each_sequence_of_a_ragged_batch_is_computed_by_itself(make):
    layer = made(make, num_layers=2, bidirectional=True, **BOTH).eval()
    x = normal(T, B, M)
    output, h_n = layer(x, lengths=LENGTHS)
    for b, length in enumerate(LENGTHS):
        alone, last = layer(x[:length, b])
        torch.testing.assert_close(output[:length, b], alone, **near())
        torch.testing.assert_close(h_n[:, b], last, **near())
        assert not output[length:, b].any()


@pytest.mark.parametrize("frozen", [False, True], ids=["plain", "frozen"])
@each_recurrence
def test_a_stream_of_steps_equals_the_whole_sequence_in_evaluation(make, frozen):
    layer = made(make, num_layers=2, trainable_h0=True, **BOTH).eval()
    x = normal(T, B, M)
    output, h_n = layer(x)
    layer = layer.freeze() if frozen else layer
    h, outputs = None, []
    for x_t in x:
        y, h = layer.step(x_t, h)
        outputs.append(y)
    torch.testing.assert_close(torch.stack(outputs), output, **near())
    torch.testing.assert_close(h, h_n, **near())


# torch's own compiler does what torch advises against
@pytest.mark.filterwarnings(
    "ignore:.torch.jit.script",
    "ignore:.*autograd.function.Function.* should not be instantiated",
    "ignore:.torch._prims_common.check",
)
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize("make", [PLAIN_TANH, ScoRNN, GRU, NCGRU])
def test_a_compiled_layer_agrees_without_a_break_in_its_graph(make, training):
    torch.compiler.reset()
    layer = made(make, num_layers=2, **BOTH, dropout=0.2, locked_dropout=True).train(training)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    x, weights = normal(T, B, M), normal(T, B, N, seed=2)

    def results(run):
        output, h_n = seeded(run, x)
        loss = (weights * output).sum() + h_n.sum()
        return output, h_n, *torch.autograd.grad(loss, [*layer.parameters()])

    for got, expected in zip(results(compiled), results(layer), strict=True):
        scale = max(1.0, float(expected.detach().abs().max()))
        torch.testing.assert_close(got, expected, rtol=0, atol=scale * near()["atol"])


@pytest.mark.parametrize("make", [PLAIN_TANH, ScoRNN, GRU, NCGRU])
def test_under_autocast_states_stay_in_float32(make):
    layer = make(M, N, generator=stream(), **BOTH)
    with torch.autocast("cpu", torch.bfloat16):
        output, _ = layer(normal(T, B, M, dtype=torch.float32))
    assert output.dtype == torch.float32
    output.sum().backward()
    assert layer.all_directions()[0].norm_zoneout.gain.grad.dtype == torch.float32


@each_recurrence
def test_a_reloaded_layer_computes_the_same(make):
    layer, other = made(make, **BOTH), make(M, N, dtype=torch.float64, **BOTH)
    other.load_state_dict(layer.state_dict())
    x = normal(T, B, M)
    assert torch.equal(seeded(other, x)[0], seeded(layer, x)[0])


@each_recurrence
def test_a_reset_gives_the_norm_its_start_again(make):
    layer = made(make, layer_norm=True)
    layer.reset()
    assert (layer.all_directions()[0].norm_zoneout.gain == 1).all()
    assert not layer.all_directions()[0].norm_zoneout.shift.any()


@each_real
def test_without_the_options_a_layer_has_the_weights_that_it_had(make):
    plain, extended = make(M, N, generator=stream()), make(M, N, generator=stream(), **BOTH)
    assert not any("norm_zoneout" in name for name in plain.state_dict())
    added = extended.state_dict().keys() - plain.state_dict().keys()
    assert added == {f"directions.0.norm_zoneout.{name}" for name in ("gain", "shift")}
    assert all(
        torch.equal(value, extended.state_dict()[name])
        for name, value in plain.state_dict().items()
    )


def test_the_repr_says_what_is_not_plain():
    layer = RNN(2, 5, 2, dropout=0.5, constraint=Unconstrained, locked_dropout=True, **BOTH)
    assert "locked_dropout=True, layer_norm=True, zoneout=0.3" in repr(layer)
    assert "(norm_zoneout): NormZoneout(layer_norm=True, zoneout=0.3)" in repr(layer)
    assert "zoneout" not in repr(RNN(2, 5))


def test_a_layer_says_which_backend_serves_its_options():
    x = torch.zeros(T, B, M)
    assert RNN(M, N, **BOTH).explain(x)["loop"] == "chosen"
    said = GRU(M, N, zoneout=0.1).explain(x)
    assert said["loop"] == "it does not compute zoneout"
    assert said["reference"] == "chosen"


# -------------------------------------------------------------------------------- refusals

REFUSED = {
    "a rate of one": ({"zoneout": 1.0}, r"zoneout to be a share in \[0, 1\), got 1.0"),
    "a negative rate": ({"zoneout": -0.5}, r"zoneout to be a share in \[0, 1\), got -0.5"),
    "a percentage": ({"zoneout": 10}, r"zoneout to be a share in \[0, 1\), got 10"),
    "a truth": ({"zoneout": True}, r"zoneout to be a share in \[0, 1\), got True"),
    "nan": ({"zoneout": math.nan}, r"zoneout to be a share in \[0, 1\), got nan"),
    "words": ({"zoneout": "0.1"}, r"zoneout to be a share in \[0, 1\), got '0.1'"),
}


@pytest.mark.parametrize("make", [RNN, GRU, AsRNN])
@pytest.mark.parametrize(("options", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_a_rate_that_is_no_share_is_refused(make, options, message):
    with pytest.raises(ValueError, match=f"expected {message}"):
        make(M, N, **options)


@each_complex
def test_the_norm_of_complex_states_is_refused_with_what_to_use(make):
    message = "expected layer_norm=False, .* complex states; choose a set of real matrices"
    with pytest.raises(ValueError, match=message):
        make(M, N, layer_norm=True)


@pytest.mark.parametrize("make", [RNN, GRU])
def test_the_norm_of_one_unit_is_refused(make):
    with pytest.raises(ValueError, match="expected hidden_size > 1 with layer_norm"):
        make(M, 1, layer_norm=True)


def test_a_lock_without_dropout_is_warned_of():
    with pytest.warns(UserWarning, match=r"locked_dropout=True does nothing with dropout=0\.0"):
        RNN(M, N, 2, locked_dropout=True)


@pytest.mark.parametrize("options", [{"layer_norm": True}, {"zoneout": 0.1}], ids=str)
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
@pytest.mark.parametrize(("make", "kind"), [(PLAIN_TANH, nn.RNN), (GRU, nn.GRU)])
def test_weights_of_torch_are_refused_as_the_layer_is_another_function(
    make, kind, options, training
):
    (name,) = options
    layer = make(M, N, **options).train(training)
    with pytest.raises(ValueError, match=f"expected a layer with {name}=.*strict=False"):
        layer.load_torch(kind(M, N))


@pytest.mark.parametrize(("make", "kind"), [(PLAIN_TANH, nn.RNN), (GRU, nn.GRU)])
def test_weights_of_torch_come_in_by_way_of_a_plain_layer(make, kind):
    source = kind(M, N)
    layer, plain = make(M, N, **BOTH), make(M, N).load_torch(source)
    missing, unexpected = layer.load_state_dict(plain.state_dict(), strict=False)
    assert all("norm_zoneout" in name for name in missing)
    assert unexpected == []
    assert torch.equal(layer.recurrent_matrices()[0], source.weight_hh_l0[:N])


def test_locked_dropout_takes_weights_of_torch():
    layer = PLAIN_TANH(M, N, 2, dropout=0.5, locked_dropout=True).eval()
    source = nn.RNN(M, N, 2)
    x = normal(T, B, M, dtype=torch.float32)
    expected = source(x)[0]
    torch.testing.assert_close(layer.load_torch(source)(x)[0], expected, **near(torch.float32))
