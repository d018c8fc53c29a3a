"""Constraints on matrices of any torch module: training, copies and checkpoints."""

import copy
import io
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from cases import REAL
from eigenrnn import constrain
from eigenrnn.constraints import Exponential, FourierProduct, ScaledCayley
from eigenrnn.errors import NotInSetError
from eigenrnn.layers import weight_drop
from eigenrnn.linalg import orthogonality_error, tol

N = 4
MODULES = {
    "linear": (lambda: nn.Linear(N, N), "weight", None),
    "linear-tall": (lambda: nn.Linear(N, 7), "weight", slice(2, 6)),
    "rnn": (lambda: nn.RNN(3, N), "weight_hh_l0", None),
    "rnn-cell": (lambda: nn.RNNCell(3, N), "weight_hh", None),
    "lstm-i": (lambda: nn.LSTM(3, N), "weight_hh_l0", "i"),
    "lstm-f": (lambda: nn.LSTM(3, N), "weight_hh_l0", "f"),
    "lstm-g": (lambda: nn.LSTM(3, N), "weight_hh_l0", "g"),
    "lstm-o": (lambda: nn.LSTM(3, N), "weight_hh_l0", "o"),
    "lstm-second-reverse": (
        lambda: nn.LSTM(3, N, num_layers=2, bidirectional=True),
        "weight_hh_l1_reverse",
        "g",
    ),
    "lstm-cell": (lambda: nn.LSTMCell(3, N), "weight_hh", "g"),
    "gru-r": (lambda: nn.GRU(3, N), "weight_hh_l0", "r"),
    "gru-z": (lambda: nn.GRU(3, N), "weight_hh_l0", "z"),
    "gru-n": (lambda: nn.GRU(3, N), "weight_hh_l0", "n"),
    "gru-cell": (lambda: nn.GRUCell(3, N), "weight_hh", "n"),
}
FIRST_ROW = {"i": 0, "f": N, "g": 2 * N, "o": 3 * N, "r": 0, "z": N, "n": 2 * N, None: 0}

each_module = pytest.mark.parametrize(
    ("make", "name", "rows"), MODULES.values(), ids=MODULES.keys()
)
each_constraint = pytest.mark.parametrize("case", REAL.values(), ids=REAL)


def is_orthogonal(W):
    return orthogonality_error(W) <= tol(torch.float32, len(W))


def first_row(rows):
    return rows.start if isinstance(rows, slice) else FIRST_ROW[rows]


def block_of(weight, rows):
    first = first_row(rows)
    return weight[first : first + N]


def other_rows(weight, rows):
    first = first_row(rows)
    return torch.cat([weight[:first], weight[first + N :]])


def inputs_of(module):
    width = module.in_features if isinstance(module, nn.Linear) else module.input_size
    return torch.randn(5, 2, width, generator=torch.Generator().manual_seed(1))


def run(module):
    x = inputs_of(module)
    if not isinstance(module, nn.RNNCellBase):
        output = module(x)
        return output if isinstance(output, torch.Tensor) else output[0]
    state = None
    for x_t in x:
        state = module(x_t, state)
    return state if isinstance(state, torch.Tensor) else state[0]


def train(module, steps=5, optimiser=None):
    optimiser = optimiser or torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(steps):
        optimiser.zero_grad()
        (run(module) - 0.3).square().mean().backward()
        optimiser.step()


def constrained_lstm(constraint=ScaledCayley, rows="g"):
    return constrain(nn.LSTM(3, N), "weight_hh_l0", constraint, rows)


@each_module
def test_the_other_rows_keep_their_values(make, name, rows):
    module = make()
    before = other_rows(getattr(module, name), rows).detach().clone()
    constrain(module, name, ScaledCayley, rows)
    assert torch.equal(other_rows(getattr(module, name), rows), before)


@each_module
def test_other_parameters_keep_their_values(make, name, rows):
    module = make()
    before = {key: p.detach().clone() for key, p in module.named_parameters() if key != name}
    constrain(module, name, ScaledCayley, rows)
    after = dict(module.named_parameters())
    assert all(torch.equal(after[key], before[key]) for key in before)


