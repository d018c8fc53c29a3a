"""Recording and encoding of drives, with the real environment and command."""

import itertools
import json
import shutil

import numpy as np
import pytest
import torch

from eigenrnn_experiments.cli import main
from eigenrnn_experiments.data.car_racing import read_encoded
from eigenrnn_experiments.tasks import CarRacing
from eigenrnn_experiments.tasks.base import generator_for
from eigenrnn_experiments.training import checkpoint
from eigenrnn_experiments.world import VAE, Collection, encode
from eigenrnn_experiments.world.autoencoder import Frames, autoencoder_settings
from eigenrnn_experiments.world.collection import preprocess_frame, sample_actions
from training_run import one_thread

STEPS = 15
OPTIONS = f"--rollouts 3 --steps {STEPS} --seed 4 --epochs 2 --processes 2 --accelerator cpu"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A collection recorded by the command."""
    folder = tmp_path_factory.mktemp("world") / "drives"
    with one_thread():
        assert main(["collect", "car_racing", *OPTIONS.split(), "--out", str(folder)]) == 0
    return Collection(folder, rollouts=3, steps=STEPS, seed=4)


@pytest.fixture
def copied(recorded, tmp_path):
    """A copy of the collection that a test may damage."""
    shutil.copytree(recorded.folder, tmp_path / "copy")
    return Collection(tmp_path / "copy", rollouts=3, steps=STEPS, seed=4)


def contents(collection):
    return [collection.path(number).read_bytes() for number in range(collection.rollouts)]


def test_actions_are_a_random_linear_map_of_noise():
    for number in range(3):
        generator = np.random.default_rng(np.random.SeedSequence(4, spawn_key=(number, 0)))
        scale = generator.random() * 0.01
        weights = scale * generator.standard_cauchy(3 * 32)
        biases = scale * generator.standard_cauchy(3)
        for got in sample_actions(4, number, 20):
            noise = generator.standard_normal(32)
            sums = [sum(noise * weights[32 * k : 32 * (k + 1)]) + biases[k] for k in range(3)]
            steering, gas, brake = np.tanh(sums)
            expected = [steering, 0.5 * gas + 0.5, max(brake, 0.0)]
            assert got.tolist() == pytest.approx(expected, abs=1e-6)


def test_frames_lack_the_instruments_and_are_scaled_and_inverted():
    observation = np.zeros((96, 96, 3), np.uint8)
    observation[:42, :, 0], observation[42:84, :, 1], observation[84:] = 200, 90, 255
    frame = preprocess_frame(observation)
    assert frame.shape == (64, 64, 3)
    assert (frame[:31] == [55, 255, 255]).all()
    assert (frame[33:] == [255, 165, 255]).all()


@pytest.mark.long
def test_a_drive_shows_a_moving_track(recorded):
    for number in range(3):
        frames = recorded.read(number)["frame"]
        assert frames.shape == (STEPS, 64, 64, 3)
        changed = (frames[1:] != frames[:-1]).any((1, 2, 3))
        assert changed.all()
    one, other = (recorded.read(number)["frame"][0] for number in (0, 1))
    assert (one != other).any()


@pytest.mark.long
def test_drives_do_not_depend_on_the_number_of_processes_or_steps(recorded, tmp_path):
    shorter = Collection(tmp_path / "again", rollouts=3, steps=6, seed=4)
    shorter.record(processes=1)
    for number in range(3):
        assert np.array_equal(shorter.read(number), recorded.read(number)[:6])


@pytest.mark.long
def test_recorded_drives_are_kept_and_missing_ones_recorded(copied):
    before = contents(copied)
    copied.path(1).unlink()
    kept = copied.path(0).stat().st_mtime_ns
    copied.record(processes=2)
    assert contents(copied) == before
    assert copied.path(0).stat().st_mtime_ns == kept


def test_the_autoencoder_has_the_parameters_of_the_paper():
    assert sum(parameter.numel() for parameter in VAE().parameters()) == 4_348_547


def test_latents_are_sampled_in_training_and_are_the_means_in_evaluation():
    model = VAE(generator=generator_for(0))
    frames = torch.randint(256, (1, 4, 12_288), generator=generator_for(1)).byte()
    with torch.no_grad():
        one, other = model(frames), model(frames)
        assert not torch.equal(one, other)
        assert torch.equal(one[:, 12_288:], other[:, 12_288:])
        pixels = model.eval().decoder(model.encode(frames)[0]).permute(0, 2, 3, 1)
        assert torch.equal(model(frames)[:, :12_288], pixels.flatten(1))


def test_the_loss_equals_that_of_world_models(recorded):
    task = Frames(recorded)
    frames = task.batch(5, generator_for(0)).targets
    outputs = torch.randn(5, task.output_size, generator=generator_for(1), dtype=torch.float64)
    outputs[:3, 12_288:] *= 0.1  # these diverge by less than is free
    x, y = frames.numpy() / 255, outputs.numpy()
    squares, divergences = [], []
    for k in range(5):
        mu, logvar = y[k, -64:-32], y[k, -32:]
        squares.append(sum((x[k] - y[k, :12_288]) ** 2))
        divergences.append(max(-0.5 * sum(1 + logvar - mu**2 - np.exp(logvar)), 16))
    assert divergences[:3] == [16] * 3
    assert min(divergences[3:]) > 16
    expected = np.mean(squares) + np.mean(divergences)
    assert task.loss(outputs, frames).item() == pytest.approx(expected)
    figures = task.metrics_from_sums(task.metric_sums(outputs, frames))
    assert tuple(figures) == task.metric_names
    assert [*figures.values()] == pytest.approx([expected, np.mean(squares)])


def test_an_epoch_has_each_training_frame_once_and_no_test_frame(recorded):
    task = Frames(recorded)
    train, validation, test = (
        recorded.read(number)["frame"].reshape(STEPS, -1) for number in range(3)
    )
    assert task.steps_per_epoch(4) == 4
    epoch = [*itertools.islice(task.batches("train", 4, seed=3), 4)]
    seen = torch.cat([batch.targets for batch in epoch]).numpy()
    assert all((seen == frame).all(1).sum() == 1 for frame in train)
    assert not (seen[:, None] == test).all(2).any()
    held_out = torch.cat([batch.inputs[0] for batch in task.batches("validation", 3)])
    assert np.array_equal(held_out, validation)


def test_the_autoencoders_baseline_is_the_loss_of_the_mean_frame(recorded):
    task = Frames(recorded)
    frames = torch.from_numpy(recorded.read(0)["frame"].reshape(STEPS, -1).copy())
    prediction = torch.cat([(frames / 255).mean(0), torch.zeros(64)]).expand(STEPS, -1)
    assert task.loss(prediction, frames).item() == pytest.approx(task.baseline(), rel=1e-5)


def test_drives_are_encoded_by_the_autoencoder_in_the_folder(recorded):
    model = VAE().eval()
    model.load_state_dict(checkpoint.load(recorded.vae / "last.pt")["train_step"]["model"])
    encoded = read_encoded(recorded.encoded)
    for number in range(3):
        drive = recorded.read(number)
        pixels = torch.from_numpy(drive["frame"].copy()).flatten(1)
        with torch.no_grad():
            mu, logvar = model.encode(pixels.unsqueeze(0))
        np.testing.assert_allclose(encoded.mu[number], mu, atol=1e-5)
        np.testing.assert_allclose(encoded.logvar[number], logvar, atol=1e-5)
        assert np.array_equal(encoded.action[number], drive["action"])


def test_encoding_again_does_not_train_and_writes_the_same_file(copied):
    before = copied.encoded.read_bytes()
    copied.encoded.unlink()
    steps = json.loads((copied.vae / "run.json").read_text())["steps"]
    with one_thread():
        assert encode(copied, autoencoder_settings(epochs=2, accelerator="cpu", seed=4))
    assert copied.encoded.read_bytes() == before
    assert json.loads((copied.vae / "run.json").read_text())["steps"] == steps == 2


def test_the_task_reads_the_output_of_the_command(recorded):
    task = CarRacing(data_root=recorded.folder)
    (batch,) = itertools.islice(task.batches("train", 1), 1)
    assert batch.inputs.shape == (STEPS - 1, 1, 35)
    assert np.array_equal(batch.inputs[:, 0, 32:], recorded.read(0)["action"][:-1])
