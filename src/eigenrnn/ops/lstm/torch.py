"""The LSTM in torch's own kernels."""

from torch import Tensor

from eigenrnn.ops.lstm.operands import LSTMOperands, LSTMOptions
from eigenrnn.ops.lstm.reference import LSTM
from eigenrnn.ops.torch_rnn import TorchBackend, evaluate

__all__ = ["LSTMTorch"]


class LSTMTorch(TorchBackend):
    """The function that `torch.nn.LSTM` calls."""

    recurrence = LSTM

    def evaluate(
        self, operands: LSTMOperands, options: LSTMOptions, *, train: bool
    ) -> tuple[Tensor, ...]:
        return evaluate(
            "lstm",
            operands.x,
            [operands.h0, operands.c0],
            W=operands.W,
            U=operands.U,
            c=operands.c,
            options=options,
            train=train,
        )
