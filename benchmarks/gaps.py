"""Compares what an LRU is told of gaps in time: `dt`, nothing, or one more input channel.

Of each sequence a random part of the steps is dropped, in the training part and in the test part
alike; a seed always drops the same. A stack of two LRUs classifies what is left:

- ``dt``: the layers get the time since the step before.
- ``nothing``: the steps that are left look as if they followed each other.
- ``channel``: the time since the step before is one more input.

All else is equal: width, learning rate, number of epochs, seeds. The accuracy is that of the test
part after the last epoch; nothing is selected by it.

Run::

    python -m benchmarks.gaps [--seeds 3] [--out FILE]
"""

import argparse
import itertools
import json
import statistics
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from torch.nn.utils.rnn import pad_sequence

from benchmarks.classification import archive
from eigenrnn import LRU, ResidualStack, SequenceModel

__all__ = ["main"]

SETS = ("JapaneseVowels", "BasicMotions", "ItalyPowerDemand")
KEPT = (1.0, 0.5, 0.25)
WAYS = ("dt", "nothing", "channel")
UNITS, DEPTH, EPOCHS, BATCH, RATE = 64, 2, 30, 16, 3e-3


class Batch(NamedTuple):
    """Sequences that were sampled at irregular times, padded.

    Args:
        x: The inputs, (T, B, M).
        lengths: The numbers of steps, (B,).
        dt: The time since the step before, (T, B), one at first.
        y: The classes, (B,).
    """

    x: Tensor
    lengths: Tensor
    dt: Tensor
    y: Tensor

    def rows(self, chosen: Tensor) -> "Batch":
        """Return some of the sequences."""
        return Batch(self.x[:, chosen], self.lengths[chosen], self.dt[:, chosen], self.y[chosen])


def read(name: str, part: str, kept: float, seed: int) -> Batch:
    """Return a part of a set with a share of its steps, always the first among them."""
    series, names = archive(name, part)
    first, _ = archive(name, "train")
    mean = np.concatenate(first).mean(0)
    deviation = np.concatenate(first).std(0)
    generator = Generator().manual_seed(2 * seed + (part == "train"))
    x: list[Tensor] = []
    dt: list[Tensor] = []
    for values in series:
        keep = torch.rand(len(values), generator=generator) < kept
        keep[0] = True
        times = keep.nonzero().squeeze(1)
        x.append(torch.from_numpy((values - mean) / deviation).float()[keep])
        dt.append(times.diff(prepend=times.new_tensor([-1])).float())
    classes = {label: i for i, label in enumerate(sorted(set(names)))}
    lengths = torch.tensor([len(each) for each in x])
    y = torch.tensor([classes[label] for label in names])
    return Batch(pad_sequence(x), lengths, pad_sequence(dt), y)


def run(model: SequenceModel, batch: Batch, way: str) -> Tensor:  # (B, classes)
    """Return the logits of a batch."""
    if way == "dt":
        return model(batch.x, batch.lengths, dt=batch.dt)
    x = batch.x
    if way == "channel":
        x = torch.cat([x, batch.dt.unsqueeze(2)], dim=2)
    return model(x, batch.lengths)


def accuracy(train: Batch, test: Batch, way: str, seed: int) -> float:
    """Train a network, and return its accuracy on the test part in percent."""
    generator = Generator().manual_seed(seed)
    inputs = train.x.shape[2] + (way == "channel")
    stack = ResidualStack(
        lambda width: LRU(width, UNITS, r_max=0.99, generator=generator),
        UNITS,
        DEPTH,
        input_size=inputs,
        generator=generator,
    )
    classes = int(train.y.max()) + 1
    model = SequenceModel(stack, classes, "last", generator=generator)
    optimiser = torch.optim.Adam(model.parameters(), lr=RATE)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(train.y), generator=generator).split(BATCH):
            batch = train.rows(chosen)
            optimiser.zero_grad()
            F.cross_entropy(run(model, batch, way), batch.y).backward()
            optimiser.step()
    with torch.no_grad():
        hits = run(model.eval(), test, way).argmax(1) == test.y
    return 100 * float(hits.float().mean())


def main() -> None:
    """Measure all sets, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: list[dict[str, object]] = []
    print("| set | steps kept | " + " | ".join(WAYS) + " |")
    print("|---|---:|" + "---:|" * len(WAYS))
    for name, kept in itertools.product(SETS, KEPT):
        cells: list[str] = []
        for way in WAYS:
            values = [
                accuracy(
                    read(name, "train", kept, seed), read(name, "test", kept, seed), way, seed
                )
                for seed in range(options.seeds)
            ]
            found.append({"set": name, "kept": kept, "way": way, "accuracies": values})
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            cells.append(f"{statistics.mean(values):.1f} ± {spread:.1f}")
        print(f"| {name} | {kept:.0%} | " + " | ".join(cells) + " |", flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
