"""Choice of a backend: automatic, forced, and rejected with a reason; checks of the arguments."""

import copy
import dataclasses
import threading

import pytest
import torch
from states import elman

from eigenrnn import ops
from eigenrnn.layers import RNN, LeakyRNN
from eigenrnn.ops import compiled, explain, use_backend
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.dispatch import Call, choose
from eigenrnn.ops.elman import BACKENDS, ElmanOperands
from eigenrnn.ops.elman.cpu import elman_cpu
from eigenrnn.ops.gru import BACKENDS as GRU_BACKENDS
from eigenrnn.ops.gru import GRUOperands, GRUOptions
from eigenrnn.ops.gru.cpu import gru_cpu
from eigenrnn.ops.linear import BACKENDS as LINEAR_BACKENDS
from eigenrnn.ops.linear.cpu import linear_cpu
from eigenrnn.ops.linear.reference import LinearOperands, LinearOptions
from eigenrnn.ops.lstm import BACKENDS as LSTM_BACKENDS
from eigenrnn.ops.lstm.cpu import lstm_cpu
from eigenrnn.ops.lstm.reference import LSTMOperands, LSTMOptions

CALL = Call("cpu", torch.float32, "tanh", transformed=False, state_size=2)
TRANSFORMED = dataclasses.replace(CALL, transformed=True)
x, W = torch.ones(3, 1, 2), torch.eye(2)


@pytest.fixture(autouse=True)
def no_forced_backend(monkeypatch):
    monkeypatch.delenv("EIGENRNN_BACKEND", raising=False)


def changed(backend, **attributes):
    """A copy of a backend with other attributes or methods."""
    other = copy.copy(backend)
    vars(other).update(attributes)
    return other


@pytest.fixture
def ran(monkeypatch):
    """The names of the backends that ran, in order."""
    names = []

    def recorded(backend):
        def run(*arguments):
            names.append(backend.name)
            return backend.run(*arguments)

        return changed(backend, run=run)

    for name, backend in list(BACKENDS.items()):
        monkeypatch.setitem(BACKENDS, name, recorded(backend))
    return names


def chosen(backend=None, call=CALL):
    return choose(BACKENDS, call, backend).name


def test_the_first_backend_that_supports_the_call_is_chosen():
    assert chosen() == next(iter(BACKENDS))


def test_the_reference_computes_transformed_calls():
    assert chosen(call=TRANSFORMED) == "reference"


@pytest.mark.parametrize("name", BACKENDS)
def test_an_argument_forces_a_backend(name, ran):
    elman(x, W, backend=name)
    assert ran == [name]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_block_forces_a_backend(name, ran):
    with use_backend(name):
        elman(x, W)
    assert ran == [name]


@pytest.mark.parametrize("name", BACKENDS)
def test_the_environment_forces_a_backend(name, ran, monkeypatch):
    monkeypatch.setenv("EIGENRNN_BACKEND", name)
    elman(x, W)
    assert ran == [name]


@pytest.mark.parametrize("name", BACKENDS)
def test_the_argument_of_a_layer_forces_a_backend(name, ran):
    RNN(2, 2, nonlinearity="tanh", backend=name)(x)
    assert ran == [name]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_forced_backend_runs_under_autocast(name, ran):
    with torch.autocast("cpu", torch.bfloat16):
        elman(x, W, backend=name)
    assert ran == [name]


def test_a_block_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("EIGENRNN_BACKEND", "loop")
    with use_backend("reference"):
        assert chosen() == "reference"


def test_an_argument_wins_over_a_block():
    with use_backend("reference"):
        assert chosen("loop") == "loop"


def test_an_inner_block_wins_over_an_outer_one():
    with use_backend("loop"), use_backend("reference"):
        assert chosen() == "reference"


def test_a_block_of_none_restores_automatic_choice(monkeypatch):
    monkeypatch.setenv("EIGENRNN_BACKEND", "reference")
    with use_backend(None):
        assert chosen() == "cpu"


def test_a_block_has_no_effect_after_an_exception():
    with pytest.raises(KeyError), use_backend("reference"):
        raise KeyError
    assert chosen() == "cpu"


def test_an_empty_variable_forces_nothing(monkeypatch):
    monkeypatch.setenv("EIGENRNN_BACKEND", "")
    assert chosen() == "cpu"


def test_the_error_for_an_unknown_backend_lists_the_backends():
    with pytest.raises(ValueError, match="got 'cuda'"):
        elman(x, W, backend="cuda")


