"""Writes a report: one HTML file that needs nothing else."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from eigenrnn import __version__
from eigenrnn.analysis.network_memory import MEMORY_STEPS
from eigenrnn.atomic import write_atomically
from eigenrnn.experiments.report import tables
from eigenrnn.experiments.report.charts import (
    Styles,
    curves_of,
    fisher_series,
    maps_of,
    spectra_of,
)
from eigenrnn.experiments.report.collect import Records, collect, task_name
from eigenrnn.experiments.report.curves import MOST_POINTS, Group, group
from eigenrnn.experiments.report.networks import Network, Rebuild, look_into

__all__ = ["write_report"]

_GENERATOR = "eigenrnn report"
_HEAD = 4096  # bytes, in which a page of ours says that it is one
_SCRIPTS = ("drawing.js", "charts.js")
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
    "schur": (
        "W = P Θ P* with Θ lower triangular but for blocks of two; mode j feeds mode i where Θ "
        "has an entry (i, j) below its diagonal. A normal matrix has none. What is under 1e-8 of "
        "the largest entry is blank. Beside it the mean size on each sub-diagonal."
    ),
    "gradient": (
        "How strongly the state after step τ depends on that after step t: the spectral norm of "
        "its derivative, which is by what a gradient can grow on its way back from τ to t. Beside "
        "it the mean by the number of steps. What is under 1e-16 of the "
        "largest is blank."
    ),
    "fisher": (
        "What the state of the network without its nonlinearity, with unit noise in every unit, "
        "knows of its first input k steps ago, whose weights are scaled to norm 1. Where noise "
        "would add up without end, as with a spectral radius of 1, that of the last "
        f"{MEMORY_STEPS} steps counts. What is under 1e-8 of the largest is not drawn. The matrix "
        "of a gate alone makes no network, and has no curve."
    ),
}
_WATCH = (
    "To see how the eigenvalues move, watch a training: with --dynamics_every 500 on the command "
    "line, or with the callback eigenrnn.experiments.training.Dynamics() of fit."
)


def write_report(
    folders: Sequence[str | Path] | Records,
    out: str | Path,
    *,
    rebuild: Rebuild | None = None,
    title: str | None = None,
) -> Path:
    """Write what came out of runs and recipes as a page.

    One HTML file of about 5 MB, which opens in any browser without a network. A page that is
    there is made anew; any other file is left alone. A run or a recipe that cannot be read is
    named on the page.

    Args:
        folders: Folders of runs, of recipes, or of many of them, or what `collect` has read.
        out: The file to write.
        rebuild: Makes the trained network of a run again, for what is found in its matrices;
            without it the page has learning curves, and what was seen while it was trained.
        title: The heading of the page.
    Returns:
        The file.
    Raises:
        ValueError: If a folder holds no run, or none can be read.
        FileExistsError: If there is a file that is no such page.
        ImportError: If a package of the extra `report` is missing.
    """
    path = Path(out)
    _check_place(path)
    plotly, jinja2 = _packages()
    records = folders if isinstance(folders, Records) else collect(folders)
    facts = _facts(records, rebuild, title)
    here = files("eigenrnn.experiments.report") / "page_files"
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.DictLoader({"page.html": (here / "page.html").read_text("utf-8")}),
    )
    safe = jinja2.utils.markupsafe.Markup
    ours = {
        "css": safe((here / "page.css").read_text("utf-8")),
        "scripts": [safe((here / name).read_text("utf-8")) for name in _SCRIPTS],
        "plotly": safe(plotly.get_plotlyjs()),
        "data": safe(_as_json(facts.pop("data"))),
    }
    page = environment.get_template("page.html").render(**facts, **ours)
    write_atomically(path, page.encode())
    return path


def _check_place(path: Path) -> None:
    """Refuse a place before any work is done.

    Raises:
        ValueError: If its folder does not exist, or it is a folder.
        FileExistsError: If there is another file.
    """
    if not path.absolute().parent.is_dir():
        raise ValueError(f"expected a file in a folder that exists, got {path}")
    if path.is_dir():
        raise ValueError(f"expected a file to write, got {path}, which is a folder")
    if not path.exists():
        return
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if f'name="generator" content="{_GENERATOR}'.encode() not in head:
        raise FileExistsError(
            f"{path} exists and is not a report: choose another name, or delete it"
        )


def _packages() -> tuple[Any, Any]:
    """Return plotly and jinja2.

    Raises:
        ImportError: If one is missing.
    """
    try:
        import jinja2
        from plotly import offline
    except ImportError as error:
        raise ImportError(
            f"a report needs {error.name}: install it with pip install 'eigenrnn[report]'"
        ) from None
    return offline, jinja2


def _as_json(data: Mapping[str, Any]) -> str:
    """Write JSON that can stand in a script element: no label ends it."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _facts(records: Records, rebuild: Rebuild | None, title: str | None) -> dict[str, Any]:
    groups = group(records)
    networks, styles = look_into(groups, rebuild), Styles(groups)
    tasks = _tasks(groups)
    curves = {task["id"]: curves_of(task.pop("groups"), styles) for task in tasks}
    for task in tasks:
        task["chart"] = curves[task["id"]] is not None
    data = {
        "curves": {key: found for key, found in curves.items() if found},
        "spectrum": spectra_of(networks, styles),
        "schur": maps_of(networks, styles, "schur"),
        "gradient": maps_of(networks, styles, "gradient"),
        "fisher": fisher_series(networks, styles),
    }
    return {
        "title": title or _title(records),
        "lead": _lead(records, groups),
        "generator": f"{_GENERATOR} {__version__}",
        "contents": list(_CONTENTS.items()),
        "unreadable": [(str(folder), why) for folder, why in records.unreadable.items()],
        "recipes": [_recipe(recipe) for recipe in records.recipes],
        "tasks": tasks,
        "has": {name: bool(data[name]) for name in ("spectrum", "schur", "gradient", "fisher")},
        "whys": _whys(networks, groups),
        "captions": _CAPTIONS,
        "most_points": MOST_POINTS,
        "machines": tables.machines(records.runs, records.recipes),
        "sources": _sources(records),
        "data": data,
    }


