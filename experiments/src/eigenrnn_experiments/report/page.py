"""Writes the report: one self-contained HTML file."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from eigenrnn import __version__
from eigenrnn.errors import check_installed
from eigenrnn_experiments.files import write_atomically
from eigenrnn_experiments.recipes.comparison import note_text, notes, notice_of, table_of
from eigenrnn_experiments.report import tables
from eigenrnn_experiments.report.figures import learning_curves
from eigenrnn_experiments.report.learning_curves import MAX_POINTS, Group, averaged_over, group
from eigenrnn_experiments.report.network_analyses import (
    SECTIONS,
    NetworkPictures,
    RebuildModel,
    analyse_networks,
)
from eigenrnn_experiments.report.records import ComparedRecipe, Records, read_records, task_name
from eigenrnn_experiments.statistics import counted

__all__ = ["write_report"]

_CONTENTS = {
    "results": "Results",
    "curves": "Learning curves",
    "eigenvalues": "Eigenvalues",
    "schur": "Schur form",
    "gradients": "Gradient map",
    "fisher": "Fisher memory",
    "configuration": "Configuration",
    "machine": "Versions and machine",
}
_CAPTIONS = {
    "eigenvalues": "The eigenvalues of a recurrent matrix, with the unit circle.",
    "schur": (
        "W = P Θ P* with Θ lower triangular except for 2 x 2 blocks. An entry (i, j) below the "
        "diagonal means that mode j feeds mode i; a normal matrix has none."
    ),
    "gradients": (
        "The spectral norm of the derivative of the state after step τ with respect to the state "
        "after step t: the factor by which a gradient can grow on its way back from τ to t, for "
        "one sequence."
    ),
    "fisher": (
        "The Fisher information of the state about the first input channel k steps ago, for the "
        "network without its nonlinearity, with unit noise in every unit and input weights of "
        "norm 1. If noise accumulates without bound, as with a spectral radius of 1, only the "
        "noise of the steps that are drawn counts. The matrix of a gate is not a network by "
        "itself and has no curve."
    ),
}
_RECORD_HINT = (
    "To see how the eigenvalues move, record them during training: use --dynamics_every 500 on "
    "the command line, or pass the callback eigenrnn_experiments.training.Dynamics() to fit."
)


def write_report(
    folders: Sequence[str | Path] | Records,
    out: str | Path,
    *,
    rebuild: RebuildModel | None = None,
    title: str | None = None,
) -> Path:
    """Write an HTML report of runs and recipes.

    The report is one file of about 5 MB that opens offline in any browser. It replaces an earlier
    report, but no other file. Runs and recipes that cannot be read are listed on the page.

    Args:
        folders: Folders of runs or recipes, folders that contain them, or what `read_records`
            has read in them.
        out: The file to write.
        rebuild: Rebuilds the trained network of a run, to analyse its matrices. Without it the
            page has the learning curves and the recorded training dynamics only.
        title: The title of the page.
    Returns:
        The file.
    Raises:
        ValueError: If a folder holds no run, or no run can be read.
        ImportError: If a package of the extra `report` is missing.
    """
    path = Path(out)
    check_installed("eigenrnn-experiments[report]", "a report", "jinja2", "plotly")
    # after the check, whose error names the extra
    import jinja2
    from markupsafe import Markup
    from plotly import offline

    records = folders
    if not isinstance(records, Records):
        records = read_records(records)
    context = _context(records, rebuild, title)
    here = files("eigenrnn_experiments.report") / "page_files"
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.DictLoader({"page.html": (here / "page.html").read_text("utf-8")}),
    )
    # our own file, and what plotly and matplotlib have escaped; jinja escapes all other text
    environment.filters["element"] = Markup
    assets = {
        "css": Markup((here / "page.css").read_text("utf-8")),
        "plotly": Markup(offline.get_plotlyjs()),
    }
    page = environment.get_template("page.html").render(**context, **assets)
    write_atomically(path, page.encode())
    return path


def _context(records: Records, rebuild: RebuildModel | None, title: str | None) -> dict[str, Any]:
    groups = group(records)
    networks = analyse_networks(groups, rebuild)
    sections: dict[str, list[tuple[str, str]]] = {name: [] for name in SECTIONS}
    for network in networks:
        for name, pictures in network.pictures.items():
            sections[name] += [(f"{network.name}: {text}", svg) for text, svg in pictures]
    return {
        "title": title or "Runs",
        "lead": _summary(records, groups),
        "generator": f"eigenrnn report {__version__}",
        "contents": list(_CONTENTS.items()),
        "unreadable": [(str(folder), reason) for folder, reason in records.unreadable.items()],
        "recipes": [_recipe(recipe) for recipe in records.recipes],
        "tasks": _tasks(groups),
        "sections": [
            (name, _CONTENTS[name], _CAPTIONS[name], sections[name]) for name in SECTIONS
        ],
        "reasons": _reasons(networks, groups),
        "max_points": MAX_POINTS,
        "machines": tables.machines(records.runs),
    }


def _tasks(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Return the content of each task, in the order of the groups."""
    groups_of: dict[str, list[Group]] = {}
    for each in groups:
        groups_of.setdefault(each.task, []).append(each)
    names = [task_name(own[0].runs[0].run.task) for own in groups_of.values()]
    networks = list(dict.fromkeys(each.network for each in groups))
    tasks: list[dict[str, Any]] = []
    for number, own in enumerate(groups_of.values(), start=1):
        name = names[number - 1]
        if names.count(name) > 1:  # tasks that differ in an option which the name leaves out
            name = f"{name}, {number}"
        shared, differing = tables.configuration(own)
        results = tables.results(own)
        further = tables.further_metrics(own)
        longest = 0
        for each in own:
            longest = max(longest, *(len(run.metrics["step"]) for run in each.runs))
        tasks.append(
            {
                "id": f"task-{number}",
                "name": name,
                "chart": learning_curves(own, networks, f"curves-{number}"),
                "runs": results.without(further),
                "further": results.without({*results.headings[1:]} - further),
                "chosen_by": tables.chosen_by(own),
                "averaged_over": averaged_over(own),
                "shared": shared,
                "differing": differing,
                "groups": own,
                "blocks": longest > MAX_POINTS,
            }
        )
    return tasks


