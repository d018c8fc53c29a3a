"""The Triton kernels of the gated recurrence agree with the reference.

They run in Triton's interpreter or, with TRITON_INTERPRET=0, on the GPU.
"""

import dataclasses

import pytest
import torch

from cases import NONLINEARITIES
from eigenrnn.init import haar_
from eigenrnn.layers import GRU
from eigenrnn.ops import gpu as gpu_calls
from eigenrnn.ops import gru
from eigenrnn.ops.dispatch import Call
from eigenrnn.ops.gru import BACKENDS, GRUOperands, GRUOptions, gpu
from eigenrnn.ops.gru.operands import plain_arguments
from kernel_testing import (
    DEVICE,
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
]

NAMES = ("x", "W", "h0", "bias", "recurrent_bias", "U", "c")
# (reset after the candidate's matrix, update keeps the state)
FORMS = {
    "torch": (True, True),
    "nc-gru": (False, False),
    "nc-gru-tensorflow": (False, True),
    "after-replaces": (True, False),
}
SIXTEEN = [torch.float16, torch.bfloat16]
# the interpreter truncates to bfloat16; a GPU rounds
ONE_ROUNDING = {
    torch.float16: torch.finfo(torch.float16).eps / 2,
    torch.bfloat16: torch.finfo(torch.bfloat16).eps,
}

each_form = pytest.mark.parametrize("form", FORMS)
each_order = pytest.mark.parametrize("form", ["torch", "nc-gru"])


def operands(shape, form="torch", case="tanh", dtype=torch.float32, *, M=None):
    """Return all tensors of a form and a nonlinearity; None for unused ones."""
    T, B, N = shape
    generator = torch.Generator().manual_seed(0)

    def of(*sizes):
        return normal(generator, sizes, dtype)

    def orthogonal():
        return haar_(torch.empty(N, N, dtype=torch.float64), generator=generator)

    return [
        of(T, B, 3 * N if M is None else M),
        torch.cat([orthogonal() for _ in range(3)]).to(DEVICE, dtype),
        of(B, N),
        of(N) / 2 if NONLINEARITIES[case][1] else None,
        of(N) if FORMS[form][0] else None,
        None if M is None else of(3 * N, M) / M**0.5,
        None if M is None else of(3 * N) / 2,
    ]


def options_of(form, case, shape, *, reverse=False, ragged=False):
    T, B, _ = shape
    sizes = ragged_sizes(T, B) if ragged else None
    return NONLINEARITIES[case][0], *FORMS[form], sizes, reverse


def evaluated(backend, tensors, options):
    """Return all states, the last states and the gradients of all tensors, by name."""
    leaves = [None if v is None else v.detach().requires_grad_() for v in tensors]
    h, last = backend.run(GRUOperands(*leaves), GRUOptions(*options))
    present = {name: v for name, v in zip(NAMES, leaves, strict=True) if v is not None}
    generator = torch.Generator().manual_seed(7)
    weights = tuple(normal(generator, v.shape, v.dtype) for v in (h, last))
    found = torch.autograd.grad((h, last), tuple(present.values()), weights)
    values = {"h": h.detach(), "last": last.detach()}
    return values | dict(zip((f"d{name}" for name in present), found, strict=True))


def defined(tensors, options):
    exact = [None if v is None else v.double() for v in tensors]
    return evaluated(BACKENDS["reference"], exact, options)


def assert_equals_reference(tensors, options):
    got = evaluated(BACKENDS["gpu"], tensors, options)
    T, _, N = got["h"].shape
    # rounding errors accumulate over T steps, each with a sum over N
    assert_near(got, defined(tensors, options), tol(tensors[1].dtype, T + N))


# --------------------------------------------------------------- comparison with the reference


@each_form
@pytest.mark.parametrize("case", NONLINEARITIES)
def test_a_kernel_gives_the_values_and_gradients_of_the_reference(case, form):
    shape = 2, 2, 17
    tensors = operands(shape, form, case, torch.float64)
    assert_equals_reference(tensors, options_of(form, case, shape))


@each_raggedness
@each_direction
@each_form
def test_a_kernel_agrees_in_both_directions(form, reverse, ragged):
    shape = 4, 3, 5
    options = options_of(form, "tanh", shape, reverse=reverse, ragged=ragged)
    assert_equals_reference(operands(shape, form, M=2), options)


