"""Single time steps of frozen layers in the compiled kernels, which keep the weights packed."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from eigenrnn.layers.direction import AbstractDirection, hooks
from eigenrnn.ops.compiled import address, kernels, linear_stepper
from eigenrnn.ops.dispatch import forced, in_forced_block
from eigenrnn.tracing import is_eager

__all__ = ["LARGE_STEP", "PackedSteps", "addresses", "pack_steps", "takes_packed_step"]

LARGE_STEP = 1 << 20
"""The number of multiply-adds from which several threads share the sequences of a step."""

_DTYPES = (torch.float32, torch.float64)


def pack_steps(layer: Any, head: nn.Module | None = None) -> Any:
    """Pack the weights of a frozen layer, and of a head, for steps without gradients.

    Returns:
        A `StepperStack`, or None if the layer is not frozen or the kernels cannot compute it. It
        notices when one of the weights is replaced or written to. Only a write through `.data`,
        which torch does not record, goes unnoticed.
    """
    directions: list[AbstractDirection] = layer.all_directions()
    if kernels is None or layer.bidirectional or any(d.frozen is None for d in directions):
        return None
    if any(type(d).stepper is AbstractDirection.stepper for d in directions):
        return None
    if (layer.backend or forced() or "cpu") != "cpu" or type(head) not in (type(None), nn.Linear):
        return None
    modules: list[nn.Module] = [*directions] if head is None else [*directions, head]
    weights = [place for module in modules for place in _weights(module)]
    dtype = layer.weight_dtype
    if dtype not in _DTYPES or any(
        w.dtype != dtype or w.device.type != "cpu" or w.is_inference()
        for w in (holder[name] for holder, name in weights)
    ):
        return None
    empty = [each for module in modules for each in hooks(module)]
    if any(empty) or any(parametrize.is_parametrized(m) or "forward" in vars(m) for m in modules):
        return None
    steppers = [direction.stepper() for direction in directions]
    if None in steppers:
        return None
    last = linear_stepper(head.weight, head.bias) if isinstance(head, nn.Linear) else None
    return kernels.StepperStack(steppers, last, dtype == torch.float64, weights, empty)


def _weights(module: nn.Module) -> list[tuple[dict[str, Tensor], str]]:
    """Return where the weights of a step are: dictionaries and keys."""
    own, frozen = vars(module)["_parameters"], vars(module)["_buffers"]
    names = [name for name, weight in own.items() if weight is not None and name != "h0"]
    return [(own, name) for name in names] + [(frozen, name) for name in frozen]


def takes_packed_step(
    tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype, needs_grad: bool
) -> bool:
    """Whether the kernels can read a tensor, and autograd does not need it."""
    return (
        type(tensor) is Tensor
        and tensor.shape == shape
        and tensor.dtype is dtype
        and tensor.is_contiguous()
        and tensor.is_cpu
        and not tensor.is_neg()
        and not (needs_grad and tensor.requires_grad)
    )


def addresses(states: Sequence[Tensor], new: Sequence[Tensor]) -> tuple[int, int, int, int]:
    """Return the addresses of the states, the cells, the new states and the new cells."""
    h, *cell = [address(each) for each in states]
    next_h, *next_cell = [address(each) for each in new]
    return h, cell[0] if cell else 0, next_h, next_cell[0] if next_cell else 0


class PackedSteps:
    """The packed weights of a layer, packed again after each change; copies pack their own."""

    def __init__(self) -> None:
        self._stack: Any = None
        self._weights: list[Tensor] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedSteps, ()

    def step(
        self,
        layer: Any,
        x_t: Tensor,  # (B, M) or (M,)
        states: tuple[Tensor, ...],  # each (L, B, N) or (L, N)
    ) -> tuple[Tensor, list[Tensor]] | None:  # (B, N) or (N,), and the new states
        """Return the output and the new states, or None if this needs the ordinary path."""
        if not is_eager() or in_forced_block() or type(x_t) is not Tensor:
            return None
        if self._stack is None and not self._pack(layer):
            return None
        batch, N, M = x_t.shape[:-1], layer.hidden_size, layer.input_size
        shape = (layer.num_layers, *batch, N)
        if not self._takes(x_t, (*batch, M), *((state, shape) for state in states)):
            return None
        stack: Any = self._stack
        B = batch[0] if batch else 1
        y, new = x_t.new_empty((*batch, N)), [x_t.new_empty(shape) for _ in states]
        threads = torch.get_num_threads() if B > 1 and B * stack.products > LARGE_STEP else 1
        places = addresses(states, new)
        if stack.step(B, address(x_t), M, *places, y.data_ptr(), threads):
            return y, new
        self._stack = None  # a weight has changed
        return self.step(layer, x_t, states)

    def _takes(
        self, x_t: Tensor, shape: tuple[int, ...], *states: tuple[Tensor, tuple[int, ...]]
    ) -> bool:
        """Whether the kernels can compute a step with these inputs and states."""
        grad = torch.is_grad_enabled()
        if x_t.dim() > 2 or not x_t.numel() or (grad and self._trains()):
            return False
        pairs = ((x_t, shape), *states)
        return all(takes_packed_step(*pair, self._dtype, grad) for pair in pairs)

    def _trains(self) -> bool:
        return any(weight.requires_grad for weight in self._weights)

    def _pack(self, layer: Any) -> bool:
        """Pack the weights as they are now; return whether that is possible."""
        self._stack = pack_steps(layer)
        if self._stack is None:
            return False
        self._dtype = layer.weight_dtype
        places = [place for direction in layer.all_directions() for place in _weights(direction)]
        self._weights = [holder[name] for holder, name in places]
        return True
