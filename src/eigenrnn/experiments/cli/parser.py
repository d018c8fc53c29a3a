"""The parser of each command, and error messages of one line."""

import inspect
import re
from argparse import SUPPRESS, Action
from collections.abc import Callable
from inspect import Parameter
from shutil import get_terminal_size
from typing import Any, Literal

import yaml
from jsonargparse import ArgumentParser, DefaultHelpFormatter, set_loader

from eigenrnn.experiments.cli import name_lookup
from eigenrnn.experiments.cli.name_lookup import did_you_mean, listing_hint, options_of
from eigenrnn.experiments.registry import LAYERS, TASKS
from eigenrnn.experiments.tasks import Task
from eigenrnn.experiments.training import Settings
from eigenrnn.experiments.training.settings import Accelerator
from eigenrnn.layers import TanhRNN, TorchGRU, TorchLSTM
from eigenrnn.layers.stacked import Stacked

__all__ = ["PARSERS", "Parser", "explain"]

set_loader("eigenrnn", name_lookup.load_named_yaml, exceptions=(yaml.YAMLError,))


class _Help(DefaultHelpFormatter):
    """Shows types in words, defaults that say something, and formulas without their markup."""

    def __init__(self, prog: str, **options: Any) -> None:
        columns = get_terminal_size().columns - 2
        super().__init__(prog, **{"width": min(columns, _WIDTH), **options})

    def _get_help_string(self, action: Action) -> str:
        if action.dest in {"task", "layer"}:
            return action.help or ""
        text = super()._get_help_string(action).replace("type: %(type)s", "%(type)s")
        text = _MATH.sub(lambda found: found[1].replace("\\", ""), text).replace("``", "")
        if "(default:" in (action.help or ""):  # of the help's own words
            text = _SECOND_DEFAULT.sub("", text).removesuffix(" ()")
            return re.sub(r"\((default: .*)\) \(%\(type\)s\)$", r"(%(type)s, \1)", text)
        says_nothing = action.default in (None, ()) or action.nargs == 0
        return _SECOND_DEFAULT.sub("", text).removesuffix(" ()") if says_nothing else text

    def _get_type_str(self, action: Action) -> str | None:
        """Return the types that the usage does not show; text and paths need none."""
        text = super()._get_type_str(action) or ""
        if re.fullmatch(r"bool|Literal\[[^]]*\]", text):
            return None
        union = re.sub(r"^(?:Optional|Union)\[(.*)\]$", r"\1", text)
        kinds = [kind for kind in _BETWEEN_TYPES.split(union) if kind not in _IMPLIED]
        return " or ".join(map(_kind, kinds)) or None


_WIDTH = 98  # of help, also on wider terminals
_MATH = re.compile(r":math:`([^`]*)`")
_SECOND_DEFAULT = re.compile(r",? ?default: %\(default\)s")
_BETWEEN_TYPES = re.compile(r"(?:, | \| )(?![^\[]*\])")
_IMPLIED = {"", "null", "str", "Path"}


def _kind(name: str) -> str:
    """Return the name of a type in words."""
    if name.startswith("Literal["):
        return re.sub(r"['\]]", "", name.removeprefix("Literal["))
    return re.sub(r"^(?:tuple|Sequence)\[(\w+)(?:, \.\.\.)?\]$", r"list of \1", name)


class Parser(ArgumentParser):
    """The argument parser of a command, and of the options of a task or a layer."""

    def __init__(self, description: str = "", **options: Any) -> None:
        options |= {"exit_on_error": False, "parser_mode": "eigenrnn", "formatter_class": _Help}
        super().__init__(description=description, **options)

    def add_class_arguments(self, theclass: Any, *args: Any, **options: Any) -> Any:
        skip = {*(options.pop("skip", None) or ()), *name_lookup.PRESET_ARGUMENTS}
        added = super().add_class_arguments(theclass, *args, skip=skip, **options)
        own = inspect.signature(theclass).parameters
        if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in own.values()):
            for action in self._actions:
                # hide defaults of base classes: the class may pass other values on
                if action.dest.partition(".")[0] not in own:
                    action.default = SUPPRESS
        return added


