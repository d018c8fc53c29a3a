"""The gradients of the operands from those of the gates."""

from collections.abc import Collection

import torch
from torch import Tensor

from eigenrnn.ops.gru.reference import GRUOperands, GRUOptions
from eigenrnn.ops.time_steps import outer, weight_gradient, without_padding

__all__ = ["operand_gradients"]


def operand_gradients(
    dgates: Tensor,  # (T, B, 3 N), of the arguments of r, u and c
    dq: Tensor,  # (T, B, N), of q
    h: Tensor,  # (T, B, N)
    q: Tensor,  # (T, B, N)
    c: Tensor,  # (T, B, N)
    operands: GRUOperands,
    options: GRUOptions,
    needed: Collection[str],
) -> dict[str, Tensor]:
    """Return the needed gradients of all operands but h0."""
    x = operands.x
    U = operands.U
    N = h.shape[2]
    dru = dgates[..., : 2 * N]
    dc = dgates[..., 2 * N :]

    gradients: dict[str, Tensor] = {}
    if "x" in needed and U is None:
        gradients["x"] = dgates
    elif "x" in needed and U is not None:
        gradients["x"] = dgates @ U
    if "W" in needed:
        if options.reset_after:
            dW_c = weight_gradient(dq, h, operands, options)
        else:  # the input of the matrix is q = r h, in place of h
            dW_c = outer(dc, q)
        dW_ru = weight_gradient(dru, h, operands, options)
        gradients["W"] = torch.cat([dW_ru, dW_c])
    if "bias" in needed:  # of modReLU, which moves c along its sign
        gradients["bias"] = (dc * c.sgn()).sum((0, 1))
    if "recurrent_bias" in needed:
        gradients["recurrent_bias"] = dq.sum((0, 1))
    if "U" in needed:
        gradients["U"] = outer(dgates, without_padding(x, options.batch_sizes))
    if "c" in needed:
        gradients["c"] = dgates.sum((0, 1))
    return gradients