@each_module
def test_training_keeps_the_rows_in_the_set(make, name, rows):
    module = constrain(make(), name, ScaledCayley, rows)
    train(module)
    assert is_orthogonal(block_of(getattr(module, name), rows))


@each_module
def test_a_copy_computes_the_same_and_trains_independently(make, name, rows):
    module = constrain(make(), name, ScaledCayley, rows)
    train(module, 1)
    before = run(module).detach().clone()
    twin = copy.deepcopy(module)
    assert torch.equal(run(twin), before)
    train(twin)
    assert torch.equal(run(module), before)


@pytest.mark.parametrize(("name", "rows"), [("weight_hh_l0", "r"), ("weight_hh_l1", "n")])
def test_a_constraint_added_to_a_copy_leaves_the_first_as_it_was(name, rows):
    first = constrain(nn.GRU(4, 4, 2), "weight_hh_l0", ScaledCayley, rows="n")
    x = torch.ones(5, 2, 4)
    before, names = first(x)[0], list(first.state_dict())
    copies = [copy.deepcopy(first) for _ in range(3)]
    for each in copies[:2]:
        constrain(each, name, ScaledCayley, rows=rows)
    weight_drop(copies[2], 0.5)
    assert all(torch.isfinite(each(x)[0]).all() for each in copies)
    assert list(first.state_dict()) == names
    assert torch.equal(first(x)[0], before)


@each_module
def test_a_state_dict_transfers_everything(make, name, rows):
    source, target = (constrain(make(), name, ScaledCayley, rows) for _ in range(2))
    train(source)
    target.load_state_dict(source.state_dict())
    assert torch.equal(run(target), run(source))


@each_module
def test_assigning_to_the_attribute_sets_the_matrix(make, name, rows):
    module = constrain(make(), name, ScaledCayley, rows)
    other = getattr(constrain(make(), name, ScaledCayley, rows), name).detach().clone()
    setattr(module, name, other)
    difference = torch.linalg.matrix_norm(getattr(module, name) - other)
    assert difference <= tol(torch.float32, N)


@each_module
def test_a_constrained_module_equals_a_plain_one_with_its_matrix(make, name, rows):
    module = constrain(make(), name, ScaledCayley, rows)
    train(module)
    plain = make()
    values = {key: getattr(module, key) for key, _ in plain.named_parameters()}
    plain.load_state_dict(values)
    assert torch.equal(run(module), run(plain))


