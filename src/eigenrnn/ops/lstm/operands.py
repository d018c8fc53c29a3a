"""The operands and the options of the LSTM."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from torch import Tensor

__all__ = ["LSTMOperands", "LSTMOptions", "lstm_saved_parts"]


class LSTMOperands(NamedTuple):
    """The tensors of one call, as `lstm` describes them."""

    x: Annotated[Tensor, "T", "B", "M"]  # without U they are mapped: (T, B, 4 N)
    W: Annotated[Tensor, "4N", "N"]
    h0: Annotated[Tensor, "B", "N"]
    c0: Annotated[Tensor, "B", "N"]
    U: Annotated[Tensor | None, "4N", "M"] = None
    c: Annotated[Tensor | None, "4N"] = None
    resets: Annotated[Tensor | None, "T", "B"] = None  # bool


class LSTMOptions(NamedTuple):
    """The options of one call, as `lstm` describes them."""

    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False
    products: str = "float32"


def lstm_saved_parts(_operands: LSTMOperands, _options: LSTMOptions) -> list[str]:
    """Return what the kernels save of each unit: the gates, and the cell before the step."""
    return ["input", "forget", "cell", "output", "old_cell"]
