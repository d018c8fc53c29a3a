"""The Triton kernels agree with the reference, on a GPU or in Triton's interpreter."""

from functools import partial

import pytest
import torch

from cases import NONLINEARITIES
from crossing import some
from eigenrnn.init import haar_
from eigenrnn.linalg import tol
from eigenrnn.ops import elman, gru, triton_backend
from eigenrnn.ops.dispatch import Call, choose
from eigenrnn.ops.elman import BACKENDS as ELMAN
from eigenrnn.ops.gru import BACKENDS as GRU
from eigenrnn.ops.lstm import BACKENDS as LSTM
from eigenrnn.ops.triton_backend import layout
from kernel_testing import assert_near, each_direction, each_raggedness, normal, ragged_sizes, same

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.usefixtures("fresh_memory_is_poisoned"),
    pytest.mark.pairs,
    # numpy warns when the interpreter computes values that are not finite
    pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning"),
]
if torch.cuda.is_available():  # with the interpreter they need no GPU
    pytestmark.append(pytest.mark.gpu)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SOFT = ("softplus", "retanh")
KERNELS = {name: case for name, case in NONLINEARITIES.items() if name not in SOFT}
FORMS = [
    {"reset_after": after, "update_keeps": keeps}
    for after in (True, False)
    for keeps in (True, False)
]


def random(generator, *shape, dtype=torch.float32):
    return normal(generator, shape, dtype).to(DEVICE)


def matrices(generator, count, N, dtype):
    """Orthogonal or unitary matrices, one below the other."""
    W = [haar_(torch.empty(N, N, dtype=torch.float64), generator=generator) for _ in range(count)]
    W = torch.cat(W)
    if dtype.is_complex:
        W = W * torch.exp(1j * torch.arange(N, dtype=torch.float64))
    return W.to(DEVICE, dtype)


def elman_operands(T, B, N, dtype=torch.float32, *, M=None, bias=False):
    generator = torch.Generator().manual_seed(0)
    draw = partial(random, generator)
    real = dtype.to_real()
    operands = {
        "x": draw(T, B, M or N, dtype=real if M else dtype),
        "W": matrices(generator, 1, N, dtype),
        "h0": draw(B, N, dtype=dtype),
    }
    if bias:
        operands["bias"] = draw(N, dtype=real) / 2
    if M:
        operands |= {"U": draw(N, M, dtype=dtype) / M**0.5, "c": draw(N, dtype=dtype) / 2}
    return operands


def gru_operands(T, B, N, dtype=torch.float32, *, M=None, shifted=False, bias=False):
    generator = torch.Generator().manual_seed(0)
    draw = partial(random, generator, dtype=dtype)
    operands = {
        "x": draw(T, B, M or 3 * N),
        "W": matrices(generator, 3, N, dtype),
        "h0": draw(B, N),
    }
    if bias:
        operands["bias"] = draw(N) / 2
    if shifted:
        operands["recurrent_bias"] = draw(N)
    if M:
        operands |= {"U": draw(3 * N, M), "c": draw(3 * N)}
    return operands


def evaluated(function, operands, backend, **options):
    """Return all states, the last states and the gradients of all operands, by name."""
    leaves = {name: v.detach().requires_grad_() for name, v in operands.items()}
    if isinstance(options.get("leak"), torch.Tensor):  # an operand with a gradient, too
        leaves["leak"] = options.pop("leak").to(operands["x"].dtype).detach().requires_grad_()
    results = function(**leaves, **options, backend=backend)
    generator = torch.Generator().manual_seed(7)
    weights = [random(generator, *v.shape, dtype=v.dtype) for v in results]
    found = torch.autograd.grad(results, list(leaves.values()), weights)
    gradients = {f"d{name}": g for name, g in zip(leaves, found, strict=True)}
    return {name: v.detach() for name, v in zip(("h", "last"), results, strict=True)} | gradients


def wider(tensor):
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def assert_equals_reference(function, operands, bound=None, **options):
    got = evaluated(function, operands, "triton", **options)
    exact = {name: wider(v) for name, v in operands.items()}
    expected = evaluated(function, exact, "reference", **options)
    T, _, N = got["h"].shape
    # rounding errors accumulate over T steps, each with a sum over N
    assert_near(got, expected, bound or tol(operands["W"].dtype, T + N))


def options_of(shape, *, reverse=False, ragged=False):
    T, B, _ = shape
    return {"reverse": reverse, "batch_sizes": ragged_sizes(T, B) if ragged else None}


@pytest.mark.parametrize("case", KERNELS)
def test_every_nonlinearity_agrees(case):
    name, bias = KERNELS[case]
    assert_equals_reference(elman, elman_operands(3, 2, 33, bias=bias), nonlinearity=name)
    if bias or name != "modrelu":
        operands = gru_operands(3, 2, 9, bias=bias)
        assert_equals_reference(gru, operands, nonlinearity=name, reset_after=False)