def _list() -> Parser:
    parser = Parser(
        "List constraints, layers, tasks, recipes and backends by the names that commands accept."
    )
    parser.add_argument("kind", nargs="?", help="constraints, layers, tasks, recipes or backends")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _train() -> Parser:
    parser = Parser("Train a recurrent layer on a task.")
    parser.add_argument("--config", action="config", help="a YAML file with these options")
    parser.add_argument(
        "--task",
        type=Task,
        required=True,
        help=f"{', '.join(TASKS)}; set its options with --task.OPTION, list them with "
        "--task.help TASK (required)",
    )
    parser.add_argument(
        "--layer",
        type=Callable[[int, int], Stacked[Any] | TorchLSTM | TorchGRU | TanhRNN],
        default="eigenrnn.layers.ScoRNN",
        help=f"{', '.join(LAYERS)}; set its options with --layer.OPTION, list them with "
        "--layer.help LAYER (default: scornn)",
    )
    parser.add_argument("--hidden_size", type=int, default=128, help="number of hidden units N")
    parser.add_argument(
        "--embedding_size",
        type=int,
        help="size of the symbol embedding, for tasks with symbols (default: N)",
    )
    parser.add_class_arguments(Settings, None)
    _add_run_arguments(parser, "runs/TASK-LAYER-N")
    return parser


def _reproduce() -> Parser:
    parser = Parser("Run a published experiment and compare its numbers with the paper's.")
    parser.add_argument("recipe", nargs="?", help="name of the recipe; see: eigenrnn list recipes")
    parser.add_argument(
        "--rows", nargs="+", type=str, help="run only rows whose label contains one of these"
    )
    parser.add_argument(
        "--seeds", nargs="+", type=int, help="use these seeds instead of the recipe's"
    )
    parser.add_argument(
        "--points", nargs="+", type=str, help="run only these points of a search, such as 'lr=0.1'"
    )
    parser.add_argument(
        "--epochs",
        type=int,
        help="reduced runs: train for so many epochs; the paper trains for longer",
    )
    parser.add_argument("--steps", type=int, help="reduced runs: train for so many steps")
    parser.add_argument(
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
        "Train the networks of a grid or a search in parallel. "
        "Needs: pip install 'eigenrnn[sweep]'."
    )
    parser.add_argument("file", help="YAML file that describes the sweep, see docs/sweeps.md")
    parser.add_argument(
        "--address", type=str, help="HOST:PORT of a Ray cluster (default: this machine)"
    )
    parser.add_argument(
        "--out",
        type=str,
        help="output folder, visible to all machines (default: runs/FILE)",
    )
    parser.add_argument("--resume", action="store_true", help="continue existing runs")
    parser.add_argument("--overwrite", action="store_true", help="delete existing runs")
    parser.add_argument(
        "--trials_at_once", type=int, help="number of parallel trials (default: as many as fit)"
    )
    return parser


def _analyse() -> Parser:
    parser = Parser(
        "Analyse the trained network of a run: spectra, memory, gradients, dynamics. Prints the "
        "numbers; writes a figure and a table for each analysis."
    )
    parser.add_argument("run", help="folder of a run, or one of its checkpoints")
    parser.add_argument(
        "--out", type=str, help="output folder (default: analysis, in the folder of the run)"
    )
    parser.add_argument("--data_root", type=str, help="folder with the data files")
    return parser


def _predict() -> Parser:
    parser = Parser(
        "Apply the trained network of a run on series or text to a file: classes with "
        "probabilities, numbers or next values as CSV; the continuation of a text, and bits per "
        "character."
    )
    parser.add_argument("run", help="folder of a run, or one of its checkpoints")
    parser.add_argument(
        "input", help="file of series, with or without labels, or of text; - for standard input"
    )
    parser.add_argument(
        "-o", "--out", type=str, help="output file, replaced if it exists (default: print)"
    )
    parser.add_argument("--length", type=int, help="text: symbols to continue by (default: 200)")
    parser.add_argument(
        "--temperature",
        type=float,
        help="text: below 1 the probable symbols are drawn more often; 0 takes the most probable "
        "(default: 1)",
    )
    parser.add_argument("--seed", type=int, help="text: seed of the draws (default: 0)")
    parser.add_argument("--data_root", type=str, help="folder with the data files")
    return parser


