"""The LSTM in Triton: one program takes one sequence through all its steps.

The four matrices are read before the loop and stay in the registers of the program. The inputs of
the next step are loaded while the current step computes. No program writes memory that another
program reads or writes, so results are the same bits in every run.

N is never compiled in. Triton would load an N that is a multiple of 16 in longer pieces, and
their layout takes registers that the matrices need.
"""

import triton
import triton.language as tl

from eigenrnn.ops.triton_functions import (
    add,
    apply,
    load,
    load_matrix,
    load_parts,
    multiply,
    multiply_by_matrix,
    sigmoid,
    store,
    subtract,
    unit_indices,
    unless,
    zeros,
)

__all__ = ["lstm_backward", "lstm_forward"]


@triton.jit
def _store_parts(pointer, at, N, i, f, g, o):
    store(pointer, at, N, i)
    store(pointer + N, at, N, f)
    store(pointer + 2 * N, at, N, g)
    store(pointer + 3 * N, at, N, o)


@triton.jit
def _tanh(vector, at):
    return apply(vector, zeros(at), "tanh", 0.0)


@triton.jit
def _slope(gate):
    """Return the derivative of the logistic function by its value."""
    return subtract(gate, multiply(gate, gate))


@triton.jit(do_not_specialize=["T", "B", "N", "steps_stride", "row_stride"])
def lstm_forward(
    x,  # (T, B, 4 N), with contiguous rows
    matrices,  # (4, N, N), each W transposed
    h0,  # (B, N)
    c0,  # (B, N)
    lengths,  # (B,)
    resets,  # (T, B), bytes
    h,  # (T, B, N)
    last_cell,  # (B, N)
    gates,  # (T, B, 4 N), written only with SAVE
    cells,  # (T, B, N), written only with SAVE
    T,
    B,
    N,
    steps_stride,
    row_stride,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    RAGGED: tl.constexpr,
    REVERSE: tl.constexpr,
    RESETS: tl.constexpr,
    SAVE: tl.constexpr,
):
    """Write the states of one sequence and, with SAVE, its gates and cells."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = unit_indices(COLUMNS)
    W_i = load_matrix(matrices, at, N, ROWS)
    W_f = load_matrix(matrices + N * N, at, N, ROWS)
    W_g = load_matrix(matrices + 2 * N * N, at, N, ROWS)
    W_o = load_matrix(matrices + 3 * N * N, at, N, ROWS)
    state = load(h0 + row * N, at, N)
    cell = load(c0 + row * N, at, N)

    first, direction = (tl.cast(length - 1, tl.int64), -1) if REVERSE else (0, 1)
    step = tl.cast(B, tl.int64) * N
    x += row * row_stride + first * steps_stride
    resets += row + first * B
    h += row * N
    gates += row * 4 * N
    cells += row * N
    for t in range(length, T):
        none = zeros(at)
        store(h + t * step, at, N, none)
        if SAVE:
            store(cells + t * step, at, N, none)
            _store_parts(gates + t * 4 * step, at, N, none, none, none, none)
    h += first * step
    gates += first * 4 * step
    cells += first * step
    z = load_parts(x, at, N, N, 4)
    for t in range(length):
        x += direction * steps_stride
        z_next = load_parts(x, at, N, tl.where(t + 1 < length, N, 0), 4)
        if RESETS:
            begins = tl.load(resets) != 0
            resets += direction * B
            state = unless(begins, state, at)
            cell = unless(begins, cell, at)
        i = sigmoid(add(z[0], multiply_by_matrix(state, W_i, at, N, ROWS)))
        f = sigmoid(add(z[1], multiply_by_matrix(state, W_f, at, N, ROWS)))
        g = _tanh(add(z[2], multiply_by_matrix(state, W_g, at, N, ROWS)), at)
        o = sigmoid(add(z[3], multiply_by_matrix(state, W_o, at, N, ROWS)))
        cell = add(multiply(f, cell), multiply(i, g))
        state = multiply(o, _tanh(cell, at))
        store(h, at, N, state)
        if SAVE:
            store(cells, at, N, cell)
            _store_parts(gates, at, N, i, f, g, o)
        h += direction * step
        gates += direction * 4 * step
        cells += direction * step
        z = z_next
    store(last_cell + row * N, at, N, cell)


@triton.jit(do_not_specialize=["T", "B", "N", "steps_stride", "row_stride"])
def lstm_backward(
    dh,  # (T, B, N), with contiguous rows
    dlast_cell,  # (B, N)
    matrices,  # (4, N, N)
    c0,  # (B, N)
    lengths,  # (B,)
    resets,  # (T, B), bytes
    gates,  # (T, B, 4 N)
    cells,  # (T, B, N)
    dgates,  # (T, B, 4 N)
    dh0,  # (B, N)
    dc0,  # (B, N)
    T,
    B,
    N,
    steps_stride,
    row_stride,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    RAGGED: tl.constexpr,
    REVERSE: tl.constexpr,
    RESETS: tl.constexpr,
):
    """Write the gradients of the arguments of the gates, of h0 and of c0 of one sequence."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = unit_indices(COLUMNS)
    W_i = load_matrix(matrices, at, N, ROWS)
    W_f = load_matrix(matrices + N * N, at, N, ROWS)
    W_g = load_matrix(matrices + 2 * N * N, at, N, ROWS)
    W_o = load_matrix(matrices + 3 * N * N, at, N, ROWS)
    dstate = zeros(at)
    dcell = load(dlast_cell + row * N, at, N)

    first, direction = (0, 1) if REVERSE else (tl.cast(length - 1, tl.int64), -1)
    step = tl.cast(B, tl.int64) * N
    dh += row * row_stride + first * steps_stride
    resets += row + first * B
    gates += row * 4 * N + first * 4 * step
    cells += row * N + first * step
    c0 += row * N
    dgates += row * 4 * N
    for t in range(length, T):
        none = zeros(at)
        _store_parts(dgates + t * 4 * step, at, N, none, none, none, none)
    dgates += first * 4 * step
    cell = load(cells, at, N)
    for t in range(length):
        i, f, g, o = load_parts(gates, at, N, N, 4)
        cells += direction * step
        # the cell before is c0 at the first step
        rest = tl.where(t + 1 < length, N, 0)
        before = add(load(cells, at, rest), load(c0, at, N - rest))
        if RESETS:
            begins = tl.load(resets) != 0
            resets += direction * B
        total = add(dstate, load(dh, at, N))
        squashed = _tanh(cell, at)
        through = multiply(total, o)
        dcell = add(dcell, subtract(through, multiply(through, multiply(squashed, squashed))))
        do = multiply(multiply(total, squashed), _slope(o))
        di = multiply(multiply(dcell, g), _slope(i))
        of_g = multiply(dcell, i)
        dg = subtract(of_g, multiply(of_g, multiply(g, g)))
        used = before
        if RESETS:
            used = unless(begins, before, at)
        df = multiply(multiply(dcell, used), _slope(f))
        _store_parts(dgates, at, N, di, df, dg, do)
        dcell = multiply(dcell, f)
        of_i_and_f = add(
            multiply_by_matrix(di, W_i, at, N, ROWS), multiply_by_matrix(df, W_f, at, N, ROWS)
        )
        of_g_and_o = add(
            multiply_by_matrix(dg, W_g, at, N, ROWS), multiply_by_matrix(do, W_o, at, N, ROWS)
        )
        dstate = add(of_i_and_f, of_g_and_o)
        if RESETS:
            dstate = unless(begins, dstate, at)
            dcell = unless(begins, dcell, at)
        cell = before
        dh += direction * steps_stride
        gates += direction * 4 * step
        dgates += direction * 4 * step
    store(dh0 + row * N, at, N, dstate)
    store(dc0 + row * N, at, N, dcell)
