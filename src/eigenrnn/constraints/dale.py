"""Matrices that obey Dale's law: each unit either excites or inhibits."""

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.errors import check_positive
from eigenrnn.linalg import check_finite

__all__ = ["Dale", "balance_"]


class Dale(Constraint):
    r"""Matrices whose columns have one sign each: Dale's law.

    .. math:: W = |R| \operatorname{diag}(d), \qquad d_j = \begin{cases} +1 & j \le N_E \\
        -1 & j > N_E \end{cases}

    The first :math:`N_E` units excite all others, and the rest inhibit them. An entry can cross
    zero only in R, where W turns round. At zero the derivative of :math:`|R|` counts as one, so
    that no connection dies. Initially the magnitudes are those of normal numbers. If there
    are both kinds, the inhibitory ones are scaled so that the input of each unit is balanced, its
    row of W sums to zero. Then W is scaled to the spectral radius.

    Args:
        size: The number N of rows and columns.
        excitatory: The share of excitatory units, :math:`N_E / N`, rounded to whole units.
        radius: The spectral radius of the initialisation.
    Shape:
        raw: :math:`(N^2,)`, R row by row.
    Raises:
        ValueError: If `size` is not a positive integer, `excitatory` is outside [0, 1], or
            `radius` is not positive.
        TypeError: If `radius` is not a number.
    Source:
        Song, Yang and Wang, PLoS Computational Biology 12, 2016, equations 13 and 14.
        https://doi.org/10.1371/journal.pcbi.1004792 (departures: the magnitude is :math:`|R|`
        instead of the positive part, which has no gradient where R is negative; normal numbers
        instead of a gamma distribution). Balanced rows: Rajan and Abbott, Physical Review Letters
        97, 2006. https://doi.org/10.1103/PhysRevLett.97.188104
    Example:
        >>> Dale(5)().sign().int()[0].tolist()
        [1, 1, 1, 1, -1]
    """

    def __init__(
        self,
        size: int,
        *,
        excitatory: float = 0.8,
        radius: float = 1.5,
    ) -> None:
        super().__init__(size)
        if not 0 <= excitatory <= 1:
            raise ValueError(
                f"expected excitatory to be a share of the units from 0 to 1, got {excitatory!r}"
            )
        check_positive("radius", radius)
        self.excitatory = float(excitatory)
        self.radius = float(radius)
        self.excitatory_units = round(self.excitatory * self.size)
        self.raw = Parameter(torch.empty(self.size**2))
        self.reset()

    def signs(self, like: Tensor) -> Tensor:  # (N,)
        """Return d, with the dtype and on the device of a tensor."""
        d = like.new_ones(self.size)
        d[self.excitatory_units :] = -1
        return d

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self.raw.normal_(generator=generator).abs_()
        if self.raw.is_meta:  # there is no spectral radius
            return
        W = self._matrix()
        balance_(W, self.radius)
        self.raw.copy_(W.abs().flatten())

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        check_finite(W)
        wide = W.detach().to(self.device, torch.float64)
        return float(torch.linalg.matrix_norm((-wide * self.signs(wide)).relu()))

    def from_raw(
        self,
        R: Tensor,  # (N, N)
    ) -> Tensor:  # (N, N)
        """Return W from R."""
        # |R|, but the derivative of torch.abs is 0 at 0, where this one's is 1
        return torch.where(R < 0, -R, R) * self.signs(R)

    def _matrix(self) -> Tensor:
        return self.from_raw(self.raw.view(self.size, self.size))

    def _assign(self, W: Tensor) -> None:
        # rounding may leave a wrong sign
        self.raw.copy_((W * self.signs(W)).relu().flatten())

    def extra_repr(self) -> str:
        return f"{self.size}, excitatory={self.excitatory:g}"


def balance_(
    W: Tensor,  # (N, N)
    radius: float,
) -> None:
    """Scale the inhibition of each row to its excitation, and then W to a spectral radius.

    A row without one of the two stays as it is, and so does the size of a matrix of radius zero.
    """
    excitation = W.relu().sum(1)
    inhibition = (-W).relu().sum(1)
    both = (excitation > 0) & (inhibition > 0)
    # the inner `where` avoids 0 / 0 in rows that keep their values
    ratio = torch.where(both, excitation / torch.where(both, inhibition, 1), 1)
    W.copy_(torch.where(W < 0, W * ratio[:, None], W))
    found = float(torch.linalg.eigvals(W.double()).abs().max())
    if found > 0:
        W.mul_(radius / found)
