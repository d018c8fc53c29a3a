"""The LSTM as `torch.export` and `torch.onnx.export` record it."""

from torch import Tensor

from eigenrnn.ops.arguments import mapped_inputs
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
    # a step gets these from the states and the mapped inputs
    constant = operands._replace(**dict.fromkeys(("x", "h0", "c0", "U", "c")))
    h, last = scan_steps(
        lstm_step,
        {"h0": operands.h0, "c0": operands.c0},
        mapped_inputs(operands),
        constant,
        lengths,
        options.reverse,
    )
    return h, last["h0"], last["c0"]
