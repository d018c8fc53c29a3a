"""Deep stacks: pre-norm residual blocks around any recurrent layer."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, Self, cast, get_args

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from eigenrnn.errors import check_positive_integer
from eigenrnn.init import uniform_
from eigenrnn.layers.resets import reset_states
from eigenrnn.layers.sequences import Lengths, as_lengths, sorted_lengths, with_data
from eigenrnn.layers.stacked import Stacked
from eigenrnn.layers.step_values import check_dt, given, step_values
from eigenrnn.layers.validation import check_input, check_step
from eigenrnn.ops.compiled import kernels, make_stepper, number_type, rows, views
from eigenrnn.ops.dispatch import exports_scan
from eigenrnn.ops.time_steps import last_steps, without_padding
from eigenrnn.torch_internals import hooks_of_call

__all__ = ["Mixer", "ResidualStack", "call_layer", "last_output", "new_linear", "output_width"]

Norm = Literal["layer", "rms"]
Mixer = Literal["glu", "mlp"]

_Run = Callable[[nn.Module, Tensor, Any], tuple[Tensor, Any]]
"""Calls a layer with its input and its initial states."""

_NORMS: dict[str | None, Callable[[int], nn.Module]] = {
    "layer": nn.LayerNorm,
    "rms": nn.RMSNorm,
    None: lambda _: nn.Identity(),
}
_MLP_FACTOR = 4


class _Block(nn.Module):
    """A recurrent layer between a norm and a mixer, with a residual connection."""

    def __init__(
        self,
        layer: Stacked[Any] | nn.RNNBase,
        width: int,
        norm: Norm | None,
        mixer: Mixer | None,
        dropout: float,
        generator: Generator | None,
    ) -> None:
        super().__init__()
        self.width = width
        self.norm = _NORMS[norm](width)
        self.layer = layer
        outputs = output_width(layer)
        self.projection: nn.Module = nn.Identity()
        if outputs != width:
            self.projection = new_linear(outputs, width, generator=generator)
        self.dropout = nn.Dropout(dropout)
        self.gate: nn.Linear | None = None
        self.mlp: nn.Sequential | None = None
        if mixer == "glu":
            self.gate = new_linear(width, 2 * width, generator=generator)
        elif mixer == "mlp":
            wide = _MLP_FACTOR * width
            self.mlp = nn.Sequential(
                _NORMS[norm](width),
                new_linear(width, wide, generator=generator),
                nn.GELU(),
                new_linear(wide, width, generator=generator),
            )

    def parts(self) -> list[nn.Module]:
        """Return all modules but the recurrent layer."""
        found: list[nn.Module] = [self.norm, self.projection, self.dropout]
        if self.gate is not None:
            found.append(self.gate)
        if self.mlp is not None:
            found += [self.mlp, *self.mlp]
        return found

    def stepper(self) -> Any:
        """Return one time step with all weights packed; None without one of the layer."""
        layer = cast("Stacked[Any]", self.layer)
        (inner,) = layer.steppers()
        if inner is None:
            return None
        weights, call = _of_norm(self.norm)
        call |= {"N": self.width, "P": layer.output_size}
        if isinstance(self.projection, nn.Linear):
            weights |= _of_map(self.projection, "projection")
        if self.gate is not None:
            weights |= _of_map(self.gate, "gate")
        if self.mlp is not None:
            norm, first, _, second = cast("tuple[nn.Module, nn.Linear, Any, nn.Linear]", self.mlp)
            of_norm, options = _of_norm(norm, "mlp_")
            weights |= of_norm | _of_map(first, "mlp_in") | _of_map(second, "mlp_out")
            call |= options | {"H": first.out_features}
        # a block without norm and mixer has no weights of its own
        number = number_type(layer.all_directions()[0].weight_ih, *weights.values())
        return kernels.block_stepper(number, call | views(weights), inner)

    def forward(
        self,
        x: Tensor,  # (..., width)
        state: Any,
        run: _Run,
        last_only: bool = False,
    ) -> tuple[Tensor, Any]:
        h, state = run(self.layer, self.norm(x), state)
        if last_only:  # then h is the output of the last step alone
            x = x[-1]
        y = self.projection(h)
        if self.gate is not None:
            y = F.glu(self.gate(self.dropout(F.gelu(y))))
        x = x + self.dropout(y)
        if self.mlp is not None:
            x = x + self.dropout(self.mlp(x))
        return x, state


def _kinds(parts: Iterable[nn.Module]) -> list[tuple[Any, ...]]:
    """Return what the kernels take for granted of parts: their types and the shapes of weights."""
    return [
        (
            type(part),
            getattr(part, "approximate", None),
            *[w.shape for w in part.parameters(False)],
        )
        for part in parts
    ]


def _of_map(linear: nn.Linear, name: str) -> dict[str, Tensor | None]:
    return {name: linear.weight, f"{name}_bias": rows(linear.bias)}


def _of_norm(
    norm: nn.Module, prefix: str = ""
) -> tuple[dict[str, Tensor | None], dict[str, float]]:
    """Return the weights and the epsilon of a norm by the names of the kernels."""
    weights: dict[str, Tensor | None]
    if isinstance(norm, nn.LayerNorm):
        weights = {
            f"{prefix}norm_weight": rows(norm.weight),
            f"{prefix}norm_shift": rows(norm.bias),
        }
        return weights, {f"{prefix}norm_epsilon": norm.eps}
    if isinstance(norm, nn.RMSNorm):
        # torch's default is the spacing of the numbers at one
        epsilon = torch.finfo(norm.weight.dtype).eps if norm.eps is None else norm.eps
        return {f"{prefix}norm_weight": rows(norm.weight)}, {f"{prefix}norm_epsilon": epsilon}
    return {}, {}


def _feature_stepper(N: int, linear: nn.Linear | None, norm: nn.Module | None) -> Any:
    """Return a step of the map before the blocks, or of the norm after them."""
    weights: dict[str, Tensor | None] = {}
    call: dict[str, Any] = {"N": N}
    if linear is not None:
        weights |= {"weight": linear.weight, "bias": linear.bias}
        call["M"] = linear.in_features
    if norm is not None:
        of_norm, options = _of_norm(norm)
        weights |= of_norm
        call |= options
    return make_stepper("feature", weights, call)


class ResidualStack(nn.Module):
    r"""Pre-norm residual blocks around any recurrent layer, ours or torch's.

    .. math::
        x \leftarrow x + \text{mix}(P \, \text{layer}(\text{norm}(x))), \qquad
        \text{mix}_{\text{GLU}}(y) = (V_1 g + c_1) \odot \sigma(V_2 g + c_2), \quad
        g = \text{GELU}(y)

    With the mixer ``"mlp"`` there is no GLU. A second residual branch follows, a network of two
    layers that is four times as wide inside:
    :math:`x \leftarrow x + W_2 \, \text{GELU}(W_1 \text{norm}(x) + b_1) + b_2`. A norm follows
    the last block. Every part other than the layers acts on each time step alone, so the stack can
    be stepped like a layer. It has the call of `RNN`, and `SequenceModel` and `LanguageModel`
    accept it like a layer.

    Args:
        make_layer: A function of the width that returns a new recurrent layer with that many
            inputs, time first; called once per block. The layer may have any number of units. The
            other parts of the stack have the device and the dtype of the first one.
        width: The number of features of the residual stream.
        depth: The number of blocks.
        norm: The norm before each layer: ``"layer"`` (LayerNorm), ``"rms"`` (RMSNorm) or None.
        mixer: What follows each layer: ``"glu"``, ``"mlp"`` or None.
        dropout: The dropout probability, applied to each branch and to the input of a GLU.
        input_size: The number M of input features; the width by default. If it differs, a linear
            map comes first.
        batch_first: Whether input and output are (B, T, .) instead of (T, B, .).
        generator: The generator that draws the linear maps; torch's global one by default.
            `make_layer` chooses that of the layers.
    Shape:
        input: :math:`(T, B, M)`, :math:`(B, T, M)`, :math:`(T, M)` or a `PackedSequence`.
        h0: the states of all layers, joined along the first dimension; a pair for LSTMs.
        output: :math:`(T, B, \text{width})`, in the layout of the input.
        h_n: as h0.
    Raises:
        ValueError: If a size, a probability or the name of a norm or mixer is invalid, or the
            layers do not read `width` features, time first, or have states of different sizes.
        TypeError: If `make_layer` returns no recurrent layer.
    Source:
        Orvieto et al., ICML 2023, figure 1. https://arxiv.org/abs/2303.06349 (departures:
        LayerNorm in place of batch normalisation, which would couple time steps, and a last norm).
    Example:
        >>> stack = ResidualStack(lambda width: ScoRNN(width, 16), width=8, depth=2, input_size=3)
        >>> output, h_n = stack(torch.randn(5, 4, 3))
        >>> output.shape, h_n.shape
        (torch.Size([5, 4, 8]), torch.Size([2, 4, 16]))
    """

    proj_size = 0
    """Always 0: the output has the width of the stack."""

    def __init__(
        self,
        make_layer: Callable[[int], nn.Module],
        width: int,
        depth: int,
        *,
        norm: Norm | None = "layer",
        mixer: Mixer | None = "glu",
        dropout: float = 0.0,
        input_size: int | None = None,
        batch_first: bool = False,
        generator: Generator | None = None,
    ) -> None:
        if input_size is None:
            input_size = width
        sizes = {"width": width, "depth": depth, "input_size": input_size}
        for name, size in sizes.items():
            check_positive_integer(name, size)
        _check_choice("norm", norm, Norm)
        _check_choice("mixer", mixer, Mixer)
        if not 0 <= dropout < 1:
            raise ValueError(f"expected 0 <= dropout < 1, got {dropout}")
        super().__init__()
        self.input_size = int(input_size)
        self.width = int(width)
        self.depth = int(depth)
        self.hidden_size = self.width
        self.output_size = self.width
        self.batch_first = batch_first
        layers = [_checked_layer(make_layer(width), width) for _ in range(depth)]
        sizes_of_states = sorted({_state_sizes(layer) for layer in layers})
        if len(sizes_of_states) > 1:
            raise ValueError(
                "expected layers whose states have the same sizes, got "
                + " and ".join(map(str, sizes_of_states))
            )
        self.bidirectional = any(layer.bidirectional for layer in layers)
        self.encoder: nn.Module = nn.Identity()
        if input_size != width:
            self.encoder = new_linear(self.input_size, self.width, generator=generator)
        self.blocks = nn.ModuleList(
            _Block(layer, self.width, norm, mixer, dropout, generator) for layer in layers
        )
        self.norm = _NORMS[norm](self.width)
        # the other parts follow the device and the dtype of the first layer
        self.encoder.to(self._weight)
        for block in self.blocks:
            for part in block.children():
                if part is not block.layer:
                    part.to(self._weight)
        self.norm.to(self._weight)
        # what `steppers` relies on
        self._kinds = _kinds(self._parts())
        self._widths = [output_width(layer) for layer in layers]

    def forward(
        self,
        input: Tensor | PackedSequence,
        hx: Any = None,
        lengths: Lengths = None,
        last_only: bool = False,
        resets: Tensor | PackedSequence | None = None,
        dt: Tensor | PackedSequence | None = None,
    ) -> tuple[Any, Any]:
        """Run over a batch of sequences.

        Args:
            input: The sequences: padded, unbatched or packed.
            hx: The initial states of all layers; by default those of the layers.
            lengths: The number of time steps of each sequence in a padded batch, an alternative
                to packing. Later outputs are zero, and h_n is the state at the last step.
            last_only: Whether to return the output at the last step of each sequence only,
                (B, width), or (width,) if the input is unbatched. If all sequences are equally
                long, the last block then computes no other output.
            resets: Before which steps a sequence begins anew, see `Stacked.forward`; not around
                layers of torch.
            dt: The time since the step before, see `Stacked.forward`.
        Returns:
            The outputs at all time steps, packed if the input was, and h_n, the last states of
            all layers.
        Raises:
            ValueError: If a shape or a length is wrong, `lengths` is set with a packed input, or
                a layer reads backwards and there are resets.
        """
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ValueError("expected either a PackedSequence or lengths, got both")
            packed, h_n = self._run_packed(input, hx, given(resets=resets, dt=dt))
            if last_only:
                return _last_of_packed(packed), h_n
            return packed, h_n
        check_input(input, self.input_size, self._weight)
        unbatched = input.dim() == 2
        x = input
        values = step_values(input, resets, dt, self.batch_first)
        if unbatched:
            x = x.unsqueeze(1)
            hx = _unsqueezed(hx)
        elif self.batch_first:
            x = x.transpose(0, 1)
        output, h_n = self._run_padded(x, hx, as_lengths(lengths), last_only, values)
        if unbatched:
            batch_dim = 1
            if last_only:
                batch_dim = 0
            return output.squeeze(batch_dim), _mapped(h_n, lambda part: part.squeeze(1))
        if self.batch_first and not last_only:
            output = output.transpose(0, 1)
        return output, h_n

    def step(
        self,
        x_t: Tensor,  # (B, M) or (M,)
        h: Any = None,
        resets: Tensor | None = None,  # (B,) or ()
        dt: Tensor | None = None,  # (B,) or ()
    ) -> tuple[Tensor, Any]:
        """Process one time step; return the output and the new states.

        Where `resets` are true, the step begins from the initial state in place of h. `dt` is the
        time since the step before.
        Without gradients, call `freeze` first: otherwise every call evaluates the constraints.

        Raises:
            ValueError: If a layer is bidirectional, or a shape is wrong.
        """
        if self.bidirectional:
            raise ValueError("expected layers of one direction, got bidirectional ones")
        check_step(x_t)
        batched = x_t if x_t.dim() == 2 else x_t.unsqueeze(0)
        check_input(batched.unsqueeze(0), self.input_size, self._weight)
        if resets is not None:
            initial = self.initial_state(*x_t.shape[:-1])
            h = reset_states(initial if h is None else h, initial, resets)
        if dt is not None:
            check_dt(dt, x_t.shape[:-1], x_t.device)
            dt = dt.expand(len(batched))
        run = partial(_step, dt=dt)
        if x_t.dim() == 2:
            return self._run(batched, h, run)
        output, h_n = self._run(batched, _unsqueezed(h), run)
        return output.squeeze(0), _mapped(h_n, lambda part: part.squeeze(1))

    def initial_state(self, batch_size: int | None = None) -> Any:
        """Return the default initial states of all layers, see `Stacked.initial_state`."""
        states = [_initial_state(layer, batch_size) for layer in self.layers()]
        if isinstance(states[0], tuple):
            return tuple(torch.cat(parts) for parts in zip(*states, strict=True))
        return torch.cat(states)

    def freeze(self) -> Self:
        """Freeze the layers that can be, see `Stacked.freeze`, and call `eval()`."""
        self.eval()
        for layer in self.layers():
            if isinstance(layer, Stacked):
                layer.freeze()
        return self

    @property
    def is_frozen(self) -> bool:
        """Whether the stack is in evaluation mode and all its layers are frozen."""
        return not self.training and all(layer.is_frozen for layer in self.layers())

    def modules_of_step(self) -> list[nn.Module] | None:
        """Return the modules whose own weights a step reads; None if no kernel computes it."""
        parts = self._parts()
        # the user may have replaced one, and the kernels check nothing
        if _kinds(parts) != self._kinds:
            return None
        found: list[nn.Module] = [*self.blocks, *parts]
        for layer in self.layers():
            # the step of a block holds that of one layer
            if not isinstance(layer, Stacked) or layer.num_layers > 1:
                return None
            of_layer = layer.modules_of_step()
            if of_layer is None or layer.input_size != self.width:
                return None
            found += of_layer
        widths = [output_width(layer) for layer in self.layers()]
        return found if widths == self._widths else None

    def steppers(self) -> list[Any]:
        """Return the steps of all parts with their weights packed; None for one without."""
        found: list[Any] = []
        if isinstance(self.encoder, nn.Linear):
            found.append(_feature_stepper(self.encoder.out_features, self.encoder, None))
        found += [cast("_Block", block).stepper() for block in self.blocks]
        if not isinstance(self.norm, nn.Identity):
            found.append(_feature_stepper(self.width, None, self.norm))
        return found

    def _parts(self) -> list[nn.Module]:
        """Return all modules but the blocks and their recurrent layers."""
        found: list[nn.Module] = [self.encoder, self.norm]
        for block in self.blocks:
            found += cast("_Block", block).parts()
        return found

    def layers(self) -> list[Any]:
        """Return the recurrent layers, that of the first block first."""
        return [block.layer for block in self.blocks]

    @property
    def weight_dtype(self) -> torch.dtype:
        """The dtype that inputs must have."""
        return self._weight.dtype

    @property
    def _weight(self) -> Tensor:
        layer = self.layers()[0]
        if isinstance(layer, Stacked):
            return layer.all_directions()[0].weight_ih
        return layer.weight_ih_l0

    def extra_repr(self) -> str:
        return f"{self.input_size}, width={self.width}, depth={self.depth}"

    def _run(
        self,
        x: Tensor,
        hx: Any,
        run: _Run,
        last_only: bool = False,
        values: Mapping[str, Tensor] = MappingProxyType({}),  # each (T, B)
    ) -> tuple[Tensor, Any]:
        """Apply all parts to the features of all time steps, or of one.

        With `last_only`, the last block mixes the last time step alone.
        """
        run_last = partial(last_output, values=values)
        states = self._split_states(hx)
        x = self.encoder(x)
        last: list[Any] = []
        for i, (block, state) in enumerate(zip(self.blocks, states, strict=True)):
            if last_only and i == self.depth - 1:
                x, new_state = block(x, state, run_last, last_only=True)
            else:
                x, new_state = block(x, state, run)
            last.append(new_state)
        if isinstance(last[0], tuple):
            h_n = tuple(torch.cat(parts) for parts in zip(*last, strict=True))
        else:
            h_n = torch.cat(last)
        return self.norm(x), h_n

    def _run_padded(
        self,
        x: Tensor,  # (T, B, M)
        hx: Any,
        lengths: Tensor | None,  # (B,)
        last_only: bool,
        values: Mapping[str, Tensor],  # each (T, B)
    ) -> tuple[Tensor, Any]:  # (T, B, width) or (B, width)
        if lengths is not None and exports_scan():
            output, h_n = self._run(x, hx, lambda layer, data, state: layer(data, state, lengths))
            if last_only:
                return last_steps(output, lengths), h_n
            return without_padding(output, lengths), h_n
        order, _ = sorted_lengths(lengths, *x.shape[:2])
        if order is None:  # all sequences are equally long
            return self._run(x, hx, partial(call_layer, values=values), last_only, values)
        # packed, so that norms and mixers skip the padding, too
        counts = cast("Tensor", lengths).cpu()
        pack = partial(pack_padded_sequence, lengths=counts, enforce_sorted=False)
        packed_values = {name: pack(each) for name, each in values.items()}
        packed, h_n = self._run_packed(pack(x), hx, packed_values)
        if last_only:
            return _last_of_packed(packed), h_n
        output, _ = pad_packed_sequence(packed, total_length=len(x))
        return output, h_n

    def _run_packed(
        self, packed: PackedSequence, hx: Any, values: Mapping[str, PackedSequence]
    ) -> tuple[PackedSequence, Any]:
        check_input(packed.data, self.input_size, self._weight)

        def call(layer: nn.Module, data: Tensor, state: Any) -> tuple[Tensor, Any]:
            output, h_n = call_layer(layer, with_data(packed, data), state, values)
            return output.data, h_n

        data, h_n = self._run(packed.data, hx, call)
        return with_data(packed, data), h_n

    def _split_states(self, hx: Any) -> list[Any]:
        """Return the initial states of each layer; None for the default ones."""
        if hx is None:
            return [None] * self.depth
        counts = [_state_count(layer) for layer in self.layers()]
        if isinstance(hx, tuple):  # (h, c) of LSTMs
            return list(zip(*(part.split(counts) for part in hx), strict=True))
        return list(hx.split(counts))


def new_linear(inputs: int, outputs: int, *, generator: Generator | None) -> nn.Linear:
    """Return torch's linear map with its usual initialisation, drawn from a generator."""
    # torch's constructor would draw from its global generator
    made = nn.Linear(inputs, outputs, device="meta")
    made.to_empty(device=torch.get_default_device())
    for weight in made.parameters():
        uniform_(weight, inputs**-0.5, generator=generator)
    return made


