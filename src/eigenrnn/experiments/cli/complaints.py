"""What to say of options that cannot be understood: one line, in the words of this library."""

import re
from collections.abc import Mapping

from eigenrnn.experiments.cli.names import near, options_of, unknown, where_all_are
from eigenrnn.experiments.registry import LAYERS, TASKS

__all__ = ["explain"]

_KINDS_OF_VALUE = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
    "NoneType": "null",
}
_MISSING = {
    "task": f"expected --task, got none; {where_all_are('task', TASKS)}",
    "action": "expected results collect or results write, got neither",
    "run": "expected the folder of a run or a checkpoint; got none",
    "file": "expected the file of a sweep; got none",
    "what": "expected the data to collect, car_racing, got none",
}


def explain(message: str, flags: Mapping[str, set[str]], command: str) -> str:
    """Say in one line what is wrong, with the near names.

    Args:
        message: What the parser or the library says.
        flags: The options of each command.
        command: The command that was given.
    """
    said = (
        _wrong_command(message, flags)
        or _missing(message)
        or _no_such_option(message, flags.get(command, set()))
        or _in_the_wrong_place(message, command)
        or _wrong_value(message)
        or _wrong_class(message)
        or re.sub(r'Parser key "([\w.]+)":', r"\1:", message)
    )
    return " ".join(said.split())


def _wrong_command(message: str, flags: Mapping[str, set[str]]) -> str | None:
    if "subcommand" not in message:
        return None
    given = re.search(r"invalid choice: '(.*?)'", message)
    if given is not None:
        return unknown("command", given[1], flags)
    return f"expected a command among {', '.join(flags)}; see eigenrnn --help"


def _missing(message: str) -> str | None:
    found = re.search(r"following arguments are required: (?:\w+\.)?(\w+)", message)
    return _MISSING.get(found[1]) if found is not None else None


def _no_such_option(message: str, flags: set[str]) -> str | None:
    option = re.search(r"Option '(\w+)' is not accepted", message)
    owner = re.search(r"class_path[ =]'(?:\w+\.)*(\w+)'", message)
    if option is not None and owner is not None:
        return f"{owner[1]} takes no option {option[1]!r}{near(option[1], options_of(owner[1]))}"
    entry = re.search(r"Subcommand '(\w+)' does not accept option '([\w.]+)'", message)
    if entry is not None:
        return f"{entry[1]} takes no option {entry[2]!r}{near(entry[2], flags)}"
    flag = re.search(r"[Uu]nrecognized arguments: --([\w.]+)", message)
    if flag is not None:
        return f"{message}{near(f'--{flag[1]}', {f'--{name}' for name in flags})}"
    return None


def _in_the_wrong_place(message: str, command: str) -> str | None:
    """Explain what is read as the value of no option."""
    found = re.search(r"[Uu]nrecognized arguments: ([^-].*)", message)
    if found is None or command != "results":
        return None
    return f"expected folders before the options, such as --archive, got {found[1]} after them"


def _wrong_class(message: str) -> str | None:
    key = re.search(r'Parser key "(task|layer)"', message)
    given = re.search(r"Expected '([\w.]+)' to be a subclass", message)
    if key is None or given is None:
        return None
    all_are = where_all_are(key[1], TASKS if key[1] == "task" else LAYERS)
    return f"expected a {key[1]}, or a subclass of one, got {given[1]!r}; {all_are}"


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
        allowed = " or ".join(str(_KINDS_OF_VALUE.get(kind, kind)) for kind in kinds)
        return f"expected {name} to be {allowed}, got {value[1]!r}"
    listed = re.findall(r"'(.*?)'", choices[1])
    return f"expected {name} among {', '.join(listed)}; got {value[1]!r}{near(value[1], listed)}"
