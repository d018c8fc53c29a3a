"""Trains layers of equal size on four problems: the measurements in docs/choosing.md."""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Generator, nn

from benchmarks.ts import read_archive
from eigenrnn.estimators import SequenceClassifier
from eigenrnn.layers import (
    ENRNN,
    LRU,
    NCGRU,
    DeltaNet,
    DeltaProduct,
    ExpRNN,
    GatedDeltaNet,
    MinGRU,
    NnRNN,
    ScoRNN,
)
from eigenrnn.models import ResidualStack, SequenceModel, count_parameters
from eigenrnn_experiments.baselines import TanhRNN, TorchGRU, TorchLSTM
from eigenrnn_experiments.tasks import Adding, CharPTB, Copying, Task
from eigenrnn_experiments.tasks.base import model_for
from eigenrnn_experiments.training import Settings, fit

PARAMETERS = 12_000
RATES = (3e-3, 1e-3)


def stack(
    input_size: int,
    hidden_size: int,
    *,
    layer: Callable[..., nn.Module] = ScoRNN,
    generator: Generator | None = None,
) -> nn.Module:
    """Return two residual blocks around a layer, as wide as their layers."""
    make_layer = partial(layer, hidden_size=hidden_size, generator=generator)
    return ResidualStack(make_layer, hidden_size, 2, input_size=input_size, generator=generator)


# a state keeps what it read hundreds of steps ago
SLOW_LRU = partial(LRU, r_min=0.99, r_max=0.999)

LAYERS: dict[str, Callable[..., nn.Module]] = {
    "ScoRNN": ScoRNN,
    "ExpRNN": ExpRNN,
    "NnRNN": NnRNN,
    "ENRNN": ENRNN,
    "NCGRU": NCGRU,
    "torch.nn.GRU": TorchGRU,
    "torch.nn.LSTM": partial(TorchLSTM, forget_bias=1.0),
    "torch.nn.RNN": TanhRNN,
    "LRU": LRU,
    "LRU, slow": SLOW_LRU,
    "MinGRU": MinGRU,
    "DeltaNet": partial(DeltaNet, heads=2),
    "GatedDeltaNet": partial(GatedDeltaNet, heads=2),
    "DeltaProduct": partial(DeltaProduct, heads=2),
    "stack of ScoRNN": stack,
    "stack of LRU": partial(stack, layer=LRU),
    "stack of LRU, slow": partial(stack, layer=SLOW_LRU),
}


@dataclass(frozen=True)
class Problem:
    """A task, and how the layers are trained on it.

    Args:
        task: The task; None for the Japanese vowels, which `SequenceClassifier` trains on.
        metric: The metric to compare.
        steps: The number of optimiser steps.
        seeds: The seeds. The runs of the first one select the learning rate.
    """

    task: Task | None
    metric: str
    steps: int
    seeds: tuple[int, ...] = (0, 1)


PROBLEMS = {
    "copying, 200 steps": Problem(Copying(delay=200), "accuracy", 1_500),
    # two seeds can differ by a factor of thirty
    "adding, 200 steps": Problem(
        Adding(200, train_examples=50_000, test_examples=1_000), "loss", 3_000, (0, 1, 2, 3, 4)
    ),
    "vowels, 7 to 29 steps": Problem(None, "accuracy", 600),
    "characters, 100 steps": Problem(CharPTB.nnrnn(100), "bits", 1_000),
}


def largest(make: Callable[[int], nn.Module]) -> int:
    """Return the largest size of a model with at most `PARAMETERS` parameters."""
    fits, too_large = 4, 4_000
    while too_large - fits > 2:
        middle = (fits + too_large) // 4 * 2  # some sets need an even size
        if count_parameters(make(middle)) <= PARAMETERS:
            fits = middle
        else:
            too_large = middle
    return fits


def largest_model(task: Task, factory: Callable[..., Any]) -> nn.Module:
    """Build the largest model with at most `PARAMETERS` parameters."""
    return model_for(task, factory, largest(partial(model_for, task, factory)))


