"""Layers whose input chooses the spectrum of every step: the delta rule."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Unpack, cast

import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from torch.nn import Parameter

from eigenrnn.errors import check_positive_integer
from eigenrnn.init import Initializer, constant_, zeros_
from eigenrnn.layers.direction import LayerConfig, StackConfig, without_autocast
from eigenrnn.layers.linear import AbstractDiagonalDirection, LinearLayer
from eigenrnn.layers.options import LayerOptions
from eigenrnn.layers.validation import check_input
from eigenrnn.ops.compiled import make_stepper
from eigenrnn.ops.delta import BACKENDS, DeltaOperands, delta
from eigenrnn.ops.delta.reference import DELTA, output, reflect, state_dtype
from eigenrnn.ops.time_steps import first_steps, last_steps, running, without_padding
from eigenrnn.tracing import check_weights

__all__ = ["DeltaNet", "DeltaNetConfig", "DeltaNetDirection"]

_SHORTEST_NORM = 1e-6  # a shorter query or key has no direction
# as in the GatedDeltaNet of flash-linear-attention
_RMS_EPSILON = 1e-5
_RATES = (0.0, 16.0)  # exp(A_log) at first
_TIME_STEPS = (0.001, 0.1)  # softplus(dt_bias) at first


@dataclass(frozen=True)
class DeltaNetConfig:
    """The options of one layer in one direction, as `DeltaNet` describes them."""

    heads: int = 1
    reflections: int = 1
    eigenvalues: tuple[float, float] = (-1.0, 1.0)
    gated: bool = False
    convolution: int = 0
    output_gate: bool = False


class _Terms(NamedTuple):
    """What the input chooses at each step, in the dtype of the states except for the gate.

    Keys rounded to 16 bits are no unit vectors, and reflections with them expand the state.
    """

    q: Tensor  # (T, B, H, K)
    k: Tensor  # (T, B, H, R, K)
    v: Tensor  # (T, B, H, R, K)
    beta: Tensor  # (T, B, H, R)
    log_decay: Tensor | None  # (T, B, H)
    gate: Tensor | None  # (T, B, N)


class DeltaNetDirection(AbstractDiagonalDirection):
    r"""One `DeltaNet` layer in one direction.

    A state holds the matrices of all heads, and with a convolution of width c also the projections
    of the last c inputs. The next step needs only c - 1 of them. The oldest one makes the output a
    function of the input and the state.

    Args:
        config: The sizes and the initialisers.
        options: The options of the layer.
    Shape:
        weight_ih: :math:`(D, M)`: rows for the queries (N), the keys (R N), the values (R N), the
        strengths (H R), the decays (H, if gated) and the output gate (N, if there is one).
        convolution_weight: :math:`((1 + 2R) N, c)`, or None; the last column belongs to the
        current input.
        A_log, dt_bias: :math:`(H,)`, or None.
        norm_weight: :math:`(N / H,)`, the gain of RMSNorm, or None.
        weight_out: :math:`(N, N)`.
        output_bias: :math:`(N,)`, or None.
        h0: :math:`(S,)` with :math:`S = N^2 / H + c (1 + 2R) N`, or None.
    """

    input_bias = None
    outputs_states = False
    rates = ("A_log", "dt_bias")
    gates = ("decay",)  # that of the input zero

    def __init__(self, config: LayerConfig, options: DeltaNetConfig) -> None:
        super().__init__(config)
        N = self.hidden_size
        H = options.heads
        R = options.reflections
        self.options = options
        self.head_size = N // H
        self.mixed_size = (1 + 2 * R) * N
        self.matrix_size = N * self.head_size
        self.state_size = self.matrix_size + options.convolution * self.mixed_size
        decay_size = 0
        if options.gated:
            decay_size = H
        gate_size = 0
        if options.output_gate:
            gate_size = N
        # the heights of the blocks of `weight_ih`; queries, keys and values are one block, because
        # one convolution mixes them over time
        self.widths = [self.mixed_size, H * R, decay_size, gate_size]
        self.weight_ih = Parameter(torch.empty(sum(self.widths), config.input_size))
        self.convolution_weight: Parameter | None = None
        if options.convolution:
            filters = torch.empty(self.mixed_size, options.convolution)
            self.convolution_weight = Parameter(filters)
        self.A_log = self._parameter("A_log", H)
        self.dt_bias = self._parameter("dt_bias", H)
        self.norm_weight = self._parameter("norm_weight", self.head_size)
        self.weight_out = Parameter(torch.empty(N, N))
        self.output_bias = self._parameter("output_bias", N)
        self.h0 = self._parameter("h0", self.state_size)

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
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, S)
        x = without_padding(x, batch_sizes)
        initial, past = self._parts(h0)
        terms, past = self._terms(x, past, batch_sizes, reverse, resets)
        dtype = state_dtype(x)
        log_decay = terms.log_decay
        if resets is not None:
            if log_decay is None:
                log_decay = x.new_zeros(*x.shape[:2], self.options.heads, dtype=dtype)
            log_decay = log_decay.masked_fill(resets.unsqueeze(2), -torch.inf)
            # a decay of zero would make an infinite state NaN
            begins = first_steps(resets.unsqueeze(2), batch_sizes, reverse)  # (B, 1)
            initial = initial.masked_fill(begins.view(-1, *[1] * (initial.dim() - 1)), 0)
        o, S = delta(
            terms.q.to(dtype),
            terms.k.to(dtype),
            terms.v.to(dtype),
            terms.beta.to(dtype),
            log_decay,
            # a state comes in the dtype of the weights, as `_state` returns it
            initial.to(state_dtype(x)),
            batch_sizes=batch_sizes,
            reverse=reverse,
            last_only=last_only,
            backend=backend,
        )
        last = self._state(S, past)
        if last_only:  # nobody reads the outputs
            return o, last
        y = self._output(o.to(x.dtype), terms.gate)
        if batch_sizes is not None:
            y = torch.where(running(batch_sizes, y), y, 0.0)  # without the bias in the padding
        return y, last

    def step(
        self,
        x: Tensor,  # (B, M)
        state: Tensor,  # (B, S)
    ) -> tuple[Tensor, Tensor]:  # (B, N), (B, S)
        matrices, past = self._parts(state)
        terms, past = self._terms(x.unsqueeze(0), past)
        S0 = matrices.to(state_dtype(x))
        operands = DeltaOperands(terms.q, terms.k, terms.v, terms.beta, terms.log_decay, S0)
        now = {name: each[0] for name, each in DELTA.inputs(operands, None).items()}
        o, after = DELTA.step({"S0": S0}, now, operands, None)
        y = self._output(o.to(x.dtype).unsqueeze(0), terms.gate).squeeze(0)
        return y, self._state(after["S0"], past)

    @without_autocast
    def output_at(self, x: Tensor, state: Tensor) -> Tensor:
        batch = x.shape[:-1]
        S, past = self._parts(state.reshape(-1, self.state_size))
        if past is not None:
            # The last projection is that of x, which the convolution adds itself. The zero in
            # front keeps c of them; the convolution of a single step does not read it.
            past = F.pad(past[:-1], (0, 0, 0, 0, 1, 0))
        terms, _ = self._terms(x.reshape(1, -1, x.shape[-1]), past)
        o = output(S.to(state_dtype(x)), terms.q[0]).to(x.dtype)
        return self._output(o.unsqueeze(0), terms.gate).reshape(*batch, self.output_size)

    def stepper(self) -> Any:
        options = self.options
        low, high = options.eigenvalues
        names = (
            "weight_ih",
            "convolution_weight",
            "A_log",
            "dt_bias",
            "norm_weight",
            "weight_out",
            "output_bias",
        )
        weights = {name: getattr(self, name) for name in names}
        return make_stepper(
            "delta",
            weights,
            {
                "N": self.hidden_size,
                "M": self.weight_ih.shape[1],
                "H": options.heads,
                "R": options.reflections,
                "convolution": options.convolution,
                "silu": bool(options.convolution),
                "low": low,
                "high": high,
                "shortest": _SHORTEST_NORM,
                "epsilon": _RMS_EPSILON,
            },
        )

    def transition(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, S)
    ) -> Tensor:  # (T, B, H, K, K)
        r"""Return the matrix of each head and step, which multiplies the state from the left.

        .. math:: a_t (I - \beta_{t,R} k_{t,R} k_{t,R}^\top) \cdots
            (I - \beta_{t,1} k_{t,1} k_{t,1}^\top)
        """
        _, past = self._parts(h0)
        terms, _ = self._terms(x, past)
        identity = torch.eye(self.head_size, dtype=terms.k.dtype, device=x.device)
        product = identity.expand(*terms.q.shape, -1).flatten(0, 1)
        k = terms.k.flatten(0, 1)
        beta = terms.beta.flatten(0, 1)
        for j in range(self.options.reflections):
            # without a value, an update of the state is a product with its factor
            no_value = torch.zeros_like(k[:, :, j])
            product = reflect(product, k[:, :, j], no_value, beta[:, :, j])
        product = product.unflatten(0, x.shape[:2])
        if terms.log_decay is not None:
            product = terms.log_decay.exp()[..., None, None] * product
        return product.to(x.dtype)

    def input_weights(self) -> list[Tensor]:
        _, _, rates, _ = self.weight_ih.split(self.widths)
        if not self.options.gated:
            return [self.weight_ih.new_zeros(self.hidden_size, self.weight_ih.shape[1])]
        return [rates.repeat_interleave(self.head_size, dim=0)]

    def _parts(
        self,
        state: Tensor,  # (B, S)
    ) -> tuple[Tensor, Tensor | None]:  # (B, H, K, K), (c, B, (1 + 2R) N)
        """Return the matrices of a state, and the inputs of the convolution."""
        K = self.head_size
        S, past = state.split([self.matrix_size, self.state_size - self.matrix_size], dim=1)
        matrices = S.unflatten(1, (self.options.heads, K, K))
        if not self.options.convolution:
            return matrices, None
        return matrices, past.unflatten(1, (-1, self.mixed_size)).transpose(0, 1)

    def _state(
        self,
        S: Tensor,  # (B, H, K, K)
        past: Tensor | None,  # (c, B, (1 + 2R) N)
    ) -> Tensor:  # (B, S)
        flat = S.flatten(1).to(self.weight_ih.dtype)
        if past is None:
            return flat
        return torch.cat([flat, past.transpose(0, 1).flatten(1)], dim=1)

    def _terms(
        self,
        x: Tensor,  # (T, B, M)
        past: Tensor | None,  # (c, B, (1 + 2R) N)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        resets: Tensor | None = None,  # (T, B)
    ) -> tuple[_Terms, Tensor | None]:
        """Return what the input chooses, and the inputs that the next convolution needs."""
        # `weight_hh` makes this check in other layers, but nothing reads it here
        check_weights(self)
        options = self.options
        N = self.hidden_size
        H = options.heads
        R = options.reflections
        K = self.head_size
        projected = F.linear(x, self.weight_ih)
        mixed, strength, rate, gate = projected.split(self.widths, dim=-1)
        if past is not None:
            mixed, past = self._convolved(mixed, past, batch_sizes, reverse, resets)
            mixed = F.silu(mixed)
        wide = state_dtype(x)
        q, k, v = mixed.to(wide).split([N, R * N, R * N], dim=-1)
        low, high = options.eigenvalues
        # the eigenvalue 1 - beta is then between low and high
        beta = (1 - high) + (high - low) * torch.sigmoid(strength.to(wide))
        log_decay: Tensor | None = None
        if options.gated:
            log_decay = self._log_decay(rate)
        terms = _Terms(
            q=_unit(q.unflatten(-1, (H, K))) * K**-0.5,
            k=_unit(k.unflatten(-1, (H, R, K))),
            v=v.unflatten(-1, (H, R, K)),
            beta=beta.unflatten(-1, (H, R)),
            log_decay=log_decay,
            gate=gate if options.output_gate else None,
        )
        return terms, past

    def _convolved(
        self,
        u: Tensor,  # (T, B, (1 + 2R) N)
        past: Tensor,  # (c, B, (1 + 2R) N)
        batch_sizes: Sequence[int] | None,
        reverse: bool,
        resets: Tensor | None,  # (T, B)
    ) -> tuple[Tensor, Tensor]:
        """Return the causal convolution of u after past inputs, and the last c inputs.

        An input before a reset counts as zero after it.
        """
        T, B, width = u.shape
        c = self.options.convolution
        weight = cast("Tensor", self.convolution_weight)
        lengths: Tensor | None = None
        if batch_sizes is not None:
            lengths = running(batch_sizes, u).squeeze(2).sum(0)  # (B,)
        order: Tensor | None = None
        if reverse:
            steps = torch.arange(T, device=u.device).unsqueeze(1).expand(T, B)
            ends: int | Tensor = T
            if lengths is not None:
                ends = lengths
            order = torch.where(steps < ends, ends - 1 - steps, steps)  # its own inverse
            order = order.unsqueeze(2).expand(T, B, width)
            u = u.gather(0, order)
        inputs = torch.cat([past, u])
        # torch's conv1d with one group a filter takes 1.4 to 2.3 times as long forward, three
        # times as long for a single step, and no less with its backward pass
        # From row 1, because c taps need c - 1 of the c past rows. The class says what the oldest
        # one is for.
        read = [inputs.narrow(0, 1 + i, T) for i in range(c)]
        ages: Tensor | None = None
        if resets is not None:
            # how many steps ago the last reset was; at least c where there was none
            steps = torch.arange(T, device=u.device).unsqueeze(1)
            latest, _ = torch.where(resets, steps, -c).cummax(0)
            ages = steps - latest
            for i in range(c - 1):  # read c - 1 - i steps later
                read[i] = torch.where((ages >= c - 1 - i).unsqueeze(2), read[i], 0)
        convolved = read[0] * weight[:, 0]
        for i in range(1, c):
            convolved = torch.addcmul(convolved, read[i], weight[:, i])
        if lengths is None:
            last = inputs[-c:]
        else:
            # c past rows come first, so the last c of a sequence of n steps begin at row n
            rows = torch.arange(c, device=u.device).unsqueeze(1) + lengths  # (c, B)
            last = inputs.gather(0, rows.unsqueeze(2).expand(c, B, width))
        if ages is not None:
            age = last_steps(ages.unsqueeze(2), batch_sizes).squeeze(1)  # (B,)
            later = torch.arange(c - 1, -1, -1, device=u.device).unsqueeze(1)
            last = torch.where((age >= later).unsqueeze(2), last, 0)
        if order is not None:
            convolved = convolved.gather(0, order)
        return convolved, last

    def _log_decay(
        self,
        rate: Tensor,  # (..., H)
    ) -> Tensor:  # (..., H)
        """Return the logarithms of the decays, of the dtype of the states."""
        wide = state_dtype(rate)
        A_log = cast("Tensor", self.A_log).to(wide)
        dt_bias = cast("Tensor", self.dt_bias).to(wide)
        return -A_log.exp() * F.softplus(rate.to(wide) + dt_bias)

    def _output(
        self,
        o: Tensor,  # (T, B, H, K)
        gate: Tensor | None,  # (T, B, N)
    ) -> Tensor:  # (T, B, N)
        if gate is None:
            return F.linear(o.flatten(2), self.weight_out, self.output_bias)
        normalised = F.rms_norm(o, (self.head_size,), self.norm_weight, _RMS_EPSILON).flatten(2)
        return F.linear(normalised * F.silu(gate), self.weight_out, self.output_bias)

    def _concatenated(self) -> Tensor:  # (N,)
        """Return the diagonal of the transition of the input zero: it has no key, only decays."""
        H = self.options.heads
        weight = self.weight_ih
        if not self.options.gated:
            return weight.new_ones(self.hidden_size)
        decays = self._log_decay(weight.new_zeros(H)).exp().to(weight.dtype)
        return decays.repeat_interleave(self.head_size)


class DeltaNet(LinearLayer[DeltaNetDirection]):
    r"""DeltaNet: a linear recurrence whose input chooses the spectrum of every step.

    .. math::
        S_{t,0} = a_t S_{t-1}, \qquad
        S_{t,j} = (I - \beta_{t,j} k_{t,j} k_{t,j}^\top) S_{t,j-1}
        + \beta_{t,j} k_{t,j} v_{t,j}^\top, \quad j = 1, \dots, R, \qquad
        S_t = S_{t,R}, \qquad y_t = W_o S_t^\top q_t + b

    Each of H heads has a state S of K = N / H rows and columns. Queries q, keys k and values v
    are linear maps of the input. Keys have length one, and queries :math:`K^{-1/2}`. A factor has
    the eigenvalue :math:`1 - \beta` in the direction of its key and 1 in all others. The input
    chooses it between the ends of `eigenvalues` (l, u):

    .. math:: \beta = (1 - u) + (u - l)\, \sigma(W_b x)

    With negative eigenvalues a factor comes close to a reflection, and a product of R = 2 of them
    to any rotation in a plane. Several reflections a step track groups that diagonal recurrences
    cannot. With `gated`, the input also chooses a decay for each head,
    :math:`a = \exp(-e^A \operatorname{softplus}(W_a x + d))`; else a is one, and a state that is
    carried on through a text may grow.

    `recurrent_matrices` and `spectrum` return the transition of the input zero, which has no key:
    the decays. `transitions` returns those of the steps of a sequence.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of outputs of each layer and direction; a multiple of `heads`.
        num_layers: The number of stacked layers.
        bias: Whether the outputs have a bias, initialised to zero. The projections have none.
        heads: The number H of heads.
        reflections: The number R of reflections in a step.
        eigenvalues: The ends l < u of the segment of the free eigenvalues.
        gated: Whether the state decays.
        convolution: The width c of a causal convolution of each projection in q, k and v over
            time, before SiLU and the norms of q and k; 0 for neither convolution nor SiLU.
        output_gate: Whether the output of each head passes RMSNorm and is multiplied by
            :math:`\operatorname{SiLU}(W_g x)` before the map :math:`W_o`.
        shared: The other arguments of torch, and the options of every layer; see `Stacked`.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        h0: :math:`(L D, B, S)` or :math:`(L D, S)` for L layers of D directions, with
        :math:`S = N^2 / H + c (1 + 2R) N`: the matrices of all heads, flattened, then the last c
        projections of a convolution, the oldest first.
        output: :math:`(T, B, D N)`, in the layout of the input.
        h_n: as h0.
    Raises:
        ValueError: If a size, a probability or a shape is invalid, `heads` does not divide
            `hidden_size`, or `eigenvalues` are not two numbers with -1 <= l < u <= 1.
        TypeError: If dtypes differ.
    Source:
        Yang et al., NeurIPS 2024, section 3. https://arxiv.org/abs/2406.06484 (departures: SiLU,
        the convolution and RMSNorm are options that are off; keys are divided by their norm, with
        no epsilon under the root; the outputs have a bias). Eigenvalues below zero: Grazzi et al.,
        ICLR 2025. https://arxiv.org/abs/2411.12537. Decay and output gate: Yang et al., ICLR 2025,
        https://arxiv.org/abs/2412.06464. R reflections: Siems et al., NeurIPS 2025,
        https://arxiv.org/abs/2502.10297.
    Example:
        >>> layer = DeltaNet(2, 8, heads=2, reflections=2)
        >>> output, h_n = layer(torch.randn(5, 3, 2))
        >>> output.shape, h_n.shape
        (torch.Size([5, 3, 8]), torch.Size([1, 3, 32]))
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
        heads: int = 1,
        reflections: int = 1,
        eigenvalues: tuple[float, float] = (-1.0, 1.0),
        gated: bool = False,
        convolution: int = 0,
        output_gate: bool = False,
        **shared: Unpack[LayerOptions],
    ) -> None:
        sizes = {"hidden_size": hidden_size, "heads": heads, "reflections": reflections}
        for name, size in sizes.items():
            check_positive_integer(name, size)
        if hidden_size % heads:
            raise ValueError(
                "expected hidden_size to be a multiple of heads, "
                f"got hidden_size={hidden_size} and heads={heads}"
            )
        if convolution != 0:
            check_positive_integer(
                "convolution, the width of a filter or 0 for none,", convolution
            )
        low, high = map(float, eigenvalues)
        if not -1 <= low < high <= 1:
            raise ValueError(f"expected -1 <= l < u <= 1 of eigenvalues, got {eigenvalues!r}")
        options = DeltaNetConfig(heads, reflections, (low, high), gated, convolution, output_gate)
        for name, value in vars(options).items():
            setattr(self, name, value)
        initializers: dict[str, Sequence[Initializer]] = {"weight_ih": [_linear_uniform_]}
        if convolution:
            initializers["convolution_weight"] = [_linear_uniform_]
        if gated:
            initializers["A_log"] = [_log_rate_]
            initializers["dt_bias"] = [_time_step_]
        if output_gate:
            initializers["norm_weight"] = [partial(constant_, value=1.0)]
        initializers["weight_out"] = [_linear_uniform_]
        if bias:
            initializers["output_bias"] = [zeros_]
        stack = StackConfig(num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        config = LayerConfig(input_size, hidden_size, stack, {}, initializers)
        super().__init__(partial(DeltaNetDirection, options=options), config, **shared)

    @torch.no_grad()
    def transitions(
        self,
        input: Tensor,
    ) -> Tensor:  # (L, T, B, H, K, K)
        r"""Return the matrix that multiplies the state of each head at each step, from the left.

        .. math:: a_t (I - \beta_{t,R} k_{t,R} k_{t,R}^\top) \cdots
            (I - \beta_{t,1} k_{t,1} k_{t,1}^\top)

        Args:
            input: The sequences, padded or unbatched; one unbatched sequence is a batch of one.
        Returns:
            The transitions of every layer, without dropout between layers.
        Raises:
            ValueError: If the layer is bidirectional, or a shape is wrong.
        Example:
            >>> layer = DeltaNet(2, 8, heads=2)
            >>> torch.linalg.eigvals(layer.transitions(torch.randn(5, 3, 2))).shape
            torch.Size([1, 5, 3, 2, 4])
        """
        if self.bidirectional:
            raise ValueError("expected a layer of one direction, got a bidirectional one")
        check_input(input, self.input_size, self._weight)
        x = input
        if input.dim() == 2:
            x = x.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        states = self._initial_states(None, x.shape[1])
        found: list[Tensor] = []
        for direction, state in zip(self.all_directions(), states, strict=True):
            found.append(direction.transition(x, state))
            x, _ = direction(x, state, backend=self.backend)
        return torch.stack(found)

    def _recurrence_defaults(self) -> dict[str, Any]:
        return vars(DeltaNetConfig())


def _unit(v: Tensor) -> Tensor:
    """Return vectors of length one; those without a direction become zero and get no gradient.

    With an epsilon in place of their norm, a zero vector would multiply gradients by its inverse.
    """
    squares = v.square().sum(-1, keepdim=True)
    # masked before the root, which has no derivative at zero
    return v * squares.masked_fill(squares <= _SHORTEST_NORM**2, torch.inf).rsqrt()


@torch.no_grad()
def _linear_uniform_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Fill a map of n inputs as `torch.nn.Linear` does."""
    bound = weight.shape[-1] ** -0.5
    return weight.uniform_(-bound, bound, generator=generator)


@torch.no_grad()
def _log_rate_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Fill with logarithms of uniform rates."""
    rates = weight.uniform_(*_RATES, generator=generator)
    # a rate of zero, which torch may draw, has no logarithm
    return rates.clamp_(min=torch.finfo(rates.dtype).tiny).log_()


@torch.no_grad()
def _time_step_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Fill such that softplus gives time steps whose logarithms are uniform."""
    low, high = map(math.log, _TIME_STEPS)
    steps = weight.uniform_(low, high, generator=generator).exp_()
    # the inverse of softplus, log(exp(s) - 1), without overflow for large s
    return steps.add_(torch.log(-torch.expm1(-steps)))
