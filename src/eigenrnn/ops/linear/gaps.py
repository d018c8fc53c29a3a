"""Gaps in time: a linear recurrence whose input is held between two steps."""

import math

import torch
from torch import Tensor

__all__ = ["held_steps"]

_SMALL = 0.01  # of the argument of `_mean_exponential`, below which its series is used
_TERMS = 6  # the first one left out is below 1e-15


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
    the angle of a step is at most :math:`\pi`.
    """
    log = decay.log()
    exponent = dt.unsqueeze(2) * log
    power = exponent.exp()
    factor = dt.unsqueeze(2) * _mean_exponential(exponent) / _mean_exponential(log)
    return power, factor


def _mean_exponential(z: Tensor) -> Tensor:
    r"""Return :math:`(e^z - 1) / z`, the mean of :math:`e^{sz}` over s from 0 to 1."""
    is_small = z.abs() < _SMALL
    # both branches get arguments for which their gradients are finite
    near = torch.where(is_small, z, 0)
    far = torch.where(is_small, 1, z)
    series = torch.zeros_like(z)
    for k in range(_TERMS, 0, -1):
        series = series * near + 1 / math.factorial(k)
    return torch.where(is_small, series, torch.expm1(far) / far)
