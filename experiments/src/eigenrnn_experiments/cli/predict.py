"""The command `predict`, which applies the trained network of a run to a file of the user."""

import sys
from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from eigenrnn_experiments.atomic import write_atomically
from eigenrnn_experiments.loading import TrainedModel, load
from eigenrnn_experiments.prediction import bits_per_symbol, continue_text, predict_series
from eigenrnn_experiments.tasks.preprocessing import SeriesPreprocessing, TextPreprocessing
from eigenrnn_experiments.training.progress import plain_console, printable

__all__ = ["check_output", "predict"]


def predict(options: Namespace, console: Console) -> int:
    """Write the predictions to a file or to standard output, and return the exit status.

    Raises:
        ValueError: If the output cannot be written, or the run reads no files of the user.
    """
    out: Path | None = None
    # the predictions alone are on standard output, so that another program can read them
    notes = plain_console(stderr=True)
    if options.out is not None:
        out = Path(options.out)
        check_output(out, options.input)
        notes = console
    trained = load(options.run, options.data_root)
    if isinstance(trained.preprocessing, SeriesPreprocessing):
        sequences = trained.preprocessing.read(options.input)
        predictions = predict_series(trained.model, trained.preprocessing, sequences).to_csv()
    elif isinstance(trained.preprocessing, TextPreprocessing):
        predictions = _text(trained, trained.preprocessing, options, notes)
    else:
        raise ValueError(
            "expected a run of the task Series or Text, which read files of your own, got "
            f"{options.run}, a run of {type(trained.task).__name__}"
        )
    if out is None:
        if sys.stdout.isatty():
            predictions = printable(predictions)
        sys.stdout.write(predictions)
        return 0
    write_atomically(out, predictions.encode())
    console.print(f"wrote {out}", soft_wrap=True, highlight=False, markup=False)
    return 0


def check_output(out: Path, source: str) -> None:
    """Check the output file before any work is done.

    Raises:
        ValueError: If its folder does not exist, or it is a folder or the input.
    """
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise ValueError(f"expected a file in a folder that exists as --out, got {out}")
    if out.exists() and source != "-" and Path(source).exists() and out.samefile(source):
        raise ValueError(f"expected another file than the input as --out, got {out}")


def _text(
    trained: TrainedModel, preprocessing: TextPreprocessing, options: Namespace, notes: Console
) -> str:
    text = preprocessing.read(options.input)
    continuation = continue_text(
        trained.model,
        preprocessing,
        text,
        options.length,
        temperature=options.temperature,
        seed=options.seed,
    )
    bits = bits_per_symbol(trained.model, preprocessing, text)
    unit = preprocessing.unit.removesuffix("s")
    if bits is not None:
        notes.print(f"{bits:.4g} bits per {unit}", highlight=False)
    if not continuation:  # of length 0, for the bits alone
        return ""
    return f"{continuation}\n"
