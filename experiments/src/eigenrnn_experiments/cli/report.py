"""The command `report`, which writes runs as one HTML page."""

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text
from torch import Tensor, nn

from eigenrnn.analysis import layer_inputs
from eigenrnn_experiments.cli.predict import check_output
from eigenrnn_experiments.console import plain_console, say
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.loading import TrainedModel, load
from eigenrnn_experiments.report import read_records, write_report

__all__ = ["report"]


def report(
    runs: Sequence[str],
    *,
    out: str = "report.html",
    title: str | None = None,
    data_root: str | None = None,
) -> int:
    """Write an HTML report of runs in one file that opens offline.

    It has tables, learning curves, eigenvalues over training, Schur forms, gradients and memory.
    Needs: pip install 'eigenrnn-experiments[report]'.

    Args:
        runs: Folders of runs or recipes.
        out: Output file, replaced if it exists.
        title: Title of the page.
        data_root: Folder with the data files.
    """
    check_output(out, "-")
    not_analysed: list[str] = []
    with plain_console(stderr=True).status("reading runs") as status:

        def rebuild(folder: Path) -> tuple[nn.Module, Tensor | None]:
            status.update(Text(f"analysing {folder}"))
            try:
                trained = load(folder, data_root)
                return trained.model, _inputs(trained)
            except ValueError as error:
                not_analysed.append(str(error))
                raise

        records = read_records(runs)
        written = write_report(records, out, rebuild=rebuild, title=title)
    for reason in records.unreadable.values():
        say(f"not shown: {reason}")
    for reason in not_analysed:
        say(f"not analysed: {reason}")
    say(f"in {written}")
    return 0


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
