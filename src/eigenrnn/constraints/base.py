"""The base class of every set of recurrent matrices."""

import copy
import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from threading import Lock
from typing import Any, Self, cast
from weakref import WeakSet

import torch
from torch import Generator, Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook

from eigenrnn.errors import NoInverseError, NotInSetError, check_positive_integer
from eigenrnn.linalg import (
    ROUNDING_SWITCHES,
    at_least_float32,
    exact_products,
    in_full_precision,
    rounds_products,
    tol,
    wide_default_dtype,
)
from eigenrnn.torch_internals import (
    autocast_is_active,
    check_own_weights,
    first_tensor,
)
from eigenrnn.tracing import (
    autocasts,
    check_dense,
    check_weights,
    is_exporting,
    is_exporting_to_onnx,
    real_tensors,
)

__all__ = ["ConstantBuffers", "Constraint", "make_constraint", "real_type"]


class ConstantBuffers(nn.Module):
    """A module some of whose buffers are constants, written again after every move and load.

    They thus survive the meta device, and stay exact if the module moves to double precision.
    """

    def __init__(self) -> None:
        super().__init__()
        self._constants: dict[str, Tensor] = {}  # on the CPU, in double precision
        self.register_load_state_dict_post_hook(_after_load)

    # also in inference mode: its tensors could not take part in a later backward pass
    @torch.inference_mode(False)
    def register_constant(
        self, name: str, value: Tensor, like: Tensor, *, persistent: bool = False
    ) -> None:
        """Register a buffer that is never trained.

        Args:
            name: The name of the buffer.
            value: Its numbers or truth values.
            like: The tensor whose device and, for numbers, dtype the buffer gets.
            persistent: Whether it is saved. A loaded value then replaces it.
        """
        exact = value.detach().to("cpu", copy=True)
        if exact.is_floating_point():
            exact = exact.double()
        self._constants[name] = exact
        self.register_buffer(name, _cast(exact, like), persistent)

    @torch.inference_mode(False)
    def restore_constants(self) -> None:
        """Write all constants again, with the device and dtype of the parameters, if any."""
        for name, exact in self._constants.items():
            like = next(self.parameters(), getattr(self, name))
            setattr(self, name, _cast(exact, like))

    @torch.inference_mode(False)
    def adopt_loaded_constants(self) -> None:
        """Keep loaded constants."""
        for name, exact in self._constants.items():
            loaded: Tensor = getattr(self, name)
            if not loaded.is_meta:  # else nothing was loaded
                self._constants[name] = loaded.detach().to("cpu", exact.dtype, copy=True)
        self.restore_constants()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self.restore_constants()
        return self


def _cast(exact: Tensor, like: Tensor) -> Tensor:
    """Return a copy on the device and, for numbers, in the dtype of a tensor."""
    dtype = like.dtype if exact.is_floating_point() else exact.dtype
    return exact.to(like.device, dtype, copy=True)


def _after_load(module: ConstantBuffers, _keys: object) -> None:
    module.adopt_loaded_constants()


def _before_load(
    module: "Constraint", state: Mapping[str, Any], prefix: str, *_others: object
) -> None:
    """Notice whether a tensor of a state has less precision than the one that it fills."""
    fewer = False
    for name, own in chain(module.named_parameters(), module.named_buffers()):
        loaded = state.get(prefix + name)
        if isinstance(loaded, Tensor) and loaded.is_floating_point() and own.is_floating_point():
            fewer |= torch.finfo(loaded.dtype).eps > torch.finfo(own.dtype).eps
    module.has_rounded_load = fewer


def _after_rounded_load(module: "Constraint", _keys: object) -> None:
    if module.has_rounded_load:
        module.take_rounded()


class _BuiltInFloat32(ABCMeta):
    """Makes sets in float32 or better, whatever the default type is that a framework has set."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        missing = ", ".join(sorted(cls.__abstractmethods__))
        if missing:
            raise TypeError(f"expected {cls.__name__} to define {missing}: see docs/extending.md")
        with wide_default_dtype():
            return super().__call__(*args, **kwargs)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The arguments of the constructor; without this those of `__call__` are shown."""
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        return inspect.Signature(parameters)


