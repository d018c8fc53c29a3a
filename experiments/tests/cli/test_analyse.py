"""`analyse`, which runs all analyses of a network, and the command."""

import csv
import importlib
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from crossing import some
from eigenrnn import GRU, RNN, LanguageModel, LeakyRNN, SequenceModel
from eigenrnn.analysis import (
    analyse,
    fisher_memory,
    henrici,
    lyapunov,
    recurrent_matrices,
    spectrum,
    state_maps,
)
from eigenrnn.analysis.analyse import AnalysisResults
from eigenrnn.analysis.state_map import recurrent_weights
from eigenrnn.constraints import Schur, Unconstrained, constrain
from eigenrnn_experiments.cli import main
from training_run import one_thread

OF_A_MATRIX = [
    "spectrum",
    "henrici",
    "pseudospectrum",
    "transient_growth",
    "schur_structure",
    "fisher_memory",
]
AT_WORK = ["gradient_map", "lyapunov", "participation_ratio", "effective_rank"]
X = torch.randn(12, 3, 2, generator=torch.Generator().manual_seed(0))


class Twice(torch.nn.Module):
    """Doubles the input of a layer."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(2 * x)[0]


def plain(N=4, **options):
    return torch.nn.RNN(2, N, **options)


@pytest.fixture(scope="module")
def everything():
    """Run all analyses of a small network."""
    return analyse(plain(), X, lambda h: h[-1].sum())


# from Python


@pytest.mark.parametrize("name", OF_A_MATRIX)
def test_every_analysis_of_a_matrix_is_done(everything, name):
    assert f"{name}_hh_l0" in everything.results


@pytest.mark.parametrize("name", [*AT_WORK, "fixed_points"])
def test_every_analysis_of_a_layer_is_done(everything, name):
    assert f"{name}_l0" in everything.results


def test_no_analysis_of_a_small_network_is_skipped(everything):
    assert everything.skipped == {}
    assert "gradient_norms" in everything.results


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_long_sequence_is_not_differentiated_as_a_whole(monkeypatch, batch_first):
    module = importlib.import_module("eigenrnn.analysis.analyse")  # not the function
    monkeypatch.setattr(module, "_GRADIENT_STEPS", 11)
    x = X.transpose(0, 1) if batch_first else X
    done = analyse(plain(batch_first=batch_first), x, lambda h: h[-1].sum())
    assert done.skipped.keys() == {"gradient_norms"}
    assert done.skipped["gradient_norms"].startswith("it is slow at this size (12 > 11); call")


def test_each_analysis_equals_its_function():
    model = plain()
    found = analyse(model, X).results
    (W,) = recurrent_matrices(model).values()
    assert found["henrici_hh_l0"].absolute == henrici(W).absolute
    expected = lyapunov(model, X[:, :1]).exponents
    np.testing.assert_array_equal(found["lyapunov_l0"].exponents, expected)


def test_a_layer_inside_a_model_is_analysed_with_its_own_inputs():
    bare = GRU(2, 4)
    whole, alone = (analyse(m, x).results for m, x in ((Twice(bare), X), (bare, 2 * X)))
    np.testing.assert_allclose(whole["lyapunov_l0"].exponents, alone["lyapunov_l0"].exponents)


def test_every_gate_and_the_bound_of_a_gru_are_analysed():
    found = analyse(GRU(2, 4), X).results
    assert {"henrici_reset_l0", "henrici_update_l0", "henrici_candidate_l0"} <= set(found)
    assert "jacobian_bound_l0" in found


def test_both_directions_are_analysed():
    found = analyse(plain(bidirectional=True, batch_first=True), X.transpose(0, 1)).results
    assert {"henrici_hh_l0_reverse", "gradient_map_l0_reverse"} <= set(found)


@pytest.mark.parametrize("make", [RNN, torch.nn.RNN])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_packed_sequences_are_analysed_in_any_precision(make, dtype):
    packed = pack_padded_sequence(X.to(dtype), [12, 7, 2])
    done = analyse(make(2, 4), packed, lambda h: h.data.sum())
    assert "gradient_norms" in done.results
    assert "not a batch of padded sequences" in done.skipped["lyapunov_l0"]


class Reader(torch.nn.Module):
    """Outputs the last state of each sequence, and gets lengths or packed sequences."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x, lengths):
        if isinstance(self.layer, RNN):
            return self.layer(x, lengths=lengths)[1]
        return self.layer(pack_padded_sequence(x, lengths, enforce_sorted=False))[1]


