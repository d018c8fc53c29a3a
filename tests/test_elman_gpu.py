"""The Triton kernels of the Elman recurrence agree with the reference.

They run in Triton's interpreter or, with TRITON_INTERPRET=0, on the GPU.
"""

import dataclasses
import importlib
import sys

import pytest
import torch

from cases import NONLINEARITIES
from eigenrnn.init import haar_
from eigenrnn.layers import RNN
from eigenrnn.ops import elman, explain
from eigenrnn.ops import gpu as gpu_calls
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.dispatch import Call
from eigenrnn.ops.elman import BACKENDS, ElmanOperands, gpu
from eigenrnn.ops.elman.operands import plain_arguments
from eigenrnn.ops.gpu import pieces, sequence_lengths
from kernel_testing import (
    DEVICE,
    INTERPRETED,
    assert_near,
    each_direction,
    each_raggedness,
    normal,
    python,
    ragged_sizes,
    registers,
    same,
    tol,
    unavailable,
)

pytestmark = [
    pytest.mark.usefixtures("fresh_memory_is_poisoned"),
    pytest.mark.skipif(unavailable() is not None, reason=f"needs Triton: {unavailable()}"),
    # numpy warns when the interpreter computes values that are not finite
    pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning"),
]

NAMES = ("x", "W", "h0", "bias", "U", "c")
SIXTEEN = [torch.float16, torch.bfloat16]
# the interpreter truncates to bfloat16; a GPU rounds
ONE_ROUNDING = {
    torch.float16: torch.finfo(torch.float16).eps / 2,
    torch.bfloat16: torch.finfo(torch.bfloat16).eps,
}
CALL = Call(DEVICE, torch.float32, "tanh", transformed=False, state_size=3)

each_nonlinearity = pytest.mark.parametrize("case", NONLINEARITIES)


def operands(T, B, N, dtype=torch.float32, *, bias=False, M=None, seed=0):
    """Inputs, a unitary matrix, an initial state, a bias, an input map and its bias, or None."""
    generator = torch.Generator().manual_seed(seed)
    W = haar_(torch.empty(N, N, dtype=torch.float64), generator=generator)
    if dtype.is_complex:
        W = W * torch.exp(1j * torch.arange(N, dtype=torch.float64))
    real = dtype.to_real()
    x = normal(generator, (T, B, N if M is None else M), dtype if M is None else real)
    h0 = normal(generator, (B, N), dtype)
    b = normal(generator, (N,), real) / 2 if bias else None
    U = None if M is None else normal(generator, (N, M), dtype) / M**0.5
    c = None if M is None else normal(generator, (N,), dtype) / 2
    return [x, W.to(DEVICE, dtype), h0, b, U, c]


def operands_of(case, shape, dtype=torch.float32, *, M=None):
    return operands(*shape, dtype, bias=NONLINEARITIES[case][1], M=M)


def options_of(case, shape, *, reverse=False, ragged=False):
    T, B, _ = shape
    return NONLINEARITIES[case][0], ragged_sizes(T, B) if ragged else None, reverse


def evaluated(backend, tensors, options):
    """Return all states, the last states and the gradients of all tensors, by name."""
    leaves = [None if v is None else v.detach().requires_grad_() for v in tensors]
    h, last = backend.run(ElmanOperands(*leaves), Options(*options))
    present = {name: v for name, v in zip(NAMES, leaves, strict=True) if v is not None}
    generator = torch.Generator().manual_seed(7)
    weights = tuple(normal(generator, v.shape, v.dtype) for v in (h, last))
    found = torch.autograd.grad((h, last), tuple(present.values()), weights)
    values = {"h": h.detach(), "last": last.detach()}
    return values | dict(zip((f"d{name}" for name in present), found, strict=True))


def wider(tensor):
    if tensor is None:
        return None
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def assert_equals_reference(tensors, options, bound=None):
    got = evaluated(BACKENDS["gpu"], tensors, options)
    T, _, N = got["h"].shape
    expected = evaluated(BACKENDS["reference"], [wider(v) for v in tensors], options)
    # rounding errors accumulate over T steps, each with a sum over N
    assert_near(got, expected, tol(tensors[1].dtype, T + N) if bound is None else bound)


# --------------------------------------------------------------- comparison with the reference


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@each_nonlinearity
def test_a_kernel_gives_the_values_and_gradients_of_the_reference(case, dtype):
    shape = 3, 2, 33
    assert_equals_reference(operands_of(case, shape, dtype), options_of(case, shape))


