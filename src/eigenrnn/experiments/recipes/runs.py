"""The trainings of a recipe: one for each row, point of its grid and seed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from eigenrnn.errors import MissingDataError, NonFiniteLossError
from eigenrnn.experiments.recipes.base import Recipe, Row
from eigenrnn.experiments.recipes.drawing import run_place
from eigenrnn.experiments.recipes.origin import Origin
from eigenrnn.experiments.recipes.outcome import Outcome
from eigenrnn.experiments.training import Callback, checkpoint, fit
from eigenrnn.experiments.training.progress import plain_console
from eigenrnn.models import count_parameters

__all__ = ["RecipeRun", "fetch", "runs_of"]


@dataclass(frozen=True)
class RecipeRun:
    """One training of a row: which point of its grid, from which seed, and where it goes."""

    row: Row
    point: str
    seed: int
    place: Path
    origin: Origin

    def train(
        self, folder: Path, outcome: Outcome, watching: Sequence[Callback], **options: Any
    ) -> Outcome:
        """Train it and add its numbers to the row's; of a run that diverges there are none."""
        row, place = self.row, folder / self.place
        model = row.build(self.seed)
        count = count_parameters(model)
        # "lr-0-1, seed 3"
        said = ", ".join(self.place.parts[1:]).replace("seed-", "seed ")
        options |= {
            "callbacks": watching if row.watch is None else [*watching, row.watch(place)],
            "name": (name := f"{row.label}, {said}"),
            "config": self.origin.facts(),
        }
        try:
            result = fit(model, row.task, row.settings, place, **options)
        except NonFiniteLossError as error:
            console = options["console"] or plain_console(stderr=True)
            console.print(f"{name} diverged: {error}", markup=False, emoji=False, soft_wrap=True)
            return outcome.with_failure(row, self.seed, count, self.point)
        if result.interrupted:
            return replace(outcome, signal=result.signal)  # there is none if the time was over
        outcome = outcome.with_run(row, self.seed, count, result, self.point)
        if row.score is None:
            return outcome
        model.load_state_dict(checkpoint.load(place / "best.pt", "model")["model"])
        scores = row.score(model.eval(), row.task, place / "scores")
        return replace(outcome, scores=(*outcome.scores, dict(scores)))


def runs_of(
    recipe: Recipe, row: Row, seeds: Sequence[int] | None, *, quick: bool
) -> Iterator[RecipeRun]:
    """Yield what is trained for a row."""
    if row.layer is None:
        return
    if seeds is None:
        seeds = (row.seeds or recipe.seeds)[: 1 if quick else None]
    for name, point in (row.quick() if quick else row).points().items():
        for seed in seeds:
            origin = Origin(recipe.name, row.label, name, seed, quick)
            place = run_place(row.label, name, seed)
            yield RecipeRun(point.with_seed(seed), name, seed, place, origin)


def fetch(rows: list[Row]) -> None:
    """Get all data before the first row is trained, perhaps for days.

    Raises:
        MissingDataError: If some cannot be had.
    """
    for task in dict.fromkeys(row.task for row in rows):
        if task.missing_data() is None:
            continue
        try:
            next(task.batches("train", 1))  # downloads it, or says what to do
        except MissingDataError as error:
            labels = ", ".join(row.label for row in rows if row.task == task)
            raise MissingDataError(f"{error}; or choose other rows than {labels}") from None
