"""The delta rule as `torch.export` and `torch.onnx.export` record it."""

from collections.abc import Mapping

import torch
from torch import Tensor

from eigenrnn.ops.arguments import map_tensors, to_float32
from eigenrnn.ops.delta.operands import DeltaOperands, DeltaOptions
from eigenrnn.ops.delta.reference import output, reflect
from eigenrnn.ops.exporting import scan_steps
from eigenrnn.tracing import is_exporting_to_onnx

__all__ = ["export_delta"]


def export_delta(
    operands: DeltaOperands, options: DeltaOptions, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:  # (T, B, H, V), (B, H, K, V)
    """Record the delta rule as a scan of steps.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.

    Raises:
        ValueError: If the number of sequences is free, and that of the example is one.
    """
    wide = to_float32(operands)
    # torch's tracer takes a size of one for a constant in a product with a number, as in q and
    # beta; the program would then fail for two sequences
    if isinstance(wide.v.shape[1], torch.SymInt) and wide.beta.shape[1] == 1:
        raise ValueError(
            "expected an example of two sequences or more where their number is free, got one"
        )
    if is_exporting_to_onnx():
        wide = map_tensors(Tensor.detach, wide)  # torch cannot decompose the backward pass
    H, R, K = wide.k.shape[2:]
    V = wide.v.shape[4]

    def step(
        states: Mapping[str, Tensor],  # each (B, numbers)
        now: Mapping[str, Tensor],  # each (B, numbers)
        _constant: DeltaOperands,
    ) -> dict[str, Tensor]:
        state = states["S"].unflatten(1, (H, K, V))
        if "log_decay" in now:
            state = now["log_decay"][..., None, None].exp() * state
        k = now["k"].unflatten(1, (H, R, K))
        v = now["v"].unflatten(1, (H, R, V))
        beta = now["beta"].unflatten(1, (H, R))
        for j in range(R):
            state = reflect(state, k[:, :, j], v[:, :, j], beta[:, :, j])
        o = output(state, now["x"].unflatten(1, (H, K)))
        return {"h0": o.flatten(1), "S": state.flatten(1)}

    # the scan returns what is called h0 of all steps: here the outputs, which no step reads
    outputs = wide.v.new_zeros(wide.q.shape[1], H * V)
    inputs = {"x": wide.q, "k": wide.k, "v": wide.v, "beta": wide.beta}
    if wide.log_decay is not None:
        inputs["log_decay"] = wide.log_decay
    o, last = scan_steps(
        step,
        {"h0": outputs, "S": wide.S0.flatten(1)},
        {name: tensor.flatten(2) for name, tensor in inputs.items()},
        operands._make([None] * len(operands)),
        lengths,
        options.reverse,
    )
    return o.unflatten(2, (H, V)).to(operands.q.dtype), last["S"].unflatten(1, (H, K, V))
