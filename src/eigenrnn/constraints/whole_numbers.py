"""One matrix of whole numbers, which does not train."""

from collections.abc import Iterator

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint

__all__ = ["WholeNumbers"]


class WholeNumbers(Constraint):
    r"""The set of one matrix, of whole numbers with one scale a row.

    .. math:: W_{ij} = s_i\, q_{ij}

    `eigenrnn.export.round_recurrent` puts it in the place of a trained set. Nothing of it trains,
    and its weights in a state_dict have all that an export needs.

    Args:
        size: The number N of rows and columns; the matrix is zero until `hold` is called.
    """

    has_products = False

    integers: Tensor  # (N, N)

    def __init__(self, size: int) -> None:
        super().__init__(size)
        # no gradient reaches a parameter that is detached, also not if a model unfreezes all
        self.scales = Parameter(torch.zeros(self.size), requires_grad=False)
        self.register_buffer("integers", torch.zeros(self.size, self.size, dtype=torch.int32))

    @torch.no_grad()
    def hold(self, integers: Tensor, scales: Tensor) -> None:
        """Set the matrix: whole numbers, (N, N), and scales of 16 significant bits, (N,)."""
        self.integers.copy_(integers)
        self.scales.copy_(scales)

    def reset(self, generator: Generator | None = None) -> None:
        """Leave the matrix, the only one of the set."""

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        return float((W.double() - self._matrix().double()).abs().max())

    def _matrix(self) -> Tensor:
        return self.scales.detach()[:, None] * self.integers

    def recurrent_parameters(self) -> Iterator[Parameter]:
        return iter(())
