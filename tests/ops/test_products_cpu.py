"""Products of bfloat16 and of split numbers by tiles, in plain C++ on machines without AMX."""

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

import eigenrnn
from eigenrnn.ops import elman, gru, lstm, precision
from eigenrnn.ops.compiled import kernels
from kernel_testing import needs_kernels, ragged_sizes
from ops.recurrence_cases import RECORDS, draw, exact, results_and_gradients

pytestmark = [needs_kernels, pytest.mark.usefixtures("tiles")]

RUNS = {"elman": elman, "gru": gru, "lstm": lstm}
SWITCHES = {"bfloat16": "medium", "split": "high"}
OPERANDS = {  # operands beside those of every call, and options
    "elman": ("elman", (), {}),
    "modrelu": ("elman", ("bias",), {"nonlinearity": "modrelu"}),
    "norm": ("elman", ("gain", "shift"), {}),
    "leak": ("elman", ("leak",), {}),
    "gru": ("gru", ("recurrent_bias",), {}),
    "gru, norm": ("gru", ("gain", "shift"), {}),
    "gru, reset before": ("gru", (), {"reset_after": False}),
    "lstm": ("lstm", (), {}),
}
# T, B, N, M, at the edges of tiles of 16 rows and 32 numbers, and of blocks of two tiles.
SHAPES = {
    "64_units": (3, 16, 64, 1),
    "one_sequence": (9, 1, 65, 3),
    "odd_sizes": (5, 7, 70, 70),
    "two_tiles_of_rows": (4, 33, 96, 3),
    "many_sequences": (2, 75, 81, 96),
    "more steps than the ring of deltas holds": (60, 7, 64, 70),
}
steps = pytest.mark.parametrize("steps", ["whole", "ragged", "reverse", "resets"])


@pytest.fixture
def tiles(monkeypatch):
    monkeypatch.setattr(precision, "has_tiles", True)
    yield
    torch.set_float32_matmul_precision("highest")


def nearest(tensor):
    return tensor.bfloat16().to(tensor.dtype)


def parts(tensor, count):
    """The numbers of bfloat16 whose sum is multiplied."""
    first = nearest(tensor)
    if count == 1:
        return [first]
    return [first, nearest(tensor - first)]


def multiply(a, b, parts_of_a, parts_of_b):
    """The product of two matrices but for that of their second parts."""
    total = torch.zeros((), dtype=a.dtype)
    for i, left in enumerate(parts(a, parts_of_a)):
        for j, right in enumerate(parts(b, parts_of_b)):
            if i + j < 2:
                total = total + left @ right
    return total


class Rounded(torch.autograd.Function):
    """a b^T, b is split. The gradients of matrices of few rows or columns are exact."""

    @staticmethod
    def forward(ctx, a, b, products):
        ctx.save_for_backward(a, b)
        ctx.parts = {"bfloat16": 1, "split": 2}[products]
        return multiply(a, b.mT, ctx.parts, 2)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        rows, grads = a.reshape(-1, a.shape[-1]), grad.reshape(-1, grad.shape[-1])
        db = grads.mT @ rows
        if min(b.shape) > 48:
            db = multiply(grads.mT, rows, ctx.parts, ctx.parts)
        return multiply(grad, b, ctx.parts, 2), db, None


class RoundedProducts(TorchFunctionMode):
    """Every product in the block is one of rounded numbers."""

    def __init__(self, products):
        super().__init__()
        self.products = products

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is F.linear:
            x, U, *c = args
            product = Rounded.apply(x, U, self.products)
            return product if not c or c[0] is None else product + c[0]
        if function in (torch.Tensor.matmul, torch.Tensor.__matmul__, torch.matmul):
            return Rounded.apply(args[0], args[1].mT, self.products)
        return function(*args, **(kwargs or {}))


def error(found, wanted):
    return (found.double() - wanted.double()).norm() / wanted.double().norm()


