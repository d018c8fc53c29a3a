"""The backends that hand their matrices to torch's own RNN kernels, which use cuDNN on a GPU."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.linalg import switched_to_ieee
from eigenrnn.ops.arguments import map_tensors, needs_gradient
from eigenrnn.ops.dispatch import REAL, Backend, Call
from eigenrnn.ops.operators import Named, differentiable_gradients
from eigenrnn.ops.recurrence import Recurrence
from eigenrnn.ops.time_steps import packed_rows
from eigenrnn.torch_internals import graph_is_kept
from eigenrnn.tracing import is_batched

__all__ = ["TorchBackend", "full_precision"]


class TorchBackend(Backend):
    """A backend that calls the function of `torch.nn.RNN`, `GRU` or `LSTM`.

    The constraint is evaluated once per sequence, and torch's kernel receives W as a plain tensor.

    Args:
        recurrence: What it computes.
        nonlinearities: The nonlinearities for which torch has kernels.
    """

    name = "torch"
    description = "torch's own RNN kernels, those of cuDNN on NVIDIA GPUs"
    dtypes = REAL

    def __init__(
        self, recurrence: Recurrence, nonlinearities: frozenset[str] = frozenset({"tanh"})
    ) -> None:
        self.recurrence = recurrence
        self.nonlinearities = nonlinearities

    def unsupported(self, call: Call) -> str | None:
        if call.device not in ("cpu", "cuda"):
            return f"it needs tensors on the CPU or a CUDA device, and they are on {call.device}"
        if call.nonlinearity not in self.nonlinearities:
            return f"torch has no kernel for {call.nonlinearity} in this recurrence"
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
            results = self.recurrence.define(operands, options).values()
            return tuple(result for result in results if result is not None)
        if not needs_gradient(operands):
            with full_precision(operands.x):
                return self.evaluate(operands, options, train=False)
        return _Recorded.apply(self, options, *operands)

    def evaluate(self, operands: Any, options: Any, *, train: bool) -> tuple[Tensor, ...]:
        """Return the results of torch's function; `train` says that a backward pass follows."""
        x: Tensor = operands.x
        W: Tensor = operands.W
        c: Tensor | None = operands.c
        input_map: Tensor | None = operands.U
        if input_map is None:  # torch's function always maps its inputs
            input_map = torch.eye(len(W), dtype=W.dtype, device=W.device)
        recurrent_bias: Tensor | None = getattr(operands, "recurrent_bias", None)
        if recurrent_bias is not None:
            # the reset and the update gate have no recurrent bias of their own
            recurrent_bias = F.pad(recurrent_bias, (len(W) - len(recurrent_bias), 0))
        name = self.recurrence.name
        if name == "elman":
            name = f"rnn_{options.nonlinearity}"
        function = getattr(torch, name)
        parts = [input_map, W]
        has_biases = c is not None or recurrent_bias is not None
        if has_biases:  # torch takes both or none
            zero = W.new_zeros(len(W))
            if c is None:
                c = zero
            if recurrent_bias is None:
                recurrent_bias = zero
            parts += [c, recurrent_bias]
        # cuDNN reads one block of memory; torch would copy weights that are not in one, and warn
        lengths = [part.numel() for part in parts]
        block = torch.cat([part.reshape(-1) for part in parts]).split(lengths)
        parameters = [one.view(part.shape) for one, part in zip(block, parts, strict=True)]
        # torch takes the pair (h, c) of an LSTM, and else a state alone
        states = self.recurrence.initial_states(operands).values()
        initial: Any = [state.contiguous().unsqueeze(0) for state in states]
        if len(initial) == 1:
            initial = initial[0]
        rest: dict[str, Any] = {
            "has_biases": has_biases,
            "num_layers": 1,
            "dropout": 0.0,
            "train": train,
            "bidirectional": False,
        }
        if options.batch_sizes is None:
            if options.reverse:
                x = x.flip(0)
            h, *last = function(x, initial, parameters, **rest, batch_first=False)
            if options.reverse:
                h = h.flip(0)
            return h, *(state.squeeze(0) for state in last)
        sizes = [n for n in options.batch_sizes if n]  # torch takes no steps without sequences
        T, B, M = x.shape
        N = W.shape[1]
        at = packed_rows(sizes, B, options.reverse, x.device)
        packed = x.reshape(T * B, M).index_select(0, at)
        # torch takes batch sizes on the CPU only, and the default device may be another
        counts = torch.tensor(sizes, device="cpu")
        data, *last = function(packed, counts, initial, parameters, **rest)
        h = x.new_zeros(T * B, N).index_copy(0, at, data)
        return h.view(T, B, N), *(state.squeeze(0) for state in last)


class _Recorded(torch.autograd.Function):
    """Calls torch's kernel; differentiates the reference for second derivatives and `vmap`.

    Torch cannot differentiate the backward pass of cuDNN, nor batch it.
    """

    @staticmethod
    def forward(
        ctx: Any, backend: TorchBackend, options: Any, *operands: Any
    ) -> tuple[Tensor, ...]:
        recurrence = backend.recurrence
        _, _, *flags = ctx.needs_input_grad
        ctx.needed = [
            name for name, flag in zip(recurrence.operands._fields, flags, strict=True) if flag
        ]
        given = recurrence.operands(*operands)
        # a graph of its own, from these leaves, which the backward pass below runs through
        leaves = map_tensors(torch.Tensor.detach, given)
        for name in ctx.needed:
            getattr(leaves, name).requires_grad_()
        with torch.enable_grad(), full_precision(given.x):
            results = backend.evaluate(leaves, options, train=True)
        ctx.recurrence = recurrence
        ctx.options = options
        ctx.leaves = leaves
        # not strict, because torch evaluates no head, the last result of some recurrences
        ctx.results = dict(zip(recurrence.results, results, strict=False))
        ctx.set_materialize_grads(False)  # usually the loss uses only one of the results
        ctx.save_for_backward(*operands)
        return tuple(result.detach() for result in results)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        recurrence: Recurrence = ctx.recurrence
        named = dict(zip(ctx.results, gradients, strict=True))
        grads = {name: gradient for name, gradient in named.items() if gradient is not None}
        found: Named = {}
        if grads and (torch.is_grad_enabled() or is_batched(*grads.values())):
            operands = recurrence.operands(*ctx.saved_tensors)
            found = differentiable_gradients(recurrence, operands, ctx.options, ctx.needed, grads)
        elif grads:
            with full_precision(ctx.leaves.x):
                of_needed = torch.autograd.grad(
                    outputs=[ctx.results[name] for name in grads],
                    inputs=[getattr(ctx.leaves, name) for name in ctx.needed],
                    grad_outputs=list(grads.values()),
                    retain_graph=graph_is_kept(),
                    allow_unused=True,
                )
            found = dict(zip(ctx.needed, of_needed, strict=True))
        # the backend and the options, the first arguments of `forward`, have no gradients
        return None, None, *(found.get(name) for name in recurrence.operands._fields)


def full_precision(tensor: Tensor) -> AbstractContextManager[None]:
    """Disable TF32 in cuDNN's recurrent kernels inside the block.

    TF32 would round W, which then leaves its set, and the states of many steps.
    """
    if tensor.device.type == "cpu" or tensor.dtype != torch.float32:
        return nullcontext()
    rnn: Any = torch.backends.cudnn.rnn
    return switched_to_ieee(rnn)