class Constraint(ConstantBuffers, metaclass=_BuiltInFloat32):
    r"""A set of N x N matrices and a map into it from free parameters, smooth almost everywhere.

    .. math:: W = \phi(\text{raw}) \in \mathcal S \quad \text{for every value of raw}

    Calling the module gives W. The raw parameters are real even if W is complex. They and the map
    stay in float32 or better: autocast does not apply to them, and moving the module to a 16-bit
    type leaves them as they are. A new set defines `_matrix`, `residual` and `reset`, and
    `_assign` if its map has an inverse. A set that must be updated after each optimiser step also
    sets `needs_advance` and defines `advance`.

    Args:
        size: The number N of rows and columns.
    Raises:
        ValueError: If `size` is not a positive integer.
    """

    constrained = True
    """Whether the set restricts W at all."""

    has_products = True
    """Whether W is computed by products, which autocast and the switches of torch would round."""

    needs_advance = False
    """Whether `advance` must be called after each optimiser step."""

    has_moving_base = False
    """Whether the raw parameters are relative to a base, which `advance` moves to the present W.

    The raw parameters are zero after each move.
    """

    is_complex = False
    """Whether W is complex."""

    is_diagonal = False
    """Whether W is a diagonal, which is stored and computed as a vector."""

    tensor_attributes: tuple[str, ...] = ()
    """Names of tensors that are not buffers, so that averaging a model leaves them alone."""

    def __init__(self, size: int) -> None:
        check_positive_integer("size", size)
        super().__init__()
        self.size = int(size)
        self.has_rounded_load = False
        self.register_load_state_dict_pre_hook(_before_load)
        self.register_load_state_dict_post_hook(_after_rounded_load)
        if self.needs_advance:
            _advance_after_steps(self)

    @property
    def dtype(self) -> torch.dtype:
        """The type of W; the raw parameters have the real type of the same precision."""
        real = first_tensor(self).dtype
        return real.to_complex() if self.is_complex else real

    @property
    def device(self) -> torch.device:
        """The device of the raw parameters and of W."""
        return first_tensor(self).device

    @property
    def tolerance(self) -> float:
        """The largest residual of a matrix that counts as inside the set."""
        return tol(self.dtype, self.size)

    def forward(self) -> Tensor:  # (N, N)
        """Return the matrix W of the raw parameters.

        While exporting in evaluation mode, or to ONNX, W is a constant of the exported graph.

        Raises:
            ValueError: If an export to ONNX cannot read the raw parameters, or their storage was
                freed.
        """
        # `torch.export` of a network in training mode records the map, so it can be trained
        compiles = torch.compiler.is_compiling()
        exports = compiles and is_exporting()
        if exports and (is_exporting_to_onnx() or not self.training):
            constant = self._constant()
            if constant is not None:
                return constant
        check_weights(self, with_parts=True)
        casts = autocast_is_active()
        rounds = bool(ROUNDING_SWITCHES) and not compiles
        # as in nearly all calls; each question below costs a small call half a microsecond
        if not self.has_products or not (casts or rounds):
            return self._matrix()
        device = first_tensor(self).device
        is_cast = casts and autocasts(device.type)
        # entering a block would cost as much as a small product
        if not is_cast and not (rounds and rounds_products(device)):
            return self._matrix()
        # torch.compile can trace these two, but not `exact_products`
        with torch.autocast(device.type, enabled=False), in_full_precision(device):
            return self._matrix()

    @torch.no_grad()
    def assign(
        self,
        W: Tensor,  # (N, N)
    ) -> None:
        """Set the raw parameters so that the module returns W.

        Raises the errors of `check`, and a ValueError if a raw parameter is computed from others.
        """
        self.check(W)
        check_own_weights(self)
        with exact_products(self.device):
            self._assign(W.detach().to(self.device, self.dtype))

    def check(
        self,
        W: Tensor,  # (N, N)
    ) -> None:
        """Check that W is a matrix of the set.

        A matrix of the set may still be out of reach of the map; only `assign` finds that out.

        Raises:
            TypeError: If W is not of floating point, or complex where the set is real.
            ValueError: If W has another shape, an entry that is not finite, or freed storage.
            NotInSetError: If W is not in the set; names the residual and the tolerance.
        """
        if not isinstance(cast("object", W), Tensor):
            raise TypeError(f"expected a tensor, got {type(W).__name__}")
        check_dense({"the matrix": W})
        if W.is_meta:
            raise TypeError("expected a matrix with values, got one on the meta device")
        if not W.is_floating_point() and not (self.is_complex and W.is_complex()):
            kind = "floating-point" if self.is_complex else "real floating-point"
            raise TypeError(f"expected a {kind} matrix, got dtype {W.dtype}")
        self._check_shape(W)
        # torch has no isfinite of floats of 8 bits
        numbers = W if W.is_complex() else W.double()
        if not bool(numbers.isfinite().all()):
            raise ValueError("expected finite entries, got NaN or infinity")
        residual = self.residual(numbers)
        if not residual <= self.tolerance:  # true also if it is NaN
            raise NotInSetError(type(self).__name__, residual, self.tolerance)

    def _check_shape(self, W: Tensor) -> None:
        if W.shape != (self.size, self.size):
            expected = (self.size, self.size)
            raise ValueError(f"expected a matrix of shape {expected}, got {tuple(W.shape)}")

    @torch.no_grad()
    def sample(self, generator: Generator | None = None) -> Tensor:  # (N, N)
        """Draw a matrix as `reset` does, without changing the module."""
        clone = copy.deepcopy(self)
        clone.reset(generator)
        return clone().detach()

    def penalty(self) -> Tensor:  # ()
        """Return the term that the paper of the set adds to the loss; zero by default."""
        return torch.zeros((), device=self.device)

    def recurrent_parameters(self) -> Iterator[Parameter]:
        """Yield the raw parameters that the optimiser of the constrained matrices trains."""
        if self.constrained:
            yield from self.parameters()

    @torch.no_grad()
    def advance(self) -> None:
        """Update the constraint; called automatically after each optimiser step on it."""

    @abstractmethod
    def reset(self, generator: Generator | None = None) -> None:
        """Draw the published initialisation; by default from torch's global generator."""

    @abstractmethod
    def residual(
        self,
        W: Tensor,  # (N, N)
    ) -> float:
        """Measure the distance of W from the set, in double precision; zero inside the set.

        Raises:
            ValueError: If W has another shape.
        """

    @abstractmethod
    def _matrix(self) -> Tensor: ...  # (N, N)

    def _assign(self, W: Tensor) -> None:  # noqa: ARG002
        raise NoInverseError(
            f"expected raw parameters, got a matrix: {type(self).__name__} cannot compute the raw "
            "parameters of a matrix; set them, or load a state_dict"
        )

    def _constant(self) -> Tensor | None:  # (N, N)
        """Return the W of the parameters that `torch.export` traces; None if it traces none.

        Raises:
            ValueError: If an export to ONNX cannot read the parameters.
        """
        traced = dict(self.named_parameters()) | dict(self.named_buffers())
        real = real_tensors(traced)
        if real is None:
            # to ONNX, W is a constant or nothing
            if is_exporting_to_onnx():
                raise ValueError(
                    "expected a layer whose weights can be read while exporting, got fake ones: "
                    "call layer.freeze() before the export"
                )
            return None
        # these are the real ones already: the evaluation below has called this method again
        if all(real[name] is tensor for name, tensor in traced.items()):
            return None

        @torch.no_grad()
        def evaluate() -> Tensor:
            return torch.func.functional_call(self, real, ()).detach()

        with ThreadPoolExecutor(1) as pool:  # a new thread is in no tracing mode
            return pool.submit(evaluate).result()

    def extra_repr(self) -> str:
        return f"{self.size}"

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        def move(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            if moved.dtype.is_complex and not tensor.is_complex():
                raise TypeError(
                    f"expected a real type for the parameters of {type(self).__name__}, also of "
                    f"complex sets, got {moved.dtype}"
                )
            if moved.dtype == at_least_float32(moved.dtype):
                return moved
            return tensor.to(moved.device, torch.float32)  # in 16 bits W would leave the set

        before = self.dtype
        super()._apply(move, recurse)
        for name in self.tensor_attributes:
            tensor = getattr(self, name)
            if tensor.is_floating_point():
                setattr(self, name, move(tensor))
            elif self.device.type != "meta":  # an index table must survive the meta device
                setattr(self, name, tensor.to(self.device))
        if self.dtype != before:
            with torch.no_grad(), exact_products(self.device):
                self._adapt(wider=torch.finfo(self.dtype).eps < torch.finfo(before).eps)
        return self

    @torch.no_grad()
    def take_rounded(self) -> None:
        """Return to the set, in float32 or better, after a state of less precision was loaded."""
        self._apply(lambda tensor: tensor)  # with `assign=True` they are the tensors of the state
        with exact_products(self.device):
            self._adapt(wider=True)

    def _adapt(self, wider: bool) -> None:
        """Compute again what is stored, whose entries still have another precision."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.needs_advance:  # for copies and unpickled modules
            _advance_after_steps(self)


_registered: WeakSet[Constraint] = WeakSet()
_registration = Lock()  # a set that changes cannot be copied
_hook_handles: list[Any] = []  # empty until the first constraint is registered


def _advance_after_steps(constraint: Constraint) -> None:
    """Call `constraint.advance()` after every optimiser step that changes its parameters.

    Torch's hook after every step keeps a plain ``loss.backward(); optimiser.step()`` loop correct
    and the forward pass free of side effects. A step that a gradient scaler skips is not counted.
    """
    with _registration:
        if not _hook_handles:
            _hook_handles.append(register_optimizer_step_post_hook(_after_step))
        _registered.add(constraint)


def _after_step(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
    if getattr(optimiser, "found_inf", None):
        return  # a gradient scaler made a fused optimiser skip this step
    changed: set[int] = set()
    for group in optimiser.param_groups:
        # an optimiser skips parameters without a gradient
        changed.update(id(p) for p in group["params"] if p.grad is not None)
    with _registration:
        registered = list(_registered)
    moved = [
        constraint
        for constraint in registered
        if any(id(parameter) in changed for parameter in constraint.parameters())
    ]
    _check_not_tied([constraint for constraint in moved if constraint.has_moving_base])
    for constraint in moved:
        # the user's block of autocast may contain the step
        with exact_products(constraint.device):
            constraint.advance()


def _check_not_tied(constraints: list[Constraint]) -> None:
    """Check that no raw parameter is in two of them, as the other one's base would not follow.

    Raises:
        RuntimeError: If one is.
    """
    owners: dict[int, Constraint] = {}
    for constraint in constraints:
        for parameter in constraint.parameters():
            if owners.setdefault(id(parameter), constraint) is not constraint:
                raise RuntimeError(
                    f"expected the raw parameters of a {type(constraint).__name__} in one "
                    "constraint, got one in two: share the constraint or the layer, since its "
                    "base is no parameter"
                )


def real_type(dtype: torch.dtype | None) -> torch.dtype:
    """Return the type of the raw parameters for a W of type `dtype`, by default torch's default.

    Raises:
        ValueError: If `dtype` is not a real or complex type of float32 precision or better.
    """
    real = torch.get_default_dtype() if dtype is None else dtype.to_real()
    if real not in (torch.float32, torch.float64):
        names = "float32, float64, complex64 or complex128"
        raise ValueError(f"expected dtype to be {names}, got {dtype}")
    return real


def make_constraint(factory: Callable[[int], object], size: int) -> Constraint:
    """Call the function that a user passed as `constraint=`.

    Raises:
        TypeError: If it is not a function, or does not return a `Constraint`.
        ValueError: If it returns a constraint of another size.
    """
    expected = (
        "expected a function from the size to a Constraint, such as ScaledCayley, or of a free "
        "matrix Unconstrained"
    )
    if isinstance(factory, nn.Module) or not callable(factory):
        raise TypeError(f"{expected}, got {factory!r}")
    constraint = factory(size)
    if not isinstance(constraint, Constraint):
        raise TypeError(f"{expected}, got one that returns {constraint!r}")
    if constraint.size != size:
        raise ValueError(f"expected a constraint of size {size}, got {constraint}")
    return constraint
