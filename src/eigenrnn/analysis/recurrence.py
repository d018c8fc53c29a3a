"""Any recurrent layer, ours or torch's, as a map of states in double precision."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from eigenrnn.analysis import torch_steps
from eigenrnn.constraints import BlockTriangular
from eigenrnn.layers.abstract_direction import AbstractDirection
from eigenrnn.layers.gated_direction import GatedDirection
from eigenrnn.layers.stacked import Stacked

__all__ = [
    "Recurrence",
    "check_model",
    "gates_of",
    "only_layer",
    "recurrences",
    "recurrent_layers",
    "recurrent_matrices",
]

Step = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Recurrence:
    r"""One layer of a network in one direction.

    A snapshot: in double precision on the CPU, in evaluation mode, of the weights of now.

    Args:
        name: ``"l0"``, or ``"l0_reverse"`` for the second direction, as torch writes them.
        matrices: Its recurrent matrices by gate; of one without gates ``"hh"``.
        input_size: The number M of inputs.
        hidden_size: The number N of units.
        state_size: How many real numbers S make a state: 2N of an LSTM, whose state is
            :math:`(h, c)`, and of a complex network, whose state is real parts, imaginary parts.
        step: Gives the state after an input and a state.
        begin: Gives the state before the first step of B sequences.
        output: Gives what the layer shows of a state.
        blocks: The parts of a state that have names.
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
        """Whether it reads sequences from their end."""
        return self.name.endswith("_reverse")

    @torch.no_grad()
    def states(
        self,
        x: Tensor,  # (T, B, M)
        first: Tensor | None = None,  # (B, S)
    ) -> Tensor:  # (T + 1, B, S)
        """Run over sequences, in the order in which it reads them; the first state comes first."""
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
        """Differentiate a step by the state before it and by its input.

        Sequences do not meet, so that one backward pass for each number of a state does all of
        them, and those passes are one vectorised call.
        """
        differentiated: Any = torch.func.vjp(self.step, x, state)
        after, pull = differentiated

        def row(direction: Tensor) -> tuple[Tensor, Tensor]:
            return pull(direction.expand_as(after))

        I = torch.eye(self.state_size, dtype=after.dtype)
        by_input, by_state = torch.func.vmap(row)(I)
        return by_state.transpose(0, 1), by_input.transpose(0, 1)


def recurrences(module: nn.Module) -> list[Recurrence]:
    """Return every layer and direction of a recurrent network, in torch's order.

    Args:
        module: One of our layers, `torch.nn.RNN`, `GRU` or `LSTM`, or a model with one of them.
    Raises:
        ValueError: If there is none, there are several, or it projects its states.
    """
    return _of_layer(only_layer(module))


def only_layer(module: nn.Module) -> Stacked[Any] | nn.RNNBase:
    """Return the recurrent layer inside of a module, or the module itself.

    Raises:
        ValueError: If there is none, or there are several.
    """
    found = recurrent_layers(module)
    if len(found) > 1:
        raise ValueError(
            f"expected one recurrent layer, got {', '.join(found)} in {type(module).__name__}; "
            "choose one, such as model.get_submodule(name)"
        )
    return next(iter(found.values()))


def check_model(module: object) -> None:
    """Refuse what is no module.

    Raises:
        TypeError: If it is another thing, such as a matrix or a class.
    """
    if isinstance(module, nn.Module):
        return
    kind = f"the class {module.__name__}" if isinstance(module, type) else type(module).__name__
    raise TypeError(
        f"expected a recurrent layer or a model with one, got {kind}; analyses of a matrix, such "
        "as spectrum, take arrays"
    )


def recurrent_layers(module: nn.Module) -> dict[str, Stacked[Any] | nn.RNNBase]:
    """Return the recurrent layers inside of a module, by name.

    Raises:
        ValueError: If there are none.
        TypeError: If it is not a module.
    """
    check_model(module)
    kinds = (Stacked, nn.RNN, nn.GRU, nn.LSTM)
    found: dict[str, Any] = {n: m for n, m in module.named_modules() if isinstance(m, kinds)}
    if not found:
        raise ValueError(
            f"expected a recurrent layer, eigenrnn's or torch.nn's RNN, GRU or LSTM, or a model "
            f"with one, got {type(module).__name__}, which has no recurrent matrix"
        )
    return found


