"""The gated recurrence of `torch.nn.GRU` in torch's own kernels."""

import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.gru.operands import GRUOperands, GRUOptions
from eigenrnn.ops.gru.reference import gru_reference
from eigenrnn.ops.torch_rnn import TorchBackend, evaluate

__all__ = ["GRUTorch"]


class GRUTorch(TorchBackend):
    """The function that `torch.nn.GRU` calls."""

    def evaluate(
        self, operands: GRUOperands, options: GRUOptions, *, train: bool
    ) -> tuple[Tensor, ...]:
        x, W, h0, _, b, U, c, *_ = operands
        # the reset and the update gate have no recurrent bias of their own
        b = None if b is None else F.pad(b, (2 * len(b), 0))
        return evaluate("gru", x, [h0], (U, W, c, b), options, train)

    def definition(self, operands: GRUOperands, options: GRUOptions) -> tuple[Tensor, ...]:
        return gru_reference(operands, options)
