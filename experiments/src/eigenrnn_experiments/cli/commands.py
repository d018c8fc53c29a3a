"""Runs a command, and reports errors in one line."""

import os
from typing import Any

from jsonargparse import ArgumentError
from rich.text import Text

from eigenrnn_experiments.cli.main import COMMANDS, SIGNALLED
from eigenrnn_experiments.cli.parser import arguments_of, function_of, parser_of
from eigenrnn_experiments.errors import (
    NonFiniteLossError,
    StoppedError,
    is_out_of_memory,
    unknown_name,
)
from eigenrnn_experiments.training.progress import plain_console

__all__ = ["run"]

_USER_ERRORS = (
    ArgumentError,
    ValueError,
    TypeError,
    OSError,
    ImportError,
    MemoryError,
    NonFiniteLossError,
)


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
    try:
        function = function_of(command)
        return function(**arguments_of(parser_of(function), words), **passed)
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
    line = Text.assemble(("error:", "bold red"), " ", message)
    plain_console(stderr=True).print(line, soft_wrap=True, highlight=False)
