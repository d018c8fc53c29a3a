"""The callback `Dynamics`: its records, its files and resuming."""

import json
import math
from functools import partial

import numpy as np
import pytest
import torch

from crossing import some
from eigenrnn import GRU, RNN, LeakyRNN, SequenceModel
from eigenrnn.analysis import recurrent_matrices
from eigenrnn.constraints import BlockTriangular, ScaledCayley, Schur, Unconstrained, constrain
from eigenrnn_experiments.training import Callback, Dynamics
from eigenrnn_experiments.training.dynamics import _departure
from training_run import TASK, losses, read_metrics, small_fit, small_model, small_settings

EVERY = 5


class Crash(Callback):
    """Ends a run with an error after a step."""

    def __init__(self, step):
        self.step = step

    def after_step(self, step, *_):
        if step == self.step:
            raise CrashError


class Matrices(Callback):
    """Records the recurrent matrices at every step."""

    def __init__(self):
        self.matrices = {}

    def begin(self, step, model, *_):
        self.matrices[step] = recurrent_matrices(model)

    def after_step(self, step, _, model):
        self.matrices[step] = recurrent_matrices(model)


class CrashError(Exception):
    """Any error that ends a run."""


def read_records(folder):
    """Read `dynamics.jsonl`, by step."""
    lines = (folder / "dynamics.jsonl").read_text().splitlines()
    return {line["step"]: line for line in map(json.loads, lines)}


def model_with(constraint, **options):
    layer = RNN(TASK.input_size, 6, constraint=constraint, **options)
    return SequenceModel(layer, TASK.output_size)


def recorded(folder, model=None, *, steps=10, **options):
    """Train with `Dynamics`; return the records by step."""
    settings = small_settings(steps, **options)
    small_fit(folder, settings, model=model, callbacks=[Dynamics(EVERY)])
    return read_records(folder)


def sorted_spectrum(values):
    return sorted(np.asarray(values), key=lambda z: (round(z.real, 4), round(z.imag, 4)))


def test_records_are_made_before_the_first_step_and_every_few_steps(tmp_path):
    assert list(recorded(tmp_path, steps=12)) == [0, 5, 10]


@pytest.mark.parametrize("step", [0, 5, 10])
def test_the_spectra_are_the_eigenvalues_of_the_matrices(tmp_path, step):
    recorder = Matrices()
    small_fit(tmp_path, small_settings(10), callbacks=[recorder, Dynamics(EVERY)])
    for name, pairs in read_records(tmp_path)[step]["spectrum"].items():
        found = [complex(*pair) for pair in pairs]
        expected = np.linalg.eigvals(recorder.matrices[step][name])
        # training uses single precision, and the records have six digits
        assert sorted_spectrum(found) == pytest.approx(sorted_spectrum(expected), abs=2e-6)


def test_henrici_equals_the_departure_computed_from_singular_values(tmp_path):
    recorder = Matrices()
    model = model_with(Unconstrained)
    small_fit(tmp_path, small_settings(5), model=model, callbacks=[recorder, Dynamics(EVERY)])
    (W,) = recorder.matrices[5].values()
    singular, eigenvalues = np.linalg.svd(W)[1], np.linalg.eigvals(W)
    expected = math.sqrt((singular**2).sum() - (np.abs(eigenvalues) ** 2).sum())
    assert read_records(tmp_path)[5]["henrici"]["hh_l0"] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_a_departure_within_rounding_is_zero(seed):
    W = np.linalg.qr(np.random.default_rng(seed).normal(size=(40, 40)))[0]
    assert _departure(W, np.linalg.eigvals(W)) == 0.0


def test_the_orthogonality_error_is_that_of_single_precision(tmp_path):
    errors = recorded(tmp_path)[5]["orthogonality_error"].values()
    assert all(1e-9 < error < 10 * 6 * torch.finfo(torch.float32).eps for error in errors)


def test_every_gate_is_recorded(tmp_path):
    model = SequenceModel(GRU(TASK.input_size, 6, reset=ScaledCayley), TASK.output_size)
    assert list(recorded(tmp_path, model)[5]["spectrum"]) == list(recurrent_matrices(model))


