"""The optimisers of a run: one for the constrained matrices, one for everything else."""
# torch's operations on lists of tensors have no public name:
# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import SGD, Adam, Optimizer, RMSprop

from eigenrnn.experiments.training.settings import OptimiserName, Settings
from eigenrnn.models import constrained_parameters

__all__ = ["RMSpropTF1", "build_optimisers"]


class RMSpropTF1(Optimizer):
    r"""RMSProp as TensorFlow 1 computes it, with which orthogonal networks were first tuned.

    .. math::
        v_0 = 1, \qquad v_t = \alpha v_{t-1} + (1 - \alpha) g_t^2, \qquad
        m_t = \mu m_{t-1} + \eta \frac{g_t}{\sqrt{v_t + \epsilon}}, \qquad
        \theta_t = \theta_{t-1} - m_t

    The mean square starts at one, not at zero, and epsilon is inside the root. For small gradients
    the start takes about a hundred steps to fade, a long warm-up that `torch.optim.RMSprop` lacks.
    The real and imaginary parts of a complex parameter are scaled separately.

    Args:
        params: Parameters or groups of them.
        lr: The learning rate :math:`\eta`.
        alpha: The decay :math:`\alpha` of the mean square.
        eps: The :math:`\epsilon` inside the root.
        momentum: The momentum :math:`\mu`.
        weight_decay: How much of the parameter is added to its gradient.
    Raises:
        ValueError: If a number is out of its range.
    Source:
        TensorFlow 1.15, tf.train.RMSPropOptimizer, and Tieleman and Hinton, Lecture 6.5,
        Coursera 2012 (departures: none; the centred form is left out).
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
        momentum: float = 0.0,
        *,
        weight_decay: float = 0.0,
    ) -> None:
        for name, number in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            if not number >= 0:
                raise ValueError(f"expected {name} >= 0, got {number}")
        for name, number in (("alpha", alpha), ("momentum", momentum)):
            if not 0 <= number < 1:
                raise ValueError(f"expected 0 <= {name} < 1, got {number}")
        defaults = {
            "lr": lr,
            "alpha": alpha,
            "eps": eps,
            "momentum": momentum,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Take one step along the gradients.

        Args:
            closure: Computes the loss and its gradients anew, if given.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step_group(group)
        return loss

    def _step_group(self, group: dict[str, Any]) -> None:
        stepped = [p for p in group["params"] if p.grad is not None]
        if not stepped:
            return
        params = [_real(p) for p in stepped]
        grads = [_real(p.grad) for p in stepped]
        squares = [self._slot(p, "mean_square", 1.0) for p in stepped]

        if group["weight_decay"]:
            grads = torch._foreach_add(grads, params, alpha=group["weight_decay"])
        torch._foreach_mul_(squares, group["alpha"])
        torch._foreach_addcmul_(squares, grads, grads, value=1 - group["alpha"])
        roots = torch._foreach_add(squares, group["eps"])
        torch._foreach_sqrt_(roots)
        if group["momentum"]:
            moments = [self._slot(p, "momentum", 0.0) for p in stepped]
            torch._foreach_mul_(moments, group["momentum"])
            torch._foreach_addcdiv_(moments, grads, roots, value=group["lr"])
            torch._foreach_sub_(params, moments)
        else:
            torch._foreach_addcdiv_(params, grads, roots, value=-group["lr"])

    def _slot(self, parameter: Tensor, name: str, start: float) -> Tensor:
        state = self.state[parameter]
        if name not in state:
            state[name] = torch.full_like(_real(parameter), start)
        return state[name]


def build_optimisers(model: nn.Module, settings: Settings) -> list[Optimizer]:
    """Make the optimiser of the constrained matrices and that of all other parameters.

    Weight decay reaches the others only: on the raw parameters of a matrix it would not shrink the
    matrix, but pull it to an arbitrary point of its set.

    Args:
        model: Its trainable parameters are shared out; a group that is empty gets no optimiser.
        settings: Classes and rates.

    Raises:
        ValueError: If the model has nothing to train.
    """
    taken = {id(p) for p in constrained_parameters(model)}
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    constrained = [p for p in trained.values() if id(p) in taken]
    others = {name: p for name, p in trained.items() if id(p) not in taken}
    if not trained:
        raise ValueError("expected a model with trainable parameters, got none")
    optimisers: list[Optimizer] = []
    if constrained:
        group = {"params": constrained, "constrained": True}
        optimisers.append(_build(*settings.recurrent, [group], settings.alpha))
    if others:
        groups = _by_decay(others, settings.weight_decay, settings.weight_decay_of)
        optimisers.append(_build(settings.optimiser, settings.lr, groups, settings.alpha))
    return optimisers


def _by_decay(
    named: dict[str, Parameter], weight_decay: float, parts: tuple[str, ...] | None
) -> list[dict[str, Any]]:
    """Make a group of the parameters that decay and one of those that do not.

    Raises:
        ValueError: If a part is in no name.
    """
    for part in parts or ():
        if not any(part in name for name in named):
            raise ValueError(
                f"expected weight_decay_of to be parts of {', '.join(named)}, got {part!r}"
            )
    decays = {name: parts is None or any(part in name for part in parts) for name in named}
    groups = [
        {
            "params": [p for name, p in named.items() if decays[name] == decaying],
            "weight_decay": weight_decay if decaying else 0.0,
            "constrained": False,
        }
        for decaying in (True, False)
    ]
    return [group for group in groups if group["params"]]


def _build(
    name: OptimiserName, lr: float, groups: list[dict[str, Any]], alpha: float | None
) -> Optimizer:
    match name:
        case "rmsprop":
            return RMSprop(groups, lr=lr, alpha=0.99 if alpha is None else alpha)
        case "rmsprop_tf1":
            return RMSpropTF1(groups, lr=lr, alpha=0.9 if alpha is None else alpha)
        case "adam":
            return Adam(groups, lr=lr)
        case "sgd":
            return SGD(groups, lr=lr)


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
