"""Networks that the papers compare, at further learning rates, without and with clipping."""

from collections.abc import Sequence
from dataclasses import replace

from eigenrnn_experiments import registry
from eigenrnn_experiments.recipes.recipe import Recipe
from eigenrnn_experiments.recipes.row import Axis, Row

__all__ = ["RECIPES"]

_OURS = "the learning rate and the clipping are ours; the rest is that of the paper's row"
_SEQUENCES = 100_000


def _with_rate(row: Row, rate: float) -> Row:
    """Return the row with one learning rate for all parameters."""
    return row.with_changes({"lr": rate, "lr_recurrent": rate})


def _with_clipping(row: Row, norm: float) -> Row:
    """Return the row with the largest norm of the gradient; 0 for no clipping."""
    return row.with_changes({"clip_norm": norm or None})


def _arms(
    recipe: str, label: str, rates: Sequence[float], clips: Sequence[float] = (0.0, 1.0)
) -> Row:
    """Return the row of a paper's recipe as a search over rates, without and with clipping."""
    row = registry.RECIPES[recipe].row(label)
    reported = replace(row.reported[0], value=None, place="no paper", note=_OURS, decimals=None)
    return replace(
        row,
        reported=(reported,),
        grid=(
            Axis("lr", tuple(rates), _with_rate),
            Axis("clip", tuple(clips), _with_clipping),
        ),
        departures=(*row.departures, _OURS),
    )


def _study(name: str, summary: str, *rows: Row) -> Recipe:
    source = "networks of scoRNN's paper at rates of our own"
    return Recipe(f"baselines/{name}", summary, rows, source, seeds=(0, 1, 2))


_URNN_2000 = _arms("scornn/fig1", "full-capacity uRNN 128 T=2000", (3e-4, 1e-3, 3e-3))
_MORE_SEQUENCES = replace(
    _URNN_2000,
    label=f"{_URNN_2000.label}, {_SEQUENCES:,} sequences",
    task=replace(_URNN_2000.task, train_examples=_SEQUENCES, shuffle=True),  # type: ignore[type-var]
    departures=(*_URNN_2000.departures, "as many sequences as in the code of the uRNN's authors"),
)

RECIPES = (
    _study(
        "adding",
        "Adding with 200 and 400 steps: the LSTM and the full-capacity uRNN at further rates.",
        _arms("scornn/fig2", "LSTM 60 T=200", (3e-3, 1e-2), (0.0,)),
        _arms("scornn/fig2", "LSTM 60 T=400", (3e-3, 1e-2), (0.0,)),
        _arms("scornn/fig2", "full-capacity uRNN 120 T=200", (3e-4, 1e-3, 3e-3)),
        _arms("scornn/fig2", "full-capacity uRNN 120 T=400", (3e-4, 1e-3, 3e-3)),
    ),
    _study(
        "copying",
        "Copying with a delay of 2000: the full-capacity uRNN at further rates.",
        _URNN_2000,
        _MORE_SEQUENCES,
    ),
    _study(
        "pixels",
        "MNIST pixel by pixel, in order: the LSTM at further rates.",
        _arms("scornn/table1", "LSTM 128", (3e-4, 1e-3, 3e-3)),
    ),
)
"""One study for each task."""