def test_gamma_is_that_of_the_constraint(tmp_path):
    model = model_with(partial(Schur, gamma_penalty=0.1))
    gamma = recorded(tmp_path, model, lr=0.1)[10]["gamma"]["hh_l0"]
    moduli = model.layer.all_directions()[0].constraint.gamma.detach()
    expected = {"mean": moduli.mean(), "min": moduli.min(), "max": moduli.max()}
    assert gamma == pytest.approx({n: float(g) for n, g in expected.items()}, rel=1e-5)
    assert gamma["min"] < gamma["max"]


def test_gamma_is_found_inside_a_composed_constraint(tmp_path):
    parts = partial(BlockTriangular, long=Schur, short_size=2)
    assert list(recorded(tmp_path, model_with(parts))[5]["gamma"]) == ["hh_l0"]


def test_gamma_is_found_in_a_gate_of_a_torch_layer(tmp_path):
    lstm = constrain(torch.nn.LSTM(TASK.input_size, 6), "weight_hh_l0", Schur, rows="g")
    found = recorded(tmp_path, SequenceModel(lstm, TASK.output_size))[5]["gamma"]
    assert list(found) == ["cell_l0"]


def test_other_constraints_have_no_gamma(tmp_path):
    assert recorded(tmp_path)[5]["gamma"] == {}


def test_the_gradient_norms_are_those_of_the_probe_batch(tmp_path):
    model = small_model(dropout=0)
    found = recorded(tmp_path, model)[10]["gradient_norms"]
    batch = next(TASK.batches("train", 4))
    exact = small_model(dropout=0).double().eval()
    exact.load_state_dict(model.state_dict())
    lower, upper = (direction for direction in exact.layer.all_directions())
    states = {"l0": [], "l1": []}
    h = [lower.initial_state(4).detach(), upper.initial_state(4).detach()]
    outputs = []
    for x in batch.inputs.double():
        for name, direction in (("l0", lower), ("l1", upper)):
            k = int(name[1])
            inputs = x if k == 0 else h[0]
            _, h[k] = direction(inputs[None], h[k], backend="reference")
            h[k].retain_grad()
            states[name].append(h[k])
        outputs.append(exact.head(h[1]))
    TASK.loss(torch.stack(outputs), batch.targets).backward()
    for name, layer_states in states.items():
        expected = [float(h.grad.norm()) for h in layer_states]
        assert found[name] == pytest.approx(expected, rel=1e-5)


def test_the_scalars_are_columns_of_metrics_csv(tmp_path):
    found = recorded(tmp_path)
    rows = {int(row["step"]): row for row in read_metrics(tmp_path)}
    for name in ("hh_l0", "hh_l1"):
        assert float(rows[5][f"henrici_{name}"]) == found[5]["henrici"][name]
        error = found[5]["orthogonality_error"][name]
        assert float(rows[5][f"orthogonality_error_{name}"]) == error
        assert float(rows[5][f"radius_{name}"]) == pytest.approx(1, abs=2e-6)
    for name, norms in found[5]["gradient_norms"].items():
        assert float(rows[5][f"gradient_first_{name}"]) == norms[0]
        assert float(rows[5][f"gradient_last_{name}"]) == norms[-1]
    assert rows[4]["henrici_hh_l0"] == ""


def test_gamma_has_three_columns(tmp_path):
    found = recorded(tmp_path, model_with(Schur))[5]["gamma"]["hh_l0"]
    row = read_metrics(tmp_path)[4]
    assert {name: float(row[f"gamma_{name}_hh_l0"]) for name in found} == found


def test_a_record_between_two_logged_steps_has_its_own_row(tmp_path):
    recorded(tmp_path, steps=12, log_every=4, eval_every=12)
    rows = read_metrics(tmp_path)
    assert [row["step"] for row in rows] == ["4", "5", "8", "10", "12"]
    assert [row["step"] for row in rows if row["train_loss"]] == ["4", "8", "12"]


def test_the_callback_does_not_change_the_run(tmp_path):
    recorded(tmp_path / "one", steps=20)
    small_fit(tmp_path / "other", small_settings(20))
    assert losses(tmp_path / "one") == losses(tmp_path / "other")


def noisy_model():
    layer = LeakyRNN(TASK.input_size, 6, leak=0.5, noise=0.5, noise_in_eval=True)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.linspace(-0.5, 0.5, weight.numel()).view(weight.shape))
    return SequenceModel(layer, TASK.output_size)


