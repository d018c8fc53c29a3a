"""The mean of the parameters over the last steps of a run."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

__all__ = ["Average"]


class Average:
    """The running mean of parameters, from the step at which it was begun.

    Args:
        parameters: Those that are trained.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = parameters
        self._steps = 0
        self._means: list[Tensor] | None = None

    @property
    def begun(self) -> bool:
        """Whether there is a mean."""
        return self._means is not None

    def begin(self) -> None:
        """Begin with the parameters as they are."""
        self._means, self._steps = [p.detach().clone() for p in self._parameters], 1

    @torch.no_grad()
    def add(self) -> None:
        """Let the parameters after one more step count, once there is a mean."""
        if self._means is None:
            return
        self._steps += 1
        for mean, parameter in zip(self._means, self._parameters, strict=True):
            mean.lerp_(parameter, 1 / self._steps)

    @contextmanager
    def in_place(self) -> Generator[None]:
        """Put the means in the parameters' place for a while, if there are any."""
        if self._means is None:
            yield
            return
        own = [p.detach().clone() for p in self._parameters]
        self._fill(self._means)
        try:
            yield
        finally:
            self._fill(own)

    def state_dict(self) -> dict[str, Any]:
        """Collect what the next step depends on."""
        return {"steps": self._steps, "means": self._means}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a state that was collected."""
        self._steps, means = state["steps"], state["means"]
        if means is None:
            self._means = None
            return
        pairs = zip(means, self._parameters, strict=True)
        self._means = [mean.to(parameter) for mean, parameter in pairs]

    @torch.no_grad()
    def _fill(self, values: Sequence[Tensor]) -> None:
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.copy_(value)
