"""Orthogonal and unitary matrices as layers of rotations of pairs of units."""

import math
from typing import Literal

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints.base import Constraint, real_type
from eigenrnn.errors import check_positive_integer
from eigenrnn.linalg import orthogonality_error

__all__ = ["Givens"]


class Givens(Constraint):
    r"""Orthogonal or unitary matrices as layers of rotations, each of a pair of units.

    .. math:: W = D F_L \cdots F_2 F_1, \qquad D = \operatorname{diag}(e^{i \omega}), \qquad
        F: \begin{pmatrix} h_i \\ h_j \end{pmatrix} \mapsto
        \begin{pmatrix} \cos \theta & -e^{i \phi} \sin \theta \\
        \sin \theta & e^{i \phi} \cos \theta \end{pmatrix}
        \begin{pmatrix} h_i \\ h_j \end{pmatrix}

    W is unitary for all angles; a real W has no phases and no D. N tunable layers reach all
    unitary matrices or, if real, all rotations. Fewer layers reach only a subset of lower
    dimension, in which the angles of a matrix have no closed form. So `residual` measures the
    distance from all unitary matrices, and `assign` raises an error.

    Args:
        size: The number N of rows and columns.
        layers: The number L of layers; 2 by default in the tunable style. The FFT style always
            has :math:`\log_2 N`.
        style: ``"tunable"`` pairs neighbours: (0, 1), (2, 3), ... in layers 1, 3, ..., and
            (1, 2), (3, 4), ... in layers 2, 4, ..., which leave the first and last unit as they
            are; ``"fft"`` pairs units at the distances N/2, N/4, ..., 1.
        dtype: The type of W, such as `torch.complex64`; torch's default real type by default.
    Shape:
        theta: :math:`(R,)`, one angle for each of the R rotations, by layer and then by i.
        phi: :math:`(R,)`; only if W is complex.
        omega: :math:`(N,)`; only if W is complex.
    Units:
        All angles in radians.
    Raises:
        ValueError: If N is odd in the tunable style or not a power of two in the FFT style,
            `layers` is not a positive integer or, in the FFT style, not :math:`\log_2 N`,
            `style` is unknown, or `dtype` is not a real or complex type of float32 precision or
            better.
    Source:
        Jing et al., ICML 2017, section 4. https://arxiv.org/abs/1612.05231 (departures: angles
        are drawn from :math:`U(-\pi, \pi)`, where the code writes 3.14; L may be odd; the code
        applies the same layers in the same order to row vectors).
    Example:
        >>> W = Givens(8, layers=4)()
        >>> torch.allclose(W @ W.T, torch.eye(8), atol=1e-6)
        True
    """

    tensor_attributes = ("partner", "first", "second")

    phi: Parameter
    omega: Parameter

    def __init__(
        self,
        size: int,
        *,
        layers: int | None = None,
        style: Literal["tunable", "fft"] = "tunable",
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(size)
        if style not in ("tunable", "fft"):
            raise ValueError(f"expected style to be 'tunable' or 'fft', got {style!r}")
        if layers is not None:
            check_positive_integer("layers", layers)
        if style == "tunable":
            pairs = _neighbours(size, layers or 2)
        else:
            pairs = _butterflies(self.size)
        if layers not in (None, len(pairs)):
            raise ValueError(
                f"expected {len(pairs)} layers in the FFT style of size {size}, got {layers}; "
                "omit layers, or use style='tunable'"
            )
        self.style = style
        self.layers = len(pairs)
        self._index(pairs)
        self.is_complex = dtype is not None and dtype.is_complex
        rotations = sum(len(i) for i, _ in pairs)
        real = real_type(dtype)
        self.theta = Parameter(torch.empty(rotations, dtype=real))
        if self.is_complex:
            self.phi = Parameter(torch.empty(rotations, dtype=real))
            self.omega = Parameter(torch.empty(size, dtype=real))
        self.reset()

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        for angles in self.parameters():
            angles.uniform_(-math.pi, math.pi, generator=generator)

    def residual(self, W: Tensor) -> float:
        self._check_shape(W)
        return orthogonality_error(W)

    def _index(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        """Store each unit's partner, and the indices of all pairs in the layers end to end."""
        N = self.size
        # a unit without a partner is its own; on the CPU, as the meta device has no values
        self.partner = torch.arange(N, device="cpu").repeat(len(pairs), 1)
        for layer, (i, j) in zip(self.partner, pairs, strict=True):
            layer[i] = j
            layer[j] = i
        self.first = torch.cat([k * N + i for k, (i, _) in enumerate(pairs)])
        self.second = torch.cat([k * N + j for k, (_, j) in enumerate(pairs)])

    def _matrix(self) -> Tensor:
        # each layer rotates all columns of the product of the layers before it
        own, others = self._scales()
        partner = self.partner.to(self.device)
        # the first layer acts on the identity
        h = torch.diag(own[0]) + torch.diag(others[0])[:, partner[0]]
        for k in range(1, self.layers):
            h = own[k, :, None] * h + others[k, :, None] * h[partner[k]]
        if not self.is_complex:
            return h
        return torch.exp(1j * self.omega)[:, None] * h

    def _scales(self) -> tuple[Tensor, Tensor]:  # (L, N), (L, N)
        """Return each layer's factors of each unit's own state and of its partner's."""
        c = torch.cos(self.theta)
        s = torch.sin(self.theta)
        phase = torch.exp(1j * self.phi) if self.is_complex else torch.ones_like(c)
        c = c.to(phase.dtype)
        s = s.to(phase.dtype)
        one = c.new_ones(self.layers * self.size)
        first = self.first.to(self.device)
        second = self.second.to(self.device)
        own = one.index_put((first,), c).index_put((second,), phase * c)
        others = torch.zeros_like(one).index_put((first,), -phase * s)
        others = others.index_put((second,), s)
        return own.view(-1, self.size), others.view(-1, self.size)

    def extra_repr(self) -> str:
        options = f"{self.size}, layers={self.layers}, style={self.style!r}"
        if self.is_complex:
            options += f", dtype={self.dtype}"
        return options


def _neighbours(n: int, layers: int) -> list[tuple[Tensor, Tensor]]:
    """Return the units i and j of the pairs of each layer in the tunable style.

    Raises:
        ValueError: If n is odd.
    """
    if n % 2:
        raise ValueError(f"expected an even size, got {n}; use {n + 1}")
    pairs: list[tuple[Tensor, Tensor]] = []
    for k in range(layers):
        i = torch.arange(k % 2, n - 1, 2, device="cpu")
        pairs.append((i, i + 1))
    return pairs


def _butterflies(n: int) -> list[tuple[Tensor, Tensor]]:
    """Return the units i and j of the pairs of each layer in the FFT style.

    Raises:
        ValueError: If n is not a power of two above one.
    """
    if n < 2 or n & (n - 1):
        raise ValueError(
            f"expected a power of two above one as the size of the FFT style, got {n}; "
            f"use {max(2, 1 << n.bit_length())} or style='tunable'"
        )
    q = torch.arange(n // 2, device="cpu")
    pairs: list[tuple[Tensor, Tensor]] = []
    for k in range(1, n.bit_length()):
        distance = n >> k
        # i runs over the numbers without the bit of the distance, which j = i + distance has
        i = q // distance * 2 * distance + q % distance
        pairs.append((i, i + distance))
    return pairs
