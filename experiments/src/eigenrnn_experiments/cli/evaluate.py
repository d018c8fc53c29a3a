"""The command `evaluate`, which compares the predictions of a run with the answers of a file."""

from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from eigenrnn_experiments.cli.predict import check_output
from eigenrnn_experiments.evaluation import evaluate_series
from eigenrnn_experiments.loading import load
from eigenrnn_experiments.tasks.preprocessing import SeriesPreprocessing
from eigenrnn_experiments.training import records
from eigenrnn_experiments.training.progress import printable
from eigenrnn_experiments.training.run_folder import RunFolder

__all__ = ["evaluate"]


def evaluate(options: Namespace, console: Console) -> int:
    """Print the metrics, write them to a file, and return the exit status.

    Raises:
        ValueError: If the output cannot be written, the run is not on series, or the file has no
            answers.
    """
    trained = load(options.run, options.data_root)
    out: Path | None = None
    if options.out is not None:
        out = Path(options.out)
        check_output(out, options.input)
    if not isinstance(trained.preprocessing, SeriesPreprocessing):
        raise ValueError(
            f"expected a run of the task Series, got {options.run}, a run of "
            f"{type(trained.task).__name__}; predict prints the bits per symbol of a text"
        )
    sequences = trained.preprocessing.read(options.input)
    evaluation = evaluate_series(trained.model, trained.preprocessing, sequences)
    if out is None:
        out = RunFolder(trained.checkpoint.parent).evaluation_file_of(evaluation.file)
    for line in [f"{evaluation.count} sequences", *evaluation.lines(), f"in {out}"]:
        console.print(printable(line), soft_wrap=True, highlight=False, markup=False)
    records.write(out, evaluation)
    return 0
