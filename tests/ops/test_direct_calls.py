"""Small calls: no dispatcher, no check twice, and the same results and errors as other calls."""

import re

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from eigenrnn import GRU, LRU, LSTM, RNN
from eigenrnn.ops import elman, gru, lstm, use_backend
from eigenrnn.ops.operators import Operator
from eigenrnn.tracing import needs_no_dispatcher
from kernel_testing import needs_kernels

LAYERS = pytest.mark.parametrize("make", [RNN, GRU, LSTM, LRU], ids=lambda make: make.__name__)


def negative_view(x):
    """Return a view of the same numbers with torch's negative bit."""
    view = torch.view_as_complex(torch.stack([x, -x], -1)).conj().imag
    assert view.is_neg()
    return view


@LAYERS
def test_a_negative_gradient_gives_the_gradients_of_its_numbers(make):
    layer, x = make(3, 8), torch.randn(5, 2, 3, requires_grad=True)
    g = torch.randn(5, 2, layer(x)[0].shape[2])
    (found,) = torch.autograd.grad(layer(x)[0], x, negative_view(g))
    (expected,) = torch.autograd.grad(layer(x)[0], x, g)
    torch.testing.assert_close(found, expected)


def test_only_plain_tensors_outside_of_modes_need_no_dispatcher():
    x = torch.randn(3)
    assert needs_no_dispatcher([x, None])
    assert not needs_no_dispatcher([negative_view(x)])
    assert not needs_no_dispatcher([torch.randn(3, dtype=torch.complex64).conj()])
    with FlopCounterMode(display=False):
        assert not needs_no_dispatcher([x])


T, B, N, M = 5, 2, 8, 3
# the function and its number of matrices
FUNCTIONS = {"elman": (elman, 1), "gru": (gru, 3), "lstm": (lstm, 4)}
each_function = pytest.mark.parametrize("name", FUNCTIONS)


def tensors(name):
    _, gates = FUNCTIONS[name]
    return {
        "x": torch.randn(T, B, M),
        "W": torch.randn(gates * N, N) / 3,
        "U": torch.randn(gates * N, M),
        "c": torch.randn(gates * N),
    }


def with_gaps(tensor):
    """Return the same numbers, those of a row not side by side."""
    return torch.stack([tensor, tensor + 1], -1)[..., 0]


def of_results(change):
    """Return a function that changes saved states alone, and no operands."""
    return lambda v: change(v) if v.dim() == 3 and v.shape[2] != M else v


@pytest.fixture
def went_directly(monkeypatch):
    """Return a list that tells of each call whether it needed no checks."""
    found = []
    plan = Operator.plan

    def recorded(operator, *arguments):
        planned = plan(operator, *arguments)
        found.append(planned is not None)
        return planned

    monkeypatch.setattr(Operator, "plan", recorded)
    return found


def called(name, given, **options):
    leaves = {key: v.detach().requires_grad_() for key, v in given.items()}
    results = FUNCTIONS[name][0](**leaves, **options)
    gradients = torch.autograd.grad(results[0].cos().sum(), [*leaves.values()])
    return [v.detach() for v in (*results, *gradients)]


@needs_kernels
@each_function
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"last_only": True}], ids=str)
def test_the_second_call_skips_the_checks_and_gives_the_same_bits(name, options, went_directly):
    given = tensors(name)
    checked = called(name, given, **options, backend="cpu")
    called(name, given, **options)
    assert all(map(torch.equal, checked, called(name, given, **options)))
    assert went_directly[-1]
    leaves = {key: v.requires_grad_() for key, v in given.items()}
    with torch.no_grad():
        h = FUNCTIONS[name][0](**leaves, **options)[0]
    assert went_directly[-1]
    assert len(h) == (0 if "last_only" in options else T)


@needs_kernels
@each_function
@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.double(),
        lambda v: v.repeat(2, *[1] * (v.dim() - 1)) if v.dim() == 3 else v,
        lambda v: v.T.contiguous().T if v.dim() == 2 else v,
        lambda v: v[:, :1] if v.dim() == 3 else v,
    ],
    ids=["another dtype", "more steps", "transposed weights", "fewer sequences"],
)
def test_a_call_of_other_tensors_needs_no_checks_either(name, change, went_directly):
    for _ in range(2):
        called(name, tensors(name))
    given = {key: change(v) for key, v in tensors(name).items()}
    found = called(name, given)
    assert went_directly[-1]
    torch.testing.assert_close(found, called(name, given, backend="reference"))


@needs_kernels
@each_function
@pytest.mark.parametrize("operand", ["x", "W", "U", "c"])
def test_a_negative_operand_gives_the_states_of_its_numbers(name, operand):
    given = tensors(name)
    for _ in range(2):
        expected = FUNCTIONS[name][0](**given)
    changed = given | {operand: negative_view(given[operand])}
    torch.testing.assert_close(FUNCTIONS[name][0](**changed), expected)


