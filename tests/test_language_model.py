"""LanguageModel against torch's own modules; its dropouts, weight drop and penalties."""

import copy
import io
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from eigenrnn import RNN, Dropouts, LanguageModel, NnRNN, ScuRNN, constrain
from eigenrnn.constraints import ScaledCayley
from eigenrnn.init import constant_
from eigenrnn.layers import GRU, ScoRNN, weight_drop
from eigenrnn.linalg import tol
from eigenrnn.models import count_parameters, penalty

T, B, K, E, N = 7, 3, 11, 4, 6
NEAR = {"rtol": 0, "atol": tol(torch.float32, T * N)}

threes_ = partial(constant_, value=3.0)

RECURRENT = {
    "scornn": lambda: ScoRNN(E, N),
    "rnn-2": lambda: RNN(E, N, num_layers=2, nonlinearity="tanh"),
    "gru": lambda: GRU(E, N),
    "torch-rnn": lambda: nn.RNN(E, N),
    "torch-gru": lambda: nn.GRU(E, N),
    "lstm": lambda: nn.LSTM(E, N),
    "lstm-2": lambda: nn.LSTM(E, N, num_layers=2),
    "constrained-lstm": lambda: constrain(nn.LSTM(E, N), "weight_hh_l0", ScaledCayley, rows="g"),
}
each_layer = pytest.mark.parametrize("make", RECURRENT.values(), ids=RECURRENT)


def text(steps=T):
    return torch.randint(K, (steps, B), generator=torch.Generator().manual_seed(1))


def three_lstms(**options):
    layers = [nn.LSTM(E, N), nn.LSTM(N, N), nn.LSTM(N, E)]
    return LanguageModel(K, E, layers, **options)


def recurrent_weights(layer):
    """The recurrent matrices that one forward pass uses."""
    if isinstance(layer, nn.RNNBase):
        return [W for W in layer._flat_weights if W.dim() == 2 and W.shape[1] == N][-1:]
    return [direction.weight_hh for direction in layer.all_directions()]


def test_a_model_equals_an_embedding_layers_and_a_linear_map():
    model = three_lstms(head_bias_init=threes_)
    embedding = nn.Embedding.from_pretrained(model.embedding.detach())
    x = embedding(text())
    for layer in model.layers:
        plain = nn.LSTM(layer.input_size, layer.hidden_size)
        plain.load_state_dict(layer.state_dict())
        x, _ = plain(x)
    expected = F.linear(x, model.head, model.head_bias)
    torch.testing.assert_close(model(text()), expected, **NEAR)


@each_layer
def test_two_windows_with_carried_state_equal_one_window(make):
    model = LanguageModel(K, E, [make(), RNN(N, 5)])
    whole, end = model.advance(text(), None)
    first, state = model.advance(text()[:4], None)
    second, last = model.advance(text()[4:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole, **NEAR)
    torch.testing.assert_close(last, end, **NEAR)
    torch.testing.assert_close(model(text()), whole, **NEAR)


@each_layer
def test_weight_drop_drops_entries_with_its_probability_and_scales_the_others(make):
    layer = make()
    W = recurrent_weights(layer.eval())[-1].detach().clone()
    weight_drop(layer, 0.25).train()
    dropped = torch.stack([recurrent_weights(layer)[-1] for _ in range(200)])
    dropped_entries = dropped[:, W != 0] == 0  # the initial W may have zeros of its own
    fraction = dropped_entries.float().mean().item()
    assert fraction == pytest.approx(0.25, abs=4 * (0.19 / dropped_entries.numel()) ** 0.5)
    scaled = torch.where(dropped == 0, 0, W / 0.75)
    torch.testing.assert_close(dropped, scaled, **NEAR)


@each_layer
def test_weight_drop_acts_in_training_and_passes_gradients(make):
    layer, x = weight_drop(make(), 0.5), torch.randn(T, B, E)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer(x)[0].square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())


def test_the_mask_of_weight_drop_is_the_same_at_all_time_steps():
    """If the mask is fixed, a dropped entry gets no gradient from any time step."""
    layer = weight_drop(nn.RNN(E, N), 0.5)
    layer(torch.randn(T, B, E))[0].sum().backward()
    dropped_entries = layer.parametrizations.weight_hh_l0.original.grad == 0
    assert 0 < dropped_entries.sum() < N * N


def test_a_constrained_matrix_stays_in_its_set_under_weight_drop():
    layer = constrain(nn.LSTM(E, N), "weight_hh_l0", ScaledCayley, rows="g")
    weight_drop(layer, 0.5)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        optimiser.zero_grad()
        layer(torch.randn(T, B, E))[0].square().sum().backward()
        optimiser.step()
    g = layer.eval().weight_hh_l0[2 * N : 3 * N]
    torch.testing.assert_close(g @ g.T, torch.eye(N), **NEAR)


def test_the_orthogonality_error_ignores_weight_drop():
    layer = weight_drop(ScoRNN(E, N), 0.5)
    assert layer.orthogonality_error().item() <= tol(torch.float32, N)


def test_a_second_weight_drop_replaces_the_first():
    lstm = weight_drop(weight_drop(nn.LSTM(E, N), 0.5), 0.0)
    assert (lstm.weight_hh_l0 != 0).all()
    scornn = weight_drop(weight_drop(ScoRNN(E, N), 0.5), 0.0)
    x = torch.randn(T, B, E)
    assert torch.equal(scornn(x)[0], scornn(x)[0])


