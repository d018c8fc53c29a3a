"""The base class of all layers: stacked layers, two directions and torch's weights."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from eigenrnn.constraints import Constraint
from eigenrnn.init import zeros_
from eigenrnn.layers import torch_weights
from eigenrnn.layers.direction import (
    AbstractDirection,
    Blocks,
    LayerConfig,
    by_block,
    head_kwargs,
)
from eigenrnn.layers.options import FullSignature
from eigenrnn.layers.regularisation import (
    NORM_ZONEOUT_DEFAULTS,
    apply_dropout,
    non_default_options,
)
from eigenrnn.layers.resets import Pieces, reset_states
from eigenrnn.layers.sequences import (
    Lengths,
    as_lengths,
    initial_states,
    pad_packed,
    reordered,
    sorted_lengths,
    with_data,
)
from eigenrnn.layers.step_values import check_dt, checked_gaps, step_values
from eigenrnn.layers.stepping import LatestSnapshot
from eigenrnn.layers.validation import (
    check_input,
    check_options,
    check_step,
)
from eigenrnn.linalg import check_finite, orthogonality_error, wide_default_dtype
from eigenrnn.ops import explain
from eigenrnn.ops.dispatch import Backend, Call, choose, exports_scan, forced
from eigenrnn.ops.norm_zoneout import check_zoneout_rate
from eigenrnn.torch_internals import check_own_weights, listed_parts
from eigenrnn.tracing import is_exporting

__all__ = ["Layer", "LikeTorch", "Stacked"]


class Layer(nn.Module):
    """A recurrent layer, of this library or of torch: what the command line takes as `--layer`.

    A layer of your own is a subclass whose constructor takes the number of inputs, the number of
    units and a `generator`, and which returns outputs and last states, as `torch.nn.GRU` does.
    """


_D = TypeVar("_D", bound=AbstractDirection)


class Stacked(Layer, Generic[_D]):
    """Stacked layers of one recurrence, in one direction or two.

    Every layer takes the arguments of torch's layers and the last four options below. Inputs and
    outputs are (B, T, .) with `batch_first`, else (T, B, .). `dropout` is the dropout probability
    between two layers while training. With `bidirectional` each layer also reads its input
    backwards, with weights of its own. `device` and `dtype` are those of the weights; constraints
    stay in float32 or better.

    The attributes and methods of torch's recurrent layers have the same names here: `input_size`,
    `hidden_size`, `num_layers`, `bias`, `batch_first`, `dropout`, `bidirectional`, `proj_size`,
    `flatten_parameters`, `reset_parameters`. The weights are in `all_directions()`. `RNN`, `GRU`
    and `LSTM` also give them under torch's names, such as `weight_hh_l0`, to be read only: W is
    evaluated each time. `load_state_dict` of these three also takes the state of a torch layer.

    Args:
        make_direction: The class of the directions, or a function that constructs one.
        config: The sizes, the arguments of torch, and the weights of each direction.
        trainable_h0: Whether the initial states are trained; initialised to zero, if no paper says
            otherwise.
        locked_dropout: Whether dropout uses one mask for all time steps of a sequence, instead of
            a new mask at each.
        backend: The name of the implementation of the recurrence; the fastest available by
            default.
        generator: The generator that draws the weights; torch's global one by default.
    Raises:
        ValueError: If a size is not a positive integer, `dropout` or `zoneout` is not a
            probability, the backend is unknown, or LayerNorm is not defined on the states.
    """

    __signature__ = FullSignature()

    backends: ClassVar[Mapping[str, Backend]]
    """The implementations of the recurrence, in order of preference."""

    nonlinearity: str
    """The name of the function f that gives the new state."""

    proj_size = 0
    """Always 0: torch's layers can project their states, these cannot."""

    sets: ClassVar[tuple[type[Constraint], ...]] = ()
    """The sets of matrices that a layer of a paper makes itself, whose defaults a run stores."""

    published: Mapping[str, Blocks] = {}
    """The initialisers that a paper states, by the name of the weight; others have the default."""

    torch_kind: ClassVar[type[nn.RNNBase] | None] = None
    """The layer of torch with the same weights, if there is one."""

    def __init__(
        self,
        make_direction: Callable[[LayerConfig], _D],
        config: LayerConfig,
        *,
        trainable_h0: bool = False,
        locked_dropout: bool = False,
        backend: str | None = None,
        generator: Generator | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:  # Python's own error would name this class
            raise TypeError(f"{type(self).__name__} has no option {min(unknown)!r}")
        stack = config.stack
        check_options(config.input_size, config.hidden_size, stack.num_layers, stack.dropout)
        check_zoneout_rate(config.zoneout)
        if stack.dtype is not None and not stack.dtype.is_floating_point:
            raise ValueError(
                f"expected a real floating-point dtype for the weights, got {stack.dtype}; choose "
                "a complex set by its dtype=, such as partial(ScaledCayley, dtype=torch.complex64)"
            )
        super().__init__()
        if backend is not None and backend not in self.backends:
            raise ValueError(f"expected backend among {list(self.backends)}, got {backend!r}")
        self.input_size = int(config.input_size)
        self.hidden_size = int(config.hidden_size)
        self.num_layers = int(stack.num_layers)
        self.bias = stack.bias
        self.batch_first = stack.batch_first
        self.dropout = float(stack.dropout)
        self.bidirectional = stack.bidirectional
        self.backend = backend
        self.init = config.init
        self.layer_norm = config.layer_norm
        self.zoneout = float(config.zoneout)
        self.locked_dropout = locked_dropout
        self.num_directions = 2 if self.bidirectional else 1
        self._snapshot = LatestSnapshot()
        # a state of torch's layer loads as one of ours does
        self.register_load_state_dict_pre_hook(torch_weights.translate)
        initializers = {**config.initializers}
        if trainable_h0:
            initializers["h0"] = [zeros_]
        for name, own in initializers.items():
            initializers[name] = by_block(self.published.get(name), own)
        config = replace(
            config,
            input_size=self.input_size,
            hidden_size=self.hidden_size,
            zoneout=self.zoneout,
            initializers=initializers,
        )
        with wide_default_dtype() as default_dtype:
            directions = [make_direction(config) for _ in range(self.num_directions)]
            # only a direction knows the size of its output, which complex states may double
            self.output_size = directions[0].output_size * self.num_directions
            self.outputs_states = directions[0].outputs_states
            upper_config = replace(config, input_size=self.output_size)
            upper_count = (self.num_layers - 1) * self.num_directions
            directions.extend(make_direction(upper_config) for _ in range(upper_count))
            self.directions = nn.ModuleList(directions)
            # before the move: `device` and `dtype` do not change what a seed draws
            self.reset(generator)
        dtype = stack.dtype
        if dtype is None and default_dtype.itemsize == 2:
            dtype = default_dtype
        if stack.device is not None or dtype is not None:
            self.to(device=stack.device, dtype=dtype)

    def reset(self, generator: Generator | None = None) -> None:
        """Initialise all weights again."""
        for direction in self.all_directions():
            if self.init is None:
                direction.reset(generator)
            else:
                direction.reset_constants()
        if self.init is not None:
            self.init(self, generator=generator)

    def reset_parameters(self) -> None:
        """Call `reset`, under the name that torch uses."""
        self.reset()

    def flatten_parameters(self) -> None:
        """Do nothing; in torch this moves the weights into one block of memory."""

    @property
    def all_weights(self) -> list[list[Tensor]]:
        """The weights of each layer and direction, in torch's order and layout; read only.

        Raises:
            AttributeError: If torch has no layer with this recurrence.
        """
        names = torch_weights.names_by_direction(self)
        return [[getattr(self, name) for name in each] for each in names]

    def __getattr__(self, name: str) -> Any:
        # the first test is fast, and all attributes of a module pass here
        if name.startswith(("weight_", "bias_")) and torch_weights.is_torch_name(name):
            return torch_weights.read(self, name)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if torch_weights.is_torch_name(name):
            raise ValueError(
                f"expected no assignment to {name}, which is read from layer.all_directions(): "
                "change the weights there, or use load_state_dict"
            )
        super().__setattr__(name, value)

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Any = None,
        lengths: Lengths = None,
        last_only: bool = False,
        head: nn.Linear | None = None,
        resets: Tensor | PackedSequence | None = None,
        dt: Tensor | PackedSequence | None = None,
    ) -> tuple[Any, Any]:
        """Run over a batch of sequences.

        Args:
            input: The sequences: padded, unbatched or packed.
            hx: The initial states; by default zero, or the trained ones.
            lengths: The number of time steps of each sequence in a padded batch, an alternative
                to packing. Later states are zero, and h_n is the state at the last step.
            last_only: Whether to return only h_n, with None instead of the states; without
                gradients, the states of the last layer are then not stored.
            head: A linear map of the last layer's states; its outputs then replace the states.
                Where the recurrence can apply it, this is faster than calling the head.
            resets: Before which steps a sequence begins anew, from the initial state: booleans in
                the layout of the input, (T, B), (B, T) or (T,), packed if the input is. torchrl
                calls them ``is_init``, and Stable-Baselines3 ``episode_starts``.
            dt: The time since the step before, 1 by default, for layers that know what a gap does:
                `LeakyRNN`, and `LRU` if its eigenvalues are complex. In the layout of the input,
                or (T,) for all.
        Returns:
            The states of the last layer at all time steps, packed if the input was, and h_n, the
            last state of every layer and direction.
        Raises:
            ValueError: If both `last_only` and `head` are set, or the layer reads backwards and
                there are resets, or the layer does not know what a gap does.
        """
        if lengths is not None:
            lengths = as_lengths(lengths)
        if dt is not None:
            self._check_knows_gaps()
        if resets is not None and self.bidirectional:
            raise ValueError("expected one direction with resets, got a bidirectional layer")
        if last_only and head is not None:
            raise ValueError("expected either last_only or a head for all time steps, got both")
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ValueError("expected either a PackedSequence or lengths, got both")
            if is_exporting():
                raise ValueError(
                    "expected padded sequences while exporting, got a PackedSequence: export with "
                    "lengths=, and pad with torch.nn.utils.rnn.pad_packed_sequence"
                )
            x, sequence_lengths = pad_packed(input)
            check_input(x, self.input_size, self._weight)
            h0: Tensor | None = None
            if hx is not None:
                h0 = reordered(self._initial_states(hx, x.shape[1]), input.sorted_indices)
            values = step_values(input, resets, dt)
            output, h_n = self._run(x, h0, input.batch_sizes.tolist(), values, last_only, head)
            if output is not None:
                output = with_data(input, pack_padded_sequence(output, sequence_lengths).data)
            return output, reordered(h_n, input.unsorted_indices)
        directions = self.all_directions()
        check_input(input, self.input_size, directions[0].weight_ih)
        values = {}
        if resets is not None or dt is not None:
            values = step_values(input, resets, dt, self.batch_first)
        unbatched = input.dim() == 2
        x = input
        if unbatched:  # a single sequence, (T, M) also with `batch_first`, as in torch
            x = x.unsqueeze(1)
        elif self.batch_first:
            x = x.transpose(0, 1)
        h0 = None
        if hx is not None:
            h0 = self._initial_states(hx, x.shape[1], unbatched)
        order: Tensor | None = None
        sizes: Any = None
        if lengths is not None and exports_scan(self.backend):
            # An export takes lengths in any order, because it masks steps instead of sorting.
            sizes = lengths
        elif lengths is not None or x.shape[0] < 1:
            order, sizes = sorted_lengths(lengths, *x.shape[:2])
        if order is not None:
            order = order.to(x.device)
            x = x.index_select(1, order)
            values = {name: each.index_select(1, order) for name, each in values.items()}
            if h0 is not None:
                h0 = h0.index_select(1, order)
        output, h_n = self._run(x, h0, sizes, values, last_only, head, directions)
        if order is not None:
            back = order.argsort()  # the inverse of a permutation
            h_n = h_n.index_select(1, back)
            if output is not None:
                output = output.index_select(1, back)
        if unbatched:
            h_n = h_n.squeeze(1)
        if output is None:
            return None, h_n
        if unbatched:
            return output.squeeze(1), h_n
        if self.batch_first:
            output = output.transpose(0, 1)
        return output, h_n

    def step(
        self,
        x_t: Tensor,  # (B, M) or (M,)
        h: Any = None,  # (L, B, N) or (L, N)
        resets: Tensor | None = None,  # (B,) or ()
        dt: Tensor | None = None,  # (B,) or ()
    ) -> tuple[Tensor, Any]:
        """Process one time step; return the output and the new states.

        Where `resets` are true, the step begins from the initial state in place of h. `dt` is the
        time since the step before, see `forward`.

        Without gradients, call `freeze` first: otherwise every call evaluates the constraints. A
        frozen layer also keeps its weights packed for the compiled kernels, as long as none of
        them changes.

        Raises:
            ValueError: If the layer is bidirectional, or a shape is wrong.
        """
        if resets is not None:
            h = self._begun_anew(x_t, h, resets)
        if isinstance(h, Tensor):
            # the packed weights of a frozen layer, where they apply
            result = self._snapshot.step(self, x_t, (h,), dt)
            if result is not None:
                output, (h_n,) = result
                return output, h_n
        if dt is not None:
            return self._step_after(x_t, h, dt)
        if self.bidirectional:
            raise ValueError("expected a layer of one direction, got a bidirectional one")
        check_step(x_t)
        batched = x_t if x_t.dim() == 2 else x_t.unsqueeze(0)
        check_input(batched.unsqueeze(0), self.input_size, self._weight)
        h0 = self._initial_states(h, batched.shape[0], x_t.dim() == 1)
        output, h_n = self._run_step(batched, h0)
        if x_t.dim() == 1:
            return output.squeeze(0), h_n.squeeze(1)
        return output, h_n

    def initial_state(self, batch_size: int | None = None) -> Any:
        """Return the default initial states, in the shape of h_n: the trained ones, or zero.

        Args:
            batch_size: The number of sequences; by default one, without a batch axis.
        """
        if batch_size is None:
            return self._initial_states(None, 1).squeeze(1)
        return self._initial_states(None, batch_size)

    def _begun_anew(self, x_t: object, h: Any, resets: Tensor) -> Any:
        """Return the states before a step, the initial ones where there is a reset."""
        check_step(x_t)
        batch = cast("Tensor", x_t).shape[:-1]
        initial = self.initial_state(*batch)
        return reset_states(initial if h is None else h, initial, resets)

    def _step_after(self, x_t: Tensor, h: Any, dt: Tensor) -> tuple[Tensor, Any]:
        """Process one time step after a gap in time."""
        self._check_knows_gaps()
        check_step(x_t)
        check_dt(dt, x_t.shape[:-1], x_t.device)
        if x_t.dim() == 1:
            output, h_n = self(x_t.unsqueeze(0), h, dt=dt.unsqueeze(0))
            return output.squeeze(0), h_n
        time = 1 if self.batch_first else 0
        output, h_n = self(x_t.unsqueeze(time), h, dt=dt.unsqueeze(time))
        return output.squeeze(time), h_n

    def _check_knows_gaps(self) -> None:
        """Check that all directions know what a gap in time does.

        Raises:
            ValueError: If one does not, or the layer reads backwards, where other gaps count.
        """
        if self.bidirectional:
            raise ValueError("expected one direction with dt, got a bidirectional layer")
        for direction in self.all_directions():
            if not direction.knows_gaps():
                raise ValueError(
                    "expected dt with an LRU of complex eigenvalues or a LeakyRNN, got "
                    f"{type(self).__name__}: give the gaps as one more input channel"
                )

    def explain(self, input: Tensor | PackedSequence) -> dict[str, str]:
        """Return for each backend whether it is chosen, could be, or why it cannot be."""
        x = input.data if isinstance(input, PackedSequence) else input
        return explain(self.backends, self._call(x), self.backend)

    def _call(self, x: Tensor) -> Call:
        """Return what decides which backend runs."""
        return Call.of(
            x,
            self.nonlinearity,
            # forward mode may differentiate the weights instead of x
            *self.parameters(),
            state_size=self.all_directions()[0].state_size,
            features=self._features(),
        )

    def _takes_resets(self, x: Tensor) -> bool:
        """Whether all directions and the chosen backend compute resets themselves."""
        if not all(direction.takes_resets() for direction in self.all_directions()):
            return False
        call = self._call(x)
        chosen = choose(self.backends, call, self.backend)
        if "resets" not in chosen.features:
            return False
        # a backend may compute them by name only
        with_resets = replace(call, features=(*call.features, "resets"))
        return choose(self.backends, with_resets, self.backend) is chosen

    def _features(self) -> list[str]:
        """Return the features that a backend needs, as in `Backend.features`."""
        return non_default_options(self)

    def freeze(self) -> Self:
        """Store the recurrent matrices as plain tensors for inference, and call `eval()`.

        The stored matrices get no gradient and do not follow later changes of the constraints.
        `train()`, `reset()` and loading weights discard them; a move to another device or dtype
        evaluates the constraints again. An optimiser that trains a frozen layer leaves its W as
        it is. Steps of a frozen layer notice a part that is replaced only after another call.
        """
        self.eval()
        self._snapshot = LatestSnapshot()
        for direction in self.all_directions():
            direction.freeze()
        return self

    @property
    def is_frozen(self) -> bool:
        """Whether all recurrent matrices are stored as plain tensors, see `freeze`."""
        return all(direction.frozen is not None for direction in self.all_directions())

    def modules_of_step(self) -> list[nn.Module] | None:
        """Return the modules whose own weights a step reads; None if no kernel computes it."""
        directions = self.all_directions()
        if any(type(direction).stepper is AbstractDirection.stepper for direction in directions):
            return None
        # the layer, a block or the environment forces another backend
        if (self.backend or forced() or "cpu") != "cpu":
            return None
        modules: list[nn.Module] = [*directions]
        for direction in directions:
            # a frozen matrix stands for its constraint; every other part has weights of its own
            modules += [part for part in direction.children() if not isinstance(part, Constraint)]
        return modules

    def steppers(self) -> list[Any]:
        """Return the steps of all layers with their weights packed; None for one without."""
        return [direction.stepper() for direction in self.all_directions()]

    def all_directions(self) -> list[_D]:
        """Return every layer and direction, in torch's order."""
        # torch's own walk over the list takes as long as a small product
        return listed_parts(self, "directions")

    def recurrent_matrices(self) -> list[Tensor]:
        """Return W of every layer and direction, in torch's order, with autograd graphs."""
        return [W for direction in self.all_directions() for W in direction.matrices()]

    @torch.no_grad()
    def spectrum(self) -> Tensor:  # (L D, N), complex
        """Return the eigenvalues of every W, by descending angle.

        Raises:
            ValueError: If an entry of W is not finite.
        """
        matrices = self._spectrum_matrices()
        check_finite(matrices)
        eigenvalues = torch.linalg.eigvals(matrices)
        order = eigenvalues.angle().argsort(dim=-1, descending=True)
        return eigenvalues.gather(-1, order)

    @torch.no_grad()
    def orthogonality_error(self) -> Tensor:  # (L D,)
        r"""Return :math:`\|W^\top W - I\|_F` of every W."""
        matrices = self._spectrum_matrices()
        errors = [orthogonality_error(W) for W in matrices.flatten(0, -3)]
        return torch.tensor(errors).view(matrices.shape[:-2])

    @property
    def weight_dtype(self) -> torch.dtype:
        """The dtype that inputs must have."""
        return self._weight.dtype

    @property
    def _weight(self) -> Tensor:
        return self.all_directions()[0].weight_ih

    def extra_repr(self) -> str:
        defaults = self._recurrence_defaults() | {
            "num_layers": 1,
            "batch_first": False,
            "dropout": 0.0,
            "locked_dropout": False,
            "bidirectional": False,
        }
        defaults |= NORM_ZONEOUT_DEFAULTS
        shown = f"{self.input_size}, {self.hidden_size}"
        for name, default in defaults.items():
            value = getattr(self, name)
            if value != default:
                shown += f", {name}={value!r}"
        return shown

    def _recurrence_defaults(self) -> dict[str, Any]:
        """Return the options of the recurrence and the default values that the repr omits."""
        return {}

    def _spectrum_matrices(self) -> Tensor:  # (..., N, N)
        """Return the matrices that `spectrum` and `orthogonality_error` measure."""
        return torch.stack(self.recurrent_matrices())

    def _initial_states(
        self, hx: Any, batch_size: int, unbatched: bool = False
    ) -> Tensor:  # (L D, B, S)
        """Return the initial states that the user passes, or else the default ones."""
        return initial_states(self.all_directions(), hx, batch_size, unbatched)

    def _run_step(
        self,
        x: Tensor,  # (B, M)
        h0: Tensor,  # (L, B, S)
    ) -> tuple[Tensor, Tensor]:  # (B, N), (L, B, S)
        """Compute a single time step of all layers."""
        output, h_n = self._run(x.unsqueeze(0), h0, None)
        return cast("Tensor", output).squeeze(0), h_n

    def _run(
        self,
        x: Tensor,  # (T, B, M)
        h0: Tensor | None,  # (L D, B, N); by default those of each direction
        batch_sizes: list[int] | None,
        values: Mapping[str, Tensor] = MappingProxyType({}),  # each (T, B)
        last_only: bool = False,
        head: nn.Linear | None = None,
        directions: list[_D] | None = None,  # all of them, if the caller has asked for them
    ) -> tuple[Tensor | None, Tensor]:  # (T, B, D N) or (T, B, K), (L D, B, N)
        if "resets" in values and not self._takes_resets(x):
            if x.shape[1] == 0:  # an empty batch has no pieces
                return self._run(x, h0, batch_sizes, last_only=last_only, head=head)
            # the pieces between resets, as sequences
            pieces = Pieces(values["resets"], batch_sizes)
            others: dict[str, Tensor] = {}
            if "dt" in values:
                others["dt"] = pieces.cut(values["dt"].unsqueeze(2)).squeeze(2)
            if h0 is not None:
                initial = self._initial_states(None, len(pieces.lengths))
                h0 = pieces.first_states(h0, initial)
            output, h_n = self._run(pieces.cut(x), h0, pieces.batch_sizes, others, last_only)
            if output is not None:
                output = pieces.join(output)
            if output is not None and head is not None:
                output = head(output)
            return output, pieces.last_states(h_n)
        if "dt" in values:
            values = {**values, "dt": checked_gaps(values["dt"], batch_sizes)}
        if directions is None:
            directions = self.all_directions()
        # a head on both directions reads their joined states, which no single one has
        fused_head: dict[str, Tensor | None] = {}
        if head is not None and not self.bidirectional:
            fused_head = head_kwargs(head, directions[-1])
        last: list[Tensor] = []
        for layer in range(self.num_layers):
            is_top = layer == self.num_layers - 1
            if layer > 0 and self.dropout > 0:
                x = apply_dropout(x, self.dropout, self.locked_dropout, self.training)
            skip_outputs = last_only and is_top
            extra = {**values, **fused_head} if is_top else values
            outputs: list[Tensor] = []
            for d in range(self.num_directions):
                i = layer * self.num_directions + d
                direction = directions[i]
                state = direction.initial_state(x.shape[1]) if h0 is None else h0[i]
                reverse = d == 1
                h, h_last = direction(
                    x, state, batch_sizes, reverse, self.backend, skip_outputs, **extra
                )
                last.append(h_last)
                if not skip_outputs:
                    outputs.append(h)
            if self.bidirectional and outputs:
                x = torch.cat(outputs, dim=2)
            elif outputs:  # `cat` would copy it
                x = outputs[0]
        if last_only:
            return None, torch.stack(last)
        if head is not None and not fused_head:
            x = head(x)
        return x, torch.stack(last)


