"""Sets of diagonal matrices, which give the spectrum of a linear recurrence."""

import math
import warnings
from abc import abstractmethod
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.kernels import NUMBERS, kernels
from eigenrnn.linalg import check_finite, double_precision
from eigenrnn.tracing import is_batched, needs_no_dispatcher

__all__ = ["AbstractDiagonal", "DiagonalDisc", "DiagonalRing", "DiagonalSegment"]

_MOST = 4.0  # of the raw parameters of the disc; exp(-exp(4)) is below 1e-23


class AbstractDiagonal(Constraint):
    """A set of diagonal matrices whose entries lie in one set of numbers.

    A subclass defines `diagonal`, the distance of numbers from the set, and how to reach numbers.
    """

    is_diagonal = True

    @abstractmethod
    def diagonal(self) -> Tensor:  # (N,)
        """Return the entries of the diagonal, which are the eigenvalues, without building W."""

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        check_finite(W)
        wide = W.detach().to(double_precision(W.dtype))
        entries = wide.diagonal()
        others = torch.linalg.matrix_norm(wide - entries.diag())
        return float(torch.linalg.vector_norm(self._distances(entries)) + others)

    def _matrix(self) -> Tensor:
        return self.diagonal().diag()

    @torch.no_grad()
    def _assign(self, W: Tensor) -> None:
        self._assign_diagonal(W.diagonal())

    @abstractmethod
    def _distances(self, entries: Tensor) -> Tensor: ...  # (N,), of each entry from the set

    @abstractmethod
    def _assign_diagonal(self, entries: Tensor) -> None: ...


class DiagonalDisc(AbstractDiagonal):
    r"""Diagonal matrices with entries in the unit disc, as the LRU trains them.

    .. math:: W = \operatorname{diag}(\lambda), \qquad
        \lambda_j = \exp(-e^{\nu_j} + i e^{\theta_j})

    Values of :math:`\nu_j` and :math:`\theta_j` above 4 count as 4, so that gradients cannot
    overflow. Every eigenvalue has a modulus below one, or one by rounding, so states cannot grow
    exponentially. Initially the eigenvalues are uniform on the ring between the radii `r_min` and
    `r_max`, with angles below `phase`.

    Args:
        size: The number N of rows and columns.
        r_min: The smallest modulus of the initialisation.
        r_max: The largest modulus of the initialisation.
        phase: The largest angle of the initialisation.
    Shape:
        nu, theta: :math:`(N,)`.
    Units:
        Angles in radians.
    Raises:
        ValueError: If `size` is not a positive integer, not 0 <= r_min <= r_max <= 1, or `phase`
            is not in (0, 2 pi].
    Source:
        Orvieto et al., ICML 2023, lemma 3.2 and section 3.3. https://arxiv.org/abs/2303.06349
        (departures: the limit of 4).
    Example:
        >>> bool((DiagonalDisc(8, r_min=0.9).diagonal().abs() > 0.89).all())
        True
    """

    is_complex = True

    def __init__(
        self,
        size: int,
        *,
        r_min: float = 0.0,
        r_max: float = 1.0,
        phase: float = 2 * math.pi,
    ) -> None:
        super().__init__(size)
        _check_ring(r_min, r_max, phase)
        if r_max > 1:
            raise ValueError(f"expected r_max <= 1, the radius of the disc, got {r_max}")
        self.r_min = r_min
        self.r_max = r_max
        self.phase = phase
        self.nu = Parameter(torch.empty(size))
        self.theta = Parameter(torch.empty_like(self.nu))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        # drawn in place, and then replaced by the raw numbers of these moduli and angles
        moduli = self.nu.uniform_(generator=generator)
        angles = self.theta.uniform_(generator=generator)
        self._assign_polar(_ring_moduli(moduli, self.r_min, self.r_max), self.phase * angles)

    def diagonal(self) -> Tensor:
        nu = self.nu
        theta = self.theta
        if not _is_compiled(nu, theta):
            return _disc(nu, theta)
        if torch.is_grad_enabled() and (nu.requires_grad or theta.requires_grad):
            return _Disc.apply(nu, theta)
        return _compiled_disc(nu, theta)

    def _distances(self, entries: Tensor) -> Tensor:
        return (entries.abs() - 1).relu()

    def _assign_diagonal(self, entries: Tensor) -> None:
        self._assign_polar(entries.abs(), entries.angle().remainder(2 * math.pi))

    def _assign_polar(self, moduli: Tensor, angles: Tensor) -> None:
        # nu = log(-log(modulus)): both logarithms are infinite at the ends, 0 and 1
        tiny = torch.finfo(moduli.dtype).tiny
        self.nu.copy_((-moduli.clamp(tiny, 1).log()).clamp(min=tiny).log())
        # the logarithm of the angle 0 is infinite, and 2 pi is the same angle
        self.theta.copy_(torch.where(angles > 0, angles, 2 * math.pi).log())

    def extra_repr(self) -> str:
        return f"{self.size}, r_min={self.r_min:g}, r_max={self.r_max:g}, phase={self.phase:g}"


