"""Any recurrent layer, ours or torch's, as a map from state to state in double precision."""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parametrize

from eigenrnn.constraints import BlockTriangular, Constraint
from eigenrnn.constraints.constrain import ConstrainedRows
from eigenrnn.layers.direction import AbstractDirection
from eigenrnn.layers.gated import AbstractGatedDirection
from eigenrnn.layers.lstm import LSTMDirection
from eigenrnn.layers.stacked import Stacked

__all__ = [
    "Recurrence",
    "RecurrentWeights",
    "TorchWeights",
    "check_model",
    "recurrences",
    "recurrent_layers",
    "recurrent_matrices",
    "recurrent_weights",
    "select_recurrence",
    "single_layer",
]

Step = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Recurrence:
    r"""One layer of a network in one direction.

    It is a snapshot of the current weights, in double precision, on the CPU and in evaluation
    mode.

    Args:
        name: ``"l0"``, or ``"l0_reverse"`` for the second direction, as in torch.
        matrices: The recurrent matrices by gate; an ungated layer has one, ``"hh"``.
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        state_size: The number S of real numbers in a state. It is 2N for an LSTM, whose state is
            :math:`(h, c)`, and for a complex network, whose real parts precede the imaginary ones.
        step: Maps an input and a state to the next state.
        begin: Returns the initial state of B sequences.
        output: Maps a state to the output of the layer.
        blocks: The named parts of a state.
    Shape:
        matrices: :math:`(N, N)` each.
        step: :math:`(B, M)` and :math:`(B, S)` to :math:`(B, S)`.
        output: :math:`(\dots, S)` to :math:`(\dots, K)`.
    """

    name: str
    matrices: Mapping[str, Tensor]
    input_size: int
    hidden_size: int
    state_size: int
    step: Step
    begin: Callable[[int], Tensor]
    output: Callable[[Tensor], Tensor]
    blocks: Mapping[str, slice] = field(default_factory=dict[str, slice])

    @property
    def reverse(self) -> bool:
        """Whether it processes sequences from their end."""
        return self.name.endswith("_reverse")

    @torch.no_grad()
    def states(
        self,
        x: Tensor,  # (T, B, M)
        first: Tensor | None = None,  # (B, S)
    ) -> Tensor:  # (T + 1, B, S)
        """Return the initial state and the state after each step, in processing order."""
        x = x.detach().to("cpu", torch.float64)
        states = [self.begin(x.shape[1]) if first is None else first]
        for x_t in x.flip(0) if self.reverse else x:
            states.append(self.step(x_t, states[-1]))
        return torch.stack(states)

    def jacobians(
        self,
        x: Tensor,  # (B, M)
        state: Tensor,  # (B, S)
    ) -> tuple[Tensor, Tensor]:  # (B, S, S), (B, S, M)
        """Differentiate a step with respect to the previous state and to its input.

        Sequences do not interact, so one backward pass per entry of the state covers the whole
        batch. These passes run as one vectorised call.
        """
        vjp: Any = torch.func.vjp(self.step, x, state)
        after, pull_back = vjp

        def row(direction: Tensor) -> tuple[Tensor, Tensor]:
            return pull_back(direction.expand_as(after))

        I = torch.eye(self.state_size, dtype=after.dtype)
        by_input, by_state = torch.func.vmap(row)(I)
        return by_state.transpose(0, 1), by_input.transpose(0, 1)


def recurrences(module: nn.Module) -> list[Recurrence]:
    """Return every layer and direction of a recurrent network, in torch's order.

    Args:
        module: One of our layers, `torch.nn.RNN`, `GRU` or `LSTM`, or a model with one of them.
    Raises:
        ValueError: If the module has no recurrent layer or several, or the layer projects its
            states.
    """
    return _layer_recurrences(single_layer(module))


def select_recurrence(available: Mapping[str, Recurrence], which: str) -> Recurrence:
    """Return the layer and direction with a name.

    Raises:
        ValueError: If the name is unknown.
    """
    if which not in available:
        raise ValueError(f"expected which to be one of {', '.join(available)}, got {which!r}")
    return available[which]


