"""The demonstration script that `make demo` runs, and the example of PPO."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eigenrnn_experiments.tasks import Copying
from training_run import read_metrics

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = EXAMPLES / "copying_demo.py"
SVG = "{http://www.w3.org/2000/svg}"
COLOURS = ("#2a83c4", "#d55e00", "#009e73")  # of scoRNN, the LSTM and the tanh RNN


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Run the script once at a small size; return its folder and its output."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, str(SCRIPT), "--delay", "5", "--steps", "40", "--out", "demo"]
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


@pytest.mark.long
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


def curves(picture):
    """Return the texts of an SVG, and the number of points of each curve by its colour."""
    texts = {text.text for text in ElementTree.parse(picture).iter(f"{SVG}text")}
    points = {}
    for path in ElementTree.parse(picture).iter(f"{SVG}path"):
        for colour in COLOURS:
            if f"stroke: {colour}" in path.get("style", ""):
                points[colour] = max(points.get(colour, 0), path.get("d").count("L") + 1)
    return texts, points


def test_the_picture_has_a_curve_for_each_network(demo):
    folder, _ = demo
    texts, points = curves(folder / "learning_curves.svg")
    assert texts >= {"scoRNN", "LSTM", "tanh RNN", "Copying 10 symbols over 5 steps"}
    rows = len(read_metrics(folder / "scornn"))
    assert points == dict.fromkeys(COLOURS, rows)


@pytest.mark.long
@pytest.mark.usefixtures("threads")
def test_a_policy_learns_with_memory_what_it_cannot_learn_without(tmp_path, monkeypatch):
    sizes = ["--updates", "40", "--steps", "64", "--environments", "8"]
    returns = {}
    for layer in ("gru", "none"):
        curve = tmp_path / f"{layer}.csv"
        options = ["--layer", layer, "--curve", str(curve), *sizes]
        monkeypatch.setattr(sys, "argv", ["recurrent_ppo.py", *options])
        runpy.run_path(str(EXAMPLES / "recurrent_ppo.py"), run_name="__main__")
        returns[layer] = float(curve.read_text().split(",")[-1])
    assert returns["none"] < 60 < 70 < returns["gru"]
