"""The base classes of layers whose recurrent matrices belong to gates."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from eigenrnn.constraints import Constraint, Unconstrained
from eigenrnn.layers.direction import AbstractDirection, LayerConfig
from eigenrnn.layers.stacked import LikeTorch

__all__ = ["AbstractGatedDirection", "Gated", "gate_constraints"]


class AbstractGatedDirection(AbstractDirection):
    """A layer in one direction whose recurrent matrices belong to gates, and are real."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__(config)
        for gate, constraint in zip(self.gates, self.constraints(), strict=True):
            if constraint.is_complex:
                raise ValueError(
                    f"expected a set of real matrices for {gate}, because gates need real states, "
                    f"got complex {constraint}; use RNN for complex states"
                )


_D = TypeVar("_D", bound=AbstractGatedDirection)


class Gated(LikeTorch[_D]):
    """Stacked layers whose recurrent matrices belong to gates."""

    @property
    def constrained_gates(self) -> list[str]:
        """The gates whose matrix is constrained to a set."""
        direction = self.all_directions()[0]
        gates = zip(direction.gates, direction.constraints(), strict=True)
        return [name for name, constraint in gates if constraint.constrained]

    def _spectrum_matrices(self) -> Tensor:  # (L D, G, N, N)
        direction = self.all_directions()[0]
        matrices = torch.stack(self.recurrent_matrices()).unflatten(0, (-1, len(direction.gates)))
        constrained = [i for i, each in enumerate(direction.constraints()) if each.constrained]
        return matrices[:, constrained or slice(None)]  # all gates if none is constrained


def gate_constraints(
    names: Sequence[str],
    of_gates: Sequence[Callable[[int], Constraint] | None],
    of_all: Callable[[int], Constraint] | None,
) -> Mapping[str, Callable[[int], Constraint]]:
    """Return the constraint of each gate: its own, or else that of all gates."""
    default = of_all or Unconstrained
    return {name: own or default for name, own in zip(names, of_gates, strict=True)}
