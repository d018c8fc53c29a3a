"""The compiled CPU kernels, if they were built, and what the backends that call them share."""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.nonlinearities import LEAKY_SLOPES
from eigenrnn.ops.arguments import to_float32
from eigenrnn.ops.autograd import Gradients, from_operator, register_gradients
from eigenrnn.ops.dispatch import Backend, Call
from eigenrnn.tracing import has_memory

try:
    # `from eigenrnn.ops import _cpu` would report a missing module as a circular import
    import eigenrnn.ops._cpu as _cpu  # pyright: ignore[reportMissingModuleSource]
except ImportError as error:
    kernels: Any = None
    _unavailable_reason = (
        "the compiled kernels were not built: there was no GCC or Clang when eigenrnn was "
        "installed, or the build failed (pip install --verbose shows the compiler's output)"
        if isinstance(error, ModuleNotFoundError)
        else str(error)
    )
else:
    kernels = _cpu
    _unavailable_reason = None

__all__ = [
    "CompiledBackend",
    "Kernels",
    "activation",
    "address",
    "empty_buffer",
    "empty_like_steps",
    "gradient_buffers",
    "kernels",
    "linear_stepper",
    "number_type",
    "pointer",
    "register_operator",
    "row_pointer",
    "rows",
    "saved_buffer",
    "unavailable",
    "warn_if_unavailable",
]

_ACTIVATIONS = ("identity", "tanh", "relu", "elu", "leaky_relu", "modrelu", "modrelu_paired")
_NUMBERS = {torch.float32: "float32", torch.float64: "float64"}
_LARGE = 1 << 22  # bytes; the allocator reuses smaller buffers, so large pages do not help them


def unavailable() -> str | None:
    """Return why there are no compiled kernels, or None."""
    return _unavailable_reason


def warn_if_unavailable(x: Tensor) -> None:
    """Warn once in a process that layers on the CPU run without the compiled kernels."""
    if kernels is None and x.device.type == "cpu" and not torch.compiler.is_compiling():
        _warn()


@cache
def _warn() -> None:
    warnings.warn(
        "layers on the CPU are several times slower than with the compiled kernels: "
        f"{_unavailable_reason}. To ignore this: "
        "warnings.filterwarnings('ignore', message='layers on the CPU')",
        stacklevel=2,
    )


class CompiledBackend(Backend):
    """A backend that calls these kernels; a subclass implements `run_kernels`."""

    name = "cpu"
    description = "compiled C++ on the CPU" + (f", {kernels.isa}" if kernels else "")
    supports_last_only = True

    def unavailable(self) -> str | None:
        return unavailable()

    def unsupported(self, call: Call) -> str | None:
        if call.device != "cpu":
            return f"the tensors are on {call.device}"
        if call.transformed:
            return "torch.func transforms and forward mode need differentiable operations"
        return None

    def run(self, operands: Any, options: Any) -> tuple[Tensor, ...]:
        U = operands.U
        if operands.W.dtype == torch.bfloat16:
            results = self.run(to_float32(operands), options)
            return tuple(result.bfloat16() for result in results)
        if U is not None and U.shape[1] == 0:  # the kernels take M = 0 for no input map
            operands = operands._replace(x=F.pad(operands.x, (0, 1)), U=F.pad(U, (0, 1)))
        return self.run_kernels(operands, options)

    @abstractmethod
    def run_kernels(self, operands: Any, options: Any) -> tuple[Tensor, ...]:
        """Run on float32, float64 or complex operands."""


class Kernels(NamedTuple):
    """What calls the kernels of a recurrence.

    Args:
        forward: Takes the operands, the options and whether to save what gradients need. Returns
            the results, all states first, and then what it saved.
        backward: Takes the gradients of the results, all states, what was saved, the operands,
            the options, and for each operand whether its gradient is needed. Returns the needed
            gradients.
        allocate: Takes what `forward` takes; returns what it returns, uninitialised.
        definition: The recurrence in differentiable operations, as for `register_gradients`.
        results: The number of results.
        saved: The number of saved tensors; one that is not needed may be None.
        prepare: Changes gradients, operands and what is needed before a backward pass; optional.
    """

    forward: Callable[[Any, Any, bool], tuple[Any, ...]]
    backward: Callable[..., list[Tensor]]
    allocate: Callable[[Any, Any, bool], tuple[Any, ...]]
    definition: Callable[[Any, Any], Gradients]
    results: int
    saved: int
    prepare: Callable[[Gradients, Any, Sequence[bool]], Any] | None = None


