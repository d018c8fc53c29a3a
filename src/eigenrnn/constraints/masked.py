"""Sparse matrices: a set whose entries outside a mask are zero."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint, make_constraint
from eigenrnn.constraints.dale import Dale, balance_
from eigenrnn.constraints.unconstrained import Unconstrained
from eigenrnn.linalg import check_finite

__all__ = ["Masked"]


_DENSITY = 0.1


class Masked(Constraint):
    r"""Matrices of another set whose entries outside a fixed mask are zero.

    .. math:: W = M \circ V, \qquad M \in \{0, 1\}^{N \times N}, \quad V \in \mathcal S

    The set S must be one that every mask maps into itself, `Unconstrained` or `Dale`. A mask
    destroys what defines any other set, such as orthogonality. Only the entries inside the mask
    are parameters. The initialisation is that of S. Its remaining entries are then scaled: free
    ones by the root of the density, so that a row keeps its variance, and those of `Dale` to its
    balance and its spectral radius.

    Args:
        size: The number N of rows and columns.
        mask: The connections, true where W may differ from zero; drawn at random by default.
        density: The share of entries in a mask drawn at random; 0.1 by default.
        seed: The seed of this mask. The mask belongs to the set, so it does not depend on any
            generator of weights, and `reset` keeps it.
        inner: A function of the size that returns the constraint S.
    Shape:
        raw: (connections,), the entries inside the mask, row by row; mask: :math:`(N, N)`, bool.
    Raises:
        ValueError: If both `mask` and `density` are given, the mask has another
            shape or no connection, `density` is outside (0, 1], or no mask is defined on S.
        TypeError: If `inner` returns no constraint.
    Source:
        Song, Yang and Wang, PLoS Computational Biology 12, 2016, equation 15.
        https://doi.org/10.1371/journal.pcbi.1004792 (departures: no fixed entries but zeros).
    Example:
        >>> constraint = Masked(100, density=0.1, inner=Dale)
        >>> round(float((constraint() != 0).double().mean()), 2)
        0.1
    """

    mask: Tensor

    def __init__(
        self,
        size: int,
        *,
        mask: Tensor | None = None,
        density: float | None = None,
        seed: int = 0,
        inner: Callable[[int], Constraint] = Unconstrained,
    ) -> None:
        super().__init__(size)
        # on the CPU even under the meta device: its connections give the number of parameters
        with torch.device("cpu"):
            made = make_constraint(inner, self.size)
        if not isinstance(made, Unconstrained | Dale):
            raise ValueError(
                "expected inner to return Unconstrained or Dale, on which a mask is defined, got "
                f"{type(made).__name__}: zeros at given places would take W out of its set"
            )
        if mask is not None and density is not None:
            raise ValueError("expected either a mask or a density, got both")
        if density is None:
            density = _DENSITY
        if mask is None:
            mask = _random_mask(self.size, density, seed)
        allowed = mask.detach().cpu().bool()
        if allowed.shape != (size, size):
            raise ValueError(f"expected mask of shape {(size, size)}, got {tuple(mask.shape)}")
        count = int(allowed.sum())
        if count == 0:
            raise ValueError("expected a mask with at least one connection, got one with none")
        # hidden from torch: its own parameters are not trained, it only says how W is made
        self._inner = (made,)
        self.raw = Parameter(torch.empty(count))
        self.register_constant("mask", allowed, self.raw, persistent=True)
        self.reset()

    @property
    def inner(self) -> Unconstrained | Dale:
        """The constraint of the set S; its own parameters are not used."""
        return self._inner[0]

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        if self.raw.is_meta:
            return
        inner = self.inner
        W = inner.sample(generator).to(self.raw) * self.mask
        if isinstance(inner, Dale):
            balance_(W, inner.radius)
            self.raw.copy_(W.abs()[self.mask])
        else:  # over the root of the density, as fewer entries of a row add up
            self.raw.copy_(W[self.mask] * math.sqrt(self.mask.numel() / len(self.raw)))

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        check_finite(W)
        wide = W.detach().to(self.device, torch.float64)
        outside = float(torch.linalg.matrix_norm(wide * ~self.mask))
        return math.hypot(outside, self.inner.residual(wide * self.mask))

    def _matrix(self) -> Tensor:
        V = self.raw.new_zeros(self.mask.shape).masked_scatter(self.mask, self.raw)
        if isinstance(self.inner, Dale):
            return self.inner.from_raw(V)
        return V

    def _assign(self, W: Tensor) -> None:
        entries = W[self.mask]
        if isinstance(self.inner, Dale):
            entries = (W * self.inner.signs(W)).relu()[self.mask]
        self.raw.copy_(entries)

    def extra_repr(self) -> str:
        kind = type(self.inner).__name__
        return f"{self.size}, connections={len(self.raw)}, inner={kind}"


def _random_mask(size: int, density: float, seed: int) -> Tensor:  # (N, N), bool
    if not 0 < density <= 1:
        raise ValueError(f"expected 0 < density <= 1, got {density!r}")
    generator = torch.Generator().manual_seed(seed)
    count = max(1, round(density * size * size))
    places = torch.randperm(size * size, generator=generator, device="cpu")[:count]
    mask = torch.zeros(size * size, dtype=torch.bool, device="cpu")
    mask[places] = True
    return mask.view(size, size)
