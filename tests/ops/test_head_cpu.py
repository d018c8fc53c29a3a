"""The fused head of the compiled kernels equals a linear layer after the recurrence."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.rnn import pack_padded_sequence

from eigenrnn import LeakyRNN, SequenceModel
from eigenrnn.constraints import ScaledCayley
from eigenrnn.init import haar_
from eigenrnn.layers import GRU, RNN
from eigenrnn.linalg import tol
from eigenrnn.ops import compiled, elman
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.elman import ElmanOperands
from eigenrnn.ops.elman.cpu import elman_cpu
from eigenrnn.ops.operators import Operator
from kernel_testing import (
    SpiedKernels,
    assert_near,
    each_direction,
    each_pass,
    each_raggedness,
    needs_kernels,
    poisoned,
)

pytestmark = [poisoned, needs_kernels, pytest.mark.pairs]

NAMES = ("x", "W", "h0", "bias", "U", "c", "V", "d")
# T, B, N, K; K of 1, 9, 16, 17 and 50: part of a vector, one vector, and more than one
SIZES = [
    (1, 1, 1, 1),
    (1, 17, 33, 16),
    (2, 3, 2, 0),
    (9, 5, 33, 9),
    (9, 13, 50, 50),
    (31, 1, 65, 17),
    (31, 29, 31, 9),
    (301, 3, 19, 17),
    (301, 1, 50, 50),
]

each_size = pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def normal(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def operands(size, dtype=torch.float64, *, M=3, bias=False, shift=True):
    """All tensors of the recurrence and its head, by name."""
    T, B, N, K = size
    W = torch.empty(N, N, dtype=torch.float64)
    tensors = {
        "x": normal(1, T, B, N if M is None else M),
        "W": haar_(W, generator=torch.Generator().manual_seed(0)) if N else W,
        "h0": normal(2, B, N),
        "bias": normal(3, N) / 2 if bias else None,
        "U": None if M is None else normal(4, N, M),
        "c": None if M is None else normal(5, N),
        "V": normal(6, K, N) / max(1, N) ** 0.5,
        "d": normal(7, K) if shift else None,
    }
    return {name: None if v is None else v.to(dtype) for name, v in tensors.items()}


def ragged_sizes(T, B):
    """Batch sizes that descend from B to no sequence at the last step."""
    return [max(0, B - t * B // max(1, T - 1)) for t in range(T)]


def options_of(size, *, ragged=False, reverse=False, nonlinearity="tanh"):
    sizes = ragged_sizes(*size[:2]) if ragged else None
    return {"nonlinearity": nonlinearity, "batch_sizes": sizes, "reverse": reverse}


def present(tensors):
    return {name: v for name, v in tensors.items() if v is not None}


def fuses_head(spy):
    return spy.call is not None and "y" in spy.call


def separate_head(V, d=None, backend="reference", **tensors):
    h, last = elman(**tensors, backend=backend)
    return F.linear(h, V, d), last


def evaluated(run, tensors, options, *, of_last=True):
    """Return the outputs, the last states and all gradients, by name."""
    leaves = {name: v.detach().requires_grad_() for name, v in present(tensors).items()}
    y, last = run(**leaves, **options)
    results = (y, last) if of_last else (y,)
    weights = [normal(8, *y.shape).to(y.dtype), normal(9, *last.shape).to(y.dtype)]
    found = torch.autograd.grad(results, tuple(leaves.values()), weights[: len(results)])
    return {"y": y.detach(), "last": last.detach()} | dict(zip(leaves, found, strict=True))


def assert_equals_reference(tensors, options, **choice):
    got = evaluated(elman, tensors, options | {"backend": "cpu"}, **choice)
    exact = {name: v.double() for name, v in present(tensors).items()}
    T, N = len(tensors["x"]), len(tensors["W"])
    # rounding errors accumulate over T steps, each with a sum over N
    bound = tol(tensors["W"].dtype, T + N)
    assert_near(got, evaluated(separate_head, exact, options, **choice), bound)


@pytest.fixture
def spy(monkeypatch):
    spy = SpiedKernels("elman")
    monkeypatch.setattr(compiled, "kernels", spy)
    monkeypatch.setattr(Operator, "plan", lambda *_: None)  # which reads the tensors itself
    return spy


@pytest.mark.parametrize(
    ("reverse", "ragged"), [(True, False), (False, True)], ids=["reverse", "ragged"]
)
@each_dtype
@each_size
def test_outputs_and_gradients_agree_with_the_reference_at_odd_sizes(
    spy, size, dtype, reverse, ragged
):
    tensors = operands(size, dtype)
    assert_equals_reference(tensors, options_of(size, ragged=ragged, reverse=reverse))
    assert fuses_head(spy) == (size[3] > 0)


@each_pass
@pytest.mark.parametrize("nonlinearity", ["modrelu", "elu", "identity"])
def test_outputs_are_right_for_all_options(spy, nonlinearity, M, reverse, ragged):
    size = 9, 5, 33, 9
    tensors = operands(size, M=M, bias=nonlinearity == "modrelu")
    options = options_of(size, ragged=ragged, reverse=reverse, nonlinearity=nonlinearity)
    assert_equals_reference(tensors, options)
    assert fuses_head(spy)


@each_raggedness
def test_the_outputs_alone_may_have_a_gradient(spy, ragged):
    size = 9, 5, 33, 9
    assert_equals_reference(operands(size), options_of(size, ragged=ragged), of_last=False)
    assert "h" not in spy.gradients  # no gradient of the states is written


def test_outputs_need_no_bias(spy):
    size = 9, 5, 33, 9
    assert_equals_reference(operands(size, shift=False), options_of(size, ragged=True))
    assert fuses_head(spy)


@pytest.mark.parametrize(("N", "M", "K"), [(3, 0, 2), (0, 3, 2), (0, 3, 0)], ids=str)
def test_zero_channels_and_zero_units_are_supported(N, M, K):
    size = 4, 2, N, K
    assert_equals_reference(operands(size, M=M), options_of(size))


def test_an_empty_batch_has_empty_outputs_and_no_gradient():
    size = 4, 0, 3, 2
    got = evaluated(elman, operands(size), options_of(size))
    assert got["y"].shape == (4, 0, 2)
    assert not any(found.any() for found in got.values())


LAYOUTS = {
    "batch first": {"x": lambda v: v.transpose(0, 1).contiguous().transpose(0, 1)},
    "transposed": {"V": lambda v: v.T.contiguous().T},
    "every second": dict.fromkeys(("V", "d"), lambda v: torch.stack([v, v], dim=-1)[..., 0]),
    "expanded": dict.fromkeys(("V", "d"), lambda v: v[:1].expand_as(v)),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_strides_do_not_change_the_results(layout):
    size = 5, 3, 19, 17
    tensors = {n: layout.get(n, torch.clone)(v) for n, v in present(operands(size)).items()}
    assert_equals_reference(tensors, options_of(size, ragged=True))


def test_an_expanded_gradient_equals_a_full_one(spy):
    leaves = {n: v.requires_grad_() for n, v in present(operands((5, 3, 19, 9))).items()}
    y, _ = elman(**leaves)
    of = tuple(leaves.values())
    expanded = torch.autograd.grad(y.sum(), of, retain_graph=True)
    assert spy.gradients["y"][1:3] == (0, 0)  # one row, expanded
    assert all(map(torch.equal, expanded, torch.autograd.grad(y, of, torch.ones_like(y))))


@each_raggedness
@pytest.mark.parametrize("B", [1, 5])
def test_gradients_are_read_without_copies(spy, B, ragged):
    size = 31, B, 33, 9
    leaves = {n: v.requires_grad_() for n, v in present(operands(size)).items()}
    y, _ = elman(**leaves, **options_of(size, ragged=ragged))
    of, g = tuple(leaves.values()), normal(8, *y.shape)
    expected = torch.autograd.grad(y, of, g, retain_graph=True)
    outputs_first = g.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    got = torch.autograd.grad(y, of, outputs_first)
    assert spy.gradients["y"] == (outputs_first.data_ptr(), *outputs_first.stride()[:2], False)
    for one, other in zip(got, expected, strict=True):  # except d, whose gradient torch sums
        torch.testing.assert_close(one, other, rtol=0, atol=tol(g.dtype, 31))


def test_sixteen_bit_inputs_are_summed_in_float32():
    tensors = {n: v.bfloat16() for n, v in present(operands((31, 3, 33, 9))).items()}
    got = evaluated(elman, tensors, {"backend": "cpu"})
    assert all(found.dtype == torch.bfloat16 for found in got.values())
    exact = {name: v.double() for name, v in tensors.items()}
    # each result is rounded once, for any number of steps
    assert_near(got, evaluated(separate_head, exact, {}), torch.finfo(torch.bfloat16).eps)


@pytest.mark.parametrize("requested", NAMES)
def test_only_the_requested_gradients_are_computed(spy, requested):
    tensors, options = operands((5, 3, 19, 9), bias=True), {"nonlinearity": "modrelu"}
    whole = evaluated(elman, tensors, options, of_last=False)
    tensors[requested].requires_grad_()
    y, _ = elman(**tensors, **options)
    found = torch.autograd.grad(y, tensors[requested], normal(8, *y.shape))[0]
    assert torch.equal(found, whole[requested])
    # torch sums the gradient of d
    assert {n for n in NAMES if n in spy.gradients} == {requested} - {"d"}


def test_a_loss_on_the_last_states_needs_no_outputs(spy):
    leaves = {n: v.requires_grad_() for n, v in present(operands((5, 3, 19, 9))).items()}
    elman(**leaves)[1].sum().backward()
    assert not {"y", "V"} & set(spy.gradients)
    assert leaves["V"].grad is None
    assert leaves["W"].grad.any()


@each_raggedness
@each_direction
def test_without_gradients_no_states_are_stored(spy, reverse, ragged):
    size = 31, 5, 33, 9
    tensors, options = operands(size), options_of(size, ragged=ragged, reverse=reverse)
    recorded = tensors | {"W": tensors["W"].clone().requires_grad_()}
    expected = elman(**recorded, **options)
    assert "h" in spy.call
    with torch.no_grad():
        elman(**recorded, **options)
    assert "h" not in spy.call
    got = elman(**tensors, **options)
    assert "h" not in spy.call
    assert all(map(torch.equal, got, expected))


@each_raggedness
@pytest.mark.parametrize("size", [(31, 13, 65, 17), (31, 1, 65, 9), (5, 40, 33, 16)], ids=str)
def test_outputs_and_gradients_of_inputs_do_not_depend_on_the_number_of_threads(
    threads, size, ragged
):
    tensors, options = operands(size, torch.float32), options_of(size, ragged=ragged)
    threads(1)
    alone = evaluated(elman, tensors, options)
    for number in (2, 3):
        threads(number)
        shared = evaluated(elman, tensors, options)
        assert all(torch.equal(alone[name], shared[name]) for name in ("y", "last", "x", "h0"))
        assert_near(shared, alone, tol(torch.float32, sum(size)))
        again = evaluated(elman, tensors, options)
        assert all(torch.equal(shared[name], again[name]) for name in shared)


def test_threads_that_share_units_keep_no_states(threads):
    tensors, options = operands((33, 1, 365, 9), torch.float32), options_of((33, 1, 365, 9))
    threads(1)
    alone = elman(**tensors, **options)
    threads(2)
    with torch.no_grad():
        shared = elman(**tensors, **options)
    assert all(map(torch.equal, alone, shared))


@pytest.mark.parametrize("last_only", [False, True], ids=["all", "last"])
@pytest.mark.parametrize("reads", [False, True], ids=["states", "outputs"])
def test_the_operator_passes_opcheck(reads, last_only):
    tensors = operands((4, 3, 2, 2), bias=True)
    if not reads:
        tensors |= {"V": None, "d": None}
    # without stored states there are no gradients
    tensors = {n: v if v is None else v.requires_grad_(not last_only) for n, v in tensors.items()}
    options = Options("modrelu", [3, 2, 1, 1], last_only=last_only)
    arguments = elman_cpu.arguments(ElmanOperands(**tensors), options, save=not last_only)
    torch.library.opcheck(torch.ops.eigenrnn.elman_cpu.default, arguments)


@pytest.mark.parametrize("with_states", [False, True], ids=["outputs", "all"])
def test_the_operator_of_the_backward_pass_passes_opcheck(with_states):
    tensors = ElmanOperands(**operands((4, 3, 2, 2), bias=True))
    options = Options("modrelu", [3, 2, 1, 1])
    returned = elman_cpu.compute(tensors, options, save=True)
    grads = {name: normal(7, *returned[name].shape) for name in elman_cpu.results}
    if not with_states:
        grads |= {"h": None, "last": None}
    needed = present(tensors._asdict())
    arguments = elman_cpu.backward_arguments(tensors, options, needed, grads, returned)
    torch.library.opcheck(torch.ops.eigenrnn.elman_cpu_backward.default, arguments)


@each_raggedness
def test_outputs_can_be_differentiated_twice(ragged):
    size = 3, 2, 2, 2
    leaves = {n: v.requires_grad_() for n, v in present(operands(size)).items()}
    options = options_of(size, ragged=ragged) | {"backend": "cpu"}

    def run(*tensors):
        return elman(**dict(zip(leaves, tensors, strict=True)), **options)

    assert torch.autograd.gradcheck(run, tuple(leaves.values()))
    assert torch.autograd.gradgradcheck(run, tuple(leaves.values()), fast_mode=True)


OUTSIDE = {
    "more outputs than units": lambda t: t | {"V": normal(6, 20, 19), "d": normal(7, 20)},
    "complex": lambda t: {n: v.cdouble() for n, v in t.items()} | {"nonlinearity": "identity"},
    "reference": lambda t: t | {"backend": "reference"},
    "loop": lambda t: t | {"backend": "loop"},
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_heads_that_the_kernels_do_not_fuse_are_applied_after_them(spy, case):
    arguments = OUTSIDE[case](present(operands((5, 3, 19, 9))))
    y, last = elman(**arguments)
    assert not fuses_head(spy)
    V, d = arguments.pop("V"), arguments.pop("d")
    h, expected = elman(**arguments)
    assert torch.equal(y, F.linear(h, V, d))
    assert torch.equal(last, expected)


def test_autocast_treats_the_outputs_like_a_linear_layer():
    tensors = {n: v.float() for n, v in present(operands((5, 3, 19, 9))).items()}
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = elman(**tensors)
        V, d = tensors.pop("V"), tensors.pop("d")
        expected = F.linear(elman(**tensors)[0], V, d)
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, expected)


x, W, V, d = torch.ones(4, 3, 2), torch.eye(2), torch.ones(5, 2), torch.ones(5)
REJECTED = {
    "size of V": ({"V": V[:, :1]}, ValueError, r"V of shape \(5, 2\), got \(5, 1\)"),
    "size of d": ({"V": V, "d": d[:1]}, ValueError, r"d of shape \(5,\), got \(1,\)"),
    "d alone": ({"d": d}, ValueError, "d to go with V"),
    "type of V": ({"V": V.double()}, TypeError, "V of torch.float32 .*, got torch.float64"),
    "the last alone": ({"V": V, "last_only": True}, ValueError, "either last_only or V"),
}


@pytest.mark.parametrize("case", REJECTED)
def test_a_bad_head_raises_an_error_that_says_what_was_expected(case):
    options, error, message = REJECTED[case]
    with pytest.raises(error, match=f"expected {message}"):
        elman(x, W, **options)


LAYERS = {
    "one layer": (lambda: RNN(3, 8, constraint=ScaledCayley), True),
    "two layers": (lambda: RNN(3, 8, num_layers=2, dropout=0.5, constraint=ScaledCayley), True),
    "tanh": (lambda: RNN(3, 8, nonlinearity="tanh", constraint=ScaledCayley), True),
    "two directions": (lambda: RNN(3, 8, bidirectional=True, constraint=ScaledCayley), False),
    "LayerNorm": (lambda: RNN(3, 8, layer_norm=True, constraint=ScaledCayley), True),
    "zoneout": (lambda: RNN(3, 8, zoneout=0.5, constraint=ScaledCayley), True),
    "currents": (lambda: LeakyRNN(3, 8, leak=0.2, state="current", nonlinearity="tanh"), True),
    "gates": (lambda: GRU(3, 8), False),
}


@pytest.mark.parametrize("lengths", [None, [4, 6, 1]], ids=["full", "ragged"])
@pytest.mark.parametrize("case", LAYERS)
def test_a_model_equals_its_layer_followed_by_its_head(spy, case, lengths):
    make, inside = LAYERS[case]
    model = SequenceModel(make(), 5).double().eval()
    x = normal(1, 6, 3, 3)
    lengths = None if lengths is None else torch.tensor(lengths)
    of = [p for p in model.parameters() if p.requires_grad]

    def values(y):
        gradients = torch.autograd.grad(y, of, normal(2, *y.shape))
        return {str(n): v for n, v in enumerate([y.detach(), *gradients])}

    got = values(model(x, lengths))
    assert fuses_head(spy) == inside
    expected = values(model.head(model.layer(x, None, lengths)[0]))
    assert_near(got, expected, tol(torch.float64, 64))


def test_a_packed_batch_gives_packed_outputs(spy):
    layer, head = RNN(3, 8, constraint=ScaledCayley).double(), nn.Linear(8, 5).double()
    x = pack_padded_sequence(normal(1, 6, 3, 3), [4, 6, 1], enforce_sorted=False)
    y, h_n = layer(x, head=head)
    assert fuses_head(spy)
    states, expected = layer(x)
    torch.testing.assert_close(y.data, head(states.data), rtol=0, atol=tol(torch.float64, 64))
    assert torch.equal(h_n, expected)


@pytest.mark.parametrize("batch_first", [False, True])
def test_outputs_have_the_layout_of_the_input(batch_first):
    layer = RNN(3, 8, batch_first=batch_first, constraint=ScaledCayley).double()
    head = nn.Linear(8, 5).double()
    for x in (normal(1, 6, 4, 3), normal(1, 6, 3)):
        expected, got = head(layer(x)[0]), layer(x, head=head)[0]
        torch.testing.assert_close(got, expected, rtol=0, atol=tol(torch.float64, 64))


def hooked(head):
    head.register_forward_hook(lambda *call: 2 * call[2])
    return head


HEADS = {"plain": (lambda head: head, True), "hook": (hooked, False), "norm": (weight_norm, False)}


@pytest.mark.parametrize("case", HEADS)
def test_a_head_that_does_more_than_a_linear_map_is_called(spy, case):
    change, inside = HEADS[case]
    layer, head = RNN(3, 8, constraint=ScaledCayley).double(), change(nn.Linear(8, 5).double())
    x = normal(1, 6, 4, 3)
    y, _ = layer(x, head=head)
    assert fuses_head(spy) == inside
    torch.testing.assert_close(y, head(layer(x)[0]), rtol=0, atol=tol(torch.float64, 64))


def test_a_head_with_a_custom_forward_is_called():
    model = SequenceModel(RNN(2, 4), 3)
    model.head.forward = lambda states: states[..., :1]
    assert model(torch.randn(5, 2, 2)).shape == (5, 2, 1)
    assert isinstance(model.head, nn.Linear)