@pytest.mark.parametrize("make", [RNN, torch.nn.RNN])
def test_no_analysis_sees_the_padding_of_shorter_sequences(make):
    model = Reader(make(2, 4, bidirectional=True))
    lengths = torch.tensor([5, 12, 9])
    padding = torch.arange(12).unsqueeze(1) >= lengths
    done = [
        analyse(model, x, lambda h: h.square().sum(), lengths=lengths)
        for x in (X, X.masked_fill(padding.unsqueeze(2), 7.0))
    ]
    assert done[0].skipped == {}
    assert repr(done[0]) == repr(done[1])
    expected = lyapunov(model.layer, X[:5, :1], which="l0_reverse").exponents
    found = done[0].results["lyapunov_l0_reverse"].exponents
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_bare_layer_of_torch_is_analysed_with_lengths(batch_first):
    x = X.transpose(0, 1) if batch_first else X
    layer = plain(batch_first=batch_first)
    found = analyse(layer, x, lambda h: h[-1].sum(), lengths=[5, 12, 9])
    assert found.skipped == {}
    assert len(found.results["gradient_map_l0"].by_input["whole"]) == 5


def test_layers_of_a_language_model_have_distinct_names():
    model = LanguageModel(5, 3, [RNN(3, 4), RNN(4, 4)])
    found = analyse(model, torch.randint(5, (6, 2))).results
    assert {"henrici_layers.0.hh_l0", "lyapunov_layers.1.l0"} <= set(found)


def test_the_model_is_not_modified():
    model = plain().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    analyse(model, X, lambda h: h.sum())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_each_analysis_is_announced():
    names = []
    found = analyse(plain(), X, progress=names.append).results
    assert names == list(found)


@pytest.mark.usefixtures("global_streams_untouched")
def test_the_global_random_state_is_not_changed():
    analyse(plain_with(torch.Generator().manual_seed(0)), X)


def plain_with(generator):
    return RNN(2, 4, constraint=Unconstrained, generator=generator)


def test_the_loss_receives_the_outputs_of_the_model():
    model = SequenceModel(RNN(2, 4), 3, "last")
    assert "gradient_norms" in analyse(model, X, lambda y: y.square().sum()).results


# skipped analyses


def test_without_inputs_the_analyses_that_need_them_are_skipped_with_a_reason():
    found = analyse(plain())
    assert set(found.skipped) == {*(f"{name}_l0" for name in AT_WORK), "gradient_norms"}
    assert found.skipped["lyapunov_l0"] == "it needs inputs: analyse(model, inputs)"


def test_without_a_loss_the_gradient_norms_are_skipped_with_a_reason():
    left_out = analyse(plain(), X).skipped
    assert "analyse(model, inputs, loss)" in left_out["gradient_norms"]


def test_slow_analyses_are_skipped_with_the_call_that_runs_them():
    left_out = analyse(plain(301)).skipped
    reason = left_out["pseudospectrum_hh_l0"]
    assert "(301 > 300)" in reason
    assert reason.endswith("call eigenrnn.analysis.pseudospectrum")
    assert "henrici_hh_l0" not in left_out


def test_the_matrix_of_a_gate_has_no_fisher_memory():
    assert "no linear network" in analyse(GRU(2, 4)).skipped["fisher_memory_reset_l0"]


def test_unbounded_noise_is_that_of_the_last_steps():
    found = analyse(RNN(2, 4, constraint=Schur))
    # of an orthogonal matrix the noise of 200 steps is 200 I
    curve = found.results["fisher_memory_hh_l0"].curve
    np.testing.assert_allclose(curve, np.full(200, 1 / 200), rtol=1e-6)


@pytest.mark.parametrize("batch_first", [False, True])
def test_arrays_and_a_single_sequence_are_accepted(batch_first):
    model = plain(batch_first=batch_first)
    found = analyse(model, X[:, 0].numpy()).results
    x = X[:, :1].transpose(0, 1) if batch_first else X[:, :1]
    expected = lyapunov(model, x).exponents
    np.testing.assert_array_equal(found["lyapunov_l0"].exponents, expected)


# leak


@pytest.mark.parametrize("leak", [0.1, (0.2, 0.4, 0.6, 0.8)])
@pytest.mark.parametrize("state", ["rate", "current"])
def test_the_memory_of_a_leaky_network_is_that_of_its_linear_step(leak, state):
    # in double precision, as the Jacobians are computed
    layer = LeakyRNN(2, 4, nonlinearity="tanh", leak=leak, state=state, bias=False).double()
    (state_map,) = state_maps(layer)
    zero = torch.zeros(1, 6, dtype=torch.float64)
    by_state, by_input = state_map.jacobians(zero[:, :2], zero[:, 2:])
    source = by_input[0, :, 0] / by_input[0, :, 0].norm()
    expected = fisher_memory(by_state[0], source, 200)
    found = analyse(layer)
    curve = found.results["fisher_memory_hh_l0"].curve
    np.testing.assert_allclose(curve, expected.curve, rtol=1e-6)


# matrices in use


def test_the_matrices_in_use_are_those_of_the_layer():
    layer = constrain(torch.nn.LSTM(2, 4), "weight_hh_l0", Schur, rows="f")
    used = recurrent_weights(layer)
    assert list(used) == list(recurrent_matrices(layer))
    assert torch.equal(used["forget_l0"].W, layer.weight_hh_l0[4:8])
    assert torch.equal(used["cell_l0"].U, layer.weight_ih_l0[8:12])
    kinds = [type(each.constraint).__name__ for each in used.values()]
    assert kinds == ["NoneType", "Schur", "NoneType", "NoneType"]