def recurrent_matrices(
    module: nn.Module,
) -> dict[str, NDArray[np.float64] | NDArray[np.complex128]]:
    """Return all recurrent matrices of a network in double precision.

    Args:
        module: A recurrent layer, ours or torch's, or a model with some of them.
    Returns:
        The matrices by gate, layer and direction: ``"hh_l0"``, ``"reset_l0_reverse"``; behind the
        name of their layer, if there are several.
    Raises:
        ValueError: If there are none.
    Example:
        >>> list(recurrent_matrices(torch.nn.LSTM(2, 3)))
        ['input_l0', 'forget_l0', 'cell_l0', 'output_l0']
    """
    layers = recurrent_layers(module)
    return {
        f"{f'{name}.' if len(layers) > 1 else ''}{gate}_{recurrence.name}": W.numpy()
        for name, layer in layers.items()
        for recurrence in _of_layer(layer)
        for gate, W in recurrence.matrices.items()
    }


@torch.no_grad()
def _of_layer(layer: Stacked[Any] | nn.RNNBase) -> list[Recurrence]:
    """Return what a layer is made of.

    Raises:
        ValueError: If it projects its states.
    """
    if getattr(layer, "proj_size", 0):
        raise ValueError(f"expected a layer without projection, got proj_size={layer.proj_size}")
    exact: Any = copy.deepcopy(layer).to("cpu", torch.float64).eval()
    turns = ("", "_reverse") if layer.bidirectional else ("",)
    names = [f"l{k}{turn}" for k in range(layer.num_layers) for turn in turns]
    if isinstance(exact, Stacked):
        pairs = zip(names, exact.all_directions(), strict=True)
        return [_of_direction(name, direction) for name, direction in pairs]
    return [_of_torch(name, exact) for name in names]


def gates_of(direction: AbstractDirection) -> tuple[str, ...]:
    """Name the matrices of a direction that recur; those that follow them only mix units."""
    if isinstance(direction, GatedDirection):
        return ("reset", "update", "candidate")
    return ("hh",)


def _of_direction(name: str, direction: AbstractDirection) -> Recurrence:
    direction.freeze()  # the constraint is asked once, not at every step

    def step(x: Tensor, state: Tensor) -> Tensor:
        _, last = direction(x.unsqueeze(0), state, backend="reference")
        return direction.as_state(last)

    def output(state: Tensor) -> Tensor:
        return state[..., : direction.output_size]

    gates = gates_of(direction)
    matrices = [W.detach() for W in direction.matrices()]
    return Recurrence(
        name=name,
        matrices=dict(zip(gates, matrices, strict=False)),
        input_size=direction.weight_ih.shape[1],
        hidden_size=direction.hidden_size,
        state_size=direction.state_size,
        step=step,
        begin=lambda batch: direction.begin(batch).detach(),
        output=output,
        blocks=_blocks(direction),
    )


def _blocks(direction: AbstractDirection) -> dict[str, slice]:
    """Name the parts of a state of which each has a part of the matrix of its own."""
    constraint, N = direction.constraints()[0], direction.hidden_size
    if direction.state_size == 2 * N:
        return {"real": slice(0, N), "imaginary": slice(N, 2 * N)}
    if not isinstance(constraint, BlockTriangular):
        return {}
    long = constraint.long.size
    return {"long": slice(0, long), "short": slice(long, N)}


def _of_torch(name: str, layer: Any) -> Recurrence:
    weights, N, is_lstm = torch_steps.Weights.of(layer, name), layer.hidden_size, False
    if isinstance(layer, nn.LSTM):
        step, gates = torch_steps.lstm_step(weights), ("input", "forget", "cell", "output")
        is_lstm = True
    elif isinstance(layer, nn.GRU):
        step, gates = torch_steps.gru_step(weights), ("reset", "update", "candidate")
    else:
        step, gates = torch_steps.rnn_step(weights, layer.nonlinearity), ("hh",)
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
