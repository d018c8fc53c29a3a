"""Errors of constraints and layers name valid values, and these values work."""

import math
from functools import partial

import pytest
import torch
from torch import nn

from eigenrnn import constrain
from eigenrnn.constraints import (
    BlockTriangular,
    BoundedSVD,
    FourierProduct,
    Givens,
    Householder,
    NeumannCayley,
    ScaledCayley,
    Schur,
    SpectralRadius,
)
from eigenrnn.layers import ENRNN, EURNN, GRU, RNN, NnRNN

unitary = partial(ScaledCayley, dtype=torch.complex64)
unitary_schur = partial(Schur, dtype=torch.complex64)

# an invalid call, the advice in its error, and calls that follow the advice
ADVICE = {
    "fft size": (
        lambda: Givens(6, style="fft"),
        "got 6; use 8 or style='tunable'",
        lambda: (Givens(8, style="fft"), Givens(6, style="tunable")),
    ),
    "odd rotations": (lambda: EURNN(2, 5), "got 5; use 6", lambda: EURNN(2, 6)),
    "reflections": (
        lambda: Householder(4, reflections=5),
        "got 5; 4",
        lambda: Householder(4, reflections=4),
    ),
    "reflections on both sides": (
        lambda: BoundedSVD(4, reflections=5),
        "got 5; 4",
        lambda: BoundedSVD(4, reflections=4),
    ),
    **{
        f"gamma {value}": (
            lambda value=value: NnRNN(2, 4, gamma="clamped", gamma_value=value),
            f"positive and finite, got {value}; use 1",
            lambda: NnRNN(2, 4, gamma="clamped", gamma_value=1),
        )
        for value in (0.0, -1.0, math.inf, math.nan)
    },
    "odd Schur form": (
        lambda: Schur(5),
        r"got 5; use 6, or the complex set Schur\(5, dtype=torch.complex64\)",
        lambda: unitary_schur(5),
    ),
    "P": (lambda: Schur(4, orthogonal=SpectralRadius), "omit `orthogonal`", lambda: Schur(4)),
    "one block": (
        lambda: ENRNN(2, 4, short_size=4),
        "got short_size=4",
        lambda: ENRNN(2, 4, short_size=3),
    ),
    "block of another size": (
        lambda: BlockTriangular(8, long=lambda _: ScaledCayley(3)),
        "a constraint of size 4, .* a function that uses the size",
        lambda: BlockTriangular(8, long=ScaledCayley),
    ),
    "complex block": (
        lambda: BlockTriangular(8, long=unitary),
        "pass dtype=torch.complex64 to both or to neither",
        lambda: BlockTriangular(8, long=unitary, short=unitary_schur),
    ),
    "complex gate": (
        lambda: GRU(2, 4, reset=FourierProduct),
        "use RNN",
        lambda: RNN(2, 4, constraint=FourierProduct),
    ),
    "complex rows": (
        lambda: constrain(nn.LSTM(2, 4), "weight_hh_l0", unitary, rows="g"),
        "use eigenrnn.RNN for complex states",
        lambda: RNN(2, 4, constraint=unitary),
    ),
    "complex tanh": (
        lambda: RNN(2, 4, constraint=unitary, nonlinearity="tanh"),
        "modrelu or identity, as ScaledCayley is complex, got 'tanh'",
        lambda: RNN(2, 4, constraint=unitary, nonlinearity="modrelu"),
    ),
}


@pytest.mark.parametrize(("rejected", "advice", "_taken"), ADVICE.values(), ids=ADVICE)
def test_an_error_names_valid_values(rejected, advice, _taken):
    with pytest.raises(ValueError, match=rf"^expected .*{advice}"):
        rejected()


@pytest.mark.parametrize(("_rejected", "_advice", "taken"), ADVICE.values(), ids=ADVICE)
def test_the_named_values_are_valid(_rejected, _advice, taken):
    taken()


@pytest.mark.parametrize("value", [-1.0, math.nan])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (partial(Schur, 4), "gamma_penalty"),
        (partial(Schur, 4), "decay"),
        (partial(SpectralRadius, 4), "epsilon"),
        (partial(NeumannCayley, 4), "gradient_rate"),
    ],
)
def test_an_invalid_weight_or_rate_is_rejected(make, name, value):
    with pytest.raises(ValueError, match=f"got {value}"):
        make(**{name: value})
