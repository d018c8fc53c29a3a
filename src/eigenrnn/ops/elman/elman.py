"""The public Elman recurrence: checks the arguments and calls a backend."""

from collections.abc import Sequence
from typing import Literal, cast

import torch
from torch import Tensor

from eigenrnn.nonlinearities import nonlinearity as look_up
from eigenrnn.ops.arguments import (
    Options,
    check_flags,
    with_resets,
)
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend, Reference
from eigenrnn.ops.elman.cpu import ElmanCPU, elman_cpu
from eigenrnn.ops.elman.loop import ElmanLoop
from eigenrnn.ops.elman.reference import ELMAN, ElmanOperands
from eigenrnn.ops.elman.triton import ElmanTriton
from eigenrnn.ops.entry import Entry
from eigenrnn.ops.exporting import export_steps, exported_operands, onnx_activation, onnx_operator
from eigenrnn.ops.norm_zoneout import (
    Norm,
    Zoneout,
    check_leak,
    check_norm_zoneout,
)
from eigenrnn.ops.operators import PlannedCall
from eigenrnn.ops.precision import products_of_float32
from eigenrnn.ops.torch_rnn import TorchBackend

__all__ = ["BACKENDS", "elman", "export_complex_elman"]


BACKENDS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        ElmanCPU(),
        ElmanTriton(),
        TorchBackend(ELMAN, frozenset({"tanh", "relu"})),
        ElmanLoop(),
        Reference(ELMAN, REAL | COMPLEX),
    )
}
"""The backends by name, in order of preference."""


