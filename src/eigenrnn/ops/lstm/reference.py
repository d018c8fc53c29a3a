"""The LSTM by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from eigenrnn.ops.recurrence import Recurrence

__all__ = ["LSTM", "LSTMOperands", "LSTMOptions"]


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


def _saved_parts(_operands: LSTMOperands, _options: LSTMOptions) -> list[str]:
    """Return what the kernels save of each unit: the gates, and the cell before the step."""
    return ["input", "forget", "cell", "output", "old_cell"]


def _step(
    states: Mapping[str, Tensor],  # (B, N), (B, N)
    now: Mapping[str, Tensor],  # (B, 4 N)
    operands: LSTMOperands,
    _options: LSTMOptions,
) -> tuple[Tensor, dict[str, Tensor]]:  # (B, N), (B, N)
    """Evaluate the equations of the recurrence on mapped inputs."""
    # in the order of `torch.nn.LSTM`
    i, f, g, o = (now["x"] + states["h0"] @ operands.W.T).chunk(4, dim=1)
    cell = torch.sigmoid(f) * states["c0"] + torch.sigmoid(i) * torch.tanh(g)
    h = torch.sigmoid(o) * torch.tanh(cell)
    return h, {"h0": h, "c0": cell}


LSTM = Recurrence(
    "lstm",
    operands=LSTMOperands,
    options=LSTMOptions,
    states=("h0", "c0"),
    results=("h", "last", "last_cell"),
    step=_step,
    features=frozenset({"resets"}),
    gates=4,
    saved_parts=_saved_parts,
)
"""The LSTM."""