@pytest.mark.parametrize(
    ("form", "shape"),
    [
        ("torch", (1, 1, 1)),
        ("torch", (1, 9, 3)),
        ("nc-gru", (9, 1, 2)),
        ("torch", (2, 1, 33)),
        ("nc-gru", (2, 2, 65)),
        ("torch", (2, 1, 128)),
    ],
    ids=str,
)
def test_a_kernel_agrees_at_odd_sizes(form, shape):
    assert_equals_reference(operands(shape, form), options_of(form, "tanh", shape, ragged=True))


@pytest.mark.parametrize("dtype", SIXTEEN, ids=str)
@each_order
def test_sixteen_bit_inputs_have_float32_sums_and_states(form, dtype):
    shape = 6, 1, 17
    tensors, options = operands(shape, form, dtype=dtype), options_of(form, "tanh", shape)
    got, expected = evaluated(BACKENDS["gpu"], tensors, options), defined(tensors, options)
    assert all(found.dtype == dtype for found in got.values())
    # the states are rounded once, for any number of steps
    for name in ("h", "last"):
        error = (got[name].double() - expected[name]).abs().max()
        assert error <= ONE_ROUNDING[dtype] * 1.01 * expected[name].abs().max()
    # gradients depend on states, gates and gradients that were rounded once
    assert_near(got, expected, 4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("sizes", [[3, 2, 0], [3, 0, 0]], ids=str)
@each_direction
@each_order
def test_steps_at_which_no_sequence_runs_give_zeros(form, reverse, sizes):
    tensors = operands((3, 3, 2), form, dtype=torch.float64)
    assert_equals_reference(tensors, ("tanh", *FORMS[form], sizes, reverse))


@each_order
def test_an_empty_batch_gives_empty_states_and_no_gradient(form):
    shape = 4, 0, 3
    got = evaluated(BACKENDS["gpu"], operands(shape, form), options_of(form, "tanh", shape))
    assert got["h"].shape == shape
    assert not any(found.any() for found in got.values())


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")  # numpy in the interpreter
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf], ids=str)
@each_order
def test_non_finite_values_spread_as_in_the_reference(form, value):
    shape = 3, 2, 3
    tensors = operands(shape, form, "relu")
    tensors[0][1, 1, 0] = value
    options = options_of(form, "relu", shape)
    got, expected = (
        b.run(GRUOperands(*tensors), GRUOptions(*options))
        for b in (BACKENDS["gpu"], BACKENDS["reference"])
    )
    assert got[0][:, :1].isfinite().all()
    bound = tol(torch.float32, sum(shape))
    torch.testing.assert_close(got, expected, rtol=bound, atol=bound, equal_nan=True)


# ------------------------------------------------------------------------------------- strides


LAYOUTS = {
    "batch first": {"x": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1)},
    "gaps": {"x": lambda x: torch.nn.functional.pad(x, (0, 0, 0, 3, 0, 2))[:-2, :-3]},
    "transposed matrices": {"W": lambda W: W.T.contiguous().T},
    "every second": dict.fromkeys(NAMES, lambda v: torch.stack([v, v], dim=-1)[..., 0]),
}


@each_order
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_strides_do_not_change_the_results(layout, form):
    shape = 3, 2, 3
    tensors = [
        v if v is None else layout.get(name, torch.clone)(v)
        for name, v in zip(NAMES, operands(shape, form, "modrelu", torch.float64), strict=True)
    ]
    assert_equals_reference(tensors, options_of(form, "modrelu", shape, ragged=True))


def test_inputs_are_not_modified():
    tensors = [v for v in operands((3, 2, 3), case="modrelu", M=2) if v is not None]
    before = [tensor.clone() for tensor in tensors]
    evaluated(BACKENDS["gpu"], tensors, options_of("torch", "modrelu", (3, 2, 3)))
    assert all(map(torch.equal, tensors, before))


# ----------------------------------------------------------------------------- reproducibility


def test_every_run_gives_the_same_bits():
    shape = 3, 2, 20
    tensors, options = operands(shape), options_of("torch", "tanh", shape, ragged=True)
    once, again = (evaluated(BACKENDS["gpu"], tensors, options) for _ in range(2))
    assert same(once, again) == []


def test_without_gradients_nothing_is_saved():
    shape = 3, 2, 5
    options = GRUOptions(*options_of("torch", "tanh", shape))
    arguments = plain_arguments(GRUOperands(*operands(shape)), options)
    h, gates = gpu.gru_gpu(*arguments, False)
    assert gates.numel() == 0
    kept, gates = gpu.gru_gpu(*arguments, True)
    assert gates.shape == (3, 2, 20)
    assert torch.equal(h, kept)


