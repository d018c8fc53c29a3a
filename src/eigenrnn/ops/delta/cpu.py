"""The delta rule in the compiled kernels of csrc/, as torch operators."""

from torch import Tensor

from eigenrnn.ops.compiled import (
    CompiledBackend,
    compiled_operator,
    empty_buffer,
    rows,
)
from eigenrnn.ops.delta.reference import DELTA, DeltaOperands, DeltaOptions
from eigenrnn.ops.dispatch import REAL

__all__ = ["DeltaCPU", "chunk_steps", "delta_cpu"]


def chunk_steps(operands: DeltaOperands) -> int:
    """Return the number of steps in a chunk.

    A longer chunk has larger products and saves fewer states. A larger part of its products stays
    inside the chunk, which costs more where K and V are small.
    """
    R, K = operands.k.shape[3:]
    reflections = 64 if K + operands.v.shape[4] >= 128 else 32
    return max(1, reflections // R)


def _allocate(operands: DeltaOperands, options: DeltaOptions, save: bool) -> dict[str, Tensor]:
    """Allocate the outputs, the last states and, for a backward pass, the state of each chunk."""
    v = operands.v
    T, B, H, _, V = v.shape
    K = operands.k.shape[4]
    steps = chunk_steps(operands)
    outputs = T
    if options.last_only:
        outputs = 0
    saved = 0
    if save:  # the state before each chunk
        saved = (T + steps - 1) // steps
    return {
        "o": empty_buffer(v, outputs, B, H, V),
        "S_n": v.new_empty(B, H, K, V),
        "saved": empty_buffer(v, saved, B, H, K, V),
    }


def _sizes(operands: DeltaOperands) -> dict[str, int]:
    T, B, H, R, K = operands.k.shape
    sizes = {"T": T, "B": B, "H": H, "R": R, "K": K, "V": operands.v.shape[4]}
    return sizes | {"chunk": chunk_steps(operands)}


def _flat(name: str, tensor: Tensor) -> Tensor:  # (T, B, numbers) or (B, numbers)
    """Return a tensor with the numbers of a step, or of a state, in one contiguous row."""
    if name in ("S0", "S_n"):  # which have no axis of steps
        return rows(tensor.flatten(1))
    return rows(tensor.flatten(2))


delta_cpu = compiled_operator(
    "delta_cpu",
    DELTA,
    _allocate,
    saved=("saved",),
    sizes=_sizes,
    as_read=_flat,
)


class DeltaCPU(CompiledBackend):
    """All chunks of a head in one kernel."""

    dtypes = REAL
    features = DELTA.features
    operator = delta_cpu
