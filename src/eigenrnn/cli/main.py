"""What the commands do."""

import os
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

import torch
from jsonargparse import ArgumentError, Namespace
from rich.console import Console
from rich.markup import escape
from torch import nn

from eigenrnn import bench
from eigenrnn.cli import complaints, listing, names
from eigenrnn.cli.parser import Parser, commands
from eigenrnn.errors import NonFiniteLossError
from eigenrnn.layers.stacked import Stacked
from eigenrnn.models import count_parameters, model_for
from eigenrnn.recipes import Entry, Recipe, Row, reproduce
from eigenrnn.registry import RECIPES
from eigenrnn.tasks import Task
from eigenrnn.train import Result, Settings, fit
from eigenrnn.train.run_directory import write_json
from eigenrnn.world import Collection, autoencoder_settings, encode

__all__ = ["main"]

_USERS_ERRORS = (
    *(ArgumentError, ValueError, TypeError, OSError, ImportError, MemoryError, NonFiniteLossError),
)
_INTERRUPTED = 130  # what a shell reports of a program that Ctrl-C ended


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
        flags = {
            name: set(parser.get_defaults().as_dict()) for name, (parser, _) in commands().items()
        }
        command = next((argument for argument in given if argument in flags), "")
        _complain(complaints.explain(str(error), flags, command))
        return 2
    except KeyboardInterrupt:  # before the first step, or the second one of a run
        _complain("stopped")
        return _INTERRUPTED


def _complain(said: str) -> None:
    console = Console(stderr=True)
    console.print(f"[bold red]error:[/] {escape(said)}", soft_wrap=True, highlight=False)


def _run(given: list[str]) -> int:
    parser = Parser.of_everything()
    options = parser.parse_args(names.in_arguments(given))
    console = Console()
    chosen: Namespace = options[options.subcommand]
    if options.subcommand == "list":
        listing.show(chosen.kind, as_json=chosen.json, console=console)
        return 0
    does = {"train": _train, "reproduce": _reproduce, "bench": _bench, "collect": _collect}
    command = does[options.subcommand]
    return command(parser.instantiate(options)[options.subcommand], console)


def _train(options: Namespace, console: Console) -> int:
    settings = Settings(**{f.name: options[f.name] for f in fields(Settings)})
    task = _with_data_root(options.task, options.data_root)
    generator = torch.Generator().manual_seed(settings.seed)
    model = model_for(
        task,
        options.layer,
        options.hidden_size,
        embedding_size=options.embedding_size,
        generator=generator,
    )
    layer = next(module for module in model.modules() if isinstance(module, Stacked | nn.RNNBase))
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
    return _INTERRUPTED if result.interrupted else 0


def _say(result: Result, task: Task, model: nn.Module, console: Console) -> None:
    """Print what came out of a run, once for all its processes."""
    if torch.distributed.is_initialized() and torch.distributed.get_rank() > 0:
        return
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
    listing.show_outcomes(recipe, outcomes, quick=options.quick, console=console)
    console.print(f"in {directory}/results.json and results.md", soft_wrap=True)
    return _INTERRUPTED if any(outcome.interrupted for outcome in outcomes) else 0


def _bench(options: Namespace, console: Console) -> int:
    sizes = [_size(given) for given in options.sizes or ()] or bench.SIZES
    rounds, everything = options.rounds, options.all
    if rounds < 2:
        raise ValueError(f"expected --rounds of 2 or more, got {rounds}")
    if options.json and not Path(options.json).absolute().parent.is_dir():
        raise ValueError(f"expected --json in a folder that exists, got {options.json}")
    path = Path(options.json) if options.json else None

    def after(found: bench.Bench, size: bench.Size | None) -> None:
        bench.show(found, size, console)
        if path is not None:  # as it comes: a long run that is stopped has not been in vain
            write_json(path, found.to_json())

    with console.status("timing") as status:
        say = status.update
        bench.measure(sizes, rounds, slow=everything, more=everything, say=say, after=after)
    return 0


def _collect(options: Namespace, console: Console) -> int:
    if options.what != "car_racing":
        raise ValueError(names.unknown("task to collect for", options.what, ["car_racing"]))
    collection = Collection(options.out, options.rollouts, options.steps, options.seed)
    settings = autoencoder_settings(
        epochs=options.epochs, seed=options.seed, accelerator=options.accelerator
    )
    if not (collection.collect(options.processes) and encode(collection, settings)):
        _complain(f"stopped; the same command goes on with what is in {options.out}")
        return _INTERRUPTED
    console.print(
        f"in {collection.encoded}; train on it with: eigenrnn train --task car_racing "
        f"--data_root {options.out}",
        soft_wrap=True,
        highlight=False,
    )
    return 0


def _size(given: str) -> tuple[int, int, int]:
    """Read T,B,N.

    Raises:
        ValueError: If it is not three positive integers.
    """
    parts = given.split(",")
    T, B, N = (int(p) if p.isdecimal() else 0 for p in (parts if len(parts) == 3 else "000"))
    if min(T, B, N) < 1:
        raise ValueError(
            f"expected each of --sizes to be T,B,N, such as 784,128,170; got {given!r}"
        )
    return T, B, N


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

    def moved(row: Entry) -> Entry:
        if not isinstance(row, Row) or not _reads_files(row.task):
            return row
        quick = None if row.quick_task is None else _with_data_root(row.quick_task, data_root)
        return replace(row, task=_with_data_root(row.task, data_root), quick_task=quick)

    return replace(recipe, rows=tuple(map(moved, recipe.rows)))


def _reads_files(task: Task) -> bool:
    return any(f.name == "data_root" for f in fields(task))  # type: ignore[arg-type]
