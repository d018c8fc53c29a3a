"""The gradients of the operands from those of the pre-activations."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from eigenrnn.linalg import complex_to_pairs, pairs_to_complex
from eigenrnn.ops.arguments import Options
from eigenrnn.ops.autograd import outer
from eigenrnn.ops.elman.operands import ElmanOperands
from eigenrnn.ops.time_steps import first_steps, weight_gradient, without_padding

__all__ = ["bias_gradient", "operand_gradients", "state_gradients"]


def operand_gradients(
    delta: Tensor,  # (T, B, N), of the pre-activations
    h: Tensor,  # (T, B, N)
    operands: ElmanOperands,
    options: Options,
    needed: Sequence[bool],
    known: Mapping[str, Tensor],
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands; some are known already."""
    x, _, h0, _, U, *_ = operands
    first = first_steps(delta, options.batch_sizes, options.reverse)

    def of_inputs() -> Tensor:
        if U is None:
            return delta
        dx = delta @ U.conj_physical()
        return dx if x.is_complex() else dx.real.contiguous()

    def of_map() -> Tensor:
        inputs = without_padding(x, options.batch_sizes)
        return outer(delta, inputs.conj_physical().to(delta.dtype))

    gradients_of: dict[str, Callable[[], Tensor]] = {
        "x": of_inputs,
        "W": lambda: weight_gradient(delta, first, h, h0, options.reverse),
        "U": of_map,
        "c": lambda: delta.sum((0, 1)),
        **{name: lambda gradient=gradient: gradient for name, gradient in known.items()},
    }
    names = zip(operands._fields, needed, strict=False)
    return [gradients_of[name]() for name, is_needed in names if is_needed]


def state_gradients(
    g: Tensor,  # (T, B, N)
    delta: Tensor,  # (T, B, N)
    W: Tensor,  # (N, N)
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Return the gradients of all states from those of the pre-activations; padding is zero."""
    later = delta @ W.conj_physical()
    zero = torch.zeros_like(later[:1])
    return g + torch.cat([zero, later[:-1]] if reverse else [later[1:], zero])


def bias_gradient(
    total: Tensor,  # (T, B, N)
    h: Tensor,  # (T, B, N)
    nonlinearity: str,
) -> Tensor:  # (N,)
    """Sum the state gradients along the phases; on a CPU, in blocks that fit into the cache.

    The gradients of the pre-activations have the same components along the phases. Across the
    phases, complex ones may be so large that rounding destroys these components.
    """
    steps = max(1, 2**17 // max(1, h[0].numel())) if h.device.type == "cpu" else len(h)
    blocks = zip(total.split(steps), h.split(steps), strict=True)
    parts = ((d * _phases(nonlinearity, s).conj_physical()).sum((0, 1)).real for d, s in blocks)
    return sum(parts)  # type: ignore[return-value]


def _phases(nonlinearity: str, h: Tensor) -> Tensor:  # (T, B, N)
    """Return the signs or phases of the states; the bias of modReLU shifts states along them."""
    if nonlinearity != "modrelu_paired":
        return h.sgn()
    return complex_to_pairs(pairs_to_complex(h).sgn())
