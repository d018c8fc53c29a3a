"""Series as Parquet tables."""

import importlib
from pathlib import Path
from typing import Any

from eigenrnn.experiments.data.long_format import from_columns
from eigenrnn.experiments.data.packed import refuse_damage
from eigenrnn.experiments.data.sequences import Sequences
from eigenrnn.memory import check_memory

__all__ = ["read_parquet"]


def read_parquet(path: Path) -> Sequences:
    """Read a table; see `from_columns` for its columns.

    Args:
        path: The file.

    Raises:
        ImportError: If pyarrow is not installed.
        ValueError: If the file is cut off or a value is missing.
    """
    try:
        pyarrow: Any = importlib.import_module("pyarrow")  # an extra, without types
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise ImportError(
            f"expected pyarrow, to read {path}; install it with pip install 'eigenrnn[series]', "
            "or write the table as .csv or .npz"
        ) from None
    with refuse_damage("Parquet file", path):
        file = parquet.ParquetFile(path, page_checksum_verification=True)
        groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
        size = sum(group.total_byte_size for group in groups)
    check_memory(4 * size, f"the table {path}", "cut it into smaller ones")
    with refuse_damage("Parquet file", path):
        table = file.read()
        table.validate(full=True)
    _check(table, path, pyarrow.types)
    with refuse_damage("Parquet file", path):
        columns = {name: table[name].to_numpy() for name in table.column_names}
    return from_columns(columns, path, lambda row: f"row {row + 1}")


def _check(table: Any, path: Path, types: Any) -> None:
    """Refuse a table that is no table of numbers, texts and times.

    Raises:
        ValueError: If it has no row, two columns of a name, or a value of another kind or none.
    """
    names = table.column_names
    if not table.num_rows:
        raise ValueError(f"expected at least one row in {path}, got none")
    if len(set(names)) < len(names):
        raise ValueError(f"expected different names of columns in {path}, got {', '.join(names)}")
    for name in names:
        column = table[name]
        if types.is_nested(column.type) or types.is_binary(column.type):
            raise ValueError(
                f"expected numbers, texts or times in the column {name!r} of {path}, got "
                f"{column.type}"
            )
        if column.null_count:
            row = column.is_null().to_numpy().argmax()
            raise ValueError(
                f"expected a value in each row of {path}, got none in the column {name!r} of "
                f"row {row + 1}; fill in or leave out what is missing"
            )
