"""Orthogonal matrices as products of Householder reflections."""

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint
from eigenrnn.errors import check_positive_integer
from eigenrnn.linalg import (
    check_finite,
    normalise_,
    orthogonality_error,
    reflection_count,
    reflection_product,
    upper_rows,
)

__all__ = ["Householder", "checked_reflections"]


def checked_reflections(reflections: int | None, size: int) -> int:
    """Return a number of reflections of N x N matrices, by default N.

    Raises:
        ValueError: If it is not between 1 and N.
    """
    if reflections is None:
        return size
    check_positive_integer("reflections", reflections)
    if reflections > size:
        raise ValueError(
            f"expected 1 <= reflections <= {size}, got {reflections}; {size} reach all of the set"
        )
    return reflections


class Householder(Constraint):
    r"""Orthogonal matrices as products of m Householder reflections.

    .. math:: W = H_1 H_2 \cdots H_m, \qquad
        H_k = I - 2 \frac{v_k v_k^\top}{v_k^\top v_k}, \qquad
        v_k \in \{0\}^{k - 1} \times \mathbb R^{N - k + 1}

    W is orthogonal for all v. With m = N the last reflection only multiplies the last column by a
    sign, and every orthogonal matrix can be reached. Fewer reflections need fewer numbers and
    reach the matrices with :math:`\operatorname{rank}(I - W) \le m` and :math:`\det W = (-1)^m`.
    `assign` raises an error.

    Args:
        size: The number N of rows and columns.
        reflections: The number m; N by default.
    Shape:
        raw: :math:`(m N - m (m - 1) / 2,)`, the free entries of one vector after the other; one
        number fewer if m = N, where `sign` replaces the last reflection, of one coordinate.
        sign: :math:`()`, the sign of the last column, 1 unless m = N.
    Raises:
        ValueError: If `reflections` is not a positive integer or exceeds `size`.
    Source:
        Mhammedi, Hellicar, Rahman and Bailey, ICML 2017. https://arxiv.org/abs/1612.00188
        (departures: the map divides each vector by its length, so the gradient is orthogonal to
        it; the paper and its code assume a length of one. Both rescale the vectors after a step.
        The sign is drawn at initialisation and not trained, because its derivative is zero).
    Example:
        >>> W = Householder(8, reflections=3)()
        >>> torch.allclose(W @ W.T, torch.eye(8), atol=1e-6)
        True
    """

    needs_advance = True

    sign: Tensor

    def __init__(self, size: int, *, reflections: int | None = None) -> None:
        super().__init__(size)
        self.reflections = checked_reflections(reflections, size)
        self.vectors = min(self.reflections, size - 1)  # the N-th reflection is a sign
        self.raw = Parameter(torch.empty(reflection_count(self.vectors, size)))
        self.register_buffer("sign", torch.ones(()))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self.raw.normal_(0, 0.01, generator=generator)  # only the directions remain
        normalise_(self.raw, self.vectors, self.size)
        self.sign.fill_(1)
        if self.reflections == self.size:
            self.sign.copy_(torch.empty_like(self.sign).normal_(generator=generator).sign())

    @torch.no_grad()
    def advance(self) -> None:
        normalise_(self.raw, self.vectors, self.size)  # leaves W as it is

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        error = orthogonality_error(W)
        if self.reflections == self.size:
            return error
        I = torch.eye(self.size, dtype=torch.float64, device=W.device)
        check_finite(W)
        # I - W has at most rank m: its singular values beyond the m-th are zero
        beyond = torch.linalg.svdvals(I - W.detach().double())[self.reflections :]
        return float(torch.hypot(beyond.norm(), beyond.new_tensor(error)))

    def _matrix(self) -> Tensor:
        V = upper_rows(self.raw, self.vectors, self.size)
        W = reflection_product(V)
        return torch.cat([W[:, :-1], self.sign * W[:, -1:]], dim=1)

    def extra_repr(self) -> str:
        return f"{self.size}, reflections={self.reflections}"
