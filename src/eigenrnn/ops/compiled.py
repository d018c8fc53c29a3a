"""What the backends that call the compiled CPU kernels share."""

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.kernels import NUMBERS, has_threads, kernels, unavailable_reason
from eigenrnn.nonlinearities import LEAKY_SLOPES
from eigenrnn.ops.arguments import (
    features_of,
    is_mixed,
    needs_gradient,
)
from eigenrnn.ops.dispatch import Backend, Call
from eigenrnn.ops.operators import Named, Operator
from eigenrnn.ops.precision import products_now, products_of_autocast
from eigenrnn.ops.recurrence import Recurrence

__all__ = [
    "STRIDED",
    "CompiledBackend",
    "activation",
    "add_results",
    "by_rows",
    "call_arguments",
    "call_sizes",
    "compiled_operator",
    "drop_unread_outputs",
    "empty_buffer",
    "empty_like_steps",
    "kernel_options",
    "kernels",
    "make_stepper",
    "number_type",
    "pointer",
    "rows",
    "saved_buffer",
    "unavailable",
    "views",
    "warn_if_unavailable",
]

STRIDED = ("W", "U", "V", "D", "y")
"""What the kernels read with any strides: matrices, and gradients of outputs; all else by rows."""
_LARGE = 1 << 22  # bytes; the allocator reuses smaller buffers, so large pages do not help them


def unavailable() -> str | None:
    """Return why there are no compiled kernels, or None."""
    return unavailable_reason


def warn_if_unavailable(x: Tensor) -> None:
    """Warn once in a process that layers on the CPU run without the compiled kernels."""
    if kernels is None and x.device.type == "cpu" and not torch.compiler.is_compiling():
        _warn()


@cache
def _warn() -> None:
    warnings.warn(
        "layers on the CPU are several times slower than with the compiled kernels: "
        f"{unavailable_reason}. To ignore this: "
        "warnings.filterwarnings('ignore', message='layers on the CPU')",
        stacklevel=2,
    )


class CompiledBackend(Backend):
    """A backend that calls these kernels."""

    name = "cpu"
    description = "compiled C++ on the CPU" + (f", {kernels.isa}" if kernels else "")
    operator: Operator
    """The operator of calls without optional features."""

    operator_of_features: Operator | None = None
    """The operator of all others, if they have one of their own."""

    multiplies_by_tiles = False
    """Whether its products may be of bfloat16, see `eigenrnn.ops.precision`."""

    def unavailable(self) -> str | None:
        return unavailable()

    def unsupported(self, call: Call) -> str | None:
        if call.device != "cpu":
            return f"the tensors are on {call.device}"
        return None

    def when_chosen(self, call: Call) -> str:
        reason = "chosen"
        if self.multiplies_by_tiles and call.state_size >= kernels.least_units_of_tiles:
            products = products_now(call.dtype)
            if products != "float32":
                reason += f", with {products} products"
        if not has_threads:
            reason += ", on one thread: torch's OpenMP library was not found"
        return reason

    def run(self, operands: Any, options: Any) -> tuple[Tensor, ...]:
        U: Tensor | None = getattr(operands, "U", None)
        if U is not None and U.shape[1] == 0:  # the kernels take M = 0 for no input map
            operands = operands._replace(x=F.pad(operands.x, (0, 1)), U=F.pad(U, (0, 1)))
        return self.run_kernels(operands, options)

    def run_mixed(self, operands: Any, options: Any) -> tuple[Tensor, ...]:
        if is_mixed(operands):
            options = options._replace(products=products_of_autocast(operands.x.dtype))
        # the kernels store neither outputs of a head nor arguments of f in 16 bits
        is_plain = getattr(operands, "V", None) is None and getattr(operands, "v0", None) is None
        stores = is_mixed(operands) and operands.x.dtype == torch.bfloat16 and is_plain
        if stores and not _shares_units(operands):
            return self.run(operands, options)
        return super().run_mixed(operands, options)

    def run_kernels(self, operands: Any, options: Any) -> tuple[Tensor, ...]:
        """Run on float32, float64 or complex operands."""
        operator = self.operator
        if self.operator_of_features is not None and features_of(operands, options):
            operator = self.operator_of_features
        return operator.recurrence.returned(operands, operator(operands, options))


def _shares_units(operands: Any) -> bool:
    """Whether threads might share the units of a sequence, which they do in float32 only."""
    if torch.compiler.is_compiling() or needs_gradient(operands):
        return False
    return operands.x.shape[1] < torch.get_num_threads()


def by_rows(name: str, tensor: Tensor) -> Tensor:
    """Return a tensor as the kernels read it by default: all but matrices by contiguous rows."""
    if name in STRIDED:
        return tensor
    return rows(tensor)


