"""Replaces the names of tasks, layers and constraints by class paths, in arguments and YAML."""

import difflib
import inspect
import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import yaml

from eigenrnn.experiments.registry import CONSTRAINTS, LAYERS, TASKS, class_path

__all__ = [
    "PRESET_ARGUMENTS",
    "annotations_of",
    "did_you_mean",
    "listing_hint",
    "load_named_yaml",
    "load_yaml",
    "resolve_arguments",
    "resolve_names",
    "unknown_name",
]

PRESET_ARGUMENTS = frozenset({"batch_first", "device", "dtype", "generator", "proj_size"})
"""Arguments of layers that the command line sets itself, or that its models do not accept."""

_OPTIONS_THAT_NAME_CONSTRAINTS = (
    "constraint",
    # the gates of a GRU
    "reset",
    "update",
    "candidate",
    # the gates of an LSTM
    "input",
    "forget",
    "cell",
    "output",
)
_KINDS: dict[str, tuple[str, Mapping[str, type]]] = {
    "task": ("task", TASKS),
    "layer": ("layer", LAYERS),
    **{
        f"layer.{option}": ("constraint", CONSTRAINTS) for option in _OPTIONS_THAT_NAME_CONSTRAINTS
    },
}
_ALSO_A_WORD = "layer.output"  # of an RNN with complex states it is a word, such as "real"
_LISTED = ("constraint", "layer", "task", "recipe")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Suggest similar names in parentheses; empty if there are none."""
    found = difflib.get_close_matches(name, sorted(set(names) - {name}), n=3, cutoff=0.6)
    if not found:
        return ""
    return f" (did you mean {' or '.join(found)}?)"


def unknown_name(kind: str, name: str, names: Iterable[str]) -> str:
    """Return the message for an unknown name, with similar names and where to find all."""
    names = list(names)
    return (
        f"expected a {kind}, got {name!r}{did_you_mean(name, names)}; {listing_hint(kind, names)}"
    )


def listing_hint(kind: str, names: Iterable[str]) -> str:
    """Name the command that lists all names of a kind, or list them if there are few."""
    if kind in _LISTED:
        return f"see eigenrnn list {kind}s"
    return f"there are {', '.join(names)}"


def annotations_of(kind: type) -> dict[str, Any]:
    """Return the annotation of each option that a registered class accepts on the command line."""
    excluded = {"input_size", "hidden_size", "options"} | PRESET_ARGUMENTS
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):  # so that a class overrides its bases
        if not base.__module__.startswith("eigenrnn"):
            continue
        for name, parameter in inspect.signature(base).parameters.items():
            if name not in excluded:
                found[name] = parameter.annotation
    return found


def resolve_arguments(arguments: list[str]) -> list[str]:
    """Replace the names after ``--task``, ``--layer`` and its constraints by class paths.

    ``--task.help`` without a name refers to the task named elsewhere in the arguments.
    """
    translated: list[str] = []
    flags: dict[str, str] = {}
    for kind in _KINDS:
        flags[f"--{kind}"] = kind
        flags[f"--{kind}.help"] = kind
    before = ""
    for argument in arguments:
        flag, equals, name = argument.partition("=")
        if equals and flag in flags:
            translated.append(f"{flag}={_path(flags[flag], name)}")
        elif before in flags and not argument.startswith("-"):
            translated.append(_path(flags[before], argument))
        else:
            translated.append(argument)
        before = translated[-1]
    if translated and translated[-1].endswith(".help") and translated[-1] in flags:
        translated.append(_help_subject(translated[-1], translated))
    return translated


def _help_subject(help_flag: str, arguments: list[str]) -> str:
    """Return the class path that a help flag without a name refers to.

    Raises:
        ValueError: If the arguments name no such class.
    """
    flag = help_flag.removesuffix(".help")
    named = [after for before, after in pairwise(arguments) if before == flag]
    if not named:
        noun, known = _KINDS[flag.removeprefix("--")]
        hint = listing_hint(noun, known)
        raise ValueError(f"expected a {noun} after {help_flag}, got none; {hint}")
    return named[-1]


def load_named_yaml(text: str) -> Any:
    """Load YAML, and replace the names under ``task:`` and ``layer:`` by class paths.

    Both ``task: copying`` and ``task: {name: copying, delay: 200}`` are accepted.
    """
    content = load_yaml(text)
    if not isinstance(content, dict):
        return content
    return resolve_names(content)


def resolve_names(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Replace the names under ``task`` and ``layer`` of some options by class paths, in place."""
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
        resolve_names(value["init_args"], f"{kind}.")
    return value


def _path(kind: str, name: str) -> str:
    """Return the class path of a name; class paths are returned unchanged.

    Raises:
        ValueError: If the name is unknown; suggests similar names.
    """
    noun, known = _KINDS[kind]
    # a class path, or a class with its options as JSON
    if "." in name or name.startswith("{"):
        return name
    if name not in known:
        if kind == _ALSO_A_WORD:
            return name
        raise ValueError(unknown_name(noun, name, known))
    return class_path(known[name])


_MERGE = "tag:yaml.org,2002:merge"  # of the key <<, which YAML defines


class _Loader(yaml.SafeLoader):
    """Reads the keys of mappings as texts, each once, and values by the rules of YAML 1.2.

    By those of YAML 1.1, which PyYAML follows, 010 is eight, 1:30 is ninety and no is false. Here
    010 is ten, 1:30 is an error and no is a text.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012, as PyYAML declares it

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        lines: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.tag != _MERGE:
                key.tag = self.DEFAULT_SCALAR_TAG
            line = key.start_mark.line + 1
            if key.value in lines:
                raise yaml.YAMLError(
                    f"expected the key {key.value!r} once, got it in the lines "
                    f"{lines[key.value]} and {line}: delete one"
                )
            lines[key.value] = line
        return node


def _refuse_base60(_loader: _Loader, node: yaml.ScalarNode) -> None:
    raise yaml.YAMLError(
        f"expected a decimal number, or a text in quotes, got {node.value} in line "
        f"{node.start_mark.line + 1}"
    )


for _tag, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", "[-+]?[0-9]+", "-+0123456789"),
    (
        "float",
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    # a text of YAML 1.2, which jsonargparse would read by YAML 1.1 for an option of numbers
    ("base60", r"[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9]*)?", "-+0123456789"),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", "<<", "<"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^({_pattern})$"), list(_first)
    )
_Loader.add_constructor("tag:yaml.org,2002:int", lambda _, node: int(node.value))
_Loader.add_constructor("tag:yaml.org,2002:base60", _refuse_base60)


def load_yaml(text: str) -> Any:
    """Load a YAML document by PyYAML's safe loader.

    Keys are texts: 1 and yes name classes as they are written.

    Raises:
        YAMLError: If the text is not YAML, or has a key twice.
    """
    loader = _Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
