"""Recurrences under autocast: float32 arithmetic, with the tensors of all steps in bfloat16."""

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks

import eigenrnn
from eigenrnn.ops import elman, gru, lstm
from kernel_testing import needs_kernels, ragged_sizes

pytestmark = needs_kernels

RECURRENCES = {
    "elman": (elman, 1, {"nonlinearity": "tanh"}),
    "modrelu": (elman, 1, {"nonlinearity": "modrelu"}),
    "leak": (elman, 1, {"nonlinearity": "tanh", "leak": 0.3}),
    "normed": (elman, 1, {"nonlinearity": "tanh", "layer_norm": True}),
    "masked": (elman, 1, {"nonlinearity": "relu", "zoneout": True}),
    "gru": (gru, 3, {}),
    "gru, reset before": (gru, 3, {"reset_after": False, "layer_norm": True}),
    "lstm": (lstm, 4, {}),
}
SHAPES = {  # T, B, N, M; windows of 3, 6 and 257 steps
    "many sequences": (10, 100, 17, 3),
    "few": (14, 47, 5, 1),
    "one": (600, 1, 3, 2),
}


def rounded(tensor):
    return tensor.bfloat16().float()


def draw(gates, options, shape):
    T, B, N, M = shape
    generator = torch.Generator().manual_seed(T + N)

    def normal(*sizes, scale=1.0):
        return rounded(scale * torch.randn(sizes, generator=generator)).requires_grad_()

    tensors = {
        "x": normal(T, B, M),
        "W": normal(gates * N, N, scale=N**-0.5),
        "h0": normal(B, N),
        "U": normal(gates * N, M),
        "c": normal(gates * N),
    }
    if gates == 4:
        tensors["c0"] = normal(B, N)
    if options.get("nonlinearity") == "modrelu":
        tensors["bias"] = normal(N, scale=0.1)
    options = dict(options)
    if "layer_norm" in options:
        options["layer_norm"] = tensors["gain"], tensors["shift"] = (
            normal(gates * N),
            normal(gates * N),
        )
    if "zoneout" in options:
        options["zoneout"] = torch.rand(T, B, N, generator=generator) < 0.3
    return tensors, options


def results_and_gradients(run, tensors, options, *, autocast):
    operands = {name: v for name, v in tensors.items() if name not in ("gain", "shift")}
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        results = run(**operands, **options)
    assert results[0].dtype == (torch.bfloat16 if autocast else torch.float32)
    weights = torch.Generator().manual_seed(1)
    loss = 0.0
    for result in results:
        weight = rounded(torch.randn(result.shape, generator=weights))
        loss = loss + (result.float() * weight).sum()
    gradients = torch.autograd.grad(loss, list(tensors.values()))
    return [each.detach() for each in results], dict(zip(tensors, gradients, strict=True))


def with_rounded_steps(run, tensors, options):
    """The second definition: float32, but what is saved of each step is rounded."""

    def pack(tensor):
        return rounded(tensor) if tensor.dim() == 3 and tensor.is_floating_point() else tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        return results_and_gradients(run, tensors, options, autocast=False)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("steps", ["whole", "ragged", "resets"])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("kind", RECURRENCES)
def test_only_what_is_stored_of_a_step_is_rounded(kind, shape, steps, reverse):
    run, gates, options = RECURRENCES[kind]
    T, B, _, _ = shape
    tensors, options = draw(gates, options, shape)
    options |= {"reverse": reverse}
    if steps == "ragged":
        options |= {"batch_sizes": ragged_sizes(T, B)}
    elif steps == "resets":
        options |= {"resets": torch.rand(T, B, generator=torch.Generator().manual_seed(2)) < 0.1}
    results, gradients = results_and_gradients(run, tensors, options, autocast=True)
    expected, wanted = with_rounded_steps(run, tensors, options)
    assert torch.equal(results[0], expected[0].bfloat16())
    for result, exact in zip(results[1:], expected[1:], strict=True):
        assert torch.equal(result, exact)
    for name, gradient in gradients.items():
        exact = wanted[name].double()
        bound = 2**-8 if name == "x" else 2e-5  # the gradient of x has the dtype of x
        assert (gradient.double() - exact).norm() <= bound * exact.norm(), name


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm"])
def test_gradients_are_those_of_64_bits_but_for_a_few_roundings(kind):
    run, gates, options = RECURRENCES[kind]
    tensors, options = draw(gates, options, SHAPES["few"])
    _, gradients = results_and_gradients(run, tensors, options, autocast=True)
    doubles = {name: tensor.detach().double().requires_grad_() for name, tensor in tensors.items()}
    results = run(**doubles, **options, backend="reference")
    weights = torch.Generator().manual_seed(1)
    drawn = [rounded(torch.randn(result.shape, generator=weights)).double() for result in results]
    loss = sum((result * weight).sum() for result, weight in zip(results, drawn, strict=True))
    exact = torch.autograd.grad(loss, list(doubles.values()))
    for gradient, wanted in zip(gradients.values(), exact, strict=True):
        assert (gradient.double() - wanted).norm() <= 2 * 2**-8 * wanted.norm()


