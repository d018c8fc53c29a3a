"""One optimiser step and one evaluation of a model, on whatever devices a run has."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from eigenrnn.constraints import Constraint
from eigenrnn.experiments.tasks.base import Batch, Task
from eigenrnn.experiments.training.averaging import Average
from eigenrnn.experiments.training.carried import gathered, own_rows
from eigenrnn.experiments.training.objective import Objective
from eigenrnn.experiments.training.optimisers import build_optimisers
from eigenrnn.experiments.training.processes import share
from eigenrnn.experiments.training.settings import Settings

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
        ValueError: If the model has nothing to train, or is to be averaged and cannot be.
    """

    def __init__(self, fabric: "Fabric", model: nn.Module, task: Task, settings: Settings) -> None:
        self.fabric, self.model, self._settings = fabric, model, settings
        self._objective = Objective(model, task, settings.precision).train()
        self._forward = fabric.setup_module(self._objective)
        self._precision = fabric.strategy.precision
        self._scaler: torch.amp.GradScaler | None = getattr(self._precision, "scaler", None)
        self._optimisers = build_optimisers(model, settings)
        self._rates = [optimiser.param_groups[0]["lr"] for optimiser in self._optimisers]
        self.parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.average = Average(list(self.parameters.values()))
        if settings.average_after is not None:
            _refuse_to_average(model)

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

    def update(self, norms: list[Tensor], *, scale: float = 1.0, decay: float = 1.0) -> None:
        """Clip the gradients and move the parameters along them.

        Args:
            norms: Those of the gradients.
            scale: What the rate of all but the constrained matrices is multiplied with.
            decay: What all rates are multiplied with.
        """
        self._clip(norms)
        for optimiser, rate in zip(self._optimisers, self._rates, strict=True):
            for group in optimiser.param_groups:
                group["lr"] = rate * decay * (1.0 if group["constrained"] else scale)
        # Not through Fabric: it renews the scale after each optimiser, so that the gradients of
        # the second would be divided by another scale than they were multiplied with.
        for optimiser in self._optimisers:
            if self._scaler is None:
                optimiser.step()
            else:
                self._scaler.step(optimiser)
        if self._scaler is not None:
            self._scaler.update()
        self.average.add()

    @torch.no_grad()
    def measure(self, batches: Iterable[Batch]) -> dict[str, float]:
        """Return the figures of a whole split."""
        task, processes, rank = self._objective.task, *self._place()
        tallies: list[Tensor] = []
        self._objective.eval()
        for number, batch in enumerate(batches):
            if number % processes == rank:
                # The bare objective: the processes take different numbers of batches, and would
                # wait for each other in the wrapped one.
                with self.fabric.autocast():
                    tallies.append(self._objective.tally(batch.to(self.fabric.device)))
        self._objective.train()
        return task.figures(self._total(tallies, shared=processes > 1))

    def _place(self) -> tuple[int, int]:
        """Return how many processes share the batches of an evaluation, and which this one is.

        Batches of which one goes on from the other are no work to share: all processes do all.
        """
        if self._objective.task.carries:
            return 1, 0
        return self.fabric.world_size, self.fabric.global_rank

    def _total(self, tallies: list[Tensor], *, shared: bool) -> Tensor:
        """Add up the tallies of all processes."""
        total = torch.stack(tallies).cpu().double().sum(0) if tallies else torch.zeros(0)
        if not shared:
            return total
        sizes = torch.tensor(total.numel(), device=self.fabric.device)
        # a process without a batch does not know how many numbers there are
        length = int(torch.as_tensor(self.fabric.all_gather(sizes)).max())
        total = total if total.numel() else torch.zeros(length, dtype=torch.float64)
        total = total.to(self.fabric.device)
        self.fabric.all_reduce(total, reduce_op="sum")  # in place
        return total.cpu()

    def _clip(self, norms: list[Tensor]) -> None:
        parameters = self.parameters.values()
        if self._settings.clip_norm is not None:
            total = torch.linalg.vector_norm(torch.stack(norms))
            torch.nn.utils.clip_grads_with_norm_(parameters, self._settings.clip_norm, total)
        if self._settings.clip_value is not None:
            torch.nn.utils.clip_grad_value_(parameters, self._settings.clip_value)

    def state_dict(self) -> dict[str, Any]:
        """Collect all that the next step depends on; see `_seed` for the random numbers."""
        return {
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self._optimisers],
            "precision": self._precision.state_dict(),
            "carried": gathered(self.fabric, self._objective.carried),
            "average": self.average.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go back to a state that was collected."""
        self.model.load_state_dict(state["model"])
        for optimiser, its_state in zip(self._optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(its_state)
        self._precision.load_state_dict(state["precision"])
        self._objective.carried = own_rows(self.fabric, state["carried"])
        self.average.load_state_dict(state["average"])

    def _seed(self, step: int) -> None:
        """Make the dropout of a step a function of seed, step and process, as its batch is.

        Then a checkpoint holds no stream of random numbers, and an evaluation disturbs none.
        """
        key = (self._settings.seed, step, self.fabric.global_rank)
        seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type == "cuda":
            torch.cuda.manual_seed(seed)


def _refuse_to_average(model: nn.Module) -> None:
    """Refuse to average raw parameters that mean another matrix once their reference has moved.

    Raises:
        ValueError: If there are any.
    """
    for name, module in model.named_modules():
        if isinstance(module, Constraint) and module.moves_base:
            raise ValueError(
                f"expected no average_after with a constraint whose reference moves, got {name}: "
                f"{module}; choose a static one (period=None), or leave average_after out"
            )


def _norm(parameter: Tensor) -> Tensor:
    if parameter.grad is None:
        return torch.zeros((), device=parameter.device)
    return torch.linalg.vector_norm(parameter.grad).float()
