"""The command `fit`, which trains an estimator on a table."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jsonargparse import Namespace
from rich.console import Console

from eigenrnn.estimators import SequenceClassifier, SequenceRegressor
from eigenrnn_experiments.cli.own_tables import read_table, sequences_of
from eigenrnn_experiments.cli.parser import FIT_OPTIONS
from eigenrnn_experiments.cli.predict import check_output
from eigenrnn_experiments.errors import unknown_name
from eigenrnn_experiments.registry import LAYERS

__all__ = ["fit"]

ROLES = ("sequence", "time", "target", "group", "ignore")


def fit(options: Namespace, console: Console) -> int:
    """Train on a table, save the estimator, and return the exit status.

    Raises:
        ValueError: If an option, a column or a value is wrong.
        KeyboardInterrupt: If Ctrl-C comes before the first epoch has ended.
    """
    out = Path(options.out)
    check_output(out, options.input)
    names: dict[str, Any] = {role: options[role] for role in ROLES}
    table = read_table(options.input, *names["ignore"], names["target"], names["time"])
    _, X, parts = sequences_of(table, names)
    y = _one_of_each(parts, names["target"])
    groups: Any = None
    if names["group"] is not None:
        groups = _one_of_each(parts, names["group"])
    if options.layer not in LAYERS:
        raise ValueError(unknown_name("layer", options.layer, LAYERS))
    chosen = {name: options[name] for name in FIT_OPTIONS}
    if pd.api.types.is_float_dtype(y) and not np.equal(y, np.round(y)).all():
        chosen.pop("class_weight")
        chosen["lr"] = chosen["lr"] or 1e-3
        kind: Any = SequenceRegressor
    else:
        kind = SequenceClassifier
    estimator = kind(LAYERS[options.layer], verbose=1, **chosen)
    try:
        estimator.fit(X, y, groups=groups)
    except KeyboardInterrupt:  # the best epoch so far is kept
        if not hasattr(estimator, "model_"):
            raise
    estimator.table_ = names  # which `predict` reads tables by
    estimator.save(out)
    console.print(
        f"{estimator!r} on {len(X)} sequences, in {out}", soft_wrap=True, highlight=False
    )
    return 0


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
