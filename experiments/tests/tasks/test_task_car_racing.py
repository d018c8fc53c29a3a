"""CarRacing: its loss against a reference, its splits, and its data file."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats

from draws import first
from eigenrnn import RNN, SequenceModel
from eigenrnn.constraints import Unconstrained
from eigenrnn_experiments.data.car_racing import Encoded, split_slices
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.tasks import CarRacing
from eigenrnn_experiments.tasks.base import generator_for
from eigenrnn_experiments.training import Settings, fit
from synthetic_data import encoded_drives, write_drives
from training_run import QUIET

DRIVES = encoded_drives()


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return CarRacing(data_root=write_drives(tmp_path_factory.mktemp("drives"), DRIVES))


@pytest.fixture
def task_of(tmp_path):
    """Return a function that creates a task from other drives."""
    return lambda drives: CarRacing(data_root=write_drives(tmp_path, drives))


def noise_of(z, rows, steps):
    """The noise added to the means, in units of the standard deviation."""
    mu, logvar = (torch.from_numpy(each[rows][:, steps]) for each in (DRIVES.mu, DRIVES.logvar))
    return (z - mu.transpose(0, 1)) / (logvar.transpose(0, 1) / 2).exp()


def nll_slowly(outputs, targets, mixtures):
    """The loss computed with SciPy's densities, one number at a time."""
    total, count = 0.0, 0
    for step, row, z in np.ndindex(*targets.shape):
        own = outputs[step, row].reshape(-1, 3 * mixtures)[z]
        logits, means, log_deviations = np.split(own, 3)
        weights = np.exp(logits) / np.exp(logits).sum()
        density = weights * stats.norm.pdf(targets[step, row, z], means, np.exp(log_deviations))
        total, count = total - np.log(density.sum()), count + 1
    return total / count


@pytest.mark.parametrize("mixtures", [1, 2, 5])
def test_the_loss_is_that_of_a_separate_mixture_per_dimension(task, mixtures):
    task = replace(task, mixtures=mixtures)
    targets = task.batch(3, generator_for(0)).targets.double()
    shape = (*targets.shape[:2], task.output_size)
    outputs = 0.5 * torch.randn(shape, generator=generator_for(1), dtype=torch.float64)
    slowly = nll_slowly(outputs.numpy(), targets.numpy(), mixtures)
    assert task.loss(outputs, targets).item() == pytest.approx(slowly, rel=1e-10)


def test_the_loss_and_its_gradient_are_finite_far_from_the_target(task):
    targets = torch.full((1, 1, 32), 1e3)
    outputs = torch.zeros(1, 1, 480).view(1, 1, 32, 3, 5)
    outputs[..., 0, :] = torch.tensor([-500.0, 0, 500, 0, 0])
    outputs[..., 2, :] = -5.0
    outputs.requires_grad_()
    loss = task.loss(outputs.flatten(2), targets)
    loss.backward()
    assert loss.item() == pytest.approx(0.5 * (1e3 * np.exp(5)) ** 2, rel=1e-4)
    assert outputs.grad.isfinite().all()


def test_the_input_is_a_vector_and_its_action_and_the_target_the_next_vector(task):
    batch = task.batch(4, generator_for(0))
    assert batch.inputs.shape == (5, 4, 35)
    assert torch.equal(batch.inputs[1:, :, :32], batch.targets[:-1])
    for row in range(4):
        actions = batch.inputs[:, row, 32:].numpy()
        assert any(np.array_equal(actions, drive[:-1]) for drive in DRIVES.action[:24])


def test_training_vectors_are_sampled_anew_at_each_step(task):
    noises = []
    for batch in first(task.batches("train", 24), 40):
        actions = batch.inputs[:, :, 32:].transpose(0, 1).numpy()
        rows = [
            int(np.flatnonzero((DRIVES.action[:24, 0] == own[0]).all(1))[0]) for own in actions
        ]
        assert sorted(rows) == [*range(24)]  # each drive once
        noises.append(noise_of(batch.targets, rows, slice(1, None)).flatten())
    noise = torch.stack(noises)
    assert stats.kstest(noise.flatten().numpy(), "norm").pvalue > 1e-3
    assert abs(torch.corrcoef(noise)[0, 1:]).max() < 5 / noise.shape[1] ** 0.5


