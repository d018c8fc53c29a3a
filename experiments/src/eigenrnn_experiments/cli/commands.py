"""Runs a command: its function, the parser of its options, and errors in one line."""

import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from itertools import pairwise
from pkgutil import resolve_name
from typing import Any, cast, get_args, get_origin

import docstring_parser
import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace, get_loader, set_loader
from rich.text import Text

from eigenrnn.memory import keep_freed_memory
from eigenrnn_experiments.cli.main import COMMANDS, SIGNALLED
from eigenrnn_experiments.console import say
from eigenrnn_experiments.errors import (
    NonFiniteLossError,
    StoppedError,
    is_out_of_memory,
    unknown_name,
)
from eigenrnn_experiments.tasks.base import Task, check_task

__all__ = ["arguments_of", "function_of", "load_yaml", "parser_of", "run"]

_SIGPIPE = 13  # which the module signal lacks on Windows

_USER_ERRORS = (
    ArgumentError,
    ValueError,
    TypeError,
    OSError,
    ImportError,
    MemoryError,
    NonFiniteLossError,
)


_load_yaml = get_loader("yaml")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C is seven times as fast


def load_yaml(text: str) -> Any:
    """Read a file or a value as jsonargparse does, but with each key once.

    Raises:
        yaml.YAMLError: If it is no YAML, or a key occurs twice.
    """
    _check_keys(yaml.compose(text, Loader=_LOADER))
    return _load_yaml(text)


set_loader("yaml", load_yaml, exceptions=(yaml.YAMLError,))


def _check_keys(node: yaml.Node | None) -> None:
    """Check that each key occurs once. YAML would keep the last of several.

    Raises:
        yaml.YAMLError: If one is.
    """
    if isinstance(node, yaml.SequenceNode):
        for each in node.value:
            _check_keys(each)
    if isinstance(node, yaml.MappingNode):
        keys = (key for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        names = Counter((key.tag, key.value) for key in keys)
        for (_, name), count in names.items():
            if count > 1:
                raise yaml.YAMLError(f"expected each key once, got {name} {count} times")
        for _, value in node.value:
            _check_keys(value)


def run(arguments: list[str], **passed: Any) -> int:
    """Run the command named by the first argument; return the exit status.

    Args:
        arguments: The words after the name of the program.
        passed: Further arguments of the function of the command, which are no options.
    Raises:
        RuntimeError: If torch raises one, but for a lack of memory.
    """
    command, *words = arguments or [""]
    if not command or command.startswith("-"):
        _print_error(f"expected a command among {', '.join(COMMANDS)}; see eigenrnn --help")
        return 2
    if command not in COMMANDS:
        _print_error(unknown_name("command", command, COMMANDS))
        return 2
    keep_freed_memory()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # in a notebook it is none
            stream.reconfigure(errors="backslashreplace")  # a terminal may know ASCII only
    try:
        function = function_of(command)
        status = function(**arguments_of(parser_of(function), words), **passed)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # who reads the output, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SIGNALLED + _SIGPIPE
    except StoppedError as stopped:
        _print_error(str(stopped))
        return SIGNALLED + stopped.signal
    except (*_USER_ERRORS, RuntimeError) as error:
        is_ours = isinstance(error, _USER_ERRORS) or is_out_of_memory(error)
        if not is_ours or os.environ.get("EIGENRNN_DEBUG"):
            raise
        message = " ".join(str(error).split())
        if isinstance(error, ArgumentError):
            message += f"; see eigenrnn {command} --help"
        _print_error(message)
        return 2


def _print_error(message: str) -> None:
    # a text by itself, so that brackets in a message are no markup
    say(Text.assemble(("error:", "bold red"), " ", message), stderr=True)


def function_of(command: str) -> Callable[..., int]:
    """Return the function of a command, from the module that has its name too."""
    return getattr(import_module(f"eigenrnn_experiments.cli.{command}"), command)


def parser_of(function: Callable[..., Any], skip: Collection[str] = ("known",)) -> ArgumentParser:
    """Return the parser of a function, whose docstring is the help.

    An option is a keyword. A bool is a flag and a sequence takes several words: jsonargparse alone
    would expect one value of each.

    Args:
        function: The function.
        skip: The parameters that are no options.
    """
    documentation = docstring_parser.parse(inspect.getdoc(function) or "")
    help_of = {each.arg_name: each.description for each in documentation.params}
    parser = ArgumentParser(
        prog=f"eigenrnn {function.__name__}",
        description=documentation.description,
        exit_on_error=False,  # errors are raised, and `run` prints them in one line
    )
    parser.add_argument("--config", action="config", help="A YAML file with these options.")
    flags: list[str] = []
    sequences: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.annotation is bool:
            flags.append(name)
        elif get_origin(parameter.annotation) is Sequence:
            sequences[name] = parameter
    skipped: set[str | int] = {*skip, *flags, *sequences}
    parser.add_function_arguments(function, as_group=False, as_positional=True, skip=skipped)
    for name, parameter in sequences.items():
        words: dict[str, Any] = {"type": get_args(parameter.annotation)[0], "nargs": "+"}
        option = name
        if parameter.kind is parameter.KEYWORD_ONLY:
            option = f"--{name}"
            words["default"] = ()
        elif parameter.default == ():
            words |= {"nargs": "*", "default": ()}
        parser.add_argument(option, help=help_of[name], **words)
    for name in flags:
        parser.add_argument(f"--{name}", help=help_of[name], action="store_true")
    return parser


def arguments_of(parser: ArgumentParser, words: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of a function, which the words of a command line describe.

    Raises:
        ArgumentError: If the parser refuses a word.
        TypeError: If a task of the user's own lacks a method; the message names all that it lacks.
        ValueError: If an option of a layer comes without a layer, or an option of several values
            comes twice.
    """
    given = [word.partition("=")[0] for word in words]
    flags = set(given)
    for name, default in vars(parser.get_defaults()).items():
        flag = f"--{name}"
        if default == () and given.count(flag) > 1:  # the parser keeps the last one alone
            raise ValueError(
                f"expected {flag} once, got it twice: several values follow one {flag}"
            )
    of_layer = sorted(flag for flag in flags - {"--layer.help"} if flag.startswith("--layer."))
    if of_layer and not flags & {"--layer", "--config"}:
        raise ValueError(f"expected --layer, the class that {of_layer[0]} is of, got none")
    for flag, name in pairwise(words):
        # the parser would say that a class is abstract, and not which methods it lacks
        if flag == "--task" and "." in name:
            with suppress(ImportError, AttributeError, ValueError):
                kind = resolve_name(name)
                if isinstance(kind, type) and issubclass(kind, Task):
                    check_task(kind)
    options = parser.parse_args(list(words))
    arguments = parser.instantiate(options)
    if isinstance(options.get("layer"), Namespace):  # its record states the options that differ
        arguments.layer = _call(options.layer.as_dict())
    arguments.pop("config", None)
    return vars(arguments)


def _call(value: Any) -> Any:
    """Return a parsed class, with the options that differ from its defaults as a partial."""
    if not isinstance(value, dict) or "class_path" not in value:
        return value
    entries = cast("dict[str, Any]", value)
    kind = resolve_name(entries["class_path"])
    options: dict[str, Any] = {}
    parameters = inspect.signature(kind).parameters
    for name, stated in entries.get("init_args", {}).items():
        option = _call(stated)
        if name not in parameters or option != parameters[name].default:
            options[name] = option
    if not options:
        return kind
    return partial(kind, **options)
