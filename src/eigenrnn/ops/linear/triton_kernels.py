"""The linear recurrence in Triton: chunks of steps at the same time, each program some columns.

A column is one unit of one sequence. Complex numbers are pairs of neighbouring real ones.
"""

import triton
import triton.language as tl

from eigenrnn.ops.gpu import INTERPRETED

if triton.knobs.runtime.interpret != INTERPRETED:
    raise RuntimeError(
        "expected TRITON_INTERPRET to stay as it was when eigenrnn was imported: set it before"
    )

__all__ = ["enter_chunks", "scan_chunks"]


@triton.jit
def _load(pointer, at, inside, DTYPE: tl.constexpr, PAIRED: tl.constexpr):
    """Read numbers: a tuple of their real parts and, if they are complex, the imaginary ones."""
    if PAIRED:
        return (
            tl.load(pointer + 2 * at, mask=inside, other=0.0).to(DTYPE),
            tl.load(pointer + 2 * at + 1, mask=inside, other=0.0).to(DTYPE),
        )
    else:
        return (tl.load(pointer + at, mask=inside, other=0.0).to(DTYPE),)


@triton.jit
def _store(pointer, at, inside, value, PAIRED: tl.constexpr):
    kind: tl.constexpr = pointer.dtype.element_ty
    if PAIRED:
        tl.store(pointer + 2 * at, value[0].to(kind), mask=inside)
        tl.store(pointer + 2 * at + 1, value[1].to(kind), mask=inside)
    else:
        tl.store(pointer + at, value[0].to(kind), mask=inside)


@triton.jit
def _multiply(a, b, PAIRED: tl.constexpr):
    if PAIRED:
        return (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0])
    else:
        return (a[0] * b[0],)


@triton.jit
def _add(a, b, PAIRED: tl.constexpr):
    if PAIRED:
        return (a[0] + b[0], a[1] + b[1])
    else:
        return (a[0] + b[0],)


@triton.jit
def _full(value: tl.constexpr, SIZE: tl.constexpr, DTYPE: tl.constexpr, PAIRED: tl.constexpr):
    """Return a real number in every column."""
    if PAIRED:
        return (tl.full((SIZE,), value, DTYPE), tl.zeros((SIZE,), DTYPE))
    else:
        return (tl.full((SIZE,), value, DTYPE),)


@triton.jit(do_not_specialize=["T", "columns", "N", "length"])
def scan_chunks(
    x,  # (T, columns)
    decay,  # (N,) or (T, columns)
    entering,  # (chunks, columns), the state before each chunk
    h,  # (T, columns)
    ends,  # (chunks, columns), the last state of each chunk
    products,  # (chunks, columns), of the decays of each chunk
    T,
    columns,
    N,
    length,
    DTYPE: tl.constexpr,
    PAIRED: tl.constexpr,
    GATED: tl.constexpr,
    REVERSE: tl.constexpr,
    KEPT: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Run over one chunk of steps: write all states or, from the state zero, what chunks need."""
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    chunk = tl.program_id(1).to(tl.int64)
    inside = at < columns
    numbers = tl.cast(columns, tl.int64) * (2 if PAIRED else 1)  # of a step in memory
    if KEPT:
        state = _load(entering + chunk * numbers, at, inside, DTYPE, PAIRED)
    else:
        state = _full(0.0, SIZE, DTYPE, PAIRED)
    product = _full(1.0, SIZE, DTYPE, PAIRED)
    factor = product
    if not GATED:
        factor = _load(decay, at % N, inside, DTYPE, PAIRED)
    begin = chunk * length
    end = tl.minimum(begin + length, T)
    for i in range(begin, end):
        step = (T - 1 - i if REVERSE else i) * numbers
        if GATED:
            factor = _load(decay + step, at, inside, DTYPE, PAIRED)
        term = _load(x + step, at, inside, DTYPE, PAIRED)
        state = _add(_multiply(factor, state, PAIRED), term, PAIRED)
        if KEPT:
            _store(h + step, at, inside, state, PAIRED)
        else:
            product = _multiply(product, factor, PAIRED)
    if not KEPT:
        _store(ends + chunk * numbers, at, inside, state, PAIRED)
        _store(products + chunk * numbers, at, inside, product, PAIRED)


@triton.jit(do_not_specialize=["chunks", "columns"])
def enter_chunks(
    ends,  # (chunks, columns)
    products,  # (chunks, columns)
    entering,  # (chunks, columns); its first row, the initial states, is given
    chunks,
    columns,
    DTYPE: tl.constexpr,
    PAIRED: tl.constexpr,
    SIZE: tl.constexpr,
):
    """Write the state before each chunk, one chunk after another."""
    at = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    inside = at < columns
    numbers = tl.cast(columns, tl.int64) * (2 if PAIRED else 1)
    state = _load(entering, at, inside, DTYPE, PAIRED)
    for k in range(1, chunks):
        before = (k - 1) * numbers
        product = _load(products + before, at, inside, DTYPE, PAIRED)
        end = _load(ends + before, at, inside, DTYPE, PAIRED)
        state = _add(_multiply(product, state, PAIRED), end, PAIRED)
        _store(entering + k * numbers, at, inside, state, PAIRED)