def call_layer(
    layer: nn.Module,
    x: Tensor | PackedSequence,
    state: Any,
    values: Mapping[str, Any] = MappingProxyType({}),
) -> tuple[Any, Any]:
    """Call a layer, ours or torch's, with resets and gaps in the layout of the input, time first.

    Raises:
        ValueError: If there are any for a layer of torch.
    """
    if isinstance(layer, nn.RNNBase) and values:
        names = " and ".join(values)
        raise ValueError(
            f"expected no {names} for torch.nn.{type(layer).__name__}, got some: take a layer of "
            "eigenrnn"
        )
    return layer(x, state, **values)


def last_output(
    layer: nn.Module,
    x: Tensor,  # (T, B, M)
    state: Any,
    values: Mapping[str, Tensor] = MappingProxyType({}),  # each (T, B)
) -> tuple[Tensor, Any]:  # (B, N)
    """Return the output at the last time step, and the last state."""
    directions: list[Any] = []
    if isinstance(layer, Stacked):
        directions = layer.all_directions()
    # a hook may change the outputs, so it must see all of them
    if len(directions) != 1 or any(hooks_of_call(layer)):
        output, h_n = call_layer(layer, x, state, values)
        return output[-1], h_n
    _, h_n = layer(x, state, last_only=True, **values)
    h = h_n
    if isinstance(h_n, tuple):  # an LSTM returns (h_n, c_n)
        h = h_n[0]
    return directions[0].output_at(x[-1], h[-1]), h_n


