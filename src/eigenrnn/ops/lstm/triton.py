"""The LSTM in Triton kernels, as a torch operator."""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from eigenrnn.ops.arguments import map_inputs
from eigenrnn.ops.dispatch import Call
from eigenrnn.ops.lstm.reference import LSTM, LSTMOperands, LSTMOptions
from eigenrnn.ops.operators import Named, Operator
from eigenrnn.ops.time_steps import (
    outer,
    states_and_last,
    weight_gradient,
    without_padding,
)
from eigenrnn.ops.triton_backend import TritonBackend, launch

__all__ = ["LSTMTriton", "lstm_triton"]


def _allocate(operands: LSTMOperands, _options: LSTMOptions, save: bool) -> dict[str, Tensor]:
    T = len(operands.x)
    B, N = operands.h0.shape
    saved_steps = T if save else 0
    make = operands.x.new_empty
    return {
        "h": make(T, B, N),
        "last_cell": make(B, N),
        "gates": make(saved_steps, B, 4 * N),
        "cells": make(saved_steps, B, N),
    }


def _forward(operands: LSTMOperands, options: LSTMOptions, save: bool) -> dict[str, Tensor]:
    """Evaluate the states and the last cells; with `save` also the gates and all cells."""
    from eigenrnn.ops.lstm.triton_kernels import lstm_forward

    results = _allocate(operands, options, save)
    N = operands.h0.shape[1]
    others = {
        # the kernels sum down the columns of what they are given
        "matrices": operands.W.view(4, N, N).transpose(1, 2),
        "h0": operands.h0,
        "c0": operands.c0,
    }
    x = map_inputs(operands.x, operands.U, operands.c)
    launch(lstm_forward, x, others, results, operands, options, SAVE=save)
    return results


def _backward(
    operands: LSTMOperands,
    options: LSTMOptions,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    from eigenrnn.ops.lstm.triton_kernels import lstm_backward

    h = kept["h"]
    T, B, N = h.shape
    dh = grads["h"]
    dlast_cell = grads["last_cell"]
    if dh is None:
        dh = torch.zeros_like(h)
    if dlast_cell is None:
        dlast_cell = torch.zeros_like(operands.c0)
    others = {
        "dlast_cell": dlast_cell,
        "matrices": operands.W,
        "c0": operands.c0,
        "gates": kept["gates"],
        "cells": kept["cells"],
    }
    results = {
        "dgates": h.new_empty(T, B, 4 * N),
        "dh0": h.new_empty(B, N),
        "dc0": h.new_empty(B, N),
    }
    launch(lstm_backward, dh, others, results, operands, options)
    dgates = results["dgates"]
    gradients = {"x": dgates, "h0": results["dh0"], "c0": results["dc0"]}
    if operands.U is not None:
        gradients["x"] = dgates @ operands.U
    if "W" in needed:
        gradients["W"] = weight_gradient(dgates, h, operands, options)
    if "U" in needed:
        gradients["U"] = outer(dgates, without_padding(operands.x, options.batch_sizes))
    if "c" in needed:
        gradients["c"] = dgates.sum((0, 1))
    return gradients


lstm_triton = Operator(
    "lstm_triton",
    LSTM,
    forward=_forward,
    allocate=_allocate,
    backward=_backward,
    results=("h", "last_cell"),
    saved=("gates", "cells"),
)


class LSTMTriton(TritonBackend):
    """One program takes a sequence through all its steps."""

    features = frozenset({"resets"})
    largest_state = 192  # the state and the cell of 96 units

    def experimental(self, call: Call) -> str | None:
        return super().experimental(call) or "nobody has timed it: requested by name only"

    def run(self, operands: LSTMOperands, options: LSTMOptions) -> tuple[Tensor, Tensor, Tensor]:
        results = lstm_triton(operands, options)
        h, last = states_and_last(results["h"], options.batch_sizes, options.reverse)
        return h, last, results["last_cell"]
