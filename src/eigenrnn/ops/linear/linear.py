"""The public linear recurrence: checks the arguments and calls a backend."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from eigenrnn.linalg import tol
from eigenrnn.ops.arguments import (
    check_flags,
    map_tensors,
    with_resets,
)
from eigenrnn.ops.dispatch import Backend, Reference
from eigenrnn.ops.entry import Entry
from eigenrnn.ops.exporting import export_steps
from eigenrnn.ops.linear.cpu import LinearCPU
from eigenrnn.ops.linear.reference import (
    DTYPES,
    LINEAR,
    LinearOperands,
    LinearOptions,
)
from eigenrnn.ops.linear.scan import LinearScan
from eigenrnn.tracing import is_traced

__all__ = ["BACKENDS", "evaluate", "linear"]


BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (LinearCPU(), LinearScan(), Reference(LINEAR, DTYPES))
}
"""The backends by name, in order of preference."""


def linear(
    x: Tensor,  # (T, B, N)
    decay: Tensor,  # (N,) or (T, B, N)
    h0: Tensor | None = None,  # (B, N)
    *,
    resets: Tensor | None = None,  # (T, B)
    batch_sizes: Sequence[int] | None = None,
    reverse: bool = False,
    last_only: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    r"""Evaluate a linear recurrence of independent units over a batch of sequences.

    .. math:: h_t = \lambda_t \odot h_{t-1} + x_t, \qquad t = 1, \dots, T

    The decay :math:`\lambda` is the spectrum of the recurrence: one number for each unit, or one
    for each unit, sequence and step. With moduli of at most one, states do not grow exponentially.
    Under autocast the recurrence runs in float32 or complex64, because rounding errors of the
    states would accumulate over T.

    Args:
        x: The inputs.
        decay: The factors :math:`\lambda`, constant or at every step.
        h0: The initial state; zero by default.
        resets: Before which steps the state of a sequence becomes zero; none by default.
        batch_sizes: The number of sequences at each step, sorted by descending length, as in
            `torch.nn.utils.rnn.PackedSequence`; the whole batch by default. States past the end
            of a sequence are zero.
        reverse: Whether to run from each sequence's last step to its first.
        last_only: Whether only the last states are needed. Without gradients, a backend that
            supports it then stores and returns no others.
        backend: The name of the backend; the fastest that supports the call by default.
    Shape:
        x: :math:`(T, B, N)`, real or complex, any strides.
        decay: :math:`(N,)` or :math:`(T, B, N)`, the dtype of x.
        h0: :math:`(B, N)`, the dtype of x.
        resets: :math:`(T, B)`, bool.
    Returns:
        The states of all steps, :math:`(T, B, N)`, and the last state of each sequence,
        :math:`(B, N)`. In reverse the last state is that of the first time step.
    Raises:
        ValueError: If a shape, the number of steps or the backend is wrong.
        TypeError: If the dtypes of the tensors differ, or no backend supports them.
    Warns:
        UserWarning: If a modulus of a constant decay is above one. Decays of each time step are
            not checked, because that would read all of them once more.
    Source:
        Orvieto et al., ICML 2023, equation 1 with a diagonal matrix, section 3.2.
        https://arxiv.org/abs/2303.06349 (departures: a decay may depend on the step; the caller
        maps inputs and states).
    Example:
        >>> h, last = linear(torch.ones(3, 1, 2), torch.tensor([1.0, 0.5]))
        >>> last
        tensor([[3.0000, 1.7500]])
    """
    check_flags(reverse=reverse, last_only=last_only)
    operands = LinearOperands(x, decay, cast("Tensor", h0), resets)
    LINEAR.check_tensors(operands)
    states = evaluate(operands, LinearOptions(batch_sizes, reverse, last_only), backend)
    _warn_of_growth(decay)
    return states


def evaluate(
    operands: LinearOperands, options: LinearOptions, backend: str | None
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Evaluate the recurrence as `linear` does, without a warning of growth: for constraints.

    Raises the errors of `linear`.
    """
    LINEAR.check_shapes(operands._replace(resets=None))
    return _ENTRY(with_resets(operands, operands.resets), options, backend)


def _export(
    operands: LinearOperands, options: LinearOptions, lengths: Tensor | None
) -> tuple[Tensor, ...]:  # (T, B, N), (B, N)
    """Record the recurrence as a scan of steps, with real and imaginary parts apart.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.
    """
    if not operands.x.is_complex():
        return export_steps(LINEAR, operands, options, lengths)
    # ONNX has no complex numbers
    parts = map_tensors(_parts, operands)
    results = export_steps(replace(LINEAR, step=_step_of_parts), parts, options, lengths)
    return tuple(map(_from_parts, results))


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


_ENTRY = Entry(LINEAR, BACKENDS, export=_export)


def _warn_of_growth(decay: Tensor) -> None:
    """Warn if states of a constant decay grow; read only values that are on this side."""
    if decay.dim() != 1 or decay.device.type != "cpu" or is_traced() or not decay.numel():
        return
    largest = float(decay.detach().abs().max())
    if largest > 1 + tol(decay.dtype, 1):
        warnings.warn(
            f"expected decays of modulus at most 1, got {largest:.6g}: states grow exponentially "
            "with the number of steps",
            stacklevel=3,  # the line that calls `linear`
        )
