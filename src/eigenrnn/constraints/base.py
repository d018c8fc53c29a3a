"""What every set of recurrent matrices must offer."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Self, cast

import torch
from torch import Generator, Tensor, nn
from torch.nn import Parameter

from eigenrnn.constraints.following import follow
from eigenrnn.errors import NotInSetError, check_positive_integer
from eigenrnn.linalg import at_least_float32, tol

__all__ = ["Constraint", "make_constraint", "real_type"]


class Constraint(nn.Module, ABC):
    r"""A set of N x N matrices and a smooth map onto it from free parameters.

    .. math:: W = \phi(\text{raw}) \in \mathcal S \quad \text{for every value of raw}

    Calling the module gives W. Raw parameters are real numbers, also where W is complex. They and
    the map stay in float32 or better: autocast does not reach them, and moving the module to a
    16-bit type leaves them as they are. A new set writes `_matrix`, `_assign`, `residual` and
    `reset`; one that keeps a moving reference also sets `moves` and writes `advance`.

    Args:
        size: The number N of rows and columns.
    Raises:
        ValueError: If `size` is not a positive integer.
    """

    constrained = True
    """Whether W is confined at all."""

    moves = False
    """Whether `advance` must be called after each optimiser step."""

    moves_base = False
    """Whether `advance` changes what the raw parameters stand for; they are zero after it."""

    is_complex = False
    """Whether W is complex."""

    unregistered: tuple[str, ...] = ()
    """Names of tensors that are no buffers, so that nothing averages them with a model's."""

    def __init__(self, size: int) -> None:
        check_positive_integer("size", size)
        super().__init__()
        self._raw_shapes: dict[str, torch.Size] = {}
        self.size = int(size)
        if self.moves:
            follow(self)

    @property
    def dtype(self) -> torch.dtype:
        """The type of W; the raw parameters are of the real type of the same precision."""
        real = next(self.parameters()).dtype
        return real.to_complex() if self.is_complex else real

    @property
    def device(self) -> torch.device:
        """Where the raw parameters are and W will be."""
        return next(self.parameters()).device

    @property
    def tolerance(self) -> float:
        """The residual up to which a matrix counts as one of the set."""
        return tol(self.dtype, self.size)

    def forward(self) -> Tensor:  # (N, N)
        """Return the matrix W that the raw parameters stand for.

        Raises:
            ValueError: If the reference moves and something else took the place of the raw
                parameters, such as a parametrisation, a pruning or a shard.
        """
        self.check_raw()
        if self.device.type == "meta":  # which has no autocast to leave
            return self._matrix()
        with torch.autocast(self.device.type, enabled=False):
            return self._matrix()

    @torch.no_grad()
    def assign(
        self,
        W: Tensor,  # (N, N)
    ) -> None:
        """Set the raw parameters so that the module gives W.

        Raises the errors of `check`.
        """
        self.check(W)
        self._assign(W.detach().to(self.device, self.dtype))

    def check(
        self,
        W: Tensor,  # (N, N)
    ) -> None:
        """Refuse what is no matrix of the set; changes nothing.

        A matrix of the set that the map does not reach is refused by `assign` alone.

        Raises:
            TypeError: If W is not a floating-point tensor, or complex where the set is real.
            ValueError: If W has another shape, or an entry that is not finite.
            NotInSetError: If W is not in the set; names the residual and the tolerance.
        """
        if not isinstance(cast("object", W), Tensor):
            raise TypeError(f"expected a matrix as a tensor, got {type(W).__name__}")
        if W.layout != torch.strided or W.is_meta:
            raise TypeError(f"expected a dense matrix with values, got {W.layout} on {W.device}")
        is_real = W.is_floating_point() and W.itemsize > 1  # torch computes nothing in float8
        if not is_real and not (self.is_complex and W.is_complex()):
            kind = "floating-point" if self.is_complex else "real floating-point"
            raise TypeError(f"expected a {kind} matrix, got dtype {W.dtype}")
        if W.shape != (self.size, self.size):
            expected = (self.size, self.size)
            raise ValueError(f"expected a matrix of shape {expected}, got {tuple(W.shape)}")
        if not bool(torch.isfinite(W).all()):
            raise ValueError("expected finite entries, got NaN or infinity")
        residual = self.residual(W)
        if not residual <= self.tolerance:
            raise NotInSetError(type(self).__name__, residual, self.tolerance, self._hint())

    @torch.no_grad()
    def sample(self, generator: Generator | None = None) -> Tensor:  # (N, N)
        """Draw a matrix as `reset` does and leave the module as it is."""
        twin = copy.deepcopy(self)
        twin.reset(generator)
        return twin().detach()

    def penalty(self) -> Tensor:  # ()
        """Return what the paper of the set adds to the loss; zero where it adds nothing."""
        return torch.zeros((), device=self.device)

    def recurrent_parameters(self) -> Iterator[Parameter]:
        """Yield the raw parameters that get the recurrent optimiser: all, if W is confined."""
        if self.constrained:
            yield from self.parameters()

    @torch.no_grad()
    def advance(self) -> None:
        """Move the reference; runs by itself after each optimiser step on the raw parameters."""

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        super().register_parameter(name, param)
        if param is not None:
            self._raw_shapes.setdefault(name, param.shape)  # a shard may take its place

    def check_raw(self, *, whole: bool = False) -> None:
        """Refuse raw parameters that a moving reference could not set; changes nothing.

        Args:
            whole: Whether to refuse parts that are spread over several processes, too.
        Raises:
            ValueError: If something took their place, such as a parametrisation, or part of them.
        """
        if not self.moves:
            return
        for part in self.modules():
            own = dict(part.named_parameters(recurse=False))
            kind = type(part).__name__
            for name, shape in vars(part).get("_raw_shapes", {}).items():
                if name not in own and "_former_parameters" not in vars(part):
                    raise ValueError(
                        f"expected {name!r} of {kind} to be a parameter of its own, got something "
                        "else in its place: its reference moves, which reads and sets it. "
                        "torch.nn.utils.parametrize, torch.nn.utils.prune and "
                        "FullyShardedDataParallel cannot be used with it; take a constraint "
                        "whose reference stays, such as ScaledCayley"
                    )
                if whole and (own[name].shape != shape or type(own[name]) is not Parameter):
                    found = f"{type(own[name]).__name__} of shape {tuple(own[name].shape)}"
                    raise ValueError(
                        f"expected all of {name!r} of {kind}, got a {found}: its reference "
                        "moves, which takes all entries. FullyShardedDataParallel and "
                        "fully_shard cannot be used with it; use DistributedDataParallel, and "
                        "ZeroRedundancyOptimizer to shard the state of the optimiser"
                    )

    @abstractmethod
    def reset(self, generator: Generator | None = None) -> None:
        """Draw the published start anew; without a generator, from torch's global stream."""

    @abstractmethod
    def residual(
        self,
        W: Tensor,  # (N, N)
    ) -> float:
        """Measure how far W is from the set, in double precision; zero means inside."""

    @abstractmethod
    def _matrix(self) -> Tensor: ...  # (N, N)

    @abstractmethod
    def _assign(self, W: Tensor) -> None: ...

    def _hint(self) -> str:
        return ""

    def extra_repr(self) -> str:
        return f"{self.size}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            if moved.dtype == at_least_float32(moved.dtype):
                return moved
            return tensor.to(moved.device, torch.float32)  # a 16-bit map would leave its set

        super()._apply(move, recurse)
        for name in self.unregistered:
            tensor = getattr(self, name)
            if tensor.is_floating_point():
                setattr(self, name, move(tensor))
            elif self.device.type != "meta":  # an index table is needed again after it
                setattr(self, name, tensor.to(self.device))
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.moves:  # copies and unpickled modules move too
            follow(self)


def real_type(dtype: torch.dtype | None) -> torch.dtype:
    """Return the type of the raw parameters of a W of a type; None stands for torch's default.

    Raises:
        ValueError: If it is no real or complex type of float32 precision or better.
    """
    real = torch.get_default_dtype() if dtype is None else dtype.to_real()
    if real not in (torch.float32, torch.float64):
        names = "float32, float64, complex64 or complex128"
        raise ValueError(f"expected dtype to be {names}, got {dtype}")
    return real


def make_constraint(make: Callable[[int], object], size: int) -> Constraint:
    """Call what users pass as `constraint=`.

    Raises:
        TypeError: If it is no function, or does not make a `Constraint`.
        ValueError: If it makes one of another size.
    """
    wanted = "expected a function of the size that makes a Constraint, such as ScaledCayley"
    if isinstance(make, Constraint) or not callable(make):
        raise TypeError(f"{wanted}, got {make!r}")
    made = make(size)
    if not isinstance(made, Constraint):
        raise TypeError(f"{wanted}, got one that makes {type(made).__name__}")
    if made.size != size:
        raise ValueError(
            f"expected a constraint of size {size}, got {made}; pass a function that makes one of "
            "the size that it is called with"
        )
    return made
