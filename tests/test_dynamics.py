"""What is written down of a network while it is trained."""

import json
import math
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import training_run
from eigenrnn import GRU, RNN, SequenceModel
from eigenrnn.analysis import recurrent_matrices
from eigenrnn.constraints import BlockTriangular, ScaledCayley, Schur, Unconstrained, constrain
from eigenrnn.experiments.training import Callback, Dynamics
from training_run import TASK, losses, read_metrics, small_fit, small_model, small_settings

EVERY = 5


class Stop(Callback):
    """Ends a run with an error, as a crash does."""

    def __init__(self, step):
        self.step = step

    def after_step(self, step, *_):
        if step == self.step:
            raise CrashError


class Keep(Callback):
    """Keeps the recurrent matrices of some steps."""

    def __init__(self):
        self.matrices = {}

    def begin(self, step, model, *_):
        self.matrices[step] = recurrent_matrices(model)

    def after_step(self, step, _, model):
        self.matrices[step] = recurrent_matrices(model)


class CrashError(Exception):
    """Stands for whatever ends a run."""


def looks(folder):
    """Read what was written, by step."""
    lines = (folder / "dynamics.jsonl").read_text().splitlines()
    return {line["step"]: line for line in map(json.loads, lines)}


def model_with(constraint, **options):
    layer = RNN(TASK.input_size, 6, constraint=constraint, **options)
    return SequenceModel(layer, TASK.output_size)


def watched(folder, model=None, *, steps=10, **options):
    """Train and look; return what was found by step."""
    settings = small_settings(steps, **options)
    small_fit(folder, settings, model=model, callbacks=[Dynamics(EVERY)])
    return looks(folder)


def sorted_spectrum(values):
    return sorted(np.asarray(values), key=lambda z: (round(z.real, 4), round(z.imag, 4)))


# what is found


def test_it_looks_before_the_first_step_and_every_few_steps(tmp_path):
    assert list(watched(tmp_path, steps=12)) == [0, 5, 10]


@pytest.mark.parametrize("step", [0, 5, 10])
def test_the_spectra_are_the_eigenvalues_of_the_matrices(tmp_path, step):
    keep = Keep()
    small_fit(tmp_path, small_settings(10), callbacks=[keep, Dynamics(EVERY)])
    for name, pairs in looks(tmp_path)[step]["spectrum"].items():
        found = [complex(*pair) for pair in pairs]
        expected = np.linalg.eigvals(keep.matrices[step][name])
        # training goes by single precision, what is written has six digits
        assert sorted_spectrum(found) == pytest.approx(sorted_spectrum(expected), abs=2e-6)


def test_the_departure_is_that_of_the_schur_form(tmp_path):
    keep = Keep()
    model = model_with(Unconstrained)
    small_fit(tmp_path, small_settings(5), model=model, callbacks=[keep, Dynamics(EVERY)])
    (W,) = keep.matrices[5].values()
    singular, eigenvalues = np.linalg.svd(W)[1], np.linalg.eigvals(W)
    expected = math.sqrt((singular**2).sum() - (np.abs(eigenvalues) ** 2).sum())
    assert looks(tmp_path)[5]["henrici"]["hh_l0"] == pytest.approx(expected, rel=1e-5)


def test_an_orthogonal_matrix_departs_from_normality_by_nothing(tmp_path):
    assert set(watched(tmp_path)[5]["henrici"].values()) == {0.0}


def test_the_orthogonality_error_is_that_of_single_precision(tmp_path):
    errors = watched(tmp_path)[5]["orthogonality_error"].values()
    assert all(1e-9 < error < 10 * 6 * torch.finfo(torch.float32).eps for error in errors)


def test_every_gate_is_looked_at(tmp_path):
    model = SequenceModel(GRU(TASK.input_size, 6, reset=ScaledCayley), TASK.output_size)
    assert list(watched(tmp_path, model)[5]["spectrum"]) == list(recurrent_matrices(model))


def test_gamma_is_that_of_the_constraint(tmp_path):
    model = model_with(partial(Schur, gamma_penalty=0.1))
    gamma = watched(tmp_path, model, lr=0.1)[10]["gamma"]["hh_l0"]
    moduli = model.layer.all_directions()[0].constraint.gamma.detach()
    expected = {"mean": moduli.mean(), "min": moduli.min(), "max": moduli.max()}
    assert gamma == pytest.approx({n: float(g) for n, g in expected.items()}, rel=1e-5)
    assert gamma["min"] < gamma["max"]


