"""Any recurrent layer, cell or step function as a map from state to state in double precision."""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MethodType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.utils import parametrize

from eigenrnn.constraints import Constraint, Unconstrained
from eigenrnn.constraints.constrain import ConstrainedRows
from eigenrnn.errors import check_positive_integer
from eigenrnn.layers.cells import AbstractCell
from eigenrnn.layers.direction import AbstractDirection
from eigenrnn.layers.gru import GRU
from eigenrnn.layers.leak import Leak
from eigenrnn.layers.lstm import LSTM
from eigenrnn.layers.rnn import RNN, RNNDirection
from eigenrnn.layers.stacked import Stacked
from eigenrnn.layers.torch_weights import copy_torch_weights, direction_names
from eigenrnn.linalg import as_numpy, double_precision
from eigenrnn.residual_stack import ResidualStack
from eigenrnn.torch_internals import has_own_forward

__all__ = [
    "Network",
    "RecurrentWeights",
    "StateMap",
    "StepFunction",
    "as_ours",
    "bare_state_map",
    "check_network",
    "double_copy",
    "has_batch_first",
    "named_matrices",
    "recurrent_layers",
    "recurrent_matrices",
    "recurrent_weights",
    "select_state_map",
    "single_layer",
    "state_maps",
    "weights_in_order",
]

Step = Callable[[Tensor, Tensor], Tensor]

StepFunction = Callable[[Tensor, Any], Any]
"""Maps an input and a state to the next state, or to an output and the next state."""

_PROBED_SEQUENCES = 3  # not 2: a pair of states could be unpacked from two rows
# what functions of the user raise for arguments of another shape or kind
_STEP_ERRORS = (TypeError, ValueError, RuntimeError, LookupError, AttributeError)
_MAX_JACOBIAN_ENTRIES = 2**21  # held at once
_MIN_MAPPED_ENTRIES = 2**16  # of fewer, the overhead of mapping over sequences takes longer
_ROUNDING = 1e-9  # a product of one row may be summed in another order than that of three