def test_weight_drop_drops_complex_entries():
    layer = weight_drop(ScuRNN(E, N), 0.5)
    x = torch.randn(T, B, E)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    (W,), (dropped,) = layer.recurrent_matrices(), recurrent_weights(layer)
    dropped_entries = dropped[W != 0] == 0
    assert 0 < dropped_entries.sum() < dropped_entries.numel()


def test_a_model_keeps_the_weight_drop_of_a_layer():
    layer = weight_drop(RNN(E, N), 0.5)
    model = LanguageModel(K, E, [layer])
    assert not torch.equal(model(text()), model(text()))


def test_embedding_dropout_drops_a_symbol_at_all_its_occurrences():
    model = LanguageModel(K, E, [RNN(E, N)], dropouts=Dropouts(embedding=0.5))
    inputs = torch.arange(K).repeat(2).unsqueeze(1)
    x = model._embed(inputs)[:, 0]
    dropped_entries = (x == 0).all(1)
    assert 0 < dropped_entries.sum() < 2 * K
    assert torch.equal(x[:K], x[K:])
    torch.testing.assert_close(
        x[:K][~dropped_entries[:K]], 2 * model.embedding[~dropped_entries[:K]]
    )
    assert torch.equal(model.eval()._embed(inputs)[:K, 0], model.embedding)


@pytest.mark.parametrize("place", ["input", "hidden", "output"])
def test_locked_dropout_drops_the_same_units_at_all_time_steps(place):
    model = LanguageModel(K, E, [nn.RNN(E, N), nn.RNN(N, N)], dropouts=Dropouts(**{place: 0.5}))
    seen = []
    for layer in model.layers:
        layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model.head.copy_(torch.eye(K, N))
    seen.append(model(text())[..., :N])
    x = seen[["input", "hidden", "output"].index(place)]
    dropped_entries = (x == 0).all(0)
    assert 0 < dropped_entries.sum() < dropped_entries.numel()
    assert ((x == 0) == dropped_entries).all()


def test_nothing_is_dropped_in_evaluation():
    plain = three_lstms().eval()
    model = three_lstms(dropouts=Dropouts.all(0.4), activation=(2.0, 1.0)).eval()
    renamed = {
        name.replace("weight_hh_l0", "parametrizations.weight_hh_l0.original"): value
        for name, value in plain.state_dict().items()
    }
    model.load_state_dict(renamed)
    assert torch.equal(model(text()), plain(text()))
    assert model.pop_activation_penalty() is None


def test_tied_weights_are_one_parameter():
    tied, free = three_lstms(tied=True), three_lstms()
    assert tied.head is tied.embedding
    assert count_parameters(free) - count_parameters(tied) == K * E
    names = [name for name, _ in tied.named_parameters()]
    assert "head" not in names
    tied(text()).sum().backward()
    absent = torch.ones(K, dtype=torch.bool).index_fill(0, text().unique(), value=False)
    assert (tied.embedding.grad[absent] != 0).any()  # only through the head


@pytest.mark.parametrize("restore", ["assign", "to_empty"])
def test_weights_stay_tied_when_their_parameters_are_replaced(restore):
    model = three_lstms(tied=True)
    expected = model(text())
    weights = {name: v.clone() for name, v in model.state_dict().items()}
    if restore == "to_empty":
        model.to("meta").to_empty(device="cpu")
    model.load_state_dict(weights, assign=restore == "assign")
    assert model.head is model.embedding
    assert torch.equal(model(text()), expected)


def test_the_activation_penalty_follows_its_formula():
    layers = [nn.RNN(E, N), nn.RNN(N, N)]
    model = LanguageModel(
        K, E, layers, activation=(2.0, 3.0), dropouts=Dropouts(output=0.5), tied=False
    )
    seen = []
    model.layers[-1].register_forward_hook(lambda _, __, out: seen.append(out[0]))
    with torch.no_grad():
        model.head.copy_(torch.eye(K, N))
    states_after_dropout = model(text())[..., :N]
    (h,) = seen
    differences = sum((h[t] - h[t - 1]).pow(2).sum() for t in range(1, T)) / ((T - 1) * B * N)
    expected = 2.0 * states_after_dropout.pow(2).sum() / (T * B * N) + 3.0 * differences
    torch.testing.assert_close(penalty(model), expected)
    assert penalty(model).item() == 0  # it is cleared


@pytest.mark.parametrize("tied", [True, False])
def test_a_copy_computes_the_same_and_shares_no_parameters(tied):
    model = three_lstms(tied=tied, dropouts=Dropouts.all(0.3), activation=(1.0, 1.0))
    model(text())  # stores a penalty with an autograd graph
    for other in (copy.deepcopy(model), saved_and_loaded(model)):
        assert (other.head is other.embedding) == tied
        assert not {*map(id, other.parameters())} & {*map(id, model.parameters())}
        assert torch.equal(other.eval()(text()), model.eval()(text()))
        model.train()


def saved_and_loaded(model):
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    tied = model.head is model.embedding
    other = three_lstms(tied=tied, dropouts=model.dropouts, activation=model.activation)
    other.load_state_dict(torch.load(file))
    return other


def test_the_generator_determines_the_weights_and_the_global_one_is_unused():
    before = torch.random.get_rng_state()
    one, other = (
        LanguageModel(K, E, [NnRNN(E, N, generator=g)], generator=g)
        for g in (torch.Generator().manual_seed(3), torch.Generator().manual_seed(3))
    )
    assert torch.equal(torch.random.get_rng_state(), before)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_the_initialisation_is_the_published_one():
    model = LanguageModel(300, 40, [RNN(40, N)])
    for weight in (model.embedding, model.head):
        assert 0.099 < weight.abs().max() <= 0.1
    assert (model.head_bias == 0).all()
