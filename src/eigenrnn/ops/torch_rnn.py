"""The backends that hand their matrices to torch's own RNN kernels, which use cuDNN on a GPU."""

import threading
from abc import abstractmethod
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from eigenrnn.ops.arguments import needs_gradient
from eigenrnn.ops.autograd import Gradients, differentiable_gradients
from eigenrnn.ops.dispatch import REAL, Backend, Call
from eigenrnn.torch_internals import graph_is_kept
from eigenrnn.tracing import is_batched

__all__ = ["TorchBackend", "evaluate", "full_precision"]

_precision_lock = threading.RLock()


class TorchBackend(Backend):
    """A backend that calls `torch.gru` or one of its kind; a subclass implements `evaluate`.

    The constraint is evaluated once per sequence, and torch's kernel receives W as a plain tensor.
    """

    name = "torch"
    description = "torch's own RNN kernels, those of cuDNN on NVIDIA GPUs"
    dtypes = REAL

    nonlinearities: frozenset[str] = frozenset({"tanh"})
    """The nonlinearities for which torch has kernels."""

    def unsupported(self, call: Call) -> str | None:
        if call.device not in ("cpu", "cuda"):
            return f"it needs tensors on the CPU or a CUDA device, and they are on {call.device}"
        if call.nonlinearity not in self.nonlinearities:
            return f"torch has no kernel for {call.nonlinearity} in this recurrence"
        if call.transformed:
            return "torch.func transforms and forward mode need differentiable operations"
        if torch.compiler.is_compiling():
            return "torch.compile would unroll its time steps"
        return None

    def experimental(self, call: Call) -> str | None:
        if call.device == "cpu":
            return "other backends are faster on a CPU: used only if requested by name"
        if torch.version.hip or not torch.backends.cudnn.enabled:
            return (
                "without cuDNN it launches a kernel per operation: used only if requested by name"
            )
        return None

    def run(self, operands: Any, options: Any) -> tuple[Tensor, ...]:
        if not (operands.x.numel() and operands.h0.numel()):  # cuDNN takes no empty tensors
            return self.definition(operands, options)
        if not needs_gradient(operands):
            with full_precision(operands.x):
                return self.evaluate(operands, options, train=False)
        return _Recorded.apply(self, type(operands), options, *operands)

    @abstractmethod
    def evaluate(self, operands: Any, options: Any, *, train: bool) -> tuple[Tensor, ...]:
        """Return the results of torch's function."""

    @abstractmethod
    def definition(self, operands: Any, options: Any) -> tuple[Tensor, ...]:
        """Return the results of the reference implementation."""


