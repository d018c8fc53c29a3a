"""The command `reproduce`, which trains the runs of a recipe."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from eigenrnn_experiments import recipes
from eigenrnn_experiments.console import plain_console, show_markdown
from eigenrnn_experiments.errors import unknown_name
from eigenrnn_experiments.recipes import Recipe
from eigenrnn_experiments.recipes.comparison import to_markdown
from eigenrnn_experiments.recipes.reproduce import folder_name
from eigenrnn_experiments.registry import RECIPES
from eigenrnn_experiments.training.run import Length

__all__ = ["reproduce"]


def reproduce(
    recipe: str,
    *,
    rows: Sequence[str] = (),
    seeds: Sequence[int] = (),
    points: Sequence[str] = (),
    epochs: int | None = None,
    steps: int | None = None,
    quick: bool = False,
    dynamics_every: int | None = None,
    max_minutes: float | None = None,
    data_root: str | None = None,
    out: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    known: Mapping[str, Recipe] = RECIPES,
) -> int:
    """Train the networks of a recipe and compare their numbers with the paper's.

    Args:
        recipe: Name of the recipe; see: eigenrnn list recipes.
        rows: Run only rows whose label contains one of these.
        seeds: Seeds in place of the recipe's.
        points: Run only these points of a search, such as 'lr=0.1'.
        epochs: Reduced runs: train for so many epochs; the paper trains for longer.
        steps: Reduced runs: train for so many steps.
        quick: Smoke test: a few steps per row; the numbers are not comparable.
        dynamics_every: Record spectra and gradients every so many steps; without it none.
        max_minutes: Stop each run after so many minutes; --resume continues it; without it no
            limit.
        data_root: Folder with the data files.
        out: Output folder; without it runs/RECIPE, with --quick runs/RECIPE-quick, with --epochs
            runs/RECIPE-epochs-N, with --steps runs/RECIPE-steps-N.
        resume: Continue existing runs.
        overwrite: Delete existing runs.
        known: The recipes by name.
    Raises:
        ValueError: If an option does not fit the recipe, or another one.
    """
    if recipe not in known:
        raise ValueError(unknown_name("recipe", recipe, known))
    if [epochs is not None, steps is not None, quick].count(True) > 1:
        raise ValueError("expected one of --epochs, --steps and --quick, got several")
    chosen = known[recipe].with_data_root(data_root)
    if epochs is not None:
        chosen = chosen.reduced(Length("epochs", epochs))
    if steps is not None:
        chosen = chosen.reduced(Length("steps", steps))
    folder = Path(out or f"runs/{folder_name(chosen, quick=quick)}")
    comparisons = recipes.reproduce(
        chosen,
        folder,
        rows=list(rows) or None,
        points=points or None,
        seeds=seeds or None,
        quick=quick,
        resume=resume,
        overwrite=overwrite,
        dynamics_every=dynamics_every,
        max_minutes=max_minutes,
    )
    console = plain_console()
    show_markdown(to_markdown(chosen, comparisons, quick=quick), console)
    console.print(f"in {folder}: results.md", soft_wrap=True)
    return 0
