"""The command `eigenrnn report`, which writes an HTML report of runs."""

from collections.abc import Callable
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console
from rich.text import Text
from torch import Tensor

from eigenrnn.analysis.forward_pass import layer_inputs
from eigenrnn.errors import MissingDataError
from eigenrnn.experiments.cli.rebuild import RebuiltRun, rebuild
from eigenrnn.experiments.report import TrainedNetwork, collect, write_report
from eigenrnn.experiments.training.progress import plain_console

__all__ = ["report"]


def report(options: Namespace, console: Console) -> int:
    """Write the report; return the exit status."""
    with plain_console(stderr=True).status("reading runs") as status:
        rebuild_run = _rebuilder(options.data_root, lambda text: status.update(Text(text)))
        records = collect(options.runs)
        out = write_report(records, options.out, rebuild=rebuild_run, title=options.title)
    for reason in records.unreadable.values():
        console.print(f"not shown: {reason}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"in {out}", soft_wrap=True, highlight=False, markup=False)
    return 0


def _rebuilder(
    data_root: str | None, say: Callable[[str], None]
) -> Callable[[Path], TrainedNetwork]:
    def rebuild_run(folder: Path) -> TrainedNetwork:
        say(f"analysing {folder}")
        rebuilt = rebuild(folder, data_root)
        return TrainedNetwork(rebuilt.model, _inputs(rebuilt))

    return rebuild_run


def _inputs(rebuilt: RebuiltRun) -> Tensor | None:  # (T, 1, M)
    """Return the inputs of the first recurrent layer for one sequence; None without data."""
    try:
        batch = rebuilt.batch(1)
    except MissingDataError:
        return None
    first = next(iter(layer_inputs(rebuilt.model, batch.inputs).values()))
    return first if isinstance(first, Tensor) else None
