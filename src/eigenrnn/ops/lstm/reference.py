"""The LSTM by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping

import torch
from torch import Tensor

from eigenrnn.ops.lstm.operands import (
    LSTMOperands,
    LSTMOptions,
    lstm_saved_parts,
)
from eigenrnn.ops.recurrence import Recurrence

__all__ = ["LSTM"]


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
    saved_parts=lstm_saved_parts,
)
"""The LSTM."""
