"""Series as Parquet tables."""

import importlib
from pathlib import Path
from typing import Any

from eigenrnn.data.long_format import from_columns
from eigenrnn.data.memory import check_memory
from eigenrnn.data.sequences import Sequences

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
    try:
        file = parquet.ParquetFile(path)
        groups = (file.metadata.row_group(k) for k in range(file.metadata.num_row_groups))
        size = sum(group.total_byte_size for group in groups)
        check_memory(4 * size, f"the table {path}", "cut it into smaller ones")
        table = file.read()
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"expected a complete Parquet file in {path}, got: {error}") from None
    if not table.num_rows:
        raise ValueError(f"expected at least one row in {path}, got none")
    for name in table.column_names:
        if table[name].null_count:
            row = table[name].is_null().to_numpy().argmax()
            raise ValueError(
                f"expected a value in each row of {path}, got none in the column {name!r} of "
                f"row {row + 1}; fill in or leave out what is missing"
            )
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return from_columns(columns, path, lambda row: f"row {row + 1}")
