"""The gated recurrent layer: torch.nn.GRU with a constraint on the matrix of each gate."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from eigenrnn.constraints import Constraint
from eigenrnn.init import Initializer, fan_uniform_, zeros_
from eigenrnn.layers.direction import LayerConfig, StackConfig
from eigenrnn.layers.gated import AbstractGatedDirection, Gated, gate_constraints
from eigenrnn.layers.options import LayerOptions
from eigenrnn.nonlinearities import nonlinearity as look_up
from eigenrnn.ops import gru
from eigenrnn.ops.compiled import activation, make_stepper
from eigenrnn.ops.gru import BACKENDS
from eigenrnn.ops.gru.reference import form_features
from eigenrnn.ops.precision import products_of_float32

__all__ = ["GATES", "GRU", "GatedDirection"]

GATES = ("reset", "update", "candidate")
"""The names of the three recurrent matrices, in their order in `weight_hh`."""


class GatedDirection(AbstractGatedDirection):
    r"""One gated layer in one direction: three input maps, three recurrent matrices, biases.

    .. math::
        r_t = \sigma(U_r x_t + b_r + W_r h_{t-1}), \qquad u_t = \sigma(U_u x_t + b_u + W_u h_{t-1})

    The candidate and the new state follow as in `GRU`.

    Args:
        config: The sizes, the constraints of the `GATES`, and the initialisers: two for
            :math:`b_r` and :math:`b_u`, and three for the input maps.
        nonlinearity: The name of f.
        reset_after: Whether the reset gate is applied after :math:`W_c`.
        update_keeps: Whether an update gate of one keeps the state.
    Shape:
        weight_ih: :math:`(3 N, M)`, the rows of :math:`U_r, U_u, U_c` in this order.
        gate_bias: :math:`(2 N,)`, :math:`b_r` and :math:`b_u`, or None.
        input_bias: :math:`(N,)`, :math:`b_c`, or None.
        recurrent_bias: :math:`(N,)`, the bias b added to :math:`W_c h_{t-1}`, or None.
        bias: :math:`(N,)`, the bias inside f, or None.
        h0: :math:`(N,)`, or None.
    Raises:
        ValueError: If a constraint is complex.
        TypeError: If a function does not return a `Constraint`.
    """

    gates = GATES

    reset_gate: Constraint
    update_gate: Constraint
    candidate: Constraint

    def __init__(
        self, config: LayerConfig, nonlinearity: str, reset_after: bool, update_keeps: bool
    ) -> None:
        super().__init__(config)
        self.nonlinearity = nonlinearity
        self.reset_after = reset_after
        self.update_keeps = update_keeps
        N = self.hidden_size
        self.gate_bias = self._parameter("gate_bias", 2 * N)
        self.input_bias = self._parameter("input_bias", N)
        self.recurrent_bias = self._parameter("recurrent_bias", N)
        self.bias = self._parameter("bias", N)

    def state_bounds(self) -> Tensor | None:  # (N,)
        return torch.ones(self.hidden_size) if self.nonlinearity == "tanh" else None

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
        W = self._cast(self.weight_hh)  # the constraints are evaluated here and nowhere else
        return gru(
            x,
            W,
            h0,
            self.bias,
            self.recurrent_bias,
            U=self.weight_ih,
            c=self._input_biases(),
            nonlinearity=self.nonlinearity,
            reset_after=self.reset_after,
            update_keeps=self.update_keeps,
            batch_sizes=batch_sizes,
            reverse=reverse,
            backend=backend,
            last_only=last_only,
            resets=resets,
            **self.norm_zoneout_kwargs(x),
        )

    def stepper(self) -> Any:
        W = self.weight_hh
        extras = self.norm_zoneout_of_step()
        gain, shift = extras.get("layer_norm", (None, None))
        weights = {
            "W": W,
            "bias": self.bias,
            "recurrent_bias": self.recurrent_bias,
            "U": self.weight_ih,
            "c": self._input_biases(),
            "gain": gain,
            "shift": shift,
        }
        options = {
            "N": self.hidden_size,
            "M": self.weight_ih.shape[1],
            "reset_after": self.reset_after,
            "update_keeps": self.update_keeps,
            "rate": extras.get("zoneout", 0.0),
            "products": products_of_float32(W),
        }
        return make_stepper("gru", weights, options | activation(self.nonlinearity, self.bias))

    def load_biases(self, bias_ih: Tensor, bias_hh: Tensor) -> None:
        if self.gate_bias is None or self.input_bias is None or self.recurrent_bias is None:
            return
        N = self.hidden_size
        # the two biases of a gate add up; r multiplies the second one of the candidate
        self.gate_bias.copy_((bias_ih + bias_hh)[: 2 * N])
        self.input_bias.copy_(bias_ih[2 * N :])
        self.recurrent_bias.copy_(bias_hh[2 * N :])

    def torch_biases(self) -> tuple[Tensor, Tensor] | None:
        if self.gate_bias is None or self.input_bias is None or self.recurrent_bias is None:
            return None
        bias_ih = torch.cat([self.gate_bias, self.input_bias])
        bias_hh = torch.cat([torch.zeros_like(self.gate_bias), self.recurrent_bias])
        return bias_ih, bias_hh

    def _input_biases(self) -> Tensor | None:  # (3 N,)
        """Return the biases that are added to the input maps."""
        if self.gate_bias is None:
            return None
        candidate_bias = self.input_bias
        if candidate_bias is None:  # the candidate's bias is inside f
            candidate_bias = self.gate_bias.new_zeros(self.hidden_size)
        return torch.cat([self.gate_bias, candidate_bias])


class GRU(Gated[GatedDirection]):
    r"""GRU whose recurrent matrices are constrained to sets of your choice, gate by gate.

    .. math::
        r_t &= \sigma(U_r x_t + b_r + W_r h_{t-1}), \qquad
        u_t = \sigma(U_u x_t + b_u + W_u h_{t-1}) \\
        c_t &= f(U_c x_t + b_c + r_t \odot (W_c h_{t-1} + b)) \quad\text{or}\quad
        c_t = f(U_c x_t + b_c + W_c (r_t \odot h_{t-1})) \\
        h_t &= u_t \odot h_{t-1} + (1 - u_t) \odot c_t \quad\text{or}\quad
        h_t = (1 - u_t) \odot h_{t-1} + u_t \odot c_t

    By default this is `torch.nn.GRU`, whose r, z and n are called r, u and c here. Inputs, outputs
    and options are those of `torch.nn.GRU` as well: stacked and bidirectional layers, packed and
    unbatched input, dropout between layers. `recurrent_matrices` returns :math:`W_r, W_u, W_c`
    layer by layer. `spectrum`, of shape (L D, G, N), and `orthogonality_error` cover the G
    `constrained_gates`, or all gates if none is constrained.

    LayerNorm normalises the arguments of the three nonlinearities as in `RNN`, each over its own
    units. The argument of f is normalised after the reset, in both forms above. With zoneout, some
    units keep :math:`h_{t-1}` whatever the gates are.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units in each layer and direction.
        num_layers: The number of stacked layers.
        bias: Whether the layer has biases. With modReLU, the bias inside f replaces :math:`b_c`
            and b; without it, modReLU is the identity. Under torch's names ``bias_ih_l0`` holds
            :math:`b_r, b_u, b_c`, and ``bias_hh_l0`` zero for both gates, then b.
        constraint: A function of N that returns the constraint of a gate's matrix, for all gates
            without their own; `Unconstrained` by default. Called once for each gate, layer and
            direction.
        reset: A function of N that returns the constraint of :math:`W_r`, such as `Exponential`;
            `constraint` by default.
        update: The function for :math:`W_u`; `constraint` by default.
        candidate: The function for :math:`W_c`; `constraint` by default.
        nonlinearity: The name of f, one of those of an `RNN`.
        reset_after: Whether the reset gate is applied after :math:`W_c` (left form above) or
            before it (right form).
        update_keeps: Whether an update gate of one keeps the state (left form above) or replaces
            it by the candidate (right form).
        init: A function that draws all weights, ``init(layer, generator=generator)``, see
            `eigenrnn.init.weights_`. By default weights are drawn as in `torch.nn.GRU`, and a
            constrained matrix from its set; the bias inside f and trained initial states are zero.
        layer_norm: Whether the arguments of the nonlinearities are normalised.
        zoneout: The probability that a unit keeps its state for a time step while training; in
            evaluation the new state is the expected one. The masks come from torch's global
            generator.
        options: The other arguments of torch, and the options of every layer; see `Stacked`.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        h0: :math:`(L D, B, N)` or :math:`(L D, N)` for L layers of D directions.
        output: :math:`(T, B, D N)`, in the layout of the input.
        h_n: as h0.
    Raises:
        ValueError: If a size, the nonlinearity, a probability or a shape is invalid, or a
            constraint is complex.
        TypeError: If a function does not return a `Constraint`, or dtypes differ.
    Source:
        Cho et al., EMNLP 2014. https://arxiv.org/abs/1406.1078 (departures: by default the
        reset after :math:`W_c`, as in `torch.nn.GRU`; one bias instead of the two of
        `torch.nn.GRU`).
        LayerNorm: Ba, Kiros and Hinton, 2016, equation 4. https://arxiv.org/abs/1607.06450
        (departures: each sum is normalised once; their GRU normalises its two terms separately,
        the second before the reset). Zoneout: Krueger et al., ICLR 2017.
        https://arxiv.org/abs/1606.01305 (departures: none).
        Locked dropout: Gal and Ghahramani, NeurIPS 2016. https://arxiv.org/abs/1512.05287
        (departures: only between layers, as in AWD-LSTM).
    Example:
        >>> layer = GRU(2, 8, candidate=Exponential, nonlinearity="modrelu")
        >>> layer(torch.randn(5, 3, 2))[0].shape, layer.orthogonality_error() < 1e-5
        (torch.Size([5, 3, 8]), tensor([[True]]))
    """

    backends = BACKENDS
    torch_kind = nn.GRU

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
        constraint: Callable[[int], Constraint] | None = None,
        reset: Callable[[int], Constraint] | None = None,
        update: Callable[[int], Constraint] | None = None,
        candidate: Callable[[int], Constraint] | None = None,
        nonlinearity: str = "tanh",
        reset_after: bool = True,
        update_keeps: bool = True,
        init: Callable[..., Any] | None = None,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        **options: Unpack[LayerOptions],
    ) -> None:
        f = look_up(nonlinearity)
        initializers: dict[str, Sequence[Initializer]] = {"weight_ih": [fan_uniform_] * 3}
        if bias:
            initializers["gate_bias"] = [fan_uniform_] * 2
        if bias and not f.has_bias:
            initializers["input_bias"] = [fan_uniform_]
        # with the reset before the matrix, a second bias would only add to the first
        if bias and not f.has_bias and reset_after:
            initializers["recurrent_bias"] = [fan_uniform_]
        if bias and f.has_bias:
            initializers["bias"] = [zeros_]
        names = ("reset_gate", "update_gate", "candidate")
        stack = StackConfig(num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        constraints = gate_constraints(names, (reset, update, candidate), constraint)
        config = LayerConfig(
            input_size, hidden_size, stack, constraints, initializers, layer_norm, zoneout, init
        )
        self.nonlinearity = nonlinearity
        self.reset_after = reset_after
        self.update_keeps = update_keeps
        make_direction = partial(
            GatedDirection,
            nonlinearity=nonlinearity,
            reset_after=reset_after,
            update_keeps=update_keeps,
        )
        super().__init__(make_direction, config, **options)

    def check_torch_form(self) -> None:
        for name, expected in self._recurrence_defaults().items():
            if getattr(self, name) != expected:
                raise ValueError(
                    f"expected a layer with {name}={expected!r}, as in torch.nn.GRU, "
                    f"got {getattr(self, name)!r}"
                )

    def _features(self) -> list[str]:
        features = [*super()._features(), *form_features(self.reset_after, self.update_keeps)]
        # without LayerNorm, `ops.gru` makes a mask part of the inputs, which every backend takes
        if "zoneout" in features and self.training and not self.layer_norm:
            features.remove("zoneout")
        return features

    def _recurrence_defaults(self) -> dict[str, Any]:
        return {"nonlinearity": "tanh", "reset_after": True, "update_keeps": True}
