"""Linear algebra beyond torch: orthogonal maps, reflections, and complex numbers as pairs."""

import math
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from eigenrnn.kernels import NUMBERS, kernels
from eigenrnn.torch_internals import fp32_precision, has_dispatch_mode
from eigenrnn.tracing import (
    are_plain,
    autocasts,
    is_dual,
    is_eager,
    is_traced,
    under_transform,
)

__all__ = [
    "ROUNDING_SWITCHES",
    "as_numpy",
    "at_least_float32",
    "cayley",
    "check_finite",
    "complex_to_halves",
    "complex_to_pairs",
    "default_dtype",
    "double_precision",
    "exact_products",
    "exp_skew",
    "in_full_precision",
    "lower",
    "normalise_",
    "on_cpu",
    "orthogonality_error",
    "pairs_to_complex",
    "planar_rotation",
    "planar_skew",
    "polar_step",
    "real_matrix_of_complex",
    "reflection_count",
    "reflection_product",
    "rounds_products",
    "scaled_cayley",
    "skew",
    "strictly_lower",
    "switched_to_ieee",
    "symmetric",
    "tol",
    "upper_rows",
    "wide_default_dtype",
]

P = ParamSpec("P")
R = TypeVar("R")

_norm = torch.linalg.matrix_norm

_LARGE = 4  # the mean size of eigenvalues above which a Cayley transform needs correction
_LARGEST_KEPT = 128  # rows of a matrix whose places are kept, at most 64 kilobytes each
_LEAST_DIVIDED = 256  # rows of a matrix that is inverted by blocks

_BACKENDS: Any = torch.backends  # whose attributes have no types
ROUNDING_SWITCHES: dict[str, Any] = {}
"""Of each type of device, the switch that may let torch round the factors of float32 products."""
if torch.backends.cuda.is_built():
    ROUNDING_SWITCHES["cuda"] = _BACKENDS.cuda.matmul
# without AMX torch multiplies float32, whatever is set; without our kernels AMX is not known
if getattr(kernels, "has_tiles", True):
    ROUNDING_SWITCHES["cpu"] = _BACKENDS.mkldnn.matmul
_precision_lock = threading.RLock()


def rounds_products(device: torch.device) -> bool:
    """Whether the switches of torch let it round the factors of float32 products on a device.

    `torch.set_float32_matmul_precision` sets them for GPUs, and for processors with AMX. While
    torch compiles it cannot trace the switches, so do not ask then.
    """
    if device.type not in ROUNDING_SWITCHES:
        return False
    backend = "mkldnn" if device.type == "cpu" else device.type
    return fp32_precision(backend, "matmul") in {"tf32", "bf16"}


def in_full_precision(device: torch.device) -> AbstractContextManager[None]:
    """Multiply float32 numbers as they are inside the block, whatever the switches say."""
    if torch.compiler.is_compiling() or not rounds_products(device):
        return nullcontext()
    return switched_to_ieee(ROUNDING_SWITCHES[device.type])


@contextmanager
def exact_products(device: torch.device) -> Generator[None]:
    """Multiply without autocast, and float32 numbers as they are, whatever the switches say."""
    without_autocast: AbstractContextManager[Any] = nullcontext()
    if autocasts(device.type):
        without_autocast = torch.autocast(device.type, enabled=False)
    with without_autocast, in_full_precision(device):
        yield


@contextmanager
def switched_to_ieee(switch: Any) -> Generator[None]:
    """Set a switch ``fp32_precision`` of `torch.backends` to ``"ieee"`` inside the block.

    Products then have factors that are not rounded. The setting is global, so a lock keeps
    threads from overwriting each other's value.
    """
    with _precision_lock:
        before = switch.fp32_precision
        switch.fp32_precision = "ieee"
        try:
            yield
        finally:
            switch.fp32_precision = "none"  # what it inherits
            if switch.fp32_precision != before:
                switch.fp32_precision = before


def tol(dtype: torch.dtype, n: int) -> float:
    r"""Tolerance :math:`10\, n\, \varepsilon` for a computation on n x n matrices of a dtype."""
    return 10 * max(n, 1) * torch.finfo(dtype).eps


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """Return float32 for the 16-bit floating-point types and the type itself for all others."""
    if dtype in (torch.float16, torch.bfloat16):
        return torch.float32
    return dtype


