"""Networks in plain C compute what the layers compute, on emulated microcontrollers."""

import numpy as np
import pytest
import torch
from benchmarks.arm import BOARDS, is_installed
from integer_reference import Reference
from test_c import inputs, language_model, make, outputs_of

from eigenrnn import URNN, ScoRNN, SequenceModel
from eigenrnn.export import to_c

pytestmark = pytest.mark.skipif(
    not is_installed(),
    reason="needs gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm",
)

MODELS = {
    "URNN": lambda: URNN(3, 12).eval(),
    "LSTM": lambda: make("LSTM"),
    "LRU": lambda: make("LRU"),
    "RNN with a head": lambda: SequenceModel(make("RNN-softplus"), 4).eval(),
    "GRU": lambda: make("GRU-layer-norm"),
    "MinGRU": lambda: make("MinGRU"),
    "a delta layer": lambda: make("GatedDeltaNet"),
    "a stack": lambda: make("stack-mlp"),
    "a language model": lambda: language_model(tied=True),
}


@pytest.mark.parametrize("board", ["Cortex-M4F", "Cortex-M7"])
@pytest.mark.parametrize("name", MODELS)
def test_the_board_prints_the_numbers_of_the_layer(name, board, tmp_path):
    model = MODELS[name]()
    to_c(model, tmp_path / "net.c")
    x = torch.arange(17) if name == "a language model" else inputs(20)
    found, _ = BOARDS[board].run(tmp_path, x.numpy())
    exact = outputs_of(model, x)
    assert np.abs(found - exact).max() <= 1e-6 * max(1.0, np.abs(exact).max())


WHOLE = {
    "RNN with a head": (lambda: SequenceModel(make("RNN-softplus"), 5).eval(), "int8"),
    "modReLU": (lambda: ScoRNN(3, 21).eval(), "int8"),
    "GRU": (lambda: make("GRU"), "int16"),
    "LSTM": (lambda: make("LSTM"), "int8"),
    "LRU": (lambda: make("LRU"), "int16"),
    "a language model": (lambda: language_model(tied=True), "int8"),
}


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("name", WHOLE)
def test_the_board_has_the_bits_of_the_reference(name, board, tmp_path):
    make_model, weights = WHOLE[name]
    model = make_model()
    x = inputs(20)
    if name == "a language model":
        x = torch.arange(17)
    to_c(model, tmp_path / "net.c", weights=weights, calibration=x)
    reference = Reference(model, weights, x)
    whole = x.tolist() if x.dim() == 1 else reference.quantised(x.numpy())
    found, _ = BOARDS[board].run(tmp_path, x.numpy())
    exact = reference.run(whole) * 2.0**-reference.integers.output_places
    np.testing.assert_array_equal(found.astype(np.float32), exact.astype(np.float32))


def test_the_costs_are_counted(tmp_path):
    layer = make("GRU")
    to_c(layer, tmp_path / "net.c")
    _, costs = BOARDS["Cortex-M4F"].run(tmp_path, inputs(20).numpy(), repeats=100)
    N, M = layer.hidden_size, layer.input_size
    products = 3 * N * (M + N)
    assert costs.ram == 4 * N
    assert costs.flash > 4 * products
    assert costs.stack >= 4 * 5 * N
    assert products < costs.instructions < 50 * products
