"""Converts runs that an older version has written: `python -m reproduction.convert PATH`.

A file of the archive (`.jsonl`) and the `config.json` of every run in a folder get the entries of
today. The trainings of the open claims run at an older commit; this file goes with the last one.
"""

import json
import sys
from pathlib import Path
from typing import Any

from eigenrnn_experiments.atomic import write_atomically
from eigenrnn_experiments.recipes import Reference
from eigenrnn_experiments.registry import TASKS
from eigenrnn_experiments.training import Settings
from eigenrnn_experiments.training.description import describe_defaults
from eigenrnn_experiments.training.files import read_json, write_json
from reproduction.archive import FORMAT
from reproduction.recipes import RECIPES
from reproduction.studies import permuted_mnist, state_tracking, state_tracking_radius

__all__ = ["convert_config", "convert_record"]

_FORMER_SETTINGS = ("devices", "num_nodes", "strategy")


def _settings(stored: dict[str, Any]) -> dict[str, Any]:
    complete = describe_defaults(Settings) | stored
    for name in _FORMER_SETTINGS:
        complete.pop(name, None)
    return complete


def _with_settings_of_today(description: Any) -> Any:
    """Complete the `Settings` among the options of a description."""
    if isinstance(description, list):
        return [_with_settings_of_today(each) for each in description]
    if not isinstance(description, dict):
        return description
    complete = {name: _with_settings_of_today(value) for name, value in description.items()}
    if complete.get("class") == "Settings":
        complete["options"] = _settings(complete["options"])
    return complete


def _task(stored: dict[str, Any]) -> dict[str, Any]:
    kind = TASKS.get(stored["class"])
    if kind is None:
        return stored
    return {"class": stored["class"], "options": describe_defaults(kind) | stored["options"]}


def _of_studies(description: Any) -> Any:
    """Name the functions and classes of our own studies, which have left the package."""
    if isinstance(description, str):
        return _MOVED.get(description.removeprefix("reproduction."), description)
    if isinstance(description, list):
        return [_of_studies(each) for each in description]
    if isinstance(description, dict):
        return {_of_studies(name): _of_studies(each) for name, each in description.items()}
    return description


_MOVED = {
    name: f"{module.__name__}.{name}"
    for module in (permuted_mnist, state_tracking, state_tracking_radius)
    for name, entry in vars(module).items()
    if getattr(entry, "__module__", None) == module.__name__
}


_REFERENCES = {
    (recipe.name, row.label): row
    for recipe in RECIPES.values()
    for row in recipe.rows
    if isinstance(row, Reference)
}


def convert_record(content: dict[str, Any]) -> dict[str, Any]:
    """Return a record of the archive as today's version would write it."""
    content = {**content, "format": FORMAT, "others": content.get("others", {})}
    content.pop("trained_for", None)
    moved = _REFERENCES.get((content["recipe"], content["row"]))
    if moved is not None:  # a row of another recipe since
        numbers = {name: content[name] for name in ("value", "selected")}
        content["recipe"] = moved.recipe.name
        measure = moved.reported[0].measure
        if measure != moved.recipe.row(moved.label).reported[0].measure:
            content |= {"value": None, "selected": None, "others": {measure: numbers}}
    if content["state"] == "computed":
        return content
    return {
        **content,
        "task": _task(content["task"]),
        "network": _of_studies(_with_settings_of_today(content["network"])),
        "settings": _settings(content["settings"]),
    }


def convert_config(content: dict[str, Any]) -> dict[str, Any]:
    """Return the `config.json` of a recipe's run whose entry `config` names it."""
    if "config" not in content:
        return content
    entry = dict(content["config"])
    network = _with_settings_of_today(entry.pop("network"))
    names = ("recipe", "row", "point", "seed", "quick", "reduced", "varied")
    same = ("name", "best_by", "parameters", "revision", "versions")
    return {
        **{name: content[name] for name in same},
        "task": _task(content["task"]),
        "network": network,
        "layer": str(network.get("layer")),
        "modules": "not recorded by the version that trained it",
        "settings": _settings(content["settings"]),
        "key": {name: entry[name] for name in names if name in entry},
    }


def _convert(path: Path) -> None:
    """Convert a file of the archive, or all runs in a folder.

    Raises:
        ValueError: If there is no such file or folder.
    """
    if not path.exists():
        raise ValueError(f"expected a file of the archive or a folder of runs, got {path}")
    if path.suffix == ".jsonl":
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        lines = [
            json.dumps(convert_record(each), allow_nan=False, separators=(",", ":"))
            for each in records
        ]
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
        return
    for file in path.glob("**/config.json"):
        write_json(file, convert_config(read_json(file)))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        _convert(Path(argument))