def run(name: str, layer: str, lr: float, seed: int, folder: Path) -> dict[str, float]:
    """Train one network and return its metric, or read the result of an earlier run.

    Raises:
        KeyboardInterrupt: If training was interrupted; the same command resumes it.
    """
    problem = PROBLEMS[name]
    if problem.task is None:
        return run_vowels(layer, lr, seed, problem.steps)
    directory = folder / f"{name}-{layer}-{lr:g}-{seed}".replace(" ", "-").replace(",", "")
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        model = largest_model(problem.task, LAYERS[layer])
    settings = Settings(
        steps=problem.steps,
        batch_size=20,
        optimiser="adam",
        lr=lr,
        lr_recurrent=lr / 10,
        clip_norm=1.0,
        log_every=100,
        eval_every=problem.steps // 4,
        eval_batch_size=100,
        seed=seed,
        accelerator="cpu",
    )
    quiet = Console(quiet=True)
    result = fit(model, problem.task, settings, directory, resume=True, console=quiet)
    if result.interrupted:
        raise KeyboardInterrupt
    values = {split: metrics[problem.metric] for split, metrics in result.best.items()}
    return {**values, "seconds": result.seconds, "parameters": count_parameters(model)}


def run_vowels(layer: str, lr: float, seed: int, steps: int) -> dict[str, float]:
    """Train an estimator on the Japanese vowels, and return its accuracies."""
    X, y = read_archive("JapaneseVowels", "TRAIN")
    M, K = X[0].shape[1], len(set(y))
    size = largest(lambda units: SequenceModel(LAYERS[layer](M, units), K, "last"))
    epochs = round(steps * 20 / (0.8 * len(X)))
    start = time.process_time()
    fitted = SequenceClassifier(
        LAYERS[layer], size, epochs=epochs, batch_size=20, lr=lr, patience=None, random_state=seed
    ).fit(X, y)
    return {
        "validation": max(epoch["validation_score"] for epoch in fitted.history_),
        "test": fitted.score(*read_archive("JapaneseVowels", "TEST")),
        "seconds": time.process_time() - start,
        "parameters": count_parameters(fitted.model_),
    }


def step_times(rounds: int = 31) -> dict[str, list[float]]:
    """Return the quartiles of the processor time of an update on copying, in milliseconds.

    The layers take turns. With one thread, processor time hardly depends on other work.
    """
    task = Copying(delay=200)
    batch = next(task.batches("train", 20))
    models = {name: largest_model(task, factory) for name, factory in LAYERS.items()}
    optimisers = {name: torch.optim.Adam(model.parameters()) for name, model in models.items()}
    times: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(rounds):
        for name, model in models.items():
            start = time.process_time()
            optimisers[name].zero_grad()
            task.loss(model(batch.inputs), batch.targets).backward()
            optimisers[name].step()
            times[name].append(1e3 * (time.process_time() - start))
    return {name: statistics.quantiles(values[1:], n=4) for name, values in times.items()}


def main() -> None:
    """Train every layer on every problem, and print one line for each pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the runs; finished ones are reused")
    parser.add_argument("--json", type=Path, help="file for all numbers")
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=list(LAYERS))
    parser.add_argument("--problems", nargs="+", default=[""], help="only names that contain one")
    parser.add_argument("--times", action="store_true", help="only time an update of each layer")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.times:
        for name, (low, middle, high) in step_times().items():
            print(f"{name:24}{middle:8.2f} ms  {low:.2f} .. {high:.2f}")
        return
    numbers: dict[str, Any] = {}
    for name, problem in PROBLEMS.items():
        if not any(part in name for part in options.problems):
            continue
        metric = problem.metric
        better = max if metric == "accuracy" else min
        first_seed, *other_seeds = problem.seeds
        for layer in options.layers:
            firsts = {lr: run(name, layer, lr, first_seed, options.folder) for lr in RATES}
            selection_split = "validation" if "validation" in firsts[RATES[0]] else "test"
            best = better(firsts, key=lambda lr: firsts[lr][selection_split])
            others = [run(name, layer, best, seed, options.folder) for seed in other_seeds]
            runs = [firsts[best], *others]
            values = [result["test"] for result in runs]
            numbers[f"{name}: {layer}"] = {"figure": metric, "lr": best, "runs": runs}
            print(
                f"{name:24}{layer:20}{metric:10}{statistics.fmean(values):8.4f}"
                f"  {min(values):.4f} .. {max(values):.4f}  lr {best:g}",
                flush=True,
            )
            if options.json is not None:
                options.json.write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main()