def call_sizes(operands: Any) -> dict[str, int]:
    """Return the sizes of a call as the kernels name them."""
    T, B, M = operands.x.shape
    sizes = {"T": T, "B": B, "N": operands.h0.shape[1]}
    if operands.U is not None:
        sizes["M"] = M
    for name in ("V", "gamma_log"):  # the units of an LRU, or the outputs of a head
        tensor: Tensor | None = getattr(operands, name, None)
        if tensor is not None:
            sizes["K"] = tensor.shape[0]
    return sizes


def gradient_buffers(
    operands: Any,
    needed: Collection[str],
    h: Tensor,  # (T, B, N)
) -> dict[str, Tensor]:
    """Allocate the needed gradients; without U, those of steps have the layout of the states."""
    gradients: dict[str, Tensor] = {}
    for name in needed:
        tensor: Tensor = getattr(operands, name)
        if name in ("x", "decay") and tensor.dim() == 3:
            like = h if getattr(operands, "U", None) is None else tensor
            gradients[name] = empty_like_steps(like, tensor.shape[2])
        else:
            gradients[name] = empty_buffer(tensor, *tensor.shape)
    return gradients


def compiled_operator(
    name: str,
    recurrence: Recurrence,
    allocate: Callable[[Any, Any, bool], Named],
    *,
    saved: Sequence[str] = (),
    without: Collection[str] = (),
    prepare: Callable[..., Any] | None = None,
    has_plans: bool = False,
    sizes: Callable[[Any], Mapping[str, Any]] = call_sizes,
    as_read: Callable[[str, Tensor], Tensor] = by_rows,
    takes_complex: bool = False,
) -> Operator:
    """Return the operator that calls the kernels of a recurrence.

    Args:
        name: The name of the operator.
        recurrence: The recurrence; its kernels are ``<name>_forward`` and ``<name>_backward``.
        allocate: Takes the operands, the options and whether a backward pass follows. Returns the
            results and what is saved, uninitialised. The kernels leave out those without elements.
        saved: As for `Operator`.
        without: As for `Operator`.
        prepare: As for `Operator`.
        has_plans: Whether the kernels have plans of its calls, ``<recurrence>_plan``.
        sizes: Takes the operands. Returns the sizes of the call as the kernels name them.
        as_read: Takes the name of a tensor and the tensor. Returns it as the kernels read it, with
            real numbers and, unless it is a matrix, contiguous rows; a view if it is new.
        takes_complex: Whether the tensors may be complex.
    """
    (state, *_) = recurrence.states

    def read_all(tensors: Named) -> dict[str, Tensor]:
        given = tensors.items()
        return {name: as_read(name, tensor) for name, tensor in given if tensor is not None}

    def forward(operands: Any, options: Any, save: bool) -> Named:
        read = _read_operands(operands, as_read)
        call = call_arguments(read, options, sizes(operands))
        tensors = allocate(operands, options, save)
        written = read_all(tensors)
        add_results(call, written)
        number = number_type(getattr(operands, state), takes_complex=takes_complex)
        run = getattr(kernels, f"{recurrence.name}_forward")
        run(number, torch.get_num_threads(), call)
        return tensors

    def backward(
        operands: Any,
        options: Any,
        needed: Collection[str],
        grads: Named,
        kept: Mapping[str, Tensor],
        planned: Any = None,
    ) -> Named:
        all_states = recurrence.all_states
        gradients = gradient_buffers(operands, needed, kept[all_states])
        read = read_all(grads)
        dy = read.get("y")
        if "d" in gradients and dy is not None:  # the kernels leave this sum to torch
            torch.sum(dy, (0, 1), out=gradients["d"])
        threads = torch.get_num_threads()
        if planned is not None and planned.run_backward(kept, read, gradients, threads):
            return gradients
        unread: Collection[str] = ()
        if "U" in operands._fields and operands.U is None:
            unread = ("x",)  # the gradients do not depend on it, so no copy of it is made
        # Only for its check of the dtypes. Kernels get addresses, and would read the numbers of
        # another dtype as their own.
        of_steps = [grads.get(all_states), *kept.values()]
        of_states = [gradient for result, gradient in grads.items() if result != all_states]
        if is_mixed(operands):
            _check_bfloat16(*of_steps)
        else:
            of_states += of_steps
        number = number_type(getattr(operands, state), *of_states, takes_complex=takes_complex)
        passed = views(read)
        if dy is not None:
            passed["y_stride"] = dy.stride(2)
        for operand, gradient in read_all(gradients).items():
            if operand != "d":
                passed[operand] = pointer(gradient)
        read_operands = _read_operands(operands, as_read, unread)
        call = call_arguments(read_operands, options, sizes(operands))
        # hooks of saved tensors may return any strides
        kept_rows = read_all(kept)
        add_results(call, kept_rows)
        run = getattr(kernels, f"{recurrence.name}_backward")
        run(number, threads, call, passed)
        return gradients

    def make_plan(operands: Any, options: Any) -> Any:
        if operands.x.dtype not in NUMBERS:
            return None
        axes = dict(recurrence.axes)
        if operands.U is None:  # already mapped inputs have one number for each row of W
            axes["x"] = ("T", "B", axes["W"][0])
        fields: list[tuple[int, str, tuple[str, ...], bool]] = []
        for place, (operand, tensor) in enumerate(zip(operands._fields, operands, strict=True)):
            if tensor is not None:
                fields.append((place, operand, axes[operand], operand in STRIDED))
        constants = kernel_options(options, getattr(operands, "bias", None))
        make = getattr(kernels, f"{recurrence.name}_plan")
        return make(constants, fields, tuple(NUMBERS))

    return Operator(
        name,
        recurrence,
        forward=forward,
        allocate=allocate,
        backward=backward,
        saved=saved,
        without=without,
        allocate_gradients=gradient_buffers,
        prepare=prepare,
        make_plan=make_plan if has_plans else None,
    )


