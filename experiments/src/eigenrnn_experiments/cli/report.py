"""The command `report`, which writes runs as one HTML page."""

from collections.abc import Callable
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console
from rich.text import Text
from torch import Tensor, nn

from eigenrnn.analysis import layer_inputs
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.loading import TrainedModel, load
from eigenrnn_experiments.report import RebuildModel, read_records, write_report
from eigenrnn_experiments.training.progress import plain_console

__all__ = ["report"]


def report(options: Namespace, console: Console) -> int:
    """Write the report; return the exit status."""
    with plain_console(stderr=True).status("reading runs") as status:
        not_analysed: list[str] = []
        rebuild_run = _rebuilder(
            options.data_root, lambda text: status.update(Text(text)), not_analysed
        )
        records = read_records(options.runs)
        out = write_report(records, options.out, rebuild=rebuild_run, title=options.title)
    for reason in records.unreadable.values():
        console.print(f"not shown: {reason}", soft_wrap=True, highlight=False, markup=False)
    for reason in not_analysed:
        console.print(f"not analysed: {reason}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"in {out}", soft_wrap=True, highlight=False, markup=False)
    return 0


def _rebuilder(
    data_root: str | None, say: Callable[[str], None], not_analysed: list[str]
) -> RebuildModel:
    """Return the function that rebuilds the network of a run.

    Args:
        data_root: The folder with the data files.
        say: Shows a line of progress.
        not_analysed: Filled with the reason for each run that cannot be rebuilt.
    """

    def rebuild_run(folder: Path) -> tuple[nn.Module, Tensor | None]:
        say(f"analysing {folder}")
        try:
            trained = load(folder, data_root)
            return trained.model, _inputs(trained)
        except ValueError as error:
            not_analysed.append(str(error))
            raise

    return rebuild_run


def _inputs(trained: TrainedModel) -> Tensor | None:  # (T, 1, M)
    """Return the inputs of the first recurrent layer for one sequence; None without data."""
    try:
        batch = trained.batch(1)
    except MissingDataError:
        return None
    first = next(iter(layer_inputs(trained.model, batch.inputs).values()))
    if not isinstance(first, Tensor):  # a packed sequence
        return None
    return first
