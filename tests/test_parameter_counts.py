"""Numbers of parameters: our layers, the papers' equations and the papers' printed numbers."""

import re
from dataclasses import dataclass, field
from typing import Any

import pytest

from eigenrnn.layers import (
    ENRNN,
    ORNN,
    URNN,
    AsRNN,
    DtrivRNN,
    ExpRNN,
    FullCapacityURNN,
    NnRNN,
    RNNOrth,
    ScoRNN,
    SpectralRNN,
    TanhRNN,
    TorchGRU,
    TorchLSTM,
)
from eigenrnn.models import SequenceModel, count_parameters

SHARED_TOLERANCE = 0.03  # relative, where one number is printed for several networks


@dataclass(frozen=True)
class Row:
    """A network of a paper, with its printed and its expected number of parameters.

    Args:
        make: The class of the layer.
        sizes: The numbers of inputs, units and outputs.
        printed: The printed number: exact, "21764", or rounded to its last nonzero digit, "0.13M".
        expected: The number from the equations of the paper.
        shared: Whether one number is printed for all networks of an experiment.
        embedding: The width of the embedding before the layer; 0 without one.
        options: Further arguments of the layer.
    """

    make: Any
    sizes: tuple[int, int, int]
    printed: str
    expected: int
    shared: bool = False
    embedding: int = 0
    options: dict[str, Any] = field(default_factory=dict)

    def count(self) -> int:
        """Count the trained parameters without the second bias per gate of torch's layers."""
        inputs, units, outputs = self.sizes
        layer = self.make(self.embedding or inputs, units, **self.options)
        model = SequenceModel(layer, outputs)
        second_biases = sum(p.numel() for name, p in model.named_parameters() if "bias_hh" in name)
        return count_parameters(model) - second_biases + inputs * self.embedding

    def printed_and_tolerance(self) -> tuple[float, float]:
        """Return the printed number and its absolute tolerance."""
        digits, suffix = re.fullmatch(r"([\d.]+)([kM]?)", self.printed).groups()
        scale = {"": 1.0, "k": 1e3, "M": 1e6}[suffix]
        printed = float(digits) * scale
        if self.shared or not suffix:
            return printed, SHARED_TOLERANCE * printed * self.shared
        decimals = len(digits.partition(".")[2])
        zeros = 0 if decimals else len(digits) - len(digits.rstrip("0"))
        return printed, scale * 10.0 ** (zeros - decimals) / 2


def head(n, k):
    return k * (n + 1)


def skew(n):
    return n * (n - 1) // 2


def plain(n, m):  # the input map and one bias
    return n * m + n


def gates(number, n, m):
    return number * n * (n + m + 1)


def orthogonal(n, m, k):
    return skew(n) + plain(n, m) + head(n, k)


def dense(n, m, k):
    return n * n + plain(n, m) + head(n, k)


def unitary(own, n, m, k):  # input map of complex numbers, bias, trained first state, head
    return own + 2 * n * m + n + 2 * n + head(2 * n, k)


def eigenvalue_normalised(q, s, m, k, coupling=True):
    return skew(q) + s * s + q * s * coupling + plain(q + s, m) + head(q + s, k)


def schur_form(n, m, k):  # P, T, gamma and theta
    return 2 * skew(n) + n // 2 + n // 2 + plain(n, m) + head(n, k)


def reflected(number, n):
    return number * n - skew(number)


def scornn(m, n, k, printed, **more):
    return Row(ScoRNN, (m, n, k), printed, orthogonal(n, m, k), **more)


def exprnn(m, n, k, printed, **more):
    return Row(ExpRNN, (m, n, k), printed, orthogonal(n, m, k), **more)


def lstm(m, n, k, printed, **more):
    return Row(TorchLSTM, (m, n, k), printed, gates(4, n, m) + head(n, k), **more)


def full(m, n, k, printed, **more):
    return Row(FullCapacityURNN, (m, n, k), printed, unitary(n * n, n, m, k), **more)


def restricted(m, n, k, printed, **more):
    return Row(URNN, (m, n, k), printed, unitary(7 * n, n, m, k), **more)


def enrnn(m, q, s, k, printed, **options):
    coupling = options.get("coupling", True)
    expected = eigenvalue_normalised(q, s, m, k, coupling)
    return Row(ENRNN, (m, q + s, k), printed, expected, options={"short_size": s, **options})


def nnrnn(m, n, k, printed, **more):
    return Row(NnRNN, (m, n, k), printed, schur_form(n, m, k), **more)


def text(make, n, expected, printed="1.32M", **options):
    """A network on 50 characters with an embedding of width 200."""
    expected += 50 * 200
    return Row(make, (50, n, 50), printed, expected, embedding=200, options=options)


def pixels(make, n, printed):
    return Row(make, (1, n, 10), printed, orthogonal(n, 1, 10))