@pytest.mark.parametrize("earlier", [0, 1])
def test_noise_in_evaluation_does_not_depend_on_the_callback_and_on_earlier_draws(
    tmp_path, earlier
):
    torch.manual_seed(0)
    models = [noisy_model() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    small_fit(tmp_path / "plain", model=models[0])
    torch.randn(earlier)  # the global generator of the caller
    small_fit(tmp_path / "recorded", model=models[1], callbacks=[Dynamics(every=5)])
    plain = [row["validation_loss"] for row in read_metrics(tmp_path / "plain")]
    recorded = [row["validation_loss"] for row in read_metrics(tmp_path / "recorded")]
    assert recorded == plain


def test_a_run_without_the_callback_has_no_further_columns(tmp_path):
    small_fit(tmp_path, small_settings(2))
    assert list(read_metrics(tmp_path)[0])[-1] == "test_accuracy"
    assert not (tmp_path / "dynamics.jsonl").exists()


@pytest.mark.parametrize("crash", some([4, 11], [11]))
def test_a_resumed_run_has_the_records_of_an_uninterrupted_one(tmp_path, crash):
    settings = small_settings(20, checkpoint_every=3)
    with pytest.raises(CrashError):
        small_fit(tmp_path / "halves", settings, callbacks=[Dynamics(2), Crash(crash)])
    small_fit(tmp_path / "halves", settings, callbacks=[Dynamics(2)], resume=True)
    small_fit(tmp_path / "whole", settings, callbacks=[Dynamics(2)])
    one, two = (tmp_path / name / "dynamics.jsonl" for name in ("halves", "whole"))
    assert one.read_bytes() == two.read_bytes()
    rows = [read_metrics(tmp_path / name) for name in ("halves", "whole")]
    assert [{**row, "seconds": ""} for row in rows[0]] == [
        {**row, "seconds": ""} for row in rows[1]
    ]


@pytest.mark.parametrize("partial", some(['{"step": 10, "spec', '{"step": 1', "\0\0"], ["\0\0"]))
def test_an_incomplete_line_is_discarded(tmp_path, partial):
    recorded(tmp_path / "halves", steps=10)
    with (tmp_path / "halves" / "dynamics.jsonl").open("a") as file:
        file.write(partial)
    small_fit(tmp_path / "halves", small_settings(20), callbacks=[Dynamics(EVERY)], resume=True)
    recorded(tmp_path / "whole", steps=20)
    one, two = (tmp_path / name / "dynamics.jsonl" for name in ("halves", "whole"))
    assert one.read_bytes() == two.read_bytes()


def test_the_callback_may_be_added_on_resuming(tmp_path):
    small_fit(tmp_path, small_settings(10))
    small_fit(tmp_path, small_settings(20), callbacks=[Dynamics(EVERY)], resume=True)
    assert list(read_records(tmp_path)) == [15, 20]
    assert [row["step"] for row in read_metrics(tmp_path) if row["henrici_hh_l0"]] == ["15", "20"]


def test_the_callback_may_be_removed_on_resuming(tmp_path):
    recorded(tmp_path, steps=10)
    small_fit(tmp_path, small_settings(20), resume=True)
    assert list(read_records(tmp_path)) == [0, 5, 10]
    assert [row["step"] for row in read_metrics(tmp_path) if row["henrici_hh_l0"]] == ["5", "10"]


def test_overwriting_a_run_deletes_its_records(tmp_path):
    recorded(tmp_path)
    small_fit(tmp_path, small_settings(2), overwrite=True)
    assert not (tmp_path / "dynamics.jsonl").exists()


def test_a_non_finite_matrix_raises_in_the_training_loop(tmp_path):
    class FillWithNan(Callback):
        def after_step(self, step, _, model):
            if step == 5:
                direction = model.layer.all_directions()[0]
                torch.nn.init.constant_(direction.constraint.raw, math.nan)

    model = model_with(Unconstrained)
    with pytest.raises(ArithmeticError, match="step 6"):
        small_fit(tmp_path, model=model, callbacks=[FillWithNan(), Dynamics(EVERY)])
    assert list(read_records(tmp_path)) == [0]
