"""The linear recurrence as `torch.export` and `torch.onnx.export` record it."""

from collections.abc import Mapping

import torch
from torch import Tensor

from eigenrnn.ops.exporting import scan_steps
from eigenrnn.ops.linear.operands import LinearOperands, LinearOptions
from eigenrnn.ops.linear.reference import linear_step

__all__ = ["export_linear"]


def export_linear(
    operands: LinearOperands, options: LinearOptions, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Record the recurrence as a scan of steps, with real and imaginary parts apart.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.
    """
    x, decay, h0, _ = operands
    constant = operands._make([None] * len(operands))
    if not x.is_complex():
        inputs = {"x": x, "decay": decay.expand_as(x)}
        h, last = scan_steps(linear_step, {"h0": h0}, inputs, constant, lengths, options.reverse)
        return h, last["h0"]
    parts = _parts(x)
    inputs = {"x": parts, "decay": _parts(decay).expand_as(parts)}  # ONNX expands real numbers
    initial = {"h0": _parts(h0)}
    h, last = scan_steps(_step_of_parts, initial, inputs, constant, lengths, options.reverse)
    return _from_parts(h), _from_parts(last["h0"])


def _step_of_parts(
    states: Mapping[str, Tensor], now: Mapping[str, Tensor], _operands: LinearOperands
) -> dict[str, Tensor]:
    """Apply `linear_step` to real and imaginary parts."""
    real, imaginary = states["h0"].chunk(2, dim=1)
    a, b = now["decay"].chunk(2, dim=1)
    # (a + b i)(real + imaginary i), as ONNX has no complex numbers
    product = torch.cat([a * real - b * imaginary, b * real + a * imaginary], dim=1)
    return {"h0": product + now["x"]}


def _parts(z: Tensor) -> Tensor:  # (..., 2 N)
    """Return all real parts, then all imaginary parts."""
    return torch.cat(list(torch.view_as_real(z).unbind(-1)), dim=-1)


def _from_parts(parts: Tensor) -> Tensor:  # (..., N)
    return torch.view_as_complex(torch.stack(parts.chunk(2, dim=-1), dim=-1))
