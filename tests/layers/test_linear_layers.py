"""LRU, MinGRU and the diagonal sets equal their formulas, computed by NumPy in float64.

NumPy stands alone: lrnnx 1.0, which has an LRU too, cannot be imported without CUDA.
"""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.utils import prune

import eigenrnn
from crossing import few
from draws import stream
from eigenrnn.analysis import (
    analyse,
    fixed_points,
    gradient_map,
    lyapunov,
)
from eigenrnn.analysis.state_map import recurrent_weights
from eigenrnn.constraints import DiagonalDisc, DiagonalRing, DiagonalSegment, ScaledCayley
from eigenrnn.layers import weight_drop
from eigenrnn.linalg import tol

T, B, M, N = 9, 3, 2, 4
LAYERS = {
    "disc": eigenrnn.LRU,
    "ring": partial(eigenrnn.LRU, constraint=partial(DiagonalRing, r_min=0.5)),
    "segment": partial(eigenrnn.LRU, constraint=DiagonalSegment),
    "MinGRU": eigenrnn.MinGRU,
    "negative": partial(eigenrnn.MinGRU, decays=(-1, 1)),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


def inputs(dtype=torch.float64):
    return torch.randn(T, B, M, generator=stream(1), dtype=torch.float64).to(dtype)


def lru(layer, x):
    """Evaluate the paper's equations with complex matrices."""
    w = {name.rpartition(".")[2]: p.detach().numpy() for name, p in layer.named_parameters()}
    (direction,) = layer.all_directions()
    decay = direction.constraint().detach().diagonal().numpy()
    S = 2 if np.iscomplexobj(decay) else 1
    U, C = w["weight_ih"].reshape(S, N, M), w["weight_out"].reshape(N, S, N)
    U, C = (U[0] + 1j * U[1], C[:, 0] + 1j * C[:, 1]) if S == 2 else (U[0], C[:, 0])
    h, ys = np.zeros((B, N), decay.dtype), []
    for x_t in x:
        h = decay * h + np.exp(w["gamma_log"]) * (x_t @ U.T)
        ys.append((h @ C.T).real + x_t @ w["weight_skip"].T + w["output_bias"])
    return np.stack(ys)


def min_gru(layer, x, low, high):
    """Evaluate the paper's equations, with any segment of decays."""
    U, b = (p.detach().numpy() for p in layer.parameters())
    h, ys = np.zeros((B, N)), []
    for x_t in x:
        z, v = np.split(x_t @ U.T + b, 2, axis=1)
        z = 1 / (1 + np.exp(-z))
        g = np.where(v >= 0, v + 0.5, 1 / (1 + np.exp(-v)))
        h = (low + (high - low) * (1 - z)) * h + z * g
        ys.append(h)
    return np.stack(ys)


@each_layer
def test_outputs_equal_the_formula_in_numpy(make):
    layer = make(M, N, generator=stream()).double()
    x = inputs()
    if isinstance(layer, eigenrnn.LRU):
        expected = lru(layer, x.numpy())
    else:
        expected = min_gru(layer, x.numpy(), *layer.decays)
    got = layer(x)[0].detach()
    torch.testing.assert_close(got, torch.from_numpy(expected), rtol=0, atol=tol(got.dtype, T * N))


@each_layer
def test_gradients_equal_finite_differences(make):
    layer = make(M, N, num_layers=2, bidirectional=True, generator=stream()).double()
    weights = dict(layer.named_parameters())

    def outputs(x, *values):
        named = dict(zip(weights, values, strict=True))
        return torch.func.functional_call(layer, named, (x,), {"lengths": [4, 2]})

    x = inputs()[:4, :2].clone().requires_grad_()
    assert torch.autograd.gradcheck(outputs, (x, *weights.values()), fast_mode=True)


@each_layer
def test_the_spectrum_is_that_of_its_set(make):
    layer = make(M, N, bidirectional=True, generator=stream())
    spectrum = layer.spectrum()
    assert spectrum.shape == (2, N)
    assert (spectrum.abs() <= 1 + tol(torch.float32, 1)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_numbers_of_a_disc_and_their_gradients_are_those_of_the_formula(dtype):
    disc = DiagonalDisc(40).to(dtype)
    with torch.no_grad():
        disc.nu.copy_(torch.linspace(-8, 6, 40))  # above 4 they count as 4
        disc.theta.copy_(torch.linspace(5, -7, 40))
    weights = torch.complex(*torch.randn(2, 40, generator=stream(), dtype=dtype))
    nu, theta = (each.detach().double().requires_grad_() for each in (disc.nu, disc.theta))
    exact = torch.polar(torch.exp(-torch.exp(nu.clamp(max=4))), torch.exp(theta.clamp(max=4)))
    numbers = disc.diagonal()
    torch.testing.assert_close(numbers.to(torch.complex128), exact, rtol=0, atol=tol(dtype, 100))
    got = torch.autograd.grad((weights * numbers).real.sum(), (disc.nu, disc.theta))
    expected = torch.autograd.grad((weights * exact).real.sum(), (nu, theta))
    for each, wanted in zip(got, expected, strict=True):
        torch.testing.assert_close(each.double(), wanted, rtol=0, atol=tol(dtype, 1000))
    assert not got[0][disc.nu > 4].any()
    assert not got[1][disc.theta > 4].any()


@pytest.mark.parametrize("frozen", ["nu", "theta"])
def test_the_gradient_of_a_number_of_a_disc_does_not_need_the_other(frozen):
    disc = DiagonalDisc(4).double()
    disc.get_parameter(frozen).requires_grad_(False)
    (trained,) = (each for each in disc.parameters() if each.requires_grad)
    assert torch.autograd.gradcheck(lambda _: disc.diagonal(), [trained])
    assert torch.autograd.gradgradcheck(lambda _: disc.diagonal(), [trained])


def test_the_gradients_of_a_disc_can_be_batched_and_read_through_hooks():
    disc = DiagonalDisc(4).double()
    leaves = [disc.nu, disc.theta]

    def parts():
        return torch.view_as_real(disc.diagonal())

    one_by_one = [torch.autograd.grad(parts().flatten()[i], leaves) for i in range(8)]
    basis = torch.eye(8, dtype=torch.float64).view(8, 4, 2)
    batched = torch.autograd.grad(parts(), leaves, basis, is_grads_batched=True)
    for got, expected in zip(batched, zip(*one_by_one, strict=True), strict=True):
        torch.testing.assert_close(got, torch.stack(expected))
    strided = torch.autograd.graph.saved_tensors_hooks(
        lambda v: torch.stack([v, v], dim=-1)[..., 0], lambda v: v
    )
    with strided:
        total = parts().square().sum()
    torch.testing.assert_close(
        torch.autograd.grad(total, leaves), torch.autograd.grad(parts().square().sum(), leaves)
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_lru_compiles_as_one_graph(dynamic):
    layer, x = eigenrnn.LRU(M, N, generator=stream()), inputs(torch.float32)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    torch.testing.assert_close(compiled(x)[0], layer(x)[0])


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_the_number_of_threads_does_not_enter_an_export():
    layer, x = eigenrnn.LRU(M, N, generator=stream()).eval(), inputs(torch.float32)
    batch = torch.export.Dim("B", min=1, max=5000)
    before = torch.get_num_threads()
    torch.set_num_threads(16)
    try:
        program = torch.export.export(layer, (x,), dynamic_shapes=({1: batch},))
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(program.module()(x[:, :1])[0], layer(x[:, :1])[0])


def test_an_lru_begins_on_the_ring_that_was_asked_for():
    layer = eigenrnn.LRU(
        M,
        500,
        constraint=partial(DiagonalDisc, phase=0.1),
        r_min=0.8,
        r_max=0.9,
        generator=stream(),
    )
    spectrum = layer.spectrum()
    assert (spectrum.abs() > 0.8 - 1e-5).all()
    assert (spectrum.abs() < 0.9 + 1e-5).all()
    assert (spectrum.angle() >= 0).all()
    assert (spectrum.angle() <= 0.1 + 1e-6).all()
    (direction,) = layer.all_directions()
    gamma = direction.gamma_log.detach().exp()
    power = direction.eigenvalues.diagonal().detach().abs() ** 2
    torch.testing.assert_close(gamma**2, 1 - power, rtol=1e-4, atol=1e-4)


def test_double_precision_is_complex128_in_the_recurrence():
    layer = eigenrnn.LRU(M, N, generator=stream()).double()
    assert layer.all_directions()[0].eigenvalues.diagonal().dtype == torch.complex128
    rounded = eigenrnn.LRU(M, N, generator=stream())
    rounded.load_state_dict(layer.state_dict())
    difference = (layer(inputs())[0] - rounded(inputs(torch.float32))[0]).abs().max()
    assert 0 < difference < tol(torch.float32, T * N)


REJECTED = {
    "dropout of a matrix": (lambda: weight_drop(eigenrnn.LRU(2, 4), 0.5), "got LRU"),
    "a full matrix": (lambda: eigenrnn.LRU(2, 4, constraint=ScaledCayley), "got ScaledCayley"),
    "a range of decays": (lambda: eigenrnn.MinGRU(2, 4, decays=(-2, 1)), r"got \(-2, 1\)"),
    "radii": (lambda: DiagonalDisc(4, r_min=0.9, r_max=0.8), "expected 0 <= r_min <= r_max, got"),
    "outside": (lambda: DiagonalDisc(4, r_max=1.1), "got 1.1"),
    "phase": (lambda: DiagonalRing(4, phase=0), "expected 0 < phase <= 2 pi, got 0"),
    "ends": (lambda: DiagonalSegment(4, low=1, high=1), "got low=1"),
}


@pytest.mark.parametrize(("make", "message"), REJECTED.values(), ids=REJECTED)
def test_bad_options_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make", [lambda: DiagonalRing(4, r_max=1.5), lambda: DiagonalSegment(4, low=-1.5)]
)
def test_eigenvalues_above_one_are_warned_of(make):
    with pytest.warns(UserWarning, match=r"got up to 1\.5"):
        make()


def test_a_layer_does_not_repeat_the_warning_of_its_set():
    with pytest.warns(UserWarning, match="got up to"):
        layer = eigenrnn.LRU(M, N, constraint=DiagonalRing, r_max=1.5)
    layer(inputs(torch.float32))
    circle = eigenrnn.LRU(M, N, constraint=DiagonalRing, r_min=1.0)
    circle.freeze().double()(inputs())  # moduli of one up to the rounding of float32


def test_hooks_of_the_set_of_eigenvalues_run():
    layer = eigenrnn.LRU(M, N, generator=stream())
    prune.l1_unstructured(layer.directions[0].constraint, "nu", amount=2)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    outputs = []
    for _ in range(2):
        outputs.append(layer(inputs(torch.float32))[0])
        outputs[-1].square().sum().backward()
        optimiser.step()
    assert not torch.allclose(*outputs, rtol=0.01)
    nu = layer.directions[0].constraint.nu_orig
    assert int((nu.grad == 0).sum()) == 2


# Analyses against closed forms: a linear state map has those of its decays.


def pair(values):
    """Return complex numbers as the analyses see them: all real parts, then all imaginary ones."""
    return np.concatenate([values.real, values.imag])


def descending(values):
    return np.sort(values)[::-1]


def real_states(decay):
    """Return how often a decay counts: twice, for both parts of a complex state."""
    return np.repeat(np.abs(decay), 2 if np.iscomplexobj(decay) else 1)


MODULI = torch.tensor([0.3, 0.9, 0.1, 0.6], dtype=torch.float64)  # far apart: exponents converge


@pytest.mark.parametrize("constraint", [DiagonalDisc, DiagonalSegment], ids=["disc", "segment"])
def test_exponents_of_an_lru_are_the_logarithms_of_its_moduli(constraint):
    layer = eigenrnn.LRU(1, N, constraint=constraint).double()
    diagonal = layer.all_directions()[0].constraint
    angles = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
    turns = torch.polar(torch.ones(N, dtype=torch.float64), angles)
    diagonal.assign((MODULI * (turns if diagonal.is_complex else 1)).diag())
    result = lyapunov(layer, torch.ones(200, 1, 1), discard=150)
    counted = 2 if diagonal.is_complex else 1  # real and imaginary part
    expected = np.repeat(np.log(descending(MODULI.numpy())), counted)
    assert result.exponents == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", ["MinGRU", "negative"])
def test_exponents_of_a_min_gru_are_the_mean_logarithms_of_its_decays(name):
    layer = LAYERS[name](1, N, generator=stream()).double()
    low, high = layer.decays
    U, b = (p.detach()[:N] for p in layer.parameters())
    b.copy_(((high - low) / (MODULI - low) - 1).log())  # the decays of the input zero
    x = torch.randn(300, 2, 1, generator=stream(1), dtype=torch.float64) / 10
    result = lyapunov(layer, x, discard=200)
    decays = low + (high - low) / (1 + np.exp(x.numpy() @ U.numpy().T + b.numpy()))
    expected = np.log(np.abs(decays[200:])).mean(axis=(0, 1))
    assert result.exponents == pytest.approx(descending(expected), rel=1e-8)


def test_gradients_of_an_lru_shrink_as_powers_of_its_largest_modulus():
    layer = eigenrnn.LRU(M, N, generator=stream()).double()
    norms = gradient_map(layer, inputs()[:, :1]).by_state["whole"]
    delays = np.arange(T)[:, None] - np.arange(T)
    expected = layer.spectrum().abs().max().item() ** np.where(delays >= 0, delays, np.nan)
    np.testing.assert_allclose(norms, expected, rtol=1e-9)


def _maps(layer):
    """Return gamma B and C as complex matrices."""
    (direction,) = layer.all_directions()
    B = torch.complex(
        *(direction.weight_ih * direction.gamma_log.exp().repeat(2)[:, None]).chunk(2)
    )
    return B, torch.complex(*direction.weight_out.chunk(2, dim=1))


def test_the_fixed_point_of_an_lru_under_a_constant_input_is_that_of_its_formula():
    layer, x = eigenrnn.LRU(M, N, generator=stream()).double(), np.array([0.5, -1.0])
    decay = layer.recurrent_matrices()[0].detach().numpy().diagonal()
    result = fixed_points(layer, x, initial_states=2, generator=stream())
    B = _maps(layer)[0].detach().numpy()
    np.testing.assert_allclose(result.points, [pair(B @ x / (1 - decay))], atol=1e-8)
    assert result.kinds == ["stable"]
    found = descending(np.abs(result.eigenvalues[0]))
    np.testing.assert_allclose(found, descending(real_states(decay)), rtol=1e-6)


def test_the_weights_around_the_decays_are_those_of_the_formulas():
    lru, gru = (LAYERS[name](M, N, generator=stream()).double() for name in ("disc", "MinGRU"))
    known = recurrent_weights(lru)["hh_l0"]
    assert torch.equal(known.U, _maps(lru)[0])
    assert known.constraint is lru.all_directions()[0].constraint
    assert torch.equal(recurrent_weights(gru)["decay_l0"].U, gru.all_directions()[0].weight_ih[:N])


@few("make", LAYERS, list(LAYERS)[:1])
def test_every_analysis_of_a_linear_recurrence_runs(make):
    layer = make(M, N, generator=stream())
    results = analyse(layer, inputs().float(), lambda y: y.square().mean())
    assert set(results.skipped) <= {"fisher_memory_decay_l0"}


@pytest.mark.parametrize("make_layer", [eigenrnn.LRU, eigenrnn.MinGRU])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_step_without_the_recurrence_equals_one_with_it(make_layer, frozen):
    layer = make_layer(3, 5, num_layers=2, dtype=torch.float64).eval()
    through = copy.deepcopy(layer)
    through.backend = "reference"  # a chosen backend computes single steps too
    if frozen:
        layer.freeze()
    x, h = torch.randn(4, 3, dtype=torch.float64), torch.randn_like(layer.initial_state(4))
    for result, expected in zip(layer.step(x, h), through.step(x, h), strict=True):
        torch.testing.assert_close(result, expected)


def test_positive_real_eigenvalues_of_a_disc_can_be_assigned():
    constraint = DiagonalDisc(3)
    W = torch.tensor([0.5, 0.9, 0.1]).diag().to(torch.complex64)
    constraint.assign(W)
    torch.testing.assert_close(constraint(), W, rtol=0, atol=tol(torch.float32, 3))


@pytest.mark.parametrize("backend", [None, "reference"])
def test_outputs_of_an_lru_are_zero_past_the_end_also_with_a_bias(backend):
    layer = eigenrnn.LRU(3, 4, backend=backend)
    torch.nn.init.ones_(layer.directions[0].output_bias)
    y, _ = layer(torch.randn(5, 2, 3), lengths=[5, 2])
    assert not y[2:, 1].any()
    assert y[:2, 1].all()
