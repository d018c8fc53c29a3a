"""The parser of each command."""

import inspect
import re
import types
from argparse import SUPPRESS, Action
from collections.abc import Callable, Sequence
from inspect import Parameter
from pathlib import Path
from shutil import get_terminal_size
from typing import Any, Literal, Union, cast, get_args, get_origin

import yaml
from jsonargparse import ArgumentParser, DefaultHelpFormatter, set_loader

from eigenrnn.constraints import Constraint
from eigenrnn.experiments.cli import name_lookup
from eigenrnn.experiments.cli.name_lookup import annotations_of
from eigenrnn.experiments.data.sequences import Sequences
from eigenrnn.experiments.registry import LAYERS, TASKS, class_path
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Settings
from eigenrnn.experiments.training.settings import Accelerator
from eigenrnn.layers import TanhRNN, TorchGRU, TorchLSTM
from eigenrnn.layers.stacked import Stacked

__all__ = ["PARSERS", "Parser", "default_layer", "members"]

# the `parser_mode` of all parsers below: YAML in which names stand for class paths
set_loader("eigenrnn", name_lookup.load_named_yaml, exceptions=(yaml.YAMLError,))

_DEFAULT_LAYERS = {
    "copying": "scornn",
    "denoise": "nnrnn",
    "adding": "ncgru",
    "pixel_mnist": "lru",
    "char_ptb": "tanhrnn",
    "enwik8": "tanhrnn",
    "text": "tanhrnn",
    "word_ptb": "tanhrnn",
}


def default_layer(task: object) -> str:
    """Return the class path of the layer that `train` takes for a task, as the page on choosing.

    Args:
        task: The class path of the task; another value gives the layer for short series.
    """
    names = {class_path(kind): name for name, kind in TASKS.items()}
    return class_path(LAYERS[_DEFAULT_LAYERS.get(names.get(str(task), ""), "gru")])


_WIDTH = 98  # of help, also on wider terminals
_MATH = re.compile(r":math:`([^`]*)`")


def members(annotation: object) -> tuple[Any, ...]:
    """Return the types of a union, or the type itself."""
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _kind(annotation: object) -> str:
    """Return what an option takes in words; empty if the usage shows it, or for plain text."""
    if get_origin(annotation) is Literal:
        return ""
    kinds: list[str] = []
    for member in members(annotation):
        origin = get_origin(member)
        if origin is Literal:
            kinds.append(", ".join(map(str, get_args(member))))
        elif origin in (tuple, list, Sequence):
            kinds.append(f"list of {_kind(get_args(member)[0]) or 'str'}")
        elif origin is Callable and get_args(member)[-1] is Constraint:
            kinds.append("a name of eigenrnn list constraints")
        elif member in (int, float):
            kinds.append(member.__name__)
        elif member not in (None, types.NoneType, str, Path, bool, Sequences):
            kinds.append(getattr(member, "__name__", ""))
    return " or ".join(filter(None, kinds))


class _Help(DefaultHelpFormatter):
    """Shows types in words, defaults that say something, and formulas without their markup."""

    def __init__(self, prog: str, **options: Any) -> None:
        # two less, as argparse itself
        columns = get_terminal_size().columns - 2
        super().__init__(prog, **{"width": min(columns, _WIDTH), **options})

    def _get_help_string(self, action: Action) -> str:
        details: list[str] = []
        kind = getattr(action, "kind", "")
        if kind:
            details.append(kind)
        default = getattr(action, "shown_default", None)
        if default is None and action.nargs != 0 and action.default not in (None, (), SUPPRESS):
            default = action.default
            if isinstance(default, dict):  # a class with its options
                default = cast("dict[str, Any]", default)["class_path"].rpartition(".")[2]
        if action.required:
            details.append("required")
        elif default is not None:
            details.append(f"default: {default}")
        text = _MATH.sub(lambda found: found[1].replace("\\", ""), action.help or "")
        if details:
            text = f"{text} ({', '.join(details)})"
        # argparse fills in %(name)s, and here nothing is left to fill in
        return text.replace("``", "").replace("%", "%%")


