"""Single time steps of frozen layers in the compiled kernels, from a snapshot of the weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.weak import WeakTensorKeyDictionary

from eigenrnn.kernels import NUMBERS, kernels
from eigenrnn.ops.compiled import make_stepper
from eigenrnn.ops.dispatch import in_forced_block
from eigenrnn.torch_internals import contents, hooks_of_call, write_count
from eigenrnn.tracing import are_plain, is_eager

__all__ = ["LatestSnapshot", "Snapshot", "addresses", "can_read", "take_snapshot"]

_packed = WeakTensorKeyDictionary()
"""The weights of all snapshots, so that other modules do not notice the hook for them."""

_LARGE_STEP = 1 << 20  # multiply-adds from which several threads share the sequences of a step


@dataclass(frozen=True)
class Snapshot:
    """The weights of a frozen layer, and of a head, packed for the kernels at one moment.

    A snapshot never changes. Its steps stop once a weight that it was taken of is replaced or
    written to. Only a write through `.data` or an array of NumPy that shares the memory, which
    torch does not record, goes unnoticed.

    Args:
        stack: The packed weights, a `StepperStack` of the kernels.
        weights: The tensors that were packed.
        dtype: Their dtype, which inputs and states share.
        input_size: The number M of input features.
        state_size: The numbers of a state of each layer, and of a cell of an LSTM.
        output_size: The number of outputs.
        knows_gaps: Whether a step may follow a gap in time.
    """

    stack: Any
    weights: tuple[Tensor, ...]
    dtype: torch.dtype
    input_size: int
    state_size: int
    output_size: int
    knows_gaps: bool

    def threads(self, batch_size: int) -> int:
        """Return the number of threads that share a step of several sequences."""
        if batch_size > 1 and batch_size * self.stack.products > _LARGE_STEP:
            return torch.get_num_threads()
        return 1

    def readable_gaps(self, dt: Tensor, batch: tuple[int, ...]) -> Tensor | None:  # (B,) or ()
        """Return gaps in time as the kernels read them; None if they or autograd cannot."""
        if not self.knows_gaps or not are_plain((dt,)) or not dt.is_floating_point():
            return None
        dt = dt.to(self.dtype).contiguous()
        return dt if can_read(dt, batch, self.dtype, torch.is_grad_enabled()) else None


def take_snapshot(layer: Any, head: nn.Module | None = None) -> Snapshot | None:
    """Pack the weights of a frozen layer, and of a head, for steps without gradients.

    Returns:
        The snapshot, or None if the layer is not frozen or the kernels cannot compute its steps.
    """
    if (
        kernels is None
        or layer.bidirectional
        or (head is not None and type(head) is not nn.Linear)
    ):
        return None
    modules: list[nn.Module] | None = layer.modules_of_step()
    if modules is None:
        return None
    if head is not None:
        modules.append(head)
    # the kernels would call neither a parametrisation nor a `forward` of the user's
    if any(parametrize.is_parametrized(m) or "forward" in vars(m) for m in modules):
        return None
    # Dictionaries of hooks, all empty. The stack keeps them, to notice a hook that is added later.
    empty: list[dict[Any, Any]] = []
    for module in modules:
        empty += hooks_of_call(module)
    if any(empty):
        return None

    # The versions are noted before the weights are packed: another thread may write to a weight,
    # or unfreeze the layer, while this one packs. The last line notices that.
    notes: list[tuple[dict[str, Any], str, Tensor, int]] = []
    weights: list[Tensor] = []
    for module in modules:
        parameters, buffers, _ = contents(module)
        for holder in (parameters, buffers):
            for name, tensor in list(holder.items()):
                # a step gets its state from the caller, and does not read the initial one
                if tensor is not None and name != "h0":
                    notes.append((holder, name, tensor, write_count(tensor)))
                    weights.append(tensor)
    dtype = layer.weight_dtype
    if not layer.is_frozen or dtype not in NUMBERS:
        return None
    # inference tensors do not count their writes, so a change would go unnoticed
    if any(not w.is_cpu or w.is_inference() for w in weights):
        return None
    # frozen eigenvalues may be complex
    if any(w.dtype.to_real() != dtype if w.is_complex() else w.dtype != dtype for w in weights):
        return None
    if not are_plain(weights):  # the ordinary path has the error message
        return None
    steppers = layer.steppers()
    if None in steppers:
        return None
    last = None
    output_size = layer.output_size
    if head is not None:
        K, N = head.weight.shape
        last = make_stepper("head", {"V": head.weight, "d": head.bias}, {"K": K, "N": N})
        output_size = head.out_features
    for weight in weights:
        _packed[weight] = True
    _count_fused_writes()
    stack = kernels.StepperStack(steppers, last, dtype == torch.float64, notes, empty)
    if not stack.unchanged():
        return None
    return Snapshot(
        stack=stack,
        weights=tuple(weights),
        dtype=dtype,
        input_size=layer.input_size,
        # the maps and norms of a stack have no state, and all layers have states of one size
        state_size=max(stepper.state_size for stepper in steppers),
        output_size=output_size,
        knows_gaps=stack.knows_gaps,
    )


@cache
def _count_fused_writes() -> None:
    """Let torch count the writes of fused optimisers too, which its own kernels leave out."""
    register_optimizer_step_post_hook(_after_step)


def _after_step(optimiser: Optimizer, _args: Any, _kwargs: Any) -> None:
    if getattr(optimiser, "found_inf", None):
        return  # a gradient scaler made a fused optimiser skip this step
    for group in optimiser.param_groups:
        if group.get("fused"):
            written = [p for p in group["params"] if p.grad is not None and p in _packed]
            torch.autograd.graph.increment_version(written)


def can_read(
    tensor: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype, needs_grad: bool
) -> bool:
    """Whether the kernels can read a tensor, and autograd does not need it."""
    return (
        tensor is not None
        and are_plain((tensor,))
        and tensor.shape == shape
        and tensor.dtype is dtype
        and tensor.is_contiguous()
        and tensor.is_cpu
        and not tensor.is_neg()
        and not (needs_grad and tensor.requires_grad)
    )


def addresses(states: Sequence[Tensor], new: Sequence[Tensor]) -> tuple[int, int, int, int]:
    """Return where h and the cells of a step are before it, and then where they go; 0 for none.

    A `StepperStack` takes them in this order.
    """
    if len(states) == 1:
        return states[0].data_ptr(), 0, new[0].data_ptr(), 0
    h, cell = states
    next_h, next_cell = new
    return h.data_ptr(), cell.data_ptr(), next_h.data_ptr(), next_cell.data_ptr()


class LatestSnapshot:
    """The latest snapshot of a layer, taken again after each change; copies take their own.

    Without it, a step of a frozen layer of 64 units would pack W again and take 79 microseconds in
    place of 8.
    """

    def __init__(self) -> None:
        self._snapshot: Snapshot | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return LatestSnapshot, ()

    def step(
        self,
        layer: Any,
        x_t: Tensor,  # (B, M) or (M,)
        states: tuple[Tensor, ...],  # each (L, B, S) or (L, S)
        dt: Tensor | None,  # (B,) or ()
    ) -> tuple[Tensor, list[Tensor]] | None:  # (B, N) or (N,), and the new states
        """Return the output and the new states, or None if this needs the ordinary path."""
        # the ordinary path has the error messages
        if not is_eager() or in_forced_block():
            return None
        if type(x_t) is not Tensor or x_t.is_nested or x_t.dim() > 2:
            return None
        snapshot = self._snapshot  # read once: other threads may step the same layer
        if snapshot is None and layer.is_frozen:  # asked again while it is taken
            snapshot = take_snapshot(layer)
            self._snapshot = snapshot
        if snapshot is None:
            return None
        grad = torch.is_grad_enabled()
        # autograd would have to record the step
        if grad and any(weight.requires_grad for weight in snapshot.weights):
            return None
        batch = x_t.shape[:-1]
        dtype = snapshot.dtype
        if not can_read(x_t, (*batch, snapshot.input_size), dtype, grad):
            return None
        gaps = None
        if dt is not None:
            gaps = snapshot.readable_gaps(dt, batch)
            if gaps is None:
                return None
        of_state = layer.num_layers, *batch, snapshot.state_size
        if not all(can_read(state, of_state, dtype, grad) for state in states):
            return None
        B = batch[0] if batch else 1
        y = x_t.new_empty((*batch, snapshot.output_size))
        new = [torch.empty_like(state) for state in states]
        # in a fixed order, because a dictionary of names would take longer than the step
        if snapshot.stack.step(
            B,
            x_t.data_ptr(),
            snapshot.input_size,
            *addresses(states, new),
            y.data_ptr(),
            0 if gaps is None else gaps.data_ptr(),
            snapshot.threads(B),
        ):
            return y, new
        self._snapshot = None  # a weight has changed
        return self.step(layer, x_t, states, dt)