@each_raggedness
@each_direction
@pytest.mark.parametrize("M", [None, 2], ids=["no map", "two channels"])
def test_a_kernel_agrees_in_both_directions(M, reverse, ragged):
    shape = 5, 4, 17
    options = options_of("elu", shape, reverse=reverse, ragged=ragged)
    assert_equals_reference(operands_of("elu", shape, M=M), options)


@pytest.mark.parametrize(
    "shape",
    ["1x1x1", "2x3x2", "9x1x3", "1x17x31", "1x33x16", "2x3x65", "2x1x128", "2x2x129", "9x1x170"],
)
def test_a_kernel_agrees_at_odd_sizes(shape):
    shape = tuple(map(int, shape.split("x")))
    assert_equals_reference(operands(*shape), options_of("tanh", shape, ragged=True))


@each_raggedness
@each_direction
@pytest.mark.parametrize("M", [None, 1], ids=["no map", "one channel"])
def test_a_kernel_agrees_for_complex_states(M, reverse, ragged):
    case, shape = "modrelu", (3, 2, 9)
    tensors = operands_of(case, shape, torch.complex128, M=M)
    assert_equals_reference(tensors, options_of(case, shape, reverse=reverse, ragged=ragged))


@pytest.mark.parametrize("case", ["modrelu-no-bias", "identity"])
def test_a_kernel_agrees_for_complex_states_without_a_bias(case):
    shape = 3, 2, 9
    assert_equals_reference(operands_of(case, shape, torch.complex128), options_of(case, shape))


def test_a_kernel_agrees_for_complex_states_of_two_pieces():
    shape = 2, 2, 85
    tensors = operands_of("modrelu", shape, torch.complex64)
    assert_equals_reference(tensors, options_of("modrelu", shape))


@pytest.mark.parametrize("dtype", SIXTEEN, ids=str)
@pytest.mark.parametrize("case", ["tanh", "modrelu-no-bias"])
def test_sixteen_bit_inputs_have_float32_sums_and_states(case, dtype):
    shape = 9, 2, 33
    tensors, options = operands_of(case, shape, dtype), options_of(case, shape)
    got = evaluated(BACKENDS["gpu"], tensors, options)
    assert all(found.dtype == dtype for found in got.values())
    expected = evaluated(BACKENDS["reference"], [wider(v) for v in tensors], options)
    # the states are rounded once, for any number of steps
    for name in ("h", "last"):
        error = (got[name].double() - expected[name]).abs().max()
        assert error <= ONE_ROUNDING[dtype] * 1.01 * expected[name].abs().max()
    # gradients depend on states and gradients that were rounded once
    assert_near(got, expected, 4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("sizes", [[3, 2, 2, 0], [3, 0, 0, 0], [3, 3, 3, 0]], ids=str)
@each_direction
def test_steps_at_which_no_sequence_runs_give_zeros(sizes, reverse):
    assert_equals_reference(operands(4, 3, 2, torch.float64), ("tanh", sizes, reverse))


def test_an_empty_batch_gives_empty_states_and_no_gradient():
    got = evaluated(BACKENDS["gpu"], operands(4, 0, 3), ("tanh", None, False))
    assert got["h"].shape == (4, 0, 3)
    assert not any(found.any() for found in got.values())


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf], ids=str)
@pytest.mark.parametrize("case", ["modrelu", "tanh", "relu", "elu"])
def test_non_finite_values_spread_as_in_the_reference(case, value):
    shape = 3, 2, 3
    tensors = operands_of(case, shape)
    tensors[0][1, 1, 0] = value
    got, expected = (
        backend.run(ElmanOperands(*tensors), Options(*options_of(case, shape)))
        for backend in (BACKENDS["gpu"], BACKENDS["reference"])
    )
    assert got[0][:, :1].isfinite().all()
    bound = tol(torch.float32, sum(shape))
    torch.testing.assert_close(got, expected, rtol=bound, atol=bound, equal_nan=True)


def test_infinite_values_do_not_spread_through_the_padding():
    x = torch.zeros(4, 1, 2, device=DEVICE)
    x[0, 0, 0] = torch.inf
    h, _ = elman(x, torch.ones_like(x[0]).expand(2, 2), nonlinearity="relu", backend="gpu")
    assert h[1:].isposinf().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["tanh", "elu"])
