"""The mean of the parameters over the last steps of a run."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

__all__ = ["ParameterMean"]


class ParameterMean:
    """The running mean of parameters since the step at which averaging started.

    Args:
        parameters: The trained parameters.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = parameters
        self._steps = 0
        self._means: list[Tensor] | None = None

    @property
    def is_active(self) -> bool:
        """Whether averaging has started."""
        return self._means is not None

    def start(self) -> None:
        """Start averaging from the current parameters."""
        self._means = [p.detach().clone() for p in self._parameters]
        self._steps = 1

    @torch.no_grad()
    def update(self) -> None:
        """Include the current parameters in the mean, if averaging has started."""
        if self._means is None:
            return
        self._steps += 1
        for mean, parameter in zip(self._means, self._parameters, strict=True):
            mean.lerp_(parameter, 1 / self._steps)

    @contextmanager
    def swapped_in(self) -> Generator[None]:
        """Replace the parameters by their means inside the context, if averaging has started."""
        if self._means is None:
            yield
            return
        current = [p.detach().clone() for p in self._parameters]
        self._copy_to_parameters(self._means)
        try:
            yield
        finally:
            self._copy_to_parameters(current)

    def state_dict(self) -> dict[str, Any]:
        """Return the mean and the number of steps it covers."""
        return {"steps": self._steps, "means": self._means}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `state_dict`.

        Raises:
            KeyError: If a part is missing.
            ValueError: If the means differ from the parameters in number.
        """
        self._steps = state["steps"]
        means = state["means"]
        if means is None:
            self._means = None
            return
        restored: list[Tensor] = []
        for mean, parameter in zip(means, self._parameters, strict=True):
            restored.append(mean.to(parameter))  # a checkpoint is read onto the CPU
        self._means = restored

    @torch.no_grad()
    def _copy_to_parameters(self, values: Sequence[Tensor]) -> None:
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.copy_(value)
