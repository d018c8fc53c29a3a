"""The gated recurrence in Triton: one program takes one sequence through all its steps.

The three matrices are read before the loop and stay in the registers of the program. What the
next step reads of memory is asked for while this one computes. No program writes what another
reads or writes, so that every run gives the same bits.

Nothing is compiled for an N of its own: one that is a multiple of 16 would be read in longer
pieces, whose layout takes registers that the matrix needs.
"""

import triton
import triton.language as tl

from eigenrnn.ops.triton_parts import (
    apply,
    load,
    load_matrix,
    minus,
    places,
    plus,
    product,
    pull,
    sigmoid,
    store,
    times,
    zeros,
)

__all__ = ["gru_backward", "gru_forward"]


@triton.jit
def _parts(pointer, stride, at, N, limit, PARTS: tl.constexpr, KIND: tl.constexpr):
    """Read vectors of N units that lie side by side."""
    found = ()
    for part in tl.static_range(PARTS):
        found = found + (load(pointer + part * N * stride, stride, at, limit, KIND),)
    return found


@triton.jit(do_not_specialize=["T", "B", "N", "x_step", "x_row"])
def gru_forward(
    x,  # (T, B, 3 N), of any strides
    Wt,  # (3, N, N), each W transposed
    h0,  # (B, N)
    bias,  # (N,)
    recurrent_bias,  # (N,)
    lengths,  # (B,)
    h,  # (T, B, N)
    gates,  # (T, B, 4 N), if they are kept
    T,
    B,
    N,
    x_step,
    x_row,
    x_unit,
    SIZES: tl.constexpr,
    KIND: tl.constexpr,
    NAME: tl.constexpr,
    SLOPE: tl.constexpr,
    BIASED: tl.constexpr,
    RAGGED: tl.constexpr,
    REVERSE: tl.constexpr,
    SHIFTED: tl.constexpr,
    RESET_AFTER: tl.constexpr,
    UPDATE_KEEPS: tl.constexpr,
    KEEP: tl.constexpr,
):
    """Write the states of one sequence, and r, u, q and c where they are kept."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = places(SIZES)
    W_r = load_matrix(Wt, at, N, KIND)
    W_u = load_matrix(Wt + N * N, at, N, KIND)
    W_c = load_matrix(Wt + 2 * N * N, at, N, KIND)
    b = load(bias, 1, at, N if BIASED else 0, KIND)
    shift = load(recurrent_bias, 1, at, N if SHIFTED else 0, KIND)
    state = load(h0 + row * N, 1, at, N, KIND)

    begin, onwards = (tl.cast(length - 1, tl.int64), -1) if REVERSE else (0, 1)
    step = tl.cast(B, tl.int64) * N
    x += row * x_row + begin * x_step
    h += row * N
    gates += row * 4 * N
    for t in range(length, T):
        store(h + t * step, at, N, zeros(at, KIND))
        if KEEP:
            for part in tl.static_range(4):
                store(gates + t * 4 * step + part * N, at, N, zeros(at, KIND))
    h += begin * step
    gates += begin * 4 * step
    z = _parts(x, x_unit, at, N, N, 3, KIND)
    for i in range(length):
        x += onwards * x_step
        following = _parts(x, x_unit, at, N, tl.where(i + 1 < length, N, 0), 3, KIND)
        r = sigmoid(plus(z[0], product(state, W_r, at, N)))
        u = sigmoid(plus(z[1], product(state, W_u, at, N)))
        if RESET_AFTER:
            q = plus(product(state, W_c, at, N), shift)
            c = apply(plus(z[2], times(r, q)), b, NAME, SLOPE)
        else:
            q = times(r, state)
            c = apply(plus(z[2], product(q, W_c, at, N)), b, NAME, SLOPE)
        if UPDATE_KEEPS:
            state = plus(c, times(u, minus(state, c)))
        else:
            state = plus(state, times(u, minus(c, state)))
        store(h, at, N, state)
        if KEEP:
            store(gates, at, N, r)
            store(gates + N, at, N, u)
            store(gates + 2 * N, at, N, q)
            store(gates + 3 * N, at, N, c)
        h += onwards * step
        gates += onwards * 4 * step
        z = following


@triton.jit(do_not_specialize=["T", "B", "N", "g_step", "g_row"])
def gru_backward(
    g,  # (T, B, N), of any strides
    W,  # (3, N, N)
    h0,  # (B, N)
    bias,  # (N,)  # noqa: ARG001, what both kernels are given
    lengths,  # (B,)
    h,  # (T, B, N)
    gates,  # (T, B, 4 N)
    dx,  # (T, B, 3 N)
    dq_kept,  # (T, B, N), if the reset is after the matrix
    dh0,  # (B, N)
    T,
    B,
    N,
    g_step,
    g_row,
    g_unit,
    SIZES: tl.constexpr,
    KIND: tl.constexpr,
    NAME: tl.constexpr,
    SLOPE: tl.constexpr,
    BIASED: tl.constexpr,  # noqa: ARG001
    RAGGED: tl.constexpr,
    REVERSE: tl.constexpr,
    RESET_AFTER: tl.constexpr,
    UPDATE_KEEPS: tl.constexpr,
):
    """Write the gradients of x, of q and of the first state of one sequence."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = places(SIZES)
    W_r = load_matrix(W, at, N, KIND)
    W_u = load_matrix(W + N * N, at, N, KIND)
    W_c = load_matrix(W + 2 * N * N, at, N, KIND)
    dh = zeros(at, KIND)

    begin, onwards = (0, 1) if REVERSE else (tl.cast(length - 1, tl.int64), -1)
    step = tl.cast(B, tl.int64) * N
    g += row * g_row + begin * g_step
    h += row * N + begin * step
    gates += row * 4 * N + begin * 4 * step
    dx += row * 3 * N
    dq_kept += row * N
    for t in range(length, T):
        for part in tl.static_range(3):
            store(dx + t * 3 * step + part * N, at, N, dh)
        if RESET_AFTER:
            store(dq_kept + t * step, at, N, dh)
    dx += begin * 3 * step
    dq_kept += begin * step
    for i in range(length):
        # the state before this step: that of the one before it or, at the first, h0
        h += onwards * step
        others = tl.where(i + 1 < length, N, 0)
        began = load(h, 1, at, others, KIND)
        began = plus(began, load(h0 + row * N, 1, at, N - others, KIND))
        r, u, q, c = _parts(gates, 1, at, N, N, 4, KIND)
        total = plus(dh, load(g, g_unit, at, N, KIND))
        if UPDATE_KEEPS:
            change = minus(began, c)
            stays = times(total, u)
        else:
            change = minus(c, began)
            stays = minus(total, times(total, u))
        dc = pull(minus(total, stays), c, NAME, SLOPE)
        if RESET_AFTER:
            dq = times(dc, r)
            dr = times(times(dc, q), minus(r, times(r, r)))
            passed = product(dq, W_c, at, N)
            store(dq_kept, at, N, dq)
            dq_kept += onwards * step
        else:
            dq = product(dc, W_c, at, N)
            dr = times(times(dq, began), minus(r, times(r, r)))
            passed = times(dq, r)
        du = times(times(total, change), minus(u, times(u, u)))
        passed = plus(passed, plus(product(dr, W_r, at, N), product(du, W_u, at, N)))
        dh = plus(stays, passed)
        store(dx, at, N, dr)
        store(dx + N, at, N, du)
        store(dx + 2 * N, at, N, dc)
        g += onwards * g_step
        gates += onwards * 4 * step
        dx += onwards * 3 * step
    store(dh0 + row * N, at, N, dh)
