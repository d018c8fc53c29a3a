"""Parses the arguments, runs the command, and reports errors in one line."""

import os
from argparse import ArgumentParser
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from signal import SIGINT

from jsonargparse import ArgumentError, Namespace
from rich.console import Console
from rich.text import Text

from eigenrnn.errors import check_positive_integer
from eigenrnn_experiments.cli import tables
from eigenrnn_experiments.cli.main import COMMANDS
from eigenrnn_experiments.cli.parser import PARSERS
from eigenrnn_experiments.cli.train_options import row_to_train
from eigenrnn_experiments.errors import (
    NonFiniteLossError,
    StoppedError,
    is_out_of_memory,
    unknown_name,
)
from eigenrnn_experiments.recipes import Recipe, reproduce
from eigenrnn_experiments.recipes.comparison import to_markdown
from eigenrnn_experiments.recipes.runs import folder_name, train
from eigenrnn_experiments.registry import RECIPES
from eigenrnn_experiments.tasks import Task
from eigenrnn_experiments.tasks.base import check_task
from eigenrnn_experiments.training import Dynamics, Run, RunKey
from eigenrnn_experiments.training.callbacks import Callback
from eigenrnn_experiments.training.progress import plain_console, printable
from eigenrnn_experiments.training.run import Length
from eigenrnn_experiments.training.train_step import open_fabric

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
_SIGNALLED = 128  # plus the signal number: the exit status of a program ended by a signal
_INTERRUPTED = _SIGNALLED + SIGINT


def run(arguments: list[str], recipes: Mapping[str, Recipe] = RECIPES) -> int:
    """Run the command named by the first argument; return the exit status.

    Args:
        arguments: The words after the name of the program.
        recipes: The recipes that `reproduce` knows, by name.
    Raises:
        RuntimeError: If torch raises one, but for a lack of memory.
    """
    command = ""
    if arguments:
        command = arguments[0]
    if not command or command.startswith("-"):
        _print_error(f"expected a command among {', '.join(COMMANDS)}; see eigenrnn --help")
        return 2
    if command not in COMMANDS:
        _print_error(unknown_name("command", command, COMMANDS))
        return 2
    try:
        return _run(command, arguments[1:], recipes)
    except StoppedError as stopped:
        _print_error(str(stopped))
        return _SIGNALLED + stopped.signal
    except (*_USER_ERRORS, RuntimeError) as error:
        is_ours = isinstance(error, _USER_ERRORS) or is_out_of_memory(error)
        if not is_ours or os.environ.get("EIGENRNN_DEBUG"):
            raise
        message = " ".join(str(error).split())
        if isinstance(error, ArgumentError):
            message += f"; see eigenrnn {command} --help"
        _print_error(message)
        return 2


def _check_own_task(arguments: list[str]) -> None:
    """Check that a task that is named by its import path is complete.

    The parser says of a class without one of the methods that it is abstract, but not why.

    Raises:
        TypeError: If it lacks a method or an attribute.
    """
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--task", default="")
    found = parser.parse_known_args(arguments)[0].task
    module, _, name = found.rpartition(".")
    if module and find_spec(module.partition(".")[0]) is not None:
        kind = getattr(import_module(module), name, None)
        if isinstance(kind, type) and issubclass(kind, Task):
            check_task(kind)


def _print_error(message: str) -> None:
    # a text by itself, so that brackets in a message are no markup
    line = Text.assemble(("error:", "bold red"), " ", printable(message))
    plain_console(stderr=True).print(line, soft_wrap=True, highlight=False)


def _run(command: str, arguments: list[str], recipes: Mapping[str, Recipe]) -> int:
    """Parse the arguments and run the command.

    Raises:
        ArgumentError: If the parser refuses the arguments.
        ValueError: If an option of a layer comes without a layer.
    """
    parser = PARSERS[command]()
    parser.prog = f"eigenrnn {command}"
    flags = {argument.partition("=")[0] for argument in arguments}
    of_layer = sorted(flag for flag in flags if flag.startswith("--layer."))
    if of_layer and of_layer != ["--layer.help"] and not flags & {"--layer", "--config"}:
        raise ValueError(f"expected --layer, the class that {of_layer[0]} is of, got none")
    _check_own_task(arguments)
    options = parser.parse_args(arguments)
    console = plain_console()
    if command == "list":
        tables.show(options.kind, as_json=options.json, console=console)
        return 0
    if command == "train":
        return _train(options, parser.instantiate(options).task, console)
    if command == "reproduce":
        return _reproduce(options, console, recipes)
    if command == "collect":
        return _collect(options, console)
    # the others have modules of their own, which no other command needs
    module = import_module(f"eigenrnn_experiments.cli.{command}")
    return getattr(module, command)(options, console)


