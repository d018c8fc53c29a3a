"""What is wrong with arguments that the parser refused, in the terms of this library.

The parser reports an error as text. Its words are not read here: the arguments are looked at
again, one by one, and the first that no option accepts is named.
"""

import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from eigenrnn.experiments.cli.name_lookup import (
    annotations_of,
    did_you_mean,
    listing_hint,
    load_named_yaml,
)
from eigenrnn.experiments.cli.parser import PARSERS, Parser, default_layer, members
from eigenrnn.experiments.registry import LAYERS, TASKS, registered

__all__ = ["diagnose", "named_class"]

_TYPE_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
    types.NoneType: "null",
    tuple[int, ...]: "a list of whole numbers",
    tuple[str, ...]: "a list of strings",
    dict[str, float]: "a number for each name, such as {a: 2, b: 0.5}",
}
_KINDS = {"task": TASKS, "layer": LAYERS}
_HELP = ".help"


@dataclass
class _Given:
    """The arguments of a call.

    Args:
        options: Names and values, such as ``("task.delay", "200")``, in the order of the call.
        positionals: The arguments without a flag.
    """

    options: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    positionals: list[str] = field(default_factory=list[str])

    def value(self, name: str) -> Any:
        """Return the last value of an option, or None."""
        return dict(self.options).get(name)


def diagnose(arguments: Sequence[str], command: str) -> str | None:
    """Return what is wrong with the arguments of a command; None if nothing is found.

    Args:
        arguments: The arguments that the parser refused, with class paths in place of names.
        command: The command that the user typed.
    """
    parser = PARSERS[command]()
    given = _read(arguments, parser)
    # over a copy, because the options of the file are added
    for name, value in list(given.options):
        if name == "config":
            content = _from_file(value)
            if isinstance(content, str):
                return content
            given.options.extend(_flattened(content))
    if command == "train" and given.value("task") is None:
        return f"expected --task, got none; {listing_hint('task', TASKS)}"
    missing = list(parser.positionals.values())[len(given.positionals) :]
    if missing:
        return f"expected {missing[0]}, got none"
    for name, value in given.options:
        wrong = _unknown(name, given, command, parser) or _wrong_value(name, value, given, parser)
        if wrong is not None:
            return wrong
    return None


def named_class(option: str, arguments: Sequence[str], parser: Parser) -> Any:
    """Return the task or layer that the arguments of `train` or their file name, if they do."""
    given = _read(arguments, parser)
    name = given.value(option)
    file = given.value("config")
    if name is None and file is not None:
        content = _from_file(file)
        if isinstance(content, dict):
            name = dict(_flattened(content)).get(option)
    return name


def _read(arguments: Sequence[str], parser: Parser) -> _Given:
    """Read flags and their values."""
    given = _Given()
    remaining = list(arguments)
    while remaining:
        argument = remaining.pop(0)
        if not argument.startswith("-") or argument == "-":
            given.positionals.append(argument)
            continue
        flag, equals, value = argument.lstrip("-").partition("=")
        if not equals and flag not in parser.flags and remaining and _is_value(remaining[0]):
            value = remaining.pop(0)
        given.options.append((flag, value))
    return given


def _is_value(argument: str) -> bool:
    """Whether an argument is no flag: text, a number below zero, or a dash."""
    return not argument.startswith("-") or argument[1:2].isdigit() or argument == "-"


def _from_file(path: str) -> dict[str, Any] | str:
    """Return the options in a configuration file, or why there are none."""
    try:
        content = load_named_yaml(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, yaml.YAMLError) as error:
        return f"expected a YAML file of options, got {path}: {error}"
    if not isinstance(content, dict):
        return f"expected options such as task in {path}, got {content!r}"
    return cast("dict[str, Any]", content)


def _flattened(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the options of nested classes by names such as ``task.delay``."""
    for key, value in content.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and "class_path" in value:
            yield name, value["class_path"]
            options = value.get("init_args")
            if isinstance(options, dict):
                yield from _flattened(cast("dict[str, Any]", options), f"{name}.")
        else:
            yield name, value


def _owner(name: str, given: _Given) -> type | None:
    """Return the class that an option such as ``task.delay`` belongs to, if it is registered."""
    owner, dot, _ = name.rpartition(".")
    if not dot:
        return None
    path = given.value(owner)
    if path is None and owner == "layer":
        path = default_layer(given.value("task"))
    if isinstance(path, str):
        found = registered().get(path)
        if isinstance(found, type):
            return found
    outer = _owner(owner, given)
    if outer is None:
        return None
    # an option that is a dataclass itself, such as the names of the columns of a table
    option = annotations_of(outer).get(owner.rpartition(".")[2])
    if isinstance(option, type) and is_dataclass(option):
        return option
    return None


def _unknown(name: str, given: _Given, command: str, parser: Parser) -> str | None:
    """Return the message for an option that nothing accepts, or None."""
    name = name.removesuffix(_HELP)
    owner = _owner(name, given)
    if owner is not None:
        option = name.rpartition(".")[2]
        known = annotations_of(owner)
        if option in known:
            return None
        return f"{owner.__name__} takes no option {option!r}{did_you_mean(option, known)}"
    # one letter is a short flag, such as -o, which `annotations` has under its long name
    if "." in name or len(name) == 1 or name in parser.annotations:
        return None
    return f"{command} takes no option {name!r}{did_you_mean(name, parser.annotations)}"


def _wrong_value(name: str, value: Any, given: _Given, parser: Parser) -> str | None:
    """Return the message for a value that its option does not accept, or None."""
    if name in _KINDS:
        return _wrong_class(name, value)
    owner = _owner(name, given)
    known = parser.annotations
    if owner is not None:
        known = annotations_of(owner)
    annotation = known.get(name.rpartition(".")[2])
    choices: list[Any] = []
    plain: list[Any] = []
    for kind in members(annotation):
        if get_origin(kind) is Literal:
            choices += get_args(kind)
        else:
            plain.append(kind)
    # what the lists below cannot explain is left to the message of the parser
    if any(kind not in _TYPE_NAMES for kind in plain) or _accepts(annotation, value):
        return None
    if choices:
        hint = did_you_mean(str(value), choices)
        others = [f", or {_TYPE_NAMES[kind]}" for kind in plain if kind is not types.NoneType]
        return f"expected {name} among {', '.join(choices)}{''.join(others)}; got {value!r}{hint}"
    allowed = " or ".join(_TYPE_NAMES[kind] for kind in plain)
    return f"expected {name} to be {allowed}, got {value!r}"


def _wrong_class(name: str, path: Any) -> str | None:
    """Return the message for a class that is no task or layer, or None."""
    known = _KINDS[name]
    if isinstance(path, str) and registered().get(path) in known.values():
        return None
    return f"expected a {name}, or a subclass of one, got {path!r}; {listing_hint(name, known)}"


def _accepts(annotation: Any, value: Any) -> bool:
    """Whether the parser accepts a value for an option of this type."""
    parser = ArgumentParser(exit_on_error=False, parser_mode="eigenrnn")
    parser.add_argument("--value", type=annotation)
    try:
        if isinstance(value, str):
            parser.parse_args([f"--value={value}"])
        else:
            parser.parse_object({"value": value})
    except ArgumentError:
        return False
    return True
