"""The Elman recurrence in Triton: one program takes one sequence through all its steps.

The matrix is read before the loop and stays in the registers of the program. The inputs of the
next step are loaded while the current step computes. No program writes memory that another
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
    apply_backward_pairs,
    load,
    load_matrix,
    load_per_pair,
    mixed,
    multiply_by_matrix,
    pair_moduli,
    store,
    store_per_pair,
    unit_indices,
    unless,
    zeros,
)

__all__ = ["elman_backward", "elman_forward"]


@triton.jit(do_not_specialize=["T", "B", "N", "steps_stride", "row_stride"])
def elman_forward(
    x,  # (T, B, N), with contiguous rows
    matrix,  # (N, N), W transposed
    h0,  # (B, N)
    bias,  # (N,)
    lengths,  # (B,)
    resets,  # (T, B), bytes
    share,  # of the state that a step keeps: (N,), or (T, B, N) with KEEPS_BY_STEP
    h,  # (T, B, N)
    moduli,  # (T, B, N / 2), of modReLU of pairs
    values,  # (T, B, N), those of f, written only with SAVE
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
    SAVE: tl.constexpr,
):
    """Write the states of one sequence and, with SAVE, the values of f."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = unit_indices(COLUMNS)
    W = load_matrix(matrix, at, N, ROWS)
    b = load(bias, at, N if BIASED else 0)
    state = load(h0 + row * N, at, N)
    kept = load(share, at, N if KEEPS and not KEEPS_BY_STEP else 0)

    first, direction = (tl.cast(length - 1, tl.int64), -1) if REVERSE else (0, 1)
    step = tl.cast(B, tl.int64) * N
    PAIRED: tl.constexpr = NAME == "modrelu_paired"
    x += row * row_stride + first * steps_stride
    resets += row + first * B
    share += row * N + first * step
    h += row * N
    moduli += row * (N // 2)
    values += row * N
    for t in range(length, T):
        store(h + t * step, at, N, zeros(at))
        if SAVE:
            store(values + t * step, at, N, zeros(at))
        if PAIRED:
            store_per_pair(moduli + t * (step // 2), at, N, zeros(at))
    h += first * step
    moduli += first * (step // 2)
    values += first * step
    z = load(x, at, N)
    for i in range(length):
        rest = tl.where(i + 1 < length, N, 0)
        x += direction * steps_stride
        z_next = load(x, at, rest)
        if RESETS:
            state = unless(tl.load(resets) != 0, state, at)
            resets += direction * B
        argument = add(z, multiply_by_matrix(state, W, at, N, ROWS))
        if PAIRED:
            store_per_pair(moduli, at, N, pair_moduli(argument))
            moduli += direction * (step // 2)
        value = apply(argument, b, NAME, SLOPE)
        if KEEPS_BY_STEP:
            kept = load(share, at, N)
            share += direction * step
        if KEEPS:
            state = mixed(state, value, kept, at, MASKED)
        else:
            state = value
        if SAVE:
            store(values, at, N, value)
            values += direction * step
        store(h, at, N, state)
        h += direction * step
        z = z_next


@triton.jit(do_not_specialize=["T", "B", "N", "steps_stride", "row_stride"])
def elman_backward(
    g,  # (T, B, N), with contiguous rows
    h,  # (T, B, N)
    matrix,  # (N, N), W
    bias,  # (N,)  # noqa: ARG001, `launch` passes it to both kernels
    lengths,  # (B,)
    resets,  # (T, B), bytes
    share,  # of the state that a step keeps: (N,), or (T, B, N) with KEEPS_BY_STEP
    moduli,  # (T, B, N / 2), of modReLU of pairs
    values,  # (T, B, N), those of f, read only with KEEPS
    delta,  # (T, B, N)
    totals,  # (T, B, N), the gradients of the states, written only with TOTALS
    dh0,  # (B, N), written only with RESETS or KEEPS
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
    TOTALS: tl.constexpr,
):
    """Write the gradients of the pre-activations of one sequence and, with TOTALS, its states."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = unit_indices(COLUMNS)
    W = load_matrix(matrix, at, N, ROWS)
    delta_t = zeros(at)
    passed = zeros(at)  # by a step to the state before it, past W
    begins = length < 0  # whether the later step began anew
    kept = load(share, at, N if KEEPS and not KEEPS_BY_STEP else 0)

    first, direction = (0, 1) if REVERSE else (tl.cast(length - 1, tl.int64), -1)
    step = tl.cast(B, tl.int64) * N
    PAIRED: tl.constexpr = NAME == "modrelu_paired"
    g += row * row_stride + first * steps_stride
    h += row * N + first * step
    resets += row + first * B
    share += row * N + first * step
    moduli += row * (N // 2) + first * (step // 2)
    values += row * N + first * step
    delta += row * N
    totals += row * N
    for t in range(length, T):
        store(delta + t * step, at, N, delta_t)
        if TOTALS:
            store(totals + t * step, at, N, delta_t)
    delta += first * step
    totals += first * step
    dh = load(g, at, N)
    h_t = load(values if KEEPS else h, at, N)
    for i in range(length):
        rest = tl.where(i + 1 < length, N, 0)
        g += direction * steps_stride
        h += direction * step
        values += direction * step
        dh_next = load(g, at, rest)
        h_next = load(values if KEEPS else h, at, rest)
        through = multiply_by_matrix(delta_t, W, at, N, ROWS)
        if KEEPS:
            through = add(through, passed)
        if RESETS:
            through = unless(begins, through, at)
            begins = tl.load(resets) != 0
            resets += direction * B
        dh = add(dh, through)
        if TOTALS:
            store(totals, at, N, dh)
            totals += direction * step
        if KEEPS_BY_STEP:
            kept = load(share, at, N)
            share += direction * step
        if KEEPS:
            passed = mixed(dh, zeros(at), kept, at, MASKED)
            dh = mixed(zeros(at), dh, kept, at, MASKED)
        if PAIRED:
            delta_t = apply_backward_pairs(dh, h_t, load_per_pair(moduli, at, N))
            moduli += direction * (step // 2)
        else:
            delta_t = apply_backward(dh, h_t, NAME, SLOPE)
        store(delta, at, N, delta_t)
        delta += direction * step
        dh, h_t = dh_next, h_next
    if KEEPS or RESETS:
        through = multiply_by_matrix(delta_t, W, at, N, ROWS)
        if KEEPS:
            through = add(through, passed)
        if RESETS:
            through = unless(begins, through, at)
        store(dh0 + row * N, at, N, through)
