"""The names that users type for tasks, layers and constraints, and which are near a wrong one."""

import difflib
import inspect
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

from eigenrnn.experiments.cli.yaml_text import load_yaml
from eigenrnn.experiments.registry import CONSTRAINTS, LAYERS, TASKS, class_path

__all__ = [
    "DECIDED_HERE",
    "annotations_of",
    "in_arguments",
    "in_yaml",
    "near",
    "options_of",
    "unknown",
    "where_all_are",
]

DECIDED_HERE = frozenset({"batch_first", "device", "dtype", "generator", "proj_size"})
"""The arguments of layers that the command line gives itself, or that its models do not take."""

_KINDS: dict[str, tuple[str, Mapping[str, type]]] = {
    "task": ("task", TASKS),
    "layer": ("layer", LAYERS),
    "layer.constraint": ("constraint", CONSTRAINTS),
    "layer.reset": ("constraint", CONSTRAINTS),
    "layer.update": ("constraint", CONSTRAINTS),
    "layer.candidate": ("constraint", CONSTRAINTS),
}
_LISTED = ("constraint", "layer", "task", "recipe")


def near(name: str, names: Iterable[str]) -> str:
    """Suggest the names that are most like the given one, in parentheses, or nothing."""
    found = difflib.get_close_matches(name, sorted(set(names) - {name}), n=3, cutoff=0.6)
    return f" (did you mean {' or '.join(found)}?)" if found else ""


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """Say that a name does not exist, which are near, and where all are."""
    names = list(names)
    return f"expected a {kind}, got {name!r}{near(name, names)}; {where_all_are(kind, names)}"


def where_all_are(kind: str, names: Iterable[str]) -> str:
    """Say which command lists all names of a kind, or name those of which there are few."""
    return f"see eigenrnn list {kind}s" if kind in _LISTED else f"there are {', '.join(names)}"


def options_of(class_name: str) -> set[str]:
    """Collect the options that a registered class takes on the command line."""
    kinds = [kind for _, kinds in _KINDS.values() for kind in kinds.values()]
    return {name for kind in kinds if kind.__name__ == class_name for name in annotations_of(kind)}


def annotations_of(kind: type) -> dict[str, Any]:
    """Collect the type of each option that a registered class takes on the command line."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("eigenrnn")]
    parameters = [
        p for base in reversed(ours) for p in inspect.signature(base).parameters.values()
    ]
    not_taken = {"input_size", "hidden_size", "options"} | DECIDED_HERE
    return {p.name: p.annotation for p in parameters if p.name not in not_taken}


def in_arguments(arguments: list[str]) -> list[str]:
    """Put class paths for the names after ``--task``, ``--layer`` and its constraints.

    A bare ``--task.help`` asks about the task that is named elsewhere among the arguments.
    """
    translated: list[str] = []
    flags = {flag: kind for kind in _KINDS for flag in (f"--{kind}", f"--{kind}.help")}
    for argument in arguments:
        flag, equals, name = argument.partition("=")
        before = translated[-1] if translated else ""
        if equals and flag in flags:
            translated.append(f"{flag}={_path(flags[flag], name)}")
        elif before in flags and not argument.startswith("-"):
            translated.append(_path(flags[before], argument))
        else:
            translated.append(argument)
    if translated and translated[-1].endswith(".help") and translated[-1] in flags:
        translated.append(_asked_about(translated[-1], translated))
    return translated


def _asked_about(help_flag: str, arguments: list[str]) -> str:
    """Find the class path after the flag that a bare help flag asks about.

    Raises:
        ValueError: If there is none.
    """
    flag = help_flag.removesuffix(".help")
    named = [after for before, after in pairwise(arguments) if before == flag]
    if not named:
        noun, known = _KINDS[flag.removeprefix("--")]
        all_are = where_all_are(noun, known)
        raise ValueError(f"expected a {noun} after {help_flag}, got none; {all_are}")
    return named[-1]


def in_yaml(text: str) -> Any:
    """Load YAML, and put class paths for the names under ``task:`` and ``layer:``.

    Both ``task: copying`` and ``task: {name: copying, delay: 200}`` are understood.
    """
    content = load_yaml(text)
    return _in_mapping(content) if isinstance(content, dict) else content


def _in_mapping(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    for kind in _KINDS:
        key = kind.removeprefix(prefix)
        if key in content:
            content[key] = _entry(kind, content[key])
    return content


def _entry(kind: str, value: Any) -> Any:
    if isinstance(value, str):
        return _path(kind, value)
    if not isinstance(value, dict):
        return value
    if "name" in value:
        options = {key: option for key, option in value.items() if key != "name"}
        value = {"class_path": _path(kind, str(value["name"])), "init_args": options}
    if isinstance(value.get("init_args"), dict):
        _in_mapping(value["init_args"], f"{kind}.")
    return value


def _path(kind: str, name: str) -> str:
    """Look a name up; class paths stay as they are.

    Raises:
        ValueError: If there is no such name; lists the near ones.
    """
    noun, known = _KINDS[kind]
    if "." in name or name.startswith("{"):
        return name
    if name not in known:
        raise ValueError(unknown(noun, name, known))
    return class_path(known[name])
