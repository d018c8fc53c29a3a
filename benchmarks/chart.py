"""Draws the pictures of docs/pictures from measured times, accuracies and learning curves.

``PYTHONPATH=docs/_ext python -m benchmarks.chart`` reads ``benchmarks/measured/``, which these
commands write, and draws the bars of the README and of docs/speed.md, the networks in whole
numbers of docs/c.md, and the curves of docs/reinforcement_learning.md::

    python -m benchmarks.sequences --all --json benchmarks/measured/sequences.json
    python -m benchmarks.streaming --cpu --json benchmarks/measured/steps.json
    python -m benchmarks.integer_weights FOLDER --json benchmarks/measured/integer_weights.json
    python examples/recurrent_ppo.py --layer gru --seed 0 --curve FILE

FILE is ``benchmarks/measured/recurrent_ppo/gru-0.csv``; and so for the layers ``torch`` and
``none``, and the seeds 1 and 2.
"""

import csv
import json
from pathlib import Path
from statistics import median

from matplotlib.figure import Figure

__all__ = ["draw", "draw_curves", "draw_integers", "streamed_step_us", "training_step_ms"]

MEASURED = Path(__file__).parent / "measured"
SEQUENCES = {
    "RNN(modReLU), compiled": "eigenrnn RNN",
    "torch.nn.RNN(tanh)": "torch.nn.RNN",
    "JAX, jit of a lax.scan (tanh)": "JAX, tanh RNN",
    "GRU, compiled": "eigenrnn GRU",
    "torch.nn.GRU": "torch.nn.GRU",
    "LSTM, compiled": "eigenrnn LSTM",
    "torch.nn.LSTM": "torch.nn.LSTM",
}
"""The names of the bars, by those of the measurement."""

STEPS = {
    "Stream, RNN": "eigenrnn RNN",
    "onnxruntime, RNN": "onnxruntime RNN",
    "torch.nn.RNN": "torch.nn.RNN",
    "Stream, GRU": "eigenrnn GRU",
    "torch.nn.GRU": "torch.nn.GRU",
    "Stream, LSTM": "eigenrnn LSTM",
    "torch.nn.LSTM": "torch.nn.LSTM",
}

POLICIES = {
    "gru": ("eigenrnn GRU", "#2a83c4"),
    "torch": ("torch.nn.GRU", "#d55e00"),
    "none": ("no memory", "#009e73"),
}
"""The name and the colour of each curve, by the layer of the policy."""

NETWORKS = {
    "spoken digits, GRU 48": "#009e73",
    "vowels, GRU 48": "#cc79a7",
    "pixels, ScoRNN 170": "#2a83c4",
    "pixels, GRU 64": "#d55e00",
    "pixels, LRU 64, two layers": "#e69f00",
}
"""The colour of each network, by its name."""

KINDS = {"int8": "o", "int16": "s", "float": "^"}
"""The mark of each kind of numbers."""

_OURS = "#2a83c4"
_OTHERS = "#b0b0b0"


def training_step_ms() -> dict[str, float]:
    """Return the times of the forward and backward pass at T = 784, B = 128, N = 170."""
    timings = json.loads((MEASURED / "sequences.json").read_text())["timings"]["784,128,170"]
    return {name: median(timings[key]["times_ms"]) for key, name in SEQUENCES.items()}


def streamed_step_us() -> dict[str, float]:
    """Return the times of one step of one sequence at N = 170."""
    medians = json.loads((MEASURED / "steps.json").read_text())["170"]
    return {name: medians[key] for key, name in STEPS.items()}


def draw() -> Figure:
    """Draw both comparisons, ours in colour."""
    figure = Figure(figsize=(8, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, times, title, digits in (
        (left, training_step_ms(), "a training step (ms)", "%.0f"),
        (right, streamed_step_us(), "one streamed step (microseconds)", "%.1f"),
    ):
        names = list(times)
        colours = [_OURS if name.startswith("eigenrnn") else _OTHERS for name in names]
        bars = axes.barh(names, list(times.values()), color=colours)
        axes.bar_label(bars, fmt=digits, padding=3)
        axes.invert_yaxis()  # the first one on top
        axes.set_title(title)
        axes.set_xticks([])
        axes.margins(x=0.15)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    return figure


def draw_integers() -> Figure:
    """Draw the accuracy of networks in C against their flash: a mark for each seed."""
    measured = json.loads((MEASURED / "integer_weights.json").read_text())
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, colour in NETWORKS.items():
        seeds = measured[name]
        flash = [seeds[0][kind]["flash"] / 1024 for kind in KINDS]
        middle: list[float] = []
        for kilobytes, (kind, mark) in zip(flash, KINDS.items(), strict=True):
            accuracies = [100 * seed[kind]["accuracy"] for seed in seeds]
            axes.plot([kilobytes] * len(seeds), accuracies, mark, color=colour)
            middle.append(median(accuracies))
        axes.plot(flash, middle, color=colour, label=name)
    for kind, mark in KINDS.items():
        axes.plot([], [], mark, color="0.4", label=kind)
    axes.set(xlabel="flash (KiB)", ylabel="test accuracy (%)", xscale="log")
    axes.set_xticks([8, 16, 32, 64, 128], ["8", "16", "32", "64", "128"])
    axes.minorticks_off()
    figure.legend(frameon=False, loc="outside right center")
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_curves() -> Figure:
    """Draw the returns of the policies of examples/recurrent_ppo.py, one line for each seed."""
    figure = Figure(figsize=(8, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for layer, (name, colour) in POLICIES.items():
        for path in sorted((MEASURED / "recurrent_ppo").glob(f"{layer}-*.csv")):
            with path.open(newline="") as file:
                rows = list(csv.DictReader(file))
            returns = [float(row["mean_return"]) for row in rows]
            left.plot([float(row["seconds"]) for row in rows], returns, color=colour)
            right.plot([int(row["steps"]) / 1e6 for row in rows], returns, color=colour)
        left.plot([], [], color=colour, label=name)
    left.set(xlabel="seconds of one core", ylabel="mean return of 100 episodes")
    right.set(xlabel="millions of steps in the environments")
    left.legend(frameon=False, labelcolor="linecolor")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    from two_themes import save_both  # of docs/_ext

    PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
    save_both(draw(), PICTURES, "speed")
    save_both(draw_integers(), PICTURES, "integers")
    save_both(draw_curves(), PICTURES, "recurrent-ppo")
