"""What the archive holds of each network of a claim, and the runs that are missing."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from eigenrnn.experiments.recipes import Computed, Entry, Quoted, Recipe, Row
from eigenrnn.experiments.training.run_key import Length
from reproduction.archive import Archive, ArchivedRun, RunName, current_runs
from reproduction.claim import Claim, Judgement, Progress, Runs
from reproduction.cost import estimated_seconds

__all__ = ["ArchivedEvidence", "Job", "missing_jobs", "row_of"]


def row_of(recipes: Mapping[str, Recipe], network: Runs) -> Entry:
    """Return the row that a claim names.

    Raises:
        ValueError: If there is no such row.
    """
    for row in recipes[network.recipe].rows:
        if row.label == network.row:
            return row
    raise ValueError(f"expected a row of {network.recipe}, got {network.row!r}")


def share_of_full(row: Row, length: Length | None) -> float:
    """Return a length as a share of the paper's."""
    if length is None:
        return 1.0
    full = getattr(row.settings, length.unit)
    return length.number / full


class ArchivedEvidence:
    """What an archive holds of each network.

    Args:
        recipes: All recipes, by name.
        archive: The archive.
    """

    def __init__(self, recipes: Mapping[str, Recipe], archive: Archive) -> None:
        self.recipes = recipes
        self._runs: dict[tuple[str, str], list[ArchivedRun]] = {}
        for run in current_runs(recipes, archive.runs())[0]:
            self._runs.setdefault((run.recipe, run.row), []).append(run)

    def judge(self, claims: Mapping[str, Claim]) -> list[Judgement]:
        """Return the verdict on each claim, in order."""
        return [claim.judge(self) for claim in claims.values()]

    def runs(self, network: Runs) -> dict[Length | None, list[ArchivedRun]]:
        """Return the runs that have at least the least length, by their length, longest first.

        A seed counts if it has a run of every point.
        """
        row = row_of(self.recipes, network)
        finished = [run for run in self._all(network) if run.state != "unfinished"]
        if not finished:
            return {}
        if not isinstance(row, Row):
            return {None: finished}
        least = share_of_full(row, network.least)
        lengths = {run.reduced: share_of_full(row, run.reduced) for run in finished}
        found: dict[Length | None, list[ArchivedRun]] = {}
        for length in sorted(lengths, key=lambda each: -lengths[each]):
            if lengths[length] < least:
                continue
            of_length = [run for run in finished if run.reduced == length]
            complete = _seeds_with_all_points(network, of_length)
            its = [run for run in of_length if run.seed in complete]
            if its:
                found[length] = its
        return found

    def progress(self, network: Runs) -> Progress:
        """Return how far the runs have come; unfinished ones count by their updates."""
        row = row_of(self.recipes, network)
        runs = self._all(network)
        if not isinstance(row, Row):
            done = float(bool(runs))
            return Progress(share=done, seeds=0, longest=done, is_trained=False)
        # of each seed and point, the longest training, as a share of the paper's
        trained: dict[int, dict[str, float]] = {}
        for run in runs:
            if run.seed is not None:
                of_points = trained.setdefault(run.seed, dict.fromkeys(network.points, 0.0))
                of_points[run.point] = max(of_points[run.point], _trained(row, run))
        # a seed is as far as its last point, because a search compares all points
        of_seed = {seed: min(of_points.values()) for seed, of_points in trained.items()}
        longest = max(of_seed.values(), default=0.0)
        least = share_of_full(row, network.least)
        counted = min(least, longest)
        seeds = sum(0 < counted <= length for length in of_seed.values())
        return Progress(share=min(1.0, longest / least), seeds=seeds, longest=longest)

    def missing_seeds(self, network: Runs) -> tuple[int, ...]:
        """Return the seeds to train that have no run of the least length; (0,) if computed."""
        known: set[int | None] = set()
        for runs in self.runs(network).values():
            known.update(run.seed for run in runs)
        if not isinstance(row_of(self.recipes, network), Row):
            if known:
                return ()
            return (0,)
        return tuple(seed for seed in network.seeds if seed not in known)

    def _all(self, network: Runs) -> list[ArchivedRun]:
        its = self._runs.get((network.recipe, network.row), [])
        return [run for run in its if run.point in network.points]


