"""Trains an orthogonal network, an LSTM and a plain RNN on the copying problem.

The input is ten symbols, then blanks for many time steps; then the network must repeat the
symbols. The chance-level baseline is the loss of the best prediction without memory. All three
networks have about the same number of parameters, the same data and the same optimiser.
"""

import argparse
import csv
from pathlib import Path

import torch
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from eigenrnn import ScoRNN, SequenceModel
from eigenrnn.models import count_parameters
from eigenrnn_experiments.baselines import TanhRNN, TorchLSTM
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.training import Run, Settings, fit

NETWORKS = {"scoRNN": (ScoRNN, 128), "LSTM": (TorchLSTM, 45), "tanh RNN": (TanhRNN, 93)}
COLOURS = {"scoRNN": "#2a83c4", "LSTM": "#d55e00", "tanh RNN": "#009e73"}
GREY = "#7a7a7a"  # of equal contrast on white and on black


def main() -> None:
    """Train the three networks, print a table and draw the learning curves."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--delay", type=int, default=300, help="time steps until recall")
    parser.add_argument("--steps", type=int, default=1000, help="optimiser steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"))
    parser.add_argument("--picture", type=Path, help="default: OUT/learning_curves.svg")
    options = parser.parse_args()
    console = Console()
    task = Copying(delay=options.delay, test_examples=200)
    settings = Settings(
        steps=options.steps,
        lr=1e-3,
        alpha=0.9,
        eval_every=100,
        eval_batch_size=100,
        seed=options.seed,
    )
    console.print(
        f"Copying [bold]{task.symbols}[/] symbols over [bold]{task.delay}[/] steps; "
        f"{torch.get_num_threads()} threads; runs in {options.out}"
    )
    results: dict[str, Run] = {}
    parameters: dict[str, int] = {}
    for name, (layer, size) in NETWORKS.items():
        generator = torch.Generator().manual_seed(options.seed)
        recurrent = layer(task.input_size, size, generator=generator)
        model = SequenceModel(recurrent, task.output_size, generator=generator)
        folder = options.out / folder_name(name)
        results[name] = fit(
            model, task, settings, folder, overwrite=True, console=console, name=name
        )
        parameters[name] = count_parameters(model)
        if results[name].interrupted:
            return
    console.print(results_table(task, results, parameters))
    picture = options.picture or options.out / "learning_curves.svg"
    # text stays text, and equal runs give equal files
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "eigenrnn"}):
        learning_curves(task, options.out).savefig(
            picture, transparent=True, metadata={"Date": None}
        )
    console.print(f"learning curves: {picture.resolve()}", soft_wrap=True)


def folder_name(network: str) -> str:
    """Return the name of the folder of a network."""
    return network.replace(" ", "-").lower()


def results_table(task: Copying, results: dict[str, Run], parameters: dict[str, int]) -> Table:
    """Return a table of the results of each network."""
    table = Table(title="Loss on 200 test sequences (nats per step)", title_justify="left")
    table.add_column("model")
    for heading in (
        "parameters",
        "final loss",
        "memoryless baseline",
        "loss / baseline",
        "seconds",
    ):
        table.add_column(heading, justify="right")
    baseline = task.baseline()
    for name, result in results.items():
        loss = result.last["test"]["loss"]
        table.add_row(
            name,
            f"{parameters[name]:,}",
            f"{loss:.5f}",
            f"{baseline:.5f}",
            f"{loss / baseline:.3f}",
            f"{result.seconds:.0f}",
        )
    return table


def learning_curves(task: Copying, out: Path) -> Figure:
    """Draw the training losses over the optimiser steps, and the baseline.

    The colours are legible on light and on dark pages, and the background is transparent.
    """
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes: Axes = figure.subplots()
    for name in NETWORKS:
        with (out / folder_name(name) / "metrics.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        steps = [int(row["step"]) for row in rows]
        losses = [float(row["train_loss"]) for row in rows]
        axes.plot(steps, losses, color=COLOURS[name], label=name)
    axes.axhline(task.baseline(), color=GREY, linestyle="--", linewidth=1)
    axes.annotate(
        "best loss without memory",
        (0.3, task.baseline()),
        xycoords=("axes fraction", "data"),
        xytext=(0, -5),
        textcoords="offset points",
        va="top",
        color=GREY,
    )
    axes.set_title(f"Copying {task.symbols} symbols over {task.delay} steps", color=GREY)
    axes.set(yscale="log")
    axes.set_xlabel("optimiser step", color=GREY)
    axes.set_ylabel("training loss (nats per step)", color=GREY)
    axes.tick_params(which="both", color=GREY, labelcolor=GREY)
    axes.legend(loc="upper right", ncols=len(NETWORKS), frameon=False, labelcolor="linecolor")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[:].set_color(GREY)
    return figure


if __name__ == "__main__":
    main()
