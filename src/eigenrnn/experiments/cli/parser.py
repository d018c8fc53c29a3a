"""The commands and their options."""

import inspect
from argparse import SUPPRESS, Action
from collections.abc import Callable
from inspect import Parameter
from typing import Any

import yaml
from jsonargparse import ArgumentParser, DefaultHelpFormatter, set_loader

from eigenrnn import __version__
from eigenrnn.experiments.cli import names
from eigenrnn.experiments.cli.main import COMMANDS
from eigenrnn.experiments.registry import LAYERS, TASKS
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Settings
from eigenrnn.experiments.training.settings import Accelerator
from eigenrnn.layers import LSTM, TanhRNN, TorchGRU
from eigenrnn.layers.stacked import Stacked

__all__ = ["Parser", "commands"]

set_loader("eigenrnn", names.in_yaml, exceptions=(yaml.YAMLError,))


class _Help(DefaultHelpFormatter):
    """Leaves out what Python calls the types of tasks and layers."""

    def _get_help_string(self, action: Action) -> str:
        named = action.dest in {"task", "layer"}
        return action.help or "" if named else super()._get_help_string(action)


class Parser(ArgumentParser):
    """A parser of this program; those of the options of a task or a layer are of its kind too."""

    def __init__(self, description: str = "", **options: Any) -> None:
        options |= {"exit_on_error": False, "parser_mode": "eigenrnn", "formatter_class": _Help}
        super().__init__(description=description, **options)

    def add_class_arguments(self, theclass: Any, *args: Any, **options: Any) -> Any:
        skip = {*(options.pop("skip", None) or ()), *names.DECIDED_HERE}
        added = super().add_class_arguments(theclass, *args, skip=skip, **options)
        own = inspect.signature(theclass).parameters
        if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in own.values()):
            for action in self._actions:
                # a base class has other defaults than the class, which passes its own on
                if action.dest.partition(".")[0] not in own:
                    action.default = SUPPRESS
        return added

    @classmethod
    def of_everything(cls) -> "Parser":
        """Make the parser of the whole program."""
        parser = cls(
            "Recurrent layers whose recurrent matrix has a spectrum that you choose.",
            prog="eigenrnn",
            version=__version__,
        )
        subcommands = parser.add_subcommands(required=True, dest="subcommand")
        for name, (command, about) in commands().items():
            subcommands.add_subcommand(name, command, help=about)
        return parser


def commands() -> dict[str, tuple[Parser, str]]:
    """Make the parser of each command, and say what the command does."""
    make = {
        "list": _list,
        "train": _train,
        "reproduce": _reproduce,
        "sweep": _sweep,
        "analyse": _analyse,
        "report": _report,
        "results": _results,
        "bench": _bench,
        "collect": _collect,
    }
    return {name: (make[name](), about) for name, about in COMMANDS.items()}


def _list() -> Parser:
    parser = Parser("List what there is, by the names that the other commands take.")
    parser.add_argument("kind", nargs="?", help="constraints, layers, tasks, recipes or backends")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser


def _train() -> Parser:
    parser = Parser("Train a recurrent layer on a task.")
    parser.add_argument("--config", action="config", help="a YAML file of these options")
    parser.add_argument(
        "--task",
        type=Task,
        required=True,
        help=f"{', '.join(TASKS)}; its options as --task.OPTION, see --task.help TASK (required)",
    )
    parser.add_argument(
        "--layer",
        type=Callable[[int, int], Stacked[Any] | LSTM | TorchGRU | TanhRNN],
        default="eigenrnn.layers.ScoRNN",
        help=f"{', '.join(LAYERS)}; its options as --layer.OPTION, see --layer.help LAYER "
        "(default: scornn)",
    )
    parser.add_argument("--hidden_size", type=int, default=128, help="the number N of units")
    parser.add_argument(
        "--embedding_size",
        type=int,
        help="for a task that reads symbols, how long a symbol's vector is (default: N)",
    )
    parser.add_class_arguments(Settings, None)
    _add_run_arguments(parser, "runs/TASK-LAYER-N")
    return parser


def _reproduce() -> Parser:
    parser = Parser("Run a published experiment and set its numbers beside ours.")
    parser.add_argument("recipe", nargs="?", help="its name, see: eigenrnn list recipes")
    parser.add_argument(
        "--all",
        action="store_true",
        help="all recipes, what says most for its time first; goes on where it stopped",
    )
    parser.add_argument(
        "--plan", action="store_true", help="with --all: print what is left and run nothing"
    )
    parser.add_argument(
        "--archive",
        type=str,
        help="with --all: the archive of runs, which are not made again (default: results)",
    )
    parser.add_argument("--rows", nargs="+", type=str, help="parts of the labels of those to run")
    parser.add_argument("--seeds", nargs="+", type=int, help="in place of the recipe's")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="a few steps a row: shows that it runs, reaches nothing",
    )
    _add_run_arguments(parser, "runs/RECIPE, with --quick runs/RECIPE-quick; with --all: runs")
    return parser


