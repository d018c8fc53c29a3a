"""One training step and one evaluation, on the device of the run."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from eigenrnn import AveragedModel
from eigenrnn_experiments.errors import NonFiniteLossError
from eigenrnn_experiments.tasks.base import Batch, Task
from eigenrnn_experiments.training.objective import Objective, changed
from eigenrnn_experiments.training.optimisers import build_optimisers
from eigenrnn_experiments.training.run import Metrics
from eigenrnn_experiments.training.settings import Settings

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = ["StepMetrics", "TrainStep", "open_fabric"]


def open_fabric(settings: Settings) -> "Fabric":
    """Return Lightning's access to the device of a run, in its precision.

    Raises:
        ValueError: If this machine lacks the device, or it lacks the precision.
    """
    # Imported here to keep `import eigenrnn_experiments.training` two seconds faster.
    from lightning.fabric import Fabric

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "You passed .*AMP with fp16")  # refused below
            fabric = Fabric(
                accelerator=settings.accelerator, devices=1, precision=settings.precision
            )
    except RuntimeError as error:
        raise ValueError(
            f"expected a machine for accelerator={settings.accelerator!r}, got: {error} Use 'cpu' "
            "or 'auto' (on the command line: --accelerator cpu)"
        ) from None
    if settings.precision == "16-mixed" and fabric.device.type == "cpu":
        raise ValueError(
            "expected precision='bf16-mixed' on a CPU, where Lightning has no 16-mixed, got "
            "'16-mixed'"
        )
    fabric.launch()
    return fabric


_MAX_LISTED = 5  # gradient norms in a message


@dataclass(frozen=True)
class StepMetrics:
    """The metrics of one training step, before the optimiser update.

    Args:
        step: The number of the step, from one.
        loss: The mean loss over the whole batch, without the penalty.
        penalty: The penalty of the constraints.
        grad_norm: The norm of the gradient of all parameters together, before clipping.
    """

    step: int
    loss: float
    penalty: float
    grad_norm: float


class TrainStep:
    """Computes gradients, updates the parameters and evaluates the model.

    Args:
        fabric: The device and the precision.
        model: Moved to the device and trained in place.
        task: Defines the loss and the metric.
        settings: Optimisers, clipping, precision and seed.

    Raises:
        ValueError: If the model has no trainable parameters.
    """

    def __init__(self, fabric: "Fabric", model: nn.Module, task: Task, settings: Settings) -> None:
        self.fabric = fabric
        self.model = model
        self._settings = settings
        self._objective = Objective(
            model,
            task,
            settings.precision,
            rate_penalty=settings.rate_penalty,
            weight_penalty=settings.weight_penalty,
        ).train()
        self._forward = fabric.setup_module(self._objective)
        self._precision = fabric.strategy.precision
        # it skips steps whose gradients overflow
        self.scaler: torch.amp.GradScaler | None = getattr(self._precision, "scaler", None)
        self._optimisers = build_optimisers(model, settings)
        # `update` overwrites the rates of the groups, so those of the settings are kept
        self._rates = [optimiser.param_groups[0]["lr"] for optimiser in self._optimisers]
        self.parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.average: AveragedModel | None = None
        self._unread: list[tuple[int, Tensor]] = []  # numbers of steps, on the device

    def take(
        self, step: int, batch: Batch, *, decay: float, reads: bool
    ) -> tuple[Tensor, list[StepMetrics]]:
        """Take a step; return its loss and, if they are read, the metrics since the last read.

        Args:
            step: The number of the step, from one.
            batch: The training batch.
            decay: The factor of all learning rates.
            reads: Whether to read the metrics, which makes the host wait for the device.
        Raises:
            NonFiniteLossError: If a number that is read is not finite.
        """
        loss, penalty, norms = self.backward(step, batch)
        numbers = [number.to(norms[0]) for number in (loss, penalty, *norms)]
        self._unread.append((step, torch.stack(numbers)))
        metrics: list[StepMetrics] = []
        if reads:  # before the update: numbers that are not finite must not reach the parameters
            metrics = self._read_metrics()
        self.update(norms, scale=batch.lr_scale, decay=decay)
        return loss, metrics

    def _read_metrics(self) -> list[StepMetrics]:
        """Return the metrics since the last read.

        Raises:
            NonFiniteLossError: If a number is not finite; the message names the first such step
                and its largest gradient norms.
        """
        table = torch.stack([numbers for _, numbers in self._unread]).tolist()
        metrics: list[StepMetrics] = []
        for (step, _), (loss, penalties, *norms) in zip(self._unread, table, strict=True):
            metrics.append(StepMetrics(step, loss, penalties, math.hypot(*norms)))
            self._check_finite(metrics[-1], norms)
        self._unread.clear()
        return metrics

    def _check_finite(self, metrics: StepMetrics, norms: list[float]) -> None:
        """Check the loss and the gradients; a gradient scaler skips steps by design.

        Raises:
            NonFiniteLossError: If one of them is not finite.
        """
        if not math.isfinite(metrics.loss):
            cause = f"the loss of step {metrics.step} is {metrics.loss}"
        elif self.scaler is None and not math.isfinite(metrics.grad_norm):
            cause = f"a gradient of step {metrics.step} is not finite (loss {metrics.loss:.4g})"
        else:
            return

        def size(named: tuple[float, str]) -> float:
            norm, _ = named
            if math.isnan(norm):  # it comes first, because it may be the cause
                return math.inf
            return norm

        # a stable sort, so equal norms keep the order of the parameters
        largest = sorted(zip(norms, self.parameters, strict=True), key=size, reverse=True)
        listed = ", ".join(f"{name} {norm:.3g}" for norm, name in largest[:_MAX_LISTED])
        raise NonFiniteLossError(f"{cause}; largest gradient norms: {listed}")

    def backward(self, step: int, batch: Batch) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Compute the gradients of a step; return loss, penalty and each gradient's norm."""
        self._seed(step)
        for optimiser in self._optimisers:
            optimiser.zero_grad()
        rows = batch.to(self.fabric.device)
        loss, penalty = self._forward(lambda: rows)
        self.fabric.backward(loss + penalty)
        if self.scaler is not None:  # the norms and the clipping are those of true gradients
            for optimiser in self._optimisers:
                self.scaler.unscale_(optimiser)
        norms = [_norm(parameter) for parameter in self.parameters.values()]
        return loss.detach(), penalty.detach(), norms

    def update(self, norms: list[Tensor], *, scale: float = 1.0, decay: float = 1.0) -> None:
        """Clip the gradients and update the parameters.

        Args:
            norms: The gradient norm of each parameter.
            scale: The factor of the learning rate of all but the constrained matrices.
            decay: The factor of all learning rates.
        Raises:
            ValueError: If the averaged matrices are too far apart, see `AveragedModel`.
        """
        self._clip(norms)
        for optimiser, rate in zip(self._optimisers, self._rates, strict=True):
            for group in optimiser.param_groups:
                group["lr"] = rate * decay
                if not group["constrained"]:
                    group["lr"] *= scale
        # Not through Fabric: it updates the loss scale after each optimiser. The gradients of the
        # second would then be divided by a different scale from the one that multiplied them.
        for optimiser in self._optimisers:
            if self.scaler is None:
                optimiser.step()
            else:
                self.scaler.step(optimiser)
        if self.scaler is not None:
            self.scaler.update()
        if self.average is not None:
            self.average.update_parameters(self.model)

    def start_average(self) -> AveragedModel:
        """Average the weights of the model from the current ones on."""
        self.average = AveragedModel(self.model)
        self.average.update_parameters(self.model)
        return self.average

    @property
    def evaluated(self) -> nn.Module:
        """The model that is evaluated and kept: the average, once it has started."""
        if self.average is None:
            return self.model
        return self.average.module

    @torch.no_grad()
    def evaluate(self) -> Metrics:
        """Return the loss and the metrics of each fixed set."""
        task = self._objective.task
        found: Metrics = {}
        objective = Objective(self.evaluated, task, self._settings.precision).eval()
        for split in task.splits:
            if split == "train":
                continue
            sums: list[Tensor] = []
            self._seed(0)  # all evaluations have the same noise, whatever was measured before
            for batch in task.batches(split, self._settings.batch_size_of(split)):
                with self.fabric.autocast():
                    sums.append(objective.evaluate(batch.to(self.fabric.device)))
            found[split] = task.metrics_from_sums(torch.stack(sums).cpu().double().sum(0))
        self.model.train()
        return found

    def _clip(self, norms: list[Tensor]) -> None:
        parameters = self.parameters.values()
        if self._settings.clip_norm is not None:
            # in double precision: the norm that torch would compute may overflow in float32
            total = torch.linalg.vector_norm(torch.stack(norms))
            torch.nn.utils.clip_grads_with_norm_(parameters, self._settings.clip_norm, total)
        if self._settings.clip_value is not None:
            torch.nn.utils.clip_grad_value_(parameters, self._settings.clip_value)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step depends on; `_seed` restores the random state."""
        return {
            "model": self.model.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self._optimisers],
            "precision": self._precision.state_dict(),
            "hidden_state": self._objective.hidden_state,
            "average": None if self.average is None else self.average.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `state_dict`.

        Raises:
            KeyError: If a part is missing.
            ValueError: If a tensor has another shape.
        """
        self.model.load_state_dict(state["model"])
        for optimiser, its_state in zip(self._optimisers, state["optimisers"], strict=True):
            optimiser.load_state_dict(its_state)
        self._precision.load_state_dict(state["precision"])
        self._objective.hidden_state = changed(
            state["hidden_state"], lambda part: part.to(self.fabric.device)
        )
        # without an average, checkpoints of before `AveragedModel` have the second of these
        if state["average"] not in (None, {"steps": 0, "means": None}):
            self.start_average().load_state_dict(state["average"])

    def _seed(self, step: int) -> None:
        """Seed dropout and noise by the seed of the run and the step.

        A checkpoint then needs no random state, and an evaluation, which is step 0, cannot change
        it.
        """
        key = (self._settings.seed, step, 0)  # the zero was the number of a process
        seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0])
        torch.default_generator.manual_seed(seed)
        if self.fabric.device.type == "cuda":
            torch.cuda.manual_seed(seed)


def _norm(parameter: Tensor) -> Tensor:
    """Return the norm of a gradient in double precision.

    The square of a float32 entry above 1.8e19 overflows in float32. In double precision the norm
    of a float32 gradient is finite if and only if all its entries are.
    """
    dtype = torch.float64
    if parameter.device.type == "mps":  # Apple's GPUs have no float64
        dtype = torch.float32
    if parameter.grad is None:
        return torch.zeros((), device=parameter.device, dtype=dtype)
    grad = parameter.grad
    if grad.is_complex():  # torch takes no real dtype for complex numbers
        grad = torch.view_as_real(grad)
    return torch.linalg.vector_norm(grad, dtype=dtype)