def test_forcing_an_unsupported_backend_raises_the_reason():
    with pytest.raises(ValueError, match=r"torch\.func transforms"):
        torch.func.vmap(lambda x: elman(x, W, backend="loop"))(x.unsqueeze(0))


def test_forcing_an_unavailable_backend_raises_the_reason():
    lost = changed(BACKENDS["loop"], unavailable=lambda: "no compiler was found")
    with pytest.raises(ValueError, match="no compiler was found"):
        choose({"loop": lost}, CALL, "loop")


def test_an_unavailable_backend_is_skipped():
    lost = changed(BACKENDS["loop"], unavailable=lambda: "no compiler was found")
    assert choose({"loop": lost, "reference": BACKENDS["reference"]}, CALL).name == "reference"


def test_explain_says_which_backend_is_chosen_and_which_are_possible():
    reasons = explain(BACKENDS, CALL)
    less = "possible, less preferred"
    assert reasons.pop("torch").startswith("other backends are faster on a CPU")
    assert "triton" in reasons.pop("triton").lower()
    assert reasons == {"cpu": "chosen", "loop": less, "reference": less}


def test_an_experimental_backend_is_chosen_only_by_name():
    slow = changed(BACKENDS["loop"], experimental=lambda _: "it is slow")
    backends = {"loop": slow, "reference": BACKENDS["reference"]}
    assert choose(backends, CALL).name == "reference"
    assert choose(backends, CALL, "loop").name == "loop"
    assert explain(backends, CALL) == {"loop": "it is slow", "reference": "chosen"}
    assert explain(backends, CALL, "loop")["loop"] == "chosen"


def test_explain_says_why_a_backend_cannot_compute_the_call():
    reasons = explain(BACKENDS, TRANSFORMED)
    assert reasons["reference"] == "chosen"
    assert reasons["loop"].startswith("torch.func transforms and forward mode need")


def test_explain_names_the_kind_of_state_of_a_leaky_layer():
    explained = [LeakyRNN(2, 3, leak=0.5, state=state).explain(x) for state in ("rate", "current")]
    lacking = [reasons["loop"] for reasons in explained]
    assert lacking == ["it does not compute leak", "it does not compute leak and current"]


@pytest.mark.skipif(compiled.kernels is None, reason=f"needs kernels: {compiled.unavailable()}")
def test_explain_says_that_the_kernels_run_on_one_thread(monkeypatch):
    monkeypatch.setattr(compiled, "has_threads", False)
    assert "on one thread" in explain(BACKENDS, CALL)["cpu"]


def test_explain_respects_a_forced_backend():
    with use_backend("reference"):
        assert explain(BACKENDS, CALL)["reference"] == "chosen"


def test_a_call_is_described_by_its_tensors():
    call = Call.of(x.double(), "tanh", W.double(), None, state_size=2)
    assert call == dataclasses.replace(CALL, dtype=torch.float64)


# torch's own forward mode uses the deprecated torch.jit.script
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_a_tangent_of_any_tensor_marks_the_call_as_transformed():
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(W, W)
        assert Call.of(x, "tanh", dual, state_size=2).transformed


WITHOUT_KERNELS = (
    torch.bool,
    torch.int8,
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex32,
)


def wide_enough(rows, dtype):
    """Inputs and a matrix that only their dtype makes invalid."""
    return torch.ones(5, 1, rows).to(dtype), torch.ones(rows, 4).to(dtype)


RECURRENCES = {
    "elman": (BACKENDS, lambda dtype: wide_enough(4, dtype)),
    "gru": (GRU_BACKENDS, lambda dtype: wide_enough(12, dtype)),
    "lstm": (LSTM_BACKENDS, lambda dtype: wide_enough(16, dtype)),
    "linear": (
        LINEAR_BACKENDS,
        lambda dtype: (torch.ones(5, 1, 4).to(dtype), torch.ones(4).to(dtype)),
    ),
}


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", WITHOUT_KERNELS, ids=str)
@pytest.mark.parametrize("name", RECURRENCES)
def test_an_unsupported_dtype_is_rejected_by_name(name, dtype):
    backends, tensors = RECURRENCES[name]
    for backend in (None, *backends):
        with pytest.raises(TypeError, match=f"got {dtype}"):
            getattr(ops, name)(*tensors(dtype), backend=backend)