MNIST = {
    "scornn-170": scornn(1, 170, 10, "16k"),
    "scornn-360": scornn(1, 360, 10, "69k"),
    "lstm-128": lstm(1, 128, 10, "68k"),
    "lstm-256": lstm(1, 256, 10, "270k"),
    "urnn-512": restricted(1, 512, 10, "16k"),
    "full-116": full(1, 116, 10, "16k"),
    "full-512": full(1, 512, 10, "270k"),
}

ROWS = {
    **{f"scornn-table-1-{name}": row for name, row in MNIST.items()},
    **{f"scornn-table-2-{name}": row for name, row in MNIST.items()},
    "scornn-5.1-scornn-190": scornn(10, 190, 9, "22k", shared=True),
    "scornn-5.1-lstm-68": lstm(10, 68, 9, "22k", shared=True),
    "scornn-5.1-urnn-470": restricted(10, 470, 9, "22k", shared=True),
    "scornn-5.1-full-128": full(10, 128, 9, "22k", shared=True),
    "scornn-5.2-scornn-170": scornn(2, 170, 1, "14k", shared=True),
    "scornn-5.2-lstm-60": lstm(2, 60, 1, "14k", shared=True),
    "scornn-5.2-urnn-950": restricted(2, 950, 1, "14k", shared=True),
    "scornn-5.2-full-120": full(2, 120, 1, "14k", shared=True),
    "enrnn-table-1-adding-enrnn-160": enrnn(2, 96, 64, 1, "15k", negative=29),
    "enrnn-table-1-adding-lstm-60": lstm(2, 60, 1, "15k"),
    "enrnn-table-1-adding-spectral-60": Row(
        SpectralRNN,
        (2, 60, 1),
        "15k",
        2 * reflected(16, 60) + 60 + plain(60, 2) + head(60, 1),
        options={"reflections": 16},
    ),
    "enrnn-table-1-adding-scornn-170": scornn(2, 170, 1, "15k"),
    "enrnn-table-1-adding-ornn-128": Row(
        ORNN,
        (2, 128, 1),
        "2.6k",
        reflected(16, 128) + plain(128, 2) + 128 + head(128, 1),
        options={"reflections": 16},
    ),
    "enrnn-table-1-adding-full-120": full(2, 120, 1, "15k"),
    "enrnn-table-1-copying-enrnn-192": enrnn(10, 172, 20, 9, "22k", negative=52),
    "enrnn-table-1-copying-lstm-68": lstm(10, 68, 9, "22k"),
    "enrnn-table-1-copying-lstm-192": lstm(10, 192, 9, "158k"),
    "enrnn-table-1-copying-scornn-190": scornn(10, 190, 9, "22k"),
    "enrnn-table-1-copying-full-128": full(10, 128, 9, "22k"),
    "enrnn-table-2-enrnn-468": enrnn(129, 374, 94, 129, "200k", negative=374, coupling=False),
    "enrnn-table-2-scornn-425": scornn(129, 425, 129, "200k"),
    "enrnn-table-2-lstm-158": lstm(129, 158, 129, "200k"),
    "enrnn-table-2-lstm-468": lstm(129, 468, 129, "1200k"),
    "enrnn-table-3-enrnn-1030": enrnn(
        50, 310, 720, 50, "1016k", negative=186, nonlinearity="relu"
    ),
    "enrnn-table-3-lstm-350": Row(
        TorchLSTM,
        (50, 350, 50),
        "1016k",
        50 * 350 + gates(4, 350, 350) + head(350, 50),
        embedding=350,
    ),
    "enrnn-table-3-ornn-512": Row(
        ORNN,
        (49, 512, 49),  # 49 symbols: its own paper has no end-of-line symbol
        "183k",
        reflected(512, 512)
        - 1
        + plain(512, 49)
        + 512
        + head(512, 49),  # minus one: the last is a sign
    ),
    "enrnn-table-3-nnrnn-1024": text(NnRNN, 1024, schur_form(1024, 200, 50), "1320k"),
    "enrnn-table-3-lstm-1030": Row(
        TorchLSTM,
        (50, 1030, 50),
        "8600k",
        50 * 1030 + gates(4, 1030, 1030) + head(1030, 50),
        embedding=1030,
    ),
    "nnrnn-figure-4-copying-nnrnn-128": nnrnn(10, 128, 9, "18.9k", shared=True),
    "nnrnn-figure-4-copying-exprnn-176": exprnn(10, 176, 9, "18.9k", shared=True),
    "nnrnn-figure-4-copying-lstm-63": lstm(10, 63, 9, "18.9k", shared=True),
    "nnrnn-figure-4-copying-rnn-orth-128": Row(
        RNNOrth, (10, 128, 9), "18.9k", dense(128, 10, 9) + 128, shared=True
    ),
    "nnrnn-figure-4-copying-rnn-128": Row(
        TanhRNN, (10, 128, 9), "18.9k", dense(128, 10, 9), shared=True
    ),
    "nnrnn-figure-4-pixels-nnrnn-512": nnrnn(1, 512, 10, "269k", shared=True),
    "nnrnn-figure-4-pixels-exprnn-722": exprnn(1, 722, 10, "269k", shared=True),
    "nnrnn-figure-4-pixels-lstm-257": lstm(1, 257, 10, "269k", shared=True),
    "nnrnn-figure-4-pixels-rnn-orth-512": Row(
        RNNOrth, (1, 512, 10), "269k", dense(512, 1, 10) + 512, shared=True
    ),
    "nnrnn-figure-4-pixels-rnn-512": Row(
        TanhRNN, (1, 512, 10), "269k", dense(512, 1, 10), shared=True
    ),
    "nnrnn-table-1-nnrnn-1024": text(NnRNN, 1024, schur_form(1024, 200, 50)),
    "nnrnn-table-1-exprnn-1386": text(ExpRNN, 1386, orthogonal(1386, 200, 50)),
    "nnrnn-table-1-rnn-orth-1024": text(RNNOrth, 1024, dense(1024, 200, 50) + 1024),
    "nnrnn-table-1-rnn-1024": text(TanhRNN, 1024, dense(1024, 200, 50)),
    "nnrnn-table-5-lstm-475": text(TorchLSTM, 475, gates(4, 475, 200) + head(475, 50)),
    "nnrnn-table-7-clamped-1024": text(
        NnRNN, 1024, schur_form(1024, 200, 50) - 512, gamma="clamped"
    ),
    # the papers of expRNN, of dynamic trivialisation and of asRNN, on pixels
    **{
        f"exprnn-pixels-{make.__name__}-{n}": pixels(make, n, printed)
        for n, printed in ((170, "16k"), (360, "69k"), (512, "137k"))
        for make in (ScoRNN, ExpRNN, DtrivRNN)
    },
    **{
        f"asrnn-pixels-AsRNN-{n}": Row(
            AsRNN, (1, n, 10), printed, skew(n) + n + orthogonal(n, 1, 10)
        )
        for n, printed in ((122, "16k"), (257, "69k"), (364, "137k"))
    },
    "asrnn-pixels-lstm-128": lstm(1, 128, 10, "69k", shared=True),
    "pixels-gru-256": Row(TorchGRU, (1, 256, 10), "200k", gates(3, 256, 1) + head(256, 10)),
    # exact numbers, from the released formulas and from the papers
    "enrnn-released-copying": enrnn(10, 172, 20, 9, "22395", negative=52),
    "enrnn-released-adding": enrnn(2, 96, 64, 1, "15441", negative=29),
    "enrnn-released-speech": enrnn(129, 374, 94, 129, "199928", coupling=False),
    "nnrnn-released-text": text(NnRNN, 1024, schur_form(1024, 200, 50), "1315650"),
    "full-capacity-32N+10": restricted(1, 512, 10, str(32 * 512 + 10)),
    "full-capacity-N^2+25N+10": full(1, 116, 10, str(116**2 + 25 * 116 + 10)),
}