def _recipe(compared: ComparedRecipe) -> dict[str, Any]:
    recipe = compared.recipe
    listed = notes(recipe, compared.comparisons)
    return {
        "name": recipe.name,
        "source": recipe.source,
        "notice": notice_of(recipe, quick=compared.quick),
        "table": table_of(compared.comparisons),
        "notes": [(title, list(map(note_text, items))) for title, items in listed.items()],
    }


def _summary(records: Records, groups: Sequence[Group]) -> str:
    seconds = sum(run.run.seconds for run in records.runs if run.run.state == "ended")
    ended = sum(run.run.state == "ended" for run in records.runs)
    networks = len({each.network for each in groups})
    runs = counted(len(records.runs), "run")
    if ended < len(records.runs):
        runs += f", {ended} ended"
    return f"{counted(networks, 'network')} · {runs} · {_duration(seconds)} of training"


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def _reasons(networks: Sequence[NetworkPictures], groups: Sequence[Group]) -> dict[str, list[str]]:
    """Return for each section why it does not show some networks; equal reasons are merged."""
    found: dict[str, list[str]] = {}
    for name in SECTIONS:
        labels: dict[str, list[str]] = {}
        for network in networks:
            if name in network.reasons:
                labels.setdefault(network.reasons[name], []).append(network.name)
        found[name] = [f"{'; '.join(names)}: {reason}." for reason, names in labels.items()]
        not_shown = sum(each.shown for each in groups) - len(networks)
        if not_shown > 0:
            found[name].append(
                f"{counted(not_shown, 'more network')}: name fewer folders to see them here."
            )
        if not networks:
            found[name].append("The folder has results, but no runs.")
    if not any(network.run.dynamics for network in networks):
        found["eigenvalues"].append(_RECORD_HINT)
    return found
