"""Sounds resynthesised from predicted spectra, and their scores."""

import csv
import io
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

import torch
from torch import Tensor, nn

from eigenrnn_experiments.data.audio import resynthesis, wave_bytes
from eigenrnn_experiments.files import write_atomically
from eigenrnn_experiments.tasks.speech import SCORES, Speech

__all__ = ["resynthesise"]


def resynthesise(
    model: nn.Module,
    task: Speech,
    split: str,
    folder: str | Path,
    *,
    scores: Sequence[str] = ("segsnr", "stoi", "pesq"),
    limit: int | None = None,
    batch_size: int = 32,
) -> dict[str, float]:
    """Write the sound of each prediction beside the true recording, and score it.

    The power spectrum is the predicted one; the phases and the first frame are those of the
    recording. The folder receives `NAME.wav`, `NAME.true.wav` and, last, `scores.csv`.

    Args:
        model: Called as `model(inputs, lengths)`.
        task: The task of the model.
        split: The split whose recordings are used.
        folder: The output folder; created if it does not exist.
        scores: The scores to compute, from `segsnr`, `stoi` and `pesq`.
        limit: The number of recordings, from the first one; None means all.
        batch_size: The number of recordings per batch.

    Returns:
        The mean of each score over the recordings for which it is defined.

    Raises:
        ImportError: If a score needs a package that is not installed.

    Source:
        Wisdom et al., NeurIPS 2016, section 5.3. https://arxiv.org/abs/1611.00035 (departures:
        see `eigenrnn_experiments.tasks.speech`).
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[tuple[str, list[float]]] = []
    recordings = task.recordings(split)
    predictions = chain.from_iterable(_predict(model, task, split, batch_size))
    for (name, samples), predicted in islice(zip(recordings, predictions, strict=True), limit):
        sound = resynthesis(predicted, samples)
        numbers = [SCORES[score](sound, samples) for score in scores]
        rows.append((name, numbers))
        write_atomically(folder / f"{name}.wav", wave_bytes(sound))
        write_atomically(folder / f"{name}.true.wav", wave_bytes(samples))
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["recording", *scores])
    writer.writerows([name, *numbers] for name, numbers in rows)
    write_atomically(folder / "scores.csv", table.getvalue().encode())
    means = torch.tensor([numbers for _, numbers in rows], dtype=torch.float64).nanmean(0)
    return dict(zip(scores, means.tolist(), strict=True))


def _predict(model: nn.Module, task: Speech, split: str, size: int) -> Iterator[list[Tensor]]:
    """Yield the predictions for the recordings of each batch, without padding."""
    weight = next(model.parameters())
    for batch in task.batches(split, size):
        lengths = torch.as_tensor(batch.lengths)
        training = model.training
        model.eval()
        with torch.no_grad():
            outputs = model(batch.inputs.to(weight), lengths.to(weight.device))
        model.train(training)
        outputs = outputs.float().cpu()
        yield [outputs[:length, row] for row, length in enumerate(lengths.tolist())]
