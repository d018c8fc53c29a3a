"""A layer of an LRU in the compiled kernels equals its definition, outputs and gradients."""

import itertools
from functools import partial

import pytest
import torch

import eigenrnn
from draws import stream
from eigenrnn.linalg import tol
from eigenrnn.ops import use_backend
from eigenrnn.ops.linear import LinearOptions
from eigenrnn.ops.linear.layer import LRU_LAYER, LRUOperands, lru_cpu, lru_layer
from kernel_testing import needs_kernels

pytestmark = needs_kernels

SIZES = {  # T, B, M, K
    "a step": (1, 3, 2, 4),
    "one sequence": (150, 1, 3, 5),
    "many sequences": (3, 150, 2, 4),
    "whole vectors": (9, 4, 16, 32),
    "odd_sizes": (7, 5, 1, 19),
}
PARTS = {"real": 1, "complex": 2}
OPTIONS = {
    "plain": {},
    "reverse": {"reverse": True},
    "ragged": {"ragged": True},
    "ragged, reverse": {"ragged": True, "reverse": True},
    "resets": {"resets": True},
    "resets, ragged": {"resets": True, "ragged": True},
    "batch first": {"batch_first": True},
    "without outputs": {"outputs": False},
    "the last state alone is used": {"used": ("last",)},
    "the outputs alone are used": {"used": ("y",)},
    "all states are used": {"used": ("h", "last", "y")},
}


def draw(
    size, parts, *, ragged=False, resets=False, batch_first=False, outputs=True, gaps=False, **_
):
    """Return operands that require gradients, and the batch sizes of the call."""
    T, B, M, K = size
    N = parts * K
    generator = stream(T + B)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    x = normal(B, T, M).transpose(0, 1) if batch_first else normal(T, B, M)
    modulus = torch.rand(K, generator=generator, dtype=torch.float64)
    decay = modulus.repeat_interleave(parts) * 0.7
    if gaps:  # some have a negative part, and those at the end are near one
        decay = decay.unflatten(0, (K, parts))
        decay[::2, 1] *= -1
        one = torch.tensor([1.0, 0.0])
        decay[-3:] = one - decay[-3:] / 20
        decay[-1] = one
        decay = decay.flatten()
    output_map = (normal(K, N), normal(K, M), normal(K)) if outputs else (None, None, None)
    operands = LRUOperands(x, decay, normal(B, N), normal(N, M), normal(K) / 3, *output_map)
    if gaps:  # also none at all, and the gap of a step
        dt = 2 * torch.rand(T, B, generator=generator, dtype=torch.float64)
        dt[::3] = dt[::3].round()
        operands = operands._replace(dt=dt)
    operands = operands._make(v if v is None else v.requires_grad_() for v in operands)
    if resets:
        operands = operands._replace(resets=normal(T, B) > 0.8)
    sizes = None
    if ragged:
        lengths = sorted(torch.randint(1, T + 1, (B,), generator=generator).tolist(), reverse=True)
        lengths[0] = T
        sizes = []
        for t in range(T):
            sizes.append(sum(length > t for length in lengths))
    return operands, sizes


def gradients(results, operands, used):
    """Return the gradients of a loss that weighs the results."""
    generator = stream(5)
    loss = 0.0
    for name in used:
        if results.get(name) is not None:
            weights = torch.randn(results[name].shape, generator=generator, dtype=torch.float64)
            loss = loss + (weights * results[name]).sum()
    wanted = [v for v in operands if v is not None and v.requires_grad]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [torch.zeros_like(v) if g is None else g for v, g in zip(wanted, found, strict=True)]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_results_and_gradients_equal_the_definition(size, parts, name):
    check(size, parts, OPTIONS[name])


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_results_and_gradients_after_gaps_equal_the_definition(size, name):
    check(size, PARTS["complex"], {**OPTIONS[name], "gaps": True})


def check(size, parts, given):
    operands, batch_sizes = draw(size, parts, **given)
    options = LinearOptions(batch_sizes, given.get("reverse", False))
    used = given.get("used", ("last", "y"))
    got = lru_cpu(operands, options)
    expected = LRU_LAYER.define(operands, options)
    bound = {"rtol": 1e-9, "atol": 1e-9}
    for each, result in expected.items():
        if result is not None:
            torch.testing.assert_close(got[each], result, **bound)
    for g, e in zip(
        gradients(got, operands, used), gradients(expected, operands, used), strict=True
    ):
        torch.testing.assert_close(g, e, **bound)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_in_the_padding_has_no_effect(reverse, gaps):
    operands, sizes = draw(SIZES["odd_sizes"], 2, ragged=True, gaps=gaps)
    options = LinearOptions(sizes, reverse)
    padded = operands
    for name in ("x", "dt") if gaps else ("x",):
        values = getattr(operands, name).detach().clone()
        for t, n in enumerate(sizes):
            values[t, n:] = torch.nan
        padded = padded._replace(**{name: values.requires_grad_()})
    got = lru_cpu(padded, options)
    expected = LRU_LAYER.define(operands, options)
    for name in ("last", "y"):
        torch.testing.assert_close(got[name], expected[name])
    used = ("last", "y")
    for g, e in zip(
        gradients(got, padded, used), gradients(expected, operands, used), strict=True
    ):
        torch.testing.assert_close(g, e)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_results_only_by_rounding(threads, gaps):
    operands, _ = draw(SIZES["odd_sizes"], 2, gaps=gaps)
    one = lru_cpu(operands, LinearOptions())
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        several = lru_cpu(operands, LinearOptions())
        found = gradients(several, operands, ("last", "y"))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(several["y"], one["y"])
    for g, e in zip(found, gradients(one, operands, ("last", "y")), strict=True):
        torch.testing.assert_close(g, e)


