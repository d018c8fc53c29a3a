"""The gated recurrence in Triton: one program takes one sequence through all its steps.

The three matrices are read before the loop and stay in the registers of the program. The inputs
of the next step are loaded while the current step computes. No program writes memory that another
program reads or writes, so results are the same bits in every run.

N is never compiled in. Triton would load an N that is a multiple of 16 in longer pieces, and
their layout takes registers that the matrix needs.
"""

import triton
import triton.language as tl

from eigenrnn.ops.triton_functions import (
    add,
    apply,
    apply_backward,
    load,
    load_matrix,
    load_parts,
    mixed,
    multiply,
    multiply_by_matrix,
    multiply_by_three,
    sigmoid,
    store,
    subtract,
    sum_of_products,
    unit_indices,
    unless,
    zeros,
)

__all__ = ["gru_backward", "gru_forward"]


@triton.jit
def _saved(h, h0, gates, g, at, N, is_step, has_state):
    """Read the state before a step, which is h0 at the first one, r, u, q, c and g.

    Without a step all are zero.
    """
    limit = tl.where(is_step, N, 0)
    state = tl.where(has_state, limit, 0)
    before = add(load(h, at, state), load(h0, at, limit - state))
    given = (before, load(g, at, limit))
    return given + load_parts(gates, at, N, limit, 4)


@triton.jit
def _products(state, W_r, W_u, W_c, at, N, ROWS: tl.constexpr, RESET_AFTER: tl.constexpr):
    """Multiply the state by the matrices of r, u and, with the reset after, q."""
    if RESET_AFTER:
        return multiply_by_three(state, W_r, W_u, W_c, at, N)
    else:
        r = multiply_by_matrix(state, W_r, at, N, ROWS)
        u = multiply_by_matrix(state, W_u, at, N, ROWS)
        return r, u, state


@triton.jit
def _through_matrices(
    dr, W_r, du, W_u, dq, W_c, r, at, N, ROWS: tl.constexpr, RESET_AFTER: tl.constexpr
):
    """Return the part of the gradient of the state before that goes through the gates."""
    if RESET_AFTER:
        return sum_of_products(dr, W_r, du, W_u, dq, W_c, at, N)
    else:
        of_r = multiply_by_matrix(dr, W_r, at, N, ROWS)
        of_u = multiply_by_matrix(du, W_u, at, N, ROWS)
        return add(multiply(dq, r), add(of_r, of_u))


