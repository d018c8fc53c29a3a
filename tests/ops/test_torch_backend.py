"""The backend `torch` gives torch's own kernels our matrices, and agrees with the reference."""

import dataclasses
import gc
import weakref
from functools import partial

import pytest
import torch

from eigenrnn.init import haar_
from eigenrnn.layers import GRU, LSTM, RNN
from eigenrnn.linalg import tol
from eigenrnn.ops import elman, gru, lstm
from eigenrnn.ops.dispatch import Call, choose, explain
from eigenrnn.ops.elman import BACKENDS as ELMAN
from eigenrnn.ops.gru import BACKENDS as GRU_BACKENDS
from eigenrnn.ops.lstm import BACKENDS as LSTM_BACKENDS
from eigenrnn.ops.torch_rnn import full_precision
from kernel_testing import assert_near, each_raggedness, normal, ragged_sizes

CALL = Call("cuda", torch.float32, "tanh", transformed=False, state_size=8)
# the function, its gates, its states, its biases, and its options
CASES = {
    "tanh": (elman, 1, 1, ("c",), {"nonlinearity": "tanh"}),
    "gru": (gru, 3, 1, ("c", "recurrent_bias"), {}),
    "gru-one-bias": (gru, 3, 1, ("recurrent_bias",), {}),
    "lstm": (lstm, 4, 2, ("c",), {}),
    "lstm-no-bias": (lstm, 4, 2, (), {}),
}
TABLES = {"elman": ELMAN, "gru": GRU_BACKENDS, "lstm": LSTM_BACKENDS}


def operands(case, shape, dtype=torch.float64, *, M=2):
    """Return the tensors of a call by name; without M the inputs are mapped already."""
    _, gates, states, biases, _ = CASES[case]
    T, B, N = shape
    generator = torch.Generator().manual_seed(0)

    def of(*sizes):
        return normal(generator, sizes, torch.float64).cpu()

    W = [haar_(torch.empty(N, N, dtype=torch.float64), generator=generator) for _ in range(gates)]
    tensors = {"x": of(T, B, M or gates * N), "W": torch.cat(W)}
    tensors |= {name: of(B, N) for name in ("h0", "c0")[:states]}
    if M:
        tensors["U"] = of(gates * N, M)
        sizes = {"c": gates * N, "recurrent_bias": N}
        tensors |= {name: of(sizes[name]) for name in biases}
    return {name: v.to(dtype).requires_grad_() for name, v in tensors.items()}


def options_of(case, shape, *, ragged=False):
    sizes = ragged_sizes(*shape[:2]) if ragged else None
    return CASES[case][4] | {"batch_sizes": sizes}


def evaluated(case, tensors, backend, **options):
    """Return the results and the gradients of all tensors, by name."""
    leaves = {name: v.detach().requires_grad_() for name, v in tensors.items()}
    results = CASES[case][0](**leaves, **options, backend=backend)
    weights = [normal(torch.Generator().manual_seed(7), v.shape, v.dtype).cpu() for v in results]
    found = torch.autograd.grad(results, list(leaves.values()), weights)
    values = {f"result {i}": v.detach() for i, v in enumerate(results)}
    return values | {f"d{name}": g for name, g in zip(leaves, found, strict=True)}


def assert_equals_reference(case, tensors, **options):
    got = evaluated(case, tensors, "torch", **options)
    exact = {name: v.detach().double() for name, v in tensors.items()}
    T, _, N = got["result 0"].shape
    bound = tol(tensors["W"].dtype, T * N)
    assert_near(got, evaluated(case, exact, "reference", **options), bound)


@each_raggedness
@pytest.mark.parametrize("case", ["gru-one-bias", "lstm-no-bias"])
def test_biases_are_optional(case, ragged):
    shape = 7, 3, 5
    assert_equals_reference(case, operands(case, shape), **options_of(case, shape, ragged=ragged))


def test_a_layer_with_zoneout_trains_on_finite_numbers():
    layer = GRU(3, 5, zoneout=0.3, backend="torch").train()
    h, _ = layer(torch.randn(9, 3, 3))
    h.square().sum().backward()
    assert h.isfinite().all()
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_tensors_without_gradient_get_none_and_cost_no_graph():
    tensors = operands("gru", (4, 3, 2))
    tensors["x"].requires_grad_(False)
    h, _ = gru(**tensors, backend="torch")
    assert torch.autograd.grad(h.sum(), tensors["W"])[0].any()
    with torch.no_grad():
        assert gru(**tensors, backend="torch")[0].grad_fn is None