def test_gamma_is_found_inside_of_a_larger_set(tmp_path):
    parts = partial(BlockTriangular, long=Schur, short_size=2)
    assert list(watched(tmp_path, model_with(parts))[5]["gamma"]) == ["hh_l0"]


def test_gamma_is_found_in_a_gate_of_a_layer_of_torch(tmp_path):
    lstm = constrain(torch.nn.LSTM(TASK.input_size, 6), "weight_hh_l0", Schur, rows="g")
    found = watched(tmp_path, SequenceModel(lstm, TASK.output_size))[5]["gamma"]
    assert list(found) == ["cell_l0"]


def test_of_other_sets_there_is_no_gamma(tmp_path):
    assert watched(tmp_path)[5]["gamma"] == {}


def test_the_gradients_are_those_of_the_probe(tmp_path):
    model = small_model(dropout=0)
    found = watched(tmp_path, model)[10]["gradient_norms"]
    batch = next(TASK.batches("train", 4))
    exact = small_model(dropout=0).double().eval()
    exact.load_state_dict(model.state_dict())
    lower, upper = (direction for direction in exact.layer.all_directions())
    states = {"l0": [], "l1": []}
    h = [lower.begin(4).detach(), upper.begin(4).detach()]
    shown = []
    for x in batch.inputs.double():
        for name, direction in (("l0", lower), ("l1", upper)):
            k = int(name[1])
            read = x if k == 0 else h[0]
            _, h[k] = direction(read[None], h[k], backend="reference")
            h[k].retain_grad()
            states[name].append(h[k])
        shown.append(exact.head(h[1]))
    TASK.loss(torch.stack(shown), batch.targets).backward()
    for name, along in states.items():
        expected = [float(h.grad.norm()) for h in along]
        assert found[name] == pytest.approx(expected, rel=1e-5)


# where it is written


def test_the_scalars_are_columns_of_the_journal(tmp_path):
    found = watched(tmp_path)
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
    found = watched(tmp_path, model_with(Schur))[5]["gamma"]["hh_l0"]
    row = read_metrics(tmp_path)[4]
    assert {name: float(row[f"gamma_{name}_hh_l0"]) for name in found} == found


def test_a_look_between_two_logged_steps_has_a_row_of_its_own(tmp_path):
    watched(tmp_path, steps=12, log_every=4, eval_every=12)
    rows = read_metrics(tmp_path)
    assert [row["step"] for row in rows] == ["4", "5", "8", "10", "12"]
    assert [row["step"] for row in rows if row["train_loss"]] == ["4", "8", "12"]


def test_the_means_of_the_loss_are_those_of_a_run_that_nobody_watches(tmp_path):
    options = {"log_every": 4, "eval_every": 12}
    watched(tmp_path / "one", steps=12, **options)
    small_fit(tmp_path / "other", small_settings(12, **options))
    one, other = (
        {row["step"]: row["train_loss_mean"] for row in read_metrics(tmp_path / name)}
        for name in ("one", "other")
    )
    assert {step: one[step] for step in other} == other


def test_watching_leaves_the_run_as_it_is(tmp_path):
    watched(tmp_path / "one", steps=20)
    small_fit(tmp_path / "other", small_settings(20))
    assert losses(tmp_path / "one") == losses(tmp_path / "other")


def test_a_run_that_nobody_watches_has_no_further_column(tmp_path):
    small_fit(tmp_path, small_settings(2))
    assert list(read_metrics(tmp_path)[0])[-1] == "test_accuracy"
    assert not (tmp_path / "dynamics.jsonl").exists()


@pytest.mark.filterwarnings("default::DeprecationWarning")  # of the board's own reader
def test_the_board_shows_scalars_and_histograms(tmp_path):
    found = watched(tmp_path)
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    shown = {event.step: event.value for event in board.Scalars("orthogonality/error_hh_l0")}
    expected = {step: found[step]["orthogonality_error"]["hh_l0"] for step in (5, 10)}
    assert shown == pytest.approx(expected, rel=1e-6)
    histogram = board.Histograms("modulus/hh_l1")[0].histogram_value
    assert (histogram.num, histogram.sum) == (6, pytest.approx(6, abs=1e-5))


