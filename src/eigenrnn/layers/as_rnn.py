"""AsRNN: a tanh network that contains the orthogonal linear network as a special case."""

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
from eigenrnn.layers.direction import AbstractDirection, construct_constraint
from eigenrnn.layers.stacked import Stacked
from eigenrnn.linalg import orthogonality_error
from eigenrnn.ops import elman
from eigenrnn.ops.elman import BACKENDS
from eigenrnn.tracing import autocasts

__all__ = ["AsRNN"]


class AsDirection(AbstractDirection):
    r"""One layer of `AsRNN` in one direction.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        constraint: A function of N that returns the constraint of W.
        mixing: A function of N that returns the constraint of :math:`U_f`.
        bias: Whether there is a bias b.
        scale: The bounds of the uniform distribution that initialises s.
        epsilon: Added to :math:`|s|`.
        trainable_h0: Whether the initial state is trained; initialised to zero.
    Shape:
        s: :math:`(N,)`, signed; the layer uses :math:`|s|`.
        input_bias: :math:`(N,)`, b, or None.
    """

    def __init__(  # noqa: PLR0913, the options of AsRNN
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
        self.constraint = _construct_orthogonal("constraint", constraint, hidden_size)
        self.mixing = _construct_orthogonal("mixing", mixing, hidden_size)
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
        W, U_f = self._cast(self.weight_hh).split(self.hidden_size)
        d = self.s.abs() + self.epsilon
        W_f = U_f * d
        W_f_inverse = U_f.T / d.unsqueeze(1)
        b = None if self.input_bias is None else W_f @ self.input_bias
        # in terms of g = W_f h this is a plain tanh recurrence, so it needs no kernel of its own
        g, last = elman(
            x,
            W_f @ W @ W_f_inverse,
            h0 @ W_f.T,
            U=W_f @ self.weight_ih,
            c=b,
            nonlinearity="tanh",
            batch_sizes=batch_sizes,
            reverse=reverse,
            backend=backend,
            last_only=last_only,
            **self.norm_zoneout_kwargs(x),
        )
        return g @ W_f_inverse.T, last @ W_f_inverse.T

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
        except (NoInverseError, NotInSetError):  # the identity cannot be assigned
            self.mixing.reset(generator)
        self.s.uniform_(*self.scale, generator=generator)
        if self.input_bias is not None:
            zeros_(self.input_bias)


class AsRNN(Stacked[AsDirection]):
    r"""Adaptive-saturated RNN: it learns how much each direction of the state saturates.

    .. math:: h_t = W_f^{-1} \tanh\bigl(W_f (U x_t + b + W h_{t-1})\bigr), \qquad
        W_f = U_f D_f, \quad D_f = \operatorname{diag}(|s| + \epsilon)

    W and :math:`U_f` are orthogonal. Where an entry of :math:`D_f` is small, the layer is nearly
    linear and keeps its state; where it is large, tanh saturates and the layer can forget. Use it
    when a task needs both.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units in each layer and direction.
        num_layers: The number of stacked layers.
        bias: Whether there is a bias b.
        batch_first: Whether input and output are (B, T, .) instead of (T, B, .).
        dropout: The dropout probability between two layers while training.
        bidirectional: Whether each layer also reads its input backwards, with weights of its own.
        device: The device of the weights.
        dtype: The dtype of the weights; constraints stay in float32 or better.
        init: The initialisation of W: ``"cayley"``, ``"henaff"`` or ``"haar"``, see
            `Exponential`; ``"cayley"`` by default.
        constraint: A function of N that returns the constraint of W, such as `ScaledCayley`, which
            keeps its own initialisation; by default `Exponential` with `init`, as published.
        mixing: A function of N that returns the constraint of :math:`U_f`; `Exponential` by
            default, as published. :math:`U_f` is initialised to the identity; if
            that cannot be assigned, by the set's own initialisation.
        scale: The bounds of the uniform distribution that initialises s.
        epsilon: The number :math:`\epsilon`.
        trainable_h0: Whether the initial states are trained; initialised to zero.
        layer_norm: Whether the argument of tanh is normalised, see `RNN`.
        zoneout: The probability that a unit of :math:`W_f h_t` keeps its state for a time step
            while training; in evaluation the new state is the expected one.
        locked_dropout: Whether dropout uses one mask for all time steps of a sequence.
        backend: The name of the implementation of the recurrence; the fastest available by
            default.
        generator: The generator that draws the weights; torch's global one by default.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        output: :math:`(T, B, D N)`, in the layout of the input.
    Raises:
        ValueError: If a size, a probability, a bound or a shape is invalid, both `init` and
            `constraint` are set, or a set contains matrices that are not real and orthogonal.
        TypeError: If `constraint` or `mixing` does not return a `Constraint`.
    Source:
        Nguyen-Duy, Pham and Nguyen, ICLR 2023 tiny papers (departures: none).
    Example:
        >>> AsRNN(2, 8)(torch.randn(5, 3, 2))[0].shape
        torch.Size([5, 3, 8])
    """

    backends = BACKENDS
    nonlinearity = "tanh"

    def __init__(  # noqa: PLR0913, the options of torch's layers and further ones
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
        init: Literal["cayley", "henaff", "haar"] | None = None,
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
        if init is not None and constraint is not None:
            raise ValueError(
                f"expected either init or constraint, got init={init!r} beside a constraint; "
                "pass it to the constraint itself"
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
        make_direction = partial(
            AsDirection,
            hidden_size=hidden_size,
            constraint=constraint or partial(Exponential, init=init or "cayley"),
            mixing=mixing,
            bias=bias,
            scale=scale,
            epsilon=epsilon,
            trainable_h0=trainable_h0,
        )
        self._build_directions(make_direction, generator, device, dtype)

    def _spectrum_matrices(self) -> Tensor:  # (L D, N, N)
        return torch.stack([d.matrices()[0] for d in self.all_directions()])

    def _recurrence_defaults(self) -> dict[str, Any]:
        return {"bias": True}


def _construct_orthogonal(name: str, factory: Callable[[int], object], size: int) -> Constraint:
    """Construct the constraint of W or of U_f.

    Raises:
        ValueError: If its matrices are complex, or not orthogonal for all raw parameters.
    """
    constraint = construct_constraint(factory, size)
    if constraint.is_complex or not _stays_orthogonal(constraint):
        raise ValueError(
            f"expected {name} to be a set of real orthogonal matrices, got {constraint}; use "
            "Exponential, ScaledCayley or Householder"
        )
    return constraint


@torch.no_grad()
def _stays_orthogonal(constraint: Constraint) -> bool:
    if constraint.device.type == "meta":  # no values to measure
        return True
    moved = copy.deepcopy(constraint)
    for raw in moved.parameters():  # a larger set may be initialised to an orthogonal matrix
        raw.add_(torch.linspace(0.1, 0.3, raw.numel()).to(raw).view_as(raw))
    return orthogonality_error(moved()) <= moved.tolerance
