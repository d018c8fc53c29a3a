"""Triton functions that the kernels of both recurrences share.

A vector of N units is a tuple of pieces in float32, whose sizes are powers of two. A matrix is the
tuple of its blocks, row by row. The padding of both is zero. `triton_backend.layout` chooses the
pieces.
"""

import triton
import triton.language as tl


@triton.jit
def unit_indices(PIECES: tl.constexpr):
    """Return the indices of the units in each piece."""
    result = (tl.arange(0, PIECES[0]),)
    first: tl.constexpr = PIECES[0]
    if len(PIECES) > 1:
        result = result + (first + tl.arange(0, PIECES[1]),)
    if len(PIECES) > 2:
        result = result + (first + PIECES[1] + tl.arange(0, PIECES[2]),)
    return result


@triton.jit
def halves(piece):
    """Return the first and the second half of a piece."""
    return tl.split(tl.trans(tl.reshape(piece, (2, piece.shape[0] // 2))))


@triton.jit
def row_pieces(vector, ROWS: tl.constexpr):
    """Return the pieces of a vector as those of the rows of a matrix."""
    if len(ROWS) <= len(vector):
        return vector
    else:
        result = ()
        rest = vector[0]
        for i in tl.static_range(len(ROWS)):
            for _ in tl.static_range(8):
                if rest.shape[0] > 2 * ROWS[i]:
                    rest, _unused = halves(rest)
            one, rest = halves(rest)
            result = result + (one,)
        return result


@triton.jit
def load(pointer, at, limit):
    """Read the first `limit` units of a vector; the others are zero."""
    result = ()
    for i in tl.static_range(len(at)):
        piece = tl.load(pointer + at[i], mask=at[i] < limit, other=0.0)
        result = result + (piece.to(tl.float32),)
    return result


@triton.jit
def load_parts(pointer, at, N, limit, PARTS: tl.constexpr):
    """Read the first `limit` units of several vectors of N units, stored side by side."""
    result = ()
    for part in tl.static_range(PARTS):
        result = result + (load(pointer + part * N, at, limit),)
    return result


@triton.jit
def store(pointer, at, N, vector):
    """Write a vector."""
    for i in tl.static_range(len(at)):
        tl.store(pointer + at[i], vector[i], mask=at[i] < N)


@triton.jit
def load_per_pair(pointer, at, N):
    """Read one number for each pair of units and repeat it for both."""
    result = ()
    for i in tl.static_range(len(at)):
        result = result + (tl.load(pointer + at[i] // 2, mask=at[i] < N, other=0.0),)
    return result


@triton.jit
def store_per_pair(pointer, at, N, vector):
    """Write the first number of each pair of units."""
    for i in tl.static_range(len(at)):
        first = (at[i] < N) & (at[i] % 2 == 0)
        tl.store(pointer + at[i] // 2, vector[i], mask=first)


@triton.jit
def zeros(at):
    """Return a vector of zeros."""
    result = ()
    for i in tl.static_range(len(at)):
        result = result + (at[i].to(tl.float32) * 0.0,)
    return result


@triton.jit
def unless(condition, vector, at):
    """Return a vector, or zeros where a condition of the whole vector is true."""
    result = ()
    for i in tl.static_range(len(at)):
        result = result + (tl.where(condition, 0.0, vector[i]),)
    return result


@triton.jit
def mixed(before, value, share, at, MASKED: tl.constexpr):
    """Return a share of the state before and the rest of a value.

    A mask chooses: its products with numbers that are not finite would be NaN.
    """
    result = ()
    for i in tl.static_range(len(at)):
        if MASKED:
            result = result + (tl.where(share[i] != 0.0, before[i], value[i]),)
        else:
            result = result + (value[i] + share[i] * (before[i] - value[i]),)
    return result


@triton.jit
def load_matrix(pointer, at, N, ROWS: tl.constexpr):
    """Read an N x N matrix that is stored row by row."""
    result = ()
    row_indices = unit_indices(ROWS)
    for i in tl.static_range(len(ROWS)):
        for j in tl.static_range(len(at)):
            rows, columns = row_indices[i][:, None], at[j][None, :]
            inside = (rows < N) & (columns < N)
            block = tl.load(pointer + rows * N + columns, mask=inside, other=0.0)
            result = result + (block,)
    return result


@triton.jit
def multiply_by_matrix(vector, matrix, at, N, ROWS: tl.constexpr):
    """Multiply a row vector by a matrix in full precision.

    The sum runs down the columns. Consecutive lanes of a warp own consecutive columns, so a thread
    adds most of a sum alone. Warps exchange only the partial sums.
    """
    result = ()
    columns: tl.constexpr = len(at)
    parts = row_pieces(vector, ROWS)
    for j in tl.static_range(columns):
        total = tl.sum(parts[0][:, None] * matrix[j], 0)
        for i in tl.static_range(1, len(ROWS)):
            total += tl.sum(parts[i][:, None] * matrix[i * columns + j], 0)
        # 0 * inf is NaN: without the mask it would spread from the padding to all units
        result = result + (tl.where(at[j] < N, total, 0.0),)
    return result


@triton.jit
def _add_three(a, b, c, d, e, f):
    return a + d, b + e, c + f


@triton.jit
def multiply_by_three(vector, one, two, three, at, N):
    """Multiply a row vector of one piece by three matrices, in one reduction."""
    column = vector[0][:, None]
    sums = tl.reduce((column * one[0], column * two[0], column * three[0]), 0, _add_three)
    inside = at[0] < N
    return (
        (tl.where(inside, sums[0], 0.0),),
        (tl.where(inside, sums[1], 0.0),),
        (tl.where(inside, sums[2], 0.0),),
    )


@triton.jit
def sum_of_products(a, one, b, two, c, three, at, N):
    """Add three products of a row vector of one piece and a matrix, in one reduction."""
    products = a[0][:, None] * one[0], b[0][:, None] * two[0], c[0][:, None] * three[0]
    first, second, third = tl.reduce(products, 0, _add_three)
    return (tl.where(at[0] < N, first + second + third, 0.0),)


@triton.jit
def add(one, other):
    """Add two vectors."""
    result = ()
    for i in tl.static_range(len(one)):
        result = result + (one[i] + other[i],)
    return result


@triton.jit
def subtract(one, other):
    """Subtract the second vector from the first."""
    result = ()
    for i in tl.static_range(len(one)):
        result = result + (one[i] - other[i],)
    return result


@triton.jit
def multiply(one, other):
    """Multiply two vectors unit by unit."""
    result = ()
    for i in tl.static_range(len(one)):
        result = result + (one[i] * other[i],)
    return result


@triton.jit
def expm1_nonpositive(x):
    """Return exp(x) - 1 for x <= 0, without cancellation near zero."""
    # the series 1 + x/2 (1 + x/3 (...)); its truncation error at -1/2 is below the rounding
    TERMS: tl.constexpr = 9
    series = x * 0.0 + 1.0
    for i in tl.static_range(TERMS - 2):
        series = 1.0 + x * series * (1.0 / (TERMS - 1 - i))
    return tl.where(x > -0.5, x * series, tl.exp(x) - 1.0)


@triton.jit
def tanh(x):
    """Return tanh x with a relative error of a few roundings."""
    e = expm1_nonpositive(-2.0 * tl.abs(x))
    size = -e / (2.0 + e)
    return tl.where(x < 0, -size, size)


@triton.jit
def sigmoid(vector):
    """Return 1 / (1 + exp(-x)) of a vector; no exponential overflows."""
    result = ()
    for i in tl.static_range(len(vector)):
        e = tl.exp(-tl.abs(vector[i]))
        result = result + (tl.where(vector[i] < 0, e, 1.0) / (1.0 + e),)
    return result


@triton.jit
def pair_sum(x):
    """Replace both numbers of each pair by their sum."""
    total = tl.sum(tl.reshape(x, (x.shape[0] // 2, 2)), 1)
    return tl.reshape(tl.join(total, total), x.shape)


@triton.jit
def modulus(z):
    """Return the modulus of each pair, repeated for both, without overflow or underflow."""
    size = tl.abs(z)
    # the sum is at most twice the larger number, which is close enough as a scale
    scale = pair_sum(size)
    nonzero = (scale != 0) & (scale * 0 == 0)
    ratio = size / tl.where(nonzero, scale, 1.0)
    return tl.where(nonzero, scale * tl.sqrt(pair_sum(ratio * ratio)), scale)


@triton.jit
def pair_moduli(vector):
    """Apply `modulus` to every piece of a vector."""
    result = ()
    for i in tl.static_range(len(vector)):
        result = result + (modulus(vector[i]),)
    return result


@triton.jit
def shifted_modulus(size, bias):
    """Return max(size + bias, 0); NaN stays NaN."""
    shifted = size + bias
    return tl.where(shifted < 0, 0.0, shifted)


@triton.jit
def apply(vector, bias, NAME: tl.constexpr, SLOPE: tl.constexpr):
    """Apply a nonlinearity to the pre-activations of a vector of units."""
    result = ()
    for i in tl.static_range(len(vector)):
        result = result + (_apply_to_piece(vector[i], bias[i], NAME, SLOPE),)
    return result


@triton.jit
def apply_backward(vector, states, NAME: tl.constexpr, SLOPE: tl.constexpr):
    """Return the gradient of the pre-activations from the gradient of the states."""
    result = ()
    for i in tl.static_range(len(vector)):
        result = result + (_backward_of_piece(vector[i], states[i], NAME, SLOPE),)
    return result


@triton.jit
def apply_backward_pairs(vector, states, moduli):
    """Do the same for modReLU of pairs, which also needs the moduli of the pre-activations."""
    result = ()
    for i in tl.static_range(len(vector)):
        result = result + (_backward_pairs_of_piece(vector[i], states[i], moduli[i]),)
    return result


@triton.jit
def _apply_to_piece(z, b, NAME: tl.constexpr, SLOPE: tl.constexpr):
    if NAME == "tanh":
        return tanh(z)
    elif NAME == "elu":
        return tl.where(z < 0, expm1_nonpositive(tl.where(z < 0, z, 0.0)), z)
    elif NAME == "relu":
        return tl.where(z < 0, 0.0, z)
    elif NAME == "leaky_relu":
        return tl.where(z < 0, SLOPE * z, z)
    elif NAME == "modrelu":
        size = shifted_modulus(tl.abs(z), b)
        return tl.where(z < 0, -size, tl.where(z == 0, 0.0, size))
    elif NAME == "modrelu_paired":
        size = modulus(z)
        nonzero = size != 0
        return tl.where(nonzero, (z / tl.where(nonzero, size, 1.0)) * shifted_modulus(size, b), z)
    else:
        tl.static_assert(NAME == "identity")
        return z


@triton.jit
def _backward_of_piece(g, h, NAME: tl.constexpr, SLOPE: tl.constexpr):
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
def _backward_pairs_of_piece(g, h, moduli):
    size = modulus(h)
    active = size != 0
    phase = h / tl.where(active, size, 1.0)
    # across the phase the gradient shrinks by |h| / |z|
    shrink = size / tl.where(active, moduli, 1.0)
    radial = pair_sum(g * phase) * phase
    return tl.where(active, shrink * (g - radial) + radial, 0.0)
