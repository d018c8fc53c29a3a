"""Gradient maps against Jacobians of whole sequences; spectral norms against exact ones."""

import numpy as np
import pytest
import torch
from torch import nn

from draws import normal
from eigenrnn.analysis import gradient_map, state_maps
from eigenrnn.analysis.gradients import SpectralNorms
from eigenrnn.constraints import Unconstrained
from eigenrnn.layers import ENRNN, GRU, RNN, ScoRNN, ScuRNN, TorchLSTM

T, B, M, N = 5, 2, 2, 4

LAYERS = {
    "tanh": lambda **options: nn.RNN(M, N, **options),
    "torch-gru": lambda **options: nn.GRU(M, N, **options),
    "lstm": lambda **options: TorchLSTM(M, N, **options),
    "gru": lambda **options: GRU(M, N, **options),
    "scornn": lambda **options: ScoRNN(M, N, **options),
    "scurnn": lambda **options: ScuRNN(M, N, **options),
    "enrnn": lambda **options: ENRNN(M, N, short_size=1, **options),
}


def norms(J):  # (T, S, T, K) of one sequence, to (T, T)
    return torch.linalg.matrix_norm(J.movedim(2, 1), 2).tril().detach().numpy()


def run(state_map, x, perturbations):  # (T, M), (T + 1, S)
    state, states = state_map.begin(1), []
    for x_t, perturbation in zip(x, perturbations, strict=True):
        state = state_map.step(x_t[None], state) + perturbation
        states.append(state[0])
    return torch.stack(states)


def by_jacrev(state_map, x, rows):
    """Return both maps of sequences in processing order, by autograd."""
    none = torch.zeros(len(x), state_map.state_size, dtype=torch.float64)
    result = []
    for b in range(x.shape[1]):
        by_input = torch.func.jacrev(lambda x: run(state_map, x, none)[:, rows])(x[:, b])
        # a perturbation of a state propagates as the state itself does
        by_state = torch.func.jacrev(lambda d, b=b: run(state_map, x[:, b], d)[:, rows])(none)
        result.append((norms(by_input), norms(by_state)))
    return np.mean(result, axis=0)