# the spectrum


def test_eigenvalues_come_by_falling_modulus():
    found = spectrum(np.diag([0.5, -2.0, 1.0]))
    assert found.eigenvalues.real.tolist() == [-2.0, 1.0, 0.5]
    assert (found.radius, found.headline()["smallest modulus"]) == (2.0, 0.5)


def test_the_orthogonality_error_is_that_of_the_definition():
    W = np.array([[0.0, 2.0], [1.0, 0.0]])
    assert spectrum(W).orthogonality_error == 3.0


def test_a_unitary_spectrum_can_be_drawn(tmp_path):
    W = np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert all(file.stat().st_size for file in spectrum(W).save(tmp_path / "here"))


# files


class Undrawn(type(henrici(np.eye(2)))):
    def plot(self):
        raise OverflowError("(34, 'Numerical result out of range')")


def undrawn():
    return Undrawn(**vars(henrici(np.eye(2))))


def test_a_figure_that_fails_does_not_stop_the_others(tmp_path):
    (tmp_path / "henrici_hh_l0.png").write_text("of an earlier call")
    whole = AnalysisResults({"henrici_hh_l0": undrawn(), "spectrum_hh_l0": spectrum(plain())}, {})
    failed = whole.save(tmp_path)
    assert list(failed) == ["henrici_hh_l0.png"]
    assert "Numerical result out of range" in failed["henrici_hh_l0.png"]
    names = ["henrici_hh_l0.csv", "spectrum_hh_l0.csv", "spectrum_hh_l0.png"]
    assert sorted(file.name for file in tmp_path.iterdir()) == names


@pytest.mark.parametrize("size", some([2.0, 1e30], [1e30]))
def test_all_analyses_of_an_exploding_network_can_be_plotted(size, tmp_path):
    model = plain(nonlinearity="relu")
    with torch.no_grad():
        model.weight_hh_l0.fill_(size)
    assert analyse(model, X.abs().repeat(4, 1, 1)).save(tmp_path) == {}


# the command

RUN = (
    "train --task Copying --task.delay 3 --task.symbols 2 --task.test_examples 10 --steps 2 "
    "--hidden_size 4 --batch_size 2 --accelerator cpu --out run"
)


@pytest.fixture
def eigenrnn(tmp_path, monkeypatch, capsys):
    """Run the command line in an empty folder; return its output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(line, status=0):
        with one_thread():
            assert main(shlex.split(line)) == status
        return capsys.readouterr()

    return call


@pytest.fixture
def short(monkeypatch):
    """Restrict the command to one analysis."""

    def only(model, *_, **__):
        return AnalysisResults({"spectrum_hh_l0": spectrum(model)}, {})

    monkeypatch.setattr(
        importlib.import_module("eigenrnn_experiments.cli.analyse"), "analyse_model", only
    )


def test_a_run_is_analysed(eigenrnn, tmp_path):
    eigenrnn(RUN)
    output = eigenrnn("analyse run").out
    folder = tmp_path / "run" / "analysis"
    assert output.startswith("copying-scornn-4 after 2 steps (run/best.pt)\n")
    assert output.endswith("in run/analysis\n")
    summary = json.loads((folder / "summary.json").read_text())
    assert {"spectrum_hh_l0", "gradient_map_l0", "gradient_norms"} <= set(summary["found"])
    for name, numbers in summary["found"].items():
        assert (folder / f"{name}.png").stat().st_size > 0
        with (folder / f"{name}.csv").open(newline="") as file:
            assert len(list(csv.reader(file))) > 1
        for quantity in numbers:
            assert f"| {name} | {quantity} | " in output


@pytest.mark.usefixtures("short")
def test_the_numbers_are_printed(eigenrnn):
    eigenrnn(RUN)
    lines = eigenrnn("analyse run").out.splitlines()
    assert "| spectrum_hh_l0 | spectral radius | 1 |" in lines


@pytest.mark.usefixtures("short")
def test_the_output_folder_can_be_chosen(eigenrnn, tmp_path):
    eigenrnn(RUN)
    eigenrnn("analyse run/last.pt --out there")
    assert (tmp_path / "there" / "summary.json").exists()


def test_without_data_the_other_analyses_run_with_a_note(eigenrnn, monkeypatch):
    eigenrnn(RUN)
    monkeypatch.setattr(
        "eigenrnn_experiments.tasks.Copying.missing_data", lambda _: "file anywhere"
    )
    monkeypatch.setattr(AnalysisResults, "save", lambda *_: {})
    (Path("run") / "analysis").mkdir()
    output = eigenrnn("analyse run").out
    assert (
        "without data: there is no file anywhere; name the data folder with --data_root" in output
    )
    assert "skipped lyapunov_l0: it needs inputs" in output
    assert "| henrici_hh_l0 |" in output


def test_a_missing_run_argument_is_an_error(eigenrnn):
    assert "required: run;" in eigenrnn("analyse", status=2).err
