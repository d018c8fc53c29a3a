"""The LSTM in the compiled kernels of csrc/, as torch operators."""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.compiled import (
    CompiledBackend,
    compiled_operator,
    empty_like_steps,
    kernels,
    number_type,
    rows,
    saved_buffer,
    views,
)
from eigenrnn.ops.dispatch import REAL
from eigenrnn.ops.lstm.operands import LSTMOperands, LSTMOptions
from eigenrnn.ops.lstm.reference import LSTM
from eigenrnn.ops.precision import products_of_float32

__all__ = ["LSTMCPU", "lstm_cpu", "lstm_stepper"]


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

    dtypes = REAL - {torch.float16}
    features = frozenset({"resets"})
    multiplies_by_tiles = True

    def run_kernels(
        self, operands: LSTMOperands, options: LSTMOptions
    ) -> tuple[Tensor, Tensor, Tensor]:
        results = lstm_cpu(operands, options)
        return results["h"], results["last"], results["last_cell"]


def lstm_stepper(
    W: Tensor,  # (4 N, N)
    U: Tensor,  # (4 N, M)
    c: Tensor | None,  # (4 N,)
) -> Any:
    """Return the recurrence with packed weights, for a `StepperStack`."""
    weights = {"W": W, "U": U, "c": rows(c)}
    options = {"N": W.shape[1], "M": U.shape[1], "products": products_of_float32(W)}
    call = options | views(weights)
    return kernels.lstm_stepper(number_type(*weights.values()), call)
