"""All square matrices."""

from torch import Generator, Tensor, empty
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.init import Initializer, fan_uniform_

__all__ = ["Unconstrained"]


class Unconstrained(Constraint):
    r"""The set of all real N x N matrices, as `torch.nn.RNN` trains them.

    .. math:: W = \text{raw}

    The spectrum is not constrained: gradients may explode or vanish.

    Args:
        size: The number N of rows and columns.
        init: The initialiser, in place, such as `eigenrnn.init.haar_`; by default
            :math:`U(-1/\sqrt N, 1/\sqrt N)`, as in `torch.nn.RNN`.
    Shape:
        raw: :math:`(N, N)`.
    Raises:
        ValueError: If `size` is not a positive integer.
    Source:
        Elman, Cognitive Science 14, 1990. https://doi.org/10.1207/s15516709cog1402_1
        (departures: none).
    Example:
        >>> Unconstrained(3)().shape
        torch.Size([3, 3])
    """

    constrained = False
    has_products = False

    def __init__(self, size: int, *, init: Initializer = fan_uniform_) -> None:
        super().__init__(size)
        self.init = init
        self.raw = Parameter(empty(size, size))
        self.reset()

    def reset(self, generator: Generator | None = None) -> None:
        self.init(self.raw, generator=generator)

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        return 0.0  # every matrix is inside

    def _matrix(self) -> Tensor:
        return self.raw

    def _assign(self, W: Tensor) -> None:
        self.raw.copy_(W)