class LikeTorch(Stacked[_D]):
    """A layer that torch has too: `RNN`, `GRU` or `LSTM`."""

    torch_options: ClassVar[tuple[str, ...]] = ()
    """The arguments of torch's layer that its other layers lack."""

    def load_torch(self, torch_rnn: nn.RNNBase) -> Self:
        """Copy the weights of a layer of torch.

        Two biases that torch adds to the same sum become one; those of the candidate of a `GRU`
        with the reset after the matrix are not such.

        Raises:
            ValueError: If sizes, layers, directions, nonlinearity, biases or the recurrence
                differ, this layer has LayerNorm or zoneout, torch's layer projects its states, or
                a weight of one of them is pruned.
            NotInSetError: If a recurrent matrix is not in the set of its constraint.
            TypeError: If torch's layer is of another kind.
        """
        torch_weights.check_same_options(self, torch_rnn)
        check_own_weights(self)
        check_own_weights(torch_rnn, written=False)
        self.check_torch_form()
        torch_weights.copy_torch_weights(self.all_directions(), torch_rnn)
        return self

    def to_torch(self) -> Any:
        """Return a layer of torch with the evaluated weights of this one.

        Raises:
            ValueError: If torch's layer cannot compute this one: another form of the recurrence,
                another nonlinearity, complex states, LayerNorm, zoneout, locked dropout or trained
                initial states.
        """
        self.check_torch_form()
        return torch_weights.convert(self)

    def check_torch_form(self) -> None:
        """Check that the options of the recurrence are those of torch.

        Raises:
            ValueError: If one is not.
        """
