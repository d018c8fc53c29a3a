"""A backend can be forced, the narrower wish wins, and what is impossible is refused with why."""

import dataclasses
import threading

import pytest
import torch

from eigenrnn import ops
from eigenrnn.layers import RNN
from eigenrnn.ops import compiled, explain, use_backend
from eigenrnn.ops.backend import Call
from eigenrnn.ops.dispatch import choose
from eigenrnn.ops.elman import BACKENDS
from eigenrnn.ops.gru import BACKENDS as GRU_BACKENDS
from states import elman

CALL = Call("cpu", torch.float32, "tanh", transformed=False, state_size=2)
TRANSFORMED = dataclasses.replace(CALL, transformed=True)
x, W = torch.ones(3, 1, 2), torch.eye(2)


@pytest.fixture(autouse=True)
def no_wish(monkeypatch):
    monkeypatch.delenv("EIGENRNN_BACKEND", raising=False)


@pytest.fixture
def ran(monkeypatch):
    """The names of the backends that ran, in order."""
    names = []

    def spied(backend):
        def run(*arguments):
            names.append(backend.name)
            return backend.run(*arguments)

        return dataclasses.replace(backend, run=run)

    for name, backend in list(BACKENDS.items()):
        monkeypatch.setitem(BACKENDS, name, spied(backend))
    return names


def chosen(backend=None, call=CALL):
    return choose(BACKENDS, call, backend).name


def test_the_first_that_can_serve_is_chosen():
    assert chosen() == next(iter(BACKENDS))


def test_a_transform_is_served_by_the_definition():
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
def test_a_layer_may_be_given_a_backend(name, ran):
    RNN(2, 2, backend=name)(x)
    assert ran == [name]


@pytest.mark.parametrize("name", BACKENDS)
def test_a_forced_backend_serves_under_autocast_too(name, ran):
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


def test_an_argument_wins_over_the_environment(monkeypatch):
    monkeypatch.setenv("EIGENRNN_BACKEND", "reference")
    assert chosen("loop") == "loop"


def test_an_inner_block_wins_over_an_outer_one():
    with use_backend("loop"), use_backend("reference"):
        assert chosen() == "reference"


def test_a_block_of_none_lets_the_dispatch_choose(monkeypatch):
    monkeypatch.setenv("EIGENRNN_BACKEND", "reference")
    with use_backend(None):
        assert chosen() == "cpu"


def test_after_a_block_the_wish_is_forgotten():
    with use_backend("reference"):
        pass
    assert chosen() == "cpu"


def test_after_a_block_that_failed_the_wish_is_forgotten():
    with pytest.raises(KeyError), use_backend("reference"):
        raise KeyError
    assert chosen() == "cpu"


def test_an_empty_variable_forces_nothing(monkeypatch):
    monkeypatch.setenv("EIGENRNN_BACKEND", "")
    assert chosen() == "cpu"


def test_an_unknown_backend_is_refused_with_those_that_exist():
    with pytest.raises(
        ValueError, match=r"one of \['cpu', 'gpu', 'loop', 'reference'\], got 'cuda'"
    ):
        elman(x, W, backend="cuda")


def test_an_unknown_backend_of_a_block_is_refused():
    with use_backend("cuda"), pytest.raises(ValueError, match=r"expected backend .* got 'cuda'"):
        elman(x, W)


def test_an_unknown_backend_of_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("EIGENRNN_BACKEND", "cuda")
    with pytest.raises(ValueError, match=r"expected backend .* got 'cuda'"):
        elman(x, W)


def test_a_backend_that_cannot_serve_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"backend 'loop' can serve: torch\.func transforms"):
        torch.func.vmap(lambda x: elman(x, W, backend="loop"))(x.unsqueeze(0))


def test_a_backend_that_this_machine_lacks_is_refused_with_the_reason():
    lost = dataclasses.replace(BACKENDS["loop"], missing=lambda: "no compiler was found")
    with pytest.raises(ValueError, match="backend 'loop' can serve: no compiler was found"):
        choose({"loop": lost}, CALL, "loop")


def test_a_backend_that_this_machine_lacks_is_passed_over():
    lost = dataclasses.replace(BACKENDS["loop"], missing=lambda: "no compiler was found")
    assert choose({"loop": lost, "reference": BACKENDS["reference"]}, CALL).name == "reference"


def test_an_explanation_says_which_is_chosen_and_which_could_be():
    said = explain(BACKENDS, CALL)
    less = "possible, less preferred"
    assert said.pop("gpu").startswith("Triton's interpreter")
    assert said == {"cpu": "chosen", "loop": less, "reference": less}


def test_what_serves_by_wish_alone_is_passed_over_until_it_is_named():
    slow = dataclasses.replace(BACKENDS["loop"], reluctant=lambda _: "it is slow")
    backends = {"loop": slow, "reference": BACKENDS["reference"]}
    assert choose(backends, CALL).name == "reference"
    assert choose(backends, CALL, "loop").name == "loop"
    assert explain(backends, CALL) == {"loop": "it is slow", "reference": "chosen"}
    assert explain(backends, CALL, "loop")["loop"] == "chosen"


