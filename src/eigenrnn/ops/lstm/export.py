"""The LSTM as `torch.export` and `torch.onnx.export` record it."""

from torch import Tensor

from eigenrnn.ops.exporting import export_steps, exported_operands
from eigenrnn.ops.lstm.operands import LSTMOperands, LSTMOptions
from eigenrnn.ops.lstm.reference import LSTM

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
    h, last, last_cell = export_steps(LSTM, operands, options, lengths)
    return h, last, last_cell
