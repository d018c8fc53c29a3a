"""The demonstration script that `make demo` runs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.image import imread

from eigenrnn.experiments.tasks import Copying
from training_run import read_metrics

SCRIPT = Path(__file__).parents[1] / "examples" / "copying_demo.py"


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run the script once at a small size; return its folder and its output."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, str(SCRIPT), "--delay", "5", "--steps", "4", "--out", "demo"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "COLUMNS": "80"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "demo", done.stdout


def cells(printed, model):
    """Return the numbers in the table row of a model."""
    (line,) = [line for line in printed.splitlines() if f"│ {model} " in line]
    _, *numbers = [cell.strip() for cell in line.strip("│").split("│")]
    return [float(number.replace(",", "")) for number in numbers]


@pytest.mark.parametrize("model", ["scoRNN", "LSTM", "tanh RNN"])
def test_the_table_has_a_row_for_each_model(demo, model):
    _, printed = demo
    parameters, loss, baseline, ratio, _seconds = cells(printed, model)
    assert 10_000 < parameters < 11_000
    assert baseline == pytest.approx(Copying(delay=5).baseline(), abs=1e-5)
    assert ratio == pytest.approx(loss / baseline, abs=1e-3)


@pytest.mark.parametrize(
    ("model", "folder"), [("scoRNN", "scornn"), ("LSTM", "lstm"), ("tanh RNN", "tanh-rnn")]
)
def test_the_final_loss_is_that_of_the_last_evaluation(demo, model, folder):
    out, printed = demo
    measured = float(read_metrics(out / folder)[-1]["test_loss"])
    assert cells(printed, model)[1] == pytest.approx(measured, abs=1e-5)


def test_progress_is_printed(demo):
    _, printed = demo
    assert re.search(r"scoRNN: step 4/4, loss [\d.]+, validation accuracy", printed)


def test_the_path_of_the_picture_is_printed_last(demo):
    folder, printed = demo
    last = printed.splitlines()[-1]
    assert last == f"learning curves: {(folder / 'learning_curves.png').resolve()}"


def test_the_picture_is_not_blank(demo):
    folder, _ = demo
    picture = imread(folder / "learning_curves.png")
    height, width, _ = picture.shape
    assert width > height > 300
    assert picture[..., :3].std() > 0.05
