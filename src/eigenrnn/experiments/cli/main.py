"""The entry point of the command line; a request for help imports neither torch nor a recipe."""

import argparse
import sys
from collections.abc import Sequence
from signal import SIGINT

from eigenrnn import __version__

__all__ = ["COMMANDS", "main"]

COMMANDS = {
    "list": "list constraints, layers, tasks, recipes and backends by name",
    "train": "train a layer on a task",
    "reproduce": "run a published experiment",
    "sweep": "train many networks at once, on one machine or several",
    "analyse": "analyse the trained network of a run",
    "report": "write runs as one HTML page",
    "results": "archive runs of recipes, and write RESULTS.md from the archive",
    "bench": "time the recurrences beside torch's",
    "collect": "record the data of a task that has none to download",
}
"""What each command does, by its name."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    An error that the user can mend is printed in one line; ``EIGENRNN_DEBUG=1`` raises it instead.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["-h"], ["--help"]):
        print(_help(), end="")
        return 0
    if given[:1] == ["--version"]:
        print(f"eigenrnn {__version__}")
        return 0
    try:
        from eigenrnn.experiments.cli.commands import run  # imports torch and all recipes

        return run(given)
    except KeyboardInterrupt:
        print("error: stopped", file=sys.stderr)
        return 128 + SIGINT  # what a shell reports of a program that Ctrl-C ended


def _help() -> str:
    parser = argparse.ArgumentParser(
        prog="eigenrnn",
        description="Recurrent layers whose recurrent matrix has a spectrum that you choose.",
        epilog="Options of a command: eigenrnn COMMAND --help",
    )
    parser.add_argument("--version", action="version", help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text)
    return parser.format_help()
