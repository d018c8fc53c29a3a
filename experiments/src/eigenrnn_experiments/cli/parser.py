"""The parser of each command."""

from collections.abc import Callable
from typing import Any, Literal

from jsonargparse import ArgumentParser
from jsonargparse.typing import PositiveInt

from eigenrnn.layers import Layer
from eigenrnn_experiments.registry import LAYERS, TASKS
from eigenrnn_experiments.tasks import Task
from eigenrnn_experiments.training import Settings
from eigenrnn_experiments.training.settings import Accelerator

__all__ = ["FIT_OPTIONS", "PARSERS", "trial_parser"]

Missing = Literal["error", "mask", "forward"]


_RUN = "folder of a run, or one of its checkpoints"
_TABLE = "table in CSV or Parquet"
_OUT = "output file, replaced if it exists; without it they are printed"


Build = Callable[[], ArgumentParser]

PARSERS: dict[str, Build] = {}
"""The functions that build the parsers of the commands in `main.COMMANDS`."""


def _command(build: Build) -> Build:
    PARSERS[build.__name__.removeprefix("_")] = build
    return build


def _parser(description: str) -> ArgumentParser:
    # errors are raised, and `run` prints them in one line
    return ArgumentParser(description=description, exit_on_error=False)


@_command
def _list() -> ArgumentParser:
    parser = _parser(
        "List constraints, layers, tasks, recipes and backends by the names that commands accept."
    )
    parser.add_argument("kind", nargs="?", help="constraints, layers, tasks, recipes or backends")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


@_command
def _train() -> ArgumentParser:
    parser = _parser("Train a recurrent layer on a task.")
    _add_training_arguments(parser)
    _add_run_arguments(parser, "runs/TASK-LAYER-N")
    return parser


def trial_parser() -> ArgumentParser:
    """Return the parser of what a trial of a sweep trains: `train` without its seed and folder."""
    parser = _parser("Train a trial of a sweep.")
    _add_training_arguments(parser, skip={"seed"})
    return parser


def _add_training_arguments(parser: ArgumentParser, **options: Any) -> None:
    parser.add_argument("--config", action="config", help="a YAML file with these options")
    parser.add_argument(
        "--task",
        type=Task,
        required=True,
        help=f"{', '.join(TASKS)}, or the import path of a class of your own; set its options "
        "with --task.OPTION, list them with --task.help TASK",
    )
    parser.add_argument(
        "--layer",
        type=Callable[[int, int], Layer],
        help=f"{', '.join(LAYERS)}, or the import path of a class of your own; set its options "
        "with --layer.OPTION, list them with --layer.help LAYER; without it a layer that suits "
        "the task, such as ScoRNN for Copying",
    )
    parser.add_argument("--hidden_size", type=int, default=128, help="number of hidden units N")
    parser.add_argument(
        "--embedding_size",
        type=int,
        help="size of the symbol embedding, for tasks with symbols; without it N",
    )
    parser.add_class_arguments(Settings, None, **options)


@_command
def _reproduce() -> ArgumentParser:
    parser = _parser("Run a published experiment and compare its numbers with the paper's.")
    parser.add_argument("recipe", help="name of the recipe; see: eigenrnn list recipes")
    parser.add_argument(
        "--rows", nargs="+", type=str, help="run only rows whose label contains one of these"
    )
    parser.add_argument("--seeds", nargs="+", type=int, help="in place of the recipe's")
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


@_command
def _sweep() -> ArgumentParser:
    parser = _parser(
        "Train the networks of a grid or a search. In parallel, and for a search, needs: "
        "pip install 'eigenrnn-experiments[sweep]'."
    )
    parser.add_argument("file", help="YAML file that describes the sweep, see docs/sweeps.md")
    parser.add_argument(
        "--address", type=str, help="HOST:PORT of a Ray cluster; without it this machine"
    )
    parser.add_argument(
        "--out", type=str, help="output folder, visible to all machines; without it runs/FILE"
    )
    parser.add_argument("--resume", action="store_true", help="continue existing runs")
    parser.add_argument(
        "--trials_at_once",
        type=PositiveInt,
        help="number of parallel trials; without it as many as fit",
    )
    return parser