class DiagonalRing(AbstractDiagonal):
    r"""Diagonal matrices with entries in a ring, or on a circle.

    .. math:: W = \operatorname{diag}(\lambda), \qquad
        \lambda_j = \bigl(r_{\min} + (r_{\max} - r_{\min}) \sigma(a_j)\bigr) e^{i \theta_j}

    No eigenvalue can leave the ring in training, so no unit forgets faster than
    :math:`r_{\min}^t`. With both radii one, W is unitary.

    Args:
        size: The number N of rows and columns.
        r_min: The inner radius.
        r_max: The outer radius.
        phase: The largest angle of the initialisation, which is uniform on the ring.
    Shape:
        theta: :math:`(N,)`; raw: :math:`(N,)`, a, or None if the radii are equal.
    Units:
        Angles in radians.
    Raises:
        ValueError: If `size` is not a positive integer, not 0 <= r_min <= r_max, or `phase` is
            not in (0, 2 pi].
    Warns:
        UserWarning: If `r_max` is above one.
    Source:
        Orvieto et al., ICML 2023, section 3.3. https://arxiv.org/abs/2303.06349 (departures: the
        ring also holds in training; the LRU itself has `DiagonalDisc`).
    Example:
        >>> W = DiagonalRing(4, r_min=1.0)()
        >>> torch.allclose(W @ W.mH, torch.eye(4, dtype=W.dtype), atol=1e-5)
        True
    """

    is_complex = True

    def __init__(
        self,
        size: int,
        *,
        r_min: float = 0.9,
        r_max: float = 1.0,
        phase: float = 2 * math.pi,
    ) -> None:
        super().__init__(size)
        _check_ring(r_min, r_max, phase)
        _warn_of_growth(r_max)
        self.r_min = r_min
        self.r_max = r_max
        self.phase = phase
        self.theta = Parameter(torch.empty(size))
        self.raw = None
        if r_min < r_max:
            self.raw = Parameter(torch.empty_like(self.theta))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self.theta.uniform_(0, self.phase, generator=generator)
        if self.raw is not None:
            moduli = self.raw.uniform_(generator=generator)
            self._assign_moduli(_ring_moduli(moduli, self.r_min, self.r_max))

    def diagonal(self) -> Tensor:
        if self.raw is None:
            return torch.polar(torch.full_like(self.theta, self.r_min), self.theta)
        width = self.r_max - self.r_min
        return torch.polar(self.r_min + width * torch.sigmoid(self.raw), self.theta)

    def _distances(self, entries: Tensor) -> Tensor:
        moduli = entries.abs()
        return (moduli - self.r_max).relu() + (self.r_min - moduli).relu()

    def _assign_diagonal(self, entries: Tensor) -> None:
        self.theta.copy_(entries.angle())
        self._assign_moduli(entries.abs())

    def _assign_moduli(self, moduli: Tensor) -> None:
        if self.raw is not None:
            self.raw.copy_(_logit((moduli - self.r_min) / (self.r_max - self.r_min)))

    def extra_repr(self) -> str:
        return f"{self.size}, r_min={self.r_min:g}, r_max={self.r_max:g}, phase={self.phase:g}"


class DiagonalSegment(AbstractDiagonal):
    r"""Real diagonal matrices with entries in a segment, by default from -1 to 1.

    .. math:: W = \operatorname{diag}(\lambda), \qquad
        \lambda_j = l + (u - l) \sigma(a_j)

    A negative eigenvalue changes the sign of its state at every step. In finite precision, linear
    recurrences with positive eigenvalues only cannot compute the parity of a sequence.

    Args:
        size: The number N of rows and columns.
        low: The lower end l of the segment.
        high: The upper end u of the segment.
    Shape:
        raw: :math:`(N,)`, a. Initially the eigenvalues are uniform on the segment.
    Raises:
        ValueError: If `size` is not a positive integer, `low` is not below `high`, or one of them
            is not finite.
    Warns:
        UserWarning: If a modulus above one lies in the segment.
    Source:
        Grazzi et al., ICLR 2025, section 4. https://arxiv.org/abs/2411.12537 (departures: the
        eigenvalues do not depend on the input).
    Example:
        >>> DiagonalSegment(8, low=-0.5, high=0.5).diagonal().abs() <= 0.5
        tensor([True, True, True, True, True, True, True, True])
    """

    def __init__(
        self,
        size: int,
        *,
        low: float = -1.0,
        high: float = 1.0,
    ) -> None:
        super().__init__(size)
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"expected finite low < high, got low={low} and high={high}")
        _warn_of_growth(max(abs(low), abs(high)))
        self.low = low
        self.high = high
        self.raw = Parameter(torch.empty(size))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self.raw.copy_(_logit(self.raw.uniform_(generator=generator)))

    def diagonal(self) -> Tensor:
        return self.low + (self.high - self.low) * torch.sigmoid(self.raw)

    def _distances(self, entries: Tensor) -> Tensor:
        return (entries - self.high).relu() + (self.low - entries).relu()

    def _assign_diagonal(self, entries: Tensor) -> None:
        self.raw.copy_(_logit((entries - self.low) / (self.high - self.low)))

    def extra_repr(self) -> str:
        return f"{self.size}, low={self.low:g}, high={self.high:g}"


