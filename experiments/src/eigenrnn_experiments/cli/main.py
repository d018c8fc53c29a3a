"""The entry point of the command line; `--help` imports neither torch nor the recipes."""

import argparse
import sys
from collections.abc import Sequence
from signal import SIGINT

from eigenrnn import __version__

__all__ = ["COMMANDS", "SIGNALLED", "main"]

COMMANDS = {
    "list": "list constraints, layers, tasks, recipes and backends",
    "train": "train a layer on a task",
    "reproduce": "train the networks of a recipe and compare the results",
    "sweep": "train the networks of a grid or a search in parallel",
    "fit": "train a classifier or a regressor on a table",
    "predict": "apply a file of fit to a table, or a run on text to a text",
    "forecast": "continue the series of a table",
    "export": "export the trained network of a run to ONNX, torch.export or C",
    "analyse": "analyse the trained network of a run",
    "compare": "print the results of runs as one table",
    "report": "write an HTML report of runs",
    "collect": "record a data set that cannot be downloaded",
}
"""The commands, each a function of a module of its own, with their help."""

SIGNALLED = 128
"""Plus the number of a signal: the exit status of a program that it ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    User errors are printed in one line; ``EIGENRNN_DEBUG=1`` raises them instead.
    """
    if arguments is None:
        arguments = sys.argv[1:]
    argv = list(arguments)
    if argv[:1] in (["-h"], ["--help"]):
        print(_help(), end="")
        return 0
    if argv[:1] == ["--version"]:
        print(f"eigenrnn {__version__}")
        return 0
    try:
        # inside, because Ctrl-C may also arrive during the imports
        from eigenrnn_experiments.cli.commands import run

        return run(argv)
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
        return SIGNALLED + SIGINT


def _help() -> str:
    parser = argparse.ArgumentParser(
        prog="eigenrnn",
        description="Recurrent layers whose recurrent matrix has a spectrum that you choose.",
        epilog="See the options of a command: eigenrnn COMMAND --help",
    )
    parser.add_argument("--version", action="version", help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text)
    return parser.format_help()
