"""The linear recurrence as `torch.export` and `torch.onnx.export` record it."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from eigenrnn.ops.arguments import map_tensors
from eigenrnn.ops.exporting import export_steps
from eigenrnn.ops.linear.operands import LinearOperands, LinearOptions
from eigenrnn.ops.linear.reference import LINEAR

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
    if not operands.x.is_complex():
        h, last = export_steps(LINEAR, operands, options, lengths)
        return h, last
    # ONNX has no complex numbers
    parts = map_tensors(_parts, operands)
    h, last = export_steps(replace(LINEAR, step=_step_of_parts), parts, options, lengths)
    return _from_parts(h), _from_parts(last)


def _step_of_parts(
    states: Mapping[str, Tensor],
    now: Mapping[str, Tensor],
    operands: LinearOperands,
    _options: LinearOptions,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Evaluate the step of the recurrence on real and imaginary parts."""
    real, imaginary = states["h0"].chunk(2, dim=1)
    a, b = now.get("decay", operands.decay).chunk(2, dim=-1)
    # (a + b i)(real + imaginary i)
    h = torch.cat([a * real - b * imaginary, b * real + a * imaginary], dim=1) + now["x"]
    return h, {"h0": h}


def _parts(z: Tensor) -> Tensor:  # (..., 2 N)
    """Return all real parts, then all imaginary parts."""
    return torch.cat(list(torch.view_as_real(z).unbind(-1)), dim=-1)


def _from_parts(parts: Tensor) -> Tensor:  # (..., N)
    return torch.view_as_complex(torch.stack(parts.chunk(2, dim=-1), dim=-1))