def register_operator(
    name: str,
    kernels_: Kernels,
    schema: str,
    records: Callable[[Sequence[Any]], tuple[Any, Any]],
    flatten: Callable[[Any, Any], Sequence[Any]] | None = None,
    operands: int | None = None,
    saved: int | None = None,
) -> Any:
    """Register a torch operator that calls kernels, its backward pass and its gradients.

    Args:
        name: The name of the operator.
        kernels_: What it calls.
        schema: The arguments of the operator.
        records: Returns the operands and the options from the arguments.
        flatten: Returns the arguments from the operands and the options; by default all fields.
        operands: The number of operands that it takes; by default all.
        saved: The number of saved tensors that it returns; by default all. The others are unused.
    """
    results, saved = kernels_.results, kernels_.saved if saved is None else saved
    tensors, unused = results + 1 + saved, [None] * (kernels_.saved - saved)

    def forward(*arguments: Any) -> tuple[Any, ...]:
        return kernels_.forward(*records(arguments), arguments[-1])[: results + saved]

    def fake_forward(*arguments: Any) -> tuple[Any, ...]:
        return kernels_.allocate(*records(arguments), arguments[-1])[: results + saved]

    def backward(*arguments: Any) -> list[Tensor]:
        given, record = (*arguments[:tensors], *unused), records(arguments[tensors:])
        return kernels_.backward(*given, *record, arguments[-1])

    def fake_backward(*arguments: Any) -> list[Tensor]:
        found = gradient_buffers(
            records(arguments[tensors:])[0], arguments[results], arguments[-1]
        )
        return [gradient for gradient in found if gradient is not None]

    returned = ", ".join(["Tensor"] * (results + saved))
    operator = torch.library.custom_op(
        f"eigenrnn::{name}",
        forward,
        mutates_args=(),
        schema=f"({schema}, bool save) -> ({returned})",
    )
    operator.register_fake(fake_forward)
    given = [f"Tensor? g{i}" for i in range(results)]
    given += ["Tensor h", *(f"Tensor saved{i}" for i in range(saved))]
    backward_operator = torch.library.custom_op(
        f"eigenrnn::{name}_backward",
        backward,
        mutates_args=(),
        schema=f"({', '.join(given)}, {schema}, bool[] needed) -> Tensor[]",
    )
    backward_operator.register_fake(fake_backward)
    run = from_operator(backward_operator, flatten)

    def prepared(
        grads: Gradients,
        kept: Sequence[Tensor],
        operands_: Any,
        options: Any,
        needed: Sequence[bool],
    ) -> Gradients:
        if kernels_.prepare is not None:
            grads, operands_, needed = kernels_.prepare(grads, operands_, needed)
        return run(grads, kept, operands_, options, needed)

    register_gradients(operator, records, kernels_.definition, results, prepared, operands)
    return operator


def activation(name: str, bias: Tensor | None) -> tuple[int, float]:  # index in csrc, slope
    """Return the index of a nonlinearity in csrc; modReLU without a bias is the identity."""
    if name.startswith("modrelu"):
        name = "identity" if bias is None else name
    slope = LEAKY_SLOPES.get(name, 0.0)
    return _ACTIVATIONS.index("leaky_relu" if name in LEAKY_SLOPES else name), slope


def number_type(*tensors: Tensor | None, takes_complex: bool = False) -> str:
    """Return the name that the kernels use for the dtype of all tensors.

    A kernel that takes complex numbers reads each as two real ones.

    Raises:
        TypeError: If the dtypes differ, or the kernels do not support them.
    """
    dtypes = {tensor.dtype for tensor in tensors if tensor is not None}
    if len(dtypes) > 1:
        names = ", ".join(sorted(map(str, dtypes)))
        raise TypeError(f"expected tensors of one type, got {names}")
    (dtype,) = dtypes
    number = dtype.to_real() if takes_complex else dtype
    if number not in _NUMBERS:
        raise TypeError(f"expected float32 or float64, got {dtype}")
    return _NUMBERS[number]


