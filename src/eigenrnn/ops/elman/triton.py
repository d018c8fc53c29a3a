"""The Elman recurrence in Triton kernels, as a torch operator; README.md has the design."""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from eigenrnn.linalg import pairs_to_complex
from eigenrnn.ops.arguments import EXTRAS, Options, map_inputs
from eigenrnn.ops.elman.backward import bias_gradient, operand_gradients
from eigenrnn.ops.elman.reference import ELMAN, ElmanOperands, as_pairs
from eigenrnn.ops.inplace_nonlinearities import moduli_like
from eigenrnn.ops.operators import Named, Operator
from eigenrnn.ops.time_steps import first_steps, states_and_last, states_before
from eigenrnn.ops.triton_backend import TritonBackend, kept_share, launch

__all__ = ["ElmanTriton", "elman_triton", "elman_triton_mixed"]


def _allocate(operands: ElmanOperands, options: Options, save: bool) -> dict[str, Tensor]:
    """Allocate the results; the values of f only where they are saved and are not the states."""
    h = operands.W.new_empty(*operands.x.shape[:2], len(operands.W))
    saved_values = h[:0]
    if save and kept_share(operands, options) is not None:
        saved_values = h
    return {
        "h": h,
        "moduli": moduli_like(h, options.nonlinearity, operands.bias),
        "values": torch.empty_like(saved_values),
    }


def _forward(operands: ElmanOperands, options: Options, save: bool) -> dict[str, Tensor]:
    """Evaluate the states and, for modReLU of pairs, the moduli of its arguments."""
    from eigenrnn.ops.elman.triton_kernels import elman_forward

    results = _allocate(operands, options, save)
    # the kernels sum down the columns of what they are given: of W^T forward, of W backward
    others = {"matrix": operands.W.T, "h0": operands.h0, "bias": operands.bias}
    x = map_inputs(operands.x, operands.U, operands.c)
    SAVE = len(results["values"]) > 0
    launch(elman_forward, x, others, results, operands, options, SAVE=SAVE)
    return results


def _backward(
    operands: ElmanOperands,
    options: Options,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    from eigenrnn.ops.elman.triton_kernels import elman_backward

    h = kept["h"]
    moduli = kept["moduli"]
    share = kept_share(operands, options)
    values = h if share is None else kept["values"]
    g = grads["h"]
    assert g is not None  # noqa: S101, no backward pass runs without a gradient
    # delta of pairs has lost the component that the bias needs
    TOTALS = "leak" in needed or ("bias" in needed and len(moduli) > 0)
    delta = torch.empty_like(h)
    totals = torch.empty_like(h if TOTALS else h[:0])
    dh0 = operands.h0.new_empty(operands.h0.shape)  # contiguous, as the kernel writes it
    launch(
        elman_backward,
        g,
        {"h": h, "matrix": operands.W, "bias": operands.bias, "moduli": moduli, "values": values},
        {"delta": delta, "totals": totals, "dh0": dh0},
        operands,
        options,
        TOTALS=TOTALS,
    )
    gradients = operand_gradients(delta, h, operands, options, needed)
    if "h0" in needed:
        if share is None and operands.resets is None:
            dh0 = first_steps(delta, options.batch_sizes, options.reverse) @ operands.W
        gradients["h0"] = dh0
    if "bias" in needed:
        through_f = delta
        if len(moduli):
            through_f = totals if share is None else totals * (1 - share.to(h.dtype))
        gradients["bias"] = bias_gradient(through_f, values, options.nonlinearity)
    if "leak" in needed:
        before = states_before(h, operands.h0, options.batch_sizes, options.reverse)
        if operands.resets is not None:
            before = before.masked_fill(operands.resets.unsqueeze(2), 0)
        product = totals * (values - before)
        if operands.leak is not None and operands.leak.dim() == 1:
            product = product.sum((0, 1))
        gradients["leak"] = product
    return gradients


_FUNCTIONS: dict[str, Any] = {"forward": _forward, "allocate": _allocate, "backward": _backward}

# torch takes a time quadratic in the number of arguments for a call that autograd records
elman_triton = Operator(
    "elman_triton",
    ELMAN,
    **_FUNCTIONS,
    results=("h",),
    saved=("moduli",),
    without=("V", "d", *EXTRAS, "leak", "v0"),
)
elman_triton_mixed = Operator(
    "elman_triton_mixed", ELMAN, **_FUNCTIONS, results=("h",), saved=("moduli", "values")
)


class ElmanTriton(TritonBackend):
    """One program takes a sequence through all its steps."""

    dtypes = TritonBackend.dtypes | {torch.complex64}
    features = TritonBackend.unmeasured
    largest_state = 192

    def run(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
        is_complex = operands.W.is_complex()
        if is_complex:
            operands, options = as_pairs(operands, options)
        operator = elman_triton
        if operands.resets is not None or kept_share(operands, options) is not None:
            operator = elman_triton_mixed
        h = operator(operands, options)["h"]
        if is_complex:
            h = pairs_to_complex(h)
        return states_and_last(h, options.batch_sizes, options.reverse)
