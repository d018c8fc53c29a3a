"""The gradients of the operands from those of the gates."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from eigenrnn.ops.autograd import outer
from eigenrnn.ops.gru.operands import GRUOperands, GRUOptions
from eigenrnn.ops.time_steps import first_steps, weight_gradient, without_padding

__all__ = ["operand_gradients"]


def operand_gradients(
    deltas: tuple[Tensor, Tensor, Tensor],  # (T, B, 3 N), (T, B, N), (B, N)
    h: Tensor,  # (T, B, N)
    gates: Tensor,  # (T, B, 4 N), r, u, q and c
    operands: GRUOperands,
    options: GRUOptions,
    needed: Sequence[bool],
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands.

    The deltas are the gradients of the arguments of r, u and c, of q, and of h0. That of q is used
    only if the reset is after W.
    """
    dgates, dq, dh0 = deltas
    x, _, h0, _, _, U, *_ = operands
    N = h0.shape[1]
    dru, dc = dgates[..., : 2 * N], dgates[..., 2 * N :]
    q, c = gates[..., 2 * N : 3 * N], gates[..., 3 * N :]

    def of_matrix(delta: Tensor) -> Tensor:
        first = first_steps(delta, options.batch_sizes, options.reverse)
        return weight_gradient(delta, first, h, h0, options.reverse)

    gradients_of: dict[str, Callable[[], Tensor]] = {
        "x": lambda: dgates if U is None else dgates @ U,
        "W": lambda: torch.cat(
            [of_matrix(dru), of_matrix(dq) if options.reset_after else outer(dc, q)]
        ),
        "h0": lambda: dh0,
        "bias": lambda: (dc * c.sgn()).sum((0, 1)),
        "recurrent_bias": lambda: dq.sum((0, 1)),
        "U": lambda: outer(dgates, without_padding(x, options.batch_sizes)),
        "c": lambda: dgates.sum((0, 1)),
    }
    names = zip(operands._fields, needed, strict=False)
    return [gradients_of[name]() for name, is_needed in names if is_needed]