def test_held_out_drives_differ_and_their_vectors_are_sampled_once(task):
    for split, rows in (("validation", range(24, 27)), ("test", range(27, 30))):
        one, other = (next(task.batches(split, 3, seed=seed)) for seed in (0, 1))
        assert torch.equal(one.inputs, other.inputs)
        actions = one.inputs[:, :, 32:].transpose(0, 1).numpy()
        assert np.array_equal(actions, DRIVES.action[rows, :-1])
        assert noise_of(one.targets, rows, slice(1, None)).std() == pytest.approx(1, abs=0.1)
        anew = next(replace(task, data_seed=1).batches(split, 3))
        assert not torch.equal(one.targets, anew.targets)


def test_the_baseline_is_the_loss_of_a_gaussian_fitted_to_the_training_drives(task):
    targets = torch.cat([batch.targets for batch in first(task.batches("train", 24), 200)])
    prediction = torch.zeros(32, 3, 5)
    prediction[:, 1] = targets.mean((0, 1)).unsqueeze(-1)
    prediction[:, 2] = targets.std((0, 1)).log().unsqueeze(-1)
    loss = task.loss(prediction.flatten().expand(*targets.shape[:2], -1), targets)
    assert loss.item() == pytest.approx(task.baseline(), abs=1e-3)


def test_held_out_splits_are_a_tenth_each_and_never_empty():
    for count, sizes in ((300, (240, 30, 30)), (10, (8, 1, 1)), (3, (1, 1, 1))):
        got = split_slices(count)
        assert tuple(len(range(count)[rows]) for rows in got.values()) == sizes
        assert [k for rows in got.values() for k in range(count)[rows]] == [*range(count)]


def test_a_network_learns_the_effect_of_the_actions(task_of, tmp_path):
    mu = np.zeros_like(DRIVES.mu)
    mu[:, 1:] = np.tile(DRIVES.action[:, :-1], 11)[..., :32]
    task = task_of(replace(DRIVES, mu=mu, logvar=np.full_like(mu, -4)))
    layer = RNN(35, 32, constraint=Unconstrained, nonlinearity="tanh", generator=generator_for(0))
    model = SequenceModel(layer, task.output_size, generator=generator_for(1))
    settings = Settings(
        steps=150, batch_size=24, optimiser="adam", lr=1e-2, eval_every=75, accelerator="cpu"
    )
    result = fit(model, task, settings, tmp_path / "run", console=QUIET)
    assert set(result.last) == {"validation", "test"}
    for figures in result.last.values():
        assert figures["loss"] < task.baseline() - 0.5


def test_a_missing_file_is_reported_with_the_command_that_creates_it(tmp_path, monkeypatch):
    with pytest.raises(MissingDataError, match=f"{tmp_path}/car_racing"):
        CarRacing(data_root=tmp_path).batch(1, generator_for(0))
    monkeypatch.delenv("EIGENRNN_DATA", raising=False)
    with pytest.raises(MissingDataError, match=r"\$EIGENRNN_DATA/car_racing"):
        CarRacing().batch(1, generator_for(0))


def test_the_file_is_found_in_a_subfolder_of_the_data_folder(tmp_path, monkeypatch):
    (tmp_path / "car_racing").mkdir()
    write_drives(tmp_path / "car_racing", DRIVES)
    monkeypatch.setenv("EIGENRNN_DATA", str(tmp_path))
    assert CarRacing().batch(2, generator_for(0)).size == 2


@pytest.mark.parametrize(
    ("drives", "named"),
    [
        (Encoded(DRIVES.mu[:2], DRIVES.logvar[:2], DRIVES.action[:2]), r"\(2, 6, 32\)"),
        (replace(DRIVES, action=DRIVES.action[:, :-1]), r"\(30, 5, 3\)"),
        (replace(DRIVES, mu=DRIVES.mu[..., :31]), r"\(30, 6, 31\)"),
    ],
    ids=["two drives", "unequal lengths", "other width"],
)
def test_other_arrays_are_rejected(task_of, drives, named):
    with pytest.raises(ValueError, match=named):
        task_of(drives).batch(1, generator_for(0))
