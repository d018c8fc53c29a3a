"""Constraints and layers on the meta device, in inference mode, compiled and on a GPU."""

import copy
from functools import partial

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from cases import ALL, CELLS, LAYERS, NAMED
from crossing import few
from eigenrnn import LanguageModel, LeakyRNN, ResidualStack, SequenceModel, constrain
from eigenrnn.constraints import Exponential, LowRank, Masked, ScaledCayley, Schur, Unconstrained
from eigenrnn.layers import GRU, LRU, NCGRU, RNN, ExpRNN, ScoRNN, ScuRNN
from eigenrnn.linalg import tol
from random_constraints import (
    assert_same_state,
    distance,
    initialised,
    perturbed,
    state_of,
    stream,
    take_steps,
    to_empty,
)

DOUBLE = torch.float64

pytestmark = pytest.mark.pairs

# Sets whose maps have operators, conditions or buffers of their own.
COMPILED = ["dtriv-3-haar", "schur"]

each_case = pytest.mark.parametrize("case", ALL.values(), ids=ALL)


def layer_of(case):
    return RNN(2, case.near(8), constraint=case, generator=stream(), dtype=DOUBLE)


def train(run, layer):
    """Train for four steps with one optimiser; return the outputs of each step."""
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.05)
    outputs = []
    for k in range(4):
        optimiser.zero_grad()
        output, _ = run(torch.randn(5, 3, 2, generator=stream(k), dtype=DOUBLE))
        output.square().mean().backward()
        optimiser.step()
        outputs.append(output.detach())
    return outputs


# torch's compiler triggers these warnings itself
@pytest.mark.filterwarnings(
    "ignore:.torch.jit.script",
    "ignore:.*autograd.function.Function.* should not be instantiated",
    "ignore:.torch._prims_common.check",
)
@few("case", ALL, COMPILED)
def test_a_compiled_layer_trains_as_in_eager_mode_without_graph_breaks(case):
    torch.compiler.reset()
    plain = layer_of(case)
    twin = copy.deepcopy(plain)
    compiled = torch.compile(twin, backend="aot_eager", fullgraph=True)
    for one, other in zip(train(plain, plain), train(compiled, twin), strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=100 * tol(DOUBLE, 8))


def built_there(make, *arguments):
    with torch.device("meta"):
        return make(*arguments)


def moved_there(make, *arguments):
    return make(*arguments).to("meta")


def load(module, state):
    to_empty(module).load_state_dict(state)


def assign(module, state):
    module.load_state_dict(copy.deepcopy(state), assign=True)


each_way_there = pytest.mark.parametrize("construct", [built_there, moved_there])
each_way_back = pytest.mark.parametrize("restore", [load, assign])


@each_way_there
@each_case
def test_a_constraint_moved_from_the_meta_device_and_reset_is_initialised_normally(
    case, construct
):
    n = case.near(8)
    constraint = to_empty(construct(case, n))
    constraint.reset(stream())
    expected = initialised(case, n)
    assert_same_state(state_of(constraint), state_of(expected))
    assert torch.equal(constraint(), expected())


@each_way_back
@each_way_there
@each_case
def test_a_constraint_loaded_on_the_meta_device_trains_like_its_original(case, construct, restore):
    original = perturbed(case, case.near(8))
    constraint = construct(case, case.near(8))
    restore(constraint, original.state_dict())
    assert torch.equal(constraint(), original())
    for each in (original, constraint):
        take_steps(each, torch.optim.SGD(each.parameters(), lr=0.01), range(5))
    assert_same_state(state_of(constraint), state_of(original))
    assert torch.equal(constraint(), original())


def built_by_option(make, *sizes):
    return make(*sizes, device="meta")


ALL_LAYERS = LAYERS | NAMED
each_layer = pytest.mark.parametrize("make", ALL_LAYERS.values(), ids=ALL_LAYERS)


def trained(layer):
    """Take three steps, and return the states after each."""
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.01)
    outputs = []
    for k in range(3):
        optimiser.zero_grad()
        output, _ = layer(torch.randn(5, 2, 3, generator=stream(k)))
        output.square().mean().backward()
        optimiser.step()
        outputs.append(output.detach())
    return torch.stack(outputs)


@each_way_back
@pytest.mark.parametrize("construct", [built_by_option, built_there])
@each_layer
def test_a_layer_loaded_on_the_meta_device_trains_like_its_original(make, construct, restore):
    original = make(3, 8)
    layer = construct(make, 3, 8)
    restore(layer, original.state_dict())
    assert torch.equal(trained(layer), trained(original))


NOISY = partial(LeakyRNN, nonlinearity="tanh", leak=0.3, noise=0.1)


