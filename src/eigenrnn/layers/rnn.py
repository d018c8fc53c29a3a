"""The recurrent layer: torch.nn.RNN with a constraint on its recurrent matrices."""

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias, cast

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from eigenrnn.constraints import Constraint, ScaledCayley
from eigenrnn.initializers import Initializer
from eigenrnn.layers.direction import Direction
from eigenrnn.layers.lengths import last_states, sorted_lengths
from eigenrnn.layers.torch_weights import check_same_shape, copy_weights
from eigenrnn.layers.validate import check_h0, check_input, check_options
from eigenrnn.linalg import orthogonality_error

__all__ = ["RNN"]

_Lengths: TypeAlias = Tensor | Sequence[int] | None


class RNN(nn.Module):
    r"""Elman recurrent network whose recurrent matrices lie in sets of your choice.

    .. math:: h_t = f(U x_t + c + W h_{t-1}), \qquad W \in \mathcal S

    Takes and gives what `torch.nn.RNN` does: stacked and bidirectional layers, packed and
    unbatched input, dropout between layers. By default it is scoRNN: W is orthogonal by the scaled
    Cayley transform and f is modReLU, whose bias is then the only one.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units of each layer and direction.
        num_layers: How many layers are stacked.
        nonlinearity: The name of f: modrelu, tanh, relu, elu, leaky_relu or identity.
        bias: Whether there is a bias: inside modReLU, which owns one, else c. Without one modReLU
            is the identity.
        batch_first: Whether input and output are (B, T, .) in place of (T, B, .).
        dropout: The share of units that dropout silences between two layers while training.
        bidirectional: Whether a second network reads each layer's input from its end.
        device: Where the weights are made.
        dtype: The type of the weights; constraints stay in float32 or better.
        constraint: A function of N that makes the constraint of each layer and direction, such as
            ``partial(ScaledCayley, negative=85)``.
        input_bias: Whether there is a bias c; by default only if f owns none.
        trainable_h0: Whether the states before the first step are trained, from zero.
        input_init: The start of each U, in place: U(-0.01, 0.01) for modReLU, as in scoRNN, and
            that of `torch.nn.RNN` for all others by default.
        bias_init: The start of the bias inside f, in place; zero by default.
        backend: Which implementation of the recurrence to use; the fastest possible by default.
        generator: The source of the starting values; torch's global stream by default.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        h0: :math:`(L D, B, N)` or :math:`(L D, N)` for L layers of D directions.
        output: :math:`(T, B, D N)`, as the input is laid out.
        h_n: as h0.
    Raises:
        ValueError: If a size, the nonlinearity, the dropout or a shape is wrong.
        TypeError: If `constraint` does not make a `Constraint`, or types differ.
    Source:
        Elman, Cognitive Science 14, 1990. https://doi.org/10.1207/s15516709cog1402_1
        (departures: one bias where `torch.nn.RNN` adds two).
    Example:
        >>> output, h_n = RNN(2, 8, num_layers=2)(torch.randn(5, 3, 2))
        >>> output.shape, h_n.shape
        (torch.Size([5, 3, 8]), torch.Size([2, 3, 8]))
    """

    def __init__(  # noqa: PLR0913, torch.nn.RNN's own signature and a few more
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "modrelu",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        constraint: Callable[[int], Constraint] = ScaledCayley,
        input_bias: bool | None = None,
        trainable_h0: bool = False,
        input_init: Initializer | None = None,
        bias_init: Initializer | None = None,
        backend: str | None = None,
        generator: Generator | None = None,
    ) -> None:
        check_options(input_size, hidden_size, num_layers, dropout)
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.nonlinearity = nonlinearity
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.backend = backend
        self.num_directions = 2 if bidirectional else 1
        self.directions = nn.ModuleList(
            Direction(
                input_size if layer == 0 else hidden_size * self.num_directions,
                hidden_size,
                constraint=constraint,
                nonlinearity=nonlinearity,
                bias=bias,
                input_bias=input_bias,
                trainable_h0=trainable_h0,
                input_init=input_init,
                bias_init=bias_init,
            )
            for layer in range(num_layers)
            for _ in range(self.num_directions)
        )
        self.reset(generator)
        self.to(device=device, dtype=dtype)

    def reset(self, generator: Generator | None = None) -> None:
        """Draw all weights anew."""
        for direction in self.all_directions():
            direction.reset(generator)

    def forward(
        self,
        input: Tensor | PackedSequence,
        h0: Tensor | None = None,
        lengths: _Lengths = None,
    ) -> tuple[Any, Tensor]:
        """Run over a batch of sequences.

        Args:
            input: The sequences: padded, unbatched or packed.
            h0: The states before the first step; zero, or the trained ones, by default.
            lengths: The number of steps of each sequence of a padded batch, an alternative to
                packing; states past it are zero and h_n is taken at it.
        Returns:
            The states of the last layer at all steps, packed if the input was, and h_n, the last
            state of every layer and direction.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, h0, lengths)
        check_input(input, self.input_size, self.weight_dtype)
        unbatched = input.dim() == 2
        x = input.unsqueeze(1) if unbatched else input
        x = x.transpose(0, 1) if self.batch_first and not unbatched else x
        if h0 is not None and unbatched and h0.dim() == 2:
            h0 = h0.unsqueeze(1)
        order, sizes = sorted_lengths(lengths, *x.shape[:2])
        output, h_n = self._run_sorted(x, h0, order, sizes)
        if unbatched:
            return output.squeeze(1), h_n.squeeze(1)
        return output.transpose(0, 1) if self.batch_first else output, h_n

    def step(
        self,
        x_t: Tensor,  # (B, M) or (M,)
        h: Tensor | None = None,  # (L, B, N) or (L, N)
    ) -> tuple[Tensor, Tensor]:
        """Read one step of a stream: give the output and the states to pass with the next.

        Call `freeze` first where no gradient is needed, or W is built at every step.

        Raises:
            ValueError: If the network is bidirectional, or a shape is wrong.
        """
        if self.bidirectional:
            raise ValueError("expected a network of one direction, got a bidirectional one")
        if x_t.dim() not in (1, 2):
            raise ValueError(f"expected x_t of shape (B, M) or (M,), got {tuple(x_t.shape)}")
        batched = x_t if x_t.dim() == 2 else x_t.unsqueeze(0)
        if h is not None and x_t.dim() == 1:
            h = h.unsqueeze(1)
        check_input(batched.unsqueeze(0), self.input_size, self.weight_dtype)
        output, h_n = self._run(batched.unsqueeze(0), self._states(h, batched.shape[0]), None)
        output = output.squeeze(0)
        return (output, h_n) if x_t.dim() == 2 else (output.squeeze(0), h_n.squeeze(1))

    def freeze(self) -> Self:
        """Keep each W as a plain tensor, for inference; `train()` lets go of it."""
        self.eval()
        for direction in self.all_directions():
            direction.freeze()
        return self

    def all_directions(self) -> list[Direction]:
        """Return every layer and direction, in torch's order."""
        return cast("list[Direction]", list(self.directions))

    def recurrent_matrices(self) -> list[Tensor]:
        """Return W of every layer and direction, in torch's order, with their graphs."""
        return [direction.weight_hh for direction in self.all_directions()]

    @torch.no_grad()
    def spectrum(self) -> Tensor:  # (L D, N), complex
        """Return the eigenvalues of every W, by falling angle."""
        eigenvalues = torch.stack([torch.linalg.eigvals(W) for W in self.recurrent_matrices()])
        order = eigenvalues.angle().argsort(dim=1, descending=True)
        return eigenvalues.gather(1, order)

    def orthogonality_error(self) -> Tensor:  # (L D,)
        r"""Return :math:`\|W^\top W - I\|_F` of every W."""
        return torch.tensor([orthogonality_error(W) for W in self.recurrent_matrices()])

    def load_torch(self, torch_rnn: nn.RNN) -> Self:
        """Copy the weights of a `torch.nn.RNN`, whose two biases become their sum.

        Raises:
            ValueError: If sizes, layers, directions, nonlinearity or biases differ.
            NotInSetError: If a recurrent matrix is not in the set of its constraint.
            TypeError: If the layer is of another kind.
        """
        check_same_shape(self, torch_rnn)
        copy_weights(self.all_directions(), torch_rnn)
        return self

    @property
    def weight_dtype(self) -> torch.dtype:
        """The type that inputs must have."""
        return self.all_directions()[0].weight_ih.dtype

    def extra_repr(self) -> str:
        options = f"{self.input_size}, {self.hidden_size}, nonlinearity={self.nonlinearity!r}"
        for name, default in (
            ("num_layers", 1),
            ("batch_first", False),
            ("dropout", 0.0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != default:
                options += f", {name}={getattr(self, name)}"
        return options

    def _forward_packed(
        self, packed: PackedSequence, h0: Tensor | None, lengths: _Lengths
    ) -> tuple[PackedSequence, Tensor]:
        if lengths is not None:
            raise ValueError("expected either a PackedSequence or lengths, got both")
        # the packed order stays inside: no sequence is moved but by pad and pack
        in_order = PackedSequence(packed.data, packed.batch_sizes)
        x, kept = pad_packed_sequence(in_order)
        check_input(x, self.input_size, self.weight_dtype)
        if h0 is not None and packed.sorted_indices is not None:
            check_h0(h0, self._state_shape(x.shape[1]), self.weight_dtype)
            h0 = h0.index_select(1, packed.sorted_indices)
        h0 = self._states(h0, x.shape[1])
        output, h_n = self._run(x, h0, packed.batch_sizes.tolist())
        data = pack_padded_sequence(output, kept).data
        if packed.unsorted_indices is not None:
            h_n = h_n.index_select(1, packed.unsorted_indices)
        indices = (packed.sorted_indices, packed.unsorted_indices)
        return PackedSequence(data, packed.batch_sizes, *indices), h_n

    def _run_sorted(
        self, x: Tensor, h0: Tensor | None, order: Tensor | None, sizes: list[int] | None
    ) -> tuple[Tensor, Tensor]:
        states = self._states(h0, x.shape[1])
        if order is None:
            return self._run(x, states, sizes)
        order = order.to(x.device)
        back = order.argsort()
        x, states = x.index_select(1, order), states.index_select(1, order)
        output, h_n = self._run(x, states, sizes)
        return output.index_select(1, back), h_n.index_select(1, back)

    def _run(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (L D, B, N)
        batch_sizes: list[int] | None,
    ) -> tuple[Tensor, Tensor]:  # (T, B, D N), (L D, B, N)
        directions = self.all_directions()
        last: list[Tensor] = []
        for layer in range(self.num_layers):
            if layer > 0 and self.dropout > 0:
                x = F.dropout(x, self.dropout, self.training)
            outputs: list[Tensor] = []
            for d in range(self.num_directions):
                i = layer * self.num_directions + d
                h = directions[i](x, h0[i], batch_sizes, d == 1, self.backend)
                last.append(h[0] if d == 1 else last_states(h, batch_sizes))
                outputs.append(h)
            x = torch.cat(outputs, dim=2) if self.bidirectional else outputs[0]
        return x, torch.stack(last)

    def _states(self, h0: Tensor | None, batch_size: int) -> Tensor:  # (L D, B, N)
        if h0 is None:
            return torch.stack(
                [direction.begin(batch_size) for direction in self.all_directions()]
            )
        check_h0(h0, self._state_shape(batch_size), self.weight_dtype)
        return h0

    def _state_shape(self, batch_size: int) -> tuple[int, int, int]:
        return self.num_layers * self.num_directions, batch_size, self.hidden_size