# stopping and going on


@pytest.mark.parametrize("crash", [4, 11])
def test_a_stopped_run_leaves_the_lines_of_one_that_never_was(tmp_path, crash):
    settings = small_settings(20, checkpoint_every=3)
    with pytest.raises(CrashError):
        small_fit(tmp_path / "halves", settings, callbacks=[Dynamics(2), Stop(crash)])
    small_fit(tmp_path / "halves", settings, callbacks=[Dynamics(2)], resume=True)
    small_fit(tmp_path / "whole", settings, callbacks=[Dynamics(2)])
    one, two = (tmp_path / name / "dynamics.jsonl" for name in ("halves", "whole"))
    assert one.read_bytes() == two.read_bytes()
    rows = [read_metrics(tmp_path / name) for name in ("halves", "whole")]
    assert [{**row, "seconds": ""} for row in rows[0]] == [
        {**row, "seconds": ""} for row in rows[1]
    ]


@pytest.mark.parametrize("torn", ['{"step": 10, "spec', '{"step": 1', "\0\0", "\n", "[]\n"])
def test_half_a_line_is_forgotten(tmp_path, torn):
    watched(tmp_path / "halves", steps=10)
    with (tmp_path / "halves" / "dynamics.jsonl").open("a") as file:
        file.write(torn)
    small_fit(tmp_path / "halves", small_settings(20), callbacks=[Dynamics(EVERY)], resume=True)
    watched(tmp_path / "whole", steps=20)
    one, two = (tmp_path / name / "dynamics.jsonl" for name in ("halves", "whole"))
    assert one.read_bytes() == two.read_bytes()


def test_a_run_may_be_watched_from_the_middle_on(tmp_path):
    small_fit(tmp_path, small_settings(10))
    small_fit(tmp_path, small_settings(20), callbacks=[Dynamics(EVERY)], resume=True)
    assert list(looks(tmp_path)) == [15, 20]
    assert [row["step"] for row in read_metrics(tmp_path) if row["henrici_hh_l0"]] == ["15", "20"]


def test_a_run_may_go_on_unwatched(tmp_path):
    watched(tmp_path, steps=10)
    small_fit(tmp_path, small_settings(20), resume=True)
    assert list(looks(tmp_path)) == [0, 5, 10]
    assert [row["step"] for row in read_metrics(tmp_path) if row["henrici_hh_l0"]] == ["5", "10"]


def test_a_new_run_in_the_folder_forgets_the_old_one(tmp_path):
    watched(tmp_path)
    small_fit(tmp_path, small_settings(2), overwrite=True)
    assert not (tmp_path / "dynamics.jsonl").exists()


@pytest.mark.slow
def test_of_two_processes_the_first_writes(tmp_path):
    command = [sys.executable, training_run.__file__, str(tmp_path / "two")]
    options = ["--steps", "10", "--devices", "2", "--dropout", "0", "--dynamics_every", "5"]
    subprocess.run([*command, *options], check=True, timeout=120, capture_output=True)
    assert list(looks(tmp_path / "two")) == [0, 5, 10]


# what is refused


@pytest.mark.parametrize("options", [{"every": 0}, {"every": 2.5}, {"sequences": -1}])
def test_what_is_no_count_is_refused(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"expected {name} to be a positive integer"):
        Dynamics(**options)


def test_a_model_without_a_recurrent_layer_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected a recurrent layer"):
        small_fit(
            tmp_path,
            small_settings(2),
            model=torch.nn.Linear(TASK.input_size, TASK.output_size),
            callbacks=[Dynamics()],
        )


def test_a_matrix_that_is_not_finite_is_left_to_the_loop(tmp_path):
    class Spoil(Callback):
        def after_step(self, step, _, model):
            if step == 5:
                direction = model.layer.all_directions()[0]
                torch.nn.init.constant_(direction.constraint.raw, math.nan)

    model = model_with(Unconstrained)
    with pytest.raises(ArithmeticError, match="step 6"):
        small_fit(tmp_path, model=model, callbacks=[Spoil(), Dynamics(EVERY)])
    assert list(looks(tmp_path)) == [0]