def run_case(case, shape, steps, *, V=None, **options):
    """Return the operands of a case, and a function that runs it on operands by name."""
    kind, more, own = OPERANDS[case]
    T, B, N, M = shape
    record = RECORDS[kind]
    tensors = draw(record, (T, B, N), torch.float32, M=M, more=more)
    if V is not None:
        tensors["V"] = torch.randn(V, N, generator=torch.Generator().manual_seed(3)) / N**0.5
    options = own | options
    if steps == "ragged":
        options["batch_sizes"] = ragged_sizes(T, B)
    if steps == "reverse":
        options["reverse"] = True
    if steps == "resets":
        options["resets"] = torch.rand(T, B, generator=torch.Generator().manual_seed(2)) < 0.2

    def run(given, **more_options):
        given = dict(given)
        norm = {}
        if "gain" in given:
            norm["layer_norm"] = given.pop("gain"), given.pop("shift")
        return RUNS[kind](**given, **norm, **options, **more_options)

    return record, tensors, run


@steps
@pytest.mark.pairs
@pytest.mark.parametrize("products", SWITCHES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("case", OPERANDS)
def test_products_are_those_of_rounded_numbers(case, shape, products, steps):
    record, tensors, run = run_case(case, shape, steps)
    torch.set_float32_matmul_precision(SWITCHES[products])
    check_products(products, record, tensors, run)


def check_products(products, record, tensors, run):
    """Check results and gradients against the definition, whose products are rounded as well."""
    found = results_and_gradients(record, tensors, lambda given: run(given, backend="cpu"))
    with RoundedProducts(products):
        wanted = results_and_gradients(
            record, exact(tensors), lambda given: run(given, backend="reference")
        )
    # a state beside the middle of two numbers of bfloat16 may be rounded to the other one
    # of 60 steps without a bound on the states, the sums of split products differ by 1.4e-5
    bound = 2e-3 if products == "bfloat16" else 2e-5
    for name, tensor in found.items():
        assert error(tensor, wanted[name]) < bound, name


@steps
@pytest.mark.pairs
@pytest.mark.parametrize("products", SWITCHES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("case", sorted(set(OPERANDS) - {"modrelu"}))  # whose derivative jumps
def test_results_are_near_those_of_64_bits(case, shape, products, steps):
    record, tensors, run = run_case(case, shape, steps)
    torch.set_float32_matmul_precision(SWITCHES[products])
    found = results_and_gradients(record, tensors, run)
    wanted = results_and_gradients(
        record, exact(tensors), lambda given: run(given, backend="reference")
    )
    bound = {"bfloat16": 3 * 2**-8, "split": 2 * 2**-16}[products]
    errors = {name: error(tensor, wanted[name]).item() for name, tensor in found.items()}
    assert max(errors.values()) < bound, errors
    least = {"bfloat16": 2**-12, "split": 2**-21}[products]
    assert errors["h"] > least  # they are rounded at all


@pytest.mark.parametrize("V", [5, 70])
@pytest.mark.parametrize("products", SWITCHES)
def test_a_head_in_the_recurrence(products, V):
    record, tensors, run = run_case("elman", (5, 7, 70, 3), "whole", V=V)
    torch.set_float32_matmul_precision(SWITCHES[products])
    check_products(products, record, tensors, run)
    y, _ = run({name: tensor.requires_grad_() for name, tensor in tensors.items()})
    dy = torch.randn(y.shape)
    apart = dy.mT.contiguous().mT  # the same numbers, but those of a row are apart
    for leaf in ("V", "W", "x"):
        (one,) = torch.autograd.grad(y, tensors[leaf], dy, retain_graph=True)
        (other,) = torch.autograd.grad(y, tensors[leaf], apart, retain_graph=True)
        assert torch.equal(one, other)


@pytest.mark.parametrize("case", OPERANDS)
def test_a_sequence_does_not_depend_on_its_batch(case):
    torch.set_float32_matmul_precision("medium")
    _, tensors, run = run_case(case, (4, 35, 70, 3), "whole")
    together = run(tensors)
    for rows in (slice(0, 1), slice(17, 33)):
        some = {**tensors, "x": tensors["x"][:, rows]}
        for state in tensors.keys() & {"h0", "c0"}:
            some[state] = tensors[state][rows]
        alone = run(some)
        assert torch.equal(alone[0], together[0][:, rows])
        assert torch.equal(alone[1], together[1][rows])


@pytest.mark.parametrize("products", SWITCHES)
def test_threads_do_not_change_the_states(products):
    torch.set_float32_matmul_precision(SWITCHES[products])
    before = torch.get_num_threads()
    for shape in ((3, 40, 70, 3), (17, 1, 512, 3)):  # in the second, threads share the units
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            _, tensors, run = run_case("gru", shape, "whole")
            found.append(run(tensors)[0])
        torch.set_num_threads(before)
        assert torch.equal(found[0], found[1])
        assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("make", [eigenrnn.ScoRNN, eigenrnn.GRU, eigenrnn.LSTM])
def test_a_stream_keeps_the_products_with_which_it_was_packed(make):
    layer = make(3, 70).freeze()
    x = torch.randn(6, 3)
    stream = eigenrnn.Stream(layer)
    torch.set_float32_matmul_precision("medium")
    stream(x[0])  # packs the weights
    torch.set_float32_matmul_precision("highest")
    stream.reset()
    steps = torch.stack([stream(x_t) for x_t in x])
    exact_steps, _ = layer(x)
    torch.set_float32_matmul_precision("medium")
    rounded, _ = layer(x)
    assert torch.equal(steps, rounded)
    assert not torch.equal(steps, exact_steps)


def test_small_states_stay_in_float32():
    least = kernels.least_units_of_tiles
    for N, is_rounded in ((least - 1, False), (least, True)):
        _, tensors, run = run_case("elman", (3, 4, N, 2), "whole")
        torch.set_float32_matmul_precision("highest")
        before, _ = run(tensors)
        torch.set_float32_matmul_precision("medium")
        after, _ = run(tensors)
        assert torch.equal(before, after) != is_rounded


def test_calls_in_64_bits_and_complex_ones_are_not_rounded():
    W = torch.linalg.qr(torch.randn(64, 64, dtype=torch.complex64))[0]
    calls = {
        "float64": (torch.randn(3, 2, 70, dtype=torch.float64), torch.eye(70).double(), "tanh"),
        "complex64": (torch.randn(3, 2, 64, dtype=torch.complex64), W, "modrelu"),
    }
    for x, W, nonlinearity in calls.values():
        torch.set_float32_matmul_precision("highest")
        before, _ = elman(x, W, nonlinearity=nonlinearity)
        torch.set_float32_matmul_precision("medium")
        after, _ = elman(x, W, nonlinearity=nonlinearity)
        assert torch.equal(before, after)


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan, 3.4e38])
@pytest.mark.parametrize("products", SWITCHES)
def test_what_is_not_finite_reaches_the_states(products, value):
    x = torch.zeros(2, 3, 64)
    x[0, 1, 5] = value  # 3.4e38 rounds to infinity
    W = torch.eye(64) / 2
    U = torch.eye(64)
    torch.set_float32_matmul_precision(SWITCHES[products])
    h, _ = elman(x, W, U=U, nonlinearity="identity")
    assert torch.equal(h[:, [0, 2]], torch.zeros(2, 2, 64))
    assert not h[0, 1, 5].isfinite()
    assert not h[1, 1, 5].isfinite()
    if value != value:
        assert h[0, 1, 5].isnan()


