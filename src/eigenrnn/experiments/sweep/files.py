"""Reads what a sweep has written; what is damaged is said with its name."""

import csv
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

__all__ = ["read_columns", "read_json"]


def read_json(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """Read an object that has at least these keys.

    Raises:
        ValueError: If it is damaged.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no JSON or UTF-8, too long a number, too deep
        raise ValueError(f"{path} is truncated or damaged: {error}") from None
    known = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    missing = [key for key in keys if key not in known]
    if missing or not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it has no {' and no '.join(missing) or 'object'}")
    return known


def read_columns(journal: Path, names: Sequence[str]) -> dict[str, dict[int, float]]:
    """Read columns of the journal of a run that has ended, each by step; blank cells are left out.

    Raises:
        ValueError: If it is damaged, or one of them has no number.
    """
    found: dict[str, dict[int, float]] = {name: {} for name in names}
    with suppress(FileNotFoundError, KeyError, TypeError, ValueError, csv.Error):
        with journal.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                for name in names:
                    if row[name]:
                        found[name][int(row["step"])] = float(row[name])
        if all(found.values()):
            return found
    raise ValueError(
        f"expected the evaluations of a run that has ended in {journal}, which is missing or "
        f"damaged: delete {journal.parent}, and --resume trains it again"
    )
