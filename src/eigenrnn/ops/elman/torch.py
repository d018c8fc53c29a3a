"""The Elman recurrence of tanh and ReLU in torch's own kernels."""

from torch import Tensor

from eigenrnn.ops.arguments import Options
from eigenrnn.ops.elman.operands import ElmanOperands
from eigenrnn.ops.elman.reference import ELMAN
from eigenrnn.ops.torch_rnn import TorchBackend, evaluate

__all__ = ["ElmanTorch"]


class ElmanTorch(TorchBackend):
    """The function that `torch.nn.RNN` calls."""

    recurrence = ELMAN
    nonlinearities = frozenset({"tanh", "relu"})

    def evaluate(
        self, operands: ElmanOperands, options: Options, *, train: bool
    ) -> tuple[Tensor, ...]:
        return evaluate(
            f"rnn_{options.nonlinearity}",
            operands.x,
            [operands.h0],
            W=operands.W,
            U=operands.U,
            c=operands.c,
            options=options,
            train=train,
        )