@each_raggedness
@each_direction
@pytest.mark.parametrize("M", [None, 2], ids=["no map", "two channels"])
def test_the_elman_recurrence_agrees_in_both_directions(M, reverse, ragged):
    shape = 4, 3, 17
    options = options_of(shape, reverse=reverse, ragged=ragged)
    assert_equals_reference(elman, elman_operands(*shape, M=M), nonlinearity="elu", **options)


@each_raggedness
@each_direction
@pytest.mark.parametrize("form", FORMS, ids=str)
def test_every_form_of_the_gru_agrees_in_both_directions(form, reverse, ragged):
    shape = 4, 3, 9
    operands = gru_operands(*shape, M=2, shifted=form["reset_after"])
    assert_equals_reference(
        gru, operands, **form, **options_of(shape, reverse=reverse, ragged=ragged)
    )


def features(T, B, N):
    """Each feature of the kernels by name, as the options of a call."""
    generator = torch.Generator().manual_seed(1)
    leak = torch.rand(N, generator=generator).to(DEVICE)
    leaks = torch.rand(T, B, N, generator=generator).to(DEVICE)
    return {
        "resets": {"resets": (torch.rand(T, B, generator=generator) < 0.4).to(DEVICE)},
        "mask": {"zoneout": (torch.rand(T, B, N, generator=generator) < 0.4).to(DEVICE)},
        "rate": {"zoneout": 0.3},
        "leak": {"leak": leak},
        "leak of each step": {"leak": leaks},
    }


PAIRS = [
    ("resets",),
    ("mask",),
    ("rate",),
    ("leak",),
    ("leak of each step",),
    ("resets", "mask"),
    ("resets", "rate"),
    ("resets", "leak"),
    ("resets", "leak of each step"),
]
OF_THE_GRU = [("resets",), ("mask",), ("rate",), ("resets", "mask"), ("resets", "rate")]


def merged(names, shape):
    options = {}
    for name in names:
        options |= features(*shape)[name]
    return options


@each_raggedness
@each_direction
@pytest.mark.parametrize("names", PAIRS, ids="-".join)
def test_resets_zoneout_and_leaks_agree(names, reverse, ragged):
    shape = 4, 3, 9
    options = merged(names, shape) | options_of(shape, reverse=reverse, ragged=ragged)
    operands = elman_operands(*shape, M=2, bias=True)
    assert_equals_reference(elman, operands, nonlinearity="modrelu", **options)


@each_raggedness
@each_direction
@pytest.mark.parametrize("names", OF_THE_GRU, ids="-".join)
@pytest.mark.parametrize("form", some(FORMS, FORMS[:1]), ids=str)
def test_resets_and_zoneout_of_the_gru_agree(form, names, reverse, ragged):
    shape = 4, 3, 5
    options = merged(names, shape) | options_of(shape, reverse=reverse, ragged=ragged)
    operands = gru_operands(*shape, shifted=form["reset_after"])
    assert_equals_reference(gru, operands, **form, **options)


@pytest.mark.parametrize("names", [("resets",), ("mask",), ("resets", "rate")], ids="-".join)
@pytest.mark.parametrize("bias", [False, True])
def test_resets_and_zoneout_of_complex_states_agree(names, bias):
    shape = 5, 3, 4
    operands = elman_operands(*shape, torch.complex64, M=1, bias=bias)
    assert_equals_reference(elman, operands, nonlinearity="modrelu", **merged(names, shape))


@pytest.mark.parametrize("names", [("resets", "leak"), ("resets", "mask")], ids="-".join)
@pytest.mark.parametrize("N", [1, 33, 64, 110, 127, 170, 192])
def test_features_agree_at_every_layout(N, names):
    shape = 4, 2, N
    options = merged(names, shape) | options_of(shape, ragged=True)
    assert_equals_reference(elman, elman_operands(*shape), nonlinearity="tanh", **options)


@pytest.mark.parametrize("N", [1, 33, 64, 110, 127])
@pytest.mark.parametrize("after", [pytest.param(True, marks=pytest.mark.long), False])
def test_features_of_the_gru_agree_at_every_layout(N, after):
    shape = 4, 2, N
    options = merged(("resets", "mask"), shape) | options_of(shape, ragged=True)
    assert_equals_reference(gru, gru_operands(*shape), reset_after=after, **options)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