def test_small_and_large_numbers_are_accurate(name, dtype):
    size = torch.logspace(-30, 3, 128, dtype=torch.float64, device=DEVICE).to(dtype)
    x = torch.stack([size, -size]).unsqueeze(0)
    W = x.new_zeros(128, 128)
    h, _ = elman(x, W, nonlinearity=name, backend="gpu")
    expected, _ = elman(x.double(), W.double(), nonlinearity=name, backend="reference")
    torch.testing.assert_close(h.double(), expected, rtol=tol(dtype, 1), atol=0)


# ------------------------------------------------------------------------------------- strides


def every_second(tensor):
    return torch.stack([tensor, tensor], dim=-1)[..., 0]


LAYOUTS = {
    "batch first": {"x": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1)},
    "gaps": {"x": lambda x: torch.nn.functional.pad(x, (0, 0, 0, 3, 0, 2))[:-2, :-3]},
    "transposed matrix": {"W": lambda W: W.T.contiguous().T},
    "expanded": {name: lambda v: v[:1].expand_as(v) for name in ("x", "h0", "bias")},
    "every second": dict.fromkeys(NAMES, every_second),
}


@each_raggedness
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_strides_do_not_change_the_results(layout, ragged):
    shape = 3, 2, 5
    tensors = [
        v if v is None else layout.get(name, torch.clone)(v)
        for name, v in zip(NAMES, operands_of("modrelu", shape, torch.float64), strict=True)
    ]
    assert_equals_reference(tensors, options_of("modrelu", shape, ragged=ragged))


def test_batch_first_tensors_are_read_without_copies(monkeypatch):
    seen = []
    launch = gpu.launch

    def recorded_launch(kernel, B, N, arguments, *rest):
        seen.append(arguments[0])
        launch(kernel, B, N, arguments, *rest)

    monkeypatch.setattr(gpu, "launch", recorded_launch)
    x, W, *_ = operands(3, 2, 5)
    x = LAYOUTS["batch first"]["x"](x).requires_grad_()
    h, _ = elman(x, W, nonlinearity="tanh", backend="gpu")
    g = LAYOUTS["batch first"]["x"](torch.ones_like(h))
    h.backward(g)
    assert [v.data_ptr() for v in seen] == [x.data_ptr(), g.data_ptr()]


def test_an_expanded_gradient_equals_a_full_one():
    leaves = [v.requires_grad_() for v in operands(3, 2, 5)[:3]]
    h, _ = elman(*leaves, nonlinearity="tanh", backend="gpu")
    expanded = torch.autograd.grad(h.sum(), leaves, retain_graph=True)
    full = torch.autograd.grad(h, leaves, torch.ones_like(h))
    assert all(map(torch.equal, expanded, full))


def test_inputs_are_not_modified():
    tensors = operands_of("modrelu", (3, 2, 5), M=3)
    before = [tensor.clone() for tensor in tensors]
    evaluated(BACKENDS["gpu"], tensors, ("modrelu", None, False))
    assert all(map(torch.equal, tensors, before))


# ----------------------------------------------------------------------------- reproducibility


def test_every_run_gives_the_same_bits():
    shape = 5, 3, 40
    tensors, options = operands_of("elu", shape), options_of("elu", shape, ragged=True)
    once, again = (evaluated(BACKENDS["gpu"], tensors, options) for _ in range(2))
    assert same(once, again) == []


def test_a_sequence_does_not_depend_on_its_batch():
    x, W, h0, *others = operands(5, 3, 40)
    whole = evaluated(BACKENDS["gpu"], [x, W, h0, *others], ("tanh", None, False))
    h, last = BACKENDS["gpu"].run(ElmanOperands(x[:, 1:2], W, h0[1:2], *others), Options("tanh"))
    assert torch.equal(h[:, 0], whole["h"][:, 1])
    assert torch.equal(last[0], whole["last"][1])


# -------------------------------------------------------------------------- second derivatives


@pytest.mark.parametrize(
    ("case", "reverse", "ragged"),
    [("modrelu", False, True), ("tanh", True, True), ("tanh", False, False)],
    ids=str,
)
def test_it_can_be_differentiated_twice(case, reverse, ragged):
    shape = 2, 2, 2
    tensors = [v for v in operands_of(case, shape, torch.float64) if v is not None]
    name, sizes, reverse = options_of(case, shape, reverse=reverse, ragged=ragged)

    def run(*tensors):
        return elman(
            *tensors, nonlinearity=name, batch_sizes=sizes, reverse=reverse, backend="gpu"
        )

    leaves = [v.requires_grad_() for v in tensors]
    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


