"""The gated recurrence in the compiled kernels of csrc/, as torch operators."""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import EXTRAS, features_of
from eigenrnn.ops.compiled import (
    CompiledBackend,
    activation,
    compiled_operator,
    empty_like_steps,
    kernels,
    number_type,
    rows,
    saved_buffer,
    views,
)
from eigenrnn.ops.dispatch import REAL
from eigenrnn.ops.gru.operands import FORMS, GRUOperands, GRUOptions
from eigenrnn.ops.gru.reference import GRU
from eigenrnn.ops.precision import products_of_float32

__all__ = ["GRUCPU", "gru_cpu", "gru_cpu_norm_zoneout", "gru_stepper"]


def _allocate(operands: GRUOperands, options: GRUOptions, save: bool) -> dict[str, Tensor | None]:
    return {
        "h": empty_like_steps(operands.x, operands.h0.shape[1], is_read=not options.last_only),
        "last": operands.W.new_empty(operands.h0.shape),
        "saved": saved_buffer(GRU, operands, options, save),
    }


# the plain recurrence has an operator of its own, as in elman/cpu.py
gru_cpu = compiled_operator(
    "gru_cpu", GRU, _allocate, saved=("saved",), without=EXTRAS, has_plans=True
)
gru_cpu_norm_zoneout = compiled_operator("gru_cpu_norm_zoneout", GRU, _allocate, saved=("saved",))


class GRUCPU(CompiledBackend):
    """All steps of each sequence in one kernel, which also maps the inputs."""

    dtypes = REAL - {torch.float16}
    features = FORMS | {"layer_norm", "zoneout", "resets"}
    multiplies_by_tiles = True

    def run_kernels(self, operands: GRUOperands, options: GRUOptions) -> tuple[Tensor, Tensor]:
        operator = gru_cpu
        if features_of(operands, options):
            operator = gru_cpu_norm_zoneout
        results = operator(operands, options)
        return results["h"], results["last"]


def gru_stepper(
    W: Tensor,  # (3 N, N)
    bias: Tensor | None,  # (N,)
    recurrent_bias: Tensor | None,  # (N,)
    U: Tensor,  # (3 N, M)
    c: Tensor | None,  # (3 N,)
    nonlinearity: str,
    reset_after: bool,
    update_keeps: bool,
    layer_norm: tuple[Tensor, Tensor] | None = None,  # (3 N,), (3 N,)
    zoneout: float = 0.0,
) -> Any:
    """Return the recurrence with packed weights, for a `StepperStack`."""
    gain, shift = layer_norm or (None, None)
    weights = {
        "W": W,
        "bias": rows(bias),
        "recurrent_bias": rows(recurrent_bias),
        "U": U,
        "c": rows(c),
        "gain": rows(gain),
        "shift": rows(shift),
    }
    options = {
        "N": W.shape[1],
        "M": U.shape[1],
        "reset_after": reset_after,
        "update_keeps": update_keeps,
        "rate": zoneout,
        "products": products_of_float32(W),
    }
    call = options | activation(nonlinearity, bias) | views(weights)
    return kernels.gru_stepper(number_type(*weights.values()), call)
