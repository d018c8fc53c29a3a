"""The record of a recurrence: its operands, options, results and saved parts, by name."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_type_hints

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.linalg import at_least_float32
from eigenrnn.ops.arguments import is_mixed, mapped_inputs
from eigenrnn.ops.time_steps import sizes_of_steps, steps_in_order
from eigenrnn.tracing import check_dense

__all__ = [
    "Axes",
    "Product",
    "Recurrence",
    "Shape",
    "Sizes",
    "products_of_matrices",
    "sizes_of",
    "sizes_of_axes",
]

Shape = tuple[int, ...]
Axes = Mapping[str, tuple[str, ...]]
"""The axes of operands by name, each a size with a factor: ``("4N", "N")``."""


Step = Callable[
    [Mapping[str, Tensor], Mapping[str, Tensor], Any, Any], tuple[Tensor, Mapping[str, Tensor]]
]


_MASKS = ("mask", "resets")  # of booleans, which are checked where they are given


class Sizes(NamedTuple):
    """The sizes of a call with matrices.

    Args:
        T: The number of steps.
        B: The number of sequences.
        M: The number of numbers in an input.
        N: The number of units.
        K: The number of outputs of a head.
    """

    T: int
    B: int
    M: int
    N: int
    K: int


class Product(NamedTuple):
    """A product with an operand that each step of a sequence computes, for counts of operations.

    Args:
        operand: The name of the operand.
        factor: The other factor: ``"x"``, ``"state"``, or the result that the product with a
            new state gives.
        size: The number of multiplications.
        initial: Those of them that multiply the initial state at the first step.
    """

    operand: str
    factor: str
    size: int
    initial: int = 0


def products_of_matrices(operands: Any, _options: Any) -> list[Product]:
    """Return the products of a recurrence whose matrices are W, U and V."""
    products = [Product("W", "state", operands.W.numel(), operands.W.numel())]
    if operands.U is not None:
        products.append(Product("U", "x", operands.U.numel()))
    head: Tensor | None = getattr(operands, "V", None)
    if head is not None:
        products.append(Product("V", "y", head.numel()))
    return products


def _no_parts(_operands: Any, _options: Any) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Recurrence:
    """What a recurrence takes, returns and saves.

    Operators, checks, dispatch and the arguments of the kernels derive from it. Everything has the
    same name in all of them, and in csrc/arguments.hpp.

    Args:
        name: The name of its public function.
        operands: The named tuple of its tensors.
        options: The named tuple of its options.
        states: The operands that are initial states, zero by default.
        results: What the definition returns: all states, then the last of each of the states, and
            possibly more.
        step: One time step in differentiable operations. Takes the states before it by name, what
            changes from step to step by name, the operands and the options. Returns what the step
            adds to the results, and the states after it.
        inputs: Takes the operands and the options. Returns what changes from step to step.
        argument: The operand that is a state too, if a call has it. Its last value then takes the
            place of that of the first state in the results.
        definition: Returns the results by name where they are more than steps and a head.
        own_shapes: Returns the shape of each operand of a call, where their axes do not say it.
        wide: The operands that are float32 or better, also where the others have 16 bits.
        features: The optional features that the step computes, as in `Backend.features`.
        gates: The number G of matrices that are stacked in W.
        saved_parts: Returns what the kernels save of each unit and step for a backward pass, in
            their order.
        products: Returns the products that each step computes, beside which all else is small.
    """

    name: str
    operands: type[Any]
    options: type[Any]
    states: tuple[str, ...]
    results: tuple[str, ...]
    step: Step
    inputs: Callable[[Any, Any], dict[str, Tensor]] = mapped_inputs
    argument: str | None = None
    definition: Callable[[Any, Any], dict[str, Tensor | None]] | None = None
    own_shapes: Callable[[Any], Mapping[str, Shape]] | None = None
    wide: Collection[str] = ()
    features: frozenset[str] = frozenset()
    gates: int = 1
    saved_parts: Callable[[Any, Any], Sequence[str]] = _no_parts
    products: Callable[[Any, Any], Sequence[Product]] = products_of_matrices

    axes: Axes = field(init=False)
    """The axes of each operand, if its record says them beside its type."""

    required: frozenset[str] = field(init=False)
    """The operands that every call has; an initial state is zero by default."""

    def __post_init__(self) -> None:
        kinds = get_type_hints(self.operands)
        required = {name for name, kind in kinds.items() if kind is Tensor}
        hints = get_type_hints(self.operands, include_extras=True)
        axes = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
        object.__setattr__(self, "axes", axes)
        object.__setattr__(self, "required", frozenset(required - {*self.states}))

    @property
    def all_states(self) -> str:
        """The name of the states of all steps."""
        return self.results[0]

    def define(self, operands: Any, options: Any) -> dict[str, Tensor | None]:
        """Return the results of the definition by name; one that a call does not have is None.

        It evaluates the steps one after another, each for the sequences that run. Past the end of
        a sequence the results are zero. Autograd records T steps of small operations, so
        the backward pass is slow and needs much memory.
        """
        if self.definition is not None:
            return self.definition(operands, options)

        states: Mapping[str, Tensor] = self.initial_states(operands)
        inputs = self.inputs(operands, options)
        first, *_ = inputs.values()
        T, B = first.shape[:2]
        sizes = sizes_of_steps(options.batch_sizes, T, B)
        # indexing would allocate a gradient of the size of the inputs at every step
        steps = {name: tensor.unbind() for name, tensor in inputs.items()}
        hs: list[Tensor] = []
        for t in steps_in_order(T, options.reverse):
            n = sizes[t]
            before = {name: state[:n] for name, state in states.items()}
            now = {name: each[t][:n] for name, each in steps.items()}
            if "resets" in now:
                anew = now.pop("resets").unsqueeze(1)
                before = {name: state.masked_fill(anew, 0) for name, state in before.items()}
            h, after = self.step(before, now, operands, options)
            if n < B:
                # a finished sequence keeps its states; one that has not begun the initial ones
                waiting = {name: state[n:] for name, state in states.items()}
                h = torch.cat([h, h.new_zeros(B - n, *h.shape[1:])])
                after = {name: torch.cat([state, waiting[name]]) for name, state in after.items()}
            hs.append(h)
            states = after
        if options.reverse:
            hs.reverse()
        h = torch.stack(hs)
        results: dict[str, Tensor | None] = dict.fromkeys(self.results)
        last = self.last_states(states)
        results.update(zip(self.results, (h, *last), strict=False))
        V: Tensor | None = getattr(operands, "V", None)
        if V is not None:
            results["y"] = F.linear(h, V, operands.d)
        return results

    def initial_states(self, operands: Any) -> dict[str, Tensor]:
        """Return the states before the first step, by the names of the operands."""
        states: dict[str, Tensor] = {name: getattr(operands, name) for name in self.states}
        if self.argument is not None and getattr(operands, self.argument) is not None:
            states[self.argument] = getattr(operands, self.argument)
        return states

    def last_states(self, states: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the last of each state as the results have them, from those that a step gives."""
        last = [states[name] for name in self.states]
        if self.argument is not None and self.argument in states:
            last[0] = states[self.argument]
        return last

    def returned(self, operands: Any, results: Mapping[str, Any]) -> tuple[Tensor, ...]:
        """Return all states, or the outputs of a head, and the last of each state."""
        first, *last = self.results[: 1 + len(self.states)]
        if getattr(operands, "V", None) is not None:
            first = "y"
        return results[first], *map(results.__getitem__, last)

    def shapes(self, operands: Any) -> Mapping[str, Shape]:
        """Return the shape of each operand of a call; those that are None have one too.

        Raises:
            ValueError: If the operands do not give all sizes.
        """
        if self.own_shapes is not None:
            return self.own_shapes(operands)
        if "W" in self.axes:
            sizes = sizes_of(operands, self.gates)._asdict()
        else:
            sizes = sizes_of_axes(operands, self.axes)
        shapes: dict[str, Shape] = {}
        for name, axes in self.axes.items():
            shapes[name] = tuple([int(axis[:-1] or 1) * sizes[axis[-1]] for axis in axes])
        return shapes

    def check_tensors(self, operands: Any) -> None:
        """Check that all operands are dense tensors in memory.

        Raises:
            TypeError: If one is not dense, or is missing.
            ValueError: If one has no memory.
        """
        for name, value in zip(operands._fields, operands, strict=True):
            if value is None and name not in self.required:
                continue
            if not isinstance(value, Tensor):
                raise TypeError(f"expected {name} to be a tensor, got {type(value).__name__}")
        check_dense(operands._asdict())

    def check_shapes(self, operands: Any) -> None:
        """Check the shapes of all operands.

        Raises:
            ValueError: If one is wrong.
        """
        shapes = self.shapes(operands)
        for name, tensor in zip(operands._fields, operands, strict=True):
            if tensor is not None and tensor.shape != shapes[name]:
                raise ValueError(
                    f"expected {name} of shape {shapes[name]}, got {tuple(tensor.shape)}"
                )

    def check_dtypes(
        self, supported: Collection[torch.dtype], operands: Any, *, allows_mixed: bool = False
    ) -> None:
        """Check the dtypes and devices of all operands.

        The bias is real. If U is complex, x may be real. Under autocast x may have 16 bits beside
        weights in float32.

        Raises:
            TypeError: If no backend supports a dtype, or the dtypes differ.
            ValueError: If the tensors are on several devices.
        """
        first = operands._fields[0]
        x: Tensor = operands[0]
        W: Tensor | None = getattr(operands, "W", None)
        for name, tensor in ((first, x), ("W", W)):
            if tensor is not None and tensor.dtype not in supported:
                names = ", ".join(sorted(str(dtype).removeprefix("torch.") for dtype in supported))
                raise TypeError(f"expected {name} of one of the types {names}, got {tensor.dtype}")
        expected = x.dtype
        if W is not None:
            # real inputs of complex states go through a complex U; W then says what others have
            is_of_complex = operands.U is not None and W.real.dtype == x.dtype
            if is_of_complex or (allows_mixed and is_mixed(operands)):
                expected = W.dtype
        device = x.device
        # all but x, the first field, with which they are compared
        for name, tensor in zip(operands._fields[1:], operands[1:], strict=True):
            if tensor is None or name in _MASKS:
                continue
            if tensor.device != device:
                raise ValueError(
                    f"expected {name} on {device}, where {first} is, got {tensor.device}"
                )
            wanted = expected
            if name == "bias" and W is not None and W.is_complex():  # it is added to a modulus
                wanted = W.real.dtype
            elif name in self.wide or (name == "W" and tensor.dtype == torch.float32):
                wanted = at_least_float32(wanted)  # W of a layer in 16 bits has 32
            if tensor.dtype != wanted:
                raise TypeError(
                    f"expected {name} of {wanted} to go with {first}, got {tensor.dtype}"
                )

    def with_initial_states(self, operands: Any) -> Any:
        """Return the operands with zero in place of each initial state that is None."""
        for name in self.states:
            if getattr(operands, name) is None:
                W: Tensor | None = getattr(operands, "W", None)
                if W is not None:  # x may be real where W and the states are complex
                    zeros = W.new_zeros(operands.x.shape[1], W.shape[-1])
                else:
                    zeros = operands[0].new_zeros(self.shapes(operands)[name])
                if name in self.wide:
                    zeros = zeros.to(at_least_float32(zeros.dtype))
                operands = operands._replace(**{name: zeros})
        return operands

    def state_size(self, operands: Any) -> int:
        """Return the number of real numbers in one state."""
        first: Tensor = getattr(operands, self.states[0])
        numbers = math.prod(first.shape[1:])
        if first.is_complex():
            numbers = 2 * numbers
        return len(self.states) * numbers


