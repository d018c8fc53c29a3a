"""One optimiser step and one evaluation of a model, on whatever devices a run has."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from eigenrnn.tasks.base import Batch, Task
from eigenrnn.train.objective import Objective
from eigenrnn.train.optimisers import build_optimisers
from eigenrnn.train.processes import share
from eigenrnn.train.settings import Settings

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["Learner"]


class Learner:
    """A model with its task and its optimisers.

    Args:
        fabric: The processes and devices.
        model: Moved to the device and trained in place.
        task: Gives the loss and the metric.
        settings: Optimisers, clipping, precision and seed.

    Raises:
        ValueError: If the model has nothing to train.
    """

    def __init__(self, fabric: "Fabric", model: nn.Module, task: Task, settings: Settings) -> None:
        self.fabric, self.model, self._settings = fabric, model, settings
        self._objective = Objective(model, task, settings.precision).train()
        self._forward = fabric.setup_module(self._objective)
        self._precision = fabric.strategy.precision
        self._scaler: torch.amp.GradScaler | None = getattr(self._precision, "scaler", None)
        self._optimisers = build_optimisers(model, settings)
        self.parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}

    @property
    def scales_gradients(self) -> bool:
        """Whether steps whose gradients overflow are left out by a gradient scaler."""
        return self._scaler is not None

    def backward(self, step: int, batch: Batch) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Compute the gradients of a step; return loss, penalty and each parameter's norm."""
        self._seed(step)
        for optimiser in self._optimisers:
            optimiser.zero_grad()
        rows = share(self.fabric, batch)
        loss, penalty = self._forward(lambda: rows)
        self.fabric.backward(loss + penalty)
        if self._scaler is not None:
            for optimiser in self._optimisers:
                self._scaler.unscale_(optimiser)
        return loss.detach(), penalty.detach(), [_norm(p) for p in self.parameters.values()]

    def update(self, norms: list[Tensor]) -> None:
        """Clip the gradients, of the given norms, and move the parameters along them."""
        if self._settings.clip_norm is not None:
            total = torch.linalg.vector_norm(torch.stack(norms))
            parameters = self.parameters.values()
            torch.nn.utils.clip_grads_with_norm_(parameters, self._settings.clip_norm, total)
        # Not through Fabric: it renews the scale after each optimiser, so that the gradients of
        # the second would be divided by another scale than they were multiplied with.
        for optimiser in self._optimisers:
            if self._scaler is None:
                optimiser.step()
            else:
                self._scaler.step(optimiser)
        if self._scaler is not None:
            self._scaler.update()

    @torch.no_grad()
    def measure(self, batches: Iterable[Batch]) -> tuple[float, float]:
        """Return the mean loss and metric of a whole split."""
        measured: list[Tensor] = []
        sizes: list[int] = []
        self._objective.eval()
        for number, batch in enumerate(batches):
            if number % self.fabric.world_size == self.fabric.global_rank:
                # The bare objective: the processes take different numbers of batches, and would
                # wait for each other in the wrapped one.
                with self.fabric.autocast():
                    numbers = self._objective.measure(batch.to(self.fabric.device))
                measured.append(torch.stack(numbers))
                sizes.append(batch.size)
        self._objective.train()
        return self._mean(measured, sizes)

    def state_dict(self) -> dict[str, Any]:
        """Collect all that the next step depends on; see `_seed` for the random numbers."""
        return {
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self._optimisers],
            "precision": self._precision.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a state that was collected."""
        self.model.load_state_dict(state["model"])
        for optimiser, its_state in zip(self._optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(its_state)
        self._precision.load_state_dict(state["precision"])

    def _seed(self, step: int) -> None:
        """Make the dropout of a step a function of seed, step and process, as its batch is.

        Then a checkpoint holds no stream of random numbers, and an evaluation disturbs none.
        """
        key = (self._settings.seed, step, self.fabric.global_rank)
        seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _mean(self, measured: list[Tensor], sizes: list[int]) -> tuple[float, float]:
        weights = torch.tensor(sizes, dtype=torch.float64)
        numbers = torch.stack(measured).cpu().double() if measured else torch.zeros(0, 2)
        totals = torch.cat([weights @ numbers.double(), weights.sum().unsqueeze(0)])
        if self.fabric.world_size > 1:
            totals = totals.to(self.fabric.device)
            self.fabric.all_reduce(totals, reduce_op="sum")  # in place
        loss, metric, size = totals.tolist()
        return loss / size, metric / size


def _norm(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        return torch.zeros((), device=parameter.device)
    return torch.linalg.vector_norm(parameter.grad).float()
