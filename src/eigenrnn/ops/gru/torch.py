"""The gated recurrence of `torch.nn.GRU` in torch's own kernels."""

import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.gru.operands import GRUOperands, GRUOptions
from eigenrnn.ops.gru.reference import GRU
from eigenrnn.ops.torch_rnn import TorchBackend, evaluate

__all__ = ["GRUTorch"]


class GRUTorch(TorchBackend):
    """The function that `torch.nn.GRU` calls."""

    recurrence = GRU

    def evaluate(
        self, operands: GRUOperands, options: GRUOptions, *, train: bool
    ) -> tuple[Tensor, ...]:
        b = operands.recurrent_bias
        if b is not None:
            # the reset and the update gate have no recurrent bias of their own
            b = F.pad(b, (2 * len(b), 0))
        return evaluate(
            "gru",
            operands.x,
            [operands.h0],
            W=operands.W,
            U=operands.U,
            c=operands.c,
            recurrent_bias=b,
            options=options,
            train=train,
        )
