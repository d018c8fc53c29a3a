"""The states that a network visits under an input, and the Jacobian of each step."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from eigenrnn.analysis.arguments import as_real_tensor, check_sequence_shape
from eigenrnn.analysis.state_map import (
    Network,
    StateMap,
    has_batch_first,
    select_state_map,
    state_maps,
)
from eigenrnn.errors import (
    check_not_negative,
    check_not_negative_integer,
    check_positive_integer,
)
from eigenrnn.linalg import check_finite, on_cpu

__all__ = ["InitialState", "Trajectory", "as_state", "initial_states", "trajectory"]

InitialState = Tensor | ArrayLike | tuple[Tensor | ArrayLike, ...] | None
"""The initial states of a network, or the parts of them, such as (h, c); None for its own."""


@dataclass(frozen=True)
class Trajectory:
    """The states of one layer and direction, in processing order.

    Args:
        state_map: The layer and direction.
        x: Its input.
        states: The initial state and the state after each step; of an LSTM (h, c), joined.
    Shape:
        x: :math:`(T, B, M)`; states: :math:`(T + 1, B, S)`.
    """

    state_map: StateMap
    x: Tensor
    states: Tensor

    def sample(
        self, count: int, *, noise: float = 0.0, generator: torch.Generator | None = None
    ) -> Tensor:  # (P, S)
        """Draw states of all steps and sequences at random, such as to search for fixed points.

        Args:
            count: The number P of states.
            noise: The standard deviation of normal noise that is added to each entry.
            generator: Torch's generator; its global generator by default.
        Raises:
            ValueError: If the number is not positive, or the noise is negative.
        Example:
            >>> trajectory(torch.nn.LSTM(2, 3), torch.zeros(5, 1, 2)).sample(4).shape
            torch.Size([4, 6])
        """
        check_positive_integer("count", count)
        check_not_negative("noise", noise)
        states = self.states.flatten(0, 1)
        chosen = torch.randint(len(states), (count,), generator=generator)
        shape = (count, states.shape[1])
        return states[chosen] + noise * torch.randn(shape, generator=generator).to(states)

    def jacobians(self) -> Iterator[tuple[Tensor, Tensor]]:  # (B, S, S), (B, S, M), T times
        """Yield the derivatives of each step with respect to the previous state and the input.

        Raises:
            ValueError: If a derivative is not finite.
        """
        T = self.x.shape[0]
        B = self.x.shape[1]
        chunk = max(1, self.state_map.jacobians_at_once // B)
        for begin in range(0, T, chunk):
            steps = slice(begin, min(begin + chunk, T))
            x = self.x[steps].flatten(0, 1)
            before = self.states[:-1][steps].flatten(0, 1)
            by_state, by_input = self.state_map.jacobians(x, before)
            check_finite(by_state, "the derivatives of steps")
            check_finite(by_input, "the derivatives of steps")
            yield from zip(
                by_state.unflatten(0, (-1, B)), by_input.unflatten(0, (-1, B)), strict=True
            )


@on_cpu
@torch.no_grad()
def trajectory(
    network: Network,
    x: Tensor | ArrayLike,
    which: str = "l0",
    h0: InitialState = None,
    burn_in: int = 0,
    nudge: float = 0.0,
) -> Trajectory:
    """Run a network over a batch of sequences, and keep the states of one layer and direction.

    It runs in double precision and evaluation mode, up to this layer.

    Args:
        network: A recurrent layer, a model with one, a cell or a state map.
        x: The input of its first layer, in the layout that the layer takes.
        which: The layer and direction, such as ``"l0"`` or ``"l1_reverse"``.
        h0: The initial states; by default those of the network.
        burn_in: The number of steps before those of the input. They repeat the input, so the last
            of them has the last input.
        nudge: With a burn-in, the length of a random vector that is added to each initial state,
            to leave an unstable fixed point. It is the same in every call.
    Shape:
        x: :math:`(T, B, M)`, :math:`(B, T, M)` if the layer has the batch first, or
        :math:`(T, M)`; h0: as the layer takes it.
    Returns:
        The states, the input of the layer, and the layer itself.
    Raises:
        ValueError: If the layer or direction does not exist, or the input or the initial states
            do not fit.
    Example:
        >>> trajectory(torch.nn.LSTM(2, 3), torch.zeros(5, 1, 2)).states.shape
        torch.Size([6, 1, 6])
    """
    inputs = as_real_tensor(x)
    directions = state_maps(network)
    available = {state_map.name: state_map for state_map in directions}
    selected = select_state_map(directions, which)
    batch_first = has_batch_first(network)
    check_sequence_shape(inputs, directions[0].input_size, batch_first=batch_first)
    check_finite(inputs, "x")
    if inputs.dim() == 2:
        inputs = inputs.unsqueeze(1)
    elif batch_first:
        inputs = inputs.transpose(0, 1)
    check_not_negative_integer("burn_in", burn_in)
    T = len(inputs)
    states = initial_states(directions, h0, inputs.shape[1])
    if burn_in and nudge:
        # one generator for all layers, so that each moves in a direction of its own
        generator = torch.Generator().manual_seed(0)
        moved: list[Tensor] = []
        for state in states:
            away = torch.randn(state.shape, generator=generator, dtype=state.dtype)
            moved.append(state + nudge * torch.nn.functional.normalize(away, dim=-1))
        states = moved
    first = dict(zip(available, states, strict=True))
    # a reverse direction needs its burn-in after the input
    after = burn_in if any(each.reverse for each in directions) else 0
    # The modulus repeats the input. Time -1 is its last step, so that the burn-in ends as the
    # sequence before would.
    inputs = inputs[torch.arange(-burn_in, T + after) % T]
    # "l2_reverse" is in layer 2: the outputs of layers 0 and 1 become its input
    for depth in range(int(which[1:].split("_")[0])):
        names = (f"l{depth}", f"l{depth}_reverse")
        layer = [available[name] for name in names if name in available]
        outputs: list[Tensor] = []
        for each in layer:
            states = each.states(inputs, first[each.name], discard=1)
            in_time_order = states.flip(0) if each.reverse else states
            outputs.append(each.output(inputs, in_time_order))
        inputs = torch.cat(outputs, dim=2)
    # only the burn-in of the selected direction remains: before the input, or after it in reverse
    if selected.reverse:
        inputs = inputs[burn_in:]
        x_used = inputs.flip(0)[burn_in:]
    else:
        inputs = inputs[: burn_in + T]
        x_used = inputs[burn_in:]
    states = selected.states(inputs, first[which], discard=burn_in)
    return Trajectory(selected, x_used, states)


def initial_states(
    directions: list[StateMap], h0: InitialState, batch: int
) -> list[Tensor]:  # (B, S) each
    """Return the initial states of every layer and direction.

    Args:
        directions: The layers and directions.
        h0: The states as the layer takes them, :math:`(D, B, S)`; for a single direction also
            :math:`(B, S)` or :math:`(S,)`, for several also :math:`(D, S)`. A pair (h, c) or
            other parts of a state are joined. None means the initial states of the network.
        batch: The number B of sequences; one state serves all.
    Raises:
        ValueError: If the shape is wrong or a number is not finite.
    """
    if h0 is None:
        return [each.begin(batch) for each in directions]
    states = as_state(h0)
    D = len(directions)
    # (S,) and (B, S) of a single direction lack D; (D, S), and (1, S) from (S,), lack B
    if states.dim() < 3 and D == 1:
        states = states.unsqueeze(0)
    if states.dim() == 2:
        states = states.unsqueeze(1)
    sizes = {each.state_size for each in directions}
    if states.dim() != 3 or len(states) != D or {states.shape[2]} != sizes:
        S = next(iter(sizes))
        shape = f"({D}, B, {S}) or ({D}, {S})" if D > 1 else f"(B, {S}) or ({S},)"
        raise ValueError(f"expected h0 of shape {shape}, got {tuple(as_state(h0).shape)}")
    if states.shape[1] not in (1, batch):
        raise ValueError(f"expected h0 of 1 or {batch} sequences, got {states.shape[1]}")
    return list(states.expand(-1, batch, -1))


def as_state(h0: InitialState, name: str = "h0") -> Tensor:
    """Return a state as one tensor in double precision; its parts are joined.

    Raises:
        ValueError: If a number is not finite.
    """
    if isinstance(h0, tuple):
        states = torch.cat([as_real_tensor(part, name) for part in h0], dim=-1)
    else:
        states = as_real_tensor(h0, name)  # pyright: ignore[reportArgumentType], not None here
    check_finite(states, name)
    return states
