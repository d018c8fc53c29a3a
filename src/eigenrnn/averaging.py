"""Weight averaging of models whose recurrent matrices have a moving base."""

from typing import Any

import torch
from torch import nn
from torch.optim import swa_utils

from eigenrnn.constraints import Constraint
from eigenrnn.layers.direction import AbstractDirection
from eigenrnn.linalg import double_precision, tol

__all__ = ["AveragedModel"]


class AveragedModel(swa_utils.AveragedModel):
    r"""Average of a model's weights over training steps, like torch's `AveragedModel`.

    .. math:: \bar W = M (M^* M)^{-1/2}, \qquad M = \sum_k a_k W_k

    With a moving base (`Exponential` with a period, `MovingCayley`) the raw parameters refer to
    another base at each step, so their average is meaningless. This class averages the matrices
    :math:`W_k` themselves and assigns the orthogonal or unitary matrix nearest to the mean. All
    other weights are averaged as they are. Torch's own `AveragedModel` does not notice a moving
    base, and gives other matrices.

    This is a subclass of `torch.optim.swa_utils.AveragedModel` with the same arguments, methods
    and `state_dict` format. Call `update_parameters(model)` after each optimiser step whose
    weights should count.

    Args:
        model: A model with recurrent layers; its copy is the attribute `module`.
        device: The device of the copy; that of the model by default.
        avg_fn: Maps the average, the current weights and the number of models averaged so far to
            the new average, tensor by tensor; by default the mean of all models.
        multi_avg_fn: The same for lists of tensors, in place, such as
            `get_ema_multi_avg_fn(0.999)`.
        use_buffers: Whether buffers are averaged too; those of constraints never are.
    Raises:
        ValueError: By `update_parameters`, if the matrices are too far apart for their mean to
            have a nearest orthogonal matrix.
    Source:
        Izmailov et al., UAI 2018. https://arxiv.org/abs/1803.05407; the mean of matrices: Moakher,
        SIAM J. Matrix Anal. Appl. 24, 2002, section 3.1. https://doi.org/10.1137/S0895479801383877
        (departures: none).
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
        # the same averaging, of the matrices themselves
        matrices = _Matrices(_with_moving_base(self.module))
        self.matrices = swa_utils.AveragedModel(
            matrices, device, avg_fn, multi_avg_fn, use_buffers=True
        )

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Add the current weights of `model` to the average.

        Raises:
            ValueError: If the mean of matrices has no nearest orthogonal one.
        """
        for part in self.module.modules():
            if isinstance(part, AbstractDirection):
                part.frozen = None  # it holds matrices of the previous average
        super().update_parameters(model)
        # the state of a constraint, such as a sign or a base, has no meaningful mean
        for own, other in zip(_constraints(self.module), _constraints(model), strict=True):
            for buffer, value in zip(own.buffers(False), other.buffers(False), strict=True):
                buffer.copy_(value)
        moving = _with_moving_base(self.module)
        if moving:
            self.matrices.update_parameters(_Matrices(_with_moving_base(model)))
        for constraint, mean in zip(moving, self.matrices.module.buffers(), strict=True):
            # in double precision, which neither autocast nor a switch of torch rounds
            left, sigma, right = torch.linalg.svd(mean.to(double_precision(mean.dtype)))
            if sigma[-1] <= tol(mean.dtype, len(mean)):
                raise ValueError(
                    "expected matrices close enough to each other for their mean to have a "
                    "nearest orthogonal one, got a mean whose least singular value is "
                    f"{float(sigma[-1]):.3g}"
                )
            constraint.assign(left @ right)  # the unitary factor of the polar decomposition


class _Matrices(nn.Module):
    """The current matrices of constraints, as buffers."""

    def __init__(self, constraints: list[Constraint]) -> None:
        super().__init__()
        for k, constraint in enumerate(constraints):
            self.register_buffer(str(k), constraint().detach().clone())


def _constraints(model: nn.Module) -> list[Constraint]:
    return [part for part in model.modules() if isinstance(part, Constraint)]


def _with_moving_base(model: nn.Module) -> list[Constraint]:
    return [constraint for constraint in _constraints(model) if constraint.has_moving_base]
