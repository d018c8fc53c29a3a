"""The gated recurrence in the compiled kernels of csrc/, as torch operators."""

from torch import Tensor

from eigenrnn.ops.arguments import EXTRAS
from eigenrnn.ops.compiled import (
    CompiledBackend,
    compiled_operator,
    empty_like_steps,
    saved_buffer,
)
from eigenrnn.ops.dispatch import REAL
from eigenrnn.ops.gru.reference import GRU, GRUOperands, GRUOptions

__all__ = ["GRUCPU", "gru_cpu", "gru_cpu_norm_zoneout"]


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

    dtypes = REAL
    features = GRU.features
    multiplies_by_tiles = True
    operator = gru_cpu
    operator_of_features = gru_cpu_norm_zoneout
