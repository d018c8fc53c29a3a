"""The operands and the options of the LSTM."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from eigenrnn.ops.recurrence import Axes

__all__ = ["LSTM_AXES", "LSTMOperands", "LSTMOptions", "lstm_saved_parts"]


class LSTMOperands(NamedTuple):
    """The tensors of one call, as `lstm` describes them."""

    x: Tensor  # (T, B, 4 N) or (T, B, M)
    W: Tensor  # (4 N, N)
    h0: Tensor  # (B, N)
    c0: Tensor  # (B, N)
    U: Tensor | None = None  # (4 N, M)
    c: Tensor | None = None  # (4 N,)
    resets: Tensor | None = None  # (T, B), bool


class LSTMOptions(NamedTuple):
    """The options of one call, as `lstm` describes them."""

    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False
    products: str = "float32"


LSTM_AXES: Axes = {
    "x": ("T", "B", "M"),
    "W": ("4N", "N"),
    "h0": ("B", "N"),
    "c0": ("B", "N"),
    "U": ("4N", "M"),
    "c": ("4N",),
    "resets": ("T", "B"),
}


def lstm_saved_parts(_operands: LSTMOperands, _options: LSTMOptions) -> list[str]:
    """Return what the kernels save of each unit: the gates, and the cell before the step."""
    return ["input", "forget", "cell", "output", "old_cell"]