@triton.jit(do_not_specialize=["T", "B", "N", "steps_stride", "row_stride"])
def gru_forward(
    x,  # (T, B, 3 N), with contiguous rows
    matrices,  # (3, N, N), each W transposed
    h0,  # (B, N)
    bias,  # (N,)
    recurrent_bias,  # (N,)
    lengths,  # (B,)
    resets,  # (T, B), bytes
    share,  # of the state that a step keeps: (N,), or (T, B, N) with KEEPS_BY_STEP
    h,  # (T, B, N)
    gates,  # (T, B, 4 N), written only with SAVE
    T,
    B,
    N,
    steps_stride,
    row_stride,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    NAME: tl.constexpr,
    SLOPE: tl.constexpr,
    BIASED: tl.constexpr,
    RAGGED: tl.constexpr,
    REVERSE: tl.constexpr,
    RESETS: tl.constexpr,
    KEEPS: tl.constexpr,
    KEEPS_BY_STEP: tl.constexpr,
    MASKED: tl.constexpr,
    SHIFTED: tl.constexpr,
    RESET_AFTER: tl.constexpr,
    UPDATE_KEEPS: tl.constexpr,
    SAVE: tl.constexpr,
):
    """Write the states of one sequence and, with SAVE, its r, u, q and c."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = unit_indices(COLUMNS)
    W_r = load_matrix(matrices, at, N, ROWS)
    W_u = load_matrix(matrices + N * N, at, N, ROWS)
    W_c = load_matrix(matrices + 2 * N * N, at, N, ROWS)
    b = load(bias, at, N if BIASED else 0)
    shift = load(recurrent_bias, at, N if SHIFTED else 0)
    state = load(h0 + row * N, at, N)
    kept = load(share, at, N if KEEPS and not KEEPS_BY_STEP else 0)

    first, direction = (tl.cast(length - 1, tl.int64), -1) if REVERSE else (0, 1)
    step = tl.cast(B, tl.int64) * N
    x += row * row_stride + first * steps_stride
    resets += row + first * B
    share += row * N + first * step
    h += row * N
    gates += row * 4 * N
    for t in range(length, T):
        store(h + t * step, at, N, zeros(at))
        if SAVE:
            for part in tl.static_range(4):
                store(gates + t * 4 * step + part * N, at, N, zeros(at))
    h += first * step
    gates += first * 4 * step
    z = load_parts(x, at, N, N, 3)
    for i in range(length):
        x += direction * steps_stride
        z_next = load_parts(x, at, N, tl.where(i + 1 < length, N, 0), 3)
        if RESETS:
            state = unless(tl.load(resets) != 0, state, at)
            resets += direction * B
        before = state
        r, u, q = _products(state, W_r, W_u, W_c, at, N, ROWS, RESET_AFTER)
        r = sigmoid(add(z[0], r))
        u = sigmoid(add(z[1], u))
        if RESET_AFTER:
            q = add(q, shift)
            c = apply(add(z[2], multiply(r, q)), b, NAME, SLOPE)
        else:
            q = multiply(r, state)
            c = apply(add(z[2], multiply_by_matrix(q, W_c, at, N, ROWS)), b, NAME, SLOPE)
        if UPDATE_KEEPS:
            state = add(c, multiply(u, subtract(state, c)))
        else:
            state = add(state, multiply(u, subtract(c, state)))
        if KEEPS_BY_STEP:
            kept = load(share, at, N)
            share += direction * step
        if KEEPS:
            state = mixed(before, state, kept, at, MASKED)
        store(h, at, N, state)
        if SAVE:
            store(gates, at, N, r)
            store(gates + N, at, N, u)
            store(gates + 2 * N, at, N, q)
            store(gates + 3 * N, at, N, c)
        h += direction * step
        gates += direction * 4 * step
        z = z_next


@triton.jit(do_not_specialize=["T", "B", "N", "steps_stride", "row_stride"])
def gru_backward(
    g,  # (T, B, N), with contiguous rows
    matrices,  # (3, N, N)
    h0,  # (B, N)
    bias,  # (N,)  # noqa: ARG001, both kernels share one signature
    lengths,  # (B,)
    resets,  # (T, B), bytes
    share,  # of the state that a step keeps: (N,), or (T, B, N) with KEEPS_BY_STEP
    h,  # (T, B, N)
    gates,  # (T, B, 4 N)
    dgates,  # (T, B, 3 N)
    dq,  # (T, B, N), written only with RESET_AFTER
    dh0,  # (B, N)
    T,
    B,
    N,
    steps_stride,
    row_stride,
    COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    NAME: tl.constexpr,
    SLOPE: tl.constexpr,
    BIASED: tl.constexpr,  # noqa: ARG001
    RAGGED: tl.constexpr,
    REVERSE: tl.constexpr,
    RESETS: tl.constexpr,
    KEEPS: tl.constexpr,
    KEEPS_BY_STEP: tl.constexpr,
    MASKED: tl.constexpr,
    RESET_AFTER: tl.constexpr,
    UPDATE_KEEPS: tl.constexpr,
):
    """Write the gradients of x, q and h0 of one sequence."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = unit_indices(COLUMNS)
    W_r = load_matrix(matrices, at, N, ROWS)
    W_u = load_matrix(matrices + N * N, at, N, ROWS)
    W_c = load_matrix(matrices + 2 * N * N, at, N, ROWS)
    dh = zeros(at)
    kept = load(share, at, N if KEEPS and not KEEPS_BY_STEP else 0)

    first, direction = (0, 1) if REVERSE else (tl.cast(length - 1, tl.int64), -1)
    step = tl.cast(B, tl.int64) * N
    g += row * row_stride + first * steps_stride
    resets += row + first * B
    share += row * N + first * step
    h += row * N + first * step
    gates += row * 4 * N + first * 4 * step
    dgates += row * 3 * N
    dq += row * N
    for t in range(length, T):
        for part in tl.static_range(3):
            store(dgates + t * 3 * step + part * N, at, N, dh)
        if RESET_AFTER:
            store(dq + t * step, at, N, dh)
    dgates += first * 3 * step
    dq += first * step
    h0 += row * N
    h += direction * step
    # what a step reads is loaded one step earlier
    following = _saved(h, h0, gates, g, at, N, length > 0, length > 1)
    h += direction * step
    g += direction * steps_stride
    gates += direction * 4 * step
    for i in range(length):
        h_before, g_t, r, u, q, c = following
        following = _saved(h, h0, gates, g, at, N, i + 1 < length, i + 2 < length)
        total = add(dh, g_t)
        if RESETS:
            begins = tl.load(resets) != 0
            resets += direction * B
            h_before = unless(begins, h_before, at)
        if KEEPS_BY_STEP:
            kept = load(share, at, N)
            share += direction * step
        if KEEPS:
            passed = mixed(total, zeros(at), kept, at, MASKED)
            total = mixed(zeros(at), total, kept, at, MASKED)
        if UPDATE_KEEPS:
            change = subtract(h_before, c)
            dh_kept = multiply(total, u)
        else:
            change = subtract(c, h_before)
            dh_kept = subtract(total, multiply(total, u))
        dc = apply_backward(subtract(total, dh_kept), c, NAME, SLOPE)
        if RESET_AFTER:
            dq_t = multiply(dc, r)
            dr = multiply(multiply(dc, q), subtract(r, multiply(r, r)))
            store(dq, at, N, dq_t)
            dq += direction * step
        else:
            dq_t = multiply_by_matrix(dc, W_c, at, N, ROWS)
            dr = multiply(multiply(dq_t, h_before), subtract(r, multiply(r, r)))
        du = multiply(multiply(total, change), subtract(u, multiply(u, u)))
        through = _through_matrices(dr, W_r, du, W_u, dq_t, W_c, r, at, N, ROWS, RESET_AFTER)
        dh = add(dh_kept, through)
        if KEEPS:
            dh = add(dh, passed)
        if RESETS:
            dh = unless(begins, dh, at)
        store(dgates, at, N, dr)
        store(dgates + N, at, N, du)
        store(dgates + 2 * N, at, N, dc)
        h += direction * step
        g += direction * steps_stride
        gates += direction * 4 * step
        dgates += direction * 3 * step
    store(dh0 + row * N, at, N, dh)
