"""The verdicts on the claims by the archived runs, and the runs that are still missing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from eigenrnn.experiments.claims import Claim, Judgement, Runs
from eigenrnn.experiments.recipes import Outcome, Recipe, Row, reproduce
from eigenrnn.experiments.recipes.cost import estimated_seconds
from eigenrnn.experiments.recipes.runs import folder_name
from eigenrnn.experiments.results.archive import Archive, current_runs
from eigenrnn.experiments.results.archive_runs import archive_runs
from eigenrnn.experiments.training.archived_run import ArchivedRun
from eigenrnn.experiments.training.run_key import Length

__all__ = ["Verdicts"]


class Verdicts:
    """Judges claims by the runs of an archive.

    Args:
        claims: The claims, by name.
        recipes: All recipes, by name.
        archive: The folder of the archive; it need not exist.
    Raises:
        ValueError: If a file of the archive is damaged or of another version.
    """

    def __init__(
        self, claims: Mapping[str, Claim], recipes: Mapping[str, Recipe], archive: str | Path
    ) -> None:
        self.claims, self.recipes, self.archive = claims, recipes, Path(archive)
        runs, _ = current_runs(recipes, Archive(archive).runs())
        self._runs: dict[tuple[str, str, str, Length | None], list[ArchivedRun]] = {}
        for run in (run for run in runs if run.state != "unfinished"):
            name = run.recipe, run.row, run.point, run.reduced
            self._runs.setdefault(name, []).append(run)

    def judge(self) -> list[Judgement]:
        """Return the verdict on each claim, in order."""
        return [claim.judge(self.find) for claim in self.claims.values()]

    def find(self, runs: Runs) -> Sequence[ArchivedRun]:
        """Return the archived runs of a network; none if one that is needed is missing."""
        if self._missing_points(runs):
            return ()
        return [run for point in runs.points for run in self._of_point(runs, point)]

    def missing(self) -> Iterator[tuple[Claim, Runs]]:
        """Yield each missing run once, those of the quickest claim first."""
        planned: set[tuple[Runs, str, int]] = set()
        needed = {claim.id: list(self._needed(claim)) for claim in self.claims.values()}
        for claim in sorted(
            self.claims.values(), key=lambda c: sum(map(self.seconds, needed[c.id]))
        ):
            for runs in needed[claim.id]:
                network, seeds = replace(runs, seeds=(), points=()), runs.seeds
                new = tuple(p for p in runs.points if (network, p, seeds[0]) not in planned)
                planned |= {(network, p, seed) for p in new for seed in seeds}
                if new:
                    yield claim, replace(runs, points=new)

    def recipe(self, runs: Runs) -> Recipe:
        """Return the recipe of some runs, reduced if they are."""
        recipe = self.recipes[runs.recipe]
        return recipe if runs.reduced is None else recipe.reduced(runs.reduced)

    def seconds(self, runs: Runs) -> float:
        """Roughly estimate the time of some runs on one core; 0 without an estimate."""
        (row,) = self.recipe(runs).select([runs.row])
        seconds = estimated_seconds(row) if isinstance(row, Row) else None
        return runs.count * (seconds or 0.0)

    def run(self, runs: Runs, folder: str | Path) -> list[Outcome]:
        """Train missing runs, or continue them, and archive those that end.

        Args:
            runs: The runs.
            folder: The folder that contains the folders of the recipes.
        Returns:
            The outcomes of the rows of the recipe; one has a signal if it stopped the training.
        Raises:
            MissingDataError: If data is missing and cannot be downloaded.
        """
        recipe = self.recipe(runs)
        out = Path(folder, folder_name(recipe, quick=False))
        outcomes = reproduce(
            recipe, out, rows=[runs.row], points=runs.points, seeds=runs.seeds, resume=True
        )
        archive_runs([out], self.archive, self.recipes)
        return outcomes

    def _needed(self, claim: Claim) -> Iterator[Runs]:
        """Yield the missing runs of a claim."""
        for runs in claim.with_full_runs(self.find).experiment:
            for seeds, points in self._missing_points(runs).items():
                yield replace(runs, seeds=seeds, points=points)

    def _of_point(self, runs: Runs, point: str) -> list[ArchivedRun]:
        return self._runs.get((runs.recipe, runs.row, point, runs.reduced), [])

    def _missing_points(self, runs: Runs) -> dict[tuple[int, ...], tuple[str, ...]]:
        """Return the points that lack runs, by the seeds that they lack."""
        found: dict[tuple[int, ...], tuple[str, ...]] = {}
        for point in runs.points:
            known = {run.seed for run in self._of_point(runs, point)}
            # a number without training has the seed None
            missing = () if None in known else tuple(s for s in runs.seeds if s not in known)
            if missing:
                found[missing] = (*found.get(missing, ()), point)
        return found