@needs_kernels
@each_function
def test_the_gradient_of_a_sum_and_that_of_each_state_are_the_same(name, went_directly):
    given = {key: v.requires_grad_() for key, v in tensors(name).items()}
    for _ in range(2):
        h = FUNCTIONS[name][0](**given)[0]
    assert went_directly[-1]
    of_sum = torch.autograd.grad(h.sum(), [*given.values()], retain_graph=True)
    of_each = torch.autograd.grad(h, [*given.values()], torch.ones_like(h))
    assert all(map(torch.equal, of_sum, of_each))


@needs_kernels
@each_function
def test_a_backward_pass_reads_what_the_hooks_of_saved_tensors_return(name, went_directly):
    given = tensors(name)
    for _ in range(2):
        expected = called(name, given)
    with torch.autograd.graph.saved_tensors_hooks(torch.clone, torch.clone):
        assert all(map(torch.equal, called(name, given), expected))
    for change in (with_gaps, of_results(with_gaps)):
        with torch.autograd.graph.saved_tensors_hooks(torch.clone, change):
            assert all(map(torch.equal, called(name, given), expected))
    for change in (torch.Tensor.double, of_results(torch.Tensor.double)):
        hooks = torch.autograd.graph.saved_tensors_hooks(torch.clone, change)
        with hooks, pytest.raises(TypeError, match="float64"):
            called(name, given)
    assert went_directly[-1]


@needs_kernels
def test_the_gradient_of_the_sum_of_all_outputs_is_that_of_each(went_directly):
    given = {key: v.requires_grad_() for key, v in tensors("elman").items()}
    given["V"] = torch.randn(2, N, requires_grad=True)
    for _ in range(2):
        y, _ = elman(**given)
    assert went_directly[-1]
    of_sum = torch.autograd.grad(y.sum(), [*given.values()], retain_graph=True)
    for like in (torch.ones(T, B, 2), torch.ones(2, B, T).transpose(0, 2)):
        of_each = torch.autograd.grad(y, [*given.values()], like, retain_graph=True)
        assert all(map(torch.equal, of_sum, of_each))


OTHERS = {
    "another dtype": lambda v: v | {"W": v["W"].double()},
    "another shape": lambda v: v | {"c": v["c"][1:]},
    "a number": lambda v: v | {"W": torch.tensor(1.0)},
    "no tensor": lambda v: v | {"U": [1.0]},
    "nothing": lambda v: v | {"x": None},
    "nested": lambda v: v | {"x": torch.nested.nested_tensor([v["x"][0]])},
    "sparse": lambda v: v | {"W": v["W"].to_sparse()},
    "meta": lambda v: v | {"c": v["c"].to("meta")},
    "freed": lambda v: v | {"U": freed(v["U"])},
}


def freed(tensor):
    tensor = tensor.clone()
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@each_function
@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS.keys())
def test_a_wrong_call_after_a_right_one_raises_the_same_error(name, change, went_directly):
    given = tensors(name)
    function = FUNCTIONS[name][0]
    wrong = change(given)
    with pytest.raises((ValueError, TypeError)) as expected:
        function(**wrong, backend="cpu")
    for _ in range(2):
        function(**given)
    with pytest.raises(type(expected.value), match=re.escape(str(expected.value))):
        function(**wrong)
    assert not went_directly[-1]


@each_function
def test_other_options_and_forced_backends_are_checked(name, went_directly):
    given = tensors(name)
    function = FUNCTIONS[name][0]
    for _ in range(2):
        function(**given)
    with pytest.raises(TypeError, match="reverse"):
        function(**given, reverse="yes")
    with pytest.raises(ValueError, match="batch sizes"):
        function(**given, batch_sizes=[B] * (T + 1))
    with use_backend("reference"):
        function(**given)
    assert not went_directly[-1]
    went_directly.clear()
    function(**given, backend="reference")
    assert not any(went_directly)
    strided = given | {"x": given["x"].repeat(1, 1, 2)[..., ::2], "W": given["W"].T.contiguous().T}
    torch.testing.assert_close(function(**strided), function(**strided, backend="reference"))


@needs_kernels
@each_function
def test_mapped_inputs_have_one_number_for_each_row_of_w(name, went_directly):
    function, gates = FUNCTIONS[name]
    W = tensors(name)["W"]
    for _ in range(2):
        function(torch.randn(T, B, gates * N), W)
    assert went_directly[-1]
    with pytest.raises(ValueError, match="expected"):
        function(torch.randn(T, B, gates * (N - 1)), W)


@needs_kernels
def test_a_state_before_f_is_not_taken_for_one_after_it(went_directly):
    given = tensors("elman")
    for _ in range(2):
        elman(**given)
    assert went_directly[-1]
    expected = elman(**given, state="current", backend="reference")
    torch.testing.assert_close(elman(**given, state="current"), expected)


@needs_kernels
def test_a_head_is_fused_directly_only_where_it_is_fused_at_all(went_directly):
    given = tensors("elman")
    for K, directly in ((2, True), (N + 1, False)):
        V, d = torch.randn(K, N), torch.randn(K)
        for _ in range(2):
            went_directly.clear()
            y, last = elman(**given, V=V, d=d)
        assert any(went_directly) == directly
        torch.testing.assert_close((y, last), elman(**given, V=V, d=d, backend="reference"))
    with pytest.raises(ValueError, match="last_only"):
        elman(**given, V=torch.randn(2, N), last_only=True)