@_command
def _analyse() -> ArgumentParser:
    parser = _parser(
        "Analyse the trained network of a run: spectra, memory, gradients, dynamics. Prints the "
        "numbers; writes a figure and a table for each analysis."
    )
    parser.add_argument("run", help=_RUN)
    parser.add_argument(
        "--out", type=str, help="output folder; without it analysis, in the folder of the run"
    )
    parser.add_argument("--data_root", type=str, help="folder with the data files")
    return parser


@_command
def _fit() -> ArgumentParser:
    parser = _parser(
        "Train a classifier or a regressor on the sequences of a table: numbers with fractions as "
        "targets make a regressor. Every other column is a channel. "
        "Needs: pip install 'eigenrnn-experiments[series]'."
    )
    parser.add_argument("input", help=f"{_TABLE}, with a row for each time step")
    parser.add_argument("--out", required=True, help="file of the model, replaced if it exists")
    parser.add_argument("--target", required=True, help="column of the answer of a sequence")
    parser.add_argument("--sequence", default="sequence", help="column that tells sequences apart")
    parser.add_argument("--time", type=str, help="column that orders the rows of a sequence")
    parser.add_argument("--group", type=str, help="column of what is not divided, as a person")
    parser.add_argument("--ignore", nargs="*", default=[], help="columns that are no channels")
    parser.add_argument("--layer", default="GRU", help=", ".join(LAYERS))
    for name, (kind, default, text) in FIT_OPTIONS.items():
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    return parser


FIT_OPTIONS: dict[str, tuple[Any, Any, str]] = {
    "hidden_size": (PositiveInt, 64, "number of units"),
    "epochs": (PositiveInt, 50, "most epochs"),
    "batch_size": (PositiveInt, 16, "sequences in a step"),
    "lr": (float, None, "learning rate; without it that of the layer"),
    "clip_norm": (float, 1.0, "largest norm of a gradient"),
    "validation": (float, 0.2, "share of the sequences that chooses the epoch"),
    "patience": (PositiveInt, 15, "epochs without progress"),
    "missing": (Missing, "error", "empty cells: error, mask, or forward for the last value"),
    "class_weight": (Literal["balanced"], None, "give classes equal weights"),
    "random_state": (int, 0, "seed"),
    "device": (str, None, "such as cuda; without it the CPU"),
}
"""The options of the estimator that `fit` trains: type, default and help."""


@_command
def _predict() -> ArgumentParser:
    parser = _parser(
        "Apply a file of fit to a table: classes with probabilities, or numbers, as CSV, and "
        "their scores if the table has the answers. Or apply a run on text: its continuation, "
        "and bits per character."
    )
    parser.add_argument("run", help=f"file of fit; or {_RUN}")
    parser.add_argument("input", help=f"{_TABLE}; or a text; - for standard input")
    parser.add_argument("-o", "--out", type=str, help=_OUT)
    parser.add_argument("--length", type=int, default=200, help="text: symbols to continue by")
    parser.add_argument(
        "--temperature",
        type=float,
        default=1.0,
        help="text: below 1 the probable symbols are drawn more often; 0 takes the most probable",
    )
    parser.add_argument("--seed", type=int, default=0, help="text: seed of the draws")
    parser.add_argument("--data_root", type=str, help="folder with the data files")
    return parser