@pytest.mark.parametrize("function", [elman, gru])
def test_a_mask_and_a_reset_stop_numbers_that_are_not_finite(function, value):
    make = {elman: elman_operands, gru: gru_operands}[function]
    operands = make(4, 2, 3)
    operands["x"][1, 0] = value  # a value that the mask leaves out
    operands["x"][1, 1] = value  # a state that a reset ends
    mask = torch.zeros(4, 2, 3, dtype=torch.bool, device=DEVICE)
    mask[1, 0] = True
    resets = torch.zeros(4, 2, dtype=torch.bool, device=DEVICE)
    resets[2, 1] = True
    h, _ = function(**operands, zoneout=mask, resets=resets, backend="triton")
    assert h[:, 0].isfinite().all()
    assert h[2:, 1].isfinite().all()


@pytest.mark.parametrize("function", [elman, gru])
def test_a_mask_stops_gradients_that_are_not_finite(function):
    operands = {elman: elman_operands, gru: gru_operands}[function](4, 2, 3)
    x = operands["x"].requires_grad_()
    mask = torch.zeros(4, 2, 3, dtype=torch.bool, device=DEVICE)
    mask[1, 0] = True
    h, _ = function(**operands, zoneout=mask, backend="triton")
    weights = torch.ones_like(h)
    weights[1, 0] = torch.inf
    (dx,) = torch.autograd.grad(h, x, weights)
    assert not dx[1, 0].any()
    assert dx[2:].isfinite().all()


# one of each layout: one piece, one piece of 256 with two or three of rows, two pieces
@pytest.mark.parametrize("N", [1, 16, 31, 128, 129, 150, 176, 177, 192])
def test_the_elman_recurrence_agrees_at_every_layout(N):
    shape = 3, 2, N
    operands = elman_operands(*shape)
    assert_equals_reference(elman, operands, nonlinearity="tanh", **options_of(shape, ragged=True))
    columns, rows = layout(N)
    assert sum(columns) >= N
    assert sum(rows) >= N


# the interpreter takes 20 s for 128 units
@pytest.mark.parametrize("N", [1, 16, 20, pytest.param(128, marks=pytest.mark.long)])
def test_the_gru_agrees_at_every_layout(N):
    assert_equals_reference(gru, gru_operands(3, 2, N, shifted=True))


@each_raggedness
@each_direction
@pytest.mark.parametrize("case", ["modrelu", "modrelu-no-bias", "identity"])
def test_complex_states_agree(case, reverse, ragged):
    name, bias = KERNELS[case]
    shape = 3, 2, 9
    operands = elman_operands(*shape, torch.complex64, M=1, bias=bias)
    options = options_of(shape, reverse=reverse, ragged=ragged)
    assert_equals_reference(elman, operands, nonlinearity=name, **options)


@pytest.mark.parametrize("N", [85, 96])
def test_complex_states_of_several_pieces_agree(N):
    operands = elman_operands(2, 2, N, torch.complex64, bias=True)
    assert_equals_reference(elman, operands, nonlinearity="modrelu")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("function", [elman, gru])
def test_sixteen_bit_inputs_have_float32_sums_and_states(function, dtype):
    make = {elman: elman_operands, gru: gru_operands}[function]
    operands = make(5, 2, 9, dtype)
    got = evaluated(function, operands, "triton", nonlinearity="tanh")
    assert {v.dtype for v in got.values()} == {dtype}
    # each state and each gradient is rounded once, whatever the number of steps
    bound = 4 * torch.finfo(dtype).eps
    assert_equals_reference(function, operands, bound, nonlinearity="tanh")


@pytest.mark.parametrize("sizes", [[3, 2, 2, 0], [3, 0, 0, 0]], ids=str)
@each_direction
@pytest.mark.parametrize("function", [elman, gru])
def test_values_past_the_end_of_a_sequence_have_no_effect(function, sizes, reverse):
    make = {elman: elman_operands, gru: gru_operands}[function]
    operands = make(4, 3, 2)
    for t, n in enumerate(sizes):
        operands["x"][t, n:] = torch.nan
    got = evaluated(function, operands, "triton", batch_sizes=sizes, reverse=reverse)
    for t, n in enumerate(sizes):
        assert not got["h"][t, n:].any()
        assert not got["dx"][t, n:].any()
    assert all(v.isfinite().all() for v in got.values())


@pytest.mark.parametrize("function", [elman, gru])
def test_an_empty_batch_gives_empty_states(function):
    make = {elman: elman_operands, gru: gru_operands}[function]
    got = evaluated(function, make(4, 0, 3), "triton")
    assert got["h"].shape == (4, 0, 3)


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf], ids=str)
@pytest.mark.parametrize("case", ["modrelu", "tanh", "relu", "elu"])
def test_non_finite_values_spread_as_in_the_reference(case, value):
    name, bias = KERNELS[case]
    operands = elman_operands(3, 2, 3, bias=bias)
    operands["x"][1, 1, 0] = value
    got, expected = (
        elman(**operands, nonlinearity=name, backend=backend)
        for backend in ("triton", "reference")
    )
    assert got[0][:, :1].isfinite().all()
    bound = tol(torch.float32, 8)
    torch.testing.assert_close(got, expected, rtol=bound, atol=bound, equal_nan=True)


