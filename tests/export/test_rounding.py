"""Rounding of matrices to whole numbers, beside definitions by single entries."""

from functools import partial

import numpy as np
import pytest
import torch

from eigenrnn import GRU, LRU, LSTM, NCGRU, RNN, URNN, ScoRNN, SequenceModel
from eigenrnn.constraints import DiagonalSegment, Rounded
from eigenrnn.estimators import SequenceClassifier, load
from eigenrnn.export import nearest, round_recurrent, rounded
from eigenrnn.export.c.integers.network import rounded_matrices

RNG = np.random.default_rng(0)


def orthogonal(n):
    return np.linalg.qr(RNG.normal(size=(n, n)))[0]


def rotations(n):  # blocks of two, as a fresh ScaledCayley
    W = np.zeros((n, n))
    for i in range(0, n, 2):
        cos, sin = np.cos(1.0 + i), np.sin(1.0 + i)
        W[i : i + 2, i : i + 2] = [[cos, -sin], [sin, cos]]
    return W


def chain(n):
    return 1.02 * np.eye(n, k=-1)


KINDS = {
    "orthogonal": orthogonal,
    "rotations": rotations,
    "contracting": lambda n: 0.9 * orthogonal(n) @ np.diag(RNG.uniform(0.5, 1, n)),
    "free": lambda n: RNG.normal(size=(n, n)) / n**0.5,
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
@each_kind
def test_every_entry_is_rounded_to_the_nearest_point_of_its_row(kind, bits):
    W = kind(12)
    found = nearest(W, bits)
    largest = 2 ** (bits - 1) - 1
    for row, q, apart, scale in zip(W, found.integers, found.apart, found.scales, strict=True):
        others = np.delete(np.abs(row), apart)
        assert abs(row[apart]) >= others.max()
        least = max(others.max() / largest, abs(row[apart]) / 32767)
        assert least <= scale <= least * (1 + 2**-12)
        assert (np.frexp(scale)[0] * 2**16).is_integer()
        for entry, number in zip(row, q, strict=True):
            steps = [abs(entry - scale * (number + step)) for step in (-1, 0, 1)]
            assert steps[1] == min(steps)
        assert np.abs(np.delete(q, apart)).max() <= largest
        assert abs(q[apart]) <= 32767


@pytest.mark.parametrize("bits", [4, 8])
@each_kind
def test_a_searched_entry_is_one_of_two_neighbours(kind, bits):
    W = kind(16)
    found, grid = rounded(W, bits), nearest(W, bits)
    exact = W / grid.scales[:, None]
    assert np.abs(found.integers - exact).max() < 1
    largest = 2 ** (bits - 1) - 1
    for q, apart in zip(found.integers, found.apart, strict=True):
        assert np.abs(np.delete(q, apart)).max() <= largest
    np.testing.assert_allclose(found.scales, grid.scales, rtol=0.2)
    assert all(digits.is_integer() for digits in np.frexp(found.scales)[0] * 2**16)


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
def test_a_rounded_matrix_says_how_many_bits_its_entries_need(bits):
    assert nearest(orthogonal(24), bits).bits() == bits


def errors(W, Q):
    """Return the errors of the eigenvalues, each beside the nearest one of W."""
    distances = np.abs(np.linalg.eigvals(Q)[:, None] - np.linalg.eigvals(W))
    return distances.min(1)


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "rotations"])
def test_the_eigenvalues_stay(kind):
    W = KINDS[kind](40)
    before = errors(W, nearest(W).matrix()).max()
    after = errors(W, rounded(W).matrix()).max()
    assert after < 0.1 * before


def test_the_moduli_of_a_matrix_of_few_entries_stay():
    W = rotations(40)
    assert abs(nearest(W).moduli() - 1).max() > 1e-3
    assert abs(rounded(W).moduli() - 1).max() < 2e-4


def test_a_rounded_matrix_is_about_as_near_as_the_nearest():
    W = orthogonal(40)
    least = np.linalg.norm(nearest(W).matrix() - W)
    assert np.linalg.norm(rounded(W).matrix() - W) < 1.5 * least


@pytest.mark.parametrize("kind", ["orthogonal", "rotations"])
def test_a_state_keeps_its_length_over_a_thousand_steps(kind):
    W = KINDS[kind](64)
    states = RNG.normal(size=(64, 64))
    after = np.linalg.matrix_power(rounded(W).matrix(), 1000) @ states
    lengths = np.linalg.norm(after, axis=0) / np.linalg.norm(states, axis=0)
    assert abs(np.median(lengths) - 1) < 0.01
    assert np.abs(lengths - 1).max() < 0.04


def test_eigenvalues_that_say_nothing_leave_the_nearest_matrix():
    found, expected = rounded(chain(20)), nearest(chain(20))
    np.testing.assert_array_equal(found.integers, expected.integers)
    np.testing.assert_array_equal(found.scales, expected.scales)


def test_a_row_of_zeros_stays_zero():
    W = orthogonal(6)
    W[2] = 0
    assert (rounded(W).integers[2] == 0).all()


