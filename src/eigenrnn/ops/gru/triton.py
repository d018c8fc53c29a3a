"""The gated recurrence in Triton kernels, as a torch operator; README.md has the design."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor

from eigenrnn.ops.arguments import EXTRAS, map_inputs
from eigenrnn.ops.gru.backward import operand_gradients
from eigenrnn.ops.gru.reference import FORMS, GRU, GRUOperands, GRUOptions
from eigenrnn.ops.operators import Named, Operator
from eigenrnn.ops.time_steps import states_and_last
from eigenrnn.ops.triton_backend import TritonBackend, kept_share, launch

__all__ = ["GRUTriton", "gru_triton", "gru_triton_mixed"]


def _allocate(operands: GRUOperands, _options: GRUOptions, save: bool) -> dict[str, Tensor]:
    T = len(operands.x)
    B, N = operands.h0.shape
    saved_steps = T if save else 0
    make = operands.x.new_empty
    return {"h": make(T, B, N), "gates": make(saved_steps, B, 4 * N)}


def _forward(operands: GRUOperands, options: GRUOptions, save: bool) -> dict[str, Tensor]:
    """Evaluate the states; with `save` also r, u, q and c."""
    from eigenrnn.ops.gru.triton_kernels import gru_forward

    results = _allocate(operands, options, save)
    N = operands.h0.shape[1]
    others = {
        "matrices": operands.W.view(3, N, N).transpose(1, 2),
        "h0": operands.h0,
        "bias": operands.bias,
        "recurrent_bias": operands.recurrent_bias,
    }
    launch(
        gru_forward,
        map_inputs(operands.x, operands.U, operands.c),
        others,
        results,
        operands,
        options,
        SHIFTED=operands.recurrent_bias is not None,
        RESET_AFTER=options.reset_after,
        UPDATE_KEEPS=options.update_keeps,
        SAVE=save,
    )
    return results


def _backward(
    operands: GRUOperands,
    options: GRUOptions,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    from eigenrnn.ops.gru.triton_kernels import gru_backward

    h = kept["h"]
    gates = kept["gates"]
    g = grads["h"]
    assert g is not None  # noqa: S101, no backward pass runs without a gradient
    T, B, N = h.shape
    others = {
        "matrices": operands.W,
        "h0": operands.h0,
        "bias": operands.bias,
        "h": h,
        "gates": gates,
    }
    results = {
        "dgates": h.new_empty(T, B, 3 * N),
        "dq": h.new_empty(T if options.reset_after else 0, B, N),
        "dh0": h.new_empty(B, N),
    }
    launch(
        gru_backward,
        g,
        others,
        results,
        operands,
        options,
        RESET_AFTER=options.reset_after,
        UPDATE_KEEPS=options.update_keeps,
    )
    _, _, q, c = gates.chunk(4, dim=2)
    of_operands = operand_gradients(
        results["dgates"], results["dq"], h, q, c, operands, options, needed
    )
    return {"h0": results["dh0"], **of_operands}


_FUNCTIONS: dict[str, Any] = {"forward": _forward, "allocate": _allocate, "backward": _backward}

# torch takes a time quadratic in the number of arguments for a call that autograd records
gru_triton = Operator(
    "gru_triton", GRU, **_FUNCTIONS, results=("h",), saved=("gates",), without=EXTRAS
)
gru_triton_mixed = Operator(
    "gru_triton_mixed", GRU, **_FUNCTIONS, results=("h",), saved=("gates",)
)


class GRUTriton(TritonBackend):
    """One program takes a sequence through all its steps."""

    features = FORMS | {"resets", "zoneout"}
    largest_state = 128

    def run(self, operands: GRUOperands, options: GRUOptions) -> tuple[Tensor, Tensor]:
        operator = gru_triton
        if operands.resets is not None or kept_share(operands, options) is not None:
            operator = gru_triton_mixed
        h = operator(operands, options)["h"]
        return states_and_last(h, options.batch_sizes, options.reverse)
