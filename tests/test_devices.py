"""Every constraint in a compiled layer, on the meta device and on a GPU."""

import copy

import pytest
import torch

from cases import ALL
from crossing import few
from eigenrnn.layers import RNN
from eigenrnn.linalg import tol
from random_constraints import (
    assert_same_state,
    distance,
    initialised,
    perturbed,
    state_of,
    stream,
    take_steps,
)

DOUBLE = torch.float64

# Sets whose maps have operators, conditions or buffers of their own.
COMPILED = ["dtriv-3-haar", "neumann-cayley", "schur-complex-clamped", "masked-dale"]

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


@each_case
def test_a_constraint_moved_from_the_meta_device_and_reset_is_initialised_normally(case):
    n = case.near(8)
    with torch.device("meta"):
        constraint = case(n)
    constraint.to_empty(device="cpu").reset(stream())
    expected = initialised(case, n)
    assert_same_state(state_of(constraint), state_of(expected))
    assert torch.equal(constraint(), expected())


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
