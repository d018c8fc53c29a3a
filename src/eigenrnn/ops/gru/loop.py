"""The gated recurrence as a loop of in-place products, with an explicit backward pass.

README.md in this folder has the derivation and the reasons for each choice.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from eigenrnn.ops.arguments import EXTRAS, map_inputs
from eigenrnn.ops.dispatch import REAL, Backend
from eigenrnn.ops.gru.backward import operand_gradients
from eigenrnn.ops.gru.reference import FORMS, GRU, GRUOperands, GRUOptions
from eigenrnn.ops.inplace_nonlinearities import apply_in_place, backward_in_place
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

__all__ = ["GRULoop", "gru_loop", "gru_loop_resets"]

# in place, because the loop allocates nothing
_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input


class _GateSteps(NamedTuple):
    """Views of the gates of each step, or of their gradients, for the running sequences.

    Args:
        r: The reset gate.
        u: The update gate.
        q: The product of the candidate's matrix, or r h with the reset before it.
        c: The candidate.
        ru: The reset gate and the update gate, side by side.
    """

    r: list[Tensor]
    u: list[Tensor]
    q: list[Tensor]
    c: list[Tensor]
    ru: list[Tensor]

    @classmethod
    def of(
        cls,
        gates: Tensor,  # (T, B, 4 N)
        sizes: Sequence[int],
    ) -> Self:
        r, u, q, c = gates.chunk(4, dim=2)
        return cls(
            r=split_steps(r, sizes),
            u=split_steps(u, sizes),
            q=split_steps(q, sizes),
            c=split_steps(c, sizes),
            ru=split_steps(gates[..., : 2 * r.shape[2]], sizes),
        )


def _forward(operands: GRUOperands, options: GRUOptions, save: bool) -> dict[str, Tensor]:
    """Evaluate the states; with `save` also save the gates r, u, q and c for a backward pass."""
    W = operands.W
    h0 = operands.h0
    bias = operands.bias
    recurrent_bias = operands.recurrent_bias
    x = map_inputs(operands.x, operands.U, operands.c)
    T = x.shape[0]
    B, N = h0.shape
    sizes = sizes_of_steps(options.batch_sizes, T, B)
    if sizes[-1] < B:  # later products also read the padding
        h = x.new_zeros(T, B, N)
    else:
        h = x.new_empty(T, B, N)
    if save:
        gates = x.new_empty(T, B, 4 * N)
    else:  # without a backward pass the numbers of one step suffice
        gates = x.new_empty(1, B, 4 * N)
    f_ = apply_in_place(options.nonlinearity, bias, h0)
    width = _width_of_first_product(options, N)
    W_before = W[:width].T.contiguous()
    W_c = W[2 * N :].T.contiguous()
    if save:
        _write_sums(gates, x, recurrent_bias, width)
        if sizes[-1] < B:
            zero_padding(gates, sizes)
    views = gates.expand(T, B, 4 * N)
    steps = _GateSteps.of(views, sizes)
    sums = split_steps(views[..., :width], sizes)
    x_cs = split_steps(x[..., 2 * N :], sizes)
    h_at = split_steps(h, sizes)
    begins = begins_of_steps(operands.resets, sizes)
    for t in steps_in_order(T, options.reverse):
        h_before = previous_state(t, h_at, h0, sizes, options.reverse)
        if begins:
            h_before = h_before.masked_fill(begins[t], 0)
        r = steps.r[t]
        q = steps.q[t]
        c = steps.c[t]
        if not save:
            _write_sums(gates, x[t : t + 1], recurrent_bias, width)
        sums[t].addmm_(h_before, W_before)
        steps.ru[t].sigmoid_()
        if options.reset_after:
            torch.addcmul(x_cs[t], r, q, out=c)
        else:
            torch.mul(r, h_before, out=q)
            c.addmm_(q, W_c)
        f_(c, None)
        if options.update_keeps:
            torch.lerp(c, h_before, steps.u[t], out=h_at[t])
        else:
            torch.lerp(h_before, c, steps.u[t], out=h_at[t])
    return {"h": h, "gates": gates}


def _width_of_first_product(options: GRUOptions, N: int) -> int:
    """Return how many rows of W one product multiplies by the state, at the begin of a step.

    Those of r and u need the state alone, and so do those of q if the reset is after the matrix.
    """
    if options.reset_after:
        return 3 * N
    return 2 * N


def _write_sums(
    gates: Tensor,  # (T, B, 4 N)
    x: Tensor,  # (T, B, 3 N)
    recurrent_bias: Tensor | None,  # (N,)
    width: int,
) -> None:
    """Write what the products are added to: the inputs of r and u, and those of q or c."""
    N = gates.shape[2] // 4
    gates[..., : 2 * N] = x[..., : 2 * N]
    if width == 2 * N:
        gates[..., 3 * N :] = x[..., 2 * N :]
    elif recurrent_bias is None:
        gates[..., 2 * N : 3 * N] = 0
    else:
        gates[..., 2 * N : 3 * N] = recurrent_bias


def _allocate(operands: GRUOperands, _options: GRUOptions, save: bool) -> dict[str, Tensor]:
    T = len(operands.x)
    B, N = operands.h0.shape
    steps = T if save else 1
    make = operands.x.new_empty
    return {"h": make(T, B, N), "gates": make(steps, B, 4 * N)}


def _backward(
    operands: GRUOperands,
    options: GRUOptions,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    W = operands.W
    h0 = operands.h0
    bias = operands.bias
    g = grads["h"]
    h = kept["h"]
    gates = kept["gates"]
    assert g is not None  # noqa: S101, no backward pass runs without a gradient
    T, B, N = h.shape
    sizes = sizes_of_steps(options.batch_sizes, T, B)
    # of r, u, q and c; all but the last are multiplied by W at once if the reset is after it
    if sizes[-1] < B:  # the products after the loop also read the padding
        deltas = h.new_zeros(T, B, 4 * N)
    else:
        deltas = h.new_empty(T, B, 4 * N)
    # each step adds to the gradient of the state before it, in the end to that of h0
    g = g.clone(memory_format=torch.contiguous_format)
    dh0 = h.new_zeros(B, N)
    backward_ = backward_in_place(options.nonlinearity, bias, h0)
    width = _width_of_first_product(options, N)
    W_before = W[:width].contiguous()
    W_c = W[2 * N :].contiguous()
    steps = _GateSteps.of(gates, sizes)
    changes = _GateSteps.of(deltas, sizes)
    sums = split_steps(deltas[..., :width], sizes)
    h_at = split_steps(h, sizes)
    dhs = split_steps(g, sizes)
    earlier = previous_rows(dhs, dh0, sizes, options.reverse)
    begins = begins_of_steps(operands.resets, sizes)
    for t in reversed(steps_in_order(T, options.reverse)):
        h_before = previous_state(t, h_at, h0, sizes, options.reverse)
        added_to: list[tuple[Tensor, slice | None]] = earlier[t]
        sent: Tensor | None = None
        if begins:  # what a step sends back is gathered apart, and ends at a reset
            h_before = h_before.masked_fill(begins[t], 0)
            sent = torch.zeros_like(h_before)
            added_to = [(sent, None)]
        r = steps.r[t]
        c = steps.c[t]
        dr = changes.r[t]
        dq = changes.q[t]
        dc = changes.c[t]
        dru = changes.ru[t]
        dh = dhs[t]
        u = steps.u[t]
        du = changes.u[t]
        if options.update_keeps:  # h = u h_before + (1 - u) c
            torch.sub(h_before, c, out=du).mul_(dh)
            torch.addcmul(dh, dh, u, value=-1, out=dc)
        else:  # h = (1 - u) h_before + u c
            torch.sub(c, h_before, out=du).mul_(dh)
            torch.mul(dh, u, out=dc)
            dh.sub_(dc)
        backward_(dc, c, None)
        # After the matrix, r multiplies q, so dc gives the gradients of both. Before it, q = r h
        # gets its gradient through the matrix first. README.md has the equations.
        if options.reset_after:
            torch.mul(dc, steps.q[t], out=dr)
            torch.mul(dc, r, out=dq)
        else:
            torch.mm(dc, W_c, out=dq)
            torch.mul(dq, h_before, out=dr)
        _sigmoid_backward(dru, steps.ru[t], grad_input=dru)  # of both gates in one operation
        for before, rows in added_to:
            if options.update_keeps:
                before.addcmul_(select_rows(dh, rows), select_rows(u, rows))
            else:
                before.add_(select_rows(dh, rows))
            if not options.reset_after:
                before.addcmul_(select_rows(dq, rows), select_rows(r, rows))
            before.addmm_(select_rows(sums[t], rows), W_before)
        if sent is not None:
            sent.masked_fill_(begins[t], 0)
            for before, rows in earlier[t]:
                before.add_(select_rows(sent, rows))
    dr_all, du_all, dq_all, dc_all = deltas.chunk(4, dim=2)
    _, _, q_all, c_all = gates.chunk(4, dim=2)
    gradients = operand_gradients(
        torch.cat([dr_all, du_all, dc_all], dim=2),
        dq_all,
        h,
        q_all,
        c_all,
        operands,
        options,
        needed,
    )
    return {"h0": dh0, **gradients}


_FUNCTIONS: dict[str, Any] = {"forward": _forward, "allocate": _allocate, "backward": _backward}

# torch takes a time quadratic in the number of arguments for a call that autograd records
gru_loop = Operator(
    "gru_loop", GRU, **_FUNCTIONS, results=("h",), saved=("gates",), without=EXTRAS
)
gru_loop_resets = Operator("gru_loop_resets", GRU, **_FUNCTIONS, results=("h",), saved=("gates",))


class GRULoop(Backend):
    """One or two products per step, in torch operations."""

    name = "loop"
    description = "in-place torch operations, any device"
    dtypes = REAL
    features = FORMS | {"resets"}

    def run(self, operands: GRUOperands, options: GRUOptions) -> tuple[Tensor, Tensor]:
        operator = gru_loop if operands.resets is None else gru_loop_resets
        h = operator(operands, options)["h"]
        return states_and_last(h, options.batch_sizes, options.reverse)