def _sweep() -> Parser:
    parser = Parser(
        "Train the networks of a grid or of a search, as many at once as there are processors. "
        "Needs: pip install 'eigenrnn[sweep]'."
    )
    parser.add_argument("file", help="a YAML file that says what is tried, see docs/sweeps.md")
    parser.add_argument(
        "--address", type=str, help="HOST:PORT of a Ray cluster (default: this machine alone)"
    )
    parser.add_argument(
        "--out",
        type=str,
        help="the folder to write to, which all machines see (default: runs/FILE)",
    )
    parser.add_argument("--resume", action="store_true", help="go on with what is there")
    parser.add_argument("--overwrite", action="store_true", help="delete what is there")
    parser.add_argument(
        "--trials_at_once", type=int, help="how many may run at once (default: as many as fit)"
    )
    return parser


def _analyse() -> Parser:
    parser = Parser(
        "Analyse the trained network of a run: spectra, memory, gradients, dynamics. Prints the "
        "numbers and writes a picture and a table of each."
    )
    parser.add_argument("run", help="the folder of a run, or one of its checkpoints")
    parser.add_argument(
        "--out", type=str, help="the folder to write to (default: analysis in that of the run)"
    )
    parser.add_argument("--data_root", type=str, help="the folder of the data files")
    return parser


def _report() -> Parser:
    parser = Parser(
        "Write runs as one HTML page that opens offline: tables, curves, eigenvalues over "
        "training, Schur forms, gradients, memory. Needs: pip install 'eigenrnn[report]'."
    )
    parser.add_argument(
        "runs", nargs="+", type=str, help="folders of runs or of recipes, or of many of them"
    )
    parser.add_argument(
        "-o",
        "--out",
        type=str,
        default="report.html",
        help="the file to write; an earlier report is replaced",
    )
    parser.add_argument("--title", type=str, help="the heading of the page")
    parser.add_argument("--data_root", type=str, help="the folder of the data files")
    return parser


def _results() -> Parser:
    parser = Parser(
        "Archive the runs of recipes as one small file each, or write the page of all of them, "
        "the papers' numbers beside ours."
    )
    parser.add_argument("action", help="collect or write")
    parser.add_argument(
        "folders",
        nargs="*",
        type=str,
        help="to collect: folders of recipes that were run, or of many of them",
    )
    parser.add_argument("--archive", type=str, default="results", help="the folder of the archive")
    parser.add_argument(
        "--unfinished",
        action="store_true",
        help="to collect: runs that have not ended too, as such; they do not count",
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="to collect: replace an archived run by another one of the same name",
    )
    parser.add_argument(
        "--out", type=str, default="RESULTS.md", help="to write: the file; it is replaced"
    )
    parser.add_argument("--data_root", type=str, help="the folder of the data files")
    return parser


def _bench() -> Parser:
    parser = Parser("Time the recurrences on this machine beside torch's own layers.")
    parser.add_argument(
        "--sizes", nargs="+", type=str, help="T,B,N of each table (default: those of the papers)"
    )
    parser.add_argument("--rounds", type=int, default=7, help="how many rounds count")
    parser.add_argument(
        "--all",
        action="store_true",
        help="loops over torch's cells, memory, streaming and growth too; needs geotorch",
    )
    parser.add_argument("--json", type=str, help="a file to write all rounds to")
    return parser


def _collect() -> Parser:
    parser = Parser(
        "Record random drives of CarRacing, train an autoencoder on them, and encode them for the "
        "task car_racing. The same command again goes on with what is there."
    )
    parser.add_argument("what", help="car_racing")
    parser.add_argument("--rollouts", type=int, default=300, help="how many drives")
    parser.add_argument("--steps", type=int, default=1_000, help="how many steps each has")
    parser.add_argument("--epochs", type=int, default=10, help="those of the autoencoder")
    parser.add_argument("--seed", type=int, default=0, help="that of everything")
    parser.add_argument(
        "--processes", type=int, help="how many record at once (default: one for each core)"
    )
    parser.add_argument(
        "--accelerator", type=Accelerator, default="auto", help="where the autoencoder is trained"
    )
    parser.add_argument(
        "--out", type=str, default="runs/car_racing", help="the folder to write to"
    )
    return parser


def _add_run_arguments(parser: Parser, default: str) -> None:
    parser.add_argument(
        "--dynamics_every",
        type=int,
        help="write down spectra and gradients so often, in steps (default: never)",
    )
    parser.add_argument(
        "--max_minutes",
        type=float,
        help="how long each run may train, from which it can go on (default: to its end)",
    )
    parser.add_argument("--data_root", type=str, help="the folder of the data files")
    parser.add_argument("--out", type=str, help=f"the folder to write to (default: {default})")
    parser.add_argument("--resume", action="store_true", help="go on with what is there")
    parser.add_argument("--overwrite", action="store_true", help="delete what is there")
