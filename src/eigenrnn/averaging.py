"""An average of models, whose recurrent matrices are the nearest to the average of theirs."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_module_registration_hook
from torch.optim import swa_utils

from eigenrnn.constraints import Constraint
from eigenrnn.layers.abstract_direction import AbstractDirection
from eigenrnn.linalg import orthogonality_error, polar_step, tol

__all__ = ["AveragedModel"]

_MOST_STEPS = 60  # of Newton's method, which multiplies a small singular value by 1.5 a step


class AveragedModel(swa_utils.AveragedModel):
    r"""Average of the weights of a model during training, in the way of torch's `AveragedModel`.

    .. math:: \bar W = M (M^* M)^{-1/2}, \qquad M = \sum_k a_k W_k

    Where the base of a constraint moves (`Exponential` with a period, `MovingCayley`), its raw
    parameters are small numbers at another base in each step, and their average stands for
    nothing. Here the matrices :math:`W_k` themselves are averaged, and the orthogonal or unitary
    matrix that is nearest to the mean is assigned. All other weights are averaged as they are.
    Torch's own `AveragedModel` refuses a model with such a constraint.

    Arguments, methods and `state_dict` are those of `torch.optim.swa_utils.AveragedModel`, of
    which it is a subclass. Call `update_parameters(model)` after each optimiser step that counts.

    Args:
        model: A model with recurrent layers; a copy of it is made, as `module`.
        device: Where the copy is kept; where the model is by default.
        avg_fn: A function of the average, the present weights and the number of averaged models,
            tensor by tensor; the mean of all by default.
        multi_avg_fn: One of lists of tensors, in place, such as `get_ema_multi_avg_fn(0.999)`.
        use_buffers: Whether buffers are averaged too, but for those of constraints.
    Raises:
        ValueError: By `update_parameters`, if the mean of the matrices has no nearest orthogonal
            one, as they are too far apart.
    Source:
        Izmailov et al., UAI 2018. https://arxiv.org/abs/1803.05407; the mean of matrices: Moakher,
        SIAM J. Matrix Anal. Appl. 24, 2002, section 3.1. https://doi.org/10.1137/S0895479801383877
        (departures: the mean is projected by Newton's method for the polar factor).
    Example:
        >>> model = DtrivRNN(2, 8, period=1)
        >>> averaged = eigenrnn.AveragedModel(model)
        >>> for _ in range(3):
        ...     optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        ...     model(torch.randn(5, 3, 2))[0].square().mean().backward()
        ...     optimiser.step()
        ...     averaged.update_parameters(model)
        >>> averaged.module.orthogonality_error() < 1e-5
        tensor([True])
    """

    def __init__(
        self,
        model: nn.Module,
        device: torch.device | int | None = None,
        avg_fn: Any = None,
        multi_avg_fn: Any = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__(model, device, avg_fn, multi_avg_fn, use_buffers)
        matrices = _Matrices(_moving(self.module))
        self.matrices = swa_utils.AveragedModel(matrices, device, avg_fn, multi_avg_fn, True)

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Take the weights of now into the average."""
        for part in self.module.modules():
            if isinstance(part, AbstractDirection):
                part.frozen = None  # it was made of the average so far
        super().update_parameters(model)
        for own, given in zip(_constraints(self.module), _constraints(model), strict=True):
            for buffer, value in zip(own.buffers(False), given.buffers(False), strict=True):
                buffer.copy_(value)
        moving = _moving(self.module)
        if moving:
            self.matrices.update_parameters(_Matrices(_moving(model)))
        for constraint, mean in zip(moving, self.matrices.module.buffers(), strict=True):
            constraint.assign(_nearest_unitary(mean))


class _Matrices(nn.Module):
    """What constraints give now, as buffers."""

    def __init__(self, constraints: list[Constraint]) -> None:
        super().__init__()
        for k, constraint in enumerate(constraints):
            self.register_buffer(str(k), constraint().detach().clone())


def _constraints(model: nn.Module) -> list[Constraint]:
    return [part for part in model.modules() if isinstance(part, Constraint)]


def _moving(model: nn.Module) -> list[Constraint]:
    return [constraint for constraint in _constraints(model) if constraint.moves_base]


def _nearest_unitary(
    M: Tensor,  # (N, N)
) -> Tensor:  # (N, N)
    """Return the polar factor.

    Raises:
        ValueError: If M is singular, or nearly.
    """
    nearer = M
    for _ in range(_MOST_STEPS):
        nearer = polar_step(nearer)
        if orthogonality_error(nearer) <= tol(M.dtype, len(M)):
            return nearer
    raise ValueError(
        "expected matrices close enough to each other for their mean to have a nearest orthogonal "
        f"one, got a mean whose least singular value is {float(torch.linalg.svdvals(M)[-1]):.3g}; "
        "begin to average later, or with a smaller decay"
    )


def _refuse_moving(module: nn.Module, _name: str, submodule: nn.Module | None) -> None:
    """Refuse that torch's `AveragedModel` averages the parameters of a base that moves.

    Raises:
        ValueError: If it is about to.
    """
    if not isinstance(module, swa_utils.AveragedModel) or isinstance(module, AveragedModel):
        return
    for name, part in (submodule or module).named_modules():
        if isinstance(part, Constraint) and part.moves_base:
            raise ValueError(
                "expected eigenrnn.AveragedModel for a model with a constraint whose base moves, "
                f"got torch's, and {name}: {part}: its raw parameters mean another matrix at each "
                "base; eigenrnn.AveragedModel takes the same arguments"
            )


register_module_module_registration_hook(_refuse_moving)
