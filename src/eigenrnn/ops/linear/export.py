"""The linear recurrence as `torch.export` and `torch.onnx.export` record it."""

from typing import NamedTuple

import torch
from torch import Tensor

from eigenrnn.ops.exporting import scan_steps
from eigenrnn.ops.linear.operands import LinearOperands, LinearOptions

__all__ = ["export_linear"]


class _NoWeights(NamedTuple):
    """No operands that stay the same over time."""


def export_linear(
    operands: LinearOperands, options: LinearOptions, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Record the recurrence as a scan of steps, with real and imaginary parts apart.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.
    """
    x, decay, h0 = operands
    if not x.is_complex():

        def step(
            states: tuple[Tensor, ...], now: tuple[Tensor, ...], _: _NoWeights
        ) -> tuple[Tensor, ...]:
            return (now[1] * states[0] + now[0],)

        inputs = [x, decay.expand_as(x)]
        h, (last,) = scan_steps(step, [h0], inputs, _NoWeights(), lengths, options.reverse)
        return h, last

    def complex_step(
        states: tuple[Tensor, ...], now: tuple[Tensor, ...], _: _NoWeights
    ) -> tuple[Tensor, ...]:
        real, imaginary = states[0].chunk(2, dim=1)
        x_t, factors = now
        a, b = factors.chunk(2, dim=1)
        return (torch.cat([a * real - b * imaginary, b * real + a * imaginary], dim=1) + x_t,)

    parts = _parts(x)
    inputs = [parts, _parts(decay).expand_as(parts)]  # ONNX expands real numbers only
    h, (last,) = scan_steps(
        complex_step, [_parts(h0)], inputs, _NoWeights(), lengths, options.reverse
    )
    return _from_parts(h), _from_parts(last)


def _parts(z: Tensor) -> Tensor:  # (..., 2 N)
    """Return all real parts, then all imaginary parts."""
    return torch.cat(list(torch.view_as_real(z).unbind(-1)), dim=-1)


def _from_parts(parts: Tensor) -> Tensor:  # (..., N)
    return torch.view_as_complex(torch.stack(parts.chunk(2, dim=-1), dim=-1))
