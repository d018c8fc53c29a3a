"""A whole layer of an LRU in the compiled kernels: its input map, its recurrence and its outputs.

The other backends compute the recurrence alone, between products of torch.
"""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.compiled import (
    NUMBERS,
    compiled_operator,
    drop_unread_outputs,
    empty_like_steps,
    kernels,
)
from eigenrnn.ops.dispatch import forced
from eigenrnn.ops.linear.gaps import held_steps
from eigenrnn.ops.linear.operands import LinearOperands, LinearOptions
from eigenrnn.ops.linear.reference import linear_reference
from eigenrnn.ops.operators import Named
from eigenrnn.ops.recurrence import Product, Recurrence, Shape, axes_of
from eigenrnn.ops.time_steps import without_padding
from eigenrnn.tracing import are_plain, needs_no_dispatcher

__all__ = ["LRU_LAYER", "LRUOperands", "lru_cpu", "lru_layer"]

_SMALL = 1 << 23  # multiply-adds of a call that is not worth more threads


class LRUOperands(NamedTuple):
    """The tensors of one call, of K units.

    A state has N = K real numbers, or N = 2 K: the real parts of K complex numbers, then the
    imaginary parts. Without V there are no outputs.
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


_AXES = axes_of(LRUOperands)


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

    A thread of the kernel is about twice as fast, but there is at most one for each sequence. With
    gaps in time it is 15 times as fast, because the parts keep all powers in memory.
    """
    if operands.dt is not None:
        return False
    T, B, _ = operands.x.shape
    return torch.get_num_threads() > 2 * B and T * B * operands.U.numel() > _SMALL


def _shapes(operands: LRUOperands) -> dict[str, Shape]:
    T, B, M = operands.x.shape
    sizes = {"T": T, "B": B, "M": M, "N": len(operands.U), "K": len(operands.gamma_log)}
    shapes: dict[str, Shape] = {}
    for name, axes in _AXES.items():
        shapes[name] = tuple([sizes[axis] for axis in axes])
    return shapes


def _definition(
    operands: LRUOperands, options: LinearOptions
) -> tuple[Tensor, Tensor, Tensor | None]:  # (T, B, N), (B, N), (T, B, K)
    """Return all states, the last states and, with V, the outputs."""
    x = without_padding(operands.x, options.batch_sizes)
    K = len(operands.gamma_log)
    parts = len(operands.U) // K  # 2 of complex numbers, 1 of real ones
    u = F.linear(x, operands.U * operands.gamma_log.exp().repeat(parts).unsqueeze(1))
    decay = operands.decay
    h0 = operands.h0
    if parts == 2:
        u = torch.complex(*u.chunk(2, dim=-1))
        decay = torch.complex(*decay.unflatten(0, (K, 2)).unbind(1))
        h0 = torch.complex(*h0.chunk(2, dim=-1))
    if operands.dt is not None:
        decay, factor = held_steps(decay, operands.dt)
        u = u * factor
    states = linear_reference(LinearOperands(u, decay, h0, operands.resets), options)
    if parts == 2:
        h, last = (torch.cat([state.real, state.imag], dim=-1) for state in states)
        read = torch.cat([states[0].real, -states[0].imag], dim=-1)
    else:
        h, last = states
        read = h
    if operands.V is None:
        return h, last, None
    y = F.linear(read, operands.V, operands.d)
    if operands.D is not None:
        y = y + F.linear(x, operands.D)
    return h, last, y


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
    shapes=_shapes,
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
