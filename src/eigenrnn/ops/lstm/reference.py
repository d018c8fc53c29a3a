"""The LSTM by definition: its record, in plain differentiable operations."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from eigenrnn.ops.arguments import mapped_inputs
from eigenrnn.ops.dispatch import REAL, Backend
from eigenrnn.ops.lstm.operands import (
    LSTMOperands,
    LSTMOptions,
    lstm_saved_parts,
)
from eigenrnn.ops.recurrence import Recurrence, axes_of, matrix_shapes
from eigenrnn.ops.time_steps import run_steps, without_padding

__all__ = ["LSTM", "LSTMReference", "lstm_reference", "lstm_step"]


def lstm_reference(
    operands: LSTMOperands, options: LSTMOptions
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (B, N)
    """Evaluate the equations of the recurrence one step at a time.

    Autograd records T steps of small operations, so the backward pass is slow and needs much
    memory.
    """
    x = without_padding(operands.x, options.batch_sizes)
    h, last = run_steps(
        lstm_step,
        {"h0": operands.h0, "c0": operands.c0},
        mapped_inputs(operands._replace(x=x)),
        operands,
        options.batch_sizes,
        options.reverse,
    )
    return h, last["h0"], last["c0"]


def lstm_step(
    states: Mapping[str, Tensor],  # (B, N), (B, N)
    now: Mapping[str, Tensor],  # (B, 4 N)
    operands: LSTMOperands,
) -> dict[str, Tensor]:  # (B, N), (B, N)
    """Return the state and the cell after one time step of mapped inputs."""
    # in the order of `torch.nn.LSTM`
    i, f, g, o = (now["x"] + states["h0"] @ operands.W.T).chunk(4, dim=1)
    cell = torch.sigmoid(f) * states["c0"] + torch.sigmoid(i) * torch.tanh(g)
    return {"h0": torch.sigmoid(o) * torch.tanh(cell), "c0": cell}


LSTM = Recurrence(
    "lstm",
    operands=LSTMOperands,
    options=LSTMOptions,
    states=("h0", "c0"),
    results=("h", "last", "last_cell"),
    shapes=partial(matrix_shapes, axes_of(LSTMOperands), 4),
    definition=lstm_reference,
    gates=4,
    saved_parts=lstm_saved_parts,
)
"""The LSTM."""


class LSTMReference(Backend):
    """The definition, one step at a time."""

    name = "reference"
    description = "naive loop, differentiable any number of times"
    dtypes = REAL
    features = frozenset({"resets"})

    def run(self, operands: LSTMOperands, options: LSTMOptions) -> tuple[Tensor, Tensor, Tensor]:
        return lstm_reference(operands, options)