def test_gradients_of_gradients():
    torch.set_float32_matmul_precision("medium")
    _, tensors, run = run_case("elman", (3, 2, 64, 2), "whole")
    leaves = {name: tensor.requires_grad_() for name, tensor in tensors.items()}
    h, _ = run(leaves)
    (dW,) = torch.autograd.grad(h.square().sum(), leaves["W"], create_graph=True)
    second = torch.autograd.grad(dW.square().sum(), leaves["x"])[0]
    torch.set_float32_matmul_precision("highest")
    h, _ = run(leaves)
    (dW,) = torch.autograd.grad(h.square().sum(), leaves["W"], create_graph=True)
    wanted = torch.autograd.grad(dW.square().sum(), leaves["x"])[0]
    assert error(second, wanted) < 8 * 2**-8


@pytest.mark.parametrize("make", [eigenrnn.ScoRNN, eigenrnn.GRU, eigenrnn.LSTM])
def test_autocast_multiplies_bfloat16_and_stores_it(make):
    layer = make(3, 70)
    x = torch.randn(12, 40, 3).bfloat16().float()
    with torch.autocast("cpu", torch.bfloat16):
        stored, _ = layer(x)
    stored.float().square().sum().backward()
    found = [parameter.grad for parameter in layer.parameters()]
    layer.zero_grad()
    torch.set_float32_matmul_precision("medium")
    rounded, _ = layer(x)
    rounded.square().sum().backward()
    assert torch.equal(stored, rounded.bfloat16())
    for gradient, parameter in zip(found, layer.parameters(), strict=True):
        # the loss reads rounded states; the map of a ScoRNN makes 3.6 of it on a Xeon with AMX
        assert error(gradient, parameter.grad) < 4 * 2**-8


