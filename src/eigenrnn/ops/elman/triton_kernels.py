"""The Elman recurrence in Triton: one program takes one sequence through all its steps.

The matrix is read before the loop and stays in the registers of the program. What the next step
reads of memory is asked for while this one computes. No program writes what another reads or
writes, so that every run gives the same bits.

Nothing is compiled for an N of its own: one that is a multiple of 16 would be read in longer
pieces, whose layout takes registers that the matrix needs.
"""

import triton
import triton.language as tl

from eigenrnn.ops.triton_parts import (
    apply,
    load,
    load_matrix,
    load_of_pairs,
    of_each_pair,
    places,
    plus,
    product,
    pull,
    pull_of_pairs,
    store,
    store_of_pairs,
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
    KIND: tl.constexpr,
    NAME: tl.constexpr,
    SLOPE: tl.constexpr,
    BIASED: tl.constexpr,
    RAGGED: tl.constexpr,
    REVERSE: tl.constexpr,
):
    """Write the states of one sequence."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = places(SIZES)
    matrix = load_matrix(Wt, at, N, KIND)
    b = load(bias, 1, at, N if BIASED else 0, KIND)
    state = load(h0 + row * N, 1, at, N, KIND)

    begin, onwards = (tl.cast(length - 1, tl.int64), -1) if REVERSE else (0, 1)
    step = tl.cast(B, tl.int64) * N
    PAIRED: tl.constexpr = NAME == "modrelu_paired"
    x += row * x_row + begin * x_step
    h += row * N
    moduli += row * (N // 2)
    for t in range(length, T):
        store(h + t * step, at, N, zeros(at, KIND))
        if PAIRED:
            store_of_pairs(moduli + t * (step // 2), at, N, zeros(at, KIND))
    h += begin * step
    moduli += begin * (step // 2)
    z = load(x, x_unit, at, N, KIND)
    for i in range(length):
        rest = tl.where(i + 1 < length, N, 0)
        x += onwards * x_step
        following = load(x, x_unit, at, rest, KIND)
        argument = plus(z, product(state, matrix, at, N))
        if PAIRED:
            store_of_pairs(moduli, at, N, of_each_pair(argument))
            moduli += onwards * (step // 2)
        state = apply(argument, b, NAME, SLOPE)
        store(h, at, N, state)
        h += onwards * step
        z = following


@triton.jit(do_not_specialize=["T", "B", "N", "g_step", "g_row"])
def elman_backward(
    g,  # (T, B, N), of any strides
    h,  # (T, B, N)
    W,  # (N, N)
    bias,  # (N,)  # noqa: ARG001, what both kernels are given
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
    KIND: tl.constexpr,
    NAME: tl.constexpr,
    SLOPE: tl.constexpr,
    BIASED: tl.constexpr,  # noqa: ARG001
    RAGGED: tl.constexpr,
    REVERSE: tl.constexpr,
):
    """Write the gradients of the arguments of f of one sequence."""
    row = tl.program_id(0).to(tl.int64)
    length = tl.load(lengths + row) if RAGGED else T
    at = places(SIZES)
    matrix = load_matrix(W, at, N, KIND)
    after = zeros(at, KIND)

    begin, onwards = (0, 1) if REVERSE else (tl.cast(length - 1, tl.int64), -1)
    step = tl.cast(B, tl.int64) * N
    PAIRED: tl.constexpr = NAME == "modrelu_paired"
    g += row * g_row + begin * g_step
    h += row * N + begin * step
    moduli += row * (N // 2) + begin * (step // 2)
    delta += row * N
    for t in range(length, T):
        store(delta + t * step, at, N, after)
    delta += begin * step
    above = load(g, g_unit, at, N, KIND)
    states = load(h, 1, at, N, KIND)
    for i in range(length):
        rest = tl.where(i + 1 < length, N, 0)
        g += onwards * g_step
        h += onwards * step
        above_next = load(g, g_unit, at, rest, KIND)
        states_next = load(h, 1, at, rest, KIND)
        above = plus(above, product(after, matrix, at, N))
        if PAIRED:
            after = pull_of_pairs(above, states, load_of_pairs(moduli, at, N, KIND))
            moduli += onwards * (step // 2)
        else:
            after = pull(above, states, NAME, SLOPE)
        store(delta, at, N, after)
        delta += onwards * step
        above, states = above_next, states_next
