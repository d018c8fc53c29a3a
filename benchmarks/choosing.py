"""Trains layers of one size on problems of different kinds: the evidence of docs/choosing.md."""

import argparse
import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import nn

from eigenrnn.experiments.tasks import Adding, CharPTB, Copying, Series, Task
from eigenrnn.experiments.tasks.base import model_for
from eigenrnn.experiments.training import Settings, fit
from eigenrnn.layers import ENRNN, LSTM, NCGRU, ExpRNN, NnRNN, ScoRNN, TanhRNN, TorchGRU
from eigenrnn.models import count_parameters

PARAMETERS = 12_000
SEEDS = (0, 1)
RATES = (3e-3, 1e-3)

LAYERS: dict[str, Callable[..., nn.Module]] = {
    "ScoRNN": ScoRNN,
    "ExpRNN": ExpRNN,
    "NnRNN": NnRNN,
    "ENRNN": ENRNN,
    "NCGRU": NCGRU,
    "torch.nn.GRU": TorchGRU,
    "torch.nn.LSTM": partial(LSTM, forget_bias=1.0),
    "torch.nn.RNN": TanhRNN,
}

# the figure that counts, and how many steps of optimisation
PROBLEMS: dict[str, tuple[Task, str, int]] = {
    "copying, 200 steps": (Copying(delay=200), "accuracy", 1_500),
    "adding, 200 steps": (Adding(200, train_examples=50_000, test_examples=1_000), "loss", 3_000),
    "vowels, 7 to 29 steps": (Series(dataset="JapaneseVowels"), "accuracy", 600),
    "characters, 100 steps": (CharPTB.nnrnn(100), "bits", 1_000),
}


def sized(task: Task, make: Callable[..., Any]) -> nn.Module:
    """Build the largest model that stays within the number of parameters."""
    fits, too_large = 4, 400
    while too_large - fits > 2:
        middle = (fits + too_large) // 4 * 2  # some sets want an even size
        counted = count_parameters(model_for(task, make, middle))
        fits, too_large = (middle, too_large) if counted <= PARAMETERS else (fits, middle)
    return model_for(task, make, fits)


def run(name: str, layer: str, lr: float, seed: int, folder: Path) -> dict[str, float]:
    """Train once, or read what has been trained.

    Raises:
        KeyboardInterrupt: If it was asked to stop; the same command goes on from there.
    """
    task, figure, steps = PROBLEMS[name]
    place = folder / f"{name}-{layer}-{lr:g}-{seed}".replace(" ", "-").replace(",", "")
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = sized(task, LAYERS[layer])
    settings = Settings(
        steps=steps,
        batch_size=20,
        optimiser="adam",
        lr=lr,
        lr_recurrent=lr / 10,
        clip_norm=1.0,
        log_every=100,
        eval_every=steps // 4,
        eval_batch_size=100,
        seed=seed,
        accelerator="cpu",
    )
    result = fit(model, task, settings, place, resume=True, console=Console(quiet=True))
    if result.interrupted:
        raise KeyboardInterrupt
    found = {split: figures[figure] for split, figures in result.best.items()}
    return {**found, "seconds": result.seconds, "parameters": count_parameters(model)}


def main() -> None:
    """Train all of them, and print a line for each layer on each problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where runs go; those that are there are kept")
    parser.add_argument("--json", type=Path, help="a file to write all numbers to")
    options = parser.parse_args()
    numbers: dict[str, Any] = {}
    for name, (task, figure, _) in PROBLEMS.items():
        better = max if task.higher_is_better and figure == task.metric_name else min
        for layer in LAYERS:
            by_rate = {
                lr: [run(name, layer, lr, seed, options.folder) for seed in SEEDS[:1]]
                for lr in RATES
            }
            deciding = "validation" if "validation" in by_rate[RATES[0]][0] else "test"
            best = better(by_rate, key=lambda lr: by_rate[lr][0][deciding])
            runs = by_rate[best] + [run(name, layer, best, s, options.folder) for s in SEEDS[1:]]
            values = [each["test"] for each in runs]
            numbers[f"{name}: {layer}"] = {"figure": figure, "lr": best, "runs": runs}
            print(
                f"{name:24}{layer:16}{figure:10}{statistics.fmean(values):8.4f}"
                f"  {min(values):.4f} .. {max(values):.4f}  lr {best:g}",
                flush=True,
            )
            if options.json is not None:
                options.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
