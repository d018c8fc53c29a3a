"""Linear decoding against the closed form of linear networks."""

import numpy as np
import pytest
import torch

from eigenrnn import RNN
from eigenrnn.analysis import linear_decodability
from eigenrnn.constraints import ScaledCayley

N = 8
CHAIN = np.diag(np.ones(N - 1), -1)


def drawn(seed=0):
    return np.random.default_rng(seed)


def closed_form(W, v, noise, steps):
    """The variance that the best linear reading explains, of a network that starts at rest."""
    paths = [np.linalg.matrix_power(W, k) @ v for k in range(steps)]
    powers = [np.linalg.matrix_power(W, k) for k in range(steps)]
    C = sum(np.outer(p, p.conj()) for p in paths)
    C = C + noise**2 * sum(P @ P.conj().T for P in powers)
    return np.array([(p.conj() @ np.linalg.solve(C, p)).real for p in paths])


def test_a_chain_without_noise_is_read_as_far_as_it_is_long():
    found = linear_decodability(CHAIN, N + 5, samples=4000, generator=drawn())
    np.testing.assert_allclose(found.r_squared[:N], 1, atol=1e-12)
    # beyond, a reading fitted to nothing explains nothing
    np.testing.assert_allclose(found.r_squared[N:], 0, atol=0.02)


def matrices():
    generator = drawn(5)
    orthogonal = np.linalg.qr(generator.standard_normal((N, N)))[0]
    yield pytest.param(1.1 * CHAIN, np.eye(N)[0], id="chain")
    yield pytest.param(0.9 * orthogonal, np.eye(N)[0], id="orthogonal")
    yield pytest.param(0.95 * np.eye(N), np.ones(N), id="identity")
    yield pytest.param(generator.standard_normal((N, N)) / 3, np.arange(N) / 4, id="full")


@pytest.mark.parametrize(("W", "v"), list(matrices()))
def test_with_noise_a_linear_network_is_read_as_well_as_any_can(W, v):
    steps, noise, samples = 14, 0.4, 40_000
    found = linear_decodability(
        W, steps, noise=noise, source=v, samples=samples, generator=drawn()
    )
    expected = closed_form(W, v, noise, steps)
    # the spread of a correlation of that many pairs, and what the fit loses
    spread = 5 * 2 / np.sqrt(samples / 2)
    np.testing.assert_allclose(found.r_squared, expected, atol=spread)


def test_a_complex_network_with_a_real_matrix_is_read_as_the_real_one():
    W, v = 0.9 * CHAIN + 0j, np.eye(N)[0]
    found = linear_decodability(W, N, source=v, samples=400, generator=drawn())
    np.testing.assert_allclose(found.r_squared, 1, atol=1e-10)


def test_complex_noise_has_its_deviation_in_both_parts():
    steps, noise, samples = 5, 0.5, 40_000
    found = linear_decodability(
        [[0.6 + 0j]], steps, noise=noise, samples=samples, generator=drawn()
    )
    # the imaginary part is noise alone, and tells nothing
    expected = closed_form(np.array([[0.6]]), np.ones(1), noise, steps)
    np.testing.assert_allclose(found.r_squared, expected, atol=5 * 2 / np.sqrt(samples / 2))


def test_what_a_rectifier_hides_of_one_step_is_known():
    # of s, normal, max(s, 0) explains the share of a squared correlation: 1/4 / (1/2 - 1/(2 pi))
    found = linear_decodability(
        [[0.0]], 1, nonlinearity="relu", samples=100_000, generator=drawn()
    )
    expected = 0.25 / (0.5 - 1 / (2 * np.pi))
    assert found.r_squared[0] == pytest.approx(expected, abs=0.01)


def test_a_chain_outlasts_an_orthogonal_matrix_through_a_nonlinearity():
    n = 20
    chain = np.diag(np.ones(n - 1), -1)
    orthogonal = ScaledCayley(n).double()().detach()
    means = [
        linear_decodability(
            W, n, nonlinearity="elu", samples=2000, generator=drawn()
        ).r_squared.mean()
        for W in (chain, orthogonal)
    ]
    assert means[0] > 1.5 * means[1]


def test_a_layer_is_driven_through_its_first_input():
    layer = torch.nn.RNN(2, N, bias=False)
    options = {"noise": 0.1, "samples": 200}
    found = linear_decodability(layer, 4, generator=drawn(), **options)
    expected = linear_decodability(
        layer.weight_hh_l0,
        4,
        source=layer.weight_ih_l0[:, 0],
        nonlinearity="tanh",
        generator=drawn(),
        **options,
    )
    np.testing.assert_allclose(found.r_squared, expected.r_squared, rtol=1e-9)