def empty_buffer(like: Tensor, *shape: int) -> Tensor:
    """Return an uninitialised buffer; a large one gets large memory pages."""
    buffer = like.new_empty(shape)
    if type(buffer) is not Tensor:  # a traced tensor has no memory
        return buffer
    size = buffer.numel() * buffer.element_size()
    if size >= _LARGE:
        kernels.prefer_large_pages(address(buffer), size)
    return buffer


def empty_like_steps(
    steps: Tensor,  # (T, B, any)
    K: int,
    typed: Tensor | None = None,
) -> Tensor:  # (T, B, K)
    """Return an uninitialised buffer with the layout of `steps` and the dtype of `typed`."""
    (T, B, _), typed = steps.shape, steps if typed is None else typed
    if steps.stride(0) < steps.stride(1):
        return empty_buffer(typed, B, T, K).transpose(0, 1)
    return empty_buffer(typed, T, B, K)


@overload
def rows(tensor: Tensor) -> Tensor: ...
@overload
def rows(tensor: Tensor | None) -> Tensor | None: ...
def rows(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor whose last axis is contiguous, as the kernels require."""
    if tensor is None or tensor.shape[-1] == 1 or tensor.stride(-1) == 1 or not tensor.numel():
        return tensor
    outer = tensor.stride()[:-1]
    # the gradient of a sum is one expanded number; copy it once. Not if autograd records it
    if tensor.dim() == 3 and outer == (0, 0) and not tensor.requires_grad:
        return tensor[0, 0].contiguous().expand(tensor.shape)
    return tensor.contiguous()


def gradient_buffers(
    operands: Any,
    h: Tensor,  # (T, B, N)
    needed: Sequence[bool],
) -> list[Tensor | None]:
    """Allocate the needed gradients as the kernels write them; the others are None.

    Those of the last operands may be missing from `needed`.
    """

    def buffer(name: str, tensor: Tensor) -> Tensor:
        if name == "x":
            return empty_like_steps(h if operands.U is None else tensor, tensor.shape[2])
        if name in ("W", "U"):
            return tensor.new_empty(tensor.shape[::-1]).T
        return tensor.new_empty(tensor.shape)

    padded = [*needed, *[False] * (len(operands) - len(needed))]
    fields = zip(operands._fields, operands, padded, strict=True)
    return [buffer(name, tensor) if is_needed else None for name, tensor, is_needed in fields]


def address(tensor: Tensor) -> int:
    """Return the address of the first number of a tensor; the kernels get no other addresses.

    Raises:
        ValueError: If the tensor has no memory.
    """
    if not has_memory(tensor):
        raise ValueError(
            f"expected a tensor with memory, got a {type(tensor).__name__} of shape "
            f"{tuple(tensor.shape)} without: its storage was freed, or it stands for another "
            "tensor, as those of torch.func.functionalize do"
        )
    return tensor.data_ptr()


def pointer(tensor: Tensor | None) -> tuple[int, int, int]:
    """Return the address and the first two strides; a missing tensor has address 0."""
    if tensor is None:
        return 0, 0, 0
    if tensor.dim() == 1:
        return address(tensor), 0, 0
    strides = tensor.stride()
    return address(tensor), strides[0], strides[1]


def row_pointer(tensor: Tensor | None) -> tuple[int, int, int]:  # (B, N)
    """Return the address and the strides of one step of states."""
    return (0, 0, 0) if tensor is None else (address(tensor), 0, tensor.stride(0))


def saved_buffer(
    steps: Tensor,  # (T, B, any)
    W: Tensor,  # (any, N)
    parts: int,
    norms: int = 0,
) -> Tensor:  # (T, B, numbers)
    """Return a buffer for what a backward pass needs of each step and sequence.

    It holds several numbers per unit and one per LayerNorm. The numbers of one vector of units are
    stored side by side, each padded to a whole vector.
    """
    (T, B, _), N = steps.shape, W.shape[1]
    lanes = kernels.vector_bytes // W.dtype.itemsize
    vectors = (N + lanes - 1) // lanes * parts + (norms + lanes - 1) // lanes
    return empty_buffer(W, T, B, vectors * lanes)


def linear_stepper(
    V: Tensor,  # (K, N)
    d: Tensor | None,  # (K,)
) -> Any:
    """Return the linear map of a head with packed weights, the last part of a `StepperStack`."""
    views = [pointer(V), pointer(rows(d))]
    return kernels.linear_stepper(number_type(V, d), V.shape[1], V.shape[0], views)
