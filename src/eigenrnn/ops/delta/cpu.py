"""The delta rule in the compiled kernels of csrc/, as torch operators, and a single step."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import to_float32
from eigenrnn.ops.compiled import (
    CompiledBackend,
    empty_buffer,
    kernel_options,
    kernels,
    number_type,
    rows,
    views,
)
from eigenrnn.ops.delta.operands import DeltaOperands, DeltaOptions
from eigenrnn.ops.delta.reference import DELTA
from eigenrnn.ops.dispatch import REAL
from eigenrnn.ops.operators import Named, Operator

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


def _forward(operands: DeltaOperands, options: DeltaOptions, save: bool) -> dict[str, Tensor]:
    tensors = _allocate(operands, options, save)
    written = {name: tensor for name, tensor in tensors.items() if tensor.numel()}
    flat = _flat({**operands._asdict(), **written})
    kernels.delta_forward(*_kernel_arguments(operands, options, flat))
    return tensors


def _backward(
    operands: DeltaOperands,
    options: DeltaOptions,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    read = _flat({**operands._asdict(), "saved": kept["saved"]})
    of_results = _flat(grads)
    # only for its check: all gradients must have the dtype of the operands
    number_type(*read.values(), *of_results.values())
    gradients = {
        name: empty_buffer(tensor, *tensor.shape)
        for name, tensor in operands._asdict().items()
        if name in needed
    }
    passed = views(of_results) | views(_flat(gradients))
    kernels.delta_backward(*_kernel_arguments(operands, options, read), passed)
    return gradients


def _kernel_arguments(
    operands: DeltaOperands, options: DeltaOptions, flat: Mapping[str, Tensor]
) -> tuple[str, int, dict[str, Any]]:
    """Return the arguments that both kernels share."""
    T, B, H, R, K = operands.k.shape
    call: dict[str, Any] = {"T": T, "B": B, "H": H, "R": R, "K": K, "V": operands.v.shape[4]}
    call["chunk"] = chunk_steps(operands)
    call |= kernel_options(options) | views(flat)
    return number_type(*flat.values()), torch.get_num_threads(), call


def _flat(tensors: Named) -> dict[str, Tensor]:  # each (T, B, numbers) or (B, numbers)
    """Return the tensors with the numbers of a step, or of a state, in one contiguous row."""
    flat: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if name in _STATES:  # which have no axis of steps
            flat[name] = rows(tensor.flatten(1))
        else:
            flat[name] = rows(tensor.flatten(2))
    return flat


_STATES = ("S0", "S_n")
"""The tensors without time."""


delta_cpu = Operator(
    "delta_cpu",
    DELTA,
    forward=_forward,
    allocate=_allocate,
    backward=_backward,
    saved=("saved",),
)


class DeltaCPU(CompiledBackend):
    """All chunks of a head in one kernel."""

    dtypes = REAL
    features = DELTA.features
    operator = delta_cpu

    def run(self, operands: DeltaOperands, options: DeltaOptions) -> tuple[Tensor, Tensor]:
        o, S_n = self.run_kernels(to_float32(operands), options)
        return o.to(operands.q.dtype), S_n
