"""The Elman recurrence as `torch.export` and `torch.onnx.export` record it."""

import torch
from torch import Tensor

from eigenrnn.ops.arguments import Options, features_of
from eigenrnn.ops.elman.operands import ElmanOperands
from eigenrnn.ops.elman.reference import ELMAN
from eigenrnn.ops.exporting import export_steps, exported_operands, onnx_operator, onnx_supports

__all__ = ["export_complex_elman", "export_elman"]

_ONNX_NAMES = {"tanh": "Tanh", "relu": "Relu"}


def export_elman(
    operands: ElmanOperands, options: Options, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Record the recurrence as ONNX's RNN where it computes it, else as a scan of steps.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.
    """
    x = operands.x
    W = operands.W
    h0 = operands.h0
    U = operands.U
    c = operands.c
    plain = not features_of(operands, options)
    activation = _ONNX_NAMES.get(options.nonlinearity)
    if U is not None and plain and activation is not None and onnx_supports(x):
        # ONNX's RNN has a second bias, of the recurrent product
        zero = W.new_zeros(len(W))
        if c is None:
            c = zero
        weights = U, W, torch.cat([c, zero])
        return onnx_operator(
            "RNN", x, weights, lengths, h0, options.reverse, activations=[activation]
        )
    h, last = export_steps(ELMAN, operands, options, lengths)
    return h, last


def export_complex_elman(
    operands: ElmanOperands, options: Options, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:  # (T, B, 2 N), (B, 2 N)
    """Record a complex recurrence in real numbers, because ONNX has no complex ones.

    W is complex. All other operands are real: the real parts first, then the imaginary parts.
    """
    W = operands.W
    mask = operands.mask
    # (A + B i)(x + y i) = (A x - B y) + (B x + A y) i
    upper = torch.cat([W.real, -W.imag], dim=1)
    lower = torch.cat([W.imag, W.real], dim=1)
    operands = operands._replace(W=torch.cat([upper, lower]))
    if mask is not None:
        operands = operands._replace(mask=mask.repeat(1, 1, 2))
    if options.nonlinearity == "modrelu":
        options = options._replace(nonlinearity="modrelu_of_parts")
    return export_elman(exported_operands(operands), options, lengths)