# ---------------------------------------------------------------------- integration with torch


@pytest.mark.parametrize(
    ("form", "ragged"), [("torch", True), ("nc-gru", False)], ids=["torch", "nc-gru"]
)
def test_it_can_be_differentiated_twice(form, ragged):
    shape = 2, 2, 1
    tensors = [v for v in operands(shape, form, dtype=torch.float64) if v is not None]
    name, after, keeps, sizes, _ = options_of(form, "tanh", shape, ragged=ragged)

    def run(x, W, h0, recurrent_bias=None):
        form = {"nonlinearity": name, "reset_after": after, "update_keeps": keeps}
        return gru(x, W, h0, None, recurrent_bias, **form, batch_sizes=sizes, backend="gpu")

    assert torch.autograd.gradgradcheck(run, [v.requires_grad_() for v in tensors], fast_mode=True)


@each_order
def test_the_operators_pass_opcheck(form):
    shape = 2, 2, 3
    leaves = [v if v is None else v.requires_grad_() for v in operands(shape, form)]
    options = GRUOptions(*options_of(form, "tanh", shape, ragged=True))
    torch.library.opcheck(gpu.gru_gpu, (*plain_arguments(GRUOperands(*leaves), options), True))
    tensors = GRUOperands(*(v if v is None else v.detach() for v in leaves))
    arguments = plain_arguments(tensors, options)
    h, gates = gpu.gru_gpu(*arguments, True)
    needed = [v is not None for v in tensors[:7]]
    torch.library.opcheck(gpu._gru_gpu_backward, (h, h, gates, *arguments, needed))


def test_a_compiled_layer_gives_the_same():
    layer = GRU(2, 3, backend="gpu").to(DEVICE)
    x = normal(torch.Generator().manual_seed(0), (3, 2, 2), torch.float32)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    results = []
    for run in (layer, compiled):
        h = run(x)[0]
        results.append([h, *torch.autograd.grad(h.square().sum(), list(layer.parameters()))])
    torch.testing.assert_close(*results, rtol=tol(torch.float32, 3), atol=tol(torch.float32, 3))


@pytest.mark.parametrize("dtype", SIXTEEN, ids=str)
def test_autocast_runs_the_recurrence_in_float32(dtype):
    x, W, *_ = operands((2, 1, 3))
    rounded = x.to(dtype)
    with torch.autocast(DEVICE, dtype):
        h, _ = gru(rounded, W, backend="gpu")
    assert torch.equal(h, gru(rounded.float(), W, backend="gpu")[0])


# --------------------------------------------------------------------------- unsupported calls


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 128), (torch.float64, 64)], ids=str)
def test_matrices_above_the_limit_are_rejected(dtype, limit):
    call = Call(DEVICE, dtype, "tanh", transformed=False, state_size=limit)
    assert BACKENDS["gpu"].reason_against(call) is None
    reason = BACKENDS["gpu"].reason_against(dataclasses.replace(call, state_size=limit + 1))
    assert reason.startswith(f"states of {limit + 1} numbers are too many")
    assert reason.endswith(f"at most {limit}")


@each_order
def test_with_one_reduction_a_kernel_agrees_with_the_reference(form, monkeypatch):
    monkeypatch.setattr(gpu_calls, "fewer_barriers", True)
    shape = 3, 2, 3
    options = options_of(form, "tanh", shape, reverse=True, ragged=True)
    assert_equals_reference(operands(shape, form), options)


def test_one_reduction_takes_fewer_barriers_and_no_register_spills():
    name = "gru:tanh:float32:128:90"
    found = registers(name, EIGENRNN_FEWER_BARRIERS="1")[name]
    assert all(one["stack"] == 0 for one in found.values())
    assert [one["barriers"] for one in found.values()] == [10, 14]  # 14 and 18 without


def test_at_the_limit_no_register_spills():
    found = registers("gru:tanh:float32:128:80", "nc-gru:modrelu:float32:128:90")
    for both in found.values():
        assert all(one["stack"] == 0 and one["registers"] > 192 for one in both.values())


# ------------------------------------------------------------------------------------ on a GPU


@pytest.mark.gpu
def test_all_tests_pass_on_a_gpu():
    command = "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not gpu", __file__
    done = python(*command, TRITON_INTERPRET="0")
    assert done.returncode == 0, done.stdout
