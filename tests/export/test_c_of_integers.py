"""Networks in C of whole numbers compute the bits of the reference, whatever compiles them."""

import ctypes
import random
from functools import partial

import numpy as np
import pytest
import torch
from integer_reference import LARGEST, Reference
from test_c import K, M, N, Network, inputs, language_model, make, outputs_of
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from eigenrnn import GRU, LRU, LSTM, NCGRU, RNN, LanguageModel, ScoRNN, SequenceModel
from eigenrnn.constraints import DiagonalSegment, Rounded, Unconstrained
from eigenrnn.export import rounded, to_c
from eigenrnn.nonlinearities import NONLINEARITIES

IN_16_BITS = ["RNN-two-layers", "GRU", "LSTM-trained-h0", "LRU"]
CASES = [
    *((f"RNN-{f}", "int8") for f in NONLINEARITIES),
    ("ScoRNN", "int8"),
    ("GRU-before-replaces", "int8"),
    ("GRU-no-bias", "int8"),
    ("NCGRU", "int8"),
    ("LSTM", "int8"),
    ("LRU-real", "int8"),
    ("torch's RNN", "int8"),
    *((name, "int16") for name in IN_16_BITS),
]


class WholeNumbers(Network):
    """A compiled network, and its steps in whole numbers."""

    def run_int16(self, sequence):
        self.functions.net_reset(self.state)
        return np.stack([self.step_int16(x) for x in sequence])

    def step_int16(self, x):
        output = np.zeros(len(self.output), np.int16)
        if not self.reads_symbols:
            x = np.ascontiguousarray(x, np.int16)
            x = x.ctypes.data_as(ctypes.c_void_p)
        self.functions.net_step_int16(self.state, x, output.ctypes.data_as(ctypes.c_void_p))
        return output


def assert_same_bits(model, x, folder, weights="int8", **options):
    """The step in whole numbers is the reference's, and the step in floats scales around it."""
    network = WholeNumbers(model, folder, weights=weights, calibration=x, **options)
    reference = Reference(model, weights, x)
    whole = x.tolist()
    if x.is_floating_point():
        whole = reference.quantised(x.numpy())
    found = network.run_int16(whole)
    np.testing.assert_array_equal(found, reference.run(whole))
    given = x.tolist() if network.reads_symbols else x.numpy()
    units = 2.0**-reference.integers.output_places
    np.testing.assert_array_equal(network.run(given), found * np.float32(units))
    return found * units


@pytest.mark.parametrize(("name", "weights"), CASES)
def test_a_network_computes_the_bits_of_the_reference_and_is_near_the_floats(
    name, weights, tmp_path
):
    model = SequenceModel(make(name), K).eval()
    found = assert_same_bits(model, inputs(), tmp_path, weights)
    exact = outputs_of(model, inputs())
    allowed = {"int8": 0.03, "int16": 1e-3}[weights]
    assert np.abs(found - exact).max() < allowed * np.abs(exact).max()


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("weights", ["int8", "int16"])
def test_a_language_model_computes_the_bits_of_the_reference(tied, weights, tmp_path):
    model = language_model(tied)
    text = torch.arange(17).repeat(2)
    found = assert_same_bits(model, text, tmp_path, weights)
    exact = outputs_of(model, text)
    allowed = {"int8": 0.01, "int16": 3e-4}[weights]
    assert np.abs(found - exact).max() < allowed * np.abs(exact).max()


@pytest.mark.parametrize("weights", ["int8", "int16"])
def test_a_row_too_long_for_a_sum_of_32_bits_is_split(weights, tmp_path):
    model = LanguageModel(5, 258, [RNN(258, 20, nonlinearity="relu")])
    assert_same_bits(model.eval(), torch.arange(5).repeat(3), tmp_path, weights)


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_sums_fit_into_32_bits(sign, tmp_path, capfd):
    layer = RNN(256, 256, nonlinearity="identity", bias=False, constraint=Unconstrained).eval()
    W = torch.full((256, 256), 127.0 * sign / 4)
    W[:, 3] = 32767.0 * sign / 4
    with torch.no_grad():
        layer.directions[0].weight_ih.copy_(W)
        layer.directions[0].constraint.raw.copy_(W)
    x = torch.ones(2, 256)
    network = WholeNumbers(
        layer, tmp_path, weights="int8", calibration=x, flags=["-fsanitize=undefined"]
    )
    whole = np.full((4, 256), LARGEST)
    found = network.run_int16(whole)
    np.testing.assert_array_equal(found, Reference(layer, "int8", x).run(whole))
    assert "runtime error" not in capfd.readouterr().err


