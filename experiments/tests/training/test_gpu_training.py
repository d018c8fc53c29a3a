"""On a GPU, training is repeatable, and a killed run resumes bit for bit."""

import subprocess
import sys
import time

import pytest

import training_run
from eigenrnn_experiments.training import RunFolder
from training_run import losses, small_fit, small_settings

pytestmark = pytest.mark.gpu

DEVICE = "cuda"


def settings(steps=20, **options):
    return small_settings(steps, accelerator=DEVICE, **options)


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "16-mixed", "64-true"])
def test_two_equal_runs_have_equal_losses(tmp_path, precision):
    for name in ("one", "other"):
        small_fit(tmp_path / name, settings(precision=precision))
    assert losses(tmp_path / "one") == losses(tmp_path / "other")


def test_a_run_has_the_losses_of_the_cpu(tmp_path):
    from_gpu = small_fit(tmp_path / "gpu", settings(precision="64-true"), model=no_dropout())
    on_cpu = small_settings(precision="64-true")
    from_cpu = small_fit(tmp_path / "cpu", on_cpu, model=no_dropout())
    assert from_gpu.last["test"] == pytest.approx(from_cpu.last["test"], rel=1e-9)


def no_dropout():
    return training_run.small_model(dropout=0.0)


def test_a_killed_run_resumes_bit_for_bit(tmp_path):
    whole, killed, steps = tmp_path / "whole", tmp_path / "killed", 400
    options = ["--steps", str(steps), "--accelerator", DEVICE]
    with subprocess.Popen(
        [sys.executable, training_run.__file__, str(killed), *options]
    ) as process:
        deadline = time.monotonic() + 120
        while not (killed / "last.pt").exists() and time.monotonic() < deadline:
            time.sleep(0.001)
        process.kill()
    assert RunFolder(killed).run.state == "unfinished", "the run ended before it could be killed"
    small_fit(killed, settings(steps, checkpoint_every=20), resume=True)
    small_fit(whole, settings(steps, checkpoint_every=20))
    assert losses(killed) == losses(whole)
