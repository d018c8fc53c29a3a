"""The names that users type for tasks and layers, and what to say of those that do not exist."""

import difflib
import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from eigenrnn.registry import LAYERS, TASKS, class_path

__all__ = ["explain", "in_arguments", "in_yaml", "unknown"]

_KINDS: dict[str, Mapping[str, type]] = {"task": TASKS, "layer": LAYERS}


def near(name: str, names: Iterable[str]) -> str:
    """Suggest the names that are most like the given one, in parentheses, or nothing."""
    found = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    return f" (did you mean {' or '.join(found)}?)" if found else ""


def unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """Say that a name does not exist, and which ones do."""
    names = list(names)
    listed = ", ".join(names)
    return f"expected a {kind} among {listed}; got {name!r}{near(name, names)}"


def explain(message: str, flags: Iterable[str]) -> str:
    """Add the near names to what the parser says of an option that does not exist."""
    option = re.search(r"Option '(\w+)' is not accepted", message)
    owner = re.search(r"class_path[ =]'(?:\w+\.)*(\w+)'", message)
    if option is not None and owner is not None:
        options = _options_of(owner[1])
        return f"{owner[1]} takes no option {option[1]!r}{near(option[1], options)}"
    flag = re.search(r"[Uu]nrecognized arguments: --(\w+)", message)
    return message + (near(flag[1], flags) if flag is not None else "")


def _options_of(class_name: str) -> set[str]:
    """Collect what the constructors of a registered class take."""
    kinds = [kind for kinds in _KINDS.values() for kind in kinds.values()]
    bases = [base for kind in kinds if kind.__name__ == class_name for base in kind.__mro__]
    ours = [base for base in bases if base.__module__.startswith("eigenrnn")]
    names = {name for base in ours for name in inspect.signature(base).parameters}
    return names - {"input_size", "hidden_size", "generator", "options"}


def in_arguments(arguments: list[str]) -> list[str]:
    """Put class paths for the names after ``--task`` and ``--layer``."""
    translated = list(arguments)
    for kind in _KINDS:
        flag = f"--{kind}"
        for i, argument in enumerate(translated):
            if argument.startswith(f"{flag}="):
                translated[i] = f"{flag}={_path(kind, argument.removeprefix(f'{flag}='))}"
            elif i > 0 and translated[i - 1] == flag:
                translated[i] = _path(kind, argument)
    return translated


def in_yaml(text: str) -> Any:
    """Load YAML, and put class paths for the names under ``task:`` and ``layer:``.

    Both ``task: copying`` and ``task: {name: copying, delay: 200}`` are understood.
    """
    content = yaml.safe_load(text)
    if not isinstance(content, dict):
        return content
    for kind in _KINDS:
        if kind in content:
            content[kind] = _entry(kind, content[kind])
    return content


def _entry(kind: str, value: Any) -> Any:
    if isinstance(value, str):
        return _path(kind, value)
    if isinstance(value, dict) and "name" in value:
        options = {key: option for key, option in value.items() if key != "name"}
        return {"class_path": _path(kind, str(value["name"])), "init_args": options}
    return value


def _path(kind: str, name: str) -> str:
    """Look a name up; class paths stay as they are.

    Raises:
        ValueError: If there is no such name; lists the near ones.
    """
    if "." in name or name.startswith("{"):
        return name
    if name not in _KINDS[kind]:
        raise ValueError(unknown(kind, name, _KINDS[kind]))
    return class_path(_KINDS[kind][name])
