"""Reads what a sweep has written; what is damaged is said with its name."""

import json
from pathlib import Path
from typing import Any, cast

__all__ = ["read_json"]


def read_json(path: Path, keys: tuple[str, ...]) -> dict[str, Any]:
    """Read an object that has at least these keys.

    Raises:
        ValueError: If it is damaged.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is truncated or damaged: {error}") from None
    known = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
    missing = [key for key in keys if key not in known]
    if missing or not isinstance(content, dict):
        raise ValueError(f"{path} is damaged: it has no {' and no '.join(missing) or 'object'}")
    return known