@pytest.mark.parametrize("make", [*ALL_LAYERS.values(), NOISY], ids=[*ALL_LAYERS, "noisy"])
def test_a_layer_runs_on_the_meta_device(make):
    layer = make(3, 8, device="meta")
    output, _ = layer(torch.empty(5, 2, 3, device="meta"))
    assert output.is_meta
    output.sum().backward()
    assert all(p.grad.is_meta for p in layer.parameters())


@pytest.mark.parametrize("construct", [built_by_option, built_there])
@each_layer
def test_a_layer_moved_from_the_meta_device_and_reset_trains_like_a_new_one(make, construct):
    new = make(3, 8)
    layer = to_empty(construct(make, 3, 8))
    for each in (new, layer):
        torch.manual_seed(1)
        each.reset_parameters()
    assert torch.equal(trained(layer), trained(new))


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_a_cell_loaded_on_the_meta_device_equals_its_original(make):
    original = make(3, 8, constraint=ScaledCayley)
    cell = to_empty(make(3, 8, constraint=ScaledCayley, device="meta"))
    cell.load_state_dict(original.state_dict())
    x = torch.randn(2, 3)
    torch.testing.assert_close(cell(x), original(x), rtol=0, atol=0)


MODELS = {
    "stack": lambda: ResidualStack(lambda n: LRU(n, n), 8, 2, mixer="glu"),
    "stack, cayley": lambda: ResidualStack(lambda n: ScoRNN(n, n), 8, 2, norm="rms", mixer="mlp"),
    "sequences": lambda: SequenceModel(LeakyRNN(8, 8, nonlinearity="tanh", leak=0.2), 2),
    "text": lambda: LanguageModel(5, 4, [RNN(4, 8), GRU(8, 8, candidate=ScaledCayley)]),
    "gate of torch": lambda: constrain(torch.nn.GRU(8, 8), "weight_hh_l0", ScaledCayley, rows="z"),
    "square": lambda: constrain(torch.nn.Linear(8, 8), "weight", ScaledCayley),
}


@each_way_back
@each_way_there
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_loaded_on_the_meta_device_equals_its_original(make, construct, restore):
    original = make()
    model = construct(make)
    restore(model, original.state_dict())
    assert_same_state(state_of(model), state_of(original))
    x = torch.randn(6, 2, 8)
    if isinstance(model, LanguageModel):
        x = torch.randint(5, (6, 2))
    torch.testing.assert_close(model(x), original(x), rtol=0, atol=0)


def test_layers_are_made_of_pretended_tensors():
    with FakeTensorMode():
        output, _ = GRU(3, 4)(torch.empty(5, 2, 3))
    assert output.shape == (5, 2, 4)


@pytest.mark.parametrize("kind", [ScoRNN, ExpRNN, NCGRU, GRU])
def test_layers_of_the_processor_work_inside_a_block_of_meta(kind):
    layer = kind(3, 8)
    x = torch.randn(5, 2, 3)
    expected = layer(x)[0]
    other = kind(3, 8)
    with torch.device("meta"):
        state = layer.state_dict()
        other.load_state_dict(state, assign=True)
        found = other(x)[0]
    assert not any(value.is_meta for value in state.values())
    assert torch.equal(found, expected)


def test_parameters_may_be_copied_one_by_one_after_skip_init():
    original = LeakyRNN(3, 8, leak=0.2)
    torch.use_deterministic_algorithms(True)  # memory without values then holds NaN
    layer = torch.nn.utils.skip_init(LeakyRNN, 3, 8, leak=0.2)
    torch.use_deterministic_algorithms(False)
    with torch.no_grad():
        for own, value in zip(layer.parameters(), original.parameters(), strict=True):
            own.copy_(value)
    assert torch.equal(trained(layer), trained(original))


@pytest.mark.parametrize("plus", [torch.eye(8), torch.eye], ids=["tensor", "function"])
def test_a_fixed_matrix_survives_the_meta_device_without_a_load(plus):
    low_rank = to_empty(built_there(partial(LowRank, plus=plus), 8))
    assert torch.equal(low_rank.plus, torch.eye(8))


def test_a_loaded_mask_replaces_the_own_one_and_survives_the_meta_device():
    loaded = Masked(8, seed=1)
    constraint = Masked(8, seed=2)
    assert not torch.equal(constraint.mask, loaded.mask)
    constraint.load_state_dict(loaded.state_dict())
    assert torch.equal(to_empty(constraint.to("meta")).mask, loaded.mask)


