"""Layers with a linear recurrence: the LRU and the minimal gated recurrent unit."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, TypeVar, Unpack, cast

import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.constraints import Constraint, DiagonalDisc
from eigenrnn.constraints.diagonal import AbstractDiagonal
from eigenrnn.init import Initializer, fan_uniform_, zeros_
from eigenrnn.layers.direction import (
    AbstractDirection,
    Blocks,
    LayerConfig,
    StackConfig,
    without_autocast,
)
from eigenrnn.layers.options import LayerOptions
from eigenrnn.layers.stacked import Stacked
from eigenrnn.linalg import at_least_float32
from eigenrnn.ops.compiled import make_stepper
from eigenrnn.ops.dispatch import in_forced_block
from eigenrnn.ops.linear import BACKENDS, LinearOperands, LinearOptions, evaluate
from eigenrnn.ops.linear.layer import LRUOperands, lru
from eigenrnn.ops.time_steps import running, without_padding
from eigenrnn.torch_internals import hooks_of_call
from eigenrnn.tracing import autocasts, check_weights, is_eager

_D = TypeVar("_D", bound="AbstractDiagonalDirection")

__all__ = [
    "LRU",
    "AbstractDiagonalDirection",
    "LRUDirection",
    "LinearLayer",
    "MinGRU",
    "MinGRUDirection",
]


class AbstractDiagonalDirection(AbstractDirection):
    """The base class of directions with a linear recurrence: `matrices` gives diagonal ones."""

    has_matrix = False

    def matrices(self) -> list[Tensor]:
        frozen = self.frozen
        diagonal = self._concatenated() if frozen is None else frozen
        return [diagonal.diag()]

    def step(
        self,
        x: Tensor,  # (B, M)
        state: Tensor,  # (B, S)
    ) -> tuple[Tensor, Tensor]:  # (B, N), (B, S)
        """Compute the output and the new state of one time step."""
        y, last = self(x.unsqueeze(0), state)
        return y.squeeze(0), last


class LRUDirection(AbstractDiagonalDirection):
    r"""One LRU layer in one direction.

    The formulas are those of `LRU`. Complex weights and states are stored as real numbers: the
    real parts first, then the imaginary parts. S is 2N, or N if the eigenvalues are real.

    Args:
        config: The sizes, the constraint of the eigenvalues, and the initialisers.
    Shape:
        weight_ih: :math:`(S, M)`, B.
        gamma_log: :math:`(N,)`, the logarithm of :math:`\gamma`.
        weight_out: :math:`(N, S)`, C.
        weight_skip: :math:`(N, M)`, D.
        output_bias: :math:`(N,)`, b, or None.
        h0: :math:`(S,)`, or None.
    Raises:
        ValueError: If the constraint is not a set of diagonal matrices.
        TypeError: If `constraint` does not return a `Constraint`.
    """

    input_bias = None
    outputs_states = False
    rates = ("gamma_log",)

    def __init__(self, config: LayerConfig) -> None:
        super().__init__(config)
        (constraint,) = self.constraints()
        if not isinstance(constraint, AbstractDiagonal):
            raise ValueError(
                "expected a set of diagonal matrices, such as DiagonalDisc, DiagonalRing or "
                f"DiagonalSegment, got {constraint}: use RNN for a full matrix"
            )
        N = self.hidden_size
        M = config.input_size
        self.output_size = N
        self.gamma_log = Parameter(torch.empty(N))
        self.weight_out = Parameter(torch.empty(N, self.state_size))
        self.weight_skip = Parameter(torch.empty(N, M))
        self.output_bias = self._parameter("output_bias", N)

    @torch.no_grad()
    def reset(
        self, generator: Generator | None = None, others: Mapping[str, Blocks] | None = None
    ) -> None:
        super().reset(generator, others)
        # gamma = sqrt(1 - |lambda|^2): under white noise the states have the variance of B x
        power = 1 - self.eigenvalues.diagonal().abs().square()
        # on the unit circle gamma would be zero
        self.gamma_log.copy_(power.clamp(min=torch.finfo(power.dtype).eps).log() / 2)

    @property
    def eigenvalues(self) -> AbstractDiagonal:
        """The set of the eigenvalues."""
        return cast("AbstractDiagonal", self.constraint)

    @property
    def scaled_input(self) -> Tensor:  # (2, N, M), or (1, N, M) if the eigenvalues are real
        r"""The input map :math:`\gamma \odot B`, its real parts and its imaginary ones."""
        return self.weight_ih.unflatten(0, (-1, self.hidden_size)) * self.gamma_log.exp()[:, None]

    def knows_gaps(self) -> bool:
        return self.eigenvalues.is_complex

    @without_autocast
    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, S)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
        last_only: bool = False,
        resets: Tensor | None = None,  # (T, B)
        dt: Tensor | None = None,  # (T, B)
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), which mean nothing with `last_only`, and (B, S)
        decay = self._cast(self.weight_hh)  # the constraint is evaluated here and nowhere else
        if decay.is_complex():
            decay = torch.view_as_real(decay.resolve_conj()).flatten()
        wide = at_least_float32(x.dtype)
        if dt is not None:
            dt = dt.to(wide)
        gamma_log = self.gamma_log
        if gamma_log.shape != (self.hidden_size,):  # one for all units; else torch's error
            gamma_log = gamma_log.expand(self.hidden_size)
        output_map = self.weight_out, self.weight_skip, self.output_bias
        if last_only:
            output_map = None, None, None
        operands = LRUOperands(
            x, decay.to(wide), h0, self.weight_ih, gamma_log, *output_map, resets=resets, dt=dt
        )
        y, last = lru(operands, LinearOptions(batch_sizes, reverse, last_only), backend)
        if y is None:
            return last, last
        if batch_sizes is not None:
            y = torch.where(running(batch_sizes, y), y, 0.0)  # without the bias in the padding
        return y, last

    def input_weights(self) -> list[Tensor]:
        parts = self.scaled_input
        return [torch.complex(*parts) if len(parts) == 2 else parts[0]]

    def stepper(self) -> Any:
        decay = self.weight_hh
        if decay.is_complex():
            decay = torch.view_as_real(decay.resolve_conj()).flatten()
        weights = {
            "decay": decay,
            "U": self.weight_ih,
            "gamma_log": self.gamma_log,
            "V": self.weight_out,
            "D": self.weight_skip,
            "d": self.output_bias,
        }
        N, M = self.weight_ih.shape
        return make_stepper("lru", weights, {"N": N, "M": M, "K": self.hidden_size})

    @without_autocast
    def output_at(self, x: Tensor, state: Tensor) -> Tensor:
        if self.state_size > self.hidden_size:  # the real part of a product of complex numbers
            real, imaginary = state.chunk(2, dim=-1)
            state = torch.cat([real, -imaginary], dim=-1)
        return F.linear(state, self.weight_out, self.output_bias) + F.linear(x, self.weight_skip)

    def _concatenated(self) -> Tensor:  # (N,)
        # the call of a constraint checks them, but its matrix is not needed here
        eigenvalues = self.eigenvalues
        if any(hooks_of_call(eigenvalues)):  # such as those of torch.nn.utils.prune
            return eigenvalues().diagonal()
        check_weights(eigenvalues)
        return eigenvalues.diagonal()


class LinearLayer(Stacked[_D]):
    """The base class of layers that compute a single step without the recurrence."""

    def _run_step(
        self,
        x: Tensor,  # (B, M)
        h0: Tensor,  # (L, B, S)
    ) -> tuple[Tensor, Tensor]:  # (B, N), (L, B, S)
        directions = self.all_directions()
        # whatever watches or changes a call of the recurrence must see one
        if (
            not is_eager()
            or self.backend is not None
            or in_forced_block()
            or autocasts(x.device.type)
            or (self.training and self.dropout)
            or any(any(hooks_of_call(direction)) for direction in directions)
        ):
            return super()._run_step(x, h0)
        last: list[Tensor] = []
        for direction, state in zip(directions, h0, strict=True):
            x, state = direction.step(x, state)  # noqa: PLW2901, the state after the step
            last.append(state)
        return x, torch.stack(last)


class LRU(LinearLayer[LRUDirection]):
    r"""Linear recurrent unit: a linear recurrence of N independent complex units.

    .. math:: h_t = \lambda \odot h_{t-1} + \gamma \odot B x_t, \qquad
        y_t = \operatorname{Re}(C h_t) + D x_t + b, \qquad \lambda \in \mathcal S

    The states are complex and the outputs real, both of size N = `hidden_size`. All weights are
    real numbers, so ``.double()`` computes in double precision: complex ones are stored as real
    parts followed by imaginary parts. There is no nonlinearity in time; put one between layers,
    for instance with `ResidualStack`. The recurrence costs a step :math:`O(N)` operations, and
    whole sequences run in parallel over time on a backend that supports it.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of complex states, and of real outputs, in each layer and
            direction.
        num_layers: The number of stacked layers.
        bias: Whether the outputs have a bias, initialised to zero.
        constraint: A function of N that returns the set of the eigenvalues: `DiagonalDisc`,
            `DiagonalRing` or `DiagonalSegment`. States are real if the set is.
        r_min: The smallest modulus of the initial eigenvalues of a `DiagonalDisc` or
            `DiagonalRing`. With moduli near one the states remember more time steps. The default
            is that of the set.
        r_max: The largest modulus of the initial eigenvalues.
        options: The other arguments of torch, and the options of every layer; see `Stacked`.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        h0: :math:`(L D, B, 2N)` or :math:`(L D, 2N)` for L layers of D directions, real parts
        first; N in place of 2N if the eigenvalues are real.
        output: :math:`(T, B, D N)`, in the layout of the input.
        h_n: as h0.
    Raises:
        ValueError: If a size, a probability, a radius or a shape is invalid, or the constraint is
            not a set of diagonal matrices.
        TypeError: If `constraint` does not return a `Constraint`, or lacks an option that is set,
            or dtypes differ.
    Source:
        Orvieto et al., ICML 2023, section 3 and appendix A. https://arxiv.org/abs/2303.06349
        (departures: D is a full matrix, so that the output may have another size than the input;
        the outputs have a bias). Locked dropout: Gal and Ghahramani, NeurIPS 2016.
        https://arxiv.org/abs/1512.05287 (departures: only between layers, as in AWD-LSTM).
    Example:
        >>> layer = LRU(2, 8, r_min=0.9, r_max=0.999)
        >>> output, h_n = layer(torch.randn(5, 3, 2))
        >>> output.shape, h_n.shape, bool((layer.spectrum().abs() < 1).all())
        (torch.Size([5, 3, 8]), torch.Size([1, 3, 16]), True)
    """

    backends = BACKENDS
    nonlinearity = "identity"
    set_options: ClassVar[frozenset[str]] = frozenset({"r_min", "r_max"})
    """The arguments that are passed on to the set, which has their defaults."""

    def __init__(
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
        constraint: Callable[..., Constraint] = DiagonalDisc,
        r_min: float | None = None,
        r_max: float | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        if r_min is not None:
            constraint = partial(constraint, r_min=r_min)
        if r_max is not None:
            constraint = partial(constraint, r_max=r_max)
        # as in appendix A of the paper: real and imaginary parts have the variance 1 / (2 M) in
        # B, and 1 / N in C
        initializers: dict[str, Sequence[Initializer]] = {
            "weight_ih": [partial(_fan_normal_, factor=0.5)],
            "weight_out": [partial(_fan_normal_, factor=2.0)],  # over the 2 N numbers of a state
            "weight_skip": [partial(_fan_normal_, factor=1.0)],
        }
        if bias:
            initializers["output_bias"] = [zeros_]
        stack = StackConfig(num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        config = LayerConfig(
            input_size, hidden_size, stack, {"constraint": constraint}, initializers
        )
        super().__init__(LRUDirection, config, **options)


class MinGRUDirection(AbstractDiagonalDirection):
    r"""One minGRU layer in one direction: an update gate, a candidate and no recurrent matrix.

    The formulas are those of `MinGRU`.

    Args:
        config: The sizes and the initialisers: two each for the input map and the bias.
        decays: The ends l and u of the segment of the decays.
    Shape:
        weight_ih: :math:`(2 N, M)`, the rows of :math:`U_z` and :math:`U_h`.
        input_bias: :math:`(2 N,)`, :math:`b_z, b_h`, or None.
        h0: :math:`(N,)`, or None.
    """

    gates = ("decay",)  # that of the input zero

    def __init__(self, config: LayerConfig, decays: tuple[float, float]) -> None:
        super().__init__(config)
        self.decays = decays
        self.input_bias = self._parameter("input_bias", 2 * self.hidden_size)

    @without_autocast
    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, N)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
        last_only: bool = False,
        resets: Tensor | None = None,  # (T, B)
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
        scaled, decay = self._terms(without_padding(x, batch_sizes))
        operands = LinearOperands(scaled, decay, h0.to(scaled.dtype), resets)
        return evaluate(operands, LinearOptions(batch_sizes, reverse, last_only), backend)

    def step(
        self,
        x: Tensor,  # (B, M)
        state: Tensor,  # (B, N)
    ) -> tuple[Tensor, Tensor]:  # (B, N), (B, N)
        scaled, decay = self._terms(x)
        h = scaled + decay * state
        return h, h

    def stepper(self) -> Any:
        low, high = self.decays
        weights = {"weight_ih": self.weight_ih, "input_bias": self.input_bias}
        options = {"N": self.hidden_size, "M": self.weight_ih.shape[1], "low": low, "high": high}
        return make_stepper("min_gru", weights, options)

    def input_weights(self) -> list[Tensor]:
        return [self.weight_ih[: self.hidden_size]]

    def _terms(
        self,
        x: Tensor,  # (..., M)
    ) -> tuple[Tensor, Tensor]:  # (..., N), (..., N)
        """Return the candidates times their gates, and the decays."""
        gate, candidate = F.linear(x, self.weight_ih, self.input_bias).chunk(2, dim=-1)
        return torch.sigmoid(gate) * _positive(candidate), self._decay(gate)

    def _decay(self, gate: Tensor) -> Tensor:
        low, high = self.decays
        kept = torch.sigmoid(-gate)  # 1 - sigmoid(gate), without its cancellation
        if self.decays == (0, 1):
            return kept
        return low + (high - low) * kept

    def _concatenated(self) -> Tensor:  # (N,)
        """Return the decays of the input zero."""
        if self.input_bias is None:
            return self._decay(self.weight_ih.new_zeros(self.hidden_size))
        return self._decay(self.input_bias[: self.hidden_size])


class MinGRU(LinearLayer[MinGRUDirection]):
    r"""Minimal GRU: a linear recurrence whose decay is a gate of the input alone.

    .. math::
        z_t = \sigma(U_z x_t + b_z), \qquad
        \tilde h_t = g(U_h x_t + b_h), \qquad
        h_t = (1 - z_t) \odot h_{t-1} + z_t \odot \tilde h_t

    g(v) is :math:`v + 1/2` where v is not negative, and :math:`\sigma(v)` elsewhere. No gate
    depends on the state, so all gates are computed at once, and the recurrence is linear in the
    state. The paper evaluates it in logarithms to scan in parallel; here a decay near zero needs
    no logarithm. With `decays=(-1, 1)` the factor :math:`1 - z_t` becomes
    :math:`1 - 2 z_t`: negative decays let a unit change its sign, which counting modulo two needs.

    `recurrent_matrices` and `spectrum` return the decays of the input zero.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units in each layer and direction.
        num_layers: The number of stacked layers.
        bias: Whether there are biases.
        decays: The ends l < u of the segment of the decays
            :math:`l + (u - l)(1 - z_t)`.
        options: The other arguments of torch, and the options of every layer; see `Stacked`.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        h0: :math:`(L D, B, N)` or :math:`(L D, N)` for L layers of D directions.
        output: :math:`(T, B, D N)`, in the layout of the input.
        h_n: as h0.
    Raises:
        ValueError: If a size, a probability or a shape is invalid, or `decays` are not two
            numbers with -1 <= l < u <= 1.
        TypeError: If dtypes differ.
    Source:
        Feng et al., 2024, section 3.1 and appendix B.2 for g. https://arxiv.org/abs/2410.01201
        (departures: no logarithms, and the initial state is zero). Negative decays: Grazzi et
        al., ICLR 2025. https://arxiv.org/abs/2411.12537 (departures: of the minGRU).
    Example:
        >>> output, h_n = MinGRU(2, 8, decays=(-1, 1))(torch.randn(5, 3, 2))
        >>> output.shape, h_n.shape
        (torch.Size([5, 3, 8]), torch.Size([1, 3, 8]))
    """

    backends = BACKENDS
    nonlinearity = "identity"

    def __init__(
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
        decays: tuple[float, float] = (0.0, 1.0),
        **options: Unpack[LayerOptions],
    ) -> None:
        low, high = map(float, decays)
        if not -1 <= low < high <= 1:
            raise ValueError(f"expected decays (l, u) with -1 <= l < u <= 1, got {decays!r}")
        self.decays = low, high
        initializers: dict[str, Sequence[Initializer]] = {"weight_ih": [fan_uniform_] * 2}
        if bias:
            initializers["input_bias"] = [fan_uniform_] * 2
        stack = StackConfig(num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        config = LayerConfig(input_size, hidden_size, stack, {}, initializers)
        super().__init__(partial(MinGRUDirection, decays=self.decays), config, **options)

    def _recurrence_defaults(self) -> dict[str, Any]:
        return {"decays": (0.0, 1.0)}


def _positive(v: Tensor) -> Tensor:
    """Return g(v), which is positive, continuous and increasing; at 0 with the left derivative."""
    above = F.relu(v)
    # v - above is v below zero and 0 elsewhere, where the sigmoid is 1/2; faster than torch.where
    return above + torch.sigmoid(v - above)


@torch.no_grad()
def _fan_normal_(weight: Tensor, *, factor: float, generator: Generator | None = None) -> Tensor:
    """Fill a map of n inputs with normal numbers of variance factor / n."""
    return weight.normal_(0, math.sqrt(factor / weight.shape[-1]), generator=generator)