@_command
def _forecast() -> ArgumentParser:
    parser = _parser(
        "Continue the series of a table: trains a recurrent network on them, and writes forecasts "
        "as CSV, with lower and upper ends as far as the series is long enough for them. "
        "Needs: pip install 'eigenrnn-experiments[series]'."
    )
    parser.add_argument("input", help=f"{_TABLE}, with a row for each step; - for standard input")
    parser.add_argument(
        "--horizon", type=PositiveInt, required=True, help="number of steps to continue by"
    )
    parser.add_argument(
        "--target", nargs="+", default=[], help="columns to forecast; without it all others"
    )
    parser.add_argument("--time", type=str, help="column of the times, whose steps must be equal")
    parser.add_argument("--sequence", type=str, help="column that tells several series apart")
    parser.add_argument(
        "--season", type=PositiveInt, default=1, help="steps in a season, such as 12 for months"
    )
    parser.add_argument(
        "--coverage", type=float, default=0.9, help="share of the values between the ends"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the training")
    parser.add_argument("-o", "--out", type=str, help=_OUT)
    return parser


@_command
def _compare() -> ArgumentParser:
    parser = _parser(
        "Print the results of runs as one table: parameters, steps, time and the metrics of the "
        "best models, as mean and standard error over seeds."
    )
    parser.add_argument("runs", nargs="+", type=str, help="folders of runs, or of several")
    parser.add_argument(
        "--format",
        type=Literal["csv", "markdown", "latex"],
        help="csv (unrounded numbers), markdown or latex; without it a table in a terminal, "
        "markdown elsewhere",
    )
    parser.add_argument("-o", "--out", type=str, help=_OUT)
    return parser


@_command
def _export() -> ArgumentParser:
    parser = _parser(
        "Write the trained network of a run for other programs, with its inputs, outputs and "
        "preprocessing in a JSON file beside it. ONNX needs: pip install 'eigenrnn[onnx]'."
    )
    parser.add_argument("run", help=_RUN)
    parser.add_argument("model", help="output file: .onnx, .pt2 (torch.export) or .c (plain C)")
    parser.add_argument("--data_root", type=str, help="folder with the data files")
    return parser


@_command
def _report() -> ArgumentParser:
    parser = _parser(
        "Write an HTML report of runs in one file that opens offline: tables, learning curves, "
        "eigenvalues over training, Schur forms, gradients, memory. "
        "Needs: pip install 'eigenrnn-experiments[report]'."
    )
    parser.add_argument("runs", nargs="+", type=str, help="folders of runs or recipes")
    parser.add_argument("-o", "--out", default="report.html", help="replaces an earlier report")
    parser.add_argument("--title", type=str, help="title of the page")
    parser.add_argument("--data_root", type=str, help="folder with the data files")
    return parser


@_command
def _collect() -> ArgumentParser:
    parser = _parser(
        "Record random drives of CarRacing, train an autoencoder on them, and encode them for the "
        "task CarRacing. Run the same command again to resume."
    )
    parser.add_argument("what", help="the data set to record: car_racing")
    parser.add_argument("--rollouts", type=int, default=300, help="number of drives")
    parser.add_argument("--steps", type=int, default=1_000, help="steps per drive")
    parser.add_argument("--epochs", type=int, default=10, help="epochs of the autoencoder")
    parser.add_argument("--seed", type=int, default=0, help="of the recording and the training")
    parser.add_argument("--processes", type=int, help="recording ones; without it one per core")
    parser.add_argument(
        "--accelerator",
        type=Accelerator,
        default="auto",
        help="device that trains the autoencoder",
    )
    parser.add_argument("--out", type=str, default="runs/car_racing", help="output folder")
    return parser


def _add_run_arguments(parser: ArgumentParser, default: str) -> None:
    parser.add_argument(
        "--dynamics_every",
        type=int,
        help="record spectra and gradients every so many steps; without it none",
    )
    parser.add_argument(
        "--max_minutes",
        type=float,
        help="stop each run after so many minutes; --resume continues it; without it no limit",
    )
    parser.add_argument("--data_root", type=str, help="folder with the data files")
    parser.add_argument("--out", type=str, help=f"output folder; without it {default}")
    parser.add_argument("--resume", action="store_true", help="continue existing runs")
    parser.add_argument("--overwrite", action="store_true", help="delete existing runs")
