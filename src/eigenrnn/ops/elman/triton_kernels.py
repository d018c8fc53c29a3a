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


@triton.jit(do_not_specialize=["T", "B", "N", "x_step", "x_row"])
def elman_forward(
    x,  # (T, B, N), of any strides
    Wt,  # (N, N), W transposed
    h0,  # (B, N)
    bias,  # (N,)
    lengths,  # (B,)
    moduli,  # (T, B, N / 2), of modReLU of pairs
    h,  # (T, B, N)
    T,
    B,
    N,
    x_step,
    x_row,
    x_unit,
    SIZES: tl.constexpr,
    ROWS: tl.constexpr,
    DTYPE: tl.constexpr,
    NAME: tl.constexpr,
    SLOPE: tl.constexpr,
    BIASED: tl.constexpr,
    RAGGED: tl.constexpr,
    REVERSE: tl.constexpr,
):
    """Write the states of one sequence."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = unit_indices(SIZES)
    matrix = load_matrix(Wt, at, N, ROWS, DTYPE)
    b = load(bias, 1, at, N if BIASED else 0, DTYPE)
    state = load(h0 + row * N, 1, at, N, DTYPE)

    first, direction = (tl.cast(length - 1, tl.int64), -1) if REVERSE else (0, 1)
    step = tl.cast(B, tl.int64) * N
    PAIRED: tl.constexpr = NAME == "modrelu_paired"
    x += row * x_row + first * x_step
    h += row * N
    moduli += row * (N // 2)
    for t in range(length, T):
        store(h + t * step, at, N, zeros(at, DTYPE))
        if PAIRED:
            store_per_pair(moduli + t * (step // 2), at, N, zeros(at, DTYPE))
    h += first * step
    moduli += first * (step // 2)
    z = load(x, x_unit, at, N, DTYPE)
    for i in range(length):
        rest = tl.where(i + 1 < length, N, 0)
        x += direction * x_step
        z_next = load(x, x_unit, at, rest, DTYPE)
        argument = add(z, multiply_by_matrix(state, matrix, at, N, ROWS))
        if PAIRED:
            store_per_pair(moduli, at, N, pair_moduli(argument))
            moduli += direction * (step // 2)
        state = apply(argument, b, NAME, SLOPE)
        store(h, at, N, state)
        h += direction * step
        z = z_next


@triton.jit(do_not_specialize=["T", "B", "N", "g_step", "g_row"])
def elman_backward(
    g,  # (T, B, N), of any strides
    h,  # (T, B, N)
    W,  # (N, N)
    bias,  # (N,)  # noqa: ARG001, both kernels share one signature
    lengths,  # (B,)
    moduli,  # (T, B, N / 2), of modReLU of pairs
    delta,  # (T, B, N)
    T,
    B,
    N,
    g_step,
    g_row,
    g_unit,
    SIZES: tl.constexpr,
    ROWS: tl.constexpr,
    DTYPE: tl.constexpr,
    NAME: tl.constexpr,
    SLOPE: tl.constexpr,
    BIASED: tl.constexpr,  # noqa: ARG001
    RAGGED: tl.constexpr,
    REVERSE: tl.constexpr,
):
    """Write the gradients of the pre-activations of one sequence."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = unit_indices(SIZES)
    matrix = load_matrix(W, at, N, ROWS, DTYPE)
    delta_t = zeros(at, DTYPE)

    first, direction = (0, 1) if REVERSE else (tl.cast(length - 1, tl.int64), -1)
    step = tl.cast(B, tl.int64) * N
    PAIRED: tl.constexpr = NAME == "modrelu_paired"
    g += row * g_row + first * g_step
    h += row * N + first * step
    moduli += row * (N // 2) + first * (step // 2)
    delta += row * N
    for t in range(length, T):
        store(delta + t * step, at, N, delta_t)
    delta += first * step
    dh = load(g, g_unit, at, N, DTYPE)
    h_t = load(h, 1, at, N, DTYPE)
    for i in range(length):
        rest = tl.where(i + 1 < length, N, 0)
        g += direction * g_step
        h += direction * step
        dh_next = load(g, g_unit, at, rest, DTYPE)
        h_next = load(h, 1, at, rest, DTYPE)
        dh = add(dh, multiply_by_matrix(delta_t, matrix, at, N, ROWS))
        if PAIRED:
            delta_t = apply_backward_pairs(dh, h_t, load_per_pair(moduli, at, N, DTYPE))
            moduli += direction * (step // 2)
        else:
            delta_t = apply_backward(dh, h_t, NAME, SLOPE)
        store(delta, at, N, delta_t)
        delta += direction * step
        dh, h_t = dh_next, h_next