# Printed numbers that do not follow from the equations of the papers, and why.
DEPARTURES = {
    **dict.fromkeys(
        ["scornn-5.2-scornn-170", "scornn-5.2-lstm-60", "scornn-5.2-full-120"],
        "14k is the number of the recurrent matrices alone: 14,365, 14,400 and 14,400. With input "
        "map, biases and head the numbers are 15,046, 15,181 and 15,481, which table 1 of ENRNN's "
        "paper gives as 15k",
    ),
    "scornn-5.2-urnn-950": "7 N + 4 N + N + 2 N + 2 N + 1 = 15,201, as many as the other three",
    "enrnn-table-1-adding-spectral-60": "2 (16 * 60 - 120) + 60 + 180 + 61 = 1,981 with the 16 "
    "reflections of section 5.1, and 3,959 with all reflections: no number of them gives 15k",
    "enrnn-table-3-enrnn-1030": "47,895 + 518,400 + 223,200 in W, 51,500 in the embedding (the "
    "input map is the identity), 1,030 + 51,550 in bias and head = 893,575; "
    "1,016k is the number of the LSTM in the same table",
}


def rows_with(departures):
    """All rows; those with a departure are expected to fail."""
    return [
        pytest.param(
            row,
            id=name,
            marks=[pytest.mark.xfail(reason=departures[name])] if name in departures else [],
        )
        for name, row in ROWS.items()
    ]


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_network_has_the_parameters_of_its_equations(row):
    assert row.count() == row.expected


@pytest.mark.parametrize("row", rows_with(DEPARTURES))
def test_the_equations_give_the_printed_number_of_parameters(row):
    printed, tolerance = row.printed_and_tolerance()
    assert abs(row.expected - printed) <= tolerance


def test_every_departure_names_a_row():
    assert DEPARTURES.keys() <= ROWS.keys()
