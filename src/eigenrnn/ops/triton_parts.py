"""What the kernels of both recurrences are made of, in Triton's language.

A vector of N units is a tuple of pieces whose sizes are powers of two, as Triton wants them; a
matrix is the tuple of its blocks, row by row. Padding is zero in all of them.
"""

import triton
import triton.language as tl

from eigenrnn.ops.gpu import INTERPRETED

if triton.knobs.runtime.interpret != INTERPRETED:
    raise RuntimeError(
        "expected TRITON_INTERPRET to stay as it was when eigenrnn was imported: set it before"
    )


@triton.jit
def places(SIZES: tl.constexpr):
    """Return the units of each piece."""
    found = (tl.arange(0, SIZES[0]),)
    for i in tl.static_range(1, len(SIZES)):
        found = found + (SIZES[i - 1] + tl.arange(0, SIZES[i]),)
    return found


@triton.jit
def load(pointer, stride, at, limit, KIND: tl.constexpr):
    """Read a vector of as many units as the limit, so of none if that is zero."""
    found = ()
    for i in tl.static_range(len(at)):
        piece = tl.load(pointer + at[i] * stride, mask=at[i] < limit, other=0.0)
        found = found + (piece.to(KIND),)
    return found


@triton.jit
def store(pointer, at, N, vector):
    """Write a vector to memory of any type of number."""
    for i in tl.static_range(len(at)):
        tl.store(pointer + at[i], vector[i].to(pointer.dtype.element_ty), mask=at[i] < N)


