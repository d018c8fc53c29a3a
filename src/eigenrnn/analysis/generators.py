"""Which kind of random number generator a function takes."""

import numpy as np
import torch

__all__ = ["check_numpy_generator", "check_torch_generator"]


def check_numpy_generator(generator: object, *, optional: bool) -> None:
    """Refuse what is no generator of NumPy's.

    Raises:
        TypeError: If it is another thing.
    """
    if not (isinstance(generator, np.random.Generator) or (optional and generator is None)):
        raise TypeError(
            f"expected generator to be a numpy.random.Generator, such as "
            f"numpy.random.default_rng(0), got {_kind(generator)}"
        )


def check_torch_generator(generator: object) -> None:
    """Refuse what is neither a generator of torch's nor None.

    Raises:
        TypeError: If it is another thing.
    """
    if not (isinstance(generator, torch.Generator) or generator is None):
        raise TypeError(
            f"expected generator to be a torch.Generator, such as "
            f"torch.Generator().manual_seed(0), got {_kind(generator)}"
        )


def _kind(generator: object) -> str:
    return f"{type(generator).__module__}.{type(generator).__qualname__}"