def _compare() -> Parser:
    parser = Parser(
        "Print the results of runs as one table: parameters, steps, time and the metrics of the "
        "best models, as mean and standard error over seeds."
    )
    parser.add_argument(
        "runs", nargs="+", type=str, help="folders of runs, or folders that contain them"
    )
    parser.add_argument(
        "--format",
        type=Literal["csv", "markdown", "latex"],
        help="csv (unrounded numbers), markdown or latex (default: a table in a terminal, "
        "markdown elsewhere)",
    )
    parser.add_argument(
        "-o", "--out", type=str, help="output file, replaced if it exists (default: print)"
    )
    return parser


def _export() -> Parser:
    parser = Parser(
        "Write the trained network of a run for other programs, with its inputs, outputs and "
        "preprocessing in a JSON file beside it. ONNX needs: pip install 'eigenrnn[onnx]'."
    )
    parser.add_argument("run", help="folder of a run, or one of its checkpoints")
    parser.add_argument("model", help="output file, .onnx or .pt2 (a program of torch.export)")
    parser.add_argument("--data_root", type=str, help="folder with the data files")
    return parser


def _report() -> Parser:
    parser = Parser(
        "Write an HTML report of runs in one file that opens offline: tables, learning curves, "
        "eigenvalues over training, Schur forms, gradients, memory. "
        "Needs: pip install 'eigenrnn[report]'."
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=str,
        help="folders of runs or recipes, or folders that contain them",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=str,
        default="report.html",
        help="output file; replaces an earlier report",
    )
    parser.add_argument("--title", type=str, help="title of the page")
    parser.add_argument("--data_root", type=str, help="folder with the data files")
    return parser


def _bench() -> Parser:
    parser = Parser("Time the layers on this machine against torch's own.")
    parser.add_argument(
        "--sizes", nargs="+", type=str, help="sizes T,B,N to time (default: sizes from the papers)"
    )
    parser.add_argument("--rounds", type=int, default=7, help="number of timed rounds")
    parser.add_argument(
        "--all",
        action="store_true",
        help="also time Python loops and measure memory, streaming and scaling; needs geotorch",
    )
    parser.add_argument("--json", type=str, help="write all rounds to this file")
    return parser


def _collect() -> Parser:
    parser = Parser(
        "Record random drives of CarRacing, train an autoencoder on them, and encode them for the "
        "task car_racing. Run the same command again to resume."
    )
    parser.add_argument("what", help="the data set to record: car_racing")
    parser.add_argument("--rollouts", type=int, default=300, help="number of drives")
    parser.add_argument("--steps", type=int, default=1_000, help="steps per drive")
    parser.add_argument(
        "--epochs", type=int, default=10, help="training epochs of the autoencoder"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the recording and the training"
    )
    parser.add_argument(
        "--processes", type=int, help="number of recording processes (default: one per core)"
    )
    parser.add_argument(
        "--accelerator",
        type=Accelerator,
        default="auto",
        help="device that trains the autoencoder",
    )
    parser.add_argument("--out", type=str, default="runs/car_racing", help="output folder")
    return parser


def _add_run_arguments(parser: Parser, default: str) -> None:
    parser.add_argument(
        "--dynamics_every",
        type=int,
        help="record spectra and gradients every so many steps (default: never)",
    )
    parser.add_argument(
        "--max_minutes",
        type=float,
        help="stop each run after so many minutes; --resume continues it (default: no limit)",
    )
    parser.add_argument("--data_root", type=str, help="folder with the data files")
    parser.add_argument("--out", type=str, help=f"output folder (default: {default})")
    parser.add_argument("--resume", action="store_true", help="continue existing runs")
    parser.add_argument("--overwrite", action="store_true", help="delete existing runs")


PARSERS: dict[str, Callable[[], Parser]] = {
    "list": _list,
    "train": _train,
    "reproduce": _reproduce,
    "sweep": _sweep,
    "predict": _predict,
    "export": _export,
    "analyse": _analyse,
    "compare": _compare,
    "report": _report,
    "bench": _bench,
    "collect": _collect,
}
"""The commands, each with the function that builds its parser."""