def _tasks(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Collect what is said of each task, in the order of the groups."""
    found: dict[str, list[Group]] = {}
    for each in groups:
        found.setdefault(each.task, []).append(each)
    names = [task_name(task) for task in found]
    tasks: list[dict[str, Any]] = []
    for number, (name, its) in enumerate(zip(names, found.values(), strict=True), start=1):
        shared, differing = tables.configuration(its)
        longest = max(len(run.metrics["step"]) for each in its for run in each.runs)
        tasks.append(
            {
                "id": f"task-{number}",
                "name": name if names.count(name) == 1 else f"{name}, {number}",
                "groups": its,
                "runs": tables.runs(its),
                "chosen_by": tables.chosen_by(its),
                "shared": shared,
                "differing": differing,
                "models": [_model(each) for each in its],
                "blocks": longest > MOST_POINTS,
            }
        )
    return tasks


def _model(group: Group) -> dict[str, str]:
    return {
        "label": group.label,
        "text": "\n".join(group.runs[0].config["model"]),
        "folders": ", ".join(str(run.folder) for run in group.runs),
    }


def _recipe(recipe: Any) -> dict[str, Any]:
    content = recipe.content
    noted = [row for row in content["rows"] if row.get("note")]
    notes = [f"{row['label']}, {row.get('place', '')}: {row['note']}." for row in noted]
    remarks = dict(recipe.remarks) or ({"Notes": notes} if notes else {})
    return {
        "name": content["recipe"],
        "source": content["source"],
        "quick": bool(content.get("quick")),
        "table": tables.paper_and_ours(recipe),
        "remarks": list(remarks.items()),
    }


def _title(records: Records) -> str:
    names = [str(recipe.content["recipe"]) for recipe in records.recipes]
    if len(names) == 1 and all(records.recipe_row(run) for run in records.runs):
        return f"Reproduction of {names[0]}"
    tasks = {run.config["task"].partition("(")[0] for run in records.runs}
    return f"Runs on {', '.join(sorted(tasks))}" if tasks else ", ".join(names)


def _lead(records: Records, groups: Sequence[Group]) -> str:
    seconds = sum(float(run.result["seconds"]) for run in records.runs if run.result)
    ended = sum(run.result is not None for run in records.runs)
    networks = len({each.network for each in groups})
    said = [
        _many(networks, "network"),
        _many(len(records.runs), "run")
        + ("" if ended == len(records.runs) else f", {ended} ended"),
        f"{_time(seconds)} of training",
    ]
    return " · ".join(said)


def _sources(records: Records) -> str:
    recipes = _many(len(records.recipes), "recipe")
    return _many(len(records.runs), "run") + (f" and {recipes}" if records.recipes else "")


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _time(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.1f} s"


def _whys(networks: Sequence[Network], groups: Sequence[Group]) -> dict[str, list[str]]:
    """Say for each section why it does not show some networks, equal reasons together."""
    found: dict[str, list[str]] = {}
    for name in ("spectrum", "schur", "gradient", "fisher"):
        labels: dict[str, list[str]] = {}
        for network in networks:
            if name in network.whys:
                labels.setdefault(network.whys[name], []).append(network.name)
        found[name] = [f"{'; '.join(who)}: {why}." for why, who in labels.items()]
        left_out = sum(each.shown for each in groups) - len(networks)
        if left_out > 0:
            found[name].append(
                f"{_many(left_out, 'network')} more: give fewer folders to see them here."
            )
        if not networks:
            found[name].append("There are no runs beside these results.")
    if not any(network.run.dynamics for network in networks):
        found["spectrum"].append(_WATCH)
    return found
