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
    multiply_by_matrix,
    pair_moduli,
    store,
    store_per_pair,
    unit_indices,
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
    h,  # (T, B, N)
    moduli,  # (T, B, N / 2), of modReLU of pairs
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
):
    """Write the states of one sequence."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = unit_indices(COLUMNS)
    W = load_matrix(matrix, at, N, ROWS)
    b = load(bias, at, N if BIASED else 0)
    state = load(h0 + row * N, at, N)

    first, direction = (tl.cast(length - 1, tl.int64), -1) if REVERSE else (0, 1)
    step = tl.cast(B, tl.int64) * N
    PAIRED: tl.constexpr = NAME == "modrelu_paired"
    x += row * row_stride + first * steps_stride
    h += row * N
    moduli += row * (N // 2)
    for t in range(length, T):
        store(h + t * step, at, N, zeros(at))
        if PAIRED:
            store_per_pair(moduli + t * (step // 2), at, N, zeros(at))
    h += first * step
    moduli += first * (step // 2)
    z = load(x, at, N)
    for i in range(length):
        rest = tl.where(i + 1 < length, N, 0)
        x += direction * steps_stride
        z_next = load(x, at, rest)
        argument = add(z, multiply_by_matrix(state, W, at, N, ROWS))
        if PAIRED:
            store_per_pair(moduli, at, N, pair_moduli(argument))
            moduli += direction * (step // 2)
        state = apply(argument, b, NAME, SLOPE)
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
    moduli,  # (T, B, N / 2), of modReLU of pairs
    delta,  # (T, B, N)
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
):
    """Write the gradients of the pre-activations of one sequence."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = unit_indices(COLUMNS)
    W = load_matrix(matrix, at, N, ROWS)
    delta_t = zeros(at)

    first, direction = (0, 1) if REVERSE else (tl.cast(length - 1, tl.int64), -1)
    step = tl.cast(B, tl.int64) * N
    PAIRED: tl.constexpr = NAME == "modrelu_paired"
    g += row * row_stride + first * steps_stride
    h += row * N + first * step
    moduli += row * (N // 2) + first * (step // 2)
    delta += row * N
    for t in range(length, T):
        store(delta + t * step, at, N, delta_t)
    delta += first * step
    dh = load(g, at, N)
    h_t = load(h, at, N)
    for i in range(length):
        rest = tl.where(i + 1 < length, N, 0)
        g += direction * steps_stride
        h += direction * step
        dh_next = load(g, at, rest)
        h_next = load(h, at, rest)
        dh = add(dh, multiply_by_matrix(delta_t, W, at, N, ROWS))
        if PAIRED:
            delta_t = apply_backward_pairs(dh, h_t, load_per_pair(moduli, at, N))
            moduli += direction * (step // 2)
        else:
            delta_t = apply_backward(dh, h_t, NAME, SLOPE)
        store(delta, at, N, delta_t)
        delta += direction * step
        dh, h_t = dh_next, h_next
