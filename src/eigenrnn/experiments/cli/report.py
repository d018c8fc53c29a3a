"""What `eigenrnn report` does: puts runs on a page."""

from collections.abc import Callable
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console
from rich.text import Text
from torch import Tensor

from eigenrnn.analysis.layer_inputs import layer_inputs
from eigenrnn.errors import MissingDataError
from eigenrnn.experiments.cli.rebuild import Rebuilt, rebuild
from eigenrnn.experiments.report import Trained, collect, write_report
from eigenrnn.experiments.training.progress import plain_console

__all__ = ["report"]


def report(options: Namespace, console: Console) -> int:
    """Write the page."""
    with plain_console(stderr=True).status("reading runs") as status:
        again = _rebuilder(options.data_root, lambda said: status.update(Text(said)))
        records = collect(options.runs)
        out = write_report(records, options.out, rebuild=again, title=options.title)
    for why in records.unreadable.values():
        console.print(f"not shown: {why}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"in {out}", soft_wrap=True, highlight=False, markup=False)
    return 0


def _rebuilder(data_root: str | None, say: Callable[[str], None]) -> Callable[[Path], Trained]:
    def again(folder: Path) -> Trained:
        say(f"looking into {folder}")
        rebuilt = rebuild(folder, data_root)
        return Trained(rebuilt.model, _inputs(rebuilt))

    return again


def _inputs(rebuilt: Rebuilt) -> Tensor | None:  # (T, 1, M)
    """Return what the first recurrent layer reads of a sequence, if the data is here."""
    try:
        batch = rebuilt.batch(1)
    except MissingDataError:
        return None
    first = next(iter(layer_inputs(rebuilt.model, batch.inputs).values()))
    return first if isinstance(first, Tensor) else None