def test_a_layer_of_ours_is_read_as_its_matrix_is():
    layer = RNN(2, N, nonlinearity="tanh", bias=False).double()
    direction = layer.all_directions()[0]
    found = linear_decodability(layer, 4, samples=200, generator=drawn())
    expected = linear_decodability(
        direction.weight_hh,
        4,
        source=direction.weight_ih[:, 0],
        nonlinearity="tanh",
        samples=200,
        generator=drawn(),
    )
    np.testing.assert_allclose(found.r_squared, expected.r_squared, rtol=1e-9)


def test_a_layer_of_several_gates_is_read_from_what_it_shows():
    found = linear_decodability(torch.nn.LSTM(1, 6), 3, generator=drawn())
    assert found.samples == 4000
    assert found.r_squared[0] > 0.9


def test_the_longest_delay_is_how_long_sequences_are():
    some = linear_decodability(CHAIN, [6, 0], noise=0.2, samples=100, generator=drawn())
    every = linear_decodability(CHAIN, range(7), noise=0.2, samples=100, generator=drawn())
    np.testing.assert_allclose(some.r_squared, every.r_squared[[6, 0]])


def test_a_number_of_delays_may_be_numpys():
    found = linear_decodability(CHAIN, np.int64(3), samples=100, generator=drawn())
    assert found.delays.tolist() == [0, 1, 2]


def test_large_networks_get_forty_sequences_a_number():
    chain = np.diag(np.ones(101 - 1), -1)
    assert linear_decodability(chain, 1, generator=drawn()).samples == 40 * 101


def test_draws_differ_by_no_more_than_is_said():
    options = {"noise": 0.7, "samples": 400}
    found = [linear_decodability([[0.0]], 1, generator=drawn(k), **options) for k in range(200)]
    spread = np.std([each.r_squared[0] for each in found])
    assert 0.5 * 1.1 / np.sqrt(400) < spread < 1.1 * 1.1 / np.sqrt(400)


def test_a_generator_of_torchs_is_refused():
    with pytest.raises(TypeError, match=r"a numpy\.random\.Generator.*got torch"):
        linear_decodability(CHAIN, 2, generator=torch.Generator())


def test_it_can_be_drawn_and_written(tmp_path):
    found = linear_decodability(CHAIN, [3, 1], generator=drawn())
    picture, table = found.save(tmp_path / "curve")
    assert picture.stat().st_size > 0
    assert [line.split(",")[0] for line in table.read_text().splitlines()] == ["delay", "3", "1"]
    assert found.headline() == {"mean R squared": found.r_squared.mean()}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layer_or_W": np.ones((2, 3))}, r"expected a square matrix W \(N, N\)"),
        ({"delays": 0}, "expected delays to be a positive number"),
        ({"delays": [1, -1]}, "expected delays"),
        ({"delays": [0.5]}, "expected delays"),
        ({"delays": []}, "expected delays"),
        ({"delays": True}, "expected delays to be a positive number.*got True"),
        ({"delays": [[1], [1, 2]]}, "expected delays"),
        ({"samples": 100.0}, "expected samples to be a positive integer, got 100.0"),
        ({"noise": -1}, "expected a finite noise >= 0, got -1"),
        ({"noise": np.nan}, "expected a finite noise >= 0, got nan"),
        ({"samples": 19}, "expected samples >= 20 for 8 units, got 19"),
        ({"source": np.ones(3)}, r"expected source \(8,\)"),
        ({"nonlinearity": "modrelu"}, "expected a nonlinearity among tanh.*, got 'modrelu'"),
        ({"nonlinearity": "sine"}, "got 'sine'"),
        ({"layer_or_W": 1j * CHAIN, "nonlinearity": "tanh"}, "among identity, got 'tanh'"),
        ({"layer_or_W": torch.nn.RNN(1, 2), "nonlinearity": "tanh"}, "expected no nonlinearity"),
        ({"layer_or_W": torch.nn.RNN(1, 2), "source": [1, 0]}, "expected no nonlinearity"),
        ({"layer_or_W": torch.nn.Linear(1, 2)}, "expected a recurrent layer"),
        ({"layer_or_W": 1e200 * np.eye(2), "delays": 4}, "expected states that stay finite"),
    ],
)
def test_what_cannot_be_driven_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        linear_decodability(**{"layer_or_W": CHAIN, "delays": 2, "generator": drawn(), **options})
