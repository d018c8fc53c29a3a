"""The LSTM in torch's own kernels."""

from torch import Tensor

from eigenrnn.ops.lstm.operands import LSTMOperands, LSTMOptions
from eigenrnn.ops.lstm.reference import lstm_reference
from eigenrnn.ops.torch_rnn import TorchBackend, evaluate

__all__ = ["LSTMTorch"]


class LSTMTorch(TorchBackend):
    """The function that `torch.nn.LSTM` calls."""

    def evaluate(
        self, operands: LSTMOperands, options: LSTMOptions, *, train: bool
    ) -> tuple[Tensor, ...]:
        x, W, h0, c0, U, c = operands
        return evaluate("lstm", x, [h0, c0], (U, W, c, None), options, train)

    def definition(self, operands: LSTMOperands, options: LSTMOptions) -> tuple[Tensor, ...]:
        return lstm_reference(operands, options)