class Parser(ArgumentParser):
    """The argument parser of a command, and of the options of a task or a layer.

    `annotations` holds the type of each option by its name, `positionals` what is expected of each
    argument without a flag, and `flags` the options without a value.
    """

    def __init__(self, description: str = "", **options: Any) -> None:
        # errors are raised, so that `diagnose` can explain them
        options |= {"exit_on_error": False, "parser_mode": "eigenrnn", "formatter_class": _Help}
        self.annotations: dict[str, Any] = {}
        self.positionals: dict[str, str] = {}
        self.flags: set[str] = set()
        super().__init__(description=description, **options)

    def add(
        self,
        *names: str,
        shown_default: str | None = None,
        expected: str | None = None,
        **options: Any,
    ) -> Any:
        """Add an argument.

        Args:
            names: Its names.
            shown_default: The default in the words of the help, if it is no value.
            expected: What is expected of an argument without a flag, for errors.
            options: As of `argparse.ArgumentParser.add_argument`.
        """
        added: Any = self.add_argument(*names, **options)
        name = names[-1].removeprefix("--")
        if expected is not None:
            self.positionals[name] = expected
        if options.get("action") == "store_true":
            self.flags.add(name)
        self.annotations[name] = options.get("type")
        added.shown_default = shown_default
        if name not in ("task", "layer"):  # their help lists what they take
            added.kind = _kind(options.get("type"))
        return added

    def add_class_arguments(self, theclass: Any, *args: Any, **options: Any) -> Any:
        skip = {*(options.pop("skip", None) or ()), *name_lookup.PRESET_ARGUMENTS}
        before = set(self._actions)
        added = super().add_class_arguments(theclass, *args, skip=skip, **options)
        annotations = annotations_of(theclass)
        self.annotations |= annotations
        own = inspect.signature(theclass).parameters
        passes_on = any(each.kind is Parameter.VAR_KEYWORD for each in own.values())
        for action in set(self._actions) - before:
            path, _, name = action.dest.rpartition(".")
            owner = path.rpartition(".")[2]
            if name == "help" and Sequences in members(annotations.get(owner)):
                action.help = SUPPRESS  # a command cannot pass data in memory
            if name in annotations:
                action.kind = _kind(annotations[name])  # pyright: ignore[reportAttributeAccessIssue]
            # hide defaults of base classes: the class may pass other values on
            if passes_on and action.dest.partition(".")[0] not in own:
                action.default = SUPPRESS
        return added


def _list() -> Parser:
    parser = Parser(
        "List constraints, layers, tasks, recipes and backends by the names that commands accept."
    )
    parser.add("kind", nargs="?", help="constraints, layers, tasks, recipes or backends")
    parser.add("--json", action="store_true", help="print JSON")
    return parser


def _train() -> Parser:
    parser = Parser("Train a recurrent layer on a task.")
    parser.add("--config", action="config", help="a YAML file with these options")
    parser.add(
        "--task",
        type=Task,
        required=True,
        help=f"{', '.join(TASKS)}; set its options with --task.OPTION, list them with "
        "--task.help TASK",
    )
    parser.add(
        "--layer",
        type=Callable[[int, int], Stacked[Any] | TorchLSTM | TorchGRU | TanhRNN],
        default=None,
        help=f"{', '.join(LAYERS)}; set its options with --layer.OPTION, list them with "
        "--layer.help LAYER",
        shown_default="depends on the task, such as scornn for copying and gru for series",
    )
    parser.add("--hidden_size", type=int, default=128, help="number of hidden units N")
    parser.add(
        "--embedding_size",
        type=int,
        help="size of the symbol embedding, for tasks with symbols",
        shown_default="N",
    )
    parser.add_class_arguments(Settings, None)
    _add_run_arguments(parser, "runs/TASK-LAYER-N")
    return parser