def _step(
    layer: nn.Module, x_t: Tensor, state: Any, dt: Tensor | None = None
) -> tuple[Tensor, Any]:
    if isinstance(layer, Stacked):
        return layer.step(x_t, state, dt=dt)
    values = {} if dt is None else {"dt": dt}
    output, h_n = call_layer(layer, x_t.unsqueeze(0), state, values)
    return output.squeeze(0), h_n


def _last_of_packed(packed: PackedSequence) -> Tensor:  # (B, width)
    return last_steps(*pad_packed_sequence(packed))


def _mapped(states: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(states, tuple):  # (h, c) of LSTMs
        return tuple(map(function, states))
    return function(states)


def _unsqueezed(states: Any) -> Any:
    if states is None:
        return None
    return _mapped(states, lambda part: part.unsqueeze(1))


def _state_sizes(layer: nn.Module) -> tuple[int, ...]:
    """Return the size of a state, or of h and c of an LSTM."""
    state = _initial_state(layer, None)
    if isinstance(state, tuple):
        return tuple(part.shape[-1] for part in state)
    return (state.shape[-1],)


def _state_count(layer: Any) -> int:
    """Return the number of states of all layers and directions."""
    return layer.num_layers * (2 if layer.bidirectional else 1)


def _initial_state(layer: nn.Module, batch_size: int | None) -> Any:
    if isinstance(layer, Stacked):
        return layer.initial_state(batch_size)
    torch_layer = cast("nn.RNNBase", layer)
    count = _state_count(torch_layer)
    shape = (count,)
    if batch_size is not None:
        shape = (count, batch_size)
    weight = cast("Tensor", torch_layer.weight_ih_l0)
    h = weight.new_zeros(*shape, torch_layer.proj_size or torch_layer.hidden_size)
    if isinstance(torch_layer, nn.LSTM):
        return h, h.new_zeros(*shape, torch_layer.hidden_size)
    return h


def output_width(layer: "Stacked[Any] | ResidualStack | nn.RNNBase") -> int:
    """Return the number of features of the output of a layer, ours or torch's."""
    if not isinstance(layer, nn.RNNBase):
        return layer.output_size
    return (2 if layer.bidirectional else 1) * (layer.proj_size or layer.hidden_size)


def _checked_layer(layer: object, width: int) -> Any:
    if not isinstance(layer, Stacked | nn.RNNBase):
        raise TypeError(
            f"expected make_layer to return a recurrent layer, got {type(layer).__name__}"
        )
    known = cast("Stacked[Any] | nn.RNNBase", layer)
    if known.batch_first:
        raise ValueError(
            "expected layers with time first, got batch_first=True: set it for the stack instead"
        )
    if known.input_size != width:
        raise ValueError(f"expected layers with input_size={width}, got {known.input_size}")
    return known


def _check_choice(name: str, value: object, kind: Any) -> None:
    if value is not None and value not in get_args(kind):
        allowed = ", ".join(map(repr, get_args(kind)))
        raise ValueError(f"expected {name} to be {allowed} or None, got {value!r}")