def reference_lstm(x, weights):
    U, W, b, c = weights
    h = cell = x.new_zeros(x.shape[1], N)
    states = []
    for x_t in x:
        i, f, g, o = (x_t @ U.T + b + h @ W.T + c).chunk(4, dim=1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(cell)
        states.append(h)
    return torch.stack(states)


def test_the_gradient_of_a_layer_reaches_the_raw_parameters():
    lstm = constrained_lstm().double()
    raw = lstm.parametrizations.weight_hh_l0[0].constraints[0].raw
    x = inputs_of(lstm).double()
    expected = torch.autograd.grad(reference_lstm(x, lstm.all_weights[0]).sum(), raw)[0]
    lstm(x)[0].sum().backward()
    torch.testing.assert_close(raw.grad, expected, rtol=0, atol=tol(torch.float64, N * len(x)))


def test_each_direction_can_have_its_own_constraint():
    lstm = nn.LSTM(3, N, bidirectional=True)
    for name in ("weight_hh_l0", "weight_hh_l0_reverse"):
        constrain(lstm, name, ScaledCayley, rows="g")
    train(lstm)
    forward, backward = (
        getattr(lstm, name)[2 * N : 3 * N] for name in ("weight_hh_l0", "weight_hh_l0_reverse")
    )
    assert is_orthogonal(forward)
    assert is_orthogonal(backward)
    assert not torch.equal(forward, backward)


@pytest.mark.parametrize("gates", ["if", "fi", "go", "io", "ifgo", "ogfi"])
def test_several_gates_of_one_matrix_can_be_constrained_in_any_order(gates):
    lstm = nn.LSTM(3, N)
    for gate in gates:
        constrain(lstm, "weight_hh_l0", ScaledCayley, rows=gate)
    train(lstm)
    orthogonal = [is_orthogonal(block_of(lstm.weight_hh_l0, gate)) for gate in "ifgo"]
    assert orthogonal == [gate in gates for gate in "ifgo"]


def test_a_layer_with_a_moving_base_resumes_exactly_after_saving_and_loading():
    make = partial(constrained_lstm, partial(Exponential, period=3))
    lstm = make()
    optimiser = torch.optim.Adam(lstm.parameters())
    train(lstm, 4, optimiser)
    file = io.BytesIO()
    torch.save([lstm.state_dict(), optimiser.state_dict()], file)
    train(lstm, 5, optimiser)

    resumed = make()
    optimiser = torch.optim.Adam(resumed.parameters())
    file.seek(0)
    for target, state in zip(
        (resumed, optimiser), torch.load(file, weights_only=True), strict=True
    ):
        target.load_state_dict(state)
    train(resumed, 5, optimiser)
    assert torch.equal(resumed.weight_hh_l0, lstm.weight_hh_l0)
    assert torch.equal(run(resumed), run(lstm))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_constrained_layer_can_change_its_dtype(dtype):
    lstm = constrained_lstm().to(dtype)
    assert lstm(inputs_of(lstm).to(dtype))[0].dtype == dtype


def test_a_layer_of_sixteen_bits_keeps_its_raw_parameters_in_float32():
    lstm = constrained_lstm().bfloat16()
    constraint = lstm.parametrizations.weight_hh_l0[0].constraints[0]
    assert constraint.raw.dtype == torch.float32
    assert is_orthogonal(constraint())


def test_a_double_precision_matrix_gets_a_double_precision_constraint():
    linear = constrain(nn.Linear(N, N).double(), "weight", partial(Exponential, init="haar"))
    assert linear.weight.dtype == torch.float64
    assert orthogonality_error(linear.weight) <= tol(torch.float64, N)


RECURRENT = {name: case for name, case in MODULES.items() if isinstance(case[0](), nn.RNNBase)}


@pytest.mark.parametrize(("make", "name", "rows"), RECURRENT.values(), ids=RECURRENT)
def test_the_constraint_runs_once_per_forward_pass(make, name, rows):
    module = constrain(make(), name, ScaledCayley, rows)
    calls = []
    constraint = module.parametrizations[name][0].constraints[0]
    constraint.register_forward_hook(lambda *_: calls.append(1))
    run(module)
    assert calls == [1]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
@pytest.mark.parametrize("part", ["layer", "constraint"])
def test_after_an_interrupted_pass_the_matrix_is_that_of_the_constraint(error, part):
    module = constrained_lstm()
    constraint = module.parametrizations.weight_hh_l0[0].constraints[0]

    def interrupt(*_):
        raise error

    interrupted = {"layer": module, "constraint": constraint}[part]
    handle = interrupted.register_forward_hook(interrupt)
    with pytest.raises(error):
        run(module)
    handle.remove()
    for _ in range(2):  # a penalty on W has a graph of its own each time
        module.weight_hh_l0.square().sum().backward()
    train(module)
    assert torch.equal(block_of(module.weight_hh_l0, "g"), constraint())


@pytest.mark.parametrize(("make", "name", "rows"), RECURRENT.values(), ids=RECURRENT)
def test_threads_that_share_a_layer_agree_with_one_thread(make, name, rows):
    module = constrain(make(), name, ScaledCayley, rows)
    parameters = [*module.parameters()]

    def results(_=None):
        output = run(module)
        return output.detach(), *torch.autograd.grad(output.square().sum(), parameters)

    expected = results()
    with ThreadPoolExecutor(4) as pool:
        for got in pool.map(results, range(100)):
            assert all(map(torch.equal, got, expected))


# torch's own compiler still scripts some of its modules
@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_a_compiled_layer_agrees():
    torch.compiler.reset()
    module = constrained_lstm()
    x = inputs_of(module)
    compiled = torch.compile(module, backend="aot_eager")
    torch.testing.assert_close(compiled(x)[0], module(x)[0])


def test_a_layer_still_runs_after_its_parametrisation_is_removed():
    module = constrained_lstm()
    train(module)
    expected = run(module)
    nn.utils.parametrize.remove_parametrizations(module, "weight_hh_l0")
    assert torch.equal(run(module), expected)


def test_a_matrix_outside_the_set_is_rejected_and_changes_nothing():
    lstm = constrained_lstm()
    before = lstm.weight_hh_l0.detach().clone()
    with pytest.raises(NotInSetError, match="ScaledCayley"):
        lstm.weight_hh_l0 = torch.ones(4 * N, N)
    assert torch.equal(lstm.weight_hh_l0, before)


def with_buffer():
    module = nn.Module()
    module.register_buffer("matrix", torch.eye(N))
    return module


REJECTED = {
    "no such name": (nn.Linear(N, N), ("wait", ScaledCayley), ValueError, "got 'wait'"),
    "all rows of a tall matrix": (
        nn.GRU(3, N),
        ("weight_hh_l0", ScaledCayley),
        ValueError,
        "got 12 of 12",
    ),
    "rows apart": (
        nn.GRU(3, N),
        ("weight_hh_l0", ScaledCayley, slice(0, 8, 2)),
        ValueError,
        "4 adjacent",
    ),
    "a gate of another layer": (
        nn.GRU(3, N),
        ("weight_hh_l0", ScaledCayley, "g"),
        ValueError,
        "got 'g'",
    ),
    "complex": (nn.RNN(3, N), ("weight_hh_l0", FourierProduct), ValueError, "Fourier"),
    "complex weight": (
        nn.Linear(N, N, dtype=torch.complex64),
        ("weight", ScaledCayley),
        ValueError,
        "real numbers, got weight of torch.complex64",
    ),
    "buffer": (with_buffer(), ("matrix", ScaledCayley), ValueError, "matrix to be a parameter"),
    "spectral norm": (
        nn.utils.spectral_norm(nn.Linear(N, N)),
        ("weight", ScaledCayley),
        ValueError,
        "Where weight_norm, spectral_norm",
    ),
    "pruned": (
        prune.random_unstructured(nn.Linear(N, N), "weight", 0.5),
        ("weight", ScaledCayley),
        ValueError,
        "or pruning computes it, remove that first",
    ),
    "no constraint": (nn.Linear(N, N), ("weight", nn.Identity), TypeError, "Identity"),
}


@pytest.mark.parametrize(
    ("module", "arguments", "error", "message"), REJECTED.values(), ids=REJECTED.keys()
)
def test_rows_that_are_not_a_square_block_are_rejected(module, arguments, error, message):
    with pytest.raises(error, match=message):
        constrain(module, *arguments)


@pytest.mark.parametrize("constrained", [[], ["g"]], ids=str)
def test_free_rows_of_a_frozen_module_stay_frozen(constrained):
    module = nn.LSTM(3, N)
    for rows in constrained:
        constrain(module, "weight_hh_l0", ScaledCayley, rows)
    module.requires_grad_(requires_grad=False)
    constrain(module, "weight_hh_l0", ScaledCayley, "i")
    trained = [name for name, weight in module.named_parameters() if weight.requires_grad]
    assert trained == ["parametrizations.weight_hh_l0.0.constraints.0.raw"]


def test_a_parameter_with_two_names_is_constrained_by_either():
    module = nn.Linear(N, N)
    module.second = module.weight
    W = constrain(module, "second", ScaledCayley).second
    assert orthogonality_error(W) < tol(torch.float32, N)


@pytest.mark.filterwarnings("ignore:Complex modules are a new feature:UserWarning")
def test_the_raw_parameters_of_a_set_stay_real():
    with pytest.raises(TypeError, match=r"expected a real type .* got torch.complex64"):
        ScaledCayley(N).to(torch.complex64)


@pytest.mark.parametrize("rows", ["g", slice(2 * N - 1, 3 * N - 1), slice(2 * N + 1, 3 * N + 1)])
def test_rows_that_overlap_with_constrained_ones_are_rejected(rows):
    with pytest.raises(ValueError, match="rows 8:12 of weight_hh_l0"):
        constrain(constrained_lstm(), "weight_hh_l0", ScaledCayley, rows)


def test_a_matrix_with_another_parametrisation_is_rejected():
    module = nn.utils.parametrizations.weight_norm(nn.Linear(N, N))
    with pytest.raises(ValueError, match="got one param"):
        constrain(module, "weight", ScaledCayley)
