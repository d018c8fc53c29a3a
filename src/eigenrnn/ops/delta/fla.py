"""The delta rule in the kernels of the package flash-linear-attention, on a CUDA device."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.delta.operands import DeltaOperands, DeltaOptions, in_order
from eigenrnn.ops.dispatch import Backend, Call

__all__ = ["DeltaFLA"]


class DeltaFLA(Backend):
    """The chunk functions of flash-linear-attention. Nobody has run this backend yet.

    It was written from the signatures and the checks of version 0.6, without a GPU. Hence it is
    never chosen automatically: name it, and compare it with `chunk`.
    """

    name = "fla"
    description = "Triton kernels of flash-linear-attention"
    dtypes = frozenset({torch.float16, torch.bfloat16})

    def unavailable(self) -> str | None:
        if find_spec("fla") is None:
            return "the package flash-linear-attention is not installed"
        return None

    def unsupported(self, call: Call) -> str | None:
        if call.device != "cuda":
            return f"the tensors are on {call.device}"
        if call.transformed:
            return "torch.func transforms and forward mode need differentiable operations"
        return None

    def experimental(self, call: Call) -> str | None:  # noqa: ARG002
        return "nobody has run it yet"

    def run(self, operands: DeltaOperands, options: DeltaOptions) -> tuple[Tensor, Tensor]:
        q, k, v, beta, log_decay, S0 = in_order(operands, options)
        R = k.shape[3]
        # batch first, and for their product of R reflections a sequence R times as long
        q = q.transpose(0, 1).contiguous()
        k = k.permute(1, 0, 3, 2, 4).flatten(1, 2)
        v = v.permute(1, 0, 3, 2, 4).flatten(1, 2)
        beta = beta.permute(1, 0, 3, 2).flatten(1, 2)
        g: Tensor | None = None
        if log_decay is not None:
            # the package takes differences of sums, in which -inf would give NaN
            g = log_decay.transpose(0, 1).clamp(min=-100).contiguous()
        chunked = {"scale": 1.0, "initial_state": S0, "output_final_state": True}
        if R > 1:
            product: Any = import_module("fla.ops.gated_delta_product")
            o, S_n = product.chunk_gated_delta_product(q, k, v, g, beta, R, **chunked)
        elif g is None:
            plain: Any = import_module("fla.ops.delta_rule")
            o, S_n = plain.chunk_delta_rule(q, k, v, beta, **chunked)
        else:
            gated: Any = import_module("fla.ops.gated_delta_rule")
            o, S_n = gated.chunk_gated_delta_rule(q, k, v, g, beta, **chunked)
        o = o.transpose(0, 1)
        if options.reverse:  # `in_order` has turned the inputs round
            o = o.flip(0)
        return o, S_n
