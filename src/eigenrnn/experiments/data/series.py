"""Which reader reads a file of series."""

from collections.abc import Callable
from pathlib import Path

from eigenrnn.experiments.data.csv_table import read_csv
from eigenrnn.experiments.data.npz import read_npz
from eigenrnn.experiments.data.parquet import read_parquet
from eigenrnn.experiments.data.sequences import Sequences
from eigenrnn.experiments.data.ts import read_ts

__all__ = ["READERS", "read_series"]

READERS: dict[str, Callable[[Path], Sequences]] = {
    ".ts": read_ts,
    ".npz": read_npz,
    ".csv": read_csv,
    ".parquet": read_parquet,
}
"""The readers, by the ending of the files that they read."""


def read_series(path: str | Path) -> Sequences:
    """Read a file of series.

    Args:
        path: The file, whose ending names its format.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If there is no reader for its ending, or it is empty.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"expected a file of series, got {path}, which is not a file")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"expected a file that ends in {', '.join(READERS)}, got {path}")
    if not path.stat().st_size:
        raise ValueError(f"expected series in {path}, got an empty file")
    return reader(path)