@pytest.mark.parametrize("gaps", [False, True])
def test_gradients_have_gradients(gaps):
    operands, _ = draw((3, 2, 2, 2), 2, gaps=gaps)
    present = {name: v for name, v in operands._asdict().items() if v is not None}
    tensors = tuple(present.values())

    def outputs(*given):
        operands = LRUOperands(**dict(zip(present, given, strict=True)))
        return lru_cpu(operands, LinearOptions())["y"]

    assert torch.autograd.gradgradcheck(outputs, tensors, fast_mode=True)


LAYERS = {
    "complex": eigenrnn.LRU,
    "real": lambda *args, **options: eigenrnn.LRU(
        *args, constraint=eigenrnn.constraints.DiagonalSegment, **options
    ),
}
CALLS = {
    "options": (
        {"num_layers": 2},
        {"bidirectional": True},
        {"trainable_h0": True},
        {"bias": False},
    ),
    "given": ({}, {"lengths": [4, 6, 1]}, {"last_only": True}),
}


@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize(("options", "given"), [*itertools.product(*CALLS.values())])
def test_a_layer_is_the_same_in_its_own_kernel_and_in_parts(make, options, given):
    layer = make(3, 5, generator=stream(), **options)
    x = torch.randn(6, 3, 3, generator=stream(1))
    found = []
    for backend in (None, "reference"):
        with use_backend(backend):
            output, h_n = layer(x, **given)
        loss = h_n.square().sum()
        if output is not None:
            loss = loss + output.square().sum()
        named = dict(layer.named_parameters())
        found.append(torch.autograd.grad(loss, [*named.values()], allow_unused=True))
    for fused, parts in zip(*found, strict=True):
        if parts is None:
            assert fused is None or not fused.any()
        else:
            torch.testing.assert_close(fused, parts, rtol=1e-3, atol=tol(torch.float32, 100))


def test_a_call_that_the_kernels_do_not_take_is_left_to_the_others():
    operands, _ = draw((400, 1, 128, 128), 2)
    before = torch.get_num_threads()
    torch.set_num_threads(3)  # more than twice the sequences
    try:
        assert lru_layer(operands, LinearOptions()) is None
        with_gaps = operands._replace(dt=torch.ones(400, 1, dtype=operands.x.dtype))
        assert lru_layer(with_gaps, LinearOptions()) is not None
    finally:
        torch.set_num_threads(before)
    half = operands._make(v if v is None else v.detach().half() for v in operands)
    assert lru_layer(half, LinearOptions()) is None


def test_a_weight_of_a_wrong_shape_is_refused():
    operands, _ = draw(SIZES["odd_sizes"], 2)
    wrong = operands._replace(d=operands.d[:-1])
    with pytest.raises(ValueError, match="expected d of shape"):
        lru_layer(wrong, LinearOptions())


def test_the_operator_passes_opcheck():
    operands, sizes = draw((4, 3, 2, 3), 2, ragged=True)
    arguments = lru_cpu.arguments(operands, LinearOptions(sizes))
    checks = ["test_schema", "test_autograd_registration", "test_faketensor"]
    torch.library.opcheck(torch.ops.eigenrnn.lru_cpu.default, arguments, test_utils=checks)


def test_inference_stores_no_states():
    operands, _ = draw(SIZES["odd_sizes"], 2)
    with torch.no_grad():
        for _ in range(2):  # the checked call, and the planned one
            assert lru_layer(operands, LinearOptions())["h"].shape == (0, 5, 38)


WRONG_SIZES = {"many": 20, "few": 1}


@pytest.mark.parametrize("size", WRONG_SIZES.values(), ids=WRONG_SIZES)
def test_a_scale_of_another_size_never_reaches_the_kernels(size):
    layer, x = eigenrnn.LRU(3, 5, dtype=torch.float64), torch.randn(6, 4, 3, dtype=torch.float64)
    expected = layer(x, last_only=True)[1]
    weights = dict(layer.named_parameters())
    weights["directions.0.gamma_log"] = torch.zeros(size, dtype=torch.float64)
    call = partial(torch.func.functional_call, layer, weights, (x,), {"last_only": True})
    if size == 1:  # one scale for all units
        assert call()[1].shape == expected.shape
    else:
        with pytest.raises(RuntimeError, match="must match"):
            call()


