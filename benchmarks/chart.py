"""Draws the bar chart of the README from the times that docs/speed.md gives.

``PYTHONPATH=docs/_ext python -m benchmarks.chart`` writes docs/pictures/speed-light.png and
speed-dark.png.
"""

from pathlib import Path

from matplotlib.figure import Figure

__all__ = ["ONE_STEP_MICROSECONDS", "TRAINING_STEP_MILLISECONDS", "draw"]

TRAINING_STEP_MILLISECONDS = {
    "eigenrnn RNN": 43,
    "torch.nn.RNN": 223,
    "eigenrnn GRU": 145,
    "torch.nn.GRU": 777,
    "torch.nn.LSTM": 529,
}
"""Forward and backward pass at T = 784, B = 128, N = 170."""

ONE_STEP_MICROSECONDS = {
    "eigenrnn Stream, RNN": 4.2,
    "onnxruntime, RNN": 7.1,
    "torch.nn.RNN": 23.5,
    "eigenrnn Stream, LSTM": 7.3,
    "torch.nn.LSTM": 102.7,
}
"""One step of one sequence at N = 170."""

_OURS = "#2a83c4"
_OTHERS = "#b0b0b0"


def draw() -> Figure:
    """Draw both comparisons, ours in colour."""
    figure = Figure(figsize=(8, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, times, title in (
        (left, TRAINING_STEP_MILLISECONDS, "a training step (ms)"),
        (right, ONE_STEP_MICROSECONDS, "one streamed step (microseconds)"),
    ):
        names = list(times)
        colours = [_OURS if name.startswith("eigenrnn") else _OTHERS for name in names]
        bars = axes.barh(names, list(times.values()), color=colours)
        axes.bar_label(bars, padding=3)
        axes.invert_yaxis()  # the first one on top
        axes.set_title(title)
        axes.set_xticks([])
        axes.margins(x=0.15)
        axes.spines[["top", "right", "bottom"]].set_visible(False)
    return figure


if __name__ == "__main__":
    from two_themes import save_both  # of docs/_ext

    save_both(draw(), Path(__file__).parents[1] / "docs" / "pictures", "speed")
