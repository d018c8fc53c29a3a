"""The optimisers of a run, and its learning rates."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, AdamW, Optimizer, RMSprop

from eigenrnn.models import constrained_parameters, raw_parameters
from eigenrnn_experiments.training.settings import OptimiserName, Settings

__all__ = ["RMSpropTF1", "build_optimisers", "lr_factor"]


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


def _real(tensor: Tensor) -> Tensor:
    if not tensor.is_complex():
        return tensor
    return torch.view_as_real(tensor)
