"""What a trained network would remember if it were linear."""

from eigenrnn.analysis.fisher_memory import FisherMemory, fisher_memory
from eigenrnn.analysis.in_use import InUse
from eigenrnn.analysis.matrices import NumberArray, spectral_radius

__all__ = ["MEMORY_STEPS", "has_no_gates", "network_memory", "noise_lasts"]

MEMORY_STEPS = 200
"""The points of the curve, and the steps whose noise counts where noise would never fade."""

_ROUNDING = 1e-6  # what single precision leaves of the unit circle


def network_memory(
    W: NumberArray,  # (N, N)
    used: InUse,
) -> FisherMemory:
    """Compute the Fisher memory of a network's own input, its nonlinearity left out.

    The source is the column of the first input, scaled to norm one.

    Args:
        W: The recurrent matrix in double precision.
        used: The same in the precision of the run, with the weights of the inputs.
    Raises:
        ValueError: If powers of W leave double precision.
    """
    source = used.U[:, 0] / used.U[:, 0].norm()
    noise_steps = MEMORY_STEPS if noise_lasts(W) else None
    return fisher_memory(W, source, MEMORY_STEPS, noise_steps=noise_steps)


def noise_lasts(W: NumberArray) -> bool:
    """Whether noise would add up without end."""
    return spectral_radius(W) > 1 - _ROUNDING


def has_no_gates(name: str) -> bool:
    """Whether a matrix of this name is no gate's, which alone makes no linear network."""
    return name.split(".")[-1].startswith("hh_")