@dataclass(frozen=True)
class StateMap:
    r"""One layer of a network in one direction, or a step function of your own.

    It is a snapshot of the current weights, in double precision, on the CPU and in evaluation
    mode. `state_maps` returns those of a network. `from_step` builds one from any function. Every
    function of `eigenrnn.analysis` that takes a network also takes a state map.

    Args:
        name: ``"l0"``, or ``"l0_reverse"`` for the second direction, as in torch.
        matrices: The recurrent matrices by gate; an ungated layer has one, ``"hh"``.
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        state_size: The number S of real numbers in a state. It is 2N for an LSTM, whose state is
            :math:`(h, c)`, and for a complex network, whose real parts precede the imaginary ones.
        step: Maps an input and a state to the next state.
        begin: Returns the initial state of B sequences.
        output: Maps an input and the state after it to the output of the layer.
        blocks: The named parts of a state.
        transitions: For a delta rule, maps a sequence and the state before it to the matrices that
            multiply the columns of each head's state. All other numbers of the state are past
            inputs.
        bounds: The range of the states: an entry between -bound and bound stays there. It is 1 in
            a tanh network, and infinite for an entry without a range; None if no entry has one.
        leak: The leak of an ungated layer, or the share that zoneout lets a step replace; None if
            a step replaces the whole state.
    Shape:
        matrices: :math:`(N, N)` each.
        step: :math:`(B, M)` and :math:`(B, S)` to :math:`(B, S)`.
        output: :math:`(\dots, M)` and :math:`(\dots, S)` to :math:`(\dots, K)`.
        transitions: :math:`(T, B, M)` and :math:`(B, S)` to :math:`(T, B, H, K, K)`.
        bounds: :math:`(S,)`.
        leak: :math:`(N,)`.
    """

    name: str
    matrices: Mapping[str, Tensor]
    input_size: int
    hidden_size: int
    state_size: int
    step: Step
    begin: Callable[[int], Tensor]
    output: Step
    blocks: Mapping[str, slice] = field(default_factory=dict[str, slice])
    transitions: Step | None = None
    bounds: Tensor | None = None
    leak: Tensor | None = None

    @classmethod
    @torch.inference_mode(False)  # whether it can be differentiated is tried
    def from_step(
        cls,
        step: StepFunction,
        input_size: int,
        state_size: int | tuple[int, int],
        *,
        matrices: Mapping[str, Tensor | ArrayLike] | None = None,
    ) -> Self:
        r"""Build a state map from a function of an input and a state.

        The function may return the next state, or a pair of an output and the next state. A state
        is one tensor, or a pair :math:`(h, c)` as of an LSTM, which is analysed as one vector. A
        module, or the one whose method the step is, is copied in double precision and evaluation
        mode. Any other function is called as it is, with numbers in double precision; call
        ``.double()`` on modules inside.

        Args:
            step: The function, or a module with such a `forward`, such as a cell. It must treat
                the sequences of a batch separately, return the same result in every call, and
                support `torch.func`.
            input_size: The number M of inputs.
            state_size: The number N of entries of a state, or ``(N, N)`` of a pair.
            matrices: The recurrent matrices by name, if there are any, for analyses that need
                them. A single one is usually named ``"hh"``.
        Shape:
            step: :math:`(B, M)` and :math:`(B, N)` to :math:`(B, N)`; matrices: :math:`(N, N)`.
        Raises:
            TypeError: If the step is not a function.
            ValueError: If a size is not positive, or the function fails, returns another shape,
                mixes the sequences of a batch, is random, or cannot be differentiated.
        Example:
            >>> W = torch.tensor([[0.0, -2.0], [2.0, 0.0]], dtype=torch.float64)
            >>> rotation = StateMap.from_step(lambda x, h: torch.tanh(h @ W.T + x), 2, 2)
            >>> eigenrnn.analysis.fixed_points(rotation, initial_states=1).kinds
            ['unstable']
        """
        if not callable(step) or isinstance(step, type):
            raise TypeError(f"expected a step function or a module, got {step!r}")
        sizes = state_size if isinstance(state_size, tuple) else (state_size,)
        check_positive_integer("input_size", input_size)
        for size in sizes:
            check_positive_integer("state_size", size)
        converted: dict[str, Tensor] = {}
        for name, W in (matrices or {}).items():
            values = W if isinstance(W, Tensor) else as_numpy(W, f"matrices[{name!r}]")
            matrix = torch.as_tensor(values).detach().to("cpu")
            if matrix.shape != (sizes[0], sizes[0]):
                raise ValueError(
                    f"expected matrices[{name!r}] of shape ({sizes[0]}, {sizes[0]}), "
                    f"got {tuple(matrix.shape)}"
                )
            converted[name] = matrix.to(double_precision(matrix.dtype), copy=True)
        flat = _flat_step(_in_double_precision(step), sizes)
        _check_step(flat, input_size, sum(sizes))
        blocks: dict[str, slice] = {}
        if len(sizes) == 2:
            blocks = {"hidden": slice(0, sizes[0]), "cell": slice(sizes[0], sum(sizes))}
        return cls(
            name="l0",
            matrices=converted,
            input_size=input_size,
            hidden_size=sizes[0],
            state_size=sum(sizes),
            step=flat,
            begin=lambda batch: torch.zeros(batch, sum(sizes), dtype=torch.float64),
            output=lambda _, state: state[..., : sizes[0]],
            blocks=blocks,
        )

    @property
    def jacobians_at_once(self) -> int:
        """The number of Jacobians for which there should be memory."""
        return max(1, _MAX_JACOBIAN_ENTRIES // self.state_size**2)

    @property
    def reverse(self) -> bool:
        """Whether it processes sequences from their end."""
        return self.name.endswith("_reverse")

    @torch.no_grad()
    def states(
        self,
        x: Tensor,  # (T, B, M)
        first: Tensor | None = None,  # (B, S)
        *,
        discard: int = 0,
    ) -> Tensor:  # (T + 1 - discard, B, S)
        """Return the initial state and the state after each step, in processing order.

        Args:
            x: The input, in the order of time.
            first: The initial state; by default that of the network.
            discard: The number of states at the beginning to leave out.
        """
        x = x.detach().to("cpu", torch.float64)
        if self.reverse:
            x = x.flip(0)
        state = self.begin(x.shape[1]) if first is None else first
        states = [] if discard else [state]
        for t, x_t in enumerate(x, start=1):
            state = self.step(x_t, state)
            if t >= discard:
                states.append(state)
        return torch.stack(states)

    def jacobians(
        self,
        x: Tensor,  # (B, M)
        state: Tensor,  # (B, S)
    ) -> tuple[Tensor, Tensor]:  # (B, S, S), (B, S, M)
        """Differentiate a step with respect to the previous state and to its input.

        Sequences do not interact, so one backward pass per entry of the state covers the whole
        batch. These passes run as one vectorised call. Of our layers, many or large Jacobians are
        computed as in `_jacobians_of_one`, in which sequences share the products of weights.
        """
        is_large = len(state) * self.state_size**2 >= _MIN_MAPPED_ENTRIES
        # wide inputs have more directions of change than the state has entries
        is_narrow = self.input_size <= self.state_size
        if isinstance(self.step, _MappableStep) and is_large and is_narrow:
            return torch.func.vmap(self._jacobians_of_one)(x, state)
        vjp: Any = torch.func.vjp(self.step, x, state)
        after, pull_back = vjp

        def row(direction: Tensor) -> tuple[Tensor, Tensor]:
            return pull_back(direction.expand_as(after))

        # the vector e_i on the left of the Jacobian gives its row i
        I = torch.eye(self.state_size, dtype=after.dtype)
        by_input, by_state = torch.func.vmap(row)(I)
        return by_state.transpose(0, 1), by_input.transpose(0, 1)

    def _jacobians_of_one(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Differentiate a step of one sequence: (M,) and (S,) to (S, S) and (S, M).

        Directions of change are the same for all sequences. Mapped over these, the product of a
        weight with the directions is therefore computed once, and not for each sequence.
        """

        def step(x: Tensor, state: Tensor) -> Tensor:
            return self.step(x.unsqueeze(0), state.unsqueeze(0)).squeeze(0)

        vjp: Any = torch.func.vjp
        after, pull_back = vjp(step, x, state)
        # The map of v to v J is linear, so its own derivative takes d to J d. Torch's forward mode
        # does the same, but more slowly, and it warns of torch.jit.
        _, push_forward = vjp(pull_back, torch.zeros_like(after))
        sizes = (len(x), len(state))
        I = torch.eye(sum(sizes), dtype=after.dtype)
        (J,) = torch.func.vmap(push_forward, out_dims=1)(I.split(sizes, dim=1))
        by_input, by_state = J.split(sizes, dim=1)  # of (S, M + S)
        return by_state, by_input


Network = nn.Module | StateMap | list[StateMap]
"""A recurrent layer, a model with one, a cell, a `StateMap`, or those of a layer."""


def state_maps(network: Network) -> list[StateMap]:
    """Return every layer and direction of a recurrent network, in torch's order.

    An analysis that takes a network also takes this list, with inputs :math:`(T, B, M)`. Several
    analyses of one network then copy it only once.

    Args:
        network: One of our layers or cells, `torch.nn.RNN`, `GRU`, `LSTM` or their cells, a model
            with one of them, any cell with `input_size` and `hidden_size`, or a state map. A
            `ResidualStack` is one state map, whose state joins those of all layers. A module of
            your own with a method ``step(x, h)`` and these sizes is taken as it is, with what is
            around a cell inside. Of any other model only the layer or cell inside is analysed. If
            a cell of your own wraps one, pass it through `StateMap.from_step`.
    Raises:
        ValueError: If the module has no recurrent layer or several, or the layer projects its
            states.
        TypeError: If the argument is none of these.
    """
    if isinstance(network, StateMap):
        return [network]
    if isinstance(network, list):
        return network
    check_network(network)
    stack = _residual_stack(network)
    if stack is not None:
        return [_stack_state_map(stack)]
    if isinstance(network, Stacked | nn.RNNBase) and has_own_forward(network):
        raise ValueError(
            f"expected a layer that computes what its class does, got {type(network).__name__} "
            "with a forward of its own: pass its step, StateMap.from_step"
        )
    if _has_own_step(network):
        own: Any = network
        return [_cell_state_map(own.step, own.input_size, own.hidden_size)]
    inputs: Any = getattr(network, "input_size", None)
    units: Any = getattr(network, "hidden_size", None)
    if _known_layers(network) or inputs is None or units is None:
        return _layer_state_maps(single_layer(network))
    return [_cell_state_map(network, inputs, units)]


def _has_own_step(network: Network) -> bool:
    """Whether a module of the user is a map of states by its method `step`."""
    if not isinstance(network, nn.Module) or "" in _known_layers(network):
        return False
    if isinstance(network, ResidualStack) or not callable(getattr(network, "step", None)):
        return False
    return hasattr(network, "input_size") and hasattr(network, "hidden_size")


def bare_state_map(network: Network) -> StateMap | None:
    """Return the state map of a cell or of the user; None for layers and models with one.

    Raises:
        ValueError: If there are several.
    """
    if isinstance(network, nn.Module) and not _has_own_step(network):
        known = _known_layers(network)
        # the name "" is that of the module itself
        if known and not isinstance(known.get(""), AbstractCell | nn.RNNCellBase):
            return None
    maps = state_maps(network)
    if len(maps) > 1:
        raise ValueError(
            f"expected a network or one of its state maps, got {len(maps)} of them: this analysis "
            "follows the calls of a whole network"
        )
    return maps[0]


def check_network(network: object) -> None:
    """Check that an argument is a network.

    Raises:
        TypeError: If it is something else, such as a matrix, a class or a function.
    """
    if not isinstance(network, nn.Module | StateMap):
        raise TypeError(
            "expected a recurrent layer, a cell, a model with one or StateMap.from_step(...), got "
            f"{type(network).__name__}"
        )


def has_batch_first(network: Network) -> bool:
    """Whether the batch is the first dimension of the inputs."""
    if not isinstance(network, nn.Module) or not _known_layers(network):
        return False
    if _has_own_step(network):
        return False
    network = _residual_stack(network) or single_layer(network)
    return bool(getattr(network, "batch_first", False))


def select_state_map(directions: list[StateMap], which: str) -> StateMap:
    """Return the layer and direction with a name.

    Raises:
        ValueError: If the name is unknown.
    """
    for each in directions:
        if each.name == which:
            return each
    names = ", ".join(each.name for each in directions)
    raise ValueError(f"expected which to be one of {names}, got {which!r}")


def single_layer(module: Network) -> nn.Module:
    """Return the recurrent layer or cell inside a module, or the module itself.

    Raises:
        ValueError: If the module has no recurrent layer, or several.
    """
    layers = recurrent_layers(module)
    if len(layers) > 1:
        raise ValueError(
            f"expected one recurrent layer, got {', '.join(layers)} in {type(module).__name__}; "
            "choose one, such as model.get_submodule(name)"
        )
    return next(iter(layers.values()))


def recurrent_layers(module: Network) -> dict[str, nn.Module]:
    """Return the recurrent layers and cells inside a module, ours and torch's, by name.

    Raises:
        ValueError: If the module has no recurrent layer.
        TypeError: If the argument is not a module.
    """
    check_network(module)
    layers = _known_layers(module) if isinstance(module, nn.Module) else {}
    if not layers:
        raise ValueError(
            f"expected a recurrent layer or a model with one, got {type(module).__name__}, with "
            "no recurrent matrix that eigenrnn knows; pass the matrix, or StateMap.from_step"
        )
    return layers


def _residual_stack(module: nn.Module) -> ResidualStack | None:
    """Return the residual stack that has all recurrent layers of a module, if there is one."""
    for each in module.modules():
        if not isinstance(each, ResidualStack):
            continue
        if len(_known_layers(each)) == len(_known_layers(module)):
            return each
    return None


def _stack_state_map(stack: ResidualStack) -> StateMap:
    """Return the map of the states of all layers, joined.

    Raises:
        ValueError: If a layer is bidirectional or has a state of two parts.
    """
    state = stack.initial_state(1)
    if stack.bidirectional or not isinstance(state, Tensor):
        kind = "bidirectional layers" if stack.bidirectional else "LSTMs"
        raise ValueError(
            "expected a ResidualStack around layers of one direction with a single tensor as "
            f"state, got {kind}; pass one of its layers, such as stack.layers()[0]"
        )
    double = double_copy(stack).freeze()
    layers, _, size = double.initial_state(1).shape

    def step(x: Tensor, states: Tensor) -> Tensor:  # (B, M), (B, layers size)
        _, after = double.step(x, states.unflatten(1, (layers, size)).transpose(0, 1))
        return after.transpose(0, 1).flatten(1)

    def begin(batch_size: int) -> Tensor:  # (B, layers size)
        return double.initial_state(batch_size).detach().transpose(0, 1).flatten(1)

    return replace(StateMap.from_step(step, stack.input_size, layers * size), begin=begin)


def _known_layers(module: nn.Module) -> dict[str, nn.Module]:
    kinds = (Stacked, AbstractCell, nn.RNN, nn.GRU, nn.LSTM, nn.RNNCell, nn.GRUCell, nn.LSTMCell)
    found = {
        name: each
        for name, each in module.named_modules()
        if isinstance(each, kinds) and not has_own_forward(each)
    }
    # a cell of ours holds a layer, which is no second network
    inner = {id(each.layer) for each in found.values() if isinstance(each, AbstractCell)}
    return {name: each for name, each in found.items() if id(each) not in inner}


def recurrent_matrices(
    network: Network,
) -> dict[str, NDArray[np.float64] | NDArray[np.complex128]]:
    """Return all recurrent matrices of a network in double precision.

    Args:
        network: A recurrent layer or cell, ours or torch's, a model with at least one, or a
            state map with matrices.
    Returns:
        The matrices by gate, layer and direction, such as ``"hh_l0"`` or ``"reset_l0_reverse"``.
        In a model with several recurrent layers the name of the layer comes first.
    Raises:
        ValueError: If the network has no recurrent matrix.
    Example:
        >>> list(recurrent_matrices(torch.nn.LSTM(2, 3)))
        ['input_l0', 'forget_l0', 'cell_l0', 'output_l0']
    """
    if isinstance(network, StateMap | list):
        maps = state_maps(network)
        if not any(each.matrices for each in maps):
            raise ValueError("expected a state map with matrices={'hh': W}, got none")
        return named_matrices({"": maps})
    layers = recurrent_layers(network)
    return named_matrices({name: _layer_state_maps(layer) for name, layer in layers.items()})


def named_matrices(
    layers: Mapping[str, list[StateMap]],
) -> dict[str, NDArray[np.float64] | NDArray[np.complex128]]:
    """Return the recurrent matrices of layers, as `recurrent_matrices` does."""
    named: dict[str, NDArray[np.float64] | NDArray[np.complex128]] = {}
    for name, directions in layers.items():
        prefix = f"{name}." if len(layers) > 1 else ""
        for state_map in directions:
            for gate, W in state_map.matrices.items():
                named[f"{prefix}{gate}_{state_map.name}"] = W.numpy()
    return named


class RecurrentWeights(NamedTuple):
    """The weights around one recurrent matrix, in the precision of the run.

    Args:
        W: The recurrent matrix.
        U: The input weights of the same gate.
        constraint: The constraint that produces W, if it has one.
        leak: The leak of each unit, as of `StateMap`.
    Shape:
        W: :math:`(N, N)`; U: :math:`(N, M)`; both complex or both real. leak: :math:`(N,)`.
    """

    W: Tensor
    U: Tensor
    constraint: Constraint | None
    leak: Tensor | None = None


def recurrent_weights(model: nn.Module) -> dict[str, RecurrentWeights]:
    """Return the weights around each recurrent matrix, by the names of `recurrent_matrices`.

    These are the matrices that training uses, in its precision. `recurrent_matrices` evaluates
    the constraints in double precision instead.

    Args:
        model: A recurrent layer, ours or torch's, or a model with at least one.
    """
    return dict(zip(recurrent_matrices(model), weights_in_order(model), strict=True))


@torch.no_grad()
def weights_in_order(model: nn.Module) -> list[RecurrentWeights]:
    """Return the values of `recurrent_weights`."""
    weights: list[RecurrentWeights] = []
    for layer in recurrent_layers(model).values():
        weights.extend(_weights(layer))
    return weights


def _flat_step(step: StepFunction, sizes: tuple[int, ...]) -> Step:
    """Return a step whose states are single vectors, and whose only result is the next state."""
    has_cell = len(sizes) == 2

    def flat(x: Tensor, state: Tensor) -> Tensor:  # (B, M), (B, S) to (B, S)
        result = step(x, state.split(sizes, dim=-1) if has_cell else state)
        is_pair = isinstance(result, tuple | list) and len(result) == 2
        # (h, c) is a state of two parts; (y, (h, c)) is an output and a state
        if is_pair and (not has_cell or isinstance(result[1], tuple | list)):
            result = result[1]
        parts: Any = result if has_cell else [result]
        return torch.cat(tuple(parts), dim=-1)

    return flat


def _check_step(step: Step, input_size: int, state_size: int) -> None:
    """Try a step on random inputs and states.

    Raises:
        ValueError: If it fails, or does not map a batch of states to states row by row.
    """
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(_PROBED_SEQUENCES, input_size, generator=generator, dtype=torch.float64)
    h = torch.randn(_PROBED_SEQUENCES, state_size, generator=generator, dtype=torch.float64)
    expected = f"expected a step from x (B, {input_size}) and h (B, {state_size}) to h"
    try:
        with torch.enable_grad():
            after = step(x, h.requires_grad_())
            first = step(x[:1], h[:1])
    except _STEP_ERRORS as error:
        raise ValueError(
            f"{expected} in double precision, got {type(error).__name__}: {error}"
        ) from error
    if after.shape != h.shape or after.dtype != torch.float64:
        kind = str(after.dtype).removeprefix("torch.")
        raise ValueError(f"{expected}, got {kind} of shape {tuple(after.shape)}")
    if not torch.allclose(first, after[:1], rtol=_ROUNDING, atol=_ROUNDING):
        raise ValueError(
            f"{expected} that treats each sequence separately and is the same in every call, got "
            "another result for the first sequence alone"
        )
    if not after.requires_grad:
        raise ValueError(f"{expected} that can be differentiated, got a result without gradient")


def _in_double_precision(step: StepFunction) -> StepFunction:
    """Copy a module, or the one whose method the step is, in double precision."""
    if inspect.ismethod(step) and isinstance(step.__self__, nn.Module):
        return MethodType(step.__func__, double_copy(step.__self__))
    if isinstance(step, nn.Module):
        return double_copy(step)
    return step


def double_copy(module: nn.Module) -> Any:
    """Return a copy on the CPU, in double precision and evaluation mode, without gradients."""
    # torch cannot copy the result of an operation, such as a state that a model keeps
    memo: dict[int, Any] = {}
    for part in module.modules():
        for value in vars(part).values():
            for each in value if isinstance(value, tuple | list) else (value,):
                if isinstance(each, Tensor) and not each.is_leaf:
                    memo[id(each)] = each.detach().clone()
    copied = copy.deepcopy(module, memo).to("cpu")
    if any(p.is_complex() for p in copied.parameters()):
        copied = copied.double()  # `to` would drop the imaginary parts, and this leaves them
        for numbers in chain(copied.parameters(), copied.buffers()):
            if numbers.is_complex():
                numbers.data = numbers.data.to(torch.complex128)
    else:
        copied = copied.to(torch.float64)
    for part in copied.modules():
        if isinstance(part, Leak):  # `noise_in_eval` would make every call another map
            part.options = replace(part.options, noise=0.0)
    return copied.eval().requires_grad_(False)


def _cell_state_map(cell: StepFunction, input_size: int, hidden_size: int) -> StateMap:
    """Return the state map of a cell of another library, with one state or with (h, c).

    Raises:
        ValueError: If it accepts neither.
    """
    try:
        return StateMap.from_step(cell, input_size, hidden_size)
    except ValueError as error:
        try:
            return StateMap.from_step(cell, input_size, (hidden_size, hidden_size))
        except ValueError:  # the first message, because one state is the usual case
            raise error from None


@torch.no_grad()
def _layer_state_maps(layer: nn.Module) -> list[StateMap]:
    """Return the layers and directions of a recurrent layer or cell.

    Raises:
        ValueError: If the layer projects its states.
    """
    if getattr(layer, "proj_size", 0):
        raise ValueError(f"expected a layer without projection, got proj_size={layer.proj_size}")
    ours = as_ours(layer)
    pairs = zip(direction_names(ours), ours.all_directions(), strict=True)
    return [_direction_state_map(name, direction) for name, direction in pairs]


@torch.no_grad()
def as_ours(layer: nn.Module) -> Stacked[Any]:
    """Copy a layer or cell in double precision and evaluation mode; ours in place of torch's."""
    module: Any = layer.layer if isinstance(layer, AbstractCell) else layer
    # before its weights are read, so that constraints are evaluated in double precision
    module = double_copy(module)
    if isinstance(module, Stacked):
        return module
    options: dict[str, Any] = {}
    kind: type[Stacked[Any]] = LSTM
    if isinstance(module, nn.GRU | nn.GRUCell):
        kind = GRU
    elif isinstance(module, nn.RNN | nn.RNNCell):
        kind = RNN
        options["nonlinearity"] = module.nonlinearity
    if isinstance(module, nn.RNNBase):
        options["num_layers"] = module.num_layers
        options["bidirectional"] = module.bidirectional
    ours: Any = kind(
        module.input_size,
        module.hidden_size,
        bias=module.bias,
        constraint=Unconstrained,
        dtype=torch.float64,
        generator=torch.Generator(),  # the global one stays as it is
        **options,
    )
    copy_torch_weights(ours.all_directions(), module)
    return ours.eval().requires_grad_(False)


@dataclass(frozen=True)
class _MappableStep:
    """A step that `torch.func` can map over sequences and differentiate twice."""

    step: Step

    def __call__(self, x: Tensor, state: Tensor) -> Tensor:
        return self.step(x, state)


def _direction_state_map(name: str, direction: AbstractDirection) -> StateMap:
    direction.freeze()  # evaluates the constraint once, not at every step

    def step(x: Tensor, state: Tensor) -> Tensor:
        # the reference, because torch.func transforms need plain operations
        _, last = direction(x.unsqueeze(0), state, backend="reference")
        return last

    # torch cannot map the second derivative of LayerNorm
    norm_zoneout: Any = getattr(direction, "norm_zoneout", None)
    has_layer_norm = norm_zoneout is not None and norm_zoneout.gain is not None
    matrices = [W.detach() for W in direction.matrices()]
    bounds = direction.state_bounds()
    return StateMap(
        name=name,
        matrices=dict(zip(direction.gates, matrices, strict=True)),
        input_size=direction.weight_ih.shape[1],
        hidden_size=direction.hidden_size,
        state_size=direction.state_size,
        step=step if has_layer_norm else _MappableStep(step),
        begin=lambda batch: direction.initial_state(batch).detach(),
        output=direction.output_at,
        blocks=direction.state_blocks(),
        transitions=getattr(direction, "transition", None),  # of a delta rule
        bounds=None if bounds is None else bounds.double(),
        leak=_leak_of(direction),
    )


def _leak_of(direction: AbstractDirection) -> Tensor | None:  # (N,)
    """Return the share of the state that a step of an ungated layer replaces, if not all."""
    if not isinstance(direction, RNNDirection):
        return None
    if direction.leak is not None:
        return direction.leak.alpha().detach()
    if direction.norm_zoneout is not None:
        replaced = 1 - direction.norm_zoneout.zoneout
        return torch.full((direction.hidden_size,), replaced, dtype=torch.float64)
    return None


def _weights(layer: nn.Module) -> Iterator[RecurrentWeights]:
    """Yield the weights of a layer or cell, in torch's order."""
    module: Any = layer.layer if isinstance(layer, AbstractCell) else layer
    if isinstance(module, Stacked):
        for direction in module.all_directions():
            matrices = [matrix.detach() for matrix in direction.matrices()]
            constraints = direction.constraints() or [None]  # of a decay
            inputs = [weights.detach() for weights in direction.input_weights()]
            leak = _leak_of(direction)
            for k, constraint in enumerate(constraints):
                yield RecurrentWeights(matrices[k], inputs[k], constraint, leak)
        return
    N = module.hidden_size
    suffixes = [""]  # of a cell
    if not isinstance(module, nn.RNNCellBase):
        suffixes = [f"_{name}" for name in direction_names(module)]
    for suffix in suffixes:
        constraints = _row_constraints(module, f"weight_hh{suffix}")
        # torch stacks the gates, so gate g begins at row g N
        matrices = getattr(module, f"weight_hh{suffix}").detach().split(N)
        inputs = getattr(module, f"weight_ih{suffix}").detach().split(N)
        for g, (W, U) in enumerate(zip(matrices, inputs, strict=True)):
            yield RecurrentWeights(W, U, constraints.get(g * N))


def _row_constraints(layer: nn.Module, name: str) -> dict[int, Constraint]:
    """Return the constraints that `constrain` has put on a weight, by their first row."""
    if not parametrize.is_parametrized(layer, name):
        return {}
    (parametrization,) = layer.parametrizations[name]  # type: ignore[index]
    if not isinstance(parametrization, ConstrainedRows):
        return {}
    return dict(parametrization.blocks())
