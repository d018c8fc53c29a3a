"""The command `train`, and the row that its options describe."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from eigenrnn.layers import GRU, LRU, NCGRU, Layer, NnRNN, ScoRNN
from eigenrnn_experiments import tasks
from eigenrnn_experiments.baselines import TanhRNN
from eigenrnn_experiments.cli.main import SIGNALLED
from eigenrnn_experiments.console import plain_console
from eigenrnn_experiments.recipes import Row
from eigenrnn_experiments.recipes.reproduce import train as train_row
from eigenrnn_experiments.tasks import Task
from eigenrnn_experiments.training import Dynamics, RunKey, Settings
from eigenrnn_experiments.training.callbacks import Callback

__all__ = ["DEFAULT_LAYERS", "row_to_train", "train"]

# the layer of a task without --layer, as the page on choosing says; GRU for all other tasks
DEFAULT_LAYERS: dict[type[Task], Any] = {
    tasks.Copying: ScoRNN,
    tasks.Denoise: NnRNN,
    tasks.Adding: NCGRU,
    tasks.PixelMNIST: LRU,
    tasks.CharPTB: TanhRNN,
    tasks.Enwik8: TanhRNN,
    tasks.Text: TanhRNN,
    tasks.WordPTB: TanhRNN,
}


def train(
    *,
    dynamics_every: int | None = None,
    max_minutes: float | None = None,
    out: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
    **options: Any,
) -> int:
    """Train a recurrent layer on a task.

    Args:
        dynamics_every: Record spectra and gradients every so many steps; without it none.
        max_minutes: Stop after so many minutes; --resume continues; without it no limit.
        out: Output folder; without it runs/TASK-LAYER-UNITS, such as runs/copying-scornn-128.
        resume: Continue an existing run.
        overwrite: Delete an existing run.
        options: Further options, of `row_to_train`.
    """
    callbacks: list[Callback] = []
    if dynamics_every is not None:
        callbacks.append(Dynamics(dynamics_every))
    row = row_to_train(**options)
    folder = Path(out or f"runs/{row.label}")
    run = train_row(
        row,
        RunKey(seed=row.settings.seed),
        folder,
        resume=resume,
        overwrite=overwrite,
        callbacks=callbacks,
        name=row.label,
        max_minutes=max_minutes,
    )
    console = plain_console()
    console.print(
        f"{run.parameters:,} parameters, {run.steps:,} steps in {run.seconds:.0f} s; chance-level "
        f"loss {row.task.baseline():.4g}"
    )
    for title, metrics in (("last", run.last), (f"best by {run.best_by}", run.best)):
        for split, numbers in metrics.items():
            values = ", ".join(f"{name} {number:.4g}" for name, number in numbers.items())
            console.print(f"{title}: {split} {values}")
    console.print(f"in {folder}")
    if run.signal is not None:
        return SIGNALLED + run.signal
    return 0


def row_to_train(
    *,
    task: Task,
    layer: Callable[[int, int], Layer] | None = None,
    hidden_size: int = 128,
    embedding_size: int | None = None,
    data_root: str | None = None,
    **settings: Any,
) -> Row:
    """Return what the options describe; its label names its folder.

    Args:
        task: A task, or the import path of a class of your own; set its options with
            --task.OPTION, list them with --task.help TASK.
        layer: A layer, or the import path of a class of your own; set its options with
            --layer.OPTION, list them with --layer.help LAYER; without it a layer that suits the
            task, such as ScoRNN for Copying.
        hidden_size: Number of hidden units N.
        embedding_size: Size of the symbol embedding, for tasks with symbols; without it N.
        data_root: Folder with the data files.
        settings: The settings of the training.
    """
    make_layer: Any = layer or DEFAULT_LAYERS.get(type(task), GRU)
    kind: Any = getattr(make_layer, "func", make_layer)
    return Row(
        label=f"{type(task).__name__}-{kind.__name__}-{hidden_size}".lower(),
        task=task.with_data_root(data_root),
        layer=make_layer,
        hidden_size=hidden_size,
        settings=Settings(**settings),
        reported=(),
        embedding_size=embedding_size,
    )