@pytest.mark.filterwarnings(
    "ignore:The PyTorch API of nested tensors", "ignore:.*quantize.* are dep"
)
@pytest.mark.parametrize("name", RECURRENCES)
def test_quantized_and_nested_tensors_are_rejected_by_name(name):
    x, W = RECURRENCES[name][1](torch.float32)
    quantized = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
    with pytest.raises(TypeError, match=r"got torch.strided, torch\.qint8"):
        getattr(ops, name)(quantized, W)
    with pytest.raises(TypeError, match="got nested"):
        getattr(ops, name)(torch.nested.nested_tensor([*x]), W)


@pytest.mark.parametrize("name", RECURRENCES)
def test_a_backend_supports_exactly_the_dtypes_that_it_lists(name):
    for backend in RECURRENCES[name][0].values():
        for dtype in (*WITHOUT_KERNELS, *backend.dtypes):
            reason = backend.reason_against(dataclasses.replace(CALL, dtype=dtype))
            assert (reason == f"it has no kernels for {dtype}") == (dtype not in backend.dtypes)


def operator_arguments(name, dtype, other=None):
    """The arguments of a compiled operator; the second tensor has the other dtype."""
    x, W = RECURRENCES[name][1](dtype)
    W, h0 = W.to(other or dtype), torch.ones(1, 4).to(dtype)
    match name:
        case "elman":
            return elman_cpu.arguments(ElmanOperands(x, W, h0), Options())
        case "gru":
            return gru_cpu.arguments(GRUOperands(x, W, h0), GRUOptions())
        case "lstm":
            return lstm_cpu.arguments(LSTMOperands(x, W, h0, h0), LSTMOptions())
    return linear_cpu.arguments(LinearOperands(x, W, h0), LinearOptions())


@pytest.mark.skipif(compiled.kernels is None, reason="no compiled kernels")
@pytest.mark.parametrize("name", RECURRENCES)
@pytest.mark.parametrize("dtype", [torch.int32, torch.float16], ids=str)
def test_kernels_check_dtypes_themselves(name, dtype):
    operator = getattr(torch.ops.eigenrnn, f"{name}_cpu")
    with pytest.raises(TypeError, match=f"got {dtype}"):
        operator(*operator_arguments(name, dtype))


@pytest.mark.skipif(compiled.kernels is None, reason="no compiled kernels")
@pytest.mark.parametrize("name", RECURRENCES)
@pytest.mark.parametrize("other", [torch.float64], ids=str)
def test_kernels_reject_tensors_of_different_dtypes(name, other):
    operator = getattr(torch.ops.eigenrnn, f"{name}_cpu")
    with pytest.raises(TypeError, match=str(other)):
        operator(*operator_arguments(name, torch.float32, other))


@pytest.mark.skipif(compiled.kernels is None, reason="no compiled kernels")
def test_the_backward_kernel_of_the_linear_recurrence_checks_dtypes_itself():
    arguments = operator_arguments("linear", torch.float32)
    g = torch.ones(5, 1, 4, dtype=torch.float64)
    with pytest.raises(TypeError, match="float64"):
        torch.ops.eigenrnn.linear_cpu_backward(
            g, None, g.float(), *arguments, [True] * 3 + [False]
        )


def test_a_block_does_not_affect_other_threads():
    served = []
    with use_backend("reference"):
        thread = threading.Thread(target=lambda: served.append(chosen()))
        thread.start()
        thread.join()
        served.append(chosen())
    assert served == [next(iter(BACKENDS)), "reference"]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_torch_compile_respects_a_block(ran):
    elman(x, W)  # leaves a plan, which no compiled call may ask
    run = torch.compile(lambda: elman(x, W)[0], fullgraph=True, backend="eager")
    with use_backend("reference"):
        run()
    with use_backend("loop"):
        run()
    run()
    assert ran[-3:] == ["reference", "loop", next(iter(BACKENDS))]


@pytest.mark.parametrize("name", ["W", "h0", "U"])
def test_tensors_on_several_devices_are_rejected(name):
    tensors = {"W": torch.eye(3), "h0": torch.zeros(2, 3), "U": torch.ones(3, 2)}
    tensors[name] = tensors[name].to("meta")
    with pytest.raises(ValueError, match="got meta"):
        ops.elman(
            torch.ones(4, 2, 2), tensors["W"], tensors["h0"], U=tensors["U"], nonlinearity="tanh"
        )


@pytest.mark.parametrize("d", [None, torch.zeros(3)])
def test_outputs_with_last_only_are_rejected_under_autocast(d):
    V = torch.ones(3, 4)
    with torch.autocast("cpu"), pytest.raises(ValueError, match="either last_only or V"):
        ops.elman(torch.ones(2, 1, 4), torch.eye(4), nonlinearity="tanh", V=V, d=d, last_only=True)