@pytest.mark.parametrize("name", ["tanh", "elu"])
def test_small_and_large_numbers_are_accurate(name):
    size = torch.logspace(-30, 3, 128, dtype=torch.float64, device=DEVICE).float()
    x = torch.stack([size, -size]).unsqueeze(0)
    W = x.new_zeros(128, 128)
    h, _ = elman(x, W, nonlinearity=name, backend="triton")
    exact, _ = elman(x.double(), W.double(), nonlinearity=name, backend="reference")
    torch.testing.assert_close(h.double(), exact, rtol=tol(torch.float32, 1), atol=0)


LAYOUTS = {
    "batch first": lambda v: v.transpose(0, 1).contiguous().transpose(0, 1),
    "every second": lambda v: torch.stack([v, v], dim=-1)[..., 0],
    "expanded": lambda v: v[:1].expand_as(v),
    "units first": lambda v: v.transpose(-1, -2).contiguous().transpose(-1, -2),
}


@pytest.mark.parametrize("names", [(), ("resets",), ("rate",)], ids=["plain", "resets", "zoneout"])
@pytest.mark.parametrize("change", LAYOUTS.values(), ids=LAYOUTS.keys())
@pytest.mark.parametrize("function", [elman, gru])
def test_strides_do_not_change_the_results(function, change, names):
    make = {elman: elman_operands, gru: gru_operands}[function]
    operands = {
        name: change(v) if v.dim() > 1 else v for name, v in make(3, 2, 5, bias=True).items()
    }
    options = merged(names, (3, 2, 5))
    assert_equals_reference(function, operands, nonlinearity="modrelu", **options)


def test_every_run_gives_the_same_bits_and_a_sequence_does_not_depend_on_its_batch():
    operands = elman_operands(5, 3, 40)
    once, again = (evaluated(elman, operands, "triton") for _ in range(2))
    assert same(once, again) == []
    alone = {"x": operands["x"][:, 1:2], "W": operands["W"], "h0": operands["h0"][1:2]}
    h, _ = elman(**alone, backend="triton")
    assert torch.equal(h[:, 0], once["h"][:, 1])


def test_it_can_be_differentiated_twice():
    operands = elman_operands(2, 2, 2)
    leaves = [v.requires_grad_() for v in operands.values()]
    second = {}
    for backend in ("triton", "reference"):
        h, _ = elman(*leaves, backend=backend)
        (dW,) = torch.autograd.grad(h.square().sum(), leaves[1], create_graph=True)
        found = torch.autograd.grad(dW.square().sum(), leaves)
        second[backend] = dict(zip(operands, found, strict=True))
    assert_near(second["triton"], second["reference"], tol(torch.float32, 100))


def call(**facts):
    usual = {"nonlinearity": "tanh", "transformed": False, "state_size": 8}
    return Call(**{"device": DEVICE, "dtype": torch.float32, **usual, **facts})


@pytest.mark.parametrize(
    ("table", "facts", "reason"),
    [
        (ELMAN, {"nonlinearity": "softplus"}, "no kernel for softplus"),
        (ELMAN, {"state_size": 193}, "at most 192 .* 193"),
        (GRU, {"state_size": 129}, "at most 128 .* 129"),
        (ELMAN, {"dtype": torch.float64}, "torch.float64"),
        (ELMAN, {"device": "meta"}, "on meta"),
        (ELMAN, {"transformed": True}, "torch.func"),
        (ELMAN, {"features": ("layer_norm",)}, "layer_norm"),
        (ELMAN, {"features": ("leak", "current")}, "current"),
        (GRU, {"features": ("leak",)}, "leak"),
    ],
    ids=str,
)
def test_what_it_does_not_compute_is_refused_with_the_reason(table, facts, reason):
    with pytest.raises(ValueError, match=reason):
        choose(table, call(**facts), "triton")


@pytest.mark.gpu
def test_on_a_gpu_it_is_preferred_to_cudnn():
    assert choose(ELMAN, call()).name == "triton"
    assert choose(GRU, call()).name == "triton"
    assert choose(ELMAN, call(state_size=512)).name == "torch"
    assert choose(ELMAN, call(features=("resets",))).name != "triton"
    assert choose(LSTM, call()).name == "torch"


def test_without_a_compiler_it_is_unavailable(monkeypatch):
    monkeypatch.setattr(triton_backend, "_INTERPRETED", False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.delenv("CC", raising=False)
    assert triton_backend._why_unavailable() is None
    monkeypatch.setenv("PATH", "")
    assert "needs a C compiler" in triton_backend._why_unavailable()
    monkeypatch.setenv("CC", "cc")
    assert triton_backend._why_unavailable() is None