def _reproduce() -> Parser:
    parser = Parser("Run a published experiment and compare its numbers with the paper's.")
    parser.add("recipe", nargs="?", help="name of the recipe; see: eigenrnn list recipes")
    parser.add(
        "--rows", nargs="+", type=str, help="run only rows whose label contains one of these"
    )
    parser.add("--seeds", nargs="+", type=int, help="use these seeds instead of the recipe's")
    parser.add(
        "--points", nargs="+", type=str, help="run only these points of a search, such as 'lr=0.1'"
    )
    parser.add(
        "--epochs",
        type=int,
        help="reduced runs: train for so many epochs; the paper trains for longer",
    )
    parser.add("--steps", type=int, help="reduced runs: train for so many steps")
    parser.add(
        "--quick",
        action="store_true",
        help="smoke test: a few steps per row; the numbers are not comparable",
    )
    _add_run_arguments(
        parser,
        "runs/RECIPE, with --quick runs/RECIPE-quick, with --epochs runs/RECIPE-epochs-N, "
        "with --steps runs/RECIPE-steps-N",
    )
    return parser


def _sweep() -> Parser:
    parser = Parser(
        "Train the networks of a grid or a search. In parallel, and for a search, needs: "
        "pip install 'eigenrnn[sweep]'."
    )
    parser.add(
        "file",
        expected="the YAML file of a sweep",
        help="YAML file that describes the sweep, see docs/sweeps.md",
    )
    parser.add(
        "--address", type=str, help="HOST:PORT of a Ray cluster", shown_default="this machine"
    )
    parser.add(
        "--out",
        type=str,
        help="output folder, visible to all machines",
        shown_default="runs/FILE",
    )
    parser.add("--resume", action="store_true", help="continue existing runs")
    parser.add("--overwrite", action="store_true", help="delete existing runs")
    parser.add(
        "--trials_at_once",
        type=int,
        help="number of parallel trials",
        shown_default="as many as fit",
    )
    return parser


def _analyse() -> Parser:
    parser = Parser(
        "Analyse the trained network of a run: spectra, memory, gradients, dynamics. Prints the "
        "numbers; writes a figure and a table for each analysis."
    )
    parser.add(
        "run",
        expected="the folder of a run or a checkpoint",
        help="folder of a run, or one of its checkpoints",
    )
    parser.add(
        "--out", type=str, help="output folder", shown_default="analysis, in the folder of the run"
    )
    parser.add("--data_root", type=str, help="folder with the data files")
    return parser


def _predict() -> Parser:
    parser = Parser(
        "Apply the trained network of a run on series or text to a file: classes with "
        "probabilities, numbers or next values as CSV; the continuation of a text, and bits per "
        "character."
    )
    parser.add(
        "run",
        expected="the folder of a run or a checkpoint",
        help="folder of a run, or one of its checkpoints",
    )
    parser.add(
        "input",
        expected="a file of series or text, or - for standard input",
        help="file of series, with or without labels, or of text; - for standard input",
    )
    parser.add(
        "-o", "--out", type=str, help="output file, replaced if it exists", shown_default="print"
    )
    parser.add("--length", type=int, help="text: symbols to continue by", shown_default="200")
    parser.add(
        "--temperature",
        type=float,
        help="text: below 1 the probable symbols are drawn more often; 0 takes the most probable",
        shown_default="1",
    )
    parser.add("--seed", type=int, help="text: seed of the draws", shown_default="0")
    parser.add("--data_root", type=str, help="folder with the data files")
    return parser


def _evaluate() -> Parser:
    parser = Parser(
        "Compare the predictions of a run on series with the answers of a file: accuracy, macro "
        "F1, log loss, AUC, calibration, confusion matrix; errors of numbers. The report of the "
        "run shows them. Needs: pip install 'eigenrnn[estimators]'."
    )
    parser.add(
        "run",
        expected="the folder of a run or a checkpoint",
        help="folder of a run, or one of its checkpoints",
    )
    parser.add(
        "input",
        expected="a file of series with classes or numbers",
        help="file of series with classes or numbers; - for a table on standard input",
    )
    parser.add(
        "-o",
        "--out",
        type=str,
        help="output file, replaced if it exists",
        shown_default="evaluation.json in the run, evaluation-2.json for a second file",
    )
    parser.add("--data_root", type=str, help="folder with the data files")
    return parser


