"""All runs as one table, with a line for each run."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd

from eigenrnn_experiments.training.run import Run, RunFolder

__all__ = ["read_below", "runs", "table_of"]

_LEFT_OUT = ("network", "modules", "preprocessing", "first_below", "curves", "signal")
_ALWAYS = (
    *("recipe", "row", "point", "seed", "quick", "name", "layer", "parameters", "best_by"),
    *("state", "message", "steps", "seconds", "processor_seconds", "best_step", "baseline"),
    *("deciding", "versions_processor", "versions_torch", "revision_commit"),
)
"""The columns of every table; others depend on its runs."""


def runs(folders: Sequence[str | Path]) -> pd.DataFrame:
    """Return a table of all runs below some folders, with a line for each run.

    Its columns are the parts of the key (`recipe`, `row`, `point`, `seed`, ...) and of `run.json`,
    joined by underscores: `settings_lr`, `task_options_delay`, `best_test_loss`. The column
    `folder` has the path of the run. A run whose file is damaged has the state `unreadable`, with
    the reason in `message`.

    Args:
        folders: Folders of runs, or folders that contain them; each run is read once. Links to
            folders below them are not followed.
    Raises:
        ValueError: If no folder is named, or one is no folder or holds no run.
    Example:
        >>> table = runs(["runs"])  # doctest: +SKIP
        >>> table.groupby("row")["best_test_loss"].mean()  # doctest: +SKIP
    """
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise ValueError(f"expected a folder that holds runs, got {folder}")
        if next(folder.rglob("run.json"), None) is None:
            raise ValueError(f"expected runs in {folder} or its subfolders, got no run.json")
    table = read_below(folders)
    if table.empty:
        raise ValueError("expected the folder of a run, got none")
    return table


def read_below(folders: Iterable[str | Path]) -> pd.DataFrame:
    """Return the table of the runs below some folders, which may have none, see `runs`."""
    found: dict[Path, Path] = {}
    for folder in map(Path, folders):
        for file in sorted(folder.rglob("run.json")):
            found.setdefault(file.parent.resolve(), file.parent)
    records: list[Run] = []
    unreadable: dict[int, str] = {}
    for number, path in enumerate(found.values()):
        try:
            records.append(RunFolder(path).run)
        except ValueError as error:
            unreadable[number] = str(error)
            records.append(Run())
    table = table_of(records, list(found.values()))
    for number, message in unreadable.items():
        table.loc[number, ["state", "message"]] = ["unreadable", message]
    return table


def table_of(records: Iterable[Run], folders: Sequence[Path] | None = None) -> pd.DataFrame:
    """Return the table of some runs, see `runs`.

    Args:
        records: The runs.
        folders: The folder of each; None if they are from an archive.
    """
    rows: list[dict[str, Any]] = []
    records = list(records)
    objects: dict[str, list[Any]] = {  # which stay whole
        "best_step": [run.best_step for run in records],
        "reduced": [run.key.reduced for run in records],
        "varied": [run.key.varied for run in records],
        "numbers": [run.numbers or {} for run in records],
    }
    if folders is not None:
        objects["folder"] = list(folders)
    for run in records:
        content = msgspec.to_builtins(run)
        key = content.pop("key")
        for name in (*_LEFT_OUT, "numbers"):
            del content[name]
        rows.append({**key, **content, "deciding": run.deciding})
    table = pd.json_normalize(rows, sep="_")
    table = table.reindex(columns=list(dict.fromkeys([*_ALWAYS, *table.columns])))
    for name, values in objects.items():
        table[name] = pd.Series(values, table.index, dtype=object)
    return table
