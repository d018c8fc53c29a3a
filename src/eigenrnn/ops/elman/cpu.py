"""The Elman recurrence in the compiled kernels of csrc/, as torch operators."""

from torch import Tensor

from eigenrnn.linalg import pairs_to_complex
from eigenrnn.ops.arguments import EXTRAS, Options
from eigenrnn.ops.compiled import (
    CompiledBackend,
    compiled_operator,
    drop_unread_outputs,
    empty_like_steps,
    saved_buffer,
)
from eigenrnn.ops.dispatch import COMPLEX, REAL
from eigenrnn.ops.elman.reference import ELMAN, ElmanOperands, as_pairs
from eigenrnn.ops.inplace_nonlinearities import moduli_like

__all__ = ["ElmanCPU", "elman_cpu", "elman_cpu_norm_zoneout"]


def _allocate(operands: ElmanOperands, options: Options, save: bool) -> dict[str, Tensor | None]:
    """Allocate the results with the layout of the inputs, those that the call has.

    Complex states are pairs of real numbers, and N counts the real numbers. For the backward pass
    modReLU of pairs saves the moduli of its arguments.
    """
    h = empty_like_steps(operands.x, operands.h0.shape[1], is_read=not options.last_only)
    results: dict[str, Tensor | None] = {
        "h": h,
        "last": operands.W.new_empty(operands.h0.shape),
    }
    if operands.V is not None:
        results["y"] = empty_like_steps(operands.x, len(operands.V))
    if save and options.nonlinearity == "modrelu_paired":
        results["moduli"] = moduli_like(h, options.nonlinearity, operands.bias)
    return results


def _allocate_norm_zoneout(
    operands: ElmanOperands, options: Options, save: bool
) -> dict[str, Tensor | None]:
    """Allocate also what LayerNorm, zoneout and a leak save for the backward pass."""
    saved = saved_buffer(ELMAN, operands, options, save)
    return _allocate(operands, options, save) | {"saved": saved}


# torch takes a time quadratic in the number of arguments for a call that autograd records: 42
# microseconds for 12 arguments, 78 for 18. So the plain recurrence has an operator of its own.
elman_cpu = compiled_operator(
    "elman_cpu",
    ELMAN,
    _allocate,
    saved=("moduli",),
    without=(*EXTRAS, "leak", "v0"),
    prepare=drop_unread_outputs,
    has_plans=True,
)
elman_cpu_norm_zoneout = compiled_operator(
    "elman_cpu_norm_zoneout",
    ELMAN,
    _allocate_norm_zoneout,
    saved=("moduli", "saved"),
    prepare=drop_unread_outputs,
)


class ElmanCPU(CompiledBackend):
    """All steps of each sequence in one kernel, which also maps inputs and outputs."""

    dtypes = REAL | COMPLEX
    features = ELMAN.features
    multiplies_by_tiles = True
    operator = elman_cpu
    operator_of_features = elman_cpu_norm_zoneout

    def fuses_head(self, V: Tensor) -> bool:
        # with more outputs than units, the head costs more than the recurrence, and the memory
        # traffic that fusing saves no longer matters: measured in csrc/README.md
        return V.device.type == "cpu" and not V.is_complex() and V.shape[0] <= V.shape[1]

    def run_kernels(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, ...]:
        if not operands.W.is_complex():
            return super().run_kernels(operands, options)
        pairs = as_pairs(operands, options._replace(products="float32"))
        return tuple(map(pairs_to_complex, super().run_kernels(*pairs)))