def sizes_of_axes(operands: Any, axes: Axes) -> dict[str, int]:
    """Return the size of each axis, from the first operand that has it without a factor.

    Raises:
        ValueError: If an operand has another number of axes.
    """
    sizes: dict[str, int] = {}
    for name, of_operand in axes.items():
        tensor: Tensor | None = getattr(operands, name)
        if tensor is None:
            continue
        if tensor.dim() != len(of_operand):
            expected = ", ".join(of_operand)
            raise ValueError(f"expected {name} of shape ({expected}), got {tuple(tensor.shape)}")
        for axis, size in zip(of_operand, tensor.shape, strict=True):
            sizes.setdefault(axis, size)
    if sizes.get("T") == 0:
        raise ValueError("expected T >= 1, got no time step")
    return sizes


def sizes_of(operands: Any, gates: int = 1) -> Sizes:
    """Return the sizes of a call with G gates; without U the inputs are mapped to all gates.

    Raises:
        ValueError: If x is no sequence of inputs, or a bias comes without its map.
    """
    x: Tensor = operands.x
    W: Tensor = operands.W
    U: Tensor | None = operands.U
    is_sequence = x.dim() == 3 and x.shape[0] >= 1
    # already mapped inputs have one number for each gate of each unit
    if is_sequence and U is None and gates > 1:
        is_sequence = x.shape[2] > 0 and x.shape[2] % gates == 0
    if not is_sequence:
        last = "M"
        if U is None:
            last = "N" if gates == 1 else f"{gates} N"
        raise ValueError(f"expected x of shape (T, B, {last}) with T >= 1, got {tuple(x.shape)}")
    if operands.c is not None and U is None:
        raise ValueError("expected c to go with U, got c alone: add it to x")
    V: Tensor | None = getattr(operands, "V", None)
    if V is None and getattr(operands, "d", None) is not None:
        raise ValueError("expected d to go with V, got d alone")
    T, B, M = x.shape
    # a W or a V without axes has no N or K, and `check_shapes` rejects it
    N = W.shape[-1] if U is not None and W.dim() else M // gates
    K = V.shape[0] if V is not None and V.dim() else 1
    return Sizes(T, B, M, N, K)