def test_complex_states_can_be_differentiated_twice():
    leaves = [v.requires_grad_() for v in operands_of("modrelu", (2, 1, 2), torch.complex128)[:4]]

    def run(*tensors):
        return elman(*tensors, nonlinearity="modrelu", backend="gpu")

    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


def test_batched_gradients_equal_single_ones():
    leaves = [v.requires_grad_() for v in operands(3, 2, 3, torch.float64)[:3]]
    h, _ = elman(*leaves, nonlinearity="tanh", backend="gpu")
    weights = torch.stack([torch.ones_like(h), h.detach()])
    batched = torch.autograd.grad(h, leaves, weights, retain_graph=True, is_grads_batched=True)
    for i, one in enumerate(weights):
        found = torch.autograd.grad(h, leaves, one, retain_graph=True)
        bound = tol(torch.float64, 9)
        torch.testing.assert_close([v[i] for v in batched], list(found), rtol=bound, atol=bound)


# ---------------------------------------------------------------------- integration with torch


@pytest.mark.parametrize("sizes", [None, [2, 1, 1]], ids=["full", "ragged"])
def test_the_operators_pass_opcheck(sizes):
    leaves = ElmanOperands(*(v.requires_grad_() for v in operands(3, 2, 3, bias=True, M=3)))
    options = Options("modrelu", sizes)
    torch.library.opcheck(gpu.elman_gpu, plain_arguments(leaves, options))
    tensors = ElmanOperands(*(v if v is None else v.detach() for v in leaves))
    h, moduli = gpu.elman_gpu(*plain_arguments(tensors, options))
    needed = [v is not None for v in tensors[:8]]
    arguments = h, h, moduli, *plain_arguments(tensors, options), needed
    torch.library.opcheck(gpu._elman_gpu_backward, arguments)


def test_a_compiled_layer_gives_the_same():
    layer = RNN(2, 3, backend="gpu").to(DEVICE)
    x = normal(torch.Generator().manual_seed(0), (3, 2, 2), torch.float32)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    results = []
    for run in (layer, compiled):
        h = run(x)[0]
        results.append([h, *torch.autograd.grad(h.square().sum(), list(layer.parameters()))])
    torch.testing.assert_close(*results, rtol=tol(torch.float32, 3), atol=tol(torch.float32, 3))


@pytest.mark.parametrize("dtype", SIXTEEN, ids=str)
def test_autocast_runs_the_recurrence_in_float32(dtype):
    x, W, *_ = operands(3, 2, 3)
    rounded = x.to(dtype)
    with torch.autocast(DEVICE, dtype):
        h, _ = elman(rounded, W, nonlinearity="tanh", backend="gpu")
    expected, _ = elman(rounded.float(), W, nonlinearity="tanh", backend="gpu")
    assert torch.equal(h, expected)


def test_importing_eigenrnn_imports_no_triton_and_running_it_does():
    done = python(
        "-c",
        "import sys, eigenrnn, torch; before = 'triton' in sys.modules\n"
        f"x, W = torch.ones(2, 1, 3, device={DEVICE!r}), torch.eye(3, device={DEVICE!r})\n"
        "eigenrnn.ops.elman(x, W, backend='gpu')\n"
        "print(before, 'triton' in sys.modules)",
        PYTHONPATH="src",
    )
    assert done.stdout.split() == ["False", "True"], done.stderr


# --------------------------------------------------------------------------- unsupported calls


def rejection(**facts):
    return BACKENDS["gpu"].reason_against(dataclasses.replace(CALL, **facts))


def test_a_supported_call_is_not_rejected():
    assert rejection() is None
    assert rejection(state_size=192) is None
    assert rejection(state_size=128, dtype=torch.float64) is None


@pytest.mark.parametrize(
    ("facts", "limit"),
    [
        ({"state_size": 193}, 192),
        ({"state_size": 512, "dtype": torch.bfloat16}, 192),
        ({"state_size": 129, "dtype": torch.float64}, 128),
        ({"state_size": 129, "dtype": torch.complex128}, 128),
    ],
    ids=str,
)
def test_a_matrix_above_the_limit_is_rejected(facts, limit):
    reason = rejection(**facts)
    assert f"states of {facts['state_size']} numbers are too many" in reason
    assert reason.endswith(f"at most {limit}")