def single_layer(module: nn.Module) -> Stacked[Any] | nn.RNNBase:
    """Return the recurrent layer inside a module, or the module itself.

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


def check_model(module: object) -> None:
    """Check that an argument is a module.

    Raises:
        TypeError: If it is something else, such as a matrix or a class.
    """
    if isinstance(module, nn.Module):
        return
    kind = f"the class {module.__name__}" if isinstance(module, type) else type(module).__name__
    raise TypeError(
        f"expected a recurrent layer or a model with one, got {kind}; analyses of a matrix, such "
        "as spectrum, take arrays"
    )


def recurrent_layers(module: nn.Module) -> dict[str, Stacked[Any] | nn.RNNBase]:
    """Return the recurrent layers inside a module, by name.

    Raises:
        ValueError: If the module has no recurrent layer.
        TypeError: If the argument is not a module.
    """
    check_model(module)
    kinds = (Stacked, nn.RNN, nn.GRU, nn.LSTM)
    layers: dict[str, Any] = {n: m for n, m in module.named_modules() if isinstance(m, kinds)}
    if not layers:
        raise ValueError(
            f"expected a recurrent layer, eigenrnn's or torch.nn's RNN, GRU or LSTM, or a model "
            f"with one, got {type(module).__name__}, which has no recurrent matrix"
        )
    return layers


def recurrent_matrices(
    module: nn.Module,
) -> dict[str, NDArray[np.float64] | NDArray[np.complex128]]:
    """Return all recurrent matrices of a network in double precision.

    Args:
        module: A recurrent layer, ours or torch's, or a model with at least one.
    Returns:
        The matrices by gate, layer and direction, such as ``"hh_l0"`` or ``"reset_l0_reverse"``.
        In a model with several recurrent layers the name of the layer comes first.
    Raises:
        ValueError: If the module has no recurrent layer.
    Example:
        >>> list(recurrent_matrices(torch.nn.LSTM(2, 3)))
        ['input_l0', 'forget_l0', 'cell_l0', 'output_l0']
    """
    layers = recurrent_layers(module)
    return {
        f"{f'{name}.' if len(layers) > 1 else ''}{gate}_{recurrence.name}": W.numpy()
        for name, layer in layers.items()
        for recurrence in _layer_recurrences(layer)
        for gate, W in recurrence.matrices.items()
    }


class RecurrentWeights(NamedTuple):
    """The weights around one recurrent matrix, in the precision of the run.

    Args:
        W: The recurrent matrix.
        U: The input weights of the same gate.
        constraint: The constraint that produces W, if it has one.
    Shape:
        W: :math:`(N, N)`; U: :math:`(N, M)`; both complex or both real.
    """

    W: Tensor
    U: Tensor
    constraint: Constraint | None


@torch.no_grad()
def recurrent_weights(model: nn.Module) -> dict[str, RecurrentWeights]:
    """Return the weights around each recurrent matrix, by the names of `recurrent_matrices`.

    These are the matrices that training uses, in its precision. `recurrent_matrices` evaluates
    the constraints in double precision instead.

    Args:
        model: A recurrent layer, ours or torch's, or a model with at least one.
    """
    weights = [each for layer in recurrent_layers(model).values() for each in _weights(layer)]
    return dict(zip(recurrent_matrices(model), weights, strict=True))


@dataclass(frozen=True)
class TorchWeights:
    """The weights of one layer and direction of torch's RNN, GRU or LSTM, gates stacked.

    Shape:
        U: :math:`(G N, M)`; W: :math:`(G N, N)`; b, c: :math:`(G N,)`, zero without biases.
    """

    U: Tensor
    W: Tensor
    b: Tensor
    c: Tensor

    @classmethod
    def of(cls, layer: Any, name: str) -> Self:
        """Read the weights; a constrained matrix is the value of its constraint."""
        U, W = getattr(layer, f"weight_ih_{name}"), getattr(layer, f"weight_hh_{name}")
        zero = W.new_zeros(len(W))
        b = getattr(layer, f"bias_ih_{name}") if layer.bias else zero
        c = getattr(layer, f"bias_hh_{name}") if layer.bias else zero
        return cls(*(each.detach() for each in (U, W, b, c)))


@torch.no_grad()
def _layer_recurrences(layer: Stacked[Any] | nn.RNNBase) -> list[Recurrence]:
    """Return the layers and directions of a recurrent layer.

    Raises:
        ValueError: If the layer projects its states.
    """
    if getattr(layer, "proj_size", 0):
        raise ValueError(f"expected a layer without projection, got proj_size={layer.proj_size}")
    double: Any = copy.deepcopy(layer).to("cpu", torch.float64).eval()
    suffixes = ("", "_reverse") if layer.bidirectional else ("",)
    names = [f"l{k}{suffix}" for k in range(layer.num_layers) for suffix in suffixes]
    if isinstance(double, Stacked):
        pairs = zip(names, double.all_directions(), strict=True)
        return [_direction_recurrence(name, direction) for name, direction in pairs]
    return [_torch_recurrence(name, double) for name in names]


def _gate_names(direction: AbstractDirection) -> tuple[str, ...]:
    """Name the recurrent matrices of a direction; matrices after them only mix units."""
    return direction.gates if isinstance(direction, AbstractGatedDirection) else ("hh",)


def _direction_recurrence(name: str, direction: AbstractDirection) -> Recurrence:
    direction.freeze()  # evaluates the constraint once, not at every step

    def step(x: Tensor, state: Tensor) -> Tensor:
        _, last = direction(x.unsqueeze(0), state, backend="reference")
        return direction.as_state(last)

    def output(state: Tensor) -> Tensor:
        return state[..., : direction.output_size]

    gates = _gate_names(direction)
    matrices = [W.detach() for W in direction.matrices()]
    return Recurrence(
        name=name,
        matrices=dict(zip(gates, matrices, strict=False)),
        input_size=direction.weight_ih.shape[1],
        hidden_size=direction.hidden_size,
        state_size=direction.state_size,
        step=step,
        begin=lambda batch: direction.initial_state(batch).detach(),
        output=output,
        blocks=_state_blocks(direction),
    )


def _state_blocks(direction: AbstractDirection) -> dict[str, slice]:
    """Name the parts of a state that have their own part of the recurrent matrix."""
    constraint, N = direction.constraints()[0], direction.hidden_size
    if isinstance(direction, LSTMDirection):
        return {"hidden": slice(0, N), "cell": slice(N, 2 * N)}
    if direction.state_size == 2 * N:
        return {"real": slice(0, N), "imaginary": slice(N, 2 * N)}
    if not isinstance(constraint, BlockTriangular):
        return {}
    long = constraint.long.size
    return {"long": slice(0, long), "short": slice(long, N)}


def _torch_recurrence(name: str, layer: Any) -> Recurrence:
    weights, N, is_lstm = TorchWeights.of(layer, name), layer.hidden_size, False
    if isinstance(layer, nn.LSTM):
        step, gates = _lstm_step(weights), ("input", "forget", "cell", "output")
        is_lstm = True
    elif isinstance(layer, nn.GRU):
        step, gates = _gru_step(weights), ("reset", "update", "candidate")
    else:
        step, gates = _rnn_step(weights, layer.nonlinearity), ("hh",)
    size = 2 * N if is_lstm else N
    return Recurrence(
        name=name,
        matrices=dict(zip(gates, weights.W.split(N), strict=True)),
        input_size=weights.U.shape[1],
        hidden_size=N,
        state_size=size,
        step=step,
        begin=lambda batch: torch.zeros(batch, size, dtype=torch.float64),
        output=lambda state: state[..., :N],
        blocks={"hidden": slice(0, N), "cell": slice(N, 2 * N)} if is_lstm else {},
    )


# The steps of torch's layers in plain operations, which torch.func can transform.


def _rnn_step(weights: TorchWeights, nonlinearity: str) -> Step:
    f = torch.tanh if nonlinearity == "tanh" else torch.relu

    def step(x: Tensor, h: Tensor) -> Tensor:
        return f(x @ weights.U.T + weights.b + h @ weights.W.T + weights.c)

    return step


def _gru_step(weights: TorchWeights) -> Step:
    """Return the step of `torch.nn.GRU`, whose gates are reset, update and candidate."""

    def step(x: Tensor, h: Tensor) -> Tensor:
        x_r, x_z, x_n = (x @ weights.U.T + weights.b).chunk(3, dim=-1)
        h_r, h_z, h_n = (h @ weights.W.T + weights.c).chunk(3, dim=-1)
        z = torch.sigmoid(x_z + h_z)
        n = torch.tanh(x_n + torch.sigmoid(x_r + h_r) * h_n)
        return (1 - z) * n + z * h

    return step


def _lstm_step(weights: TorchWeights) -> Step:
    """Return the step of `torch.nn.LSTM` on states (h, c), concatenated."""

    def step(x: Tensor, state: Tensor) -> Tensor:
        h, c = state.chunk(2, dim=-1)
        i, f, g, o = (x @ weights.U.T + weights.b + h @ weights.W.T + weights.c).chunk(4, dim=-1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], dim=-1)

    return step


def _weights(layer: Stacked[Any] | nn.RNNBase) -> Iterator[RecurrentWeights]:
    """Yield the weights of a layer, in torch's order."""
    if isinstance(layer, Stacked):
        for direction in layer.all_directions():
            gates = len(_gate_names(direction))
            matrices = [matrix.detach() for matrix in direction.matrices()[:gates]]
            constraints = direction.constraints()[:gates]
            inputs = list(direction.weight_ih.detach().chunk(gates))
            if constraints[0].is_complex:  # real parts, then imaginary ones
                inputs = [torch.complex(*parts.chunk(2)) for parts in inputs]
            yield from map(RecurrentWeights, matrices, inputs, constraints)
        return
    for depth in range(layer.num_layers):
        for suffix in ("", "_reverse") if layer.bidirectional else ("",):
            constraints = _row_constraints(layer, name := f"weight_hh_l{depth}{suffix}")
            matrices = getattr(layer, name).detach().split(layer.hidden_size)
            inputs = getattr(layer, name.replace("hh", "ih")).detach().split(layer.hidden_size)
            rows = range(0, len(matrices) * layer.hidden_size, layer.hidden_size)
            yield from map(RecurrentWeights, matrices, inputs, map(constraints.get, rows))


def _row_constraints(layer: nn.RNNBase, name: str) -> dict[int, Constraint]:
    """Return the constraints that `constrain` has put on a weight, by their first row."""
    if not parametrize.is_parametrized(layer, name):
        return {}
    (parametrization,) = layer.parametrizations[name]  # type: ignore[index]
    if not isinstance(parametrization, ConstrainedRows):
        return {}
    return dict(parametrization.blocks())
