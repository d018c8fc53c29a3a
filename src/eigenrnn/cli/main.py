"""The commands and their options."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path

import torch
from jsonargparse import ArgumentError, ArgumentParser, Namespace, set_loader
from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from torch import nn

from eigenrnn.cli import listing, names
from eigenrnn.errors import NonFiniteLossError
from eigenrnn.layers import RNN
from eigenrnn.models import SequenceModel, count_parameters
from eigenrnn.recipes import Recipe, reproduce
from eigenrnn.recipes.reproduce import to_markdown
from eigenrnn.registry import RECIPES
from eigenrnn.tasks import Task
from eigenrnn.train import Result, Settings, fit
from eigenrnn.version import __version__

__all__ = ["main"]

set_loader("eigenrnn", names.in_yaml)

_FLAGS = {
    *(f.name for f in fields(Settings)),
    *("task", "layer", "hidden_size", "config", "data_root", "out", "resume", "overwrite"),
    *("rows", "seeds", "quick", "json"),
}
_USERS_ERRORS = (ArgumentError, ValueError, TypeError, OSError, NonFiniteLossError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    What the user can mend is said in one line; ``EIGENRNN_DEBUG=1`` raises it instead.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(given)
    except _USERS_ERRORS as error:
        if os.environ.get("EIGENRNN_DEBUG"):
            raise
        said = f"[bold red]error:[/] {escape(names.explain(str(error), _FLAGS))}"
        Console(stderr=True).print(said, soft_wrap=True, highlight=False)
        return 2


def _run(given: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(names.in_arguments(given))
    console = Console()
    chosen: Namespace = options[options.subcommand]
    if options.subcommand == "list":
        listing.show(chosen.kind, as_json=chosen.json, console=console)
        return 0
    command = {"train": _train, "reproduce": _reproduce}[options.subcommand]
    return command(parser.instantiate(options)[options.subcommand], console)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="eigenrnn",
        description="Recurrent layers whose recurrent matrix has a spectrum that you choose.",
        exit_on_error=False,
        parser_mode="eigenrnn",
        version=__version__,
    )
    commands = parser.add_subcommands(required=True, dest="subcommand")
    commands.add_subcommand("list", _list_parser(), help="what there is, by name")
    commands.add_subcommand("train", _train_parser(), help="train a layer on a task")
    commands.add_subcommand("reproduce", _reproduce_parser(), help="run a published experiment")
    return parser


def _new_parser(description: str) -> ArgumentParser:
    return ArgumentParser(
        description=description, exit_on_error=False, parser_mode="eigenrnn", default_env=False
    )


def _list_parser() -> ArgumentParser:
    parser = _new_parser("List what there is, by the names that the other commands take.")
    parser.add_argument("kind", nargs="?", help="constraints, layers, tasks, recipes or backends")
    parser.add_argument("--json", action="store_true", help="for programs")
    return parser


def _train_parser() -> ArgumentParser:
    parser = _new_parser("Train a recurrent layer on a task. Names: eigenrnn list.")
    parser.add_argument("--config", action="config", help="a YAML file of these options")
    parser.add_argument("--task", type=Task, required=True, help="its options: --task.NAME")
    parser.add_argument(
        "--layer",
        type=Callable[[int, int], RNN | nn.RNNBase],
        default="eigenrnn.layers.ScoRNN",
        help="its options: --layer.NAME",
    )
    parser.add_argument("--hidden_size", type=int, default=128, help="the number N of units")
    parser.add_class_arguments(Settings, None)
    _add_run_arguments(parser, "runs/TASK-LAYER-N")
    return parser


def _reproduce_parser() -> ArgumentParser:
    parser = _new_parser("Run a published experiment and set its numbers beside ours.")
    parser.add_argument("recipe", help="its name, see: eigenrnn list recipes")
    parser.add_argument("--rows", nargs="+", type=str, help="parts of the labels of those to run")
    parser.add_argument("--seeds", nargs="+", type=int, help="in place of the recipe's")
    parser.add_argument("--quick", action="store_true", help="a minute or two to see it run")
    _add_run_arguments(parser, "runs/RECIPE")
    return parser


def _add_run_arguments(parser: ArgumentParser, default: str) -> None:
    parser.add_argument("--data_root", type=str, help="the folder of the data files")
    parser.add_argument("--out", type=str, help=f"the folder of the run (default: {default})")
    parser.add_argument("--resume", action="store_true", help="go on with the run that is there")
    parser.add_argument("--overwrite", action="store_true", help="delete the run that is there")


def _train(options: Namespace, console: Console) -> int:
    settings = Settings(**{f.name: options[f.name] for f in fields(Settings)})
    task = _with_data_root(options.task, options.data_root)
    generator = torch.Generator().manual_seed(settings.seed)
    layer = options.layer(task.input_size, options.hidden_size, generator=generator)
    model = SequenceModel(layer, task.output_size, task.readout, generator=generator)
    name = f"{type(task).__name__}-{type(layer).__name__}-{options.hidden_size}".lower()
    directory = Path(options.out or f"runs/{name}")
    result = fit(
        model,
        task,
        settings,
        directory,
        resume=options.resume,
        overwrite=options.overwrite,
        name=name,
    )
    _say(result, task, model, console)
    return 130 if result.interrupted else 0


def _say(result: Result, task: Task, model: nn.Module, console: Console) -> None:
    """Print what came out of a run."""
    console.print(
        f"{count_parameters(model):,} parameters, {result.steps:,} steps in "
        f"{result.seconds:.0f} s; a guess without memory scores a loss of {task.baseline():.4g}"
    )
    for title, metrics in (("last", result.last), (f"best by {result.best_by}", result.best)):
        for split, numbers in metrics.items():
            said = ", ".join(f"{name} {number:.4g}" for name, number in numbers.items())
            console.print(f"{title}: {split} {said}")
    console.print(f"in {result.directory}")


def _reproduce(options: Namespace, console: Console) -> int:
    if options.recipe not in RECIPES:
        raise ValueError(names.unknown("recipe", options.recipe, RECIPES))
    recipe = _recipe_with_data_root(RECIPES[options.recipe], options.data_root)
    default = recipe.name.replace("/", "-") + ("-quick" if options.quick else "")
    directory = Path(options.out or f"runs/{default}")
    outcomes = reproduce(
        recipe,
        directory,
        rows=options.rows,
        seeds=options.seeds,
        quick=options.quick,
        resume=options.resume,
        overwrite=options.overwrite,
    )
    console.print(Markdown(to_markdown(recipe, outcomes, quick=options.quick)))
    console.print(f"in {directory}/results.json and results.md")
    return 0


def _with_data_root(task: Task, data_root: str | None) -> Task:
    """Tell a task that reads files where they are.

    Raises:
        ValueError: If the task reads none.
    """
    if data_root is None:
        return task
    if not _reads_files(task):
        raise ValueError(f"expected no --data_root: {type(task).__name__} reads no files")
    return replace(task, data_root=data_root)  # type: ignore[call-arg]


def _recipe_with_data_root(recipe: Recipe, data_root: str | None) -> Recipe:
    if data_root is None:
        return recipe
    rows = tuple(
        replace(row, task=_with_data_root(row.task, data_root)) if _reads_files(row.task) else row
        for row in recipe.rows
    )
    return replace(recipe, rows=rows)


def _reads_files(task: Task) -> bool:
    return any(f.name == "data_root" for f in fields(task))  # type: ignore[arg-type]