def _train(options: Namespace, task: Task, console: Console) -> int:
    callbacks: list[Callback] = []
    if options.dynamics_every is not None:
        check_positive_integer("dynamics_every", options.dynamics_every)
        callbacks.append(Dynamics(options.dynamics_every))
    row = row_to_train(options, task, options.data_root)
    out = Path(options.out or f"runs/{row.label}")
    run = train(
        row,
        RunKey(seed=row.settings.seed),
        out,
        resume=options.resume,
        overwrite=options.overwrite,
        callbacks=callbacks,
        name=row.label,
        max_minutes=options.max_minutes,
    )
    _print_result(run, row.task, console)
    console.print(f"in {out}")
    if run.signal is not None:
        return _SIGNALLED + run.signal
    return 0


def _print_result(run: Run, task: Task, console: Console) -> None:
    console.print(
        f"{run.parameters:,} parameters, {run.steps:,} steps in {run.seconds:.0f} s; chance-level "
        f"loss {task.baseline():.4g}"
    )
    for title, metrics in (("last", run.last), (f"best by {run.best_by}", run.best)):
        for split, numbers in metrics.items():
            values = ", ".join(f"{name} {number:.4g}" for name, number in numbers.items())
            console.print(f"{title}: {split} {values}")


def _reduced(recipe: Recipe, options: Namespace) -> Recipe:
    """Return the recipe with the length that `--epochs` or `--steps` asks for.

    Raises:
        ValueError: If the options do not fit each other, or no row trains for longer.
    """
    chosen = [options.epochs is not None, options.steps is not None, options.quick]
    if chosen.count(True) > 1:
        raise ValueError("expected one of --epochs, --steps and --quick, got several")
    if options.epochs is not None:
        return recipe.reduced(Length("epochs", options.epochs))
    if options.steps is not None:
        return recipe.reduced(Length("steps", options.steps))
    return recipe


def _reproduce(options: Namespace, console: Console, recipes: Mapping[str, Recipe]) -> int:
    if options.recipe not in recipes:
        raise ValueError(unknown_name("recipe", options.recipe, recipes))
    recipe = recipes[options.recipe].with_data_root(options.data_root)
    recipe = _reduced(recipe, options)
    directory = Path(options.out or f"runs/{folder_name(recipe, quick=options.quick)}")
    comparisons = reproduce(
        recipe,
        directory,
        rows=options.rows,
        points=options.points,
        seeds=options.seeds,
        quick=options.quick,
        resume=options.resume,
        overwrite=options.overwrite,
        dynamics_every=options.dynamics_every,
        max_minutes=options.max_minutes,
    )
    tables.show_markdown(to_markdown(recipe, comparisons, quick=options.quick), console)
    console.print(f"in {directory}: results.md", soft_wrap=True)
    return 0


def _collect(options: Namespace, console: Console) -> int:
    from eigenrnn_experiments.world import Collection, autoencoder_settings, encode

    if options.what != "car_racing":
        raise ValueError(f"expected car_racing, the one data set to collect, got {options.what!r}")
    collection = Collection(options.out, options.rollouts, options.steps, options.seed)
    settings = autoencoder_settings(
        epochs=options.epochs, seed=options.seed, accelerator=options.accelerator
    )
    open_fabric(settings)  # before hours of recording, not after
    collection.record(options.processes)
    if not encode(collection, settings):
        _print_error(f"stopped; run the same command to resume the collection in {options.out}")
        return _INTERRUPTED
    console.print(
        f"in {collection.encoded}; train on it with: eigenrnn train --task CarRacing "
        f"--data_root {options.out}",
        soft_wrap=True,
        highlight=False,
    )
    return 0
