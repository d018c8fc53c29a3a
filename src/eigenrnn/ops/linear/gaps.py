"""Gaps in time: a linear recurrence whose input is held between two steps."""

import math

import torch
from torch import Tensor

__all__ = ["held_steps"]

_LOG_OF_ZERO = -1e20  # any power but that to zero vanishes, and that is one
_SMALL = 0.1  # a smaller |z| loses digits in (e^z - 1) / z, and the series takes its place
_TERMS = 10  # of the series; the first term left out is below 1e-17


def held_steps(
    decay: Tensor,  # (N,), complex
    dt: Tensor,  # (T, B), real
) -> tuple[Tensor, Tensor]:  # (T, B, N), (T, B, N)
    r"""Return the decay of each step, and the factor of its input.

    .. math:: \lambda^{\Delta t}, \qquad
        \frac{1 - \lambda^{\Delta t}}{1 - \lambda}
        = \Delta t \, \frac{\phi(\Delta t \log \lambda)}{\phi(\log \lambda)}, \qquad
        \phi(z) = \frac{e^z - 1}{z}

    With an integer gap this is so many steps of the recurrence with one input. The second form is
    finite and differentiable at :math:`\lambda = 1`. The logarithm is the principal one, so that
    the angle of a step is at most :math:`\pi`. The gradient of a :math:`\lambda` of zero is zero.
    """
    is_zero = decay == 0
    log = torch.where(is_zero, 1, decay).log().masked_fill(is_zero, _LOG_OF_ZERO)
    dt = dt.unsqueeze(2)
    exponent = dt * log
    power = exponent.exp()
    # the quotient loses digits where a logarithm is near zero, and the second form elsewhere
    is_far = (log.abs() >= _SMALL) & (exponent.abs() >= _SMALL)
    # both get arguments for which their gradients are finite
    far = (power - 1) / (torch.where(is_far, decay, 0) - 1)
    near_log = torch.where(is_far, 0, log)
    near = dt * _mean_exponential(dt * near_log) / _mean_exponential(near_log)
    return power, torch.where(is_far, far, near)


def _mean_exponential(z: Tensor) -> Tensor:
    r"""Return :math:`(e^z - 1) / z`, the mean of :math:`e^{sz}` over s from 0 to 1."""
    is_small = z.abs() < _SMALL
    # both branches get arguments for which their gradients are finite
    near = torch.where(is_small, z, 0)
    far = torch.where(is_small, 1, z)
    series = torch.zeros_like(z)
    for k in range(_TERMS, 0, -1):
        series = series * near + 1 / math.factorial(k)
    return torch.where(is_small, series, (far.exp() - 1) / far)