def _disc(
    nu: Tensor,  # (N,)
    theta: Tensor,  # (N,)
) -> Tensor:  # (N,), complex
    # far out the modulus is zero or the angle meaningless, and gradients would overflow
    nu = nu.clamp(max=_MOST)
    theta = theta.clamp(max=_MOST)
    return torch.polar(torch.exp(-torch.exp(nu)), torch.exp(theta))


def _is_compiled(nu: Tensor, theta: Tensor) -> bool:
    """Whether the compiled kernels compute the numbers of a disc."""
    if kernels is None or not needs_no_dispatcher((nu, theta)):
        return False
    if nu.dtype not in NUMBERS or nu.dtype != theta.dtype or nu.shape != theta.shape:
        return False
    if not (nu.is_cpu and theta.is_cpu and nu.is_contiguous() and theta.is_contiguous()):
        return False
    return nu.data_ptr() != 0 and theta.data_ptr() != 0


def _compiled_disc(nu: Tensor, theta: Tensor) -> Tensor:
    numbers = torch.empty_like(nu, dtype=nu.dtype.to_complex())
    wide = nu.dtype == torch.float64
    addresses = nu.data_ptr(), theta.data_ptr(), numbers.data_ptr()
    kernels.disc(wide, len(nu), _MOST, *addresses)
    return numbers


class _Disc(torch.autograd.Function):
    """The map of `_disc` in the compiled kernels."""

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        nu, theta = inputs
        numbers = _compiled_disc(nu, theta)
        ctx.save_for_backward(nu, theta, numbers)
        return numbers

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        (gradient,) = gradients
        nu, theta, numbers = ctx.saved_tensors
        if torch.is_grad_enabled() or is_batched(gradient) or not needs_no_dispatcher(gradients):
            # in operations of torch, which can be differentiated again
            product = gradient * numbers.conj()
            dnu = -nu.clamp(max=_MOST).exp() * product.real
            dtheta = theta.clamp(max=_MOST).exp() * product.imag
            return dnu * (nu <= _MOST), dtheta * (theta <= _MOST)
        found = torch.empty_like(nu), torch.empty_like(theta)
        # hooks of saved tensors may return any strides
        read = [each.contiguous() for each in (nu, theta, numbers, gradient)]
        addresses = [each.data_ptr() for each in (*read, *found)]
        kernels.disc_backward(nu.dtype == torch.float64, len(nu), _MOST, *addresses)
        return found


def _check_ring(r_min: float, r_max: float, phase: float) -> None:
    """Check the radii of a ring and its largest angle.

    Raises:
        ValueError: If one is wrong.
    """
    if not 0 <= r_min <= r_max < math.inf:
        raise ValueError(f"expected 0 <= r_min <= r_max, got r_min={r_min} and r_max={r_max}")
    if not 0 < phase <= 2 * math.pi:
        raise ValueError(f"expected 0 < phase <= 2 pi, got {phase}")


def _warn_of_growth(modulus: float) -> None:
    if modulus > 1:
        warnings.warn(
            f"expected eigenvalues of modulus at most 1, got up to {modulus:g}: the states of a "
            "linear recurrence then grow exponentially",
            stacklevel=3,  # the line that constructs the set, or the call of a factory in a layer
        )


def _ring_moduli(uniform: Tensor, r_min: float, r_max: float) -> Tensor:
    """Return moduli whose points are uniform on a ring, from uniform numbers in [0, 1)."""
    # the area within a radius, and so the share of the points, grows with its square
    return (uniform * (r_max**2 - r_min**2) + r_min**2).sqrt()


def _logit(share: Tensor) -> Tensor:
    # finite at 0 and 1, which rounding and the ends of a set may give
    return torch.logit(share, torch.finfo(share.dtype).eps)