def torch_state():
    """The state of a layer of torch with an orthogonal matrix of determinant one."""
    theirs = torch.nn.RNN(3, 8)
    constraint = ScaledCayley(8)
    theirs.weight_hh_l0.data.copy_(constraint())
    return theirs.state_dict()


each_from_torch = pytest.mark.parametrize(
    "constraint", [Unconstrained, ScaledCayley, Exponential, Schur]
)


@each_case
def test_a_constraint_loaded_in_inference_mode_trains_afterwards(case):
    original = perturbed(case, case.near(8))
    constraint = initialised(case, case.near(8), seed=3)
    state = state_of(original)
    with torch.inference_mode():
        constraint.load_state_dict(state)
    for each in (original, constraint):
        take_steps(each, torch.optim.SGD(each.parameters(), lr=0.01), range(5))
    assert_same_state(state_of(constraint), state_of(original))


@pytest.mark.parametrize("assign", [False, True])
@each_layer
def test_a_layer_loaded_in_inference_mode_trains_afterwards(make, assign):
    original = make(3, 8)
    layer = make(3, 8)
    state = state_of(original)
    with torch.inference_mode():
        layer.load_state_dict(state, assign=assign)
    assert torch.equal(trained(layer), trained(original))


@pytest.mark.parametrize("assign", [False, True])
@each_from_torch
def test_weights_of_torch_loaded_in_inference_mode_train_afterwards(constraint, assign):
    state = torch_state()
    layer = RNN(3, 8, nonlinearity="tanh", constraint=constraint)
    expected = copy.deepcopy(layer)
    expected.load_state_dict(state)
    with torch.inference_mode():
        layer.load_state_dict(state, assign=assign)
    assert torch.equal(trained(layer), trained(expected))


@each_from_torch
def test_weights_of_torch_are_assigned_to_a_layer_on_the_meta_device(constraint):
    state = torch_state()
    layer = RNN(3, 8, nonlinearity="tanh", constraint=constraint, device="meta")
    layer.load_state_dict(state, assign=True)
    assert distance(layer.weight_hh_l0, state["weight_hh_l0"]) <= tol(torch.float32, 8)
    assert not any(tensor.is_meta for tensor in layer.state_dict().values())
    trained(layer)


@pytest.mark.parametrize("method", ["reset", "freeze"])
@each_case
def test_a_layer_changed_in_inference_mode_trains_afterwards(case, method):
    layer = layer_of(case)
    with torch.inference_mode():
        getattr(layer, method)()
    before = copy.deepcopy(layer.train().state_dict())
    train(layer, layer)
    # a short step leaves each entry of a rounded matrix where it is
    assert any(not torch.equal(now, before[name]) for name, now in layer.state_dict().items())


CONSTANTS = {
    "low-rank": (partial(LowRank, plus=torch.full((4, 4), 0.1, dtype=DOUBLE)), "plus", 0.1),
    "schur": (partial(Schur, gamma="clamped", gamma_value=0.958), "gamma", 0.958),
}


@pytest.mark.parametrize(("make", "name", "value"), CONSTANTS.values(), ids=CONSTANTS)
def test_a_constant_is_exact_in_double_precision(make, name, value):
    constraint = make(4).double()
    assert (getattr(constraint, name) == value).all()


@pytest.mark.parametrize("make", [LRU, ScuRNN, ScoRNN], ids=["LRU", "ScuRNN", "ScoRNN"])
def test_a_frozen_matrix_stays_complex_in_a_move_to_a_real_dtype(make):
    layer, x = make(3, 8).freeze(), torch.randn(5, 2, 3)
    before = layer(x)[0]
    assert torch.equal(layer.to(torch.float32)(x)[0], before)
    twin = copy.deepcopy(layer).double()
    assert twin(x.double())[0].dtype == DOUBLE
    assert layer.to("meta").all_directions()[0].frozen.is_meta


def test_a_frozen_matrix_follows_a_move_to_double_precision():
    layer = RNN(3, 8)
    twin = copy.deepcopy(layer)
    layer.freeze().double()
    twin.double().freeze()
    x = torch.randn(5, 2, 3, dtype=DOUBLE)
    assert torch.equal(layer(x)[0], twin(x)[0])


@pytest.mark.gpu
@each_case
def test_a_constraint_moved_to_a_gpu_keeps_its_matrix_and_trains_there(case):
    constraint = perturbed(case, case.near(8))
    W = constraint().detach()
    constraint.to("cuda")
    tolerance = case.tol(torch.float32, constraint.size)
    assert constraint().device.type == "cuda"
    assert distance(constraint().cpu(), W) <= tolerance
    take_steps(constraint, torch.optim.Adam(constraint.parameters(), lr=0.01), range(20))
    assert constraint.residual(constraint()) <= tolerance
