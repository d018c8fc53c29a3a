"""The optimisers, one training step and one evaluation, on the device of the run."""

import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from eigenrnn.constraints import Constraint
from eigenrnn.models import SequenceModel, constrained_parameters, penalty, raw_parameters
from eigenrnn_experiments.errors import NonFiniteLossError
from eigenrnn_experiments.tasks.base import Batch, Task
from eigenrnn_experiments.training.run import Metrics
from eigenrnn_experiments.training.settings import OptimiserName, Settings

if TYPE_CHECKING:
    from lightning.fabric import Fabric

__all__ = [
    "Objective",
    "ParameterMean",
    "RMSpropTF1",
    "StepMetrics",
    "TrainStep",
    "build_optimisers",
    "lr_factor",
    "open_fabric",
]

HiddenState: TypeAlias = "Tensor | tuple[HiddenState, ...] | None"
"""A tensor whose dimension 1 is the batch, a tuple of such tensors, or None."""

_TRUE_DTYPES = {
    "64-true": torch.float64,
    "16-true": torch.float16,
    "bf16-true": torch.bfloat16,
}


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
        ValueError: If the model has no trainable parameters, or averaging is requested for a
            model that does not support it.
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
        self.average = ParameterMean(list(self.parameters.values()))
        if settings.average_after is not None:
            _check_can_average(model)
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
        self.average.update()

    @torch.no_grad()
    def evaluate(self) -> Metrics:
        """Return the loss and the metrics of each fixed set, with the mean of the parameters."""
        task = self._objective.task
        found: Metrics = {}
        self._objective.eval()
        with self.average.swapped_in():
            for split in task.splits:
                if split == "train":
                    continue
                sums: list[Tensor] = []
                self._seed(0)  # all evaluations have the same noise, whatever was measured before
                for batch in task.batches(split, self._settings.batch_size_of(split)):
                    with self.fabric.autocast():
                        sums.append(self._objective.evaluate(batch.to(self.fabric.device)))
                found[split] = task.metrics_from_sums(torch.stack(sums).cpu().double().sum(0))
        self._objective.train()
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
            "hidden_state": self._objective.hidden_states[True],
            "average": self.average.state_dict(),
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
        self._objective.hidden_states[True] = _changed(
            state["hidden_state"], lambda part: part.to(self.fabric.device)
        )
        self.average.load_state_dict(state["average"])

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


