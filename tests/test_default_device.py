"""Analyses and estimators compute on the CPU, whatever default device a user has set."""

import numpy as np
import pytest
import torch

from draws import stream
from eigenrnn import LeakyRNN, analysis
from eigenrnn.estimators import SequenceClassifier, SequenceForecaster


@pytest.fixture
def elsewhere():
    """A default device that cannot compute, as a stand-in for a GPU."""
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


def network():
    return LeakyRNN(2, 4, nonlinearity="tanh", leak=0.5, generator=stream())


X = torch.ones(6, 1, 2)
GATED = torch.nn.GRU(2, 4)


def loss(outputs):
    return outputs[0].square().mean()


ANALYSES = {
    "analyse": lambda network: repr(analysis.analyse(network, X)),
    "fixed_points": lambda network: repr(analysis.fixed_points(network, generator=stream())),
    "gradient_map": lambda network: repr(analysis.gradient_map(network, X)),
    "gradient_norms": lambda network: repr(analysis.gradient_norms(network, X, loss)),
    "jacobian_bound": lambda _: repr(analysis.jacobian_bound(GATED, X)),
    "linear_decodability": lambda network: repr(
        analysis.linear_decodability(network, 3, generator=np.random.default_rng(0))
    ),
    "lyapunov": lambda network: repr(analysis.lyapunov(network, X)),
    "perturb": lambda network: repr(analysis.perturb(network, X, np.ones(4))),
    "trajectory": lambda network: repr(analysis.trajectory(network, X).states),
}


@pytest.mark.parametrize("analyse", ANALYSES.values(), ids=ANALYSES)
def test_an_analysis_does_not_depend_on_the_default_device(analyse, request):
    examined = network()
    expected = analyse(examined)
    request.getfixturevalue("elsewhere")
    assert analyse(examined) == expected


def test_a_layer_takes_lengths_and_shows_its_spectrum(request):
    layer = network()
    expected, numbers = layer(X, lengths=[4])[0], repr(analysis.spectrum(layer))
    request.getfixturevalue("elsewhere")
    assert torch.equal(layer(X, lengths=[4])[0], expected)
    assert repr(analysis.spectrum(layer)) == numbers


def test_estimators_train_and_predict_on_the_cpu(request):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 10)
    sequences = rng.normal(size=(20, 5, 2)) + y[:, None, None]
    series = np.sin(np.arange(80) / 3)
    classifier = SequenceClassifier(hidden_size=4, epochs=2, random_state=0)
    forecaster = SequenceForecaster(hidden_size=4, epochs=2, random_state=0)
    probabilities = classifier.fit(sequences, y).predict_proba(sequences)
    forecast = forecaster.fit(series).predict(3)
    request.getfixturevalue("elsewhere")
    np.testing.assert_array_equal(
        classifier.fit(sequences, y).predict_proba(sequences), probabilities
    )
    np.testing.assert_array_equal(forecaster.fit(series).predict(3), forecast)