def elman(
    x: Tensor,  # (T, B, N) or (T, B, M)
    W: Tensor,  # (N, N)
    h0: Tensor | None = None,  # (B, N)
    bias: Tensor | None = None,  # (N,)
    *,
    U: Tensor | None = None,  # (N, M)
    c: Tensor | None = None,  # (N,)
    V: Tensor | None = None,  # (K, N)
    d: Tensor | None = None,  # (K,)
    nonlinearity: str = "tanh",
    layer_norm: Norm | None = None,  # (N,), (N,)
    zoneout: Zoneout | None = None,  # (T, B, N)
    leak: Tensor | float | None = None,  # (N,) or (T, B, N)
    state: Literal["rate", "current"] = "rate",
    resets: Tensor | None = None,  # (T, B)
    batch_sizes: Sequence[int] | None = None,
    reverse: bool = False,
    last_only: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:  # (T, B, N) or (T, B, K), (B, N)
    r"""Evaluate the Elman recurrence over a batch of sequences.

    .. math:: h_t = f(x_t + h_{t-1} W^\top) \quad\text{or}\quad
        h_t = f(x_t U^\top + c + h_{t-1} W^\top), \qquad t = 1, \dots, T

    With U the recurrence maps the inputs itself and need not store the result. With V it returns
    the outputs :math:`y_t = h_t V^\top + d`; a backend may compute them without reading the states
    from memory again. LayerNorm normalises the argument of f over the units, and zoneout lets some
    units keep their state:

    .. math:: \tilde h_t = f\bigl(g \odot \mathrm{LN}(x_t + h_{t-1} W^\top) + c\bigr), \qquad
        h_t = m_t \odot h_{t-1} + (1 - m_t) \odot \tilde h_t

    With a leak :math:`\alpha`, each unit moves only a part of the way to its new value. It mixes
    its values or, with ``state="current"``, the arguments v of f:

    .. math:: h_t = (1 - \alpha) \odot h_{t-1} + \alpha \odot \tilde h_t \quad\text{or}\quad
        v_t = (1 - \alpha) \odot v_{t-1} + \alpha \odot (x_t + f(v_{t-1}) W^\top), \quad
        h_t = f(v_t)

    Under autocast W and the state that goes on stay in float32, because rounding errors would
    accumulate over T. Unless the states are complex, x is rounded to the dtype of autocast, the
    states of all steps are returned and saved in it, and the last ones stay in float32. On CPUs
    with AMX, what is multiplied is rounded, see the page on precision.

    Args:
        x: The inputs; without U they are already mapped to the hidden size.
        W: The recurrent matrix.
        h0: The initial state, v with ``state="current"``; zero by default.
        bias: The bias of the nonlinearity; only modReLU has one.
        U: The weight of the input map.
        c: The bias of the input map.
        V: The weight of a head; its outputs are then returned instead of the states.
        d: The bias of the head.
        nonlinearity: The name of f: modrelu, tanh, relu, elu, leaky_relu, softplus, retanh or
            identity.
        layer_norm: The gain g and the shift c; no LayerNorm by default. Its epsilon is 1e-5.
        zoneout: In training, the mask m of the units that keep their state. In evaluation, the
            zoneout rate, which then takes the place of m.
        leak: The leak :math:`\alpha` in [0, 1], a number, one for each unit, or one for each unit
            of each sequence and step; none by default. The values of a tensor are not checked.
        state: Whether the state is the value of f, ``"rate"``, or its argument, ``"current"``.
        resets: Before which steps the state of a sequence becomes zero; none by default.
        batch_sizes: The number of sequences at each step, sorted by descending length, as in
            `torch.nn.utils.rnn.PackedSequence`; the whole batch by default. Past the end of a
            sequence states are zero and outputs are d.
        reverse: Whether to run from each sequence's last step to its first.
        last_only: Whether only the last states are needed. Without gradients, a backend that
            supports it then stores and returns no others.
        backend: The name of the backend; the fastest that supports the call by default.
    Shape:
        x: :math:`(T, B, N)`, or :math:`(T, B, M)` with U; real, or complex with modReLU or
        identity; any strides.
        W: :math:`(N, N)`, the dtype of x.
        h0: :math:`(B, N)`, the dtype of x.
        bias: :math:`(N,)`, real.
        U: :math:`(N, M)`, c: :math:`(N,)`, the dtype of W.
        V: :math:`(K, N)`, d: :math:`(K,)`, the dtype of W.
        layer_norm: :math:`(N,)` both, the dtype of x, which is real.
        zoneout: :math:`(T, B, N)`, bool, or a number in [0, 1).
        leak: :math:`(N,)` or :math:`(T, B, N)`, the dtype of x, which is real, or a number.
        resets: :math:`(T, B)`, bool.
    Returns:
        The states of all steps, :math:`(T, B, N)`, or the outputs, :math:`(T, B, K)`, and the last
        state of each sequence, :math:`(B, N)`. In reverse the last state is that of the first
        time step. With ``state="current"`` the states of all steps are f(v), and the last is v.
    Raises:
        ValueError: If a shape, the number of steps, the nonlinearity, the zoneout rate, the leak
            or the backend is wrong, both V and `last_only` are given, a leak comes with
            zoneout or complex states, or resets with ``state="current"``.
        TypeError: If the dtypes of the tensors differ.
    Source:
        Elman, Cognitive Science 14, 1990. https://doi.org/10.1207/s15516709cog1402_1
        (departures: any nonlinearity). LayerNorm: Ba, Kiros and Hinton, 2016, equation 4.
        https://arxiv.org/abs/1607.06450 (departures: none). Zoneout: Krueger et al., ICLR 2017.
        https://arxiv.org/abs/1606.01305 (departures: none). Leak: Song, Yang and Wang, PLoS
        Computational Biology 12, 2016, equation 5. https://doi.org/10.1371/journal.pcbi.1004792
        (departures: they mix the arguments, ``state="current"``).
    Example:
        >>> h, last = elman(torch.ones(5, 2, 3), torch.eye(3), nonlinearity="identity")
        >>> last[0]
        tensor([5., 5., 5.])
    """
    operands = ElmanOperands(x=x, W=W, h0=cast("Tensor", h0), bias=bias, U=U, c=c, V=V, d=d)
    options = Options(
        nonlinearity,
        batch_sizes,
        reverse,
        last_only or V is not None,  # nobody reads the states of all steps beside outputs
        products=products_of_float32(W),
    )
    planned: PlannedCall | None = None
    if (
        layer_norm is None
        and zoneout is None
        and leak is None
        and state == "rate"
        and resets is None
        and backend is None
        and (V is None or (not last_only and _fuses_head(V)))
    ):
        planned = elman_cpu.plan(operands, options)
    if planned is None:
        check_flags(reverse=reverse, last_only=last_only)
        ELMAN.check_tensors(operands)
        ELMAN.check_shapes(operands)
        gain, shift, mask, rate = check_norm_zoneout(layer_norm, zoneout, x, W)
        alpha = check_leak(leak, state, x, W)
        if alpha is not None and zoneout is not None:
            raise ValueError(
                "expected either a leak or zoneout, got both: the leak of a unit is the expected "
                "share of the new state, 1 - zoneout"
            )
        if resets is not None and state == "current":
            raise ValueError(
                "expected no resets with state='current', got some: cut the sequences"
            )
        if V is not None and last_only:
            raise ValueError("expected either last_only or V, which returns all outputs, got both")
        operands = operands._replace(gain=gain, shift=shift, mask=mask, leak=alpha)
        operands = with_resets(operands, resets)
        if state == "current":
            operands = ELMAN.with_initial_states(operands)
            operands = operands._replace(v0=operands.h0)
        options = options._replace(rate=rate)
    return _ENTRY(operands, options, backend, planned)


def _fuses_head(V: object) -> bool:
    return isinstance(V, Tensor) and V.dim() == 2 and BACKENDS["cpu"].fuses_head(V)


def _check(operands: ElmanOperands, options: Options) -> ElmanOperands:
    """Check the nonlinearity; return the operands with h0 = f(v0) of currents v0.

    Raises:
        ValueError: If f has no bias, or is not defined on complex states.
    """
    W = operands.W
    bias = operands.bias
    f = look_up(options.nonlinearity)
    if bias is not None and not f.has_bias:
        raise ValueError(f"expected no bias, as {f.name} has none: add it to x")
    if W.is_complex() and not f.supports_complex:
        raise ValueError(f"expected modrelu or identity for complex states, got {f.name!r}")
    if operands.v0 is None:
        return operands
    # here, so that autograd adds the path of h0 to the gradient of v0
    return operands._replace(h0=f.forward(operands.v0, bias))


def _export(
    operands: ElmanOperands, options: Options, lengths: Tensor | None
) -> tuple[Tensor, ...]:  # (T, B, N), (B, N)
    """Record the recurrence as ONNX's RNN where it computes it, else as a scan of steps.

    Args:
        operands: The tensors of the call.
        options: Its options, without batch sizes.
        lengths: The number of time steps of each sequence, in any order; all by default.
    """
    activation = onnx_activation(operands, options)
    if activation is None:
        return export_steps(ELMAN, operands, options, lengths)
    W = operands.W
    # ONNX's RNN has a second bias, of the recurrent product
    zero = W.new_zeros(len(W))
    biases = torch.cat([zero if operands.c is None else operands.c, zero])
    weights = cast("Tensor", operands.U), W, biases
    return onnx_operator(
        "RNN",
        operands.x,
        weights,
        lengths,
        operands.h0,
        options.reverse,
        activations=[activation],
    )


def export_complex_elman(
    operands: ElmanOperands, options: Options, lengths: Tensor | None
) -> tuple[Tensor, ...]:  # (T, B, 2 N), (B, 2 N)
    """Record a complex recurrence in real numbers, because ONNX has no complex ones.

    W is complex. All other operands are real: the real parts first, then the imaginary parts.
    """
    W = operands.W
    mask = operands.mask
    # (A + B i)(x + y i) = (A x - B y) + (B x + A y) i
    upper = torch.cat([W.real, -W.imag], dim=1)
    lower = torch.cat([W.imag, W.real], dim=1)
    operands = operands._replace(W=torch.cat([upper, lower]))
    if mask is not None:
        operands = operands._replace(mask=mask.repeat(1, 1, 2))
    if options.nonlinearity == "modrelu":
        options = options._replace(nonlinearity="modrelu_of_parts")
    return _export(exported_operands(operands), options, lengths)


_ENTRY = Entry(ELMAN, BACKENDS, check=_check, export=_export, operator=elman_cpu)
