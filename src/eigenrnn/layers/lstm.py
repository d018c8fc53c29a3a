"""The long short-term memory: torch.nn.LSTM with a constraint on the matrix of each gate."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from eigenrnn.constraints import Constraint
from eigenrnn.init import Initializer, fan_uniform_
from eigenrnn.layers.direction import LayerConfig, StackConfig
from eigenrnn.layers.gated import AbstractGatedDirection, Gated, gate_constraints
from eigenrnn.layers.options import LayerOptions
from eigenrnn.layers.sequences import Lengths
from eigenrnn.layers.validation import check_pair
from eigenrnn.ops import lstm
from eigenrnn.ops.compiled import make_stepper
from eigenrnn.ops.lstm import BACKENDS
from eigenrnn.ops.precision import products_of_float32

__all__ = ["LSTM", "LSTMDirection"]


class LSTMDirection(AbstractGatedDirection):
    r"""One LSTM layer in one direction: four input maps, four recurrent matrices, a bias.

    The formulas are those of `LSTM`. A state is :math:`[h, c]`, of :math:`S = 2N` numbers.

    Args:
        config: The sizes, the constraints of the gates, and the initialisers: four each for the
            input maps and the bias.
    Shape:
        weight_ih: :math:`(4 N, M)`, the rows of :math:`U_i, U_f, U_g, U_o` in this order.
        input_bias: :math:`(4 N,)`, :math:`b_i, b_f, b_g, b_o`, or None.
        h0: :math:`(2 N,)`, or None.
    Raises:
        ValueError: If a constraint is complex.
        TypeError: If a function does not return a `Constraint`.
    """

    gates = ("input", "forget", "cell", "output")

    input_gate: Constraint
    forget_gate: Constraint
    cell: Constraint
    output_gate: Constraint

    def __init__(self, config: LayerConfig) -> None:
        super().__init__(config)
        self.state_size = 2 * self.hidden_size
        # created again, because the base class assumes another size of a state
        self.h0 = self._parameter("h0", self.state_size)
        self.input_bias = self._parameter("input_bias", 4 * self.hidden_size)

    def forward(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (B, 2 N)
        batch_sizes: Sequence[int] | None = None,
        reverse: bool = False,
        backend: str | None = None,
        last_only: bool = False,
        resets: Tensor | None = None,  # (T, B)
    ) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, 2 N)
        W = self._cast(self.weight_hh)  # the constraints are evaluated here and nowhere else
        first, first_cell = h0.chunk(2, dim=1)
        h, last, last_cell = lstm(
            x,
            W,
            first,
            first_cell,
            U=self.weight_ih,
            c=self.input_bias,
            batch_sizes=batch_sizes,
            reverse=reverse,
            backend=backend,
            last_only=last_only,
            resets=resets,
        )
        return h, torch.cat([last, last_cell], dim=1)

    def stepper(self) -> Any:
        W = self.weight_hh
        weights = {"W": W, "U": self.weight_ih, "c": self.input_bias}
        sizes = {"N": self.hidden_size, "M": self.weight_ih.shape[1]}
        return make_stepper("lstm", weights, sizes | {"products": products_of_float32(W)})

    def state_blocks(self) -> Mapping[str, slice]:
        N = self.hidden_size
        return {"hidden": slice(0, N), "cell": slice(N, 2 * N)}

    def state_bounds(self) -> Tensor:  # (2 N,)
        N = self.hidden_size
        return torch.cat([torch.ones(N), torch.full((N,), torch.inf)])  # a cell can grow


class LSTM(Gated[LSTMDirection]):
    r"""LSTM whose recurrent matrices are constrained to sets of your choice, gate by gate.

    .. math::
        i_t &= \sigma(U_i x_t + b_i + W_i h_{t-1}), \qquad
        f_t = \sigma(U_f x_t + b_f + W_f h_{t-1}), \qquad
        o_t = \sigma(U_o x_t + b_o + W_o h_{t-1}) \\
        g_t &= \tanh(U_g x_t + b_g + W_g h_{t-1}), \qquad
        c_t = f_t \odot c_{t-1} + i_t \odot g_t, \qquad
        h_t = o_t \odot \tanh(c_t)

    By default this is `torch.nn.LSTM`, with its inputs, outputs and options: stacked and
    bidirectional layers, packed and unbatched input, dropout between layers.
    `recurrent_matrices` returns :math:`W_i, W_f, W_g, W_o` layer by layer. `spectrum`, of shape
    (L D, G, N), and `orthogonality_error` cover the G `constrained_gates`, or all gates if none is
    constrained.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units in each layer and direction.
        num_layers: The number of stacked layers.
        bias: Whether there are biases. Under torch's names ``bias_ih_l0`` holds them, and
            ``bias_hh_l0`` is zero.
        proj_size: 0, as the recurrent matrices of an LSTM with projected states are not square.
        constraint: A function of N that returns the constraint of a gate's matrix, for all gates
            without their own; `Unconstrained` by default. Called once for each gate, layer and
            direction.
        input: A function of N that returns the constraint of :math:`W_i`, such as `Exponential`;
            `constraint` by default.
        forget: The function for :math:`W_f`; `constraint` by default.
        cell: The function for :math:`W_g`; `constraint` by default.
        output: The function for :math:`W_o`; `constraint` by default.
        options: The other arguments of torch, and the options of every layer; see `Stacked`.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        h0, c0: :math:`(L D, B, N)` or :math:`(L D, N)` for L layers of D directions.
        output: :math:`(T, B, D N)`, in the layout of the input.
        h_n, c_n: as h0 and c0.
    Raises:
        ValueError: If a size, a probability or a shape is invalid, a constraint is complex, or
            `proj_size` is not 0.
        TypeError: If a function does not return a `Constraint`, or dtypes differ.
    Source:
        Hochreiter and Schmidhuber, Neural Computation 9, 1997.
        https://doi.org/10.1162/neco.1997.9.8.1735 (departures: a forget gate, as in
        `torch.nn.LSTM`; one bias instead of its two).
        Locked dropout: Gal and Ghahramani, NeurIPS 2016. https://arxiv.org/abs/1512.05287
        (departures: only between layers, as in AWD-LSTM).
    Example:
        >>> layer = LSTM(2, 8, cell=ScaledCayley)
        >>> output, (h_n, c_n) = layer(torch.randn(5, 3, 2))
        >>> output.shape, c_n.shape, layer.orthogonality_error() < 1e-5
        (torch.Size([5, 3, 8]), torch.Size([1, 3, 8]), tensor([[True]]))
    """

    backends = BACKENDS
    torch_kind = nn.LSTM
    nonlinearity = "tanh"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        constraint: Callable[[int], Constraint] | None = None,
        input: Callable[[int], Constraint] | None = None,
        forget: Callable[[int], Constraint] | None = None,
        cell: Callable[[int], Constraint] | None = None,
        output: Callable[[int], Constraint] | None = None,
        **options: Unpack[LayerOptions],
    ) -> None:
        if proj_size != 0:
            raise ValueError(
                f"expected proj_size=0, got {proj_size}: a constraint needs square matrices; "
                "take torch.nn.LSTM"
            )
        names = ("input_gate", "forget_gate", "cell", "output_gate")
        of_gates = input, forget, cell, output
        constraints = gate_constraints(names, of_gates, constraint)
        initializers: dict[str, Sequence[Initializer]] = {"weight_ih": [fan_uniform_] * 4}
        if bias:
            initializers["input_bias"] = [fan_uniform_] * 4
        stack = StackConfig(num_layers, bias, batch_first, dropout, bidirectional, device, dtype)
        config = LayerConfig(input_size, hidden_size, stack, constraints, initializers)
        super().__init__(LSTMDirection, config, **options)

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: tuple[Tensor, Tensor] | None = None,
        lengths: Lengths = None,
        last_only: bool = False,
        head: nn.Linear | None = None,
        resets: Tensor | PackedSequence | None = None,
        dt: Tensor | PackedSequence | None = None,
    ) -> tuple[Any, tuple[Tensor, Tensor]]:
        """Run over a batch of sequences, as `Stacked.forward`; the states are (h, c)."""
        output, state = super().forward(input, hx, lengths, last_only, head, resets, dt)
        return output, self._split(state)

    def initial_state(self, batch_size: int | None = None) -> tuple[Tensor, Tensor]:
        return self._split(super().initial_state(batch_size))

    def step(
        self,
        x_t: Tensor,  # (B, M) or (M,)
        h: tuple[Tensor, Tensor] | None = None,  # (L, B, N) or (L, N)
        resets: Tensor | None = None,  # (B,) or ()
        dt: Tensor | None = None,  # (B,) or ()
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Process one time step, as `Stacked.step`; the states are (h, c)."""
        if resets is not None:
            h = self._begun_anew(x_t, h, resets)
        if isinstance(h, Tensor):  # the kernel of a frozen layer would read a cell at address 0
            check_pair(h, (), self.weight_dtype)
        if isinstance(h, tuple) and len(h) == 2:
            result = self._snapshot.step(self, x_t, h, dt)
            if result is not None:
                output, (h_n, c_n) = result
                return output, (h_n, c_n)
        output, state = super().step(x_t, h, dt=dt)
        return output, self._split(state)

    def _split(
        self,
        state: Tensor,  # (L D, B, 2 N)
    ) -> tuple[Tensor, Tensor]:
        h, c = state.chunk(2, dim=-1)
        # copies, because the compiled steps read only contiguous states
        return h.contiguous(), c.contiguous()

    def _initial_states(
        self, hx: Any, batch_size: int, unbatched: bool = False
    ) -> Tensor:  # (L D, B, 2 N)
        if hx is None:
            return super()._initial_states(None, batch_size, unbatched)
        batch = () if unbatched else (batch_size,)
        shape = len(self.directions), *batch, self.hidden_size
        pair = check_pair(hx, (shape, shape), self.weight_dtype)
        return super()._initial_states(torch.cat(pair, dim=-1), batch_size, unbatched)