@triton.jit
def load_of_pairs(pointer, at, N, KIND: tl.constexpr):
    """Read one number for each pair of units, twice each."""
    found = ()
    for i in tl.static_range(len(at)):
        piece = tl.load(pointer + at[i] // 2, mask=at[i] < N, other=0.0)
        found = found + (piece.to(KIND),)
    return found


@triton.jit
def store_of_pairs(pointer, at, N, vector):
    """Write the first number of each pair of units."""
    for i in tl.static_range(len(at)):
        first = (at[i] < N) & (at[i] % 2 == 0)
        tl.store(pointer + at[i] // 2, vector[i].to(pointer.dtype.element_ty), mask=first)


@triton.jit
def zeros(at, KIND: tl.constexpr):
    """Make a vector of zeros."""
    found = ()
    for i in tl.static_range(len(at)):
        found = found + (at[i].to(KIND) * 0.0,)
    return found


@triton.jit
def load_matrix(pointer, at, N, KIND: tl.constexpr):
    """Read an N x N matrix that lies row by row."""
    found = ()
    for i in tl.static_range(len(at)):
        for j in tl.static_range(len(at)):
            rows, columns = at[i][:, None], at[j][None, :]
            inside = (rows < N) & (columns < N)
            block = tl.load(pointer + rows * N + columns, mask=inside, other=0.0)
            found = found + (block.to(KIND),)
    return found


@triton.jit
def product(vector, matrix, at, N):
    """Multiply a row by a matrix, in multiplications and additions of full precision.

    The sum runs down the columns: consecutive lanes of a warp own consecutive columns, so that a
    thread adds up most of a sum by itself, and warps meet only for the rest.
    """
    found = ()
    pieces: tl.constexpr = len(at)
    for j in tl.static_range(pieces):
        total = tl.sum(vector[0][:, None] * matrix[j], 0)
        for i in tl.static_range(1, pieces):
            total += tl.sum(vector[i][:, None] * matrix[i * pieces + j], 0)
        # what is not finite would spread from the padding to all units: 0 * inf is not zero
        found = found + (tl.where(at[j] < N, total, 0.0),)
    return found


@triton.jit
def plus(one, other):
    """Add two vectors."""
    found = ()
    for i in tl.static_range(len(one)):
        found = found + (one[i] + other[i],)
    return found


@triton.jit
def minus(one, other):
    """Subtract a vector from another."""
    found = ()
    for i in tl.static_range(len(one)):
        found = found + (one[i] - other[i],)
    return found


@triton.jit
def times(one, other):
    """Multiply two vectors unit by unit."""
    found = ()
    for i in tl.static_range(len(one)):
        found = found + (one[i] * other[i],)
    return found


@triton.jit
def less_one(x):
    """Return exp(x) - 1 for x <= 0, without cancellation near zero."""
    # the series 1 + x/2 (1 + x/3 (...)): what it leaves out at -1/2 is below the rounding
    TERMS: tl.constexpr = 16 if x.dtype == tl.float64 else 9
    series = x * 0.0 + 1.0
    for i in tl.static_range(TERMS - 2):
        series = 1.0 + x * series * (1.0 / (TERMS - 1 - i))
    return tl.where(x > -0.5, x * series, tl.exp(x) - 1.0)


@triton.jit
def tanh(x):
    """Return tanh x, right to a few roundings of its own size."""
    e = less_one(-2.0 * tl.abs(x))
    size = -e / (2.0 + e)
    return tl.where(x < 0, -size, size)


@triton.jit
def sigmoid(vector):
    """Return 1 / (1 + exp(-x)) of a vector, from exponentials that cannot overflow."""
    found = ()
    for i in tl.static_range(len(vector)):
        e = tl.exp(-tl.abs(vector[i]))
        found = found + (tl.where(vector[i] < 0, e, 1.0) / (1.0 + e),)
    return found


@triton.jit
def of_pairs(x):
    """Give both numbers of each pair their sum."""
    total = tl.sum(tl.reshape(x, (x.shape[0] // 2, 2)), 1)
    return tl.reshape(tl.join(total, total), x.shape)


@triton.jit
def modulus(z):
    """Return the moduli of pairs, twice each, without squares that overflow or vanish."""
    size = tl.abs(z)
    # the larger of both: their sum is at most twice it, which is scale enough
    scale = of_pairs(size)
    some = (scale != 0) & (scale * 0 == 0)
    ratio = size / tl.where(some, scale, 1.0)
    return tl.where(some, scale * tl.sqrt(of_pairs(ratio * ratio)), scale)


@triton.jit
def of_each_pair(vector):
    """Return the moduli of a vector of pairs, twice each."""
    found = ()
    for i in tl.static_range(len(vector)):
        found = found + (modulus(vector[i]),)
    return found


@triton.jit
def lifted(size, bias):
    """Return max(size + bias, 0), and NaN of NaN."""
    moved = size + bias
    return tl.where(moved < 0, 0.0, moved)


@triton.jit
def apply(vector, bias, NAME: tl.constexpr, SLOPE: tl.constexpr):
    """Apply a nonlinearity to the arguments of a vector of units."""
    found = ()
    for i in tl.static_range(len(vector)):
        found = found + (_apply(vector[i], bias[i], NAME, SLOPE),)
    return found


@triton.jit
def pull(vector, states, NAME: tl.constexpr, SLOPE: tl.constexpr):
    """Bring the gradient of states back to the arguments, whose derivative the states tell."""
    found = ()
    for i in tl.static_range(len(vector)):
        found = found + (_pull(vector[i], states[i], NAME, SLOPE),)
    return found


@triton.jit
def pull_of_pairs(vector, states, moduli):
    """Do so with modReLU of pairs, from the states and the moduli of the arguments."""
    found = ()
    for i in tl.static_range(len(vector)):
        found = found + (_pull_of_pairs(vector[i], states[i], moduli[i]),)
    return found


@triton.jit
def _apply(z, b, NAME: tl.constexpr, SLOPE: tl.constexpr):
    if NAME == "tanh":
        return tanh(z)
    elif NAME == "elu":
        return tl.where(z < 0, less_one(tl.where(z < 0, z, 0.0)), z)
    elif NAME == "relu":
        return tl.where(z < 0, 0.0, z)
    elif NAME == "leaky_relu":
        return tl.where(z < 0, SLOPE * z, z)
    elif NAME == "modrelu":
        size = lifted(tl.abs(z), b)
        return tl.where(z < 0, -size, tl.where(z == 0, 0.0, size))
    elif NAME == "modrelu_paired":
        size = modulus(z)
        some = size != 0
        return tl.where(some, (z / tl.where(some, size, 1.0)) * lifted(size, b), z)
    else:
        tl.static_assert(NAME == "identity")
        return z


@triton.jit
def _pull(g, h, NAME: tl.constexpr, SLOPE: tl.constexpr):
    if NAME == "tanh":
        return g * (1.0 - h * h)
    elif NAME == "elu":
        return tl.where(h > 0, g, g * (h + 1.0))
    elif NAME == "relu":
        return tl.where(h > 0, g, 0.0)
    elif NAME == "leaky_relu":
        return tl.where(h > 0, g, SLOPE * g)
    elif NAME == "modrelu":
        return tl.where(h == 0, 0.0, g)
    else:
        tl.static_assert(NAME == "identity")
        return g


@triton.jit
def _pull_of_pairs(g, h, moduli):
    size = modulus(h)
    active = size != 0
    phase = h / tl.where(active, size, 1.0)
    # across the phase the gradient shrinks by |h| / |z|
    shrink = size / tl.where(active, moduli, 1.0)
    radial = of_pairs(g * phase) * phase
    return tl.where(active, shrink * (g - radial) + radial, 0.0)
