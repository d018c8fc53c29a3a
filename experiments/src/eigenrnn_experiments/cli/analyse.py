"""The command `analyse`, which looks at the trained network of a run."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from eigenrnn.analysis import AnalysisResults
from eigenrnn.analysis import analyse as analyse_model
from eigenrnn_experiments.console import plain_console, say, show_markdown
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.files import write_json
from eigenrnn_experiments.loading import TrainedModel, load
from eigenrnn_experiments.tasks import Batch

__all__ = ["analyse"]

_SEQUENCES = 4
_HEADER = (("analysis", "quantity", "number"), ("---", "---", "---:"))


def analyse(run: str, *, out: str | None = None, data_root: str | None = None) -> int:
    """Analyse the trained network of a run: spectra, memory, gradients, dynamics.

    Prints the numbers; writes a figure and a table for each analysis.

    Args:
        run: Folder of a run, or one of its checkpoints.
        out: Output folder; without it analysis, in the folder of the run.
        data_root: Folder with the data files.
    """
    trained = load(run, data_root)
    folder = Path(out or trained.checkpoint.parent / "analysis")
    reasons: list[str] = []
    batch: Batch | None = None
    try:
        batch = trained.batch(_SEQUENCES)
    except MissingDataError as error:
        reasons.append(f"without data: {error}; name the data folder with --data_root")
    with plain_console(stderr=True).status("analysing") as status:

        def progress(name: str) -> None:
            status.update(f"analysing {name}")

        everything = _everything(trained, batch, progress)
        status.update("drawing figures")
        without_figure = everything.save(folder)
        everything = replace(everything, skipped={**everything.skipped, **without_figure})
    write_json(folder / "summary.json", _summary(trained, everything))
    say(f"{trained.name} after {trained.step:,} steps ({trained.checkpoint})")
    lines = [f"| {' | '.join(row)} |\n" for row in (*_HEADER, *_rows(everything))]
    show_markdown("".join(lines), plain_console())
    reasons += [f"skipped {name}: {reason}" for name, reason in everything.skipped.items()]
    for line in reasons:
        say(line)
    say(f"in {folder}")
    return 0


def _everything(
    trained: TrainedModel, batch: Batch | None, progress: Callable[[str], None]
) -> AnalysisResults:
    if batch is None:
        return analyse_model(trained.model, progress=progress)

    def loss(outputs: Tensor) -> Tensor:
        targets = batch.targets
        if targets.is_floating_point():
            targets = targets.to(outputs.dtype)
        return trained.task.loss(outputs, targets)

    return analyse_model(trained.model, batch.inputs, loss, progress=progress)


def _summary(trained: TrainedModel, everything: AnalysisResults) -> dict[str, Any]:
    numbers: dict[str, dict[str, float | str]] = {}
    for name, found in everything.results.items():
        numbers[name] = {}
        for quantity, number in found.headline().items():
            numbers[name][quantity] = number
            if not math.isfinite(number):  # which JSON cannot hold
                numbers[name][quantity] = str(number)
    return {
        "name": trained.name,
        "step": trained.step,
        "checkpoint": trained.checkpoint.name,
        "found": numbers,
        "left_out": everything.skipped,
    }


def _rows(everything: AnalysisResults) -> Iterator[tuple[str, str, str]]:
    for name, found in everything.results.items():
        for quantity, number in found.headline().items():
            yield name, quantity, f"{number:.6g}"