def test_complex_units_count_twice():
    x, W = (v.to(DEVICE) for v in (torch.ones(1, 1, 97) + 0j, torch.eye(97) + 0j))
    with pytest.raises(ValueError, match="backend 'gpu' can compute: states of 194 numbers"):
        elman(x, W, nonlinearity="identity", backend="gpu")


def test_tensors_on_another_device_are_rejected():
    assert "they are on meta" in rejection(device="meta")


def test_a_transform_is_rejected():
    assert rejection(transformed=True).startswith("torch.func transforms")


def test_layer_norm_and_zoneout_are_rejected():
    assert rejection(features=("layer_norm",)) == "it does not compute layer_norm"


def test_without_the_interpreter_cpu_tensors_are_rejected_and_gpu_tensors_are_not(monkeypatch):
    monkeypatch.setattr(gpu_calls, "INTERPRETED", False)
    here = dataclasses.replace(CALL, device="cpu")
    rejected = "it needs tensors on a CUDA device, and they are on cpu"
    assert explain(BACKENDS, here)["gpu"] == rejected
    assert BACKENDS["gpu"].reason_against(dataclasses.replace(CALL, device="cuda")) is None


def test_without_triton_another_backend_is_chosen_and_the_error_says_why():
    done = python(
        "-c",
        "import sys; sys.modules['triton'] = None\n"
        "import torch\n"
        "from eigenrnn.layers import RNN\n"
        "print(RNN(2, 3).explain(torch.ones(2, 1, 2))['gpu'])\n"
        "RNN(2, 3, backend='gpu')(torch.ones(2, 1, 2))",
    )
    assert done.stdout.startswith("Triton is not installed: pip install triton")
    assert "backend 'gpu' can compute: Triton is not installed" in done.stderr


@pytest.mark.parametrize("devices", [0, 1])
def test_triton_is_recommended_only_if_there_is_a_gpu(devices, monkeypatch):
    monkeypatch.setattr(gpu_calls, "INTERPRETED", False)
    monkeypatch.setattr(gpu_calls, "find_spec", lambda _: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: devices)
    assert ("pip install triton" in gpu_calls._triton_unavailable()) == bool(devices)


def test_a_triton_that_is_too_old_is_unavailable(monkeypatch):
    monkeypatch.setattr(gpu_calls, "version", lambda _: "3.3.1")
    assert gpu_calls._triton_unavailable() == (
        "expected Triton 3.4 or newer, which comes with torch 2.8, got 3.3.1"
    )


def test_setting_the_interpreter_after_import_is_rejected(monkeypatch):
    monkeypatch.setattr(gpu_calls, "INTERPRETED", not INTERPRETED)
    monkeypatch.delitem(sys.modules, "eigenrnn.ops.triton_functions", raising=False)
    with pytest.raises(RuntimeError, match="expected TRITON_INTERPRET to stay as it was"):
        importlib.import_module("eigenrnn.ops.triton_functions")


def test_amd_is_rejected(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.0")
    assert rejection() == "its kernels support only NVIDIA GPUs"


@pytest.mark.parametrize(
    ("interpreted", "device", "why"),
    [(True, "cpu", "Triton's interpreter is for tests"), (False, "cuda", "it has never been run")],
)
def test_it_is_chosen_only_by_name(monkeypatch, interpreted, device, why):
    monkeypatch.setattr(gpu_calls, "INTERPRETED", interpreted)
    call = dataclasses.replace(CALL, device=device)
    assert explain(BACKENDS, call)["gpu"].startswith(why)
    assert explain(BACKENDS, call, "gpu")["gpu"] == "chosen"


@pytest.mark.parametrize(("B", "N", "rounds"), [(2048, 170, 16), (1980, 170, 15), (2048, 200, 16)])
def test_a_batch_of_too_many_rounds_is_expected_to_be_slow(B, N, rounds, monkeypatch):
    monkeypatch.setattr(gpu_calls, "INTERPRETED", False)
    monkeypatch.setattr(gpu_calls, "multiprocessors", lambda: 132)
    call = dataclasses.replace(CALL, device="cuda", batch_size=B, state_size=N)
    reason = BACKENDS["gpu"].experimental(call)
    slow = f"{B} sequences take {rounds} rounds on 132 multiprocessors"
    assert reason.startswith(slow if rounds > 15 and N <= 192 else "it has never been run")


def test_the_choice_of_a_backend_knows_the_batch_size():
    call = Call.of(torch.ones(5, 3, 2), "tanh", state_size=2)
    assert call.batch_size == 3


# ------------------------------------------------------------ the loop with one launch for modReLU


@pytest.fixture
def triton_pointwise():
    return importlib.import_module("eigenrnn.ops.triton_pointwise")  # needs Triton


@pytest.mark.parametrize("N", [5, 300])
def test_a_loop_of_products_and_fused_kernels_agrees_with_the_reference(
    N, monkeypatch, triton_pointwise
):
    launched = []
    for name in ("modrelu_", "modrelu_backward_"):
        fused = getattr(triton_pointwise, name)
        monkeypatch.setattr(
            triton_pointwise, name, lambda *v, f=fused: (launched.append(f.__name__), f(*v))
        )
    monkeypatch.setattr(gpu_calls, "fused_steps", True)
    tensors, options = operands(3, 2, N, bias=True), options_of("modrelu", (3, 2, N), ragged=True)
    got = evaluated(BACKENDS["loop"], tensors, options)
    assert launched == ["modrelu_"] * 3 + ["modrelu_backward_"] * 3
    expected = evaluated(BACKENDS["reference"], [wider(v) for v in tensors], options)
    assert_near(got, expected, tol(torch.float32, 3 + N))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, 0.0], ids=str)
