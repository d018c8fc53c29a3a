"""The records of a call, its tensors and its options, with their checks.

A recurrence has a named tuple of its tensors, its operands. Every function here accepts any of
them. A torch operator takes the operands and the options one by one, in the order of the records.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, NamedTuple, TypeVar, get_type_hints

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.ops.time_steps import without_padding
from eigenrnn.tracing import check_dense, is_exporting

__all__ = [
    "EXTRAS",
    "Options",
    "check_batch_sizes",
    "check_flags",
    "check_resets",
    "check_tensor",
    "dtype_of",
    "features_of",
    "is_mixed",
    "lengths_of",
    "map_inputs",
    "map_tensors",
    "mapped_inputs",
    "needs_gradient",
    "schema",
    "steps_in",
    "to_float32",
    "with_resets",
]

_Operands = TypeVar("_Operands", bound=Any)
_Options = TypeVar("_Options", bound=Any)

EXTRAS = ("gain", "shift", "mask", "rate", "resets")
"""The last fields of the records, which only some backends compute."""


class Options(NamedTuple):
    """What a recurrence does with its operands.

    Args:
        nonlinearity: The name of the nonlinearity.
        batch_sizes: The number of running sequences at each step; None for the whole batch.
        reverse: Whether to run from the last step to the first.
        last_only: Whether only the last states are computed and stored.
        products: What the compiled kernels multiply, see `eigenrnn.ops.precision`.
        rate: The zoneout rate of evaluation; zero without zoneout, or with a mask.
    """

    nonlinearity: str = "tanh"
    batch_sizes: Sequence[int] | None = None
    reverse: bool = False
    last_only: bool = False
    products: str = "float32"
    rate: float = 0.0


_SCHEMA_TYPES: Mapping[Any, str] = {
    Tensor: "Tensor",
    Tensor | None: "Tensor?",
    str: "str",
    bool: "bool",
    float: "float",
    Sequence[int] | None: "SymInt[]?",  # while torch compiles, sizes may be symbols
}


def schema(*records: type, without: Collection[str] = ()) -> str:
    """Return the fields of records as the arguments in the schema of a torch operator.

    Example:
        >>> schema(Options, without=("rate", "products"))
        'str nonlinearity, SymInt[]? batch_sizes, bool reverse, bool last_only'
    """
    hints = [hint for record in records for hint in get_type_hints(record).items()]
    kept = [(name, kind) for name, kind in hints if name not in without]
    return ", ".join(f"{_SCHEMA_TYPES[kind]} {name}" for name, kind in kept)


def map_tensors(f: Callable[[Tensor], Tensor], operands: _Operands) -> _Operands:
    """Return the operands with f applied to each tensor; None stays None."""
    return operands._make([None if tensor is None else f(tensor) for tensor in operands])


SIXTEEN_BITS = frozenset({torch.float16, torch.bfloat16})


def to_float32(operands: _Operands) -> _Operands:
    """Return the operands with 16-bit tensors in float32, for autocast."""
    return map_tensors(_to_float32, operands)


def _to_float32(tensor: Tensor) -> Tensor:
    if tensor.dtype in SIXTEEN_BITS:
        return tensor.float()
    return tensor  # masks, and numbers of 32 bits or more


def steps_in(dtype: torch.dtype, operands: Any) -> Any:
    """Return the operands with x in the 16 bits of autocast, and all else in float32.

    Complex states, states of 64 bits, exports and recurrences without W keep x as wide as the
    weights.
    """
    if not hasattr(operands, "W"):
        return to_float32(operands)
    x: Tensor = operands.x
    operands = to_float32(operands._replace(x=None))
    is_narrow = x.dtype in SIXTEEN_BITS or x.dtype == torch.float32
    if operands.W.dtype != torch.float32 or not is_narrow or is_exporting():
        return operands._replace(x=_to_float32(x))
    return operands._replace(x=x.to(dtype))


def is_mixed(operands: Any) -> bool:
    """Whether x has 16 bits beside weights in float32, as `steps_in` returns them."""
    W: Tensor | None = getattr(operands, "W", None)  # not all recurrences multiply by a matrix
    return W is not None and W.dtype == torch.float32 and operands.x.dtype in SIXTEEN_BITS


def dtype_of(operands: Any) -> torch.dtype:
    """Return the dtype of the arithmetic, that of x but for mixed operands."""
    if is_mixed(operands):
        return torch.float32
    return operands[0].dtype


def needs_gradient(operands: Iterable[Tensor | None]) -> bool:
    """Whether autograd records a call with these operands."""
    return torch.is_grad_enabled() and any(v is not None and v.requires_grad for v in operands)


def features_of(operands: Any, options: Any) -> list[str]:
    """Return the optional features that a call uses, as in `Backend.features`."""
    features: list[str] = []
    if getattr(operands, "gain", None) is not None:
        features.append("layer_norm")
    if getattr(operands, "mask", None) is not None or getattr(options, "rate", 0):
        features.append("zoneout")
    if getattr(operands, "leak", None) is not None:
        features.append("leak")
    if getattr(operands, "v0", None) is not None:
        features.append("current")
    if getattr(operands, "resets", None) is not None:
        features.append("resets")
    return features


def map_inputs(
    x: Tensor,  # (T, B, N) or (T, B, M)
    U: Tensor | None,  # (N, M)
    c: Tensor | None,  # (N,)
) -> Tensor:  # (T, B, N)
    r"""Return :math:`x U^\top + c`, or x itself without a map."""
    if U is None:
        return x
    if not U.is_complex() or x.is_complex():
        return F.linear(x, U, c)
    # two real products: a complex one would also multiply the zeros of the imaginary part of x
    real: Tensor | None = None
    imaginary: Tensor | None = None
    if c is not None:
        real = c.real
        imaginary = c.imag
    return torch.complex(F.linear(x, U.real, real), F.linear(x, U.imag, imaginary))


def mapped_inputs(operands: Any, options: Any) -> dict[str, Tensor]:
    """Return what changes from step to step: the mapped inputs, and what else there is."""
    x = without_padding(operands.x, options.batch_sizes)
    if getattr(operands, "U", None) is not None:
        x = map_inputs(x, operands.U, operands.c)
    inputs = {"x": x}
    for name in ("mask", "resets", "leak", "decay"):
        tensor: Tensor | None = getattr(operands, name, None)
        if tensor is not None and tensor.dim() > 1:  # a leak may be the same at every step
            inputs[name] = tensor
    return inputs


def check_tensor(
    name: str, tensor: object, shape: tuple[int, ...], device: torch.device, *, beside: str
) -> Tensor:
    """Check that something is a dense tensor of a shape, on the device of another; return it.

    Raises:
        TypeError: If it is not a dense tensor.
        ValueError: If it has another shape or device, or no memory.
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(f"expected {name} to be a tensor, got {type(tensor).__name__}")
    check_dense({name: tensor})
    if tensor.shape != shape:
        raise ValueError(f"expected {name} of shape {tuple(shape)}, got {tuple(tensor.shape)}")
    if tensor.device != device:
        raise ValueError(f"expected {name} on {device}, where {beside}, got {tensor.device}")
    return tensor


