"""asRNN: a tanh network that an orthogonal one lies inside of."""

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints import Constraint, Exponential
from eigenrnn.errors import NoInverseError, NotInSetError
from eigenrnn.init import orthogonal_, zeros_
from eigenrnn.layers.abstract_direction import AbstractDirection, make_unseen
from eigenrnn.layers.stacked import Stacked
from eigenrnn.linalg import orthogonality_error
from eigenrnn.ops import elman
from eigenrnn.ops.elman import BACKENDS
from eigenrnn.tracing import autocasts

__all__ = ["AsRNN"]


class AsDirection(AbstractDirection):
    r"""One layer of `AsRNN` in one direction.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        constraint: A function of N that makes the constraint of W.
        mixing: A function of N that makes the constraint of :math:`U_f`.
        bias: Whether there is a bias b.
        scale: The bounds of the start of s.
        epsilon: Added to :math:`|s|`.
        trainable_h0: Whether the state before the first step is trained, from zero.
    Shape:
        s: :math:`(N,)`, before its absolute value is taken.
        input_bias: :math:`(N,)`, b, or None.
    """

    def __init__(  # noqa: PLR0913, it holds what AsRNN was given
        self,
        input_size: int,
        hidden_size: int,
        *,
        constraint: Callable[[int], Constraint],
        mixing: Callable[[int], Constraint],
        bias: bool,
        scale: tuple[float, float],
        epsilon: float,
        trainable_h0: bool,
    ) -> None:
        super().__init__(input_size, hidden_size, 1, trainable_h0=trainable_h0)
        self.scale = scale
        self.epsilon = epsilon
        self.constraint = _make_orthogonal("constraint", constraint, hidden_size)
        self.mixing = _make_orthogonal("mixing", mixing, hidden_size)
        self.s = Parameter(torch.empty(hidden_size))
        self.input_bias = Parameter(torch.empty(hidden_size)) if bias else None

    def constraints(self) -> list[Constraint]:
        return [self.constraint, self.mixing]

    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, N)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
        last_only: bool = False,
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
        if autocasts(x.device.type):
            x, h0 = x.to(self.weight_ih.dtype), h0.to(self.weight_ih.dtype)
            with torch.autocast(x.device.type, enabled=False):
                return self(x, h0, batch_sizes, reverse, backend, last_only)
        W, U_f = self._typed(self.weight_hh).split(self.hidden_size)
        d = self.s.abs() + self.epsilon
        inwards = U_f * d  # W_f
        outwards = U_f.T / d.unsqueeze(1)  # its inverse
        b = None if self.input_bias is None else inwards @ self.input_bias
        # with g = W_f h it is one tanh recurrence, so that it needs no kernel of its own
        g, last = elman(
            x,
            inwards @ W @ outwards,
            h0 @ inwards.T,
            U=inwards @ self.weight_ih,
            c=b,
            nonlinearity="tanh",
            batch_sizes=batch_sizes,
            reverse=reverse,
            backend=backend,
            last_only=last_only,
            **self.options(x),
        )
        return g @ outwards.T, last @ outwards.T

    def load_biases(self, bias_ih: Tensor, bias_hh: Tensor) -> None:
        if self.input_bias is not None:
            self.input_bias.copy_(bias_ih + bias_hh)

    @torch.no_grad()
    def _reset(self, generator: Generator | None) -> None:
        orthogonal_(self.weight_ih, generator=generator)
        self.constraint.reset(generator)
        I = torch.eye(self.hidden_size, dtype=self.mixing.dtype, device=self.mixing.device)
        try:
            self.mixing.assign(I)
        except (NoInverseError, NotInSetError):  # the map does not reach it
            self.mixing.reset(generator)
        self.s.uniform_(*self.scale, generator=generator)
        if self.input_bias is not None:
            zeros_(self.input_bias)


