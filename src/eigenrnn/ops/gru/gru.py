"""The public gated recurrence: checks the arguments and calls a backend."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from eigenrnn.nonlinearities import nonlinearity as look_up
from eigenrnn.ops.arguments import (
    check_flags,
    features_of,
    map_inputs,
    with_resets,
)
from eigenrnn.ops.dispatch import REAL, Backend, Reference
from eigenrnn.ops.entry import Entry
from eigenrnn.ops.exporting import export_steps, onnx_activation, onnx_operator
from eigenrnn.ops.gru.cpu import GRUCPU, gru_cpu
from eigenrnn.ops.gru.loop import GRULoop
from eigenrnn.ops.gru.reference import GRU, GRUOperands, GRUOptions, form_features
from eigenrnn.ops.gru.triton import GRUTriton
from eigenrnn.ops.norm_zoneout import Norm, Zoneout, check_norm_zoneout
from eigenrnn.ops.operators import PlannedCall
from eigenrnn.ops.precision import products_of_float32
from eigenrnn.ops.time_steps import without_padding
from eigenrnn.ops.torch_rnn import TorchBackend

__all__ = ["BACKENDS", "gru"]


BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        GRUCPU(),
        GRUTriton(),
        TorchBackend(GRU),
        GRULoop(),
        Reference(GRU, REAL),
    )
}
"""The backends by name, in order of preference."""


def gru(
    x: Tensor,  # (T, B, 3 N) or (T, B, M)
    W: Tensor,  # (3 N, N)
    h0: Tensor | None = None,  # (B, N)
    bias: Tensor | None = None,  # (N,)
    recurrent_bias: Tensor | None = None,  # (N,)
    *,
    U: Tensor | None = None,  # (3 N, M)
    c: Tensor | None = None,  # (3 N,)
    nonlinearity: str = "tanh",
    reset_after: bool = True,
    update_keeps: bool = True,
    layer_norm: Norm | None = None,  # (3 N,), (3 N,)
    zoneout: Zoneout | None = None,  # (T, B, N)
    resets: Tensor | None = None,  # (T, B)
    batch_sizes: Sequence[int] | None = None,
    reverse: bool = False,
    last_only: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:  # (T, B, N), (B, N)
    r"""Evaluate a gated recurrence over a batch of sequences.

    .. math::
        r_t &= \sigma(x^r_t + h_{t-1} W_r^\top), \qquad
        u_t = \sigma(x^u_t + h_{t-1} W_u^\top) \\
        c_t &= f(x^c_t + r_t \odot (h_{t-1} W_c^\top + b)) \quad\text{or}\quad
        c_t = f(x^c_t + (r_t \odot h_{t-1}) W_c^\top) \\
        h_t &= u_t \odot h_{t-1} + (1 - u_t) \odot c_t \quad\text{or}\quad
        h_t = (1 - u_t) \odot h_{t-1} + u_t \odot c_t

    On the left are the candidate and the update of `torch.nn.GRU`. LayerNorm normalises the
    argument of each nonlinearity over its own N units, so it follows the reset in both forms. With
    zoneout some units of :math:`h_t` keep their value in :math:`h_{t-1}`. Under autocast W
    and the state that goes on stay in float32, because rounding errors would accumulate over T: x
    is rounded to the dtype of autocast, all states are returned and saved in it, and the last ones
    stay in float32. On CPUs with AMX, what is multiplied is rounded, see the page on precision.

    Args:
        x: The inputs. Without U they are already mapped to the reset gate, the update gate and the
            candidate; with U the mapped inputs need not be stored.
        W: The recurrent matrices of the reset gate, the update gate and the candidate, stacked.
        h0: The initial state; zero by default.
        bias: The bias of f; only modReLU has one.
        recurrent_bias: The bias b; only with `reset_after`.
        U: The input maps of the reset gate, the update gate and the candidate, stacked.
        c: The bias of the input map.
        nonlinearity: The name of f: modrelu, tanh, relu, elu, leaky_relu or identity.
        reset_after: Whether the reset gate acts after the candidate's matrix, as in
            `torch.nn.GRU`, or before it.
        update_keeps: Whether an update gate of one keeps the state, as in `torch.nn.GRU`, or
            replaces it by the candidate.
        layer_norm: The gains and the shifts of the LayerNorms of the reset gate, the update gate
            and the candidate; none by default. Their epsilon is 1e-5.
        zoneout: In training, the mask of the units that keep their state. In evaluation, the
            zoneout rate: the fraction of the previous state that every unit keeps.
        resets: Before which steps the state of a sequence becomes zero; none by default.
        batch_sizes: The number of sequences at each step, sorted by descending length, as in
            `torch.nn.utils.rnn.PackedSequence`; the whole batch by default. States past the end
            of a sequence are zero.
        reverse: Whether to run from each sequence's last step to its first.
        last_only: Whether only the last states are needed. Without gradients, a backend that
            supports it then stores and returns no others.
        backend: The name of the backend; the fastest that supports the call by default.
    Shape:
        x: :math:`(T, B, 3 N)`, or :math:`(T, B, M)` with U; real, any strides.
        W: :math:`(3 N, N)`, the dtype of x.
        h0: :math:`(B, N)`, the dtype of x.
        bias: :math:`(N,)`, the dtype of x.
        recurrent_bias: :math:`(N,)`, the dtype of x.
        U: :math:`(3 N, M)`, c: :math:`(3 N,)`, the dtype of x.
        layer_norm: :math:`(3 N,)` both, the dtype of x.
        zoneout: :math:`(T, B, N)`, bool, or a number in [0, 1).
        resets: :math:`(T, B)`, bool.
    Returns:
        The states of all steps, :math:`(T, B, N)`, and the last state of each sequence,
        :math:`(B, N)`. In reverse the last state is that of the first time step.
    Raises:
        ValueError: If a shape, the number of steps, the nonlinearity, a bias, the zoneout rate or
            the backend is wrong.
        TypeError: If a tensor is complex, or the dtypes of the tensors differ.
    Source:
        Cho et al., EMNLP 2014, equations 5 to 8. https://arxiv.org/abs/1406.1078 (departures: any
        nonlinearity; the reset after the matrix and the sign of the update by choice). LayerNorm:
        Ba, Kiros and Hinton, 2016, equation 4. https://arxiv.org/abs/1607.06450 (departures: one
        norm of each gate's sum, where their GRU normalises its two terms apart). Zoneout: Krueger
        et al., ICLR 2017. https://arxiv.org/abs/1606.01305 (departures: none).
    Example:
        >>> h, last = gru(torch.zeros(5, 2, 3), torch.zeros(3, 1), torch.ones(2, 1))
        >>> h[:, 0, 0]
        tensor([0.5000, 0.2500, 0.1250, 0.0625, 0.0312])
    """
    operands = GRUOperands(
        x=x, W=W, h0=cast("Tensor", h0), bias=bias, recurrent_bias=recurrent_bias, U=U, c=c
    )
    options = GRUOptions(
        nonlinearity=nonlinearity,
        reset_after=reset_after,
        update_keeps=update_keeps,
        batch_sizes=batch_sizes,
        reverse=reverse,
        last_only=last_only,
        products=products_of_float32(W),
    )
    planned: PlannedCall | None = None
    if layer_norm is None and zoneout is None and resets is None and backend is None:
        planned = gru_cpu.plan(operands, options)
    if planned is None:
        check_flags(reverse=reverse, last_only=last_only)
        check_flags(reset_after=reset_after, update_keeps=update_keeps)
        GRU.check_tensors(operands)
        GRU.check_shapes(operands)
        gain, shift, mask, rate = check_norm_zoneout(layer_norm, zoneout, x, W)
        operands = operands._replace(gain=gain, shift=shift, mask=mask)
        operands = with_resets(operands, resets)
        options = options._replace(rate=rate)
    return _ENTRY(operands, options, backend, planned)


def _check(operands: GRUOperands, options: GRUOptions) -> GRUOperands:
    f = look_up(options.nonlinearity)
    if operands.bias is not None and not f.has_bias:
        raise ValueError(f"expected no bias, as {f.name} has none: add it to x")
    if operands.recurrent_bias is not None and not options.reset_after:
        raise ValueError("expected no recurrent_bias with the reset before W: add it to x")
    return operands


def _features(operands: GRUOperands, options: GRUOptions) -> list[str]:
    if operands.gain is None:  # then a mask rules out no backend, see `_keep_by_gate`
        operands = operands._replace(mask=None)
    form = form_features(options.reset_after, options.update_keeps)
    return [*features_of(operands, options), *form]


def _keep_by_gate(backend: Backend, operands: GRUOperands, options: GRUOptions) -> GRUOperands:
    """Write a mask as inputs for a backend without zoneout.

    Without LayerNorm, huge inputs of the update gate keep the state.
    """
    if operands.mask is None or "zoneout" in backend.features:
        return operands
    # x may have 16 bits beside weights in float32
    x = without_padding(operands.x.to(operands.W.dtype), options.batch_sizes)
    x_r, x_u, x_c = map_inputs(x, operands.U, operands.c).chunk(3, dim=2)
    # not infinity: backend `torch` multiplies mapped inputs by an identity, whose zeros times
    # infinity are NaN
    keeping = torch.finfo(x_u.dtype).max
    if not options.update_keeps:  # there 1 - u multiplies the state
        keeping = -keeping
    x_u = x_u.masked_fill(operands.mask, keeping)
    return operands._replace(x=torch.cat([x_r, x_u, x_c], dim=2), U=None, c=None, mask=None)


def _export(
    operands: GRUOperands, options: GRUOptions, lengths: Tensor | None
) -> tuple[Tensor, ...]:  # (T, B, N), (B, N)
    """Record the recurrence as ONNX's GRU where it computes it, else as a scan of steps.

    ONNX orders the gates as update, reset, candidate. Its update gate keeps the state where it is
    one.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.
    """
    activation = onnx_activation(operands, options)
    if activation is None:
        return export_steps(GRU, operands, options, lengths)
    W = operands.W
    zero = W.new_zeros(len(W))
    input_bias = zero
    if operands.c is not None:
        input_bias = operands.c
    product_bias = zero
    if operands.recurrent_bias is not None:  # of the candidate alone
        product_bias = torch.cat([zero[: 2 * W.shape[1]], operands.recurrent_bias])

    def reorder(rows: Tensor) -> Tensor:
        r, u, c = rows.chunk(3)
        if not options.update_keeps:  # 1 - sigmoid(a) = sigmoid(-a)
            u = -u
        return torch.cat([u, r, c])

    biases = torch.cat([reorder(input_bias), reorder(product_bias)])
    weights = reorder(cast("Tensor", operands.U)), reorder(W), biases
    return onnx_operator(
        "GRU",
        operands.x,
        weights,
        lengths,
        operands.h0,
        options.reverse,
        activations=["Sigmoid", activation],
        linear_before_reset=int(options.reset_after),
    )


_ENTRY = Entry(
    GRU,
    BACKENDS,
    check=_check,
    export=_export,
    operator=gru_cpu,
    features=_features,
    fit=_keep_by_gate,
)