class Objective(nn.Module):
    """The loss of a model on a batch of its task.

    The loss is computed in at least single precision, whatever the precision of the model.

    Args:
        model: Called as `model(inputs)`, or as `model(inputs, lengths)` for a batch with lengths.
            For a task that carries the hidden state from batch to batch, `model.advance(inputs,
            state)` is called instead; it returns the outputs and the final state.
        task: Defines the loss and the metrics.
        precision: The precision of the run; a `-true` precision is also the dtype of the inputs.
        rate_penalty: The factor of the mean square of the states.
        weight_penalty: The factor of the mean squares of the weights.

    Raises:
        ValueError: If a penalty is set for a model without one recurrent layer of ours and a
            linear head, or that of the rates for one without outputs at all steps.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        precision: str,
        *,
        rate_penalty: float = 0.0,
        weight_penalty: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.task = task
        self.rate_penalty = rate_penalty
        self.weight_penalty = weight_penalty
        self._states: list[Tensor] = []
        if rate_penalty or weight_penalty:
            is_ours = hasattr(getattr(model, "layer", None), "all_directions")
            if not isinstance(model, SequenceModel) or not is_ours:
                raise ValueError(
                    "expected a SequenceModel around a layer of eigenrnn with rate_penalty or "
                    f"weight_penalty, got {type(model).__name__}"
                )
        if rate_penalty and isinstance(model, SequenceModel):
            if model.readout != "all":
                raise ValueError(
                    "expected a model with outputs at all steps with rate_penalty, got "
                    f"readout={model.readout!r}, which does not compute all states"
                )
            # its inputs are the states; a head with a hook is not fused into the recurrence
            model.head.register_forward_pre_hook(self._keep_states)
        self.dtype = _TRUE_DTYPES.get(precision)
        # the initial state of the next batch, None for a zero or learned one; by `self.training`,
        # because an evaluation must not overwrite the state of training
        self.hidden_states: dict[bool, HiddenState] = {True: None, False: None}

    def forward(self, batch: Callable[[], Batch]) -> tuple[Tensor, Tensor]:
        """Return the loss and, separately, the penalty of the constraints.

        Args:
            batch: Returns the batch. It is a function because Fabric casts all tensor arguments
                to the precision of the run, targets included.
        """
        rows = batch()
        outputs, targets = self._outputs_and_targets(rows)
        penalties = penalty(self.model)
        if self.rate_penalty:
            penalties = penalties + self.rate_penalty * self._mean_square_rate(rows)
        if self.weight_penalty:
            penalties = penalties + self.weight_penalty * _mean_square_weights(self.model)
        return self.task.loss(outputs, targets), penalties

    def _keep_states(self, _head: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if self.training:
            self._states = [inputs[0]]

    def _mean_square_rate(self, batch: Batch) -> Tensor:
        """Return the mean square of the states up to the end of each sequence."""
        (states,) = self._states
        self._states = []
        total = states.square().sum()  # zero past the end of a sequence
        if batch.lengths is None:
            return total / states.numel()
        return total / (batch.lengths.sum() * states.shape[-1])

    def evaluate(self, batch: Batch) -> Tensor:  # (S,)
        """Return the `metric_sums` of a batch, see `Task`."""
        outputs, targets = self._outputs_and_targets(batch)
        return self.task.metric_sums(outputs, targets)

    def _outputs_and_targets(self, batch: Batch) -> tuple[Tensor, Tensor]:
        inputs = batch.inputs
        if inputs.is_floating_point():
            inputs = inputs.to(self.dtype)
        outputs = self._outputs(inputs, batch)
        outputs = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
        targets = batch.targets
        if targets.is_floating_point():
            targets = targets.to(outputs.dtype)
        return outputs, targets

    def _outputs(self, inputs: Tensor, batch: Batch) -> Tensor:
        if not self.task.carries and batch.lengths is None:
            return self.model(inputs)
        if not self.task.carries:
            return self.model(inputs, batch.lengths)
        state: HiddenState = None
        if batch.carry:
            state = self.hidden_states[self.training]
        model: Any = self.model
        outputs, last_state = model.advance(inputs, state)
        self.hidden_states[self.training] = _changed(last_state, torch.Tensor.detach)
        return outputs


def _mean_square_weights(model: Any) -> Tensor:
    """Return the sum of the mean square entries of input maps, recurrent matrices and head."""
    layer = model.layer
    weights = [model.head.weight, *layer.recurrent_matrices()]
    weights += [direction.weight_ih for direction in layer.all_directions()]
    return torch.stack([weight.abs().square().mean() for weight in weights]).sum()


def _check_can_average(model: nn.Module) -> None:
    """Check that raw parameters keep their meaning, which a moving reference matrix changes.

    Raises:
        ValueError: If a constraint moves its reference.
    """
    for name, module in model.named_modules():
        if isinstance(module, Constraint) and module.has_moving_base:
            raise ValueError(
                f"expected no average_after with a constraint with a moving base, got {name}: "
                f"{module}; choose a static one (period=None), or leave average_after out"
            )


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
    # torch takes no real dtype for complex numbers
    return torch.linalg.vector_norm(_real(parameter.grad), dtype=dtype)


def _changed(state: HiddenState, change: Callable[[Tensor], Tensor]) -> HiddenState:
    """Return a state with a function applied to each of its tensors."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return change(state)
    return tuple(_changed(part, change) for part in state)


