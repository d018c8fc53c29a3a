"""What a GPU launches, as counted below the dispatcher; the values stay on the device."""

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from eigenrnn.layers import RNN
from eigenrnn.ops import elman, gru
from eigenrnn.ops.elman import loop as elman_loop
from eigenrnn.ops.elman.backward import bias_gradient
from eigenrnn.ops.gru import loop as gru_loop

OPERATORS = torch.ops.eigenrnn
INSIDE = {
    OPERATORS.elman_loop.default: elman_loop.elman_loop.call_forward,
    OPERATORS.elman_loop_backward.default: elman_loop.elman_loop.call_backward,
    OPERATORS.gru_loop.default: gru_loop.gru_loop.call_forward,
    OPERATORS.gru_loop_backward.default: gru_loop.gru_loop.call_backward,
}
BEFORE = {"reset_after": False, "update_keeps": False}
# the function, its gates, its states, its options; launches of a step forward and backward
CASES = {
    "tanh": (elman, 1, 1, {"nonlinearity": "tanh"}, 2, 2),
    "relu": (elman, 1, 1, {"nonlinearity": "relu"}, 2, 2),
    "modrelu": (elman, 1, 1, {"nonlinearity": "modrelu"}, 6, 3),
    "gru": (gru, 3, 1, {}, 5, 9),
    "nc-gru": (gru, 3, 1, BEFORE, 6, 11),
}


class Launches(TorchDispatchMode):
    """Counts the operations that compute or copy, also inside our operators."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in INSIDE:
            with self:
                return INSIDE[func](*args, **(kwargs or {}))
        if not func.is_view:
            self.counts[func] += 1
        return func(*args, **(kwargs or {}))


def launches(case, T):
    """Return the operations of a forward and of a backward pass."""
    function, gates, states, options, *_ = CASES[case]
    B, N = 3, 4
    shapes = (T, B, gates * N), (gates * N, N), *((B, N) for _ in range(states))
    leaves = [torch.randn(shape, requires_grad=True) for shape in shapes]
    if case == "modrelu":
        leaves.append(torch.randn(N, requires_grad=True))
    forward, backward = Launches(), Launches()
    with forward:
        h = function(*leaves, **options, backend="loop")[0]
    g = torch.ones_like(h)
    with backward:
        torch.autograd.grad(h, leaves, g)
    return forward.counts, backward.counts


@pytest.mark.parametrize("case", CASES)
def test_a_step_of_the_loop_launches_few_operations(case):
    (forward, backward), (forward_longer, backward_longer) = launches(case, 5), launches(case, 6)
    found = (forward_longer - forward).total(), (backward_longer - backward).total()
    assert found == CASES[case][4:]


@pytest.mark.parametrize("case", CASES)
def test_no_product_copies_its_bias_first(case):
    # `addmm` with another tensor than its result copies that tensor, which is one more launch
    names = {str(func) for counts in launches(case, 2) for func in counts}
    assert "aten.addmm_.default" in names
    assert "aten.addmm.out" not in names


def test_a_default_layer_reads_no_value_on_the_host():
    # meta tensors have none, so any branch on a value raises; a CUDA graph needs the same
    layer, x = RNN(2, 8).to("meta"), torch.empty(5, 3, 2, device="meta")
    counted = Launches()
    with counted:
        h, _ = layer(x)
        torch.autograd.grad(h.sum(), [*layer.parameters()])
    names = {str(func) for func in counted.counts}
    assert "aten._linalg_solve_ex.default" in names
    assert "aten.addmm_.default" in names  # the loop ran
    # `torch.linalg.solve` would check for errors, which waits for the device
    assert not names & {"aten._linalg_check_errors.default", "aten._local_scalar_dense.default"}


@pytest.mark.parametrize("T", [10, 1000])
def test_a_gpu_takes_the_bias_gradient_in_one_piece(T):
    steps, counted = torch.empty(T, 128, 170, device="meta"), Launches()
    with counted:
        bias_gradient(steps, steps, "modrelu")
    assert counted.counts.total() <= 5