@pytest.mark.parametrize("make", [eigenrnn.ScoRNN, eigenrnn.GRU, eigenrnn.LSTM])
def test_a_layer_saves_half_as_much(make):
    saved = {torch.float32: 0, torch.bfloat16: 0}

    def pack(tensor):
        if tensor.dim() == 3:
            saved[dtype] += tensor.untyped_storage().nbytes()
        return tensor

    layer = make(16, 32)
    for dtype in saved:
        x = torch.randn(20, 8, 16)
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16)
        with saved_tensors_hooks(pack, lambda tensor: tensor), autocast:
            output, _ = layer(x)
        assert output.dtype == dtype
    assert 2 * saved[torch.bfloat16] == saved[torch.float32] > 0


def test_states_that_go_on_are_not_rounded():
    """A unit that adds 2^-9 to 1 at each step would stay there in 16 bits."""
    x = torch.full((64, 1, 1), 2.0**-9)
    with torch.autocast("cpu", torch.bfloat16):
        h, last = elman(x, torch.eye(1), torch.ones(1, 1), nonlinearity="identity")
    assert last.item() == 1 + 64 * 2.0**-9
    assert h[-1].item() == torch.tensor(1 + 64 * 2.0**-9).bfloat16().item()


def test_second_derivatives_exist_under_autocast():
    tensors, options = draw(1, {"nonlinearity": "tanh"}, (5, 2, 3, 1))
    with torch.autocast("cpu", torch.bfloat16):
        h, _ = elman(**tensors, **options)
    (first,) = torch.autograd.grad(h.float().square().sum(), tensors["W"], create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), tensors["W"])
    doubles = {name: tensor.detach().double().requires_grad_() for name, tensor in tensors.items()}
    h, _ = elman(**doubles, **options)
    (exact,) = torch.autograd.grad(h.square().sum(), doubles["W"], create_graph=True)
    (wanted,) = torch.autograd.grad(exact.square().sum(), doubles["W"])
    assert (second.double() - wanted).norm() <= 4 * 2**-8 * wanted.norm()


def test_a_compiled_layer_gives_the_same_bits():
    layer = eigenrnn.LSTM(2, 5)
    x = torch.randn(7, 3, 2)
    compiled = torch.compile(layer, backend="aot_eager")
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        output, _ = layer(x)
        found, _ = compiled(x)
    assert torch.equal(found, output)


def test_every_nan_stays_nan():
    """Rounding as a number would turn a NaN whose bits are all one into zero."""
    h0 = torch.full((3, 1), -1, dtype=torch.int32).view(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        h, _ = elman(torch.zeros(2, 3, 1), torch.eye(1), h0, nonlinearity="identity")
    assert h.isnan().all()


@pytest.mark.parametrize("kind", ["elman", "gru", "lstm"])
def test_float16_is_what_autocast_returns_too(kind):
    run, gates, options = RECURRENCES[kind]
    tensors, options = draw(gates, options, SHAPES["few"])
    with torch.autocast("cpu", torch.float16):
        h, *last = run(**tensors | {"x": tensors["x"].half()}, **options)
    wanted = run(**tensors | {"x": tensors["x"].half().float()}, **options)
    assert torch.equal(h, wanted[0].half())
    assert all(map(torch.equal, last, wanted[1:]))


@pytest.mark.parametrize("last_only", [False, True])
@pytest.mark.parametrize("kind", ["elman", "gru", "lstm"])
def test_fewer_sequences_than_threads_give_the_same_bits_without_gradients(kind, last_only):
    run, gates, options = RECURRENCES[kind]
    tensors, options = draw(gates, options, SHAPES["one"])
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with torch.autocast("cpu", torch.bfloat16):
            recorded = run(**tensors, **options)
            with torch.no_grad():
                h, *last = run(**tensors, **options, last_only=last_only)
    finally:
        torch.set_num_threads(threads)
    assert h.dtype == torch.bfloat16
    assert last_only or torch.equal(h, recorded[0])
    assert all(map(torch.equal, last, recorded[1:]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_input_of_sixteen_bits_beside_weights_of_32_needs_no_initial_state(dtype):
    x = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    h, last = elman(x, torch.eye(4))
    assert (h.dtype, last.dtype) == (dtype, torch.float32)
    torch.testing.assert_close(h, elman(x.float(), torch.eye(4))[0].to(dtype))