# The start files of -Ofast flush denormal numbers in the process that loads the library.
FAST = ["-Ofast", "-nostartfiles"]


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("C99", ["-O0", "-fsanitize=undefined"]),
        ("C99", ["-O3", "-march=native"]),
        ("C99", FAST),
        ("clang", ["-O0"]),
        ("clang", [*FAST, "-march=native"]),
        ("C++17", ["-O2"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["GRU-before-replaces", "LRU"])
def test_every_compiler_gives_the_same_bits(compiler, flags, name, tmp_path, capfd):
    assert_same_bits(make(name), inputs(), tmp_path, compiler=compiler, flags=flags)
    assert "runtime error" not in capfd.readouterr().err


def growing(kind):
    """A network whose states grow by a tenth at each step."""
    layer = kind(1, 8)
    with torch.no_grad():
        direction = layer.directions[0]
        if isinstance(layer, LRU):
            layer.directions[0].constraint.diagonal = lambda: torch.full((8,), 1.1)
        else:
            direction.constraint.raw.copy_(1.1 * torch.eye(8))
    return layer.eval()


GROWING = {
    "RNN": partial(RNN, nonlinearity="identity", constraint=Unconstrained),
    "modReLU": partial(RNN, constraint=Unconstrained),
    "LRU": partial(LRU, constraint=DiagonalSegment),
}


@pytest.mark.parametrize("kind", GROWING.values(), ids=GROWING)
def test_a_state_that_grows_saturates_and_never_wraps(kind, tmp_path, capfd):
    model = growing(kind)
    x = torch.ones(300, 1)
    network = WholeNumbers(
        model, tmp_path, weights="int8", calibration=x[:20], flags=["-fsanitize=undefined"]
    )
    reference = Reference(model, "int8", x[:20])
    whole = reference.quantised(x.numpy())
    found = network.run_int16(whole)
    np.testing.assert_array_equal(found, reference.run(whole))
    outputs = found.astype(int)
    assert (np.sign(outputs[30:]) == np.sign(outputs[20])).all()
    assert np.abs(outputs).max() == LARGEST
    assert "runtime error" not in capfd.readouterr().err


def test_the_share_of_the_saturated_steps_is_that_of_the_rounded_matrices(tmp_path):
    """A chain is rounded to nearest points: from 0.999 to 1.002, so a sum of inputs grows on."""
    layer = RNN(1, 2, nonlinearity="identity", bias=False, constraint=Unconstrained).eval()
    with torch.no_grad():
        layer.directions[0].weight_ih.copy_(torch.tensor([[1.0], [0.0]]))
        layer.directions[0].constraint.raw.copy_(torch.tensor([[0.999, 0.9024], [0.0, 0.999]]))
    x = torch.ones(4000, 1)
    description = to_c(layer, tmp_path / "net.c", weights="int8", calibration=x)
    assert 0 < description["saturated"]["layer0"] < 1


SLOW = {
    "relu": partial(GRU, nonlinearity="relu"),
    "elu": partial(GRU, nonlinearity="elu"),
    "softplus": partial(GRU, nonlinearity="softplus", reset_after=False),
    "modrelu": NCGRU,
}


@pytest.mark.parametrize("kind", SLOW.values(), ids=SLOW)
def test_a_candidate_beside_a_slow_gate_may_be_larger_than_all_states(kind, tmp_path, capfd):
    layer = kind(M, 16, generator=torch.Generator().manual_seed(1)).eval()
    with torch.no_grad():
        layer.directions[0].gate_bias[16:] += 4.0 if layer.update_keeps else -4.0
    flags = ["-fsanitize=undefined"]
    found = assert_same_bits(layer, inputs(), tmp_path, "int16", flags=flags)
    exact = outputs_of(layer, inputs())
    assert np.abs(found - exact).max() < 2e-3 * np.abs(exact).max()
    assert "runtime error" not in capfd.readouterr().err


@pytest.mark.parametrize("kind", [partial(RNN, nonlinearity="relu"), LRU, LSTM])
def test_a_large_initial_state_widens_the_range_of_the_states(kind, tmp_path):
    layer = kind(M, 8, trainable_h0=True, generator=torch.Generator().manual_seed(1)).eval()
    cells = layer.directions[0].h0[-8:]  # of an LSTM, whose states have a range of their own
    with torch.no_grad():
        cells.fill_(5.0)
    found = assert_same_bits(layer, inputs()[:3], tmp_path, "int16")
    exact = outputs_of(layer, inputs()[:3])
    assert np.abs(found - exact).max() < 2e-3 * np.abs(exact).max()


@pytest.mark.parametrize("kind", [partial(RNN, nonlinearity="tanh"), LSTM])
def test_an_initial_state_outside_the_range_of_tanh_needs_floats(kind, tmp_path):
    layer = kind(M, N, trainable_h0=True).eval()
    with torch.no_grad():
        layer.directions[0].h0.fill_(2.0)
    network = Network(layer, tmp_path, weights="int8", calibration=inputs())
    assert "no form of an initial state of 2, outside the range." in network.text


def test_a_layer_of_zeros_is_written_in_whole_numbers(tmp_path):
    layer = RNN(M, N, nonlinearity="relu", constraint=Unconstrained, trainable_h0=True).eval()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
    assert_same_bits(layer, inputs(), tmp_path)


def test_parametrized_weights_are_written_as_they_are(tmp_path):
    layer = make("GRU")
    nn.utils.parametrizations.weight_norm(layer.directions[0], "weight_ih")
    assert_same_bits(layer, inputs(), tmp_path)


@pytest.mark.parametrize("given", ["packed", "iterator"])
def test_a_calibration_may_be_packed_or_an_iterator(given, tmp_path):
    parts = [inputs(), inputs()[:5]]
    expected = to_c(make("GRU"), tmp_path / "a.c", weights="int8", calibration=parts)
    calibration = iter(parts)
    if given == "packed":
        calibration = pack_sequence(parts)
    assert to_c(make("GRU"), tmp_path / "a.c", weights="int8", calibration=calibration) == expected


def test_a_calibration_has_the_layout_of_the_layer(tmp_path):
    x = inputs()[:, None] * torch.linspace(0.1, 3, 7)[:, None]  # sequences of several sizes
    layer = make("RNN-two-layers")
    file = tmp_path / "net.c"
    expected = to_c(layer, file, weights="int8", calibration=x), file.read_text()
    layer.batch_first = True
    found = to_c(layer, file, weights="int8", calibration=x.transpose(0, 1)), file.read_text()
    assert found == expected


def test_a_tanh_of_one_does_not_saturate(tmp_path):
    layer = make("GRU")
    description = to_c(layer, tmp_path / "net.c", weights="int8", calibration=1e3 * inputs())
    assert layer(1e3 * inputs())[0].max() == 1
    assert description["saturated"] == {"layer0": 0}


def test_an_input_that_is_nan_counts_as_zero_and_a_large_one_saturates(tmp_path):
    layer = make("GRU")
    network = WholeNumbers(layer, tmp_path, weights="int8", calibration=inputs())
    found = network.run(np.array([[1.0, np.nan, np.inf]]))
    largest = LARGEST * 2.0 ** -Reference(layer, "int8", inputs()).integers.input_places
    np.testing.assert_array_equal(found, network.run(np.array([[1.0, 0.0, largest]])))


def test_inputs_are_scaled_before_they_are_whole(tmp_path):
    model = SequenceModel(make("GRU"), K).eval()
    mean, deviation = np.array([3.0, -2.0, 0.5]), np.array([2.0, 0.1, 5.0])
    x = inputs().numpy() * deviation + mean
    scaling = (list(mean), list(deviation))
    network = WholeNumbers(model, tmp_path, weights="int16", calibration=x, scaling=scaling)
    assert np.abs(network.run(x) - outputs_of(model, inputs())).max() < 1e-3


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("RNN-layer-norm", "LayerNorm or zoneout"),
        ("GRU-layer-norm", "LayerNorm or zoneout"),
        ("URNN", "complex states"),
        ("RNN-leak", "a leak"),
        ("DeltaNet", "a DeltaNet"),
        ("MinGRU", "a MinGRU"),
        ("stack-glu", "a ResidualStack"),
    ],
)
def test_what_has_no_form_in_whole_numbers_is_written_in_floats(name, reason, tmp_path):
    layer = make(name)
    network = Network(layer, tmp_path, weights="int8", calibration=inputs())
    assert f"in floats: whole numbers have no form of {reason}." in network.text
    assert network.description["arithmetic"] == "float"
    assert network.description["saturated"] == {}
    np.testing.assert_array_equal(
        network.run(inputs().numpy()),
        Network(layer, tmp_path, weights="int8").run(inputs().numpy()),
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": "float", "calibration": inputs()}, "calibration"),
        ({"weights": "int8", "calibration": torch.zeros(5, 1, M + 1)}, "calibration"),
        ({"weights": "int8", "calibration": []}, "calibration"),
        ({"weights": "int8", "calibration": torch.full((5, M), torch.nan)}, "finite"),
        ({"weights": "int8", "calibration": 1e-6 * inputs()}, "pass scaling="),
        ({"weights": "int8", "calibration": inputs().to(torch.complex64)}, "of real numbers"),
    ],
)
def test_a_calibration_that_does_not_fit_is_refused(options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        to_c(make("GRU"), tmp_path / "net.c", **options)


def test_sequences_of_different_lengths_calibrate_together(tmp_path):
    """The end of the shorter one is no input of the network."""
    layer = RNN(1, 1, nonlinearity="identity", bias=False, constraint=Unconstrained).eval()
    nn.init.constant_(layer.directions[0].constraint.raw, 2.0)
    nn.init.constant_(layer.directions[0].weight_ih, 1.0)
    long = torch.zeros(12, 1)
    short = torch.ones(2, 1)
    to_c(layer, tmp_path / "net.c", weights="int8", calibration=[long, short])
    assert "net_output_places = 13" in (tmp_path / "net.h").read_text()


@pytest.mark.parametrize("seed", range(4))
def test_random_networks_compute_the_bits_of_the_reference(seed, tmp_path):
    """A small version of the walk over all kinds, sizes and options."""
    draw = random.Random(seed)
    inputs_ = draw.randint(1, 40)
    size = draw.randint(1, 90)
    kind = draw.choice(
        [
            partial(RNN, nonlinearity=draw.choice(list(NONLINEARITIES)), constraint=Unconstrained),
            partial(
                GRU, reset_after=draw.random() < 0.5, nonlinearity=draw.choice(["tanh", "relu"])
            ),
            LSTM,
            LRU,
            ScoRNN,
        ]
    )
    layer = kind(inputs_, size, num_layers=draw.randint(1, 2))
    model = SequenceModel(layer, draw.randint(1, 9)).eval()
    x = draw.choice([0.1, 1, 30]) * torch.randn(50, inputs_)
    assert_same_bits(model, x, tmp_path, draw.choice(["int8", "int16"]))


@pytest.mark.parametrize("bits", [4, 8])
def test_a_set_that_rounds_is_written_as_it_was_trained(bits, tmp_path):
    layer = RNN(M, 16, nonlinearity="tanh", constraint=partial(Rounded, bits=bits))
    layer.double().eval()
    assert_same_bits(layer, inputs().double(), tmp_path)
    W = Reference(layer, "int8", inputs()).values["layer0_W"]
    found = W.integers * W.scales[:, None] * 2.0**-W.exponent
    torch.testing.assert_close(torch.from_numpy(found), layer.weight_hh_l0)


def test_a_set_that_rounds_to_more_bits_is_searched_once(tmp_path):
    layer = RNN(M, 16, nonlinearity="tanh", constraint=partial(Rounded, bits=12)).double().eval()
    assert_same_bits(layer, inputs().double(), tmp_path)
    W = Reference(layer, "int8", inputs()).values["layer0_W"]
    expected = rounded(layer.directions[0].constraint.inner(), bits=8)
    np.testing.assert_array_equal(W.integers, expected.integers)
    np.testing.assert_array_equal(W.scales, expected.scales * 2.0**W.exponent)


@pytest.mark.parametrize("bits", [4, 9])
def test_a_set_that_rounds_keeps_its_matrix_in_16_bits(bits, tmp_path):
    layer = RNN(M, 16, constraint=partial(Rounded, bits=bits)).double().eval()
    assert_same_bits(layer, inputs().double(), tmp_path, "int16")
    W = Reference(layer, "int16", inputs()).values["layer0_W"]
    found = W.integers * W.scales[:, None] * 2.0 ** -(W.exponent + W.dropped)
    np.testing.assert_allclose(found, layer.weight_hh_l0.detach().numpy(), atol=1e-4)


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        ([0, 17], "from 0 to 16 .* got 0 to 17"),
        ([-1, 3], "from 0 to 16 .* got -1 to 3"),
        ([0.0, 1.5], "of integers, got torch.float32"),
    ],
)
def test_symbols_that_the_network_does_not_know_are_refused(symbols, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        to_c(language_model(True), tmp_path / "a.c", weights="int8", calibration=symbols)
