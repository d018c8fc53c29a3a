"""The LSTM in the compiled kernels of csrc/, as torch operators."""

from torch import Tensor

from eigenrnn.ops.compiled import (
    CompiledBackend,
    compiled_operator,
    empty_like_steps,
    saved_buffer,
)
from eigenrnn.ops.dispatch import REAL
from eigenrnn.ops.lstm.reference import LSTM, LSTMOperands, LSTMOptions

__all__ = ["LSTMCPU", "lstm_cpu"]


def _allocate(
    operands: LSTMOperands, options: LSTMOptions, save: bool
) -> dict[str, Tensor | None]:
    return {
        "h": empty_like_steps(operands.x, operands.h0.shape[1], is_read=not options.last_only),
        "last": operands.W.new_empty(operands.h0.shape),
        "last_cell": operands.W.new_empty(operands.h0.shape),
        "saved": saved_buffer(LSTM, operands, options, save),
    }


lstm_cpu = compiled_operator("lstm_cpu", LSTM, _allocate, saved=("saved",), has_plans=True)


class LSTMCPU(CompiledBackend):
    """All steps of each sequence in one kernel, which also maps the inputs."""

    dtypes = REAL
    features = LSTM.features
    multiplies_by_tiles = True
    operator = lstm_cpu