def check_resets(resets: object, shape: tuple[int, ...], device: torch.device) -> None:
    """Check resets, one for each step and sequence.

    Raises:
        TypeError: If they are not a dense tensor of booleans.
        ValueError: If their shape or their device is wrong, or an export records the call.
    """
    resets = check_tensor("resets", resets, shape, device, beside="the inputs are")
    if resets.dtype != torch.bool:
        raise TypeError(f"expected resets of torch.bool, got {resets.dtype}: resets.bool()")
    if is_exporting():
        raise ValueError("expected no resets while exporting, got some: set the states to zero")


def with_resets(operands: _Operands, resets: Tensor | None) -> _Operands:
    """Return the operands with resets, which are checked.

    Raises the errors of `check_resets`.
    """
    if resets is None:
        return operands
    check_resets(resets, operands.x.shape[:2], operands.x.device)
    return operands._replace(resets=resets)


def check_flags(**flags: object) -> None:
    """Check that all arguments are booleans.

    Raises:
        TypeError: If one is not.
    """
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"expected {name} to be True or False, got {type(flag).__name__}")


def lengths_of(options: _Options) -> tuple[Tensor | None, _Options]:
    """Return the lengths that an exported call takes as batch sizes, and the options without.

    Raises:
        TypeError: If they are not a tensor.
    """
    lengths = options.batch_sizes
    if lengths is not None and not isinstance(lengths, Tensor):
        raise TypeError(
            "expected the lengths of the sequences as a tensor of batch_sizes while exporting, "
            f"got {type(lengths).__name__}"
        )
    return lengths, options._replace(batch_sizes=None)


def check_batch_sizes(batch_sizes: object, T: int, B: int) -> None:
    """Check the batch sizes of T steps and B sequences.

    Raises:
        ValueError: If they are not T sizes in descending order, the first of them B.
        TypeError: If they are not a list of integers.
    """
    # a string is a Sequence, too
    if isinstance(batch_sizes, str) or not isinstance(batch_sizes, Sequence):
        raise TypeError(
            f"expected batch_sizes to be a list of integers, got {type(batch_sizes).__name__}"
        )
    # a bool is an Integral to Python; while torch compiles, sizes may be symbols
    if any(isinstance(n, bool) or not isinstance(n, Integral | torch.SymInt) for n in batch_sizes):
        raise TypeError(f"expected batch sizes to be integers, got {list(batch_sizes)}")
    falling = all(a >= b for a, b in pairwise(batch_sizes))
    if len(batch_sizes) != T or batch_sizes[0] != B or not falling or batch_sizes[-1] < 0:
        raise ValueError(f"expected {T} batch sizes that fall from {B}, got {list(batch_sizes)}")
