"""The command `fit`, which trains an estimator on a table."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from eigenrnn.estimators import SequenceClassifier, SequenceRegressor
from eigenrnn_experiments.cli.own_tables import check_roles, read_table, sequences_of
from eigenrnn_experiments.cli.predict import check_output
from eigenrnn_experiments.console import say
from eigenrnn_experiments.errors import unknown_name
from eigenrnn_experiments.registry import LAYERS

__all__ = ["fit"]


def fit(
    input: str,
    *,
    out: str,
    target: str,
    sequence: str = "sequence",
    time: str | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    layer: str = "GRU",
    random_state: int = 0,
    **options: Any,
) -> int:
    """Train a classifier or a regressor on the sequences of a table.

    Numbers with fractions as targets make a regressor. Every other column is a channel.
    Needs: pip install 'eigenrnn-experiments[series]'.

    Args:
        input: Table in CSV or Parquet, with a row for each time step.
        out: File of the model, replaced if it exists.
        target: Column of the answer of a sequence.
        sequence: Column that tells sequences apart.
        time: Column that orders the rows of a sequence.
        group: Column of what is not divided, as a person.
        ignore: Columns that are no channels.
        layer: Name of a layer; see: eigenrnn list layers.
        random_state: Seed.
        options: Further options, of the estimator.
    Raises:
        ValueError: If an option, a column or a value is wrong.
        KeyboardInterrupt: If Ctrl-C comes before the first epoch has ended.
    """
    check_output(out, input)
    check_roles(target=target, sequence=sequence, time=time)
    table = read_table(input, *ignore, target, time, sequence=sequence, labels=(target, group))
    names: dict[str, Any] = {
        "sequence": sequence,
        "time": time,
        "target": target,
        "group": group,
        "ignore": [*ignore],
    }
    _, X, parts = sequences_of(table, names)
    y = _answers(parts, target)
    groups: Any = None
    if group is not None:
        groups = _one_of_each(parts, group)
    if layer not in LAYERS:
        raise ValueError(unknown_name("layer", layer, LAYERS))
    estimator: Any = SequenceClassifier(
        LAYERS[layer], random_state=random_state, verbose=1, **options
    )
    if pd.api.types.is_float_dtype(y) and not np.equal(y, np.round(y)).all():
        shared = estimator.get_params()
        shared.pop("class_weight")
        shared["lr"] = shared["lr"] or 1e-3
        estimator = SequenceRegressor(**shared)
    try:
        estimator.fit(X, y, groups=groups)
    except KeyboardInterrupt:  # the best epoch so far is kept
        if not hasattr(estimator, "model_"):
            raise
    estimator.table_ = names  # which `predict` reads tables by
    estimator.save(out)
    say(f"{estimator!r} on {len(X)} sequences, in {out}")
    return 0


def _answers(parts: list[Any], name: str) -> Any:
    """Return the answer of each sequence, as numbers or texts.

    Raises:
        ValueError: If a sequence has several, or none, or they are neither.
    """
    y = _one_of_each(parts, name)
    kind = pd.api.types.infer_dtype(y)
    if kind == "decimal":  # as Parquet files of databases have them
        return y.astype(float)
    if kind not in ("string", "integer", "boolean", "floating", "categorical"):
        raise ValueError(f"expected numbers or texts in column {name}, got {kind}")
    return y


def _one_of_each(parts: list[Any], name: str) -> Any:
    """Return the value of a column in each sequence.

    Raises:
        ValueError: If a sequence has several, or none.
    """
    for part in parts:
        if part[name].nunique(dropna=False) > 1 or part[name].isna().any():
            raise ValueError(
                f"expected one value of {name} in each sequence, got "
                f"{part[name].drop_duplicates().tolist()[:3]} in the one of row {part.index[0]}"
            )
    return pd.concat([part[name].iloc[:1] for part in parts], ignore_index=True)
