"""The delta rule as `torch.export` and `torch.onnx.export` record it."""

import torch
from torch import Tensor

from eigenrnn.ops.arguments import to_float32
from eigenrnn.ops.delta.operands import DeltaOperands, DeltaOptions
from eigenrnn.ops.delta.reference import DELTA
from eigenrnn.ops.exporting import export_steps

__all__ = ["export_delta"]


def export_delta(
    operands: DeltaOperands, options: DeltaOptions, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:  # (T, B, H, V), (B, H, K, V)
    """Record the delta rule as a scan of steps.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.

    Raises:
        ValueError: If the number of sequences is free, and that of the example is one.
    """
    wide = to_float32(operands)
    # torch's tracer takes a size of one for a constant in a product with a number, as in q and
    # beta; the program would then fail for two sequences
    if isinstance(wide.v.shape[1], torch.SymInt) and wide.beta.shape[1] == 1:
        raise ValueError(
            "expected an example of two sequences or more where their number is free, got one"
        )
    o, last = export_steps(DELTA, wide, options, lengths)
    return o.to(operands.q.dtype), last
