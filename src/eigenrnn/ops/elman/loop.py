"""The Elman recurrence as a loop of in-place products, with an explicit backward pass.

README.md in this folder has the derivation and the reasons for each choice.
"""

from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import EXTRAS, Options, map_inputs
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend
from eigenrnn.ops.elman.backward import bias_gradient, operand_gradients
from eigenrnn.ops.elman.reference import ELMAN, ElmanOperands
from eigenrnn.ops.inplace_nonlinearities import (
    apply_in_place,
    backward_in_place,
    moduli_like,
    split_moduli,
)
from eigenrnn.ops.operators import Named, Operator
from eigenrnn.ops.time_steps import (
    begins_of_steps,
    previous_rows,
    previous_state,
    select_rows,
    sizes_of_steps,
    split_steps,
    states_and_last,
    steps_in_order,
    zero_padding,
)

__all__ = ["ElmanLoop", "elman_loop", "elman_loop_resets"]


def _forward(operands: ElmanOperands, options: Options, save: bool) -> dict[str, Tensor]:
    """Evaluate the recurrence with one product and a few in-place operations per step.

    With `save`, also return the moduli of the pre-activations of complex modReLU.
    """
    W = operands.W
    h0 = operands.h0
    T, B, _ = operands.x.shape
    sizes = sizes_of_steps(options.batch_sizes, T, B)
    # mapped inputs become pre-activations and then states, in one buffer
    if operands.U is None:
        h = operands.x.clone(memory_format=torch.contiguous_format)
    else:
        h = map_inputs(operands.x, operands.U, operands.c).contiguous()
    if sizes[-1] < B:
        zero_padding(h, sizes)
    # an operator returns them always: those that a call does not need have no steps
    moduli = moduli_like(h if save else h[:0], options.nonlinearity, operands.bias)
    if sizes[-1] < B:  # no step writes past the end of a sequence
        moduli.zero_()
    f_ = apply_in_place(options.nonlinearity, operands.bias, h0)
    Wt = W.T.contiguous()  # copied once, so the products of all steps read it in order
    # one view for each step: indexing in the loop would cost as much as a tanh
    h_at = split_steps(h, sizes)
    moduli_at = split_moduli(moduli, sizes)
    begins = begins_of_steps(operands.resets, sizes)
    for t in steps_in_order(T, options.reverse):
        h_before = previous_state(t, h_at, h0, sizes, options.reverse)
        if begins:
            h_before = h_before.masked_fill(begins[t], 0)
        h_at[t].addmm_(h_before, Wt)
        f_(h_at[t], moduli_at[t])
    return {"h": h, "moduli": moduli}


def _allocate(operands: ElmanOperands, options: Options, save: bool) -> dict[str, Tensor]:
    h = operands.W.new_empty(*operands.x.shape[:2], len(operands.W))
    moduli = moduli_like(h if save else h[:0], options.nonlinearity, operands.bias)
    return {"h": h, "moduli": moduli}


def _backward(
    operands: ElmanOperands,
    options: Options,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    h0 = operands.h0
    bias = operands.bias
    g = grads["h"]
    h = kept["h"]
    moduli = kept["moduli"]
    assert g is not None  # noqa: S101, no backward pass runs without a gradient
    T, B, N = h.shape
    sizes = sizes_of_steps(options.batch_sizes, T, B)
    # the gradients of the states; in place, each step makes them those of the pre-activations
    delta = g.clone(memory_format=torch.contiguous_format)
    dh0 = h.new_zeros(B, N)
    if sizes[-1] < B:
        zero_padding(delta, sizes)
    # the derivative of complex numbers loses what the bias needs
    sum_bias = bias is not None and bool(len(moduli))
    dbias = h.real.new_zeros(N)
    backward_ = backward_in_place(options.nonlinearity, bias, h0)
    conjugate = operands.W.conj_physical().contiguous()
    deltas = split_steps(delta, sizes)
    h_at = split_steps(h, sizes)
    moduli_at = split_moduli(moduli, sizes)
    earlier = previous_rows(deltas, dh0, sizes, options.reverse)
    begins = begins_of_steps(operands.resets, sizes)
    # README.md has the equations
    for t in reversed(steps_in_order(T, options.reverse)):
        delta_t = deltas[t]
        if sum_bias:
            dbias += (delta_t * h_at[t].sgn().conj_physical()).real.sum(0)
        backward_(delta_t, h_at[t], moduli_at[t])
        through_W = delta_t
        if begins:
            through_W = delta_t.masked_fill(begins[t], 0)
        for dh, rows in earlier[t]:
            dh.addmm_(select_rows(through_W, rows), conjugate)
    if bias is not None and not sum_bias:
        dbias = bias_gradient(delta, h, options.nonlinearity)
    # some of these may not be needed; `Operator` takes what is
    known = {"h0": dh0, "bias": dbias}
    return known | operand_gradients(delta, h, operands, options, needed)


_FUNCTIONS: dict[str, Any] = {"forward": _forward, "allocate": _allocate, "backward": _backward}

# torch takes a time quadratic in the number of arguments for a call that autograd records
elman_loop = Operator(
    "elman_loop",
    ELMAN,
    **_FUNCTIONS,
    results=("h",),
    saved=("moduli",),
    without=(*EXTRAS, "leak", "v0"),
)
elman_loop_resets = Operator(
    "elman_loop_resets", ELMAN, **_FUNCTIONS, results=("h",), saved=("moduli",)
)


class ElmanLoop(Backend):
    """One product per step, in torch operations."""

    name = "loop"
    description = "in-place torch operations, any device"
    dtypes = REAL | COMPLEX
    features = frozenset({"resets"})

    def run(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
        operator = elman_loop if operands.resets is None else elman_loop_resets
        results = operator(operands, options)
        return states_and_last(results["h"], options.batch_sizes, options.reverse)