def test_an_explanation_says_why_not():
    said = explain(BACKENDS, TRANSFORMED)
    assert said["reference"] == "chosen"
    assert said["loop"].startswith("torch.func transforms and forward mode need")


def test_an_explanation_obeys_what_is_forced():
    with use_backend("reference"):
        assert explain(BACKENDS, CALL)["reference"] == "chosen"


def test_every_backend_says_what_it_is():
    assert all(backend.about for backend in BACKENDS.values())


def test_the_facts_of_a_call_are_read_off_its_tensors():
    call = Call.of(x.double(), "tanh", W.double(), None, state_size=2)
    assert call == dataclasses.replace(CALL, dtype=torch.float64)


# torch's own forward mode still scripts its decompositions
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_a_tangent_of_any_tensor_is_a_transform():
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


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("backend", [None, *BACKENDS])
@pytest.mark.parametrize("dtype", WITHOUT_KERNELS, ids=str)
def test_a_type_without_kernels_is_refused_by_name(dtype, backend):
    x, W = torch.ones(5, 1, 4).to(dtype), torch.ones(4, 4).to(dtype)
    with pytest.raises(TypeError, match=rf"expected .*x.*float32.*|, got {dtype}"):
        ops.elman(x, W, nonlinearity="identity", backend=backend)
    x, W = torch.ones(5, 1, 12).to(dtype), torch.ones(12, 4).to(dtype)
    with pytest.raises(TypeError, match=rf"expected .*x, got {dtype}|x.*float32.*, got {dtype}"):
        ops.gru(x, W, backend=backend)


@pytest.mark.parametrize("table", [BACKENDS, GRU_BACKENDS], ids=["elman", "gru"])
def test_a_backend_serves_the_types_that_it_lists_and_no_others(table):
    for backend in table.values():
        for dtype in (*WITHOUT_KERNELS, *backend.dtypes):
            said = backend.objection(dataclasses.replace(CALL, dtype=dtype))
            assert (said == f"it has no kernels for {dtype}") == (dtype not in backend.dtypes)


def operator_inputs(operator, dtype):
    wide = 3 if operator is torch.ops.eigenrnn.gru_cpu else 1
    x, W = torch.ones(5, 1, 4 * wide).to(dtype), torch.ones(4 * wide, 4).to(dtype)
    return x, W, torch.ones(1, 4).to(dtype)


def call_operator(name, x, W, h0):
    missing = [None] * (5 if name == "elman_cpu" else 4)
    form = ["tanh"] if name == "elman_cpu" else ["tanh", True, True]
    more = [False] if name == "elman_cpu" else [False, False]
    getattr(torch.ops.eigenrnn, name)(x, W, h0, *missing, *form, None, False, *more)


@pytest.mark.skipif(compiled.kernels is None, reason="no compiled kernels")
@pytest.mark.parametrize("name", ["elman_cpu", "gru_cpu"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float8_e4m3fn, torch.float16], ids=str)
def test_kernels_check_types_once_more(name, dtype):
    x, W, h0 = operator_inputs(getattr(torch.ops.eigenrnn, name), dtype)
    with pytest.raises(TypeError, match=f"expected float32 or float64, got {dtype}"):
        call_operator(name, x, W, h0)


@pytest.mark.skipif(compiled.kernels is None, reason="no compiled kernels")
@pytest.mark.parametrize("name", ["elman_cpu", "gru_cpu"])
def test_kernels_refuse_tensors_of_several_types(name):
    x, W, h0 = operator_inputs(getattr(torch.ops.eigenrnn, name), torch.float32)
    with pytest.raises(TypeError, match="expected tensors of one type, got"):
        call_operator(name, x, W.double(), h0)


@pytest.mark.skipif(compiled.kernels is None, reason="no compiled kernels")
def test_the_compiled_module_knows_two_types_by_name():
    shape, views = (1, 1, 1, 0), [(0, 0, 0)] * 12
    with pytest.raises(TypeError, match=r"expected float32 or float64, got int8"):
        compiled.kernels.elman_forward("int8", 1, shape, (0, 1), None, False, 0, 0.0, views)


def test_a_forced_backend_is_unknown_to_other_threads():
    served = []
    with use_backend("reference"):
        thread = threading.Thread(target=lambda: served.append(chosen()))
        thread.start()
        thread.join()
        served.append(chosen())
    assert served == [next(iter(BACKENDS)), "reference"]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_a_compiled_call_obeys_the_wish_of_its_own_thread(ran):
    run = torch.compile(lambda: elman(x, W)[0], fullgraph=True, backend="eager")
    with use_backend("reference"):
        run()
    with use_backend("loop"):
        run()
    run()
    assert ran == ["reference", "loop", next(iter(BACKENDS))]


def test_meta_tensors_beside_others_are_refused_by_name():
    norm = torch.ones(2, device="meta"), torch.zeros(2)
    with pytest.raises(ValueError, match=r"expected gain of layer_norm on cpu, .* got meta"):
        ops.elman(x, W, layer_norm=norm)
