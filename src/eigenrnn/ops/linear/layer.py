"""A whole layer of an LRU: its input map, its linear recurrence and its outputs.

Compiled kernels compute all of it. The other backends compute the recurrence alone, between
products of torch.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.kernels import NUMBERS
from eigenrnn.linalg import at_least_float32, complex_to_halves
from eigenrnn.ops.compiled import (
    compiled_operator,
    drop_unread_outputs,
    empty_like_steps,
    kernels,
)
from eigenrnn.ops.dispatch import forced
from eigenrnn.ops.linear.linear import evaluate
from eigenrnn.ops.linear.reference import LINEAR, LinearOperands, LinearOptions
from eigenrnn.ops.operators import Named
from eigenrnn.ops.recurrence import Product, Recurrence
from eigenrnn.ops.time_steps import without_padding
from eigenrnn.tracing import are_plain, needs_no_dispatcher

__all__ = ["LRU_LAYER", "LRUOperands", "held_steps", "lru", "lru_cpu", "lru_layer"]


_SMALL = 1 << 23  # multiply-adds of a call that is not worth more threads


class LRUOperands(NamedTuple):
    """The tensors of one call, of K units.

    A state has N = K real numbers, or N = 2 K: the real parts of K complex numbers, then the
    imaginary parts. V and D come together; without them there are no outputs.
    """

    x: Annotated[Tensor, "T", "B", "M"]
    decay: Annotated[Tensor, "N"]  # of complex numbers both parts side by side
    h0: Annotated[Tensor, "B", "N"]
    U: Annotated[Tensor, "N", "M"]
    gamma_log: Annotated[Tensor, "K"]
    V: Annotated[Tensor | None, "K", "N"] = None
    D: Annotated[Tensor | None, "K", "M"] = None
    d: Annotated[Tensor | None, "K"] = None
    resets: Annotated[Tensor | None, "T", "B"] = None  # bool
    dt: Annotated[Tensor | None, "T", "B"] = None  # gaps in time, of complex states


def lru(
    operands: LRUOperands, options: LinearOptions, backend: str | None
) -> tuple[Tensor | None, Tensor]:  # (T, B, K), (B, N)
    """Return the outputs, with V, and the last states, on the fastest backend by default.

    Raises the errors of `lru_layer` and of `linear`.
    """
    if backend in (None, "cpu"):
        results = lru_layer(operands, options)
        if results is not None:
            return results.get("y"), results["last"]
    _, last, y = _in_parts(operands, options, partial(evaluate, backend=backend))
    return y, last


def lru_layer(operands: LRUOperands, options: LinearOptions) -> Mapping[str, Tensor] | None:
    """Return the last states and, with V, the outputs y; None if the kernels do not take the call.

    Past the end of a sequence, outputs are d. The states of all steps, h, are stored for a
    backward pass only.

    Raises:
        ValueError: If the shape of an operand is wrong.
    """
    # traced sizes must not decide, and an exported program may run with other threads
    if kernels is None or torch.compiler.is_compiling() or _wants_threads(operands):
        return None
    options = LinearOptions(options.batch_sizes, options.reverse, last_only=True)
    planned = lru_cpu.plan(operands, options)
    if planned is not None:
        return lru_cpu(operands, options, planned)
    if (forced() or "cpu") != "cpu":
        return None
    if operands.x.dtype not in NUMBERS or not needs_no_dispatcher(operands):
        return None
    if not are_plain(operands) or any(v is not None and not v.is_cpu for v in operands):
        return None
    LRU_LAYER.check_shapes(operands)
    return lru_cpu(operands, options)


def _wants_threads(operands: LRUOperands) -> bool:
    """Whether torch's products of the parts, which also divide steps among threads, are faster.

    A thread of the kernel is about twice as fast as one of torch's, but there is at most one for
    each sequence. With gaps in time it is 15 times as fast, because the parts keep all powers in
    memory.
    """
    if operands.dt is not None:
        return False
    T, B, _ = operands.x.shape
    return torch.get_num_threads() > 2 * B and T * B * operands.U.numel() > _SMALL


def _in_parts(
    operands: LRUOperands,
    options: LinearOptions,
    run: Callable[[LinearOperands, LinearOptions], tuple[Tensor, ...]],
) -> tuple[Tensor, Tensor, Tensor | None]:  # (T, B, K) or (T, B, N), (B, N), (T, B, K)
    """Return all states, which may be complex, the last ones as N real numbers, and the outputs.

    Args:
        operands: The tensors of the call.
        options: Its options.
        run: The linear recurrence.
    """
    output_map = operands.V
    decay = operands.decay
    x = without_padding(operands.x, options.batch_sizes)
    wide = at_least_float32(x.dtype)
    K = len(operands.gamma_log)
    is_complex = len(operands.U) > K
    # of u, real and imaginary parts are neighbours, so a view is a complex number
    scaled = operands.U.unflatten(0, (-1, K)) * operands.gamma_log.exp()[:, None]
    u = F.linear(x, scaled.transpose(0, 1).flatten(0, 1)).to(wide)
    h0 = operands.h0.to(wide)
    if is_complex:
        u = torch.view_as_complex(u.unflatten(2, (-1, 2)))
        decay = torch.view_as_complex(decay.unflatten(0, (-1, 2)))
        real, imaginary = h0.chunk(2, dim=1)
        h0 = torch.complex(real, imaginary)
    if operands.dt is not None:
        decay, factor = held_steps(decay, operands.dt)
        u = u * factor
    h, last = run(LinearOperands(u, decay, h0, operands.resets), options)
    y: Tensor | None = None
    if output_map is not None and operands.D is not None:
        states = h
        if is_complex:
            # the real part of a product; a view of complex states has both parts side by side
            real, imaginary = output_map.chunk(2, dim=1)
            output_map = torch.stack([real, -imaginary], dim=2).flatten(1)
            states = torch.view_as_real(h).flatten(2)
        y = F.linear(states.to(x.dtype), output_map, operands.d) + F.linear(x, operands.D)
    if is_complex:
        last = complex_to_halves(last)
    return h, last.to(operands.U.dtype), y


def _definition(operands: LRUOperands, options: LinearOptions) -> dict[str, Tensor | None]:
    def run(parts: LinearOperands, options: LinearOptions) -> tuple[Tensor, ...]:
        return LINEAR.returned(parts, LINEAR.define(parts, options))

    h, last, y = _in_parts(operands, options, run)
    if h.is_complex():
        h = complex_to_halves(h)
    return {"h": h, "last": last, "y": y}


def _products(operands: LRUOperands, _options: LinearOptions) -> list[Product]:
    products = [Product("U", "x", operands.U.numel())]
    if operands.V is not None and operands.D is not None:
        products.append(Product("V", "y", operands.V.numel()))
        products.append(Product("D", "x", operands.D.numel()))
    return products


LRU_LAYER = Recurrence(
    "lru",
    operands=LRUOperands,
    options=LinearOptions,
    states=("h0",),
    results=("h", "last", "y"),
    step=LINEAR.step,
    definition=_definition,
    products=_products,
)
"""A layer of an LRU, with its outputs and without."""


def _allocate(operands: LRUOperands, options: LinearOptions, save: bool) -> Named:  # noqa: ARG001
    """Allocate the results with the layout of the inputs, those that the call has."""
    x = operands.x
    results = {
        "h": empty_like_steps(operands.x, operands.h0.shape[1], is_read=not options.last_only),
        "last": x.new_empty(operands.h0.shape),
    }
    if operands.V is not None:
        results["y"] = empty_like_steps(x, len(operands.V))
    return results


lru_cpu = compiled_operator(
    "lru_cpu",
    LRU_LAYER,
    _allocate,
    saved=(),
    prepare=drop_unread_outputs,
    has_plans=True,
)


_LOG_OF_ZERO = -1e20  # any power but that to zero vanishes, and that is one
_NEAR_ZERO = 0.1  # a smaller |z| loses digits in (e^z - 1) / z, and the series takes its place
_TERMS = 10  # of the series; the first term left out is below 1e-17


def held_steps(
    decay: Tensor,  # (N,), complex
    dt: Tensor,  # (T, B), real
) -> tuple[Tensor, Tensor]:  # (T, B, N), (T, B, N)
    r"""Return the decay of each step, and the factor of its input.

    .. math:: \lambda^{\Delta t}, \qquad
        \frac{1 - \lambda^{\Delta t}}{1 - \lambda}
        = \Delta t \, \frac{\phi(\Delta t \log \lambda)}{\phi(\log \lambda)}, \qquad
        \phi(z) = \frac{e^z - 1}{z}

    With an integer gap this is so many steps of the recurrence with one input. The second form is
    finite and differentiable at :math:`\lambda = 1`. The logarithm is the principal one, so that
    the angle of a step is at most :math:`\pi`. The gradient of a :math:`\lambda` of zero is zero.
    """
    is_zero = decay == 0
    log = torch.where(is_zero, 1, decay).log().masked_fill(is_zero, _LOG_OF_ZERO)
    dt = dt.unsqueeze(2)
    exponent = dt * log
    power = exponent.exp()
    # the quotient loses digits where a logarithm is near zero, and the second form elsewhere
    is_far = (log.abs() >= _NEAR_ZERO) & (exponent.abs() >= _NEAR_ZERO)
    # both get arguments for which their gradients are finite
    far = (power - 1) / (torch.where(is_far, decay, 0) - 1)
    near_log = torch.where(is_far, 0, log)
    near = dt * _mean_exponential(dt * near_log) / _mean_exponential(near_log)
    return power, torch.where(is_far, far, near)


def _mean_exponential(z: Tensor) -> Tensor:
    r"""Return :math:`(e^z - 1) / z`, the mean of :math:`e^{sz}` over s from 0 to 1."""
    is_small = z.abs() < _NEAR_ZERO
    # both branches get arguments for which their gradients are finite
    near = torch.where(is_small, z, 0)
    far = torch.where(is_small, 1, z)
    series = torch.zeros_like(z)
    for k in range(_TERMS, 0, -1):
        series = series * near + 1 / math.factorial(k)
    return torch.where(is_small, series, (far.exp() - 1) / far)