def assert_map(result, expected):
    T = len(result)
    np.testing.assert_allclose(np.nan_to_num(result), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(np.isnan(result), np.triu(np.ones((T, T)), 1))


@pytest.mark.parametrize("name", LAYERS)
def test_maps_equal_norms_of_jacobians_by_autograd(name):
    layer, x = LAYERS[name](), normal(T, B, M)
    state_map, result = state_maps(layer)[0], gradient_map(layer, x)
    for block, rows in {"whole": slice(None), **state_map.blocks}.items():
        by_input, by_state = by_jacrev(state_map, x, rows)
        assert_map(result.by_input[block], by_input)
        assert_map(result.by_state[block], by_state)
    assert set(result.by_input) == set(result.by_state) == {"whole", *state_map.blocks}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("which", ["l0_reverse", "l1", "l1_reverse"])
def test_later_layers_and_directions_read_the_outputs_of_earlier_ones(name, which):
    layer = LAYERS[name](num_layers=2, bidirectional=True).double()
    x = normal(T, B, M)
    state_map = next(each for each in state_maps(layer) if each.name == which)
    if which != "l0_reverse":
        lower = LAYERS[name](bidirectional=True).double()
        lower.load_state_dict(layer.state_dict(), strict=False)
        x = lower(x)[0].detach()
    by_input, by_state = by_jacrev(state_map, x.flip(0) if state_map.reverse else x, slice(None))
    result = gradient_map(layer, normal(T, B, M), which=which)
    assert_map(result.by_input["whole"], by_input)
    assert_map(result.by_state["whole"], by_state)


def test_parts_of_the_state_of_an_enrnn_and_an_lstm_are_named():
    x = normal(3, 1, M)
    assert list(gradient_map(ENRNN(M, N), x).by_input) == ["whole", "long", "short"]
    assert list(gradient_map(TorchLSTM(M, N), x).by_state) == ["whole", "hidden", "cell"]


@pytest.mark.parametrize("w", [0.01, 100.0])
def test_norms_beyond_double_range_become_zero_or_infinite_never_nan(w):
    steps = 400
    layer = RNN(1, 1, nonlinearity="identity", bias=False, constraint=Unconstrained).double()
    layer.all_directions()[0].constraint.assign(torch.tensor([[w]], dtype=torch.float64))
    result = gradient_map(layer, torch.zeros(steps, 1, 1), of="state").by_state["whole"]
    powers = 10.0 ** np.clip(2 * np.arange(steps) * np.sign(np.log(w)), -400, 308)
    expected = np.where(np.arange(steps) > 153, np.inf if w > 1 else 0, powers)
    kept = np.arange(steps) < 150
    np.testing.assert_allclose(result[-1, ::-1][kept], expected[kept], rtol=1e-9)
    np.testing.assert_array_equal(result[-1, ::-1][170:], expected[170:])


def products(name, N, steps):
    generator = torch.Generator().manual_seed(0)
    G = torch.randn(steps, N, N, generator=generator, dtype=torch.float64)
    chain = torch.diag(torch.full((N - 1,), 1.1, dtype=torch.float64), -1)
    turn, x = torch.linalg.qr(G[0])[0], torch.randn(steps, 1, 1, generator=generator)
    if name == "enrnn":
        state_map = state_maps(ENRNN(1, N, generator=generator))[0]
        states = state_map.states(x)
        return state_map.jacobians(x[:, 0].double(), states[:-1, 0])[0]
    return {
        "random": G / N**0.5,
        "orthogonal": turn.expand(steps, N, N),
        "masked": turn * (G[:, :, :1] > -1.5),
        "chain": (chain + 0.5 * torch.eye(N, dtype=torch.float64)).expand(steps, N, N),
    }[name]


@pytest.mark.parametrize("name", ["random", "orthogonal", "masked", "chain", "enrnn"])
def test_spectral_norms_of_growing_products_are_within_half_a_per_cent(name):
    N, steps = 40, 50
    norms, A = SpectralNorms(1, steps, (N, N)), torch.zeros(steps, N, N, dtype=torch.float64)
    for tau, J in enumerate(products(name, N, steps)):
        A[:tau] = A[:tau] @ J.mT
        A[tau] = torch.eye(N)
        result = norms(A[None, : tau + 1], J[None])[0]
        torch.testing.assert_close(
            result, torch.linalg.matrix_norm(A[: tau + 1], 2), rtol=5e-3, atol=0
        )


def test_direction_that_becomes_dominant_late_is_found():
    N, steps = 40, 60
    norms, A = SpectralNorms(1, 1, (N, N)), torch.eye(N, dtype=torch.float64)[None]
    fading, growing = torch.full((N,), 0.9).double(), torch.full((N,), 0.1).double()
    growing[-1] = fading[-1] = 0.5
    for step in range(steps):
        J = torch.diag(fading if step < steps // 2 else growing)[None]
        A = A @ J.mT
        expected = torch.linalg.matrix_norm(A, 2)
        torch.testing.assert_close(norms(A[None], J)[0], expected, rtol=5e-3, atol=0)


def test_sequences_have_their_own_factors_and_columns_can_be_selected():
    B, N, steps = 3, 40, 20
    J = normal(steps, B, N, N) / N**0.5
    norms, A = SpectralNorms(B, 2, (N, N), slice(20, 40)), normal(B, 2, N, N)
    for factor in J:
        A = A @ factor[:, None].mT
        expected = torch.linalg.matrix_norm(A[..., 20:], 2)
        torch.testing.assert_close(norms(A, factor), expected, rtol=5e-3, atol=0)


def test_products_may_be_rescaled_between_steps():
    N = 40
    J, A = normal(N, N)[None], normal(1, 2, N, N)
    norms, scales = SpectralNorms(1, 2, (N, N)), normal(1, 2).abs() * 1e100
    norms(A, J)
    norms.rescale(scales)
    A = (scales[..., None, None] * A) @ J[:, None].mT
    torch.testing.assert_close(norms(A, J), torch.linalg.matrix_norm(A, 2), rtol=5e-3, atol=0)


@pytest.mark.parametrize("shape", [(3, 20), (20, 3), (20, 40), (40, 20)])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
def test_spectral_norms_of_any_shape_and_scale(shape, scale):
    A = scale * normal(6, *shape)
    result = SpectralNorms(1, 6, shape)(A[None], torch.eye(shape[1])[None].double())
    torch.testing.assert_close(result[0], torch.linalg.matrix_norm(A, 2), rtol=5e-3, atol=0)


def test_norm_of_zero_is_zero():
    zero = torch.zeros(1, 2, 20, 20, dtype=torch.float64)
    assert SpectralNorms(1, 2, (20, 20))(zero, zero[:, 0]).tolist() == [[0, 0]]


def test_one_kind_of_map_can_be_requested():
    result = gradient_map(nn.RNN(M, N), normal(T, B, M), of="input")
    assert set(result.by_input) == {"whole"}
    assert result.by_state == {}


def test_batch_first_layout_and_unbatched_input_are_accepted():
    layer = nn.RNN(M, N, batch_first=True)
    x = normal(T, 1, M)
    expected = gradient_map(layer, x.transpose(0, 1)).by_state["whole"]
    np.testing.assert_array_equal(gradient_map(layer, x[:, 0]).by_state["whole"], expected)


@pytest.mark.long
def test_steps_count_from_one_in_table_and_figure():
    result = gradient_map(nn.RNN(M, N), normal(T, B, M), of="state")
    table = result.table()
    assert (min(table["t"]), max(table["tau"])) == (1, T)
    (panel, _bar) = result.plot().axes
    assert panel.images[0].get_extent() == [0.5, T + 0.5, T + 0.5, 0.5]


def test_figure_table_and_headline_agree():
    result = gradient_map(ENRNN(M, N), normal(T, B, M))
    table = result.table()
    assert {len(np.asarray(column)) for column in table.values()} == {T * (T + 1) // 2}
    assert result.headline()["last long by first input"] == result.by_input["long"][-1, 0]
    assert len(result.plot().axes) == 12  # six maps, each with a colour bar


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        (normal(T, B, 3), {}, r"expected x of shape \(T, B, M\) or \(T, M\) with M = 2.*got"),
        (normal(0, B, M), {}, "at least one step"),
        (normal(T, B, M), {"which": "l1"}, "got 'l1'"),
        (normal(T, B, M), {"of": "weights"}, "expected of to contain 'input', 'state' or both"),
    ],
)
def test_invalid_argument_raises(x, options, message):
    with pytest.raises(ValueError, match=message):
        gradient_map(nn.RNN(M, N), x, **options)
