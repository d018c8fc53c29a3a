"""Numbers of parameters: our layers, and the equations of their papers."""

import pytest

from eigenrnn.layers import (
    ENRNN,
    ORNN,
    URNN,
    DtrivRNN,
    ExpRNN,
    FullCapacityURNN,
    NnRNN,
    RNNOrth,
    ScoRNN,
    SpectralRNN,
)
from eigenrnn.models import SequenceModel, count_parameters


def head(n, k):
    return k * (n + 1)


def skew(n):
    return n * (n - 1) // 2


def plain(n, m):  # the input map and one bias
    return n * m + n


def unitary(own, n, m):  # input map of complex numbers, bias, trained first state, real head
    return own + 2 * n * m + n + 2 * n


def schur_form(n):  # P, T, gamma and theta
    return 2 * skew(n) + n // 2 + n // 2


def reflected(number, n):
    return number * n - skew(number)


# The layer, its options, the numbers of inputs, units and outputs, and the parameters of the
# layer by the equations of its paper, some with the number that the paper prints.
CASES = {
    "scoRNN": (ScoRNN, {}, (10, 190, 9), skew(190) + plain(190, 10)),
    "expRNN": (ExpRNN, {}, (1, 170, 10), skew(170) + plain(170, 1)),
    "dtriv": (DtrivRNN, {}, (1, 170, 10), skew(170) + plain(170, 1)),
    "uRNN": (URNN, {}, (1, 512, 10), 32 * 512 + 10 - head(1024, 10)),
    "full-capacity": (FullCapacityURNN, {}, (2, 120, 1), unitary(120 * 120, 120, 2)),
    "ENRNN": (ENRNN, {"short_size": 20, "negative": 52}, (10, 192, 9), 22_395 - head(192, 9)),
    "uncoupled": (
        ENRNN,
        {"short_size": 94, "coupling": False},
        (129, 468, 129),
        199_928 - head(468, 129),
    ),
    "spectral": (
        SpectralRNN,
        {"reflections": 16},
        (2, 60, 1),
        2 * reflected(16, 60) + 60 + plain(60, 2),
    ),
    "oRNN": (ORNN, {"reflections": 16}, (2, 128, 1), reflected(16, 128) + plain(128, 2) + 128),
    "oRNN, whole": (ORNN, {}, (49, 512, 49), reflected(512, 512) - 1 + plain(512, 49) + 512),
    "nnRNN": (NnRNN, {}, (10, 128, 9), schur_form(128) + plain(128, 10)),
    "clamped": (NnRNN, {"gamma": "clamped"}, (10, 128, 9), schur_form(128) - 64 + plain(128, 10)),
    "RNN-orth": (RNNOrth, {}, (10, 128, 9), 128 * 128 + plain(128, 10) + 128),
}


@pytest.mark.parametrize(("make", "options", "sizes", "expected"), CASES.values(), ids=CASES)
def test_a_network_has_the_parameters_of_its_equations(make, options, sizes, expected):
    inputs, units, outputs = sizes
    model = SequenceModel(make(inputs, units, **options), outputs)
    widths = {URNN: 2 * units, FullCapacityURNN: 2 * units}
    assert count_parameters(model) == expected + head(widths.get(make, units), outputs)
