"""The LSTM by definition: its record, in plain differentiable operations."""

import torch
from torch import Tensor

from eigenrnn.ops.arguments import map_inputs
from eigenrnn.ops.dispatch import REAL, Backend
from eigenrnn.ops.lstm.operands import (
    LSTMOperands,
    LSTMOptions,
    lstm_saved_parts,
    lstm_shapes,
)
from eigenrnn.ops.recurrence import Recurrence
from eigenrnn.ops.time_steps import without_padding

__all__ = ["LSTM", "LSTMReference", "lstm_reference", "lstm_step"]


def lstm_reference(
    operands: LSTMOperands, options: LSTMOptions
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (B, N)
    """Evaluate the equations of the recurrence one step at a time.

    Autograd records T steps of small operations, so the backward pass is slow and needs much
    memory.
    """
    x, W, h, cell = operands.x, operands.W, operands.h0, operands.c0
    T, B, _ = x.shape
    sizes = options.batch_sizes or [B] * T
    x = without_padding(x, options.batch_sizes)
    # indexing would allocate a gradient of the size of x at every step
    xs = map_inputs(x, operands.U, operands.c).unbind()
    states: list[Tensor] = []
    for t in reversed(range(T)) if options.reverse else range(T):
        n = sizes[t]
        h_new, cell_new = lstm_step(xs[t][:n], h[:n], cell[:n], W)
        # a finished sequence keeps its states; one that has not begun keeps h0 and c0
        h = torch.cat([h_new, h[n:]]) if n < B else h_new
        cell = torch.cat([cell_new, cell[n:]]) if n < B else cell_new
        states.append(torch.cat([h_new, torch.zeros_like(h[n:])]) if n < B else h_new)
    return torch.stack(states[::-1] if options.reverse else states), h, cell


def lstm_step(
    x: Tensor,  # (B, 4 N)
    h: Tensor,  # (B, N)
    cell: Tensor,  # (B, N)
    W: Tensor,  # (4 N, N)
) -> tuple[Tensor, Tensor]:  # (B, N), (B, N)
    """Return the state and the cell after one time step of mapped inputs."""
    i, f, g, o = (x + h @ W.T).chunk(4, dim=1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


LSTM = Recurrence(
    "lstm",
    operands=LSTMOperands,
    options=LSTMOptions,
    states=("h0", "c0"),
    results=("h", "last", "last_cell"),
    shapes=lstm_shapes,
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

    def run(self, operands: LSTMOperands, options: LSTMOptions) -> tuple[Tensor, Tensor, Tensor]:
        return lstm_reference(operands, options)
