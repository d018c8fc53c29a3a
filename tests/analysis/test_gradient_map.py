"""Gradient maps against Jacobians of whole sequences."""

import numpy as np
import pytest
import torch
from torch import nn

from eigenrnn.analysis import gradient_map, state_maps
from eigenrnn.constraints import Unconstrained
from eigenrnn.layers import ENRNN, GRU, RNN, ScoRNN, ScuRNN

T, B, M, N = 5, 2, 2, 4

LAYERS = {
    "tanh": lambda **options: nn.RNN(M, N, **options),
    "torch-gru": lambda **options: nn.GRU(M, N, **options),
    "lstm": lambda **options: nn.LSTM(M, N, **options),
    "gru": lambda **options: GRU(M, N, **options),
    "scornn": lambda **options: ScoRNN(M, N, **options),
    "scurnn": lambda **options: ScuRNN(M, N, **options),
    "enrnn": lambda **options: ENRNN(M, N, short_size=1, **options),
}


def draw(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


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
    layer, x = LAYERS[name](), draw(T, B, M)
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
    x = draw(T, B, M)
    state_map = next(each for each in state_maps(layer) if each.name == which)
    if which != "l0_reverse":
        lower = LAYERS[name](bidirectional=True).double()
        lower.load_state_dict(layer.state_dict(), strict=False)
        x = lower(x)[0].detach()
    by_input, by_state = by_jacrev(state_map, x.flip(0) if state_map.reverse else x, slice(None))
    result = gradient_map(layer, draw(T, B, M), which=which)
    assert_map(result.by_input["whole"], by_input)
    assert_map(result.by_state["whole"], by_state)


def test_parts_of_the_state_of_an_enrnn_and_an_lstm_are_named():
    x = draw(3, 1, M)
    assert list(gradient_map(ENRNN(M, N), x).by_input) == ["whole", "long", "short"]
    assert list(gradient_map(nn.LSTM(M, N), x).by_state) == ["whole", "hidden", "cell"]


def scalar(w):
    layer = RNN(1, 1, nonlinearity="identity", bias=False, constraint=Unconstrained).double()
    layer.all_directions()[0].constraint.assign(torch.tensor([[w]], dtype=torch.float64))
    return layer


def test_norms_below_double_range_become_zero_and_above_it_raise():
    x = torch.zeros(200, 1, 1)
    result = gradient_map(scalar(0.01), x, of="state").by_state["whole"]
    np.testing.assert_allclose(result[-1, :100:-1], 0.01 ** np.arange(99.0), rtol=1e-9)
    assert not result[-1, :30].any()
    with pytest.raises(ValueError, match="a product of Jacobians"):
        gradient_map(scalar(100.0), x, of="state")


def test_one_kind_of_map_can_be_requested():
    result = gradient_map(nn.RNN(M, N), draw(T, B, M), of="input")
    assert set(result.by_input) == {"whole"}
    assert result.by_state == {}


def test_batch_first_layout_and_unbatched_input_are_accepted():
    layer = nn.RNN(M, N, batch_first=True)
    x = draw(T, 1, M)
    expected = gradient_map(layer, x.transpose(0, 1)).by_state["whole"]
    np.testing.assert_array_equal(gradient_map(layer, x[:, 0]).by_state["whole"], expected)


@pytest.mark.long
def test_steps_count_from_one_in_table_and_figure():
    result = gradient_map(nn.RNN(M, N), draw(T, B, M), of="state")
    table = result.table()
    assert (min(table["t"]), max(table["tau"])) == (1, T)
    (panel, _bar) = result.plot().axes
    assert panel.images[0].get_extent() == [0.5, T + 0.5, T + 0.5, 0.5]


def test_figure_table_and_headline_agree():
    result = gradient_map(ENRNN(M, N), draw(T, B, M))
    table = result.table()
    assert {len(np.asarray(column)) for column in table.values()} == {T * (T + 1) // 2}
    assert result.headline()["last long by first input"] == result.by_input["long"][-1, 0]
    assert len(result.plot().axes) == 12  # six maps, each with a colour bar