def of_backend(case, tensors, **options):
    names = list(tensors)

    def run(*values):
        named = dict(zip(names, values, strict=True))
        return CASES[case][0](**named, **options, backend="torch")

    return run


@pytest.mark.parametrize("case", ["tanh", "gru", "lstm"])
def test_it_can_be_differentiated_twice(case):
    tensors = operands(case, (2, 2, 2))
    run = of_backend(case, tensors, **options_of(case, (2, 2, 2), ragged=True))
    assert torch.autograd.gradgradcheck(run, list(tensors.values()), fast_mode=True)


def test_a_backward_pass_frees_what_it_does_not_keep():
    tensors = operands("tanh", (3, 2, 2))
    h = elman(**tensors, nonlinearity="tanh", backend="torch")[0]
    node = h.grad_fn
    inner = [weakref.ref(v) for v in node.results.values()]
    h.sum().backward(retain_graph=True)
    h.sum().backward()
    with pytest.raises(RuntimeError, match="a second time"):
        h.sum().backward()
    del h, node
    gc.collect()
    assert not any(one() is not None for one in inner)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_it_is_the_default_on_cuda_and_only_named_on_the_cpu(table, monkeypatch):
    monkeypatch.delenv("EIGENRNN_BACKEND", raising=False)
    monkeypatch.setattr(torch.backends.cudnn, "enabled", True)
    assert choose(table, CALL).name == "torch"
    here = dataclasses.replace(CALL, device="cpu")
    assert choose(table, here).name == "cpu"
    assert choose(table, here, "torch").name == "torch"


def test_without_cudnn_it_is_only_named(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "enabled", False)
    assert choose(ELMAN, CALL).name == "loop"
    assert explain(ELMAN, CALL)["torch"].startswith("without cuDNN")


@pytest.mark.parametrize(
    ("table", "facts", "reason"),
    [
        ("elman", {"nonlinearity": "modrelu"}, "torch has no kernel for modrelu"),
        ("gru", {"nonlinearity": "relu"}, "torch has no kernel for relu"),
        ("elman", {"device": "meta"}, "it needs tensors on the CPU or a CUDA device"),
        ("elman", {"dtype": torch.complex64}, "it has no kernels for torch.complex64"),
        ("lstm", {"transformed": True}, "torch.func transforms"),
        ("elman", {"features": ("zoneout",)}, "it does not compute zoneout"),
        ("elman", {"features": ("leak",)}, "it does not compute leak"),
        ("elman", {"nonlinearity": "retanh"}, "torch has no kernel for retanh"),
        ("gru", {"features": ("reset_after=False",)}, "it does not compute reset_after=False"),
    ],
)
def test_what_it_does_not_compute_is_refused_by_name(table, facts, reason):
    backend = TABLES[table]["torch"]
    assert backend.reason_against(dataclasses.replace(CALL, **facts)).startswith(reason)


@pytest.mark.parametrize("form", [{"reset_after": False}, {"update_keeps": False}], ids=str)
def test_other_forms_of_the_gru_are_refused(form):
    tensors = operands("gru-one-bias", (3, 2, 2), M=None)
    (name,) = form
    with pytest.raises(ValueError, match=f"{name}=False"):
        gru(**tensors, **form, backend="torch")
    layer = GRU(2, 3, **form)
    assert layer.explain(torch.ones(2, 1, 2))["torch"] == f"it does not compute {name}=False"


def test_torch_compile_uses_another_backend(monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "enabled", True)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert choose(ELMAN, CALL).name == "loop"
    assert explain(ELMAN, CALL)["torch"] == "torch.compile would unroll its time steps"


@pytest.mark.parametrize("layer", [partial(RNN, nonlinearity="relu"), LSTM])
def test_a_layer_under_autocast_runs_in_float32(layer):
    layer, x = layer(2, 3, backend="torch"), torch.randn(3, 2, 2).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        h, _ = layer(x)
    assert torch.equal(h, layer(x.float())[0].bfloat16())


class OnGPU:
    """The facts of a tensor that decide about its precision."""

    device, dtype = torch.device("cuda"), torch.float32


def test_the_factors_of_products_are_never_rounded_to_tf32():
    rnn = torch.backends.cudnn.rnn
    before = rnn.fp32_precision
    rnn.fp32_precision = "tf32"
    try:
        with full_precision(OnGPU()):
            assert rnn.fp32_precision == "ieee"
            with pytest.raises(KeyError), full_precision(OnGPU()):
                raise KeyError
            assert rnn.fp32_precision == "ieee"
        assert rnn.fp32_precision == "tf32"
        with full_precision(torch.ones(1)):
            assert rnn.fp32_precision == "tf32"
    finally:
        rnn.fp32_precision = before
