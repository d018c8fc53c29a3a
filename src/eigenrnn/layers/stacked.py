"""What all our recurrent layers share: how sequences go through stacked layers and directions."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from eigenrnn.layers.abstract_direction import AbstractDirection
from eigenrnn.layers.first_states import first_states
from eigenrnn.layers.lengths import Lengths, run_longest_first
from eigenrnn.layers.norm_zoneout import PLAIN, asked_of, dropped
from eigenrnn.layers.packing import in_order, out_of_order, pack_like, unpack
from eigenrnn.layers.readout import told_to_read
from eigenrnn.layers.validate import check_dtype, check_input, check_options, check_step
from eigenrnn.linalg import check_finite, orthogonality_error
from eigenrnn.ops import explain
from eigenrnn.ops.backend import Backend, Call
from eigenrnn.ops.norm_zoneout import check_rate

__all__ = ["Stacked"]

_D = TypeVar("_D", bound=AbstractDirection)


class Stacked(nn.Module, Generic[_D]):
    """Stacked layers of one recurrence, in one direction or two.

    What a user of torch's layers finds here under the same name: `input_size`, `hidden_size`,
    `num_layers`, `bias`, `batch_first`, `dropout`, `bidirectional`, `proj_size`,
    `flatten_parameters`, `reset_parameters`. The weights are in `all_directions()`.

    A layer calls `_stack` last in its `__init__`; one that stands for torch's has `load_torch`.

    Args:
        input_size: The number M of inputs.
        hidden_size: The number N of units of each layer and direction.
        num_layers: How many layers are stacked.
        batch_first: Whether input and output are (B, T, .) in place of (T, B, .).
        dropout: The share of units that dropout silences between two layers while training.
        bidirectional: Whether a second network reads each layer's input from its end.
        backend: Which implementation of the recurrence to use; the fastest possible by default.
        layer_norm: Whether the arguments of the nonlinearities are normalised over the units.
        zoneout: The share of units that keep their state at a step.
        locked_dropout: Whether dropout silences the same units at all steps of a sequence.
    Raises:
        ValueError: If a size is not a positive integer, `dropout` or `zoneout` is no share, there
            is no such backend, or there is nothing that LayerNorm is defined on.
    """

    backends: ClassVar[Mapping[str, Backend]]
    """The implementations of the recurrence, the preferred first."""

    nonlinearity: str
    """The name of the function that makes the states."""

    proj_size = 0
    """Torch's layers can project their states; these cannot."""

    def __init__(  # noqa: PLR0913, what all layers take
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        *,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        backend: str | None,
        layer_norm: bool = False,
        zoneout: float = 0.0,
        locked_dropout: bool = False,
    ) -> None:
        check_options(input_size, hidden_size, num_layers, dropout, locked_dropout)
        check_rate(zoneout)
        super().__init__()
        if backend is not None and backend not in self.backends:
            raise ValueError(f"expected backend among {list(self.backends)}, got {backend!r}")
        self.input_size, self.hidden_size = int(input_size), int(hidden_size)
        self.num_layers = int(num_layers)
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.backend = backend
        self.layer_norm = layer_norm
        self.zoneout = float(zoneout)
        self.locked_dropout = locked_dropout
        self.num_directions = 2 if bidirectional else 1

    def _stack(
        self,
        make: Callable[[int], _D],
        generator: Generator | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        """Make every layer and direction as a function of its number of inputs.

        Raises the errors of `check_dtype` and `NormZoneout`.
        """
        check_dtype(dtype)
        directions = [make(self.input_size) for _ in range(self.num_directions)]
        self.output_size = directions[0].output_size * self.num_directions
        between = (self.num_layers - 1) * self.num_directions
        self.directions = nn.ModuleList(
            directions + [make(self.output_size) for _ in range(between)]
        )
        if asked_of(self):
            for direction in self.all_directions():
                direction.add_norm_zoneout(self.layer_norm, self.zoneout)
        self.reset(generator)
        self.to(device=device, dtype=dtype)

    def reset(self, generator: Generator | None = None) -> None:
        """Draw all weights anew."""
        for direction in self.all_directions():
            direction.reset(generator)

    def reset_parameters(self) -> None:
        """Do what `reset` does, under torch's name."""
        self.reset()

    def flatten_parameters(self) -> None:
        """Do nothing; torch's layers take it as a request for one block of memory."""

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Tensor | None = None,
        lengths: Lengths = None,
        last_only: bool = False,
        head: nn.Linear | None = None,
    ) -> tuple[Any, Tensor]:
        """Run over a batch of sequences.

        Args:
            input: The sequences: padded, unbatched or packed.
            hx: The states before the first step; zero, or the trained ones, by default.
            lengths: The number of steps of each sequence of a padded batch, an alternative to
                packing; states past it are zero and h_n is taken at it.
            last_only: Whether h_n is all that is wanted, with None in place of the states: without
                gradients those of the last layer are then not kept either.
            head: A map of the last layer's states, whose outputs are then given in their place;
                where the recurrence can apply it, that is faster than a call of the head.
        Returns:
            The states of the last layer at all steps, packed if the input was, and h_n, the last
            state of every layer and direction.
        Raises:
            ValueError: If a head is given although `last_only` leaves it nothing to map.
        """
        if last_only and head is not None:
            raise ValueError("expected either last_only or a head of all steps, got both")
        run = partial(self._run, last_only=last_only, head=head)
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx, lengths, run)
        check_input(input, self.input_size, self.weight_dtype)
        unbatched = input.dim() == 2
        x = input.unsqueeze(1) if unbatched else input
        x = x.transpose(0, 1) if self.batch_first and not unbatched else x
        h0 = first_states(self.all_directions(), hx, x.shape[1], unbatched)
        output, h_n = run_longest_first(run, x, h0, lengths)
        h_n = h_n.squeeze(1) if unbatched else h_n
        if output is None:
            return None, h_n
        if unbatched:
            return output.squeeze(1), h_n
        return output.transpose(0, 1) if self.batch_first else output, h_n

    def step(
        self,
        x_t: Tensor,  # (B, M) or (M,)
        h: Tensor | None = None,  # (L, B, N) or (L, N)
    ) -> tuple[Tensor, Tensor]:
        """Read one step of a stream: give the output and the states to pass with the next.

        Call `freeze` first where no gradient is needed, or matrices are built at every step.

        Raises:
            ValueError: If the network is bidirectional, or a shape is wrong.
        """
        if self.bidirectional:
            raise ValueError("expected a network of one direction, got a bidirectional one")
        check_step(x_t)
        batched = x_t if x_t.dim() == 2 else x_t.unsqueeze(0)
        check_input(batched.unsqueeze(0), self.input_size, self.weight_dtype)
        h0 = first_states(self.all_directions(), h, batched.shape[0], x_t.dim() == 1)
        output, h_n = self._run(batched.unsqueeze(0), h0, None)
        output = cast("Tensor", output).squeeze(0)
        return (output, h_n) if x_t.dim() == 2 else (output.squeeze(0), h_n.squeeze(1))

    def explain(self, input: Tensor | PackedSequence) -> dict[str, str]:
        """Say of each backend whether it would serve an input, could, or why not."""
        x = input.data if isinstance(input, PackedSequence) else input
        size, options = self.all_directions()[0].state_size, asked_of(self)
        call = Call.of(x, self.nonlinearity, *self.parameters(), state_size=size, options=options)
        return explain(self.backends, call, self.backend)

    def freeze(self) -> Self:
        """Keep the matrices as plain tensors, for inference; `train()` lets go of them.

        They are those of now: they get no gradient, and do not follow a constraint that is given
        another matrix. Loading weights lets go of them too.
        """
        self.eval()
        for direction in self.all_directions():
            direction.freeze()
        return self

    def all_directions(self) -> list[_D]:
        """Return every layer and direction, in torch's order."""
        return cast("list[_D]", list(self.directions))

    def recurrent_matrices(self) -> list[Tensor]:
        """Return W of every layer and direction, in torch's order, with their graphs."""
        return [W for direction in self.all_directions() for W in direction.matrices()]

    @torch.no_grad()
    def spectrum(self) -> Tensor:  # (L D, N), complex
        """Return the eigenvalues of every W, by falling angle.

        Raises:
            ValueError: If an entry of W is not finite.
        """
        measured = self._measured()
        check_finite(measured)
        eigenvalues = torch.linalg.eigvals(measured)
        order = eigenvalues.angle().argsort(dim=-1, descending=True)
        return eigenvalues.gather(-1, order)

    @torch.no_grad()
    def orthogonality_error(self) -> Tensor:  # (L D,)
        r"""Return :math:`\|W^\top W - I\|_F` of every W."""
        measured = self._measured()
        errors = [orthogonality_error(W) for W in measured.flatten(0, -3)]
        return torch.tensor(errors).view(measured.shape[:-2])

    @property
    def weight_dtype(self) -> torch.dtype:
        """The type that inputs must have."""
        return self.all_directions()[0].weight_ih.dtype

    def extra_repr(self) -> str:
        defaults = {"num_layers": 1, "batch_first": False, "dropout": 0.0, "locked_dropout": False}
        defaults = self._own_defaults() | defaults | {"bidirectional": False} | PLAIN
        options = [
            f"{name}={getattr(self, name)!r}"
            for name, default in defaults.items()
            if getattr(self, name) != default
        ]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *options])

    def _own_defaults(self) -> dict[str, Any]:
        """Return the options of the recurrence itself, with the values that go without saying."""
        return {}

    def _measured(self) -> Tensor:  # (..., N, N)
        """Return the matrices whose spectra are asked for."""
        return torch.stack(self.recurrent_matrices())

    def _forward_packed(
        self,
        packed: PackedSequence,
        hx: Tensor | None,
        lengths: Lengths,
        run: Callable[..., tuple[Tensor | None, Tensor]],
    ) -> tuple[PackedSequence | None, Tensor]:
        if lengths is not None:
            raise ValueError("expected either a PackedSequence or lengths, got both")
        x, kept = unpack(packed)
        check_input(x, self.input_size, self.weight_dtype)
        h0 = in_order(packed, first_states(self.all_directions(), hx, x.shape[1]))
        output, h_n = run(x, h0, packed.batch_sizes.tolist())
        output = None if output is None else pack_like(packed, output, kept)
        return output, out_of_order(packed, h_n)

    def _run(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor,  # (L D, B, N)
        batch_sizes: list[int] | None,
        last_only: bool = False,
        head: nn.Linear | None = None,
    ) -> tuple[Tensor | None, Tensor]:  # (T, B, D N) or (T, B, K), (L D, B, N)
        directions = self.all_directions()
        told = {} if self.bidirectional else told_to_read(head, directions[-1])
        last: list[Tensor] = []
        for layer in range(self.num_layers):
            final = layer == self.num_layers - 1
            if layer > 0 and self.dropout > 0:
                x = dropped(x, self.dropout, self.locked_dropout, self.training)
            ends_here = last_only and final
            outputs: list[Tensor] = []
            for d in range(self.num_directions):
                i = layer * self.num_directions + d
                given = x, h0[i], batch_sizes, d == 1, self.backend, ends_here
                h, end = directions[i](*given, **(told if final else {}))
                last.append(directions[i].as_state(end))
                if not ends_here:
                    outputs.append(directions[i].as_output(h))
            if outputs:
                x = torch.cat(outputs, dim=2) if self.bidirectional else outputs[0]
        if head is not None and not told:
            x = head(x)
        return None if last_only else x, torch.stack(last)
