"""Times the parts of one training step of the copying problem: T=1020, B=20, N=190.

Run with ``python -m benchmarks.training_step``; ``--cpu`` measures processor time on one thread.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from benchmarks.sequences import interleave
from eigenrnn.layers import ScoRNN
from eigenrnn.models import SequenceModel
from eigenrnn.ops import elman
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.training import Callback, RMSpropTF1, Settings, fit

__all__ = ["main", "measure"]

B, N, NEGATIVE = 20, 190, 95


class StepClock(Callback):
    """Records the time after every step."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.times: list[float] = []

    def after_step(self, step: int, loss: torch.Tensor, model: nn.Module) -> None:  # noqa: ARG002, a callback's
        self.times.append(self.clock())


def whole_step_ms(steps: int, clock: Callable[[], float]) -> float:
    """Return the median duration of a whole step of `fit`."""
    step_clock = StepClock(clock)
    settings = Settings(
        steps=steps,
        batch_size=B,
        optimiser="rmsprop_tf1",
        lr=1e-3,
        lr_recurrent=1e-4,
        eval_every=steps,
    )
    with TemporaryDirectory() as folder:
        quiet = Console(quiet=True)
        fit(
            _model(),
            _task(),
            settings,
            Path(folder) / "run",
            callbacks=[step_clock],
            console=quiet,
        )
    times = step_clock.times
    durations = sorted(b - a for a, b in pairwise(times))
    return durations[len(durations) // 2] * 1e3


def measure(rounds: int, clock: Callable[[], float]) -> dict[str, float]:
    """Time each part separately, forward and backward, in turns; the head by difference."""
    model, task = _model(), _task()
    direction = model.layer.all_directions()[0]
    constraint, U = direction.constraint, direction.weight_ih
    W = constraint().detach().requires_grad_()
    batches = task.batches("train", B, 0)
    batch = next(batches)
    h0 = torch.zeros(B, N)
    states = torch.randn(task.length, B, N)
    outputs = torch.randn(task.length, B, task.output_size, requires_grad=True)
    optimisers = [
        RMSpropTF1(constraint.recurrent_parameters(), lr=1e-4),
        RMSpropTF1([*model.head.parameters(), U, direction.bias], lr=1e-3),
    ]
    task.loss(model(batch.inputs), batch.targets).backward()

    def recurrence(
        gradient: torch.Tensor, V: torch.Tensor | None = None, d: torch.Tensor | None = None
    ) -> None:
        x, bias = batch.inputs, direction.bias
        y, _ = elman(x, W, h0, bias, U=U, V=V, d=d, nonlinearity="modrelu")
        y.backward(gradient)

    def loss() -> None:
        torch.autograd.grad(task.loss(outputs, batch.targets), outputs)

    alone, head = "recurrence and map of the inputs", "head, fused into the recurrence"
    parts: dict[str, Callable[[], Any]] = {
        alone: lambda: recurrence(states),
        head: lambda: recurrence(outputs.detach(), model.head.weight, model.head.bias),
        "loss": loss,
        "constraint": lambda: constraint().backward(W.detach()),
        "optimisers": lambda: [optimiser.step() for optimiser in optimisers],
        "drawing a batch": partial(next, batches),
    }
    timings = interleave(parts, alone, rounds, clock)
    medians = {name: timing.median_ms for name, timing in timings.items()}
    return medians | {head: medians[head] - medians[alone]}


def _task() -> Copying:
    return Copying.scornn(1000)


def _model() -> SequenceModel:
    task = _task()
    layer = ScoRNN(task.input_size, N, negative=NEGATIVE, bias=True)
    return SequenceModel(layer, task.output_size, task.readout)


def main() -> None:
    """Print the time of each part and its share of a whole step of `fit`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--cpu", action="store_true", help="measure processor time on one thread")
    options = parser.parse_args()
    if options.cpu:
        torch.set_num_threads(1)
    clock = time.process_time if options.cpu else time.perf_counter
    parts = measure(options.rounds, clock)
    whole = whole_step_ms(options.rounds, clock)
    parts["everything else (Fabric, checks, metrics, progress)"] = whole - sum(parts.values())
    table = Table(title=f"one training step, {whole:.1f} ms", title_justify="left")
    for head in ("part", "ms", "share"):
        table.add_column(head, justify="left" if head == "part" else "right")
    for name, ms in parts.items():
        table.add_row(name, f"{ms:.2f}", f"{ms / whole:.1%}")
    Console().print(table)


if __name__ == "__main__":
    main()