def double_precision(dtype: torch.dtype) -> torch.dtype:
    """Return complex128 for complex types and float64 for all others."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64


def check_finite(
    matrix: Tensor | NDArray[Any],
    name: str = "W",
) -> None:
    """Check for NaN and infinity, on which eigenvalue solvers fail, hang or crash.

    Raises:
        ValueError: If the matrix has any.
    """
    values = matrix if isinstance(matrix, Tensor) else torch.from_numpy(matrix)
    lost = int((~values.isfinite()).sum())
    if lost:
        count = math.prod(matrix.shape)
        raise ValueError(f"expected finite numbers in {name}, got {lost} of {count} that are not")


@contextmanager
def default_dtype(dtype: torch.dtype) -> Generator[None]:
    """Make new tensors in a type, such as the zeros that a model begins with."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def wide_default_dtype() -> Generator[torch.dtype]:
    """Build in float32 where torch's default type has 16 bits; yield that default type."""
    default = torch.get_default_dtype()
    if default.itemsize > 2:
        yield default
        return
    with default_dtype(torch.float32):
        yield default


def on_cpu(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function make its tensors on the CPU, whatever default device a user has set."""

    @wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        # entering a block makes each call of torch slower
        if torch.get_default_device().type == "cpu":
            return function(*args, **kwargs)
        with torch.device("cpu"):
            return function(*args, **kwargs)

    return wrapper


def as_numpy(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return numbers as an array of NumPy, with NaN for those that a mask hides.

    Raises:
        TypeError: If they are times.
    """
    parts: Sequence[Any] = values if isinstance(values, list | tuple) else [values]
    has_mask = any(isinstance(part, np.ma.MaskedArray) for part in parts)
    array = np.ma.asarray(values) if has_mask else np.asarray(values)
    if array.dtype.kind in "mM":
        raise TypeError(f"expected numbers in {name}, got times of {array.dtype}")
    if np.ma.is_masked(array):
        return np.ma.asarray(array * 1.0).filled(np.nan)  # an integer cannot be NaN
    return np.asarray(array)


def strictly_lower(
    A: Tensor,  # (N, N)
) -> Tensor:  # (N (N - 1) / 2,)
    """Return the entries below the diagonal, row by row."""
    n = A.shape[-1]
    rows, columns = torch.tril_indices(n, n, offset=-1, device=A.device)
    return A[rows, columns]


def lower(
    A: Tensor,  # (N, N)
) -> Tensor:  # (N (N + 1) / 2,)
    """Return the entries on and below the diagonal, row by row."""
    n = A.shape[-1]
    rows, columns = torch.tril_indices(n, n, device=A.device)
    return A[rows, columns]


def skew(
    raw: Tensor,  # (N (N - 1) / 2,)
    n: int,
) -> Tensor:  # (N, N)
    r"""Skew-symmetric matrix whose strict lower triangle holds `raw`, row by row.

    .. math:: A_{ij} = -A_{ji} = \text{raw}_{i (i - 1) / 2 + j}, \qquad i > j
    """
    lower = raw.new_zeros(n * n).index_copy(0, _places_below_diagonal(raw, n), raw).view(n, n)
    return lower - lower.T


def _places_below_diagonal(raw: Tensor, n: int) -> Tensor:  # (N (N - 1) / 2,)
    """Return the places of the strict lower triangle in a matrix that is stored row by row."""
    if n <= _LARGEST_KEPT and is_eager() and raw.is_cpu:
        return _kept_places(n)
    return _make_places(n, raw.device)


@cache
def _kept_places(n: int) -> Tensor:
    # outside of inference mode: its tensors could not take part in a later backward pass
    with torch.inference_mode(False):
        return _make_places(n, torch.device("cpu"))


def _make_places(n: int, device: torch.device) -> Tensor:
    rows, columns = torch.tril_indices(n, n, offset=-1, device=device)
    return rows * n + columns


def symmetric(
    raw: Tensor,  # (N (N + 1) / 2,)
    n: int,
) -> Tensor:  # (N, N)
    r"""Symmetric matrix whose lower triangle, diagonal included, holds `raw`, row by row.

    .. math:: S_{ij} = S_{ji} = \text{raw}_{i (i + 1) / 2 + j}, \qquad i \ge j
    """
    rows, columns = torch.tril_indices(n, n, device=raw.device)
    half = raw.new_zeros(n * n).index_copy(0, rows * n + columns, raw).view(n, n)
    return half + half.tril(-1).T


def planar_skew(
    rates: Tensor,  # (N // 2,)
    n: int,
) -> Tensor:  # (N (N - 1) / 2,)
    r"""Raw entries of a skew matrix made of 2 x 2 blocks ``[[0, s], [-s, 0]]`` on the diagonal.

    An odd `n` leaves a last row and column of zeros.
    """
    i = 2 * torch.arange(n // 2, device=rates.device) + 1  # row of the entry -s of each block
    raw = rates.new_zeros(n * (n - 1) // 2)
    # entry (i, j) of the triangle has the number i (i - 1) / 2 + j, here with j = i - 1
    return raw.index_put((i * (i - 1) // 2 + i - 1,), -rates)


def planar_rotation(
    gamma: Tensor,  # (N / 2,)
    theta: Tensor,  # (N / 2,)
) -> Tensor:  # (N, N)
    r"""Matrix of 2 x 2 blocks :math:`\gamma R(\theta)` on the diagonal: rotated and scaled planes.

    .. math:: R(\theta) = \begin{bmatrix} \cos \theta & -\sin \theta \\
        \sin \theta & \cos \theta \end{bmatrix}
    """
    n = 2 * len(gamma)
    i = torch.arange(0, n, 2, device=gamma.device)  # first row of each block
    c = gamma * torch.cos(theta)
    s = gamma * torch.sin(theta)
    indices = torch.cat([i * n + i, i * n + i + 1, (i + 1) * n + i, (i + 1) * n + i + 1])
    return c.new_zeros(n * n).index_put((indices,), torch.cat([c, -s, s, c])).view(n, n)


def cayley(
    A: Tensor,  # (N, N)
) -> Tensor:  # (N, N)
    r"""Cayley transform :math:`(I + A)^{-1} (I - A)` of a skew-symmetric matrix.

    An eigenvalue :math:`\pm i \tan(t / 2)` of A becomes :math:`e^{\mp i t}`. W is orthogonal to
    rounding for every finite A. For large A a Newton step corrects the rounding. If A is so large
    that rounding I + A loses I, its eigenvalues are transformed instead. In compiled code and
    under `torch.func` no branch may depend on values; float32 is then accurate for norms up to
    1000. On a GPU no branch does either, so a CUDA graph can capture it. There the solve has
    double precision, which is accurate for norms up to ten million.

    Raises:
        ValueError: If A is infinite and on the CPU; on a GPU, W is then not finite.
    """
    # where torch traces, it differentiates the operations themselves
    has_derivative = (A.requires_grad and torch.is_grad_enabled()) or is_dual(A)
    if is_traced() or not has_derivative:
        return _cayley(A)
    return _Cayley.apply(A)


def _cayley(A: Tensor) -> Tensor:
    n = A.shape[-1]
    I = torch.eye(n, dtype=A.dtype, device=A.device)
    X = I + A
    Y = I - A
    if under_transform():  # torch differentiates the forward derivative of solve wrongly
        return _corrected(torch.linalg.inv(X) @ Y)
    # I + A is regular for every skew A, so `solve_ex` is enough: `solve` also reads whether the
    # solution failed, which waits for a device and breaks a graph
    if is_traced():
        return _corrected(torch.linalg.solve_ex(X, Y, left=False).result)
    if A.device.type != "cpu":  # reading a value would wait for the device
        wide = double_precision(A.dtype)
        exact = torch.linalg.solve_ex(X.to(wide), Y.to(wide), left=False).result
        return _corrected(exact).to(A.dtype)
    size = float(_frobenius(A.detach()))
    if size > _LARGE * math.sqrt(n):
        norm = float(_bound(A.detach()))
        # also NaN, which `_cayley_of_large` reports
        if not norm <= 0.5 / math.sqrt(torch.finfo(A.dtype).eps):
            return _cayley_of_large(A)
        return _corrected(torch.linalg.solve_ex(X, Y, left=False).result)
    if n >= _LEAST_DIVIDED:
        return _inverse(X).mul_(2).sub_(I)  # (I + A)^-1 (I - A) = 2 (I + A)^-1 - I
    # the factors commute, and solving from the right copies less; NaN propagates
    return torch.linalg.solve_ex(X, Y, left=False).result


def _inverse(
    X: Tensor,  # (N, N), with a positive definite Hermitian part
) -> Tensor:  # (N, N)
    """Invert by blocks, so that products, which are fast, do most of the work.

    The blocks on the diagonal and their Schur complements have positive definite Hermitian parts
    too, with eigenvalues no smaller than those of X. So no row needs another one's pivot.
    """
    n = X.shape[-1]
    if n < _LEAST_DIVIDED:
        return torch.linalg.inv_ex(X).inverse
    half = n // 2
    first = X[:half, :half]
    right = X[:half, half:]
    below = X[half:, :half]
    last = X[half:, half:]
    # with P = first^-1 and Q = (last - below P right)^-1, the inverse of the Schur complement:
    # [[P + P right Q below P, -P right Q], [-Q below P, Q]]
    P = _inverse(first)
    left = below @ P
    Q = _inverse(torch.addmm(last, left, right, alpha=-1))
    corner = -(Q @ left)
    right = P @ right
    inverse = torch.empty_like(X)
    inverse[half:, half:] = Q
    inverse[half:, :half] = corner
    inverse[:half, half:] = -(right @ Q)
    inverse[:half, :half] = torch.addmm(P, right, corner, alpha=-1)
    return inverse


def _cayley_of_large(A: Tensor) -> Tensor:
    """Transform the eigenvalues, for A so large that rounding I + A loses I."""
    wide = double_precision(A.dtype)
    if A.dtype != wide:
        return _cayley(A.to(wide)).to(A.dtype)
    check_finite(A, "A")
    # -i A is Hermitian, with real eigenvalues theta: (1 - i theta) / (1 + i theta) is
    # exp(-2 i arctan(theta))
    theta, V = torch.linalg.eigh(-1j * A)
    if A.is_complex():
        return (V * torch.exp(-2j * torch.arctan(theta))) @ V.mH
    # Real A has conjugate pairs of eigenvalues. W rotates the plane of each pair by its angle.
    # eigh sorts, so the positive theta are last.
    n = len(A)
    pairs = len(A) // 2
    planes = torch.view_as_real(V[:, n - pairs :]).reshape(n, 2 * pairs)
    Q, R = torch.linalg.qr(planes, mode="complete")
    # a plane turned over by the signs of QR would rotate the other way
    Q[:, : 2 * pairs] *= torch.where(R.diagonal() < 0, -1.0, 1.0)
    angles = 2 * torch.arctan(theta[n - pairs :])
    c = torch.cos(angles)
    s = torch.sin(angles)
    rotation = torch.eye(n, dtype=A.dtype, device=A.device)
    first = torch.arange(0, 2 * pairs, 2, device=A.device)
    second = first + 1
    rotation[first, first] = c
    rotation[second, second] = c
    rotation[second, first] = s
    rotation[first, second] = -s
    return Q @ rotation @ Q.mT


def _frobenius(A: Tensor) -> Tensor:
    if A.is_complex():  # torch is 100 times faster on real numbers
        return torch.linalg.vector_norm(torch.view_as_real(A))
    return torch.linalg.vector_norm(A)


class _Cayley(torch.autograd.Function):
    r"""The Cayley transform, whose derivative needs only its value and no second solve.

    .. math:: dW = -\tfrac 1 2 (I + W)\, dA\, (I + W), \qquad I + W = 2 (I + A)^{-1}
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Tensor) -> Tensor:
        return _cayley(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (W,) = ctx.saved_tensors
        return _cayley_derivative(W.mH, gradients[0])  # the adjoint of the derivative

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> Tensor:
        (W,) = ctx.saved_tensors
        return _cayley_derivative(W, tangents[0])


def _cayley_derivative(
    W: Tensor,  # (N, N)
    dA: Tensor,  # (N, N)
) -> Tensor:  # (N, N)
    """Return -(I + W) dA (I + W) / 2."""
    product = torch.addmm(dA, W, dA)  # (I + W) dA, without forming I + W
    return torch.addmm(product, product, W, beta=-0.5, alpha=-0.5)


def scaled_cayley(
    raw: Tensor,  # (N (N - 1) / 2,)
    signs: Tensor,  # (N,)
) -> Tensor:  # (N, N)
    r"""Cayley transform of `skew`, with scaled columns: :math:`(I + A)^{-1} (I - A) D`.

    The derivative is that of a single operation, where torch traces none: a small matrix costs
    little beside the operations that make it.

    Args:
        raw: The strict lower triangle of A, as `skew` takes it.
        signs: The diagonal of D, which has no derivative.
    Raises:
        ValueError: As `cayley`.
    """
    if not is_eager() or not raw.is_cpu:
        return cayley(skew(raw, len(signs))) * signs
    if not (raw.requires_grad and torch.is_grad_enabled()):
        return _scaled_cayley(raw, signs)
    return _ScaledCayley.apply(raw, signs)


def _is_small(n: int, *tensors: Tensor) -> bool:
    """Whether the compiled kernels map a matrix: torch's calls would take longer than they do."""
    if kernels is None or not 1 < n <= kernels.most_cayley_rows or has_dispatch_mode():
        return False
    for each in tensors:
        if each.dtype is not tensors[0].dtype:
            return False
    return tensors[0].dtype in NUMBERS and are_plain(tensors)


def _scaled_cayley(raw: Tensor, signs: Tensor) -> Tensor:
    n = len(signs)
    is_triangle = raw.shape == (n * (n - 1) // 2,) and raw.is_contiguous()
    if is_triangle and signs.is_contiguous() and _is_small(n, raw, signs):
        W = raw.new_empty(n, n)
        wide = raw.dtype == torch.float64
        most = _LARGE * math.sqrt(n)
        if kernels.scaled_cayley(wide, n, most, raw.data_ptr(), signs.data_ptr(), W.data_ptr()):
            return W
    A = skew(raw, n)
    size = math.sqrt(2) * float(torch.linalg.vector_norm(raw))
    if n >= _LEAST_DIVIDED or size > _LARGE * math.sqrt(n):
        return _cayley(A) * signs
    X = A.fill_diagonal_(1)  # I + A, whose transpose is I - A
    return torch.linalg.solve_ex(X, X.T, left=False).result.mul_(signs)


class _ScaledCayley(torch.autograd.Function):
    """The map of `scaled_cayley`: its derivative is that of `_Cayley` between two linear maps."""

    # Without `setup_context`, which `torch.func` needs and `scaled_cayley` does not: of a function
    # that has it, torch looks up the signature in each call, which takes longer than the map.
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        raw, signs = inputs
        W = _scaled_cayley(raw, signs)
        ctx.save_for_backward(W, signs)
        return W

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        W, signs = ctx.saved_tensors
        n = len(signs)
        (G,) = gradients
        is_recorded = torch.is_grad_enabled()  # for a second derivative
        if not is_recorded and W.is_contiguous() and _is_small(n, W, signs, G):
            draw = W.new_empty(n * (n - 1) // 2)
            addresses = W.data_ptr(), signs.data_ptr(), G.data_ptr()
            kernels.scaled_cayley_backward(
                W.dtype == torch.float64, n, *addresses, *G.stride(), draw.data_ptr()
            )
            return draw, None
        dA = _cayley_derivative((W * signs).T, gradients[0] * signs)  # D^-1 = D
        places = _places_below_diagonal(dA, len(signs))
        return (dA - dA.T).reshape(-1).index_select(0, places), None


class _Series(NamedTuple):
    """Polynomials C and S for which C(A A) + A S(A A) is exp(A) up to rounding."""

    powers: int  # p, the number of powers of A A
    blocks: int  # q, the number of polynomials in these powers that make up C and S each
    max_norm: float  # the largest norm of A
    coefficients: list[list[float]]  # of C and of S, from the constant to degree p q


def _series(powers: int, blocks: int, epsilon: float) -> _Series:
    """Interpolate cosine and sine, as functions of the square, on the imaginary axis.

    A Taylor series of the same length would be accurate up to half the norm.
    """
    m = powers * blocks
    # Interpolation at m Chebyshev points of [-r^2, 0] leaves about r^2 / (2 m + 2)! times
    # 2 (r^2 / 4)^m, which is 2 epsilon at this r.
    max_norm = 2 * (math.factorial(2 * m + 2) * epsilon / 4) ** (1 / (2 * m + 2))
    coefficients: list[list[float]] = []
    for odd in (0, 1):  # 1 + b rest(b), exact at zero
        # The terms of cosh and of sinh(a) / a in b = a^2, after their first one. Forty are more
        # than enough: the next one is divided by 82!.
        taylor = Polynomial([1 / math.factorial(2 * k + 2 + odd) for k in range(40)])
        rest = Chebyshev.interpolate(taylor, m - 1, domain=[-(max_norm**2), 0])
        terms = [1.0, *rest.convert(kind=Polynomial).coef.tolist()]
        coefficients.append(terms + [0.0] * (m + 1 - len(terms)))  # numpy drops trailing zeros
    return _Series(powers, blocks, max_norm, coefficients)


_EPS32 = torch.finfo(torch.float32).eps
_EPS64 = torch.finfo(torch.float64).eps
# the shortest first; each costs p + 2 (q - 1) + 1 products
_SERIES = {
    torch.float32: [_series(p, q, _EPS32) for p, q in ((2, 1), (3, 1), (2, 2), (3, 2))],
    torch.float64: [_series(p, q, _EPS64) for p, q in ((2, 2), (3, 2), (4, 2))],
}
_MOST_TRACED_SQUARINGS = 10  # each costs a product in every call, needed or not
_SQUARINGS_PER_CORRECTION = 5  # each doubles the orthogonality error; a correction squares it


def exp_skew(
    A: Tensor,  # (N, N)
) -> Tensor:  # (N, N)
    r"""Matrix exponential of a skew-symmetric matrix, orthogonal to rounding.

    .. math:: \exp(A) = \left(C(B) + A'\, S(B)\right)^{2^s}, \qquad A' = A / 2^s, \quad B = A' A'

    C and S are nearly optimal polynomials for :math:`\cos \sqrt{-b}` and
    :math:`\sin \sqrt{-b} / \sqrt{-b}` on the interval that holds the eigenvalues of B. There is no
    linear solve, and the backward pass consists of products. The powers of A give bounds of its
    norm that keep s small. For large A, s is as large as necessary, and rounding A changes
    the angles by its norm times epsilon. In compiled code and under `torch.func` no branch may
    depend on values. There s is at most 10, and the result is NaN if the norm of A is above 3400
    (1800 in float64).

    Source:
        Polynomials as by Paterson and Stockmeyer, SIAM J. Comput. 2, 1973.
        https://doi.org/10.1137/0202007 (departures: in the even and the odd part of exp).
    """
    longest = _SERIES[A.dtype][-1]
    # divide by a power of two, so that entries are below 2 and their powers cannot overflow
    largest = A.new_zeros(())
    if A.numel():  # amax has no value for an empty matrix
        largest = A.detach().abs().amax()
    exponent = torch.log2(largest.clamp(min=1)).floor()
    A1 = A / torch.exp2(exponent)
    A2 = A1 @ A1
    A4 = A2 @ A2
    # the powers of A, needed for the series anyway, give tighter bounds of its norm
    first, second, fourth = (_bound(each.detach()) for each in (A1, A2, A4))
    bound = torch.fmin(first, torch.fmin(second**0.5, fourth**0.25))
    squarings = (torch.log2(bound / longest.max_norm) + exponent).ceil().clamp(min=0)
    scale = torch.exp2(exponent - squarings)
    scaled = A1 * scale
    squared = A2 * scale**2
    to_the_fourth = A4 * scale**4
    if is_traced() or A.is_meta:  # control flow must not depend on the norm
        power = _short_exp(scaled, squared, to_the_fourth, longest)
        for k in range(_MOST_TRACED_SQUARINGS):
            power = torch.where(k < squarings, power @ power, power)
            if (k + 1) % _SQUARINGS_PER_CORRECTION == 0:
                power = _corrected(power)
        return torch.where(squarings <= _MOST_TRACED_SQUARINGS, _corrected(power), torch.nan)
    norm = float(bound * scale)
    s = float(squarings)
    series = next((each for each in _SERIES[A.dtype] if norm <= each.max_norm), longest)
    power = _short_exp(scaled, squared, to_the_fourth, series)
    # no squaring helps a matrix that is not finite
    for k in range(int(s) if math.isfinite(s) else 0):
        power = power @ power
        if (k + 1) % _SQUARINGS_PER_CORRECTION == 0:
            power = _corrected(power)
    # each squaring doubles the rounding error; the terms of a series are as large as exp(norm)
    if s or math.exp(norm) > math.sqrt(len(A)):
        power = _corrected(power)
    return power


def _short_exp(
    A: Tensor,  # (N, N)
    A2: Tensor,  # (N, N)
    A4: Tensor,  # (N, N)
    series: _Series,
) -> Tensor:  # (N, N)
    """Evaluate C + A S for A of norm at most `max_norm`."""
    p, q, _, coefficients = series
    table = torch.tensor(coefficients, dtype=A.dtype, device=A.device)
    powers = [torch.eye(A.shape[-1], dtype=A.dtype, device=A.device), A2, A4]
    while len(powers) <= p:
        powers.append(A2 @ powers[-1])
    # one product of the coefficients with all powers gives a polynomial of C and one of S
    stacked = torch.stack(powers).flatten(1)
    total = (table[:, p * (q - 1) :] @ stacked).view(-1, A.shape[-1])  # C above S
    # Horner's scheme in the p-th power, as by Paterson and Stockmeyer
    for k in reversed(range(q - 1)):
        part = table[:, p * k : p * (k + 1)] @ stacked[:p]
        total = torch.addmm(part.view_as(total), total, powers[p])
    C, S = total.chunk(2)
    return torch.addmm(C, A, S)


def _bound(
    A: Tensor,  # (N, N), nonzero eigenvalues in pairs of equal modulus
) -> Tensor:  # ()
    """Return an upper bound of the 2-norm."""
    # the largest singular value occurs twice, so its square is at most half of the sum of all
    return torch.fmin(_norm(A, 1), _frobenius(A) / math.sqrt(2))


def _corrected(W: Tensor) -> Tensor:
    """Correct the rounding of an orthogonal matrix without changing its derivative."""
    value = W.detach()
    return W + (polar_step(value) - value)


def polar_step(
    W: Tensor,  # (N, N)
) -> Tensor:  # (N, N)
    """Return W after one Newton step towards its polar factor; W is unitary up to rounding."""
    I = torch.eye(W.shape[-1], dtype=W.dtype, device=W.device)
    return W @ (1.5 * I - 0.5 * W.mH @ W)


def to_orthogonal(
    W: Tensor,  # (N, N)
) -> Tensor:  # (N, N)
    """Return the polar factor of W, which is unitary up to rounding to 16 bits or more."""
    nearer = W
    for _ in range(4):  # each step squares the error: four lead from 16 bits to float64
        nearer = polar_step(nearer)
    return nearer


def orthogonality_error(
    W: Tensor,  # (N, N)
) -> float:
    r"""Departure from orthogonality :math:`\|W^* W - I\|_F`, measured in double precision."""
    exact = W.detach().to(double_precision(W.dtype))
    gram = exact.mH @ exact
    return float(_norm(gram - torch.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)))


def reflection_count(
    m: int,
    n: int,
) -> int:
    r"""Return the number :math:`m n - m (m - 1) / 2` of free entries of m vectors."""
    return m * n - m * (m - 1) // 2


def upper_rows(
    raw: Tensor,  # (m N - m (m - 1) / 2,)
    m: int,
    n: int,
) -> Tensor:  # (m, N)
    """Upper trapezoidal matrix filled with `raw` row by row, from the diagonal on."""
    rows, columns = torch.triu_indices(m, n, device=raw.device)
    return raw.new_zeros(m * n).index_put((rows * n + columns,), raw).view(m, n)


@torch.no_grad()
def normalise_(
    raw: Tensor,  # (m N - m (m - 1) / 2,)
    m: int,
    n: int,
) -> Tensor:  # (m N - m (m - 1) / 2,)
    """Scale the rows of `upper_rows` to length one, in place; zero vectors stay zero."""
    rows, _ = torch.triu_indices(m, n, device=raw.device)
    length = torch.linalg.vector_norm(upper_rows(raw, m, n), dim=1)
    return raw.div_(torch.where(length > 0, length, 1)[rows])


def reflection_product(
    V: Tensor,  # (m, N)
) -> Tensor:  # (N, N)
    r"""Product of the reflections in the rows of V, the first leftmost.

    .. math:: H_1 \cdots H_m = I - V^\top S^{-1} V, \qquad H_k = I - 2 v_k v_k^\top / v_k^\top v_k,
        \qquad S_{kk} = v_k^\top v_k / 2, \quad S_{kl} = v_k^\top v_l \text{ for } k < l

    The compact WY form needs one triangular solve and two products instead of m steps.

    Source:
        Schreiber and Van Loan, SIAM J. Sci. Stat. Comput. 10, 1989.
        https://doi.org/10.1137/0910005; S by Joffrain et al., ACM Trans. Math. Softw. 32, 2006.
        https://doi.org/10.1145/1141885.1141886 (departures: none).
    """
    # lengths do not matter, so scale by powers of two to avoid overflow and underflow of squares
    largest = V.detach().abs().amax(1, keepdim=True).clamp(min=torch.finfo(V.dtype).tiny)
    scaled = V / torch.exp2(torch.log2(largest).floor())
    gram = scaled @ scaled.T
    S = gram.triu(1) + torch.diag(gram.diagonal() / 2)
    I = torch.eye(V.shape[1], dtype=V.dtype, device=V.device)
    return I - scaled.T @ torch.linalg.solve_triangular(S, scaled, upper=True)


def complex_to_pairs(
    z: Tensor,  # (..., N), complex
) -> Tensor:  # (..., 2N)
    """Return real and imaginary parts as neighbouring numbers."""
    if not z.shape[-1]:  # an empty view has no gradient
        return z.real
    return torch.view_as_real(z.resolve_conj()).flatten(-2)


def complex_to_halves(
    z: Tensor,  # (..., N), complex
) -> Tensor:  # (..., 2N)
    """Return the real parts, then the imaginary parts."""
    # not a concatenation of z.real and z.imag: its gradient would fill two tensors of zeros, and
    # add them
    pairs = complex_to_pairs(z)
    return pairs.unflatten(-1, (z.shape[-1], 2)).transpose(-1, -2).flatten(-2)


def pairs_to_complex(
    pairs: Tensor,  # (..., 2N)
) -> Tensor:  # (..., N), complex
    """Return each pair of neighbouring real numbers as one complex number."""
    numbers = pairs.unflatten(-1, (pairs.shape[-1] // 2, 2))
    if not pairs.shape[-1]:  # an empty tensor cannot be viewed as complex
        return torch.complex(numbers[..., 0], numbers[..., 1])
    return torch.view_as_complex(numbers)


def real_matrix_of_complex(
    W: Tensor,  # (N, M), complex
) -> Tensor:  # (2N, 2M)
    r"""Real matrix that acts on pairs as W acts on complex numbers.

    Each entry :math:`a + b\,i` becomes the block :math:`\begin{pmatrix} a & -b \\ b & a
    \end{pmatrix}`.
    """
    a = W.real
    b = W.imag
    upper = torch.stack([a, -b], dim=-1)  # (N, M, 2)
    lower = torch.stack([b, a], dim=-1)
    return torch.stack([upper, lower], dim=1).flatten(2).flatten(0, 1)