class AsRNN(Stacked[AsDirection]):
    r"""Adaptive-saturated recurrent network: how much each direction saturates is trained.

    .. math:: h_t = W_f^{-1} \tanh\bigl(W_f (U x_t + b + W h_{t-1})\bigr), \qquad
        W_f = U_f D_f, \quad D_f = \operatorname{diag}(|s| + \epsilon)

    W and :math:`U_f` are orthogonal. Small entries of :math:`D_f` make their directions linear, an
    orthogonal network; large ones make them a tanh network, which can forget.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units of each layer and direction.
        num_layers: How many layers are stacked.
        bias: Whether there is a bias b.
        batch_first: Whether input and output are (B, T, .) in place of (T, B, .).
        dropout: The share of units that dropout silences between two layers while training.
        bidirectional: Whether a second network reads each layer's input from its end.
        device: Where the weights are made.
        dtype: The type of the weights; constraints stay in float32 or better.
        start: The start of W: ``"cayley"``, ``"henaff"`` or ``"haar"``, see `Exponential`;
            ``"cayley"`` by default.
        constraint: A function of N that makes the constraint of W, such as `ScaledCayley`, which
            starts as it does; `Exponential` with `start` by default, as published.
        mixing: A function of N that makes the constraint of :math:`U_f`, which starts at the
            identity, or as the set does where its map does not reach that; `Exponential` by
            default, as published.
        scale: The bounds of the uniform start of s.
        epsilon: The number :math:`\epsilon`.
        trainable_h0: Whether the states before the first step are trained, from zero.
        layer_norm: Whether the argument of tanh is normalised, see `RNN`.
        zoneout: The rate at which a unit of tanh, of :math:`W_f h_t` that is, keeps its state for
            a step while training; in evaluation every unit keeps that share of it.
        locked_dropout: Whether dropout silences the same units at all steps of a sequence.
        backend: Which implementation of the recurrence to use; the fastest possible by default.
        generator: The source of the starting values; torch's global stream by default.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        output: :math:`(T, B, D N)`, as the input is laid out.
    Raises:
        ValueError: If a size, a rate, a bound or a shape is wrong, `start` is given beside
            `constraint`, or one of the two sets is not of real orthogonal matrices.
        TypeError: If `constraint` or `mixing` does not make a `Constraint`.
    Source:
        Nguyen-Duy, Pham and Nguyen, ICLR 2023 tiny papers (departures: none).
    Example:
        >>> AsRNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    backends = BACKENDS
    nonlinearity = "tanh"

    def __init__(  # noqa: PLR0913, what torch's layers take and a few more
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        start: Literal["cayley", "henaff", "haar"] | None = None,
        constraint: Callable[[int], Constraint] | None = None,
        mixing: Callable[[int], Constraint] = Exponential,
        scale: tuple[float, float] = (0.02, 0.02),
        epsilon: float = 0.01,
        trainable_h0: bool = False,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        locked_dropout: bool = False,
        backend: str | None = None,
        generator: Generator | None = None,
    ) -> None:
        if not (0 <= scale[0] <= scale[1] < math.inf and 0 < epsilon < math.inf):
            raise ValueError(
                "expected finite 0 <= scale[0] <= scale[1] and epsilon > 0, "
                f"got {scale} and {epsilon}"
            )
        if start is not None and constraint is not None:
            raise ValueError(
                f"expected either start or constraint, got start={start!r} beside a constraint; "
                "give the start to the constraint itself"
            )
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            batch_first=batch_first,
            dropout=dropout,
            bidirectional=bidirectional,
            backend=backend,
            layer_norm=layer_norm,
            zoneout=zoneout,
            locked_dropout=locked_dropout,
        )
        self.bias = bias
        make = partial(
            AsDirection,
            hidden_size=hidden_size,
            constraint=constraint or partial(Exponential, start=start or "cayley"),
            mixing=mixing,
            bias=bias,
            scale=scale,
            epsilon=epsilon,
            trainable_h0=trainable_h0,
        )
        self._stack(make, generator, device, dtype)

    def _measured(self) -> Tensor:  # (L D, N, N)
        return torch.stack([d.matrices()[0] for d in self.all_directions()])

    def _own_defaults(self) -> dict[str, Any]:
        return {"bias": True}


def _make_orthogonal(name: str, make: Callable[[int], object], size: int) -> Constraint:
    """Make the constraint of W or of U_f.

    Raises:
        ValueError: If its matrices are complex, or not orthogonal for all raw parameters.
    """
    made = make_unseen(make, size)
    if made.is_complex or not _stays_orthogonal(made):
        raise ValueError(
            f"expected {name} to make a set of real orthogonal matrices, got {made}; use "
            "Exponential, ScaledCayley or Householder"
        )
    return made


@torch.no_grad()
def _stays_orthogonal(made: Constraint) -> bool:
    if made.device.type == "meta":  # where there is nothing to measure
        return True
    moved = copy.deepcopy(made)
    for raw in moved.parameters():  # sets that contain others may start orthogonal
        raw.add_(torch.linspace(0.1, 0.3, raw.numel()).to(raw).view_as(raw))
    return orthogonality_error(moved()) <= moved.tolerance