def test_each_operand_alone_has_the_gradient_that_all_have_together():
    operands, _ = draw(SIZES["odd_sizes"], 2, gaps=True)
    used = ("last", "y")
    together = gradients(lru_cpu(operands, LinearOptions()), operands, used)
    present = {name: v.detach() for name, v in operands._asdict().items() if v is not None}
    for (name, v), expected in zip(present.items(), together, strict=True):
        alone = LRUOperands(**{**present, name: v.clone().requires_grad_()})
        (got,) = gradients(lru_cpu(alone, LinearOptions()), alone, used)
        torch.testing.assert_close(got, expected, msg=name)


def test_the_gradient_of_a_decay_keeps_its_digits():
    operands, _ = draw((3000, 8, 2, 4), 2)
    exact = gradients(lru_cpu(operands, LinearOptions()), operands, ("y",))[1]
    single = operands._make(
        None if v is None else v.detach().float().requires_grad_() for v in operands
    )
    results = lru_cpu(single, LinearOptions())
    weights = torch.randn(results["y"].shape, generator=stream(5), dtype=torch.float64).float()
    (got,) = torch.autograd.grad((weights * results["y"]).sum(), [single.decay])
    assert float((got - exact).norm() / exact.norm()) < 2e-6


EIGENVALUES = {
    "one": (1.0, 0.0),
    "near one": (1 - 1e-5, 1e-5),
    "less near one": (0.96, 0.03),
    "minus one": (-1.0, 0.0),
    "nearly minus one": (-1.0, -1e-9),
    "on the circle": (0.6, 0.8),
    "small": (1e-6, -1e-7),
    "almost one": (1.0, 1e-40),
    "more than one": (1.2, -0.3),
}
"""The real and the imaginary part."""
GAPS = [0.0, 1e-7, 0.3, 1.0, 2.0, 7.5, 300.0]


def after_one_gap(eigenvalue, dtype):
    """Return operands of one step, with a sequence for each gap."""
    generator = stream(3)
    dt = torch.tensor([GAPS], dtype=torch.float64)
    B = len(GAPS)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    decay = torch.tensor(eigenvalue, dtype=torch.float32).double()  # the same in both dtypes
    operands = LRUOperands(
        normal(1, B, 2), decay, normal(B, 2), normal(2, 2), normal(1) / 3, dt=dt
    )
    return operands._make(None if v is None else v.to(dtype).requires_grad_() for v in operands)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("eigenvalue", EIGENVALUES.values(), ids=EIGENVALUES)
def test_powers_of_any_eigenvalue_keep_the_digits(eigenvalue, dtype):
    exact = after_one_gap(eigenvalue, torch.float64)
    operands = after_one_gap(eigenvalue, dtype)
    expected = LRU_LAYER.define(exact, LinearOptions())
    got = lru_cpu(operands, LinearOptions())
    bound = {"rtol": 1e-9, "atol": 1e-9}
    if dtype == torch.float32:  # which rounds an angle of 300 pi
        bound = {"rtol": 2e-4, "atol": 2e-4}
    torch.testing.assert_close(got["last"].double(), expected["last"], **bound)
    used = ("last",)
    found = gradients({"last": got["last"].double()}, operands, used)
    for g, e in zip(found, gradients(expected, exact, used), strict=True):
        torch.testing.assert_close(g.double() / e.abs().max(), e / e.abs().max(), **bound)


def test_an_eigenvalue_of_zero_forgets_all_but_a_gap_of_zero():
    operands = after_one_gap((0.0, 0.0), torch.float64)
    torch.testing.assert_close(
        lru_cpu(operands, LinearOptions())["last"],
        LRU_LAYER.define(operands, LinearOptions())["last"],
    )
    last = lru_cpu(operands, LinearOptions())["last"]
    torch.testing.assert_close(last[0], operands.h0[0])
    scaled = operands.U * operands.gamma_log.exp()
    torch.testing.assert_close(last[1:], operands.x[0, 1:] @ scaled.T)


def test_a_power_beyond_the_largest_number_is_not_finite():
    operands = after_one_gap((1.5, 0.0), torch.float32)
    last = lru_cpu(operands, LinearOptions())["last"]
    assert last[:-1].isfinite().all()
    assert not last[-1].isfinite().any()


@pytest.mark.parametrize("eigenvalue", [(0.0, 0.0), (1e-40, -1e-41)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_eigenvalues_near_zero_have_finite_gradients(eigenvalue, dtype):
    operands = after_one_gap(eigenvalue, dtype)
    operands = operands._replace(h0=1e9 * operands.h0)
    last = lru_cpu(operands, LinearOptions())["last"]
    found = torch.autograd.grad(last.sum(), [operands.decay, operands.x, operands.dt])
    assert all(g.isfinite().all() for g in found)