def drop_unread_outputs(
    operands: Any, needed: Collection[str], grads: Named
) -> tuple[Any, Collection[str], Named]:
    """Return the arguments of a backward pass without the output map, if nobody read outputs."""
    if operands.V is not None and grads["y"] is not None:
        return operands, needed, grads
    unread = [name for name in ("V", "D", "d") if name in operands._fields]
    needed = [name for name in needed if name not in unread]
    # without V the outputs are an empty tensor
    return operands._replace(**dict.fromkeys(unread)), needed, {**grads, "y": None}


def call_arguments(
    operands: Any, options: Any, sizes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return what a kernel is told of a call, but for its results.

    Args:
        operands: The tensors of the call, which must outlive it; all rows but those of matrices
            are contiguous.
        options: Its options.
        sizes: Its sizes; those of `call_sizes` by default.
    """
    call = kernel_options(options, getattr(operands, "bias", None))
    call |= call_sizes(operands) if sizes is None else sizes
    for name, tensor in zip(operands._fields, operands, strict=True):
        if tensor is None:
            continue
        call[name] = pointer(tensor)
        if name == "leak":
            call["leak_changes"] = tensor.dim() == 3
    return call


def _read_operands(
    operands: Any, as_read: Callable[[str, Tensor], Tensor], unread: Collection[str] = ()
) -> Any:
    """Return the operands as the kernels read them, but for those that they do not read.

    Raises:
        TypeError: If the dtypes differ.
    """
    dtype: torch.dtype = operands[0].dtype
    other = ("mask", "resets")  # which have bytes
    if is_mixed(operands):
        _check_bfloat16(operands.x)
        dtype = torch.float32
        other = (*other, "x")
    changed: dict[str, Tensor] = {}
    for name, tensor in zip(operands._fields, operands, strict=True):
        if tensor is None:
            continue
        if tensor.dtype is not dtype and name not in other:
            raise TypeError(f"expected {name} of {dtype} like the others, got {tensor.dtype}")
        if name not in unread:
            read = as_read(name, tensor)
            if read is not tensor:
                changed[name] = read
    if not changed:
        return operands
    return operands._replace(**changed)


def add_results(call: dict[str, Any], tensors: Named) -> None:
    """Add the addresses of results and of what is saved; those without elements are left out."""
    for name, tensor in tensors.items():
        if tensor is not None and tensor.numel():
            call[name] = pointer(tensor)


def kernel_options(options: Any, bias: Tensor | None = None) -> dict[str, Any]:
    """Return the options of a call as the kernels name them; a missing h means `last_only`."""
    given = options._asdict()
    del given["last_only"]
    sizes = given.pop("batch_sizes")
    if sizes is not None:
        given["batch_sizes"] = list(sizes)
    if "nonlinearity" in given:
        given |= activation(given["nonlinearity"], bias)
    return given


def activation(name: str, bias: Tensor | None) -> dict[str, Any]:
    """Return a nonlinearity as the kernels name it; modReLU without a bias is the identity."""
    if name in LEAKY_SLOPES:
        return {"nonlinearity": "leaky_relu", "slope": LEAKY_SLOPES[name]}
    if name.startswith("modrelu") and bias is None:  # also "modrelu_paired", of complex numbers
        name = "identity"
    return {"nonlinearity": name}


def views(tensors: Named) -> dict[str, Any]:
    """Return the addresses and strides of the tensors that are not None."""
    return {name: pointer(tensor) for name, tensor in tensors.items() if tensor is not None}


def _check_bfloat16(*tensors: Tensor | None) -> None:
    """Check what is stored of each step beside weights in float32.

    Raises:
        TypeError: If one has another dtype.
    """
    for tensor in tensors:
        if tensor is not None and tensor.dtype != torch.bfloat16:
            raise TypeError(
                f"expected torch.bfloat16 beside weights in float32, got {tensor.dtype}"
            )


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
    number = dtype
    if takes_complex:
        number = dtype.to_real()
    if number not in NUMBERS:
        raise TypeError(f"expected float32 or float64, got {dtype}")
    return NUMBERS[number]


def empty_buffer(like: Tensor, *shape: int) -> Tensor:
    """Return an uninitialised buffer; a large one gets large memory pages."""
    buffer = like.new_empty(shape)
    # the page faults of small pages take as long as a forward pass, see Pages in csrc/README.md
    if type(buffer) is Tensor and buffer.nbytes >= _LARGE:  # a traced tensor has no memory
        kernels.prefer_large_pages(buffer.data_ptr(), buffer.nbytes)
    return buffer


def empty_like_steps(
    steps: Tensor,  # (T, B, any)
    K: int,
    *,
    is_read: bool = True,
) -> Tensor:  # (T, B, K), or (0, B, K) if nobody reads it
    """Return an uninitialised buffer with the layout and the dtype of `steps`."""
    T, B, _ = steps.shape
    if not is_read:
        return steps.new_empty(0, B, K)
    if steps.stride(0) < steps.stride(1):  # the steps of a sequence are side by side: batch first
        return empty_buffer(steps, B, T, K).transpose(0, 1)
    return empty_buffer(steps, T, B, K)


@overload
def rows(tensor: Tensor) -> Tensor: ...
@overload
def rows(tensor: Tensor | None) -> Tensor | None: ...
def rows(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor whose last axis is contiguous, as the kernels require."""
    if tensor is None or tensor.stride(-1) == 1 or tensor.shape[-1] == 1 or not tensor.numel():
        return tensor
    outer = tensor.stride()[:-1]
    # The gradient of a sum is one number, expanded to all steps: a copy of one row is enough. But
    # where autograd records the copy, it would send the gradients of all rows to the first.
    if tensor.dim() == 3 and outer == (0, 0) and not tensor.requires_grad:
        return tensor[0, 0].contiguous().expand(tensor.shape)
    return tensor.contiguous()


def pointer(tensor: Tensor) -> tuple[int, int, int, bool]:
    """Return the address, the first two strides, and whether the numbers are bfloat16.

    A stride that a tensor lacks is zero.
    """
    strides = tensor.stride()
    has_16_bits = tensor.dtype is torch.bfloat16
    if len(strides) == 1:
        return tensor.data_ptr(), 0, 0, has_16_bits
    return tensor.data_ptr(), strides[0], strides[1], has_16_bits


def saved_buffer(
    recurrence: Recurrence, operands: Any, options: Any, save: bool
) -> Tensor | None:  # (T, B, numbers)
    """Return a buffer for what a backward pass needs of each step and sequence, if one follows.

    It holds several numbers per unit and one per LayerNorm. The numbers of one vector of units are
    stored side by side, each padded to a whole vector.
    """
    if not save:
        return None
    T, B = operands.x.shape[:2]
    N = operands.h0.shape[1]
    W = operands.W
    parts = len(recurrence.saved_parts(operands, options))
    norms = 0
    if getattr(operands, "gain", None) is not None:
        norms = recurrence.gates
    lanes = kernels.vector_bytes // W.dtype.itemsize
    # whole vectors, so that a kernel may read and write beyond the last unit
    vectors_of_units = (N + lanes - 1) // lanes
    vectors_of_norms = (norms + lanes - 1) // lanes
    vectors = vectors_of_units * parts + vectors_of_norms
    return empty_buffer(operands.x, T, B, vectors * lanes)


def make_stepper(kind: str, weights: Named, options: Mapping[str, Any], *others: Any) -> Any:
    """Return a recurrence, or a linear head, with packed weights, for a `StepperStack`.

    Args:
        kind: The kernels are ``<kind>_stepper``.
        weights: The weights by the names of the kernels; None for each that is missing.
        options: The sizes and the options by their names.
        others: What else the kernels take.
    """
    read: dict[str, Tensor | None] = {}
    for name, weight in weights.items():
        # of vectors, no strides are passed
        read[name] = rows(weight) if weight is not None and weight.dim() == 1 else weight
    make = getattr(kernels, f"{kind}_stepper")
    return make(number_type(*read.values()), {**options, **views(read)}, *others)