def _compare() -> Parser:
    parser = Parser(
        "Print the results of runs as one table: parameters, steps, time and the metrics of the "
        "best models, as mean and standard error over seeds or folds."
    )
    parser.add(
        "runs",
        expected="the folders of one or more runs",
        nargs="+",
        type=str,
        help="folders of runs, or folders that contain them",
    )
    parser.add(
        "--format",
        type=Literal["csv", "markdown", "latex"],
        help="csv (unrounded numbers), markdown or latex",
        shown_default="a table in a terminal, markdown elsewhere",
    )
    parser.add(
        "-o", "--out", type=str, help="output file, replaced if it exists", shown_default="print"
    )
    return parser


def _export() -> Parser:
    parser = Parser(
        "Write the trained network of a run for other programs, with its inputs, outputs and "
        "preprocessing in a JSON file beside it. ONNX needs: pip install 'eigenrnn[onnx]'."
    )
    parser.add(
        "run",
        expected="the folder of a run or a checkpoint",
        help="folder of a run, or one of its checkpoints",
    )
    parser.add(
        "model",
        expected="the file to write, which ends in .onnx or .pt2",
        help="output file, .onnx or .pt2 (a program of torch.export)",
    )
    parser.add("--data_root", type=str, help="folder with the data files")
    return parser


def _report() -> Parser:
    parser = Parser(
        "Write an HTML report of runs in one file that opens offline: tables, learning curves, "
        "eigenvalues over training, Schur forms, gradients, memory. "
        "Needs: pip install 'eigenrnn[report]'."
    )
    parser.add(
        "runs",
        expected="the folders of one or more runs",
        nargs="+",
        type=str,
        help="folders of runs or recipes, or folders that contain them",
    )
    parser.add(
        "-o",
        "--out",
        type=str,
        default="report.html",
        help="output file; replaces an earlier report",
    )
    parser.add("--title", type=str, help="title of the page")
    parser.add("--data_root", type=str, help="folder with the data files")
    return parser


def _bench() -> Parser:
    parser = Parser("Time the layers on this machine against torch's own.")
    parser.add(
        "--sizes",
        nargs="+",
        type=str,
        help="sizes T,B,N to time",
        shown_default="sizes from the papers",
    )
    parser.add("--rounds", type=int, default=7, help="number of timed rounds")
    parser.add(
        "--all",
        action="store_true",
        help="also time Python loops and measure memory, streaming and scaling; needs geotorch",
    )
    parser.add("--json", type=str, help="write all rounds to this file")
    return parser


def _collect() -> Parser:
    parser = Parser(
        "Record random drives of CarRacing, train an autoencoder on them, and encode them for the "
        "task car_racing. Run the same command again to resume."
    )
    parser.add(
        "what",
        expected="a data set to collect (car_racing)",
        help="the data set to record: car_racing",
    )
    parser.add("--rollouts", type=int, default=300, help="number of drives")
    parser.add("--steps", type=int, default=1_000, help="steps per drive")
    parser.add("--epochs", type=int, default=10, help="training epochs of the autoencoder")
    parser.add("--seed", type=int, default=0, help="seed of the recording and the training")
    parser.add(
        "--processes", type=int, help="number of recording processes", shown_default="one per core"
    )
    parser.add(
        "--accelerator",
        type=Accelerator,
        default="auto",
        help="device that trains the autoencoder",
    )
    parser.add("--out", type=str, default="runs/car_racing", help="output folder")
    return parser


def _add_run_arguments(parser: Parser, default: str) -> None:
    parser.add(
        "--dynamics_every",
        type=int,
        help="record spectra and gradients every so many steps",
        shown_default="never",
    )
    parser.add(
        "--max_minutes",
        type=float,
        help="stop each run after so many minutes; --resume continues it",
        shown_default="no limit",
    )
    parser.add("--data_root", type=str, help="folder with the data files")
    parser.add("--out", type=str, help="output folder", shown_default=default)
    parser.add("--resume", action="store_true", help="continue existing runs")
    parser.add("--overwrite", action="store_true", help="delete existing runs")


PARSERS: dict[str, Callable[[], Parser]] = {
    "list": _list,
    "train": _train,
    "reproduce": _reproduce,
    "sweep": _sweep,
    "predict": _predict,
    "evaluate": _evaluate,
    "export": _export,
    "analyse": _analyse,
    "compare": _compare,
    "report": _report,
    "bench": _bench,
    "collect": _collect,
}
"""The commands, each with the function that builds its parser."""
