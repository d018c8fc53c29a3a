"""Draws the pictures of a recipe from the runs that are in its folder."""

import re
from pathlib import Path

from eigenrnn.experiments.recipes.base import Recipe, Row
from eigenrnn.experiments.recipes.panel import Panel, Trained

__all__ = ["draw_panels", "run_place"]


def draw_panels(recipe: Recipe, folder: Path, *, quick: bool) -> list[Panel]:
    """Draw every picture whose runs have ended; return those that were drawn."""
    if not recipe.panels:
        return []
    trained = {
        row.label: _ended(row, folder, quick) for row in recipe.rows if isinstance(row, Row)
    }
    return [panel for panel in recipe.panels if panel.save(folder, trained)]


def run_place(label: str, point: str, seed: int) -> Path:
    """Return where in the folder of a recipe a run goes."""
    return Path(_slug(label), _slug(point), f"seed-{seed}")


def _ended(row: Row, folder: Path, quick: bool) -> list[Trained]:
    """Find the runs of a row that have ended."""
    found: list[Trained] = []
    for point, chosen in (row.quick() if quick else row).points().items():
        place = folder / run_place(row.label, point, 0)
        for result in sorted(place.parent.glob("seed-*/result.json")):
            seed = int(result.parent.name.removeprefix("seed-"))
            found.append(Trained(chosen.with_seed(seed), seed, result.parent))
    return found


def _slug(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", label.lower()).strip("-")