def test_a_fused_kernel_gives_what_the_operations_give(value, triton_pointwise):
    z, g = torch.tensor([[value, -2.0, 0.25]] * 2, device=DEVICE), torch.ones(2, 6, device=DEVICE)
    bias = torch.tensor([0.5, -1.0, -1.0], device=DEVICE)
    expected = torch.relu(z.abs() + bias) * z.sgn()
    triton_pointwise.modrelu_(z, bias)
    torch.testing.assert_close(z, expected, equal_nan=True)
    rows = g[:, ::1][:, 3:]  # rows with gaps, as the gates of a GRU have
    triton_pointwise.modrelu_backward_(rows, z)
    assert torch.equal(rows, (expected != 0).float())
    assert g[:, :3].all()


# ----------------------------------------------------------------------------------- launching


@pytest.mark.parametrize("sizes", [[3, 3, 2], [4, 1, 1, 1], [2, 2, 0], [1]], ids=str)
def test_lengths_follow_from_the_batch_sizes(sizes):
    B = sizes[0]
    expected = [sum(size > b for size in sizes) for b in range(B)]
    assert sequence_lengths(sizes, B, torch.device(DEVICE)).tolist() == expected


def test_pieces_are_powers_of_two_that_hold_all_units():
    for N in range(1, BACKENDS["gpu"].limits[torch.float32] + 1):
        sizes = pieces(N)
        assert all(size & (size - 1) == 0 for size in sizes)
        assert sum(sizes[:-1]) < N <= sum(sizes)


def test_with_fewer_barriers_a_kernel_agrees_with_the_reference(monkeypatch):
    monkeypatch.setattr(gpu_calls, "fewer_barriers", True)
    for shape, reverse in (((3, 2, 131), True), ((2, 1, 170), False)):
        sizes, rows = gpu_calls.layout(shape[2], torch.float32)
        assert (len(sizes), sum(rows)) == (1, -(-shape[2] // 16) * 16)
        options = options_of("tanh", shape, reverse=reverse, ragged=True)
        assert_equals_reference(operands(*shape), options)


def test_where_fewer_barriers_need_too_many_registers_the_layout_is_the_usual_one(monkeypatch):
    usual = gpu_calls.layout(177, torch.float32)
    monkeypatch.setattr(gpu_calls, "fewer_barriers", True)
    assert gpu_calls.layout(177, torch.float32) == usual == ((128, 64), (128, 64))
    assert gpu_calls.layout(128, torch.float64) == ((128,), (128,))


def test_with_fewer_barriers_a_step_has_six_and_no_register_spills():
    name = "elman:tanh:float32:176:90"
    for one in registers(name, EIGENRNN_FEWER_BARRIERS="1")[name].values():
        assert (one["stack"], one["barriers"]) == (0, 6)


def test_at_the_limit_no_register_spills():
    found = registers("elman:tanh:float32:190:80", "elman:modrelu_paired:float32:192:90")
    for both in found.values():
        assert all(one["stack"] == 0 and one["registers"] > 144 for one in both.values())


# ------------------------------------------------------------------------------------ on a GPU


@pytest.mark.gpu
def test_all_tests_pass_on_a_gpu():
    command = "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not gpu", __file__
    done = python(*command, TRITON_INTERPRET="0")
    assert done.returncode == 0, done.stdout
