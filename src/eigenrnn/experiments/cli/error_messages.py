"""Translates errors of the argument parser into one line in the terms of this library."""

import re
from collections.abc import Mapping

from eigenrnn.experiments.cli.name_lookup import (
    did_you_mean,
    listing_hint,
    options_of,
    unknown_name,
)
from eigenrnn.experiments.registry import LAYERS, TASKS

__all__ = ["explain"]

_TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "NoneType": "null",
}
_MISSING = {
    "task": f"expected --task, got none; {listing_hint('task', TASKS)}",
    "action": "expected results collect or results write, got neither",
    "run": "expected the folder of a run or a checkpoint, got none",
    "file": "expected the YAML file of a sweep, got none",
    "what": "expected a data set to collect (car_racing), got none",
}


def explain(message: str, flags: Mapping[str, set[str]], command: str) -> str:
    """Return a message of one line, with similar names where a name is wrong.

    Args:
        message: The message of the parser or the library.
        flags: The options of each command.
        command: The command that the user typed.
    """
    explanation = (
        _unknown_command(message, flags)
        or _missing(message)
        or _unknown_option(message, flags.get(command, set()))
        or _misplaced_folder(message, command)
        or _wrong_value(message)
        or _wrong_class(message)
        or re.sub(r'Parser key "([\w.]+)":', r"\1:", message)
    )
    return " ".join(explanation.split())


def _unknown_command(message: str, flags: Mapping[str, set[str]]) -> str | None:
    if "subcommand" not in message:
        return None
    name = re.search(r"invalid choice: '(.*?)'", message)
    if name is not None:
        return unknown_name("command", name[1], flags)
    return f"expected a command among {', '.join(flags)}; see eigenrnn --help"


def _missing(message: str) -> str | None:
    found = re.search(r"following arguments are required: (?:\w+\.)?(\w+)", message)
    return _MISSING.get(found[1]) if found is not None else None


def _unknown_option(message: str, flags: set[str]) -> str | None:
    option = re.search(r"Option '(\w+)' is not accepted", message)
    owner = re.search(r"class_path[ =]'(?:\w+\.)*(\w+)'", message)
    if option is not None and owner is not None:
        hint = did_you_mean(option[1], options_of(owner[1]))
        return f"{owner[1]} takes no option {option[1]!r}{hint}"
    entry = re.search(r"Subcommand '(\w+)' does not accept option '([\w.]+)'", message)
    if entry is not None:
        return f"{entry[1]} takes no option {entry[2]!r}{did_you_mean(entry[2], flags)}"
    flag = re.search(r"[Uu]nrecognized arguments: --([\w.]+)", message)
    if flag is not None:
        return f"{message}{did_you_mean(f'--{flag[1]}', {f'--{name}' for name in flags})}"
    return None


def _misplaced_folder(message: str, command: str) -> str | None:
    """Explain a folder that follows the options of `results`."""
    found = re.search(r"[Uu]nrecognized arguments: ([^-].*)", message)
    if found is None or command != "results":
        return None
    return f"expected folders before the options, such as --archive, got {found[1]} after them"


def _wrong_class(message: str) -> str | None:
    key = re.search(r'Parser key "(task|layer)"', message)
    found = re.search(r"Expected '([\w.]+)' to be a subclass", message)
    if key is None or found is None:
        return None
    hint = listing_hint(key[1], TASKS if key[1] == "task" else LAYERS)
    return f"expected a {key[1]}, or a subclass of one, got {found[1]!r}; {hint}"


def _wrong_value(message: str) -> str | None:
    keys: list[str] = re.findall(r'Parser key "([\w.]+)"', message)
    value = re.search(
        r"(?:Got|Given) value: (.*?)(?:\. Got value: Namespace.*)?$", message, re.MULTILINE
    )
    choices = re.search(r"Expected a typing\.Literal\[(.*?)\]", message)
    kinds = re.findall(r"Expected an? <class '(\w+)'>", message)
    if not keys or value is None or not (choices or kinds):
        return None
    name = ".".join(keys)
    if choices is None:
        allowed = " or ".join(str(_TYPE_NAMES.get(kind, kind)) for kind in kinds)
        return f"expected {name} to be {allowed}, got {value[1]!r}"
    values = re.findall(r"'(.*?)'", choices[1])
    hint = did_you_mean(value[1], values)
    return f"expected {name} among {', '.join(values)}; got {value[1]!r}{hint}"
