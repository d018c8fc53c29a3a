"""The Elman recurrence of tanh and ReLU in torch's own kernels."""

from torch import Tensor

from eigenrnn.ops.arguments import Options
from eigenrnn.ops.elman.operands import ElmanOperands
from eigenrnn.ops.elman.reference import elman_reference
from eigenrnn.ops.torch_rnn import TorchBackend, evaluate

__all__ = ["ElmanTorch"]


class ElmanTorch(TorchBackend):
    """The function that `torch.nn.RNN` calls."""

    nonlinearities = frozenset({"tanh", "relu"})

    def evaluate(
        self, operands: ElmanOperands, options: Options, *, train: bool
    ) -> tuple[Tensor, ...]:
        x, W, h0, _, U, c, *_ = operands
        return evaluate(f"rnn_{options.nonlinearity}", x, [h0], (U, W, c, None), options, train)

    def definition(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, ...]:
        return elman_reference(operands, options)
