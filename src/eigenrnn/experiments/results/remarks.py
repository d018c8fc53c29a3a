"""The paragraphs of RESULTS.md on what differs from the papers, read from `remarks.toml`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from eigenrnn.experiments.claims import Claim
from eigenrnn.experiments.recipes import Recipe

__all__ = ["Remark", "read_remarks"]

_Kind = Literal["explained", "open", "cannot be judged"]
_KINDS: tuple[_Kind, ...] = get_args(_Kind)


@dataclass(frozen=True)
class Remark:
    """A paragraph on numbers of ours that differ from the paper's, or on a claim.

    Args:
        kind: Whether the difference is explained, open, or cannot be judged.
        text: The paragraph.
        about: The rows, each by the names of its recipe and of itself.
        claim: The name of the claim; empty for a remark on rows alone.
    """

    kind: _Kind
    text: str
    about: tuple[tuple[str, str], ...] = ()
    claim: str = ""


def read_remarks(
    folder: Path, recipes: Mapping[str, Recipe], claims: Mapping[str, Claim]
) -> list[Remark]:
    """Read the remarks of an archive; none if it has no `remarks.toml`.

    Each `[[remark]]` has a `kind`, a `text`, and `recipe` with `rows`, or a `claim`.

    Raises:
        ValueError: If the file is not TOML, names an unknown row or claim, or has two remarks on
            one row.
    """
    path = folder / "remarks.toml"
    if not path.is_file():
        return []
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    if set(content) - {"remark"} or not isinstance(content.get("remark", []), list):
        raise ValueError(f"expected only [[remark]] in {path}, got {', '.join(content)}")
    found = [_remark(entry, path) for entry in cast("list[Any]", content.get("remark", []))]
    known = {(recipe.name, row.label) for recipe in recipes.values() for row in recipe.rows}
    seen: set[tuple[str, str]] = set()
    for remark in found:
        for name in remark.about:
            if name not in known or name in seen:
                raise ValueError(
                    f"expected one remark on a row of a recipe in {path}, got {': '.join(name)}"
                )
            seen.add(name)
        if remark.claim and remark.claim not in claims:
            raise ValueError(f"expected the name of a claim in {path}, got {remark.claim!r}")
    return found


def _remark(entry: Any, path: Path) -> Remark:
    """Build a remark from its table.

    Raises:
        ValueError: If a key is missing, unknown, or has a value of another type.
    """
    table = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    kind, text, claim = table.get("kind"), table.get("text"), table.get("claim", "")
    recipe, rows = table.get("recipe", ""), table.get("rows", [])
    is_known = not set(table) - {"kind", "text", "claim", "recipe", "rows"}
    strings = [text, claim, recipe, *rows] if isinstance(rows, list) else [None]
    has_subject = bool(claim) or (bool(recipe) and bool(rows))
    if not (is_known and has_subject and all(isinstance(each, str) for each in strings)):
        raise ValueError(
            f"expected kind, text, and recipe with rows or claim, as strings, in each remark of "
            f"{path}, got {entry!r}"
        )
    if kind not in _KINDS:
        raise ValueError(f"expected kind among {', '.join(_KINDS)} in {path}, got {kind!r}")
    about = tuple((recipe, row) for row in rows)
    return Remark(kind, " ".join(cast("str", text).split()), about, claim)