def test_autocast_in_float16_multiplies_float32():
    layer = eigenrnn.GRU(3, 70)
    x = torch.randn(5, 4, 3).half()
    with torch.autocast("cpu", torch.float16):
        stored, _ = layer(x)
    assert torch.equal(stored, layer(x.float())[0].half())


def test_the_switch_of_recurrent_layers_comes_before_that_of_all_products():
    rnn = torch.backends.mkldnn.rnn
    assert precision.products_of_switches() == "float32"
    torch.set_float32_matmul_precision("medium")
    assert precision.products_of_switches() == "bfloat16"
    torch.set_float32_matmul_precision("high")
    assert precision.products_of_switches() == "split"
    try:
        for switch, products in {"bf16": "bfloat16", "tf32": "split", "ieee": "float32"}.items():
            rnn.fp32_precision = switch
            assert precision.products_now(torch.float32) == products
            with torch.autocast("cpu", torch.bfloat16):
                assert precision.products_now(torch.float32) == "bfloat16"
    finally:
        rnn.fp32_precision = "none"


def test_switches_of_a_part_of_torch():
    # torch.get_float32_matmul_precision raises an error then
    matmul = torch.backends.mkldnn.matmul
    try:
        matmul.fp32_precision = "bf16"
        assert "bfloat16" in eigenrnn.GRU(5, 70).explain(torch.randn(3, 2, 5))["cpu"]
    finally:
        matmul.fp32_precision = "none"


def test_without_tiles_nothing_is_rounded(monkeypatch):
    monkeypatch.setattr(precision, "has_tiles", False)
    torch.set_float32_matmul_precision("medium")
    assert precision.products_of_float32(torch.eye(70)) == "float32"
    for dtype in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16):
            assert precision.products_now(dtype) == "float32"


def test_explain_names_the_products():
    x = torch.randn(3, 2, 5)
    assert eigenrnn.GRU(5, 70).explain(x)["cpu"] == "chosen"
    torch.set_float32_matmul_precision("medium")
    assert eigenrnn.GRU(5, 70).explain(x)["cpu"] == "chosen, with bfloat16 products"
    assert eigenrnn.GRU(5, 63).explain(x)["cpu"] == "chosen"
    assert eigenrnn.LRU(5, 70).explain(x)["cpu"] == "chosen"
    torch.set_float32_matmul_precision("high")
    assert eigenrnn.ScoRNN(5, 70).explain(x)["cpu"] == "chosen, with split products"
    in_16_bits = eigenrnn.GRU(5, 70).bfloat16().explain(x.bfloat16())["cpu"]
    assert in_16_bits == "chosen, with bfloat16 products"
    assert eigenrnn.GRU(5, 70).double().explain(x.double())["cpu"] == "chosen"


def test_a_compiled_layer_multiplies_what_an_eager_one_does():
    torch.set_float32_matmul_precision("medium")
    layer = eigenrnn.GRU(3, 70)
    x = torch.randn(4, 2, 3)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x)[0], layer(x)[0])