def _seeds_with_all_points(network: Runs, runs: Sequence[ArchivedRun]) -> set[int | None]:
    points: dict[int | None, set[str]] = {}
    for run in runs:
        points.setdefault(run.seed, set()).add(run.point)
    return {seed for seed, its in points.items() if its >= set(network.points)}


def _trained(row: Row, run: ArchivedRun) -> float:
    """Return how far a run has come, as a share of the paper's length."""
    planned = share_of_full(row, run.reduced)
    if run.state != "unfinished":
        return planned
    if not run.all_steps:
        return 0.0
    return planned * run.steps / run.all_steps


@dataclass(frozen=True)
class Job:
    """Runs of one network that are missing.

    Args:
        claim: The claim that needs them; empty for runs that no claim needs.
        recipe: The recipe, with the length of the runs.
        row: The row.
        points: The points of the row's grid.
        seeds: The seeds.
        seconds: A rough estimate of the processor time of all of them; None if it is not known
            because data is missing.
        missing_data: The data that is not on this machine; None if none is missing.
    Units:
        `seconds` on one core.
    """

    claim: str
    recipe: Recipe
    row: Entry
    points: tuple[str, ...]
    seeds: tuple[int, ...]
    seconds: float | None
    missing_data: str | None = None

    @property
    def count(self) -> int:
        """The number of runs."""
        return len(self.points) * len(self.seeds)


def missing_jobs(
    claims: Mapping[str, Claim], evidence: ArchivedEvidence, *, everything: bool = False
) -> list[Job]:
    """Return the runs that claims need and the archive lacks, those of the quickest claim first.

    Claims whose time is not known come last.

    Args:
        claims: The claims, by name.
        evidence: What the archive holds.
        everything: Whether the full runs of all rows of all recipes follow.
    """
    of_claims = [list(_jobs_of_claim(claim, evidence)) for claim in claims.values()]
    # claims that are decided soonest come first
    ordered = list(chain.from_iterable(sorted(of_claims, key=_total_seconds)))
    if everything:
        ordered += _jobs_of_recipes(evidence)
    jobs: list[Job] = []
    planned: set[RunName] = set()
    for job in ordered:
        new: tuple[int, ...] = ()
        for seed in job.seeds:
            names = {
                RunName(job.recipe.name, job.row.label, point, seed, job.recipe.reduced_to)
                for point in job.points
            }
            if not names <= planned:
                new += (seed,)
            planned |= names
        if new and job.seconds is not None:
            jobs.append(replace(job, seeds=new, seconds=job.seconds * len(new) / len(job.seeds)))
        elif new:
            jobs.append(replace(job, seeds=new))
    return jobs


def _total_seconds(jobs: Sequence[Job]) -> float:
    total = 0.0
    for job in jobs:
        if job.seconds is None:
            return math.inf
        total += job.seconds
    return total


def _jobs_of_claim(claim: Claim, evidence: ArchivedEvidence) -> Iterator[Job]:
    for network in claim.networks:
        seeds = evidence.missing_seeds(network)
        if seeds:
            yield _job(claim.id, evidence.recipes, replace(network, seeds=seeds))


def _jobs_of_recipes(evidence: ArchivedEvidence) -> Iterator[Job]:
    """Yield the missing full runs of all rows."""
    for recipe in evidence.recipes.values():
        for row in recipe.rows:
            if isinstance(row, Quoted) or (isinstance(row, Row) and row.layer is None):
                continue
            seeds: tuple[int, ...] = (0,)
            points = [""]
            if isinstance(row, Row):
                seeds = row.seeds or recipe.seeds
                points = list(row.points())
            for point in points:
                network = Runs(recipe.name, row.label, tuple(seeds), (point,))
                missing = evidence.missing_seeds(network)
                if missing:
                    yield _job("", evidence.recipes, replace(network, seeds=missing))


def _job(claim: str, recipes: Mapping[str, Recipe], network: Runs) -> Job:
    recipe = recipes[network.recipe]
    if network.least is not None:
        recipe = recipe.reduced(network.least)
    (row,) = [row for row in recipe.rows if row.label == network.row]
    seconds: float | None = None
    missing_data: str | None = None
    if isinstance(row, Computed):
        seconds = 0.0
    elif isinstance(row, Row):
        missing_data = row.task.missing_data()
        seconds = estimated_seconds(row)
        if seconds is not None:
            seconds *= network.count
    return Job(claim, recipe, row, network.points, network.seeds, seconds, missing_data)
