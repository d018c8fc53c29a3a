"""Recurrences as `torch.export` and ONNX record them: one step, scanned over time."""

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from eigenrnn.ops.arguments import features_of, map_tensors
from eigenrnn.ops.recurrence import Recurrence
from eigenrnn.ops.time_steps import running
from eigenrnn.torch_internals import record_scan
from eigenrnn.tracing import is_exporting_to_onnx

__all__ = ["export_steps", "exported_operands", "onnx_activation", "onnx_operator"]

_OPSET = 14  # the version of ONNX's RNN, GRU and LSTM that all later opsets also read

_Operands = TypeVar("_Operands", bound=Any)


def exported_operands(operands: _Operands) -> _Operands:
    """Return the operands, without gradients where the program has none.

    These are programs in ONNX, and those whose W is a constant: the backward pass of a scan costs
    time to record, and may fix the batch size.
    """
    W: Tensor | None = getattr(operands, "W", None)
    if not is_exporting_to_onnx() and (W is None or W.requires_grad):
        return operands
    return map_tensors(_detached, operands)


def _detached(tensor: Tensor) -> Tensor:
    if tensor.is_complex() and is_exporting_to_onnx():
        return tensor  # ONNX has no such operation
    return tensor.detach()


def export_steps(
    recurrence: Recurrence,
    operands: Any,
    options: Any,
    lengths: Tensor | None,  # (B,)
) -> tuple[Tensor, ...]:  # (T, B, ...), each (B, ...)
    """Record a recurrence as a scan of its step; return the results of all steps, and the last.

    This is its definition for exported programs, whose number of time steps may be unknown until
    they run. Past the end of a sequence the results are zero, and the last states are those at its
    end.

    Args:
        recurrence: The recurrence.
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.
    """
    states = recurrence.initial_states(operands)
    inputs = recurrence.inputs(operands, options)
    x, *_ = inputs.values()
    # a step gets these from the states and its inputs, and the head is not part of it
    elsewhere = {*states, *inputs, "x", "U", "c", "V", "d"}
    constant = {
        name: tensor
        for name, tensor in operands._asdict().items()
        if tensor is not None and name not in elsewhere
    }
    operands = operands._make([None] * len(operands))
    if lengths is not None:
        inputs["running"] = running(lengths, x)  # (T, B, 1)

    def body(*leaves: Tensor) -> list[Tensor]:
        # scan passes all tensors one by one; after them may come a size
        remaining = iter(leaves)
        before = dict(zip(states, remaining, strict=False))
        now = dict(zip(inputs, remaining, strict=False))
        given = dict(zip(constant, remaining, strict=False))
        h, after = recurrence.step(before, now, operands._replace(**given), options)
        if lengths is None:
            # scan wants outputs that share no memory, so h is copied
            return [*(after[name] for name in states), h.clone()]
        runs = now["running"]
        kept = [_where(runs, after[name], before[name]) for name in states]
        return [*kept, _where(runs, h, 0)]

    T = x.shape[0]
    if _is_one(T):  # a time step alone needs no operator that loops
        now = [each[0] for each in inputs.values()]
        *last, h = body(*states.values(), *now, *constant.values())
        return h.unsqueeze(0), *recurrence.last_states(dict(zip(states, last, strict=True)))
    # with the strides of new states: `contiguous` keeps others where a size is one
    first = [each.clone(memory_format=torch.contiguous_format) for each in states.values()]
    ordered = list(inputs.values())
    if options.reverse:
        ordered = [each.flip(0) for each in ordered]
    others: list[Any] = list(constant.values())
    # AOTInductor reads the batch size from the operands of the scan
    batch = x.shape[1]
    if isinstance(batch, torch.SymInt) and not is_exporting_to_onnx():
        others.append(batch)
    *last, h = record_scan(body, first, ordered, tuple(others))
    if options.reverse:
        h = h.flip(0)
    return h, *recurrence.last_states(dict(zip(states, last, strict=True)))


def _where(
    runs: Tensor,  # (B, 1)
    now: Tensor,  # (B, ...)
    before: Tensor | int,  # (B, ...)
) -> Tensor:  # (B, ...)
    """Return the new values of the sequences that run."""
    return torch.where(runs[(..., *[None] * (now.dim() - 2))], now, before)


def onnx_activation(operands: Any, options: Any) -> str | None:
    """Return ONNX's name of f if one of its own recurrences computes the call, or None.

    ONNX Runtime computes them in float32 only. A time step alone is plainer without.
    """
    x: Tensor = operands.x
    if not is_exporting_to_onnx() or x.dtype != torch.float32 or _is_one(x.shape[0]):
        return None
    if operands.U is None or features_of(operands, options):
        return None
    return {"tanh": "Tanh", "relu": "Relu"}.get(options.nonlinearity)


def _is_one(size: object) -> bool:
    """Whether a size is one for every input; an unknown size is a `torch.SymInt`."""
    return isinstance(size, int) and size == 1


def onnx_operator(
    name: str,
    x: Tensor,  # (T, B, M)
    weights: Sequence[Tensor],
    lengths: Tensor | None,  # (B,)
    h0: Tensor,  # (B, N)
    reverse: bool,
    **attributes: Any,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    """Record ONNX's own RNN or GRU; return all states and the last states.

    Args:
        name: The name of the operator.
        x: The inputs.
        weights: Its W, R and B, in the order of the gates that ONNX specifies.
        lengths: The number of time steps of each sequence; all of them by default.
        h0: The initial states.
        reverse: Whether to run from each sequence's last step to its first.
        attributes: Further attributes of the operator.
    Source:
        https://onnx.ai/onnx/operators (departures: none).
    """
    # ONNX's first axis counts directions; its lengths are 32-bit integers
    operands: list[Tensor | None] = [x, *(each.unsqueeze(0) for each in weights)]
    if lengths is None:
        operands.append(None)
    else:
        operands.append(lengths.int())
    operands.append(h0.unsqueeze(0))
    attributes["hidden_size"] = h0.shape[1]
    attributes["direction"] = "reverse" if reverse else "forward"
    shape = x.shape[0], 1, *h0.shape
    # torch fixes the shapes of an operator with several outputs, so only the first one is recorded
    h = torch.onnx.ops.symbolic(
        name, operands, attributes, dtype=x.dtype, shape=shape, version=_OPSET
    ).squeeze(1)
    if reverse:
        return h, h[0]
    if lengths is None:
        return h, h[-1]
    # gather has an operator in ONNX; it wants an index for each number of the result
    last = (lengths.long() - 1).view(1, -1, 1).expand(1, *h0.shape)
    return h, h.gather(0, last).squeeze(0)
