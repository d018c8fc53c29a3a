"""The command `predict`, which applies a file of `fit` or a run on text to the user's file."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_float_dtype

from eigenrnn_experiments.cli.own_tables import read_table, sequences_of
from eigenrnn_experiments.console import say
from eigenrnn_experiments.files import write_atomically
from eigenrnn_experiments.loading import TrainedModel, load
from eigenrnn_experiments.prediction import bits_per_symbol, continue_text

__all__ = ["check_output", "predict", "write_output"]


def predict(
    run: str,
    input: str,
    *,
    out: str | None = None,
    length: int = 200,
    temperature: float = 1.0,
    seed: int = 0,
    data_root: str | None = None,
) -> int:
    """Apply a file of fit to a table: classes with probabilities, or numbers, as CSV.

    Scores follow if the table has the answers. Or apply a run on text: its continuation, and bits
    per character.

    Args:
        run: File of fit; or folder of a run, or one of its checkpoints.
        input: Table in CSV or Parquet; or a text; - for standard input.
        out: Output file, replaced if it exists; without it they are printed.
        length: Text: number of symbols to continue by.
        temperature: Text: below 1 the probable symbols are drawn more often; 0 takes the most
            probable.
        seed: Text: the seed of the draws.
        data_root: Folder with the data files.
    Raises:
        ValueError: If the output cannot be written, or the run reads no files of the user.
    """
    # printed predictions are alone on standard output, so that another program can read them
    note = partial(say, stderr=out is None)
    check_output(out, input)
    path = Path(run)
    if not path.is_file() or (path.parent / "run.json").exists():  # a run, not a file of `fit`
        drawing = {"length": length, "temperature": temperature, "seed": seed}
        predictions = _text(load(run, data_root), run, input, note, drawing)
    else:
        predictions = _table(run, input, note)
    write_output(predictions, out)
    return 0


def check_output(out: str | None, source: str) -> None:
    """Check the output file, if there is one, before any work is done.

    Raises:
        ValueError: If its folder does not exist, or it is a folder, a device or the input.
    """
    if out is None:
        return
    file = Path(out)
    # a device or a pipe, such as /dev/null, would become a file
    if (file.exists() and not file.is_file()) or not file.absolute().parent.is_dir():
        raise ValueError(f"expected a file in a folder that exists as --out, got {out}")
    if source == "-" or not Path(source).exists():
        return
    for taken in (file, file.with_name(f"{file.name}.tmp")):  # the second is written first
        if taken.exists() and taken.samefile(source):
            raise ValueError(f"expected another file than the input as --out, got {out}")


def write_output(text: str, out: str | None) -> None:
    """Write a text to the output file, or print it if there is none."""
    if out is None:
        sys.stdout.write(text)
        return
    write_atomically(Path(out), text.encode())
    say(f"wrote {out}")


def _table(file: str, input: str, note: Callable[[str], None]) -> str:
    """Return the predictions for the sequences of a table.

    Raises:
        ValueError: If the model is not one of `fit`, or the table does not fit it.
    """
    from eigenrnn.estimators import load as load_estimator  # needs scikit-learn

    estimator = load_estimator(file)
    if not hasattr(estimator, "table_"):
        raise ValueError(f"expected a file of eigenrnn fit, got {file}, made in Python")
    names = estimator.table_
    channels = list(estimator.feature_names_in_)
    needed = [*channels, names["time"], names["sequence"]]
    table = read_table(input, *needed, sequence=names["sequence"], labels=(names["target"],))
    sequences, X, parts = sequences_of(table, names, channels)
    found = pd.DataFrame({"sequence": sequences})
    if hasattr(estimator, "classes_"):
        p = estimator.predict_proba(X)
        found["prediction"] = estimator.classes_[p.argmax(1)]
        for k, name in enumerate(estimator.classes_):
            found[f"probability {name}"] = p[:, k]
    else:
        found["prediction"] = estimator.predict(X)
    if names["target"] in table:
        truth = pd.Series([part[names["target"]].iloc[0] for part in parts]).dropna()
        if len(truth):
            predicted: Any = found["prediction"][truth.index]
            scores = _scores(truth, predicted, hasattr(estimator, "classes_"))
            line = ", ".join(f"{name} {value:.4g}" for name, value in scores.items())
            note(f"{line} on {len(truth)} sequences")
    return found.to_csv(index=False, float_format="%.12g")


def _scores(truth: Any, predicted: Any, has_classes: bool) -> dict[str, float]:
    from sklearn import metrics

    if not has_classes:
        numbers = pd.to_numeric(truth)
        error = metrics.mean_absolute_error(numbers, predicted)
        return {"R2": float(metrics.r2_score(numbers, predicted)), "mean absolute error": error}
    # of classes such as 01 and 12, the table may have 12 alone, which is read as a number
    right = _names(truth)
    named = _names(predicted)
    macro = metrics.f1_score(right, named, average="macro")
    return {"accuracy": metrics.accuracy_score(right, named), "macro F1": float(macro)}


def _names(classes: Any) -> Any:
    """Return classes as texts; whole numbers have no fraction."""
    classes = classes.infer_objects()
    if is_float_dtype(classes) and (classes == classes.round()).all():
        classes = classes.astype("int64")
    return classes.astype(str)


def _text(
    trained: TrainedModel, run: str, input: str, note: Callable[[str], None], drawing: Any
) -> str:
    """Return the continuation of a text.

    Raises:
        ValueError: If the run reads no texts.
    """
    preprocessing = trained.preprocessing
    if preprocessing is None:
        raise ValueError(
            "expected a file of eigenrnn fit or a run of the task Text, got "
            f"{run}, a run of {type(trained.task).__name__}"
        )
    text = preprocessing.read(input)
    continuation = continue_text(trained.model, preprocessing, text, **drawing)
    bits = bits_per_symbol(trained.model, preprocessing, text)
    unit = preprocessing.unit.removesuffix("s")
    if bits is not None:
        note(f"{bits:.4g} bits per {unit}")
    if not continuation:  # of length 0, for the bits alone
        return ""
    return f"{continuation}\n"