# The wording of jsonargparse and argparse, whose errors carry nothing but text. pyproject.toml
# bounds jsonargparse to versions with this wording. A message that matches none is shown as it is.
_REQUIRED = re.compile(r"following arguments are required: (\w+)")
_UNKNOWN_FLAG = re.compile(r"[Uu]nrecognized arguments: --([\w.]+)")
_UNKNOWN_KEY = re.compile(r"Option '([\w.]+)' is not accepted")
_CLASS = re.compile(r"class_path[ =]'(?:\w+\.)*(\w+)'")
_KEY = re.compile(r'Parser key "([\w.]+)"')
_VALUE = re.compile(r"(?:Got|Given) value: (.*?)(?:\. Got value: Namespace.*)?$", re.MULTILINE)
_TYPES = re.compile(r"Expected an? <class '(\w+)'>")
_CHOICES = re.compile(r"Expected a typing\.Literal\[(.*?)\]")
_NO_SUBCLASS = re.compile(r"Expected '([\w.]+)' to be a subclass")

_TYPE_NAMES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a string",
    "NoneType": "null",
}
_MISSING = {
    "task": f"expected --task, got none; {listing_hint('task', TASKS)}",
    "folders": "expected the folders of recipes that were run, got none",
    "run": "expected the folder of a run or a checkpoint, got none",
    "runs": "expected the folders of one or more runs, got none",
    "file": "expected the YAML file of a sweep, got none",
    "model": "expected the file to write, which ends in .onnx or .pt2, got none",
    "input": "expected a file of series or text, or - for standard input, got none",
    "what": "expected a data set to collect (car_racing), got none",
}


def explain(message: str, command: str) -> str:
    """Return an error of the parser in the terms of this library, and similar names.

    Args:
        message: The message of the parser.
        command: The command that the user typed.
    """
    explanation = (
        _missing(message)
        or _unknown_option(message, command)
        or _wrong_value(message)
        or _wrong_class(message)
        or re.sub(f"{_KEY.pattern}:", r"\1:", message)
    )
    return " ".join(explanation.split())


def _missing(message: str) -> str | None:
    found = _REQUIRED.search(message)
    return _MISSING.get(found[1]) if found is not None else None


def _unknown_option(message: str, command: str) -> str | None:
    key, owner, flag = (p.search(message) for p in (_UNKNOWN_KEY, _CLASS, _UNKNOWN_FLAG))
    if key is not None and owner is not None:
        hint = did_you_mean(key[1], options_of(owner[1]))
        return f"{owner[1]} takes no option {key[1]!r}{hint}"
    if key is not None:
        return f"{command} takes no option {key[1]!r}{did_you_mean(key[1], _options(command))}"
    if flag is not None:
        flags = (f"--{name}" for name in _options(command))
        return f"{message}{did_you_mean(f'--{flag[1]}', flags)}"
    return None


def _options(command: str) -> set[str]:
    return set(PARSERS[command]().get_defaults().as_dict())


def _wrong_class(message: str) -> str | None:
    key, found = _KEY.search(message), _NO_SUBCLASS.search(message)
    if key is None or found is None or key[1] not in {"task", "layer"}:
        return None
    hint = listing_hint(key[1], TASKS if key[1] == "task" else LAYERS)
    return f"expected a {key[1]}, or a subclass of one, got {found[1]!r}; {hint}"


def _wrong_value(message: str) -> str | None:
    keys: list[str] = _KEY.findall(message)
    kinds: list[str] = _TYPES.findall(message)
    value, choices = _VALUE.search(message), _CHOICES.search(message)
    if not keys or value is None or not (choices or kinds):
        return None
    name = ".".join(keys)
    if choices is None:
        allowed = " or ".join(str(_TYPE_NAMES.get(kind, kind)) for kind in kinds)
        return f"expected {name} to be {allowed}, got {value[1]!r}"
    values = re.findall(r"'(.*?)'", choices[1])
    hint = did_you_mean(value[1], values)
    return f"expected {name} among {', '.join(values)}; got {value[1]!r}{hint}"
