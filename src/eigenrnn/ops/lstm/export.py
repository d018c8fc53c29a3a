"""The LSTM as `torch.export` and `torch.onnx.export` record it."""

from torch import Tensor

from eigenrnn.ops.arguments import map_inputs
from eigenrnn.ops.exporting import exported_operands, scan_steps
from eigenrnn.ops.lstm.operands import LSTMOperands, LSTMOptions
from eigenrnn.ops.lstm.reference import lstm_step

__all__ = ["export_lstm"]


def export_lstm(
    operands: LSTMOperands, options: LSTMOptions, lengths: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (B, N)
    """Record the recurrence as a scan of steps.

    Torch cannot record ONNX's LSTM with its last cell if T and B are unknown.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.
    """
    operands = exported_operands(operands)

    def step(
        states: tuple[Tensor, ...], now: tuple[Tensor, ...], weights: LSTMOperands
    ) -> tuple[Tensor, ...]:
        return lstm_step(now[0], states[0], states[1], weights.W)

    inputs = (map_inputs(operands.x, operands.U, operands.c),)
    initial = [operands.h0, operands.c0]
    weights = operands._replace(**dict.fromkeys(("x", "h0", "c0", "U", "c")))
    h, (last, cell) = scan_steps(step, initial, inputs, weights, lengths, options.reverse)
    return h, last, cell