class RMSpropTF1(Optimizer):
    r"""RMSprop as in TensorFlow 1, with which orthogonal networks were first tuned.

    .. math::
        v_0 = 1, \qquad v_t = \alpha v_{t-1} + (1 - \alpha) g_t^2, \qquad
        \theta_t = \theta_{t-1} - \eta \frac{g_t}{\sqrt{v_t + \epsilon}}

    The mean square is initialised to one, not to zero, and epsilon is inside the root. For small
    gradients, the initial value takes about a hundred steps to decay. This acts as a warm-up,
    which `torch.optim.RMSprop` lacks. The real and imaginary parts of a complex parameter are
    scaled separately.

    Args:
        params: Parameters or parameter groups.
        lr: The learning rate :math:`\eta`.
        alpha: The decay :math:`\alpha` of the mean square.
        eps: The :math:`\epsilon` inside the root.
        weight_decay: The multiple of the parameter that is added to its gradient.
    Raises:
        ValueError: If a number is out of its range.
    Source:
        TensorFlow 1.15, tf.train.RMSPropOptimizer, and Tieleman and Hinton, Lecture 6.5,
        Coursera 2012 (departures: none; neither the centred form nor momentum is implemented).
    Example:
        >>> weight = torch.nn.Parameter(torch.ones(1))
        >>> optimiser = RMSpropTF1([weight], lr=0.5)
        >>> weight.grad = torch.ones(1)
        >>> optimiser.step()
        >>> weight.item()
        0.5
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        alpha: float = 0.9,
        eps: float = 1e-10,
        *,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Take one step along the gradients.

        Args:
            closure: Recomputes the loss and its gradients, if given.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step_group(group)
        return loss

    def _step_group(self, group: dict[str, Any]) -> None:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            value = _real(parameter)
            grad = _real(parameter.grad)
            if group["weight_decay"]:
                grad = grad.add(value, alpha=group["weight_decay"])
            state = self.state[parameter]
            if not state:
                state["mean_square"] = torch.ones_like(value)
            square = state["mean_square"]
            square.mul_(group["alpha"]).addcmul_(grad, grad, value=1 - group["alpha"])
            root = square.add(group["eps"]).sqrt_()
            value.addcdiv_(grad, root, value=-group["lr"])


def build_optimisers(model: nn.Module, settings: Settings) -> list[Optimizer]:
    """Build one optimiser for the constrained matrices and one for all other parameters.

    Weight decay applies to neither the constrained matrices nor, unless `weight_decay_of` names
    them, to the other raw parameters of a constraint or to trained leaks. It would not shrink the
    matrix, but pull it to an arbitrary point of its set, and a leak to one half.

    Args:
        model: Its trainable parameters; an empty group gets no optimiser.
        settings: Optimiser classes and learning rates.

    Raises:
        ValueError: If the model has no trainable parameters, or a string in `lr_recurrent_of` or
            `weight_decay_of` is part of no name.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        raise ValueError("expected a model with trainable parameters, got none")
    constrained = {id(p) for p in constrained_parameters(model)}
    recurrent = [name for name, p in trained.items() if id(p) in constrained]
    decaying = [name for name, p in trained.items() if id(p) not in constrained]
    if settings.lr_recurrent_of is not None:
        recurrent = _with_parts(list(trained), settings.lr_recurrent_of, "lr_recurrent_of")
    if settings.weight_decay_of is not None:
        decaying = _with_parts(decaying, settings.weight_decay_of, "weight_decay_of")
    elif settings.weight_decay:  # else one group, as the runs before this distinction have it
        raw = {id(p) for p in raw_parameters(model)}
        decaying = [name for name in decaying if id(trained[name]) not in raw]
    optimisers: list[Optimizer] = []
    for is_recurrent in (True, False):
        chosen = [name for name in trained if (name in recurrent) == is_recurrent]
        groups: list[dict[str, Any]] = []
        for decays, rate in ((True, settings.weight_decay), (False, 0.0)):
            parameters = [trained[name] for name in chosen if (name in decaying) == decays]
            if parameters:  # torch accepts no empty group
                group = {"params": parameters, "weight_decay": rate, "constrained": is_recurrent}
                groups.append(group)
        name, lr = settings.recurrent if is_recurrent else (settings.optimiser, settings.lr)
        if groups:
            optimisers.append(_build(name, lr, groups, settings.alpha))
    return optimisers


def _with_parts(names: list[str], parts: tuple[str, ...], setting: str) -> list[str]:
    """Return the names that contain one of some strings.

    Raises:
        ValueError: If no name contains one of them.
    """
    for part in parts:
        # every name has the empty part
        if not part or not any(part in name for name in names):
            raise ValueError(f"expected {setting} to be parts of {', '.join(names)}, got {part!r}")
    return [name for name in names if any(part in name for part in parts)]


def _build(
    name: OptimiserName, lr: float, groups: list[dict[str, Any]], alpha: float | None
) -> Optimizer:
    match name:
        # None stands for the default of the framework
        case "rmsprop":
            return RMSprop(groups, lr=lr, alpha=0.99 if alpha is None else alpha)
        case "rmsprop_tf1":
            return RMSpropTF1(groups, lr=lr, alpha=0.9 if alpha is None else alpha)
        case "adam":
            return Adam(groups, lr=lr)
        case "adamw":
            return AdamW(groups, lr=lr)
        case "sgd":
            return SGD(groups, lr=lr)


def _real(tensor: Tensor) -> Tensor:
    if not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor)


def lr_factor(
    settings: Settings, *, step: int, steps: int, per_epoch: int | None, plateaus: int
) -> float:
    r"""Return the factor of the learning rates at step k of n.

    After w steps of warm-up, it is the decay :math:`d_k` times

    .. math:: \min(k / w, 1) \cdot s(p), \qquad p = \max(k - w - 1, 0) / (n - w), \qquad
        s(p) = 1, \; 1 - p \text{ or } (1 + \cos \pi p) / 2

    Args:
        settings: The decay, the schedule and the warm-up.
        step: The number k of the step, from one.
        steps: The number n of steps of the run.
        per_epoch: The number of steps in an epoch; None for endless data.
        plateaus: The number of evaluations so far without improvement.
    """
    warmup = settings.warmup_steps
    factor = 1.0
    if step < warmup:
        factor = step / warmup
    progress = max(step - warmup - 1, 0) / (steps - warmup)
    match settings.lr_schedule:
        case "constant":
            pass
        case "linear":
            factor *= 1 - progress
        case "cosine":
            factor *= (1 + math.cos(math.pi * progress)) / 2
    decays = 0
    if per_epoch:
        decays = (step - 1) // per_epoch
    if settings.lr_decay_at == "plateau":
        decays = plateaus
    elif settings.lr_decay_at != "epoch":  # but after these numbers of epochs
        decays = bisect_right(settings.lr_decay_at, decays)
    return factor * settings.lr_decay**decays