class _Recorded(torch.autograd.Function):
    """Calls torch's kernel; differentiates the reference for second derivatives and `vmap`.

    Torch cannot differentiate the backward pass of cuDNN, nor batch it.
    """

    @staticmethod
    def forward(
        ctx: Any, backend: TorchBackend, record: Any, options: Any, *operands: Any
    ) -> tuple[Tensor, ...]:
        needed = ctx.needs_input_grad[3:]
        leaves = [
            None if v is None else v.detach().requires_grad_(is_needed)
            for v, is_needed in zip(operands, needed, strict=True)
        ]
        with torch.enable_grad(), full_precision(operands[0]):
            results = backend.evaluate(record(*leaves), options, train=True)
        ctx.backend, ctx.record, ctx.options = backend, record, options
        ctx.leaves, ctx.results = leaves, results
        ctx.set_materialize_grads(False)  # usually the loss uses only one of the results
        ctx.save_for_backward(*operands)
        return tuple(result.detach() for result in results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Gradients:
        needed = ctx.needs_input_grad[3:]
        used = [(r, g) for r, g in zip(ctx.results, grads, strict=True) if g is not None]
        if not used:
            return (None,) * len(ctx.needs_input_grad)
        if torch.is_grad_enabled() or is_batched(*grads):
            operands = ctx.record(*ctx.saved_tensors)
            definition = ctx.backend.definition
            found = differentiable_gradients(definition, grads, operands, ctx.options, needed)
            return None, None, None, *found
        inputs = [v for v, is_needed in zip(ctx.leaves, needed, strict=True) if is_needed]
        with full_precision(ctx.results[0]):
            given = torch.autograd.grad(
                *([result for result, _ in used], inputs, [g for _, g in used]),
                retain_graph=graph_is_kept(),
                allow_unused=True,
            )
        remaining = iter(given)
        return None, None, None, *(next(remaining) if is_needed else None for is_needed in needed)


@contextmanager
def full_precision(tensor: Tensor) -> Generator[None]:
    """Disable TF32 in cuDNN's recurrent kernels.

    The setting is global, so a lock keeps threads from overwriting each other's value.
    """
    if tensor.device.type == "cpu" or tensor.dtype != torch.float32:
        yield
        return
    rnn: Any = torch.backends.cudnn.rnn
    owner, name, full = (
        (rnn, "fp32_precision", "ieee")
        if hasattr(rnn, "fp32_precision")  # torch 2.9
        else (torch.backends.cudnn, "allow_tf32", False)
    )
    with _precision_lock:
        before = getattr(owner, name)
        setattr(owner, name, full)
        try:
            yield
        finally:
            setattr(owner, name, before)


def evaluate(
    name: str,
    x: Tensor,  # (T, B, G N) or (T, B, M)
    states: Sequence[Tensor],  # each (B, N)
    weights: tuple[Tensor | None, Tensor, Tensor | None, Tensor | None],
    options: Any,
    train: bool,
) -> tuple[Tensor, ...]:  # (T, B, N), and the last of each of the states
    """Call a recurrence of torch with one layer.

    Args:
        name: The name of the function, such as `gru`.
        x: The inputs.
        states: The initial states.
        weights: The input map, or None if x is already mapped; the recurrent matrices; the bias
            of the inputs and that of the recurrent products, or None.
        options: The options of the call.
        train: Whether a backward pass follows.
    """
    given, W, b, recurrent_b = weights
    U = torch.eye(len(W), dtype=W.dtype, device=W.device) if given is None else given
    biases, function = _biases(b, recurrent_b, W), getattr(torch, name)
    # cuDNN reads one block of memory; torch would copy weights that are not in one, and warn
    parts = [U, W, *biases]
    block = torch.cat([part.reshape(-1) for part in parts]).split([p.numel() for p in parts])
    parameters = [one.view(part.shape) for one, part in zip(block, parts, strict=True)]
    hx = [state.contiguous().unsqueeze(0) for state in states]
    initial = hx if len(hx) > 1 else hx[0]
    rest = parameters, bool(biases), 1, 0.0, train, False
    if options.batch_sizes is None:
        steps = x.flip(0) if options.reverse else x
        h, *last = function(steps, initial, *rest, False)
        return h.flip(0) if options.reverse else h, *(state.squeeze(0) for state in last)
    sizes = torch.tensor([n for n in options.batch_sizes if n], device="cpu")
    (T, B, M), N = x.shape, states[0].shape[1]
    at = _packed_rows(sizes, B, options.reverse).to(x.device, non_blocking=True)
    data, *last = function(x.reshape(T * B, M).index_select(0, at), sizes, initial, *rest)
    h = x.new_zeros(T * B, N).index_copy(0, at, data)
    return h.view(T, B, N), *(state.squeeze(0) for state in last)


def _biases(b: Tensor | None, recurrent_b: Tensor | None, W: Tensor) -> list[Tensor]:
    """Return both biases, or none; torch takes no single one."""
    if b is None and recurrent_b is None:
        return []
    return [W.new_zeros(len(W)) if one is None else one for one in (b, recurrent_b)]


def _packed_rows(
    sizes: Tensor,  # (T,)
    B: int,
    reverse: bool,
) -> Tensor:  # (sum of sizes,)
    """Return the rows t B + b of all running sequences, in the order in which they are read."""
    runs = sizes.unsqueeze(1) > torch.arange(B, device="cpu")
    t, b = runs.nonzero(as_tuple=True)
    if reverse:
        t = runs.sum(0)[b] - 1 - t
    return t * B + b
