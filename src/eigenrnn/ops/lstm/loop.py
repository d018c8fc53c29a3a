"""The LSTM as a loop of in-place products, with an explicit backward pass.

README.md in this folder has the derivation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import mapped_copy, needs_gradient
from eigenrnn.ops.autograd import empty_gradients, from_operator, outer, register_gradients
from eigenrnn.ops.dispatch import REAL, Backend, Call
from eigenrnn.ops.lstm.operands import SCHEMA, LSTMOperands, LSTMOptions, records
from eigenrnn.ops.lstm.reference import lstm_reference
from eigenrnn.ops.time_steps import (
    first_steps,
    previous_rows,
    previous_state,
    split_steps,
    states_and_last,
    weight_gradient,
    without_padding,
    zero_padding,
)

__all__ = ["LSTMLoop", "lstm_loop"]

_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


@torch.library.custom_op(
    "eigenrnn::lstm_loop",
    mutates_args=(),
    schema=f"({SCHEMA}, bool save) -> (Tensor, Tensor, Tensor, Tensor)",
)
def lstm_loop(
    *arguments: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # (T, B, N), (B, N), (T, B, 4 N), (T, B, N)
    """Return the states and the last cells; with `save` also the gates and all cells."""
    (operands, options), save = records(arguments), arguments[-1]
    x, W, h0, c0, U, c = operands
    # each step adds its product to its inputs in place, which makes them its gates
    gates, Wt = mapped_copy(x, U, c), W.T.contiguous()
    T, B, N = x.shape[0], *h0.shape
    sizes = options.batch_sizes or [B] * T
    make = x.new_zeros if sizes[-1] < B else x.new_empty  # later products also read the padding
    h, cells = make(T, B, N), make(T if save else 0, B, N)
    if sizes[-1] < B and save:
        zero_padding(gates, sizes)
    cell = c0.clone()  # without `save` all steps share its memory
    zs, (_, _, g_s, o_s) = split_steps(gates, sizes), _split_gates(gates, sizes)
    i_f_s, hs = split_steps(gates[..., : 2 * N], sizes), split_steps(h, sizes)
    cs = split_steps(cells if save else cell.expand(T, B, N), sizes)
    for t in reversed(range(T)) if options.reverse else range(T):
        zs[t].addmm_(previous_state(t, hs, h0, sizes, options.reverse), Wt)
        i, f = i_f_s[t].sigmoid_().chunk(2, dim=1)
        o_s[t].sigmoid_()
        old = previous_state(t, cs, c0, sizes, options.reverse) if save else cs[t]
        torch.mul(f, old, out=cs[t]).addcmul_(i, g_s[t].tanh_())
        torch.tanh(cs[t], out=hs[t]).mul_(o_s[t])
    if not save:
        return h, cell, gates.new_empty(0, B, 4 * N), cells
    _, last_cell = states_and_last(cells, options.batch_sizes, options.reverse)
    return h, last_cell.clone(), gates, cells


@torch.library.custom_op(
    "eigenrnn::lstm_loop_backward",
    mutates_args=(),
    schema="(Tensor? g, Tensor? g_cell, Tensor h, Tensor gates, Tensor cells, "
    f"{SCHEMA}, bool[] needed) -> Tensor[]",
)
def _lstm_loop_backward(
    g: Tensor | None,  # (T, B, N)
    g_cell: Tensor | None,  # (B, N)
    h: Tensor,  # (T, B, N)
    gates: Tensor,  # (T, B, 4 N)
    cells: Tensor,  # (T, B, N)
    *arguments: Any,
) -> list[Tensor]:
    """Return the needed gradients in the order of the operands."""
    (operands, options), needed = records(arguments), arguments[-1]
    W, c0 = operands.W.contiguous(), operands.c0
    T, B, N = h.shape
    sizes = options.batch_sizes or [B] * T
    deltas = (h.new_zeros if sizes[-1] < B else h.new_empty)(T, B, 4 * N)
    # each step adds to the gradient of the state before it, in the end to that of h0
    g = torch.zeros_like(h) if g is None else g.clone(memory_format=torch.contiguous_format)
    # that of the cells between two steps, in the end of c0
    dh0, dc0 = h.new_zeros(B, N), h.new_zeros(B, N) if g_cell is None else g_cell.clone()
    each_gate, each_delta = _split_gates(gates, sizes), _split_gates(deltas, sizes)
    i_f_s, di_df_s = (split_steps(v[..., : 2 * N], sizes) for v in (gates, deltas))
    dcells, cs = split_steps(dc0.expand(T, B, N), sizes), split_steps(cells, sizes)
    zs, dhs = split_steps(deltas, sizes), split_steps(g, sizes)
    earlier = previous_rows(dhs, dh0, sizes, options.reverse)
    for t in range(T) if options.reverse else reversed(range(T)):
        dh, dcell, old = dhs[t], dcells[t], previous_state(t, cs, c0, sizes, options.reverse)
        i, f, g_t, o = (gate[t] for gate in each_gate)
        di, df, dg, do = (delta[t] for delta in each_delta)
        bent = torch.tanh(cs[t])
        torch.mul(dh, bent, out=do)
        dcell.add_(torch.ops.aten.tanh_backward(dh.mul_(o), bent))
        torch.mul(dcell, g_t, out=di)
        torch.mul(dcell, old, out=df)
        torch.mul(dcell, i, out=dg)
        dcell.mul_(f)
        for delta, gate in ((di_df_s[t], i_f_s[t]), (do, o)):
            _sigmoid_backward(delta, gate, grad_input=delta)
        _tanh_backward(dg, g_t, grad_input=dg)
        for before, rows in earlier[t]:
            before.addmm_(zs[t] if rows is None else zs[t][rows], W)
    return _operand_gradients((deltas, dh0, dc0), h, operands, options, needed)


def _split_gates(
    tensor: Tensor,  # (T, B, 4 N)
    sizes: Sequence[int],
) -> list[list[Tensor]]:  # 4 of T of (sizes[t], N)
    return [split_steps(gate, sizes) for gate in tensor.chunk(4, dim=2)]


def _operand_gradients(
    deltas: tuple[Tensor, Tensor, Tensor],  # (T, B, 4 N), (B, N), (B, N)
    h: Tensor,  # (T, B, N)
    operands: LSTMOperands,
    options: LSTMOptions,
    needed: Sequence[bool],
) -> list[Tensor]:
    """Return the needed gradients from those of the arguments of the gates, of h0 and of c0."""
    delta, dh0, dc0 = deltas
    x, _, h0, _, U, _ = operands

    def of_matrix() -> Tensor:
        first = first_steps(delta, options.batch_sizes, options.reverse)
        return weight_gradient(delta, first, h, h0, options.reverse)

    gradients_of: dict[str, Callable[[], Tensor]] = {
        "x": lambda: delta if U is None else delta @ U,
        "W": of_matrix,
        "h0": lambda: dh0,
        "c0": lambda: dc0,
        "U": lambda: outer(delta, without_padding(x, options.batch_sizes)),
        "c": lambda: delta.sum((0, 1)),
    }
    names = zip(operands._fields, needed, strict=True)
    return [gradients_of[name]() for name, is_needed in names if is_needed]


@lstm_loop.register_fake
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (operands, _), save = records(arguments), arguments[-1]
    T, (B, N) = len(operands.x), operands.h0.shape
    make, saved = operands.x.new_empty, T if save else 0
    return make(T, B, N), make(B, N), make(saved, B, 4 * N), make(saved, B, N)


@_lstm_loop_backward.register_fake
def _(*arguments: Any) -> list[Tensor]:
    operands, _ = records(arguments[5:])
    return empty_gradients(operands, arguments[-1])


def _states_and_cell(operands: LSTMOperands, options: LSTMOptions) -> tuple[Tensor, Tensor]:
    h, _, cell = lstm_reference(operands, options)
    return h, cell


register_gradients(lstm_loop, records, _states_and_cell, 2, from_operator(_lstm_loop_backward))


class LSTMLoop(Backend):
    """One product per step, in torch operations."""

    name = "loop"
    description = "in-place torch operations, any device"
    dtypes = REAL

    def unsupported(self, call: Call) -> str | None:
        if call.transformed:
            return "torch.func transforms and forward mode need differentiable operations"
        return None

    def run(self, operands: LSTMOperands, options: LSTMOptions) -> tuple[Tensor, Tensor, Tensor]:
        h, cell, *_ = lstm_loop(*operands, *options, needs_gradient(operands))
        return *states_and_last(h, options.batch_sizes, options.reverse), cell
