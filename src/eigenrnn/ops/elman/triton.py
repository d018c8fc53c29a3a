"""The Elman recurrence in Triton kernels, as a torch operator; README.md has the design."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from eigenrnn.linalg import pairs_to_complex
from eigenrnn.ops.arguments import EXTRAS, Options, map_inputs
from eigenrnn.ops.elman.backward import bias_gradient, operand_gradients
from eigenrnn.ops.elman.operands import ElmanOperands, as_pairs
from eigenrnn.ops.elman.reference import ELMAN
from eigenrnn.ops.inplace_nonlinearities import moduli_like
from eigenrnn.ops.operators import Named, Operator
from eigenrnn.ops.time_steps import first_steps, states_and_last
from eigenrnn.ops.triton_backend import TritonBackend, launch

__all__ = ["ElmanTriton", "elman_triton"]


def _allocate(operands: ElmanOperands, options: Options, _save: bool) -> dict[str, Tensor]:
    h = operands.W.new_empty(*operands.x.shape[:2], len(operands.W))
    return {"h": h, "moduli": moduli_like(h, options.nonlinearity, operands.bias)}


def _forward(operands: ElmanOperands, options: Options, save: bool) -> dict[str, Tensor]:
    """Evaluate the states and, for modReLU of pairs, the moduli of its arguments."""
    from eigenrnn.ops.elman.triton_kernels import elman_forward

    results = _allocate(operands, options, save)
    # the kernels sum down the columns of what they are given: of W^T forward, of W backward
    others = {"matrix": operands.W.T, "h0": operands.h0, "bias": operands.bias}
    x = map_inputs(operands.x, operands.U, operands.c)
    launch(elman_forward, x, others, results, len(operands.W), options)
    return results


def _backward(
    operands: ElmanOperands,
    options: Options,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    from eigenrnn.ops.elman.triton_kernels import elman_backward

    W = operands.W
    bias = operands.bias
    h = kept["h"]
    moduli = kept["moduli"]
    g = grads["h"]
    assert g is not None  # noqa: S101, no backward pass runs without a gradient
    delta = h.new_empty(h.shape)
    others = {"h": h, "matrix": W, "bias": bias, "moduli": moduli}
    launch(elman_backward, g, others, {"delta": delta}, len(W), options)
    gradients = operand_gradients(delta, h, operands, options, needed)
    if "h0" in needed:
        gradients["h0"] = first_steps(delta, options.batch_sizes, options.reverse) @ W
    if "bias" in needed:
        total = delta
        if len(moduli):  # of pairs: delta has lost the component that the bias needs
            total = _state_gradients(g, delta, W, options)
        gradients["bias"] = bias_gradient(total, h, options.nonlinearity)
    return gradients


def _state_gradients(
    g: Tensor,  # (T, B, N)
    delta: Tensor,  # (T, B, N)
    W: Tensor,  # (N, N)
    options: Options,
) -> Tensor:  # (T, B, N)
    """Return the whole gradients of the states from those of the loss and of later arguments."""
    total = g.clone()
    if options.reverse:
        total[1:] += delta[:-1] @ W
    else:
        total[:-1] += delta[1:] @ W
    return total


elman_triton = Operator(
    "elman_triton",
    ELMAN,
    forward=_forward,
    allocate=_allocate,
    backward=_backward,
    results=("h",),
    saved=("moduli",),
    without=("V", "d", *EXTRAS, "leak", "v0"),
)


class ElmanTriton(TritonBackend):
    """One program takes a sequence through all its steps."""

    dtypes = TritonBackend.dtypes | {torch.complex64}
    largest_state = 192

    def run(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
        is_complex = operands.W.is_complex()
        if is_complex:
            operands, options = as_pairs(operands, options)
        h = elman_triton(operands, options)["h"]
        if is_complex:
            h = pairs_to_complex(h)
        return states_and_last(h, options.batch_sizes, options.reverse)