@pytest.mark.parametrize(
    ("W", "bits", "message"),
    [
        (np.eye(3), 1, "2 <= bits <= 16"),
        (np.eye(3), 17, "2 <= bits <= 16"),
        (np.full((3, 3), np.nan), 8, "finite"),
        (np.ones(3), 8, "matrix"),
        (np.ones((3, 2)), 8, "square"),
        (1j * np.eye(3), 8, "real matrix, got one of complex128"),
    ],
    ids=["1 bit", "17 bits", "nan", "vector", "oblong", "complex"],
)
def test_what_cannot_be_rounded_is_refused(W, bits, message):
    with pytest.raises(ValueError, match=message):
        rounded(W, bits)


# a model whose recurrent matrices are rounded


LAYERS = {
    "ScoRNN": ScoRNN,
    "two layers": partial(ScoRNN, num_layers=2),
    "bidirectional": partial(ScoRNN, bidirectional=True),
    "trained in 8 bits": partial(RNN, constraint=Rounded),
    "GRU": GRU,
    "NCGRU": NCGRU,
    "LSTM": LSTM,
}


def small(layer=ScoRNN, **options):
    return SequenceModel(layer(3, 16), output_size=2, **options)


def matrices(model):
    return [W for direction in model.layer.all_directions() for W in direction.matrices()]


def trained_further(model, steps=3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    x = torch.randn(5, 4, 3)
    for _ in range(steps):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        optimizer.step()
    return model


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_matrices_of_a_rounded_model_are_those_of_the_search(layer, dtype):
    model = small(layer).to(dtype)
    expected = [rounded(W, 6).matrix() for W in matrices(model)]
    round_recurrent(model, bits=6)
    for W, points in zip(matrices(model), expected, strict=True):
        assert W.dtype == dtype
        assert np.array_equal(W.numpy(force=True), torch.from_numpy(points).to(dtype).numpy())


def test_a_frozen_layer_takes_the_rounded_matrix():
    model = small()
    model.layer.freeze()
    (before,) = matrices(model)
    round_recurrent(model, bits=3)
    (after,) = matrices(model)
    np.testing.assert_array_equal(after, rounded(before, 3).matrix().astype(np.float32))


@pytest.mark.parametrize("unfreeze", [False, True])
def test_all_but_the_matrix_of_a_rounded_model_trains(unfreeze):
    model = small()
    round_recurrent(model)
    if unfreeze:
        model.requires_grad_(True)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    trained_further(model)
    after = model.state_dict()
    assert {name for name in before if not torch.equal(before[name], after[name])} == {
        "layer.directions.0.weight_ih",
        "layer.directions.0.bias",
        "head.weight",
        "head.bias",
    }


def test_new_draws_leave_a_rounded_matrix():
    model = small()
    round_recurrent(model)
    (before,) = matrices(model)
    model.layer.reset_parameters()
    assert torch.equal(*matrices(model), before)


@pytest.mark.parametrize("bits", [4, 8])
def test_an_export_writes_the_matrix_of_a_rounded_model(bits):
    model = small()
    expected = rounded(*matrices(model), bits)
    round_recurrent(model, bits)
    trained_further(model)
    (direction,) = model.layer.all_directions()
    (found,) = rounded_matrices(direction, bits=8)
    np.testing.assert_array_equal(found.integers, expected.integers)
    np.testing.assert_array_equal(found.scales, expected.scales)
    assert found.bits() == bits  # but for the entries apart, which may be others of this size


@pytest.mark.parametrize("layer", [ScoRNN, GRU])
def test_a_rounded_model_loads_into_a_new_one_which_is_then_rounded(layer):
    model, other = small(layer), small(layer)
    round_recurrent(model, bits=4)
    other.load_state_dict(model.state_dict())
    for W, loaded in zip(matrices(model), matrices(other), strict=True):
        assert torch.equal(W, loaded)
    trained_further(other)
    for W, loaded in zip(matrices(model), matrices(other), strict=True):
        assert torch.equal(W, loaded)


def test_a_rounded_classifier_is_saved_and_loaded(tmp_path):
    X = [RNG.normal(size=(6, 3)) for _ in range(8)]
    classifier = SequenceClassifier(ScoRNN, 16, epochs=1).fit(X, [0, 1] * 4)
    round_recurrent(classifier.model_)
    classifier.save(tmp_path / "saved")
    loaded = load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))


CANNOT = {
    "LRU": (LRU, "a recurrent matrix"),
    "URNN": (URNN, "real, full"),
    "torch": (torch.nn.GRU, "torch's GRU at 'layer'"),
    "diagonal": (partial(RNN, constraint=DiagonalSegment), "real, full"),
    "second layer": (
        lambda *sizes: torch.nn.Sequential(ScoRNN(*sizes), torch.nn.GRU(*sizes)),
        "torch's GRU at '1'",
    ),
}


@pytest.mark.parametrize(("layer", "message"), CANNOT.values(), ids=CANNOT)
def test_a_model_that_cannot_be_rounded_stays(layer, message):
    made = layer(3, 16)
    model = made if isinstance(made, torch.nn.Sequential) else small(layer)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    with pytest.raises(ValueError, match=message):
        round_recurrent(model)
    after = model.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], before[name]) for name in before)
