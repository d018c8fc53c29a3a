"""The public Elman recurrence: checks the arguments and calls a backend."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.nonlinearities import nonlinearity as look_up
from eigenrnn.ops.arguments import check_batch_sizes, check_flags, check_tensors, check_types
from eigenrnn.ops.dispatch import Call, choose
from eigenrnn.ops.elman import cpu, gpu, loop, reference
from eigenrnn.ops.norm_zoneout import (
    Norm,
    Zoneout,
    backend_options,
    check_option_types,
    check_options,
    norm_to_float32,
)
from eigenrnn.tracing import autocasts

__all__ = ["BACKENDS", "elman"]

BACKENDS = {b.name: b for b in (cpu.BACKEND, gpu.BACKEND, loop.BACKEND, reference.BACKEND)}
"""The backends by name, in order of preference."""

_DTYPES = frozenset[torch.dtype]().union(*(backend.dtypes for backend in BACKENDS.values()))


def elman(  # noqa: PLR0913, the tensors and the options
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

    Under autocast the recurrence runs in float32, because rounding errors of the state would
    accumulate over T. The outputs have the dtype that autocast gives a linear layer.

    Args:
        x: The inputs; without U they are already mapped to the hidden size.
        W: The recurrent matrix.
        h0: The initial state; zero by default.
        bias: The bias of the nonlinearity; only modReLU has one.
        U: The weight of the input map.
        c: The bias of the input map.
        V: The weight of a head; its outputs are then returned instead of the states.
        d: The bias of the head.
        nonlinearity: The name of f: modrelu, tanh, relu, elu, leaky_relu or identity.
        layer_norm: The gain g and the shift c; no LayerNorm by default. Its epsilon is 1e-5.
        zoneout: In training, the mask m of the units that keep their state. In evaluation, the
            zoneout rate, which then takes the place of m.
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
    Returns:
        The states of all steps, :math:`(T, B, N)`, or the outputs, :math:`(T, B, K)`, and the last
        state of each sequence, :math:`(B, N)`. In reverse the last state is that of the first
        time step.
    Raises:
        ValueError: If a shape, the number of steps, the nonlinearity, the zoneout rate or the
            backend is wrong, or both V and `last_only` are given.
        TypeError: If the dtypes of the tensors differ.
    Source:
        Elman, Cognitive Science 14, 1990. https://doi.org/10.1207/s15516709cog1402_1
        (departures: any nonlinearity). LayerNorm: Ba, Kiros and Hinton, 2016, equation 4.
        https://arxiv.org/abs/1607.06450 (departures: none). Zoneout: Krueger et al., ICLR 2017.
        https://arxiv.org/abs/1606.01305 (departures: none).
    Example:
        >>> h, last = elman(torch.ones(5, 2, 3), torch.eye(3), nonlinearity="identity")
        >>> last[0]
        tensor([5., 5., 5.])
    """
    check_flags(reverse=reverse, last_only=last_only)
    check_tensors(x, W, h0=h0, bias=bias, U=U, c=c, V=V, d=d)
    _check_shapes(x, W, h0, bias, U, c, V, d)
    options = backend_options(layer_norm, zoneout)
    check_options(options, x, W)
    if V is not None and last_only:
        raise ValueError("expected either last_only or V, which returns all outputs, got both")
    if autocasts(x.device.type):
        with torch.autocast(x.device.type, enabled=False):
            x, W, h0, bias, U, c = (_float32(v) for v in (x, W, h0, bias, U, c))  # type: ignore[assignment]
            h, last = elman(
                x,
                W,
                h0,
                bias,
                U=U,
                c=c,
                nonlinearity=nonlinearity,
                layer_norm=norm_to_float32(layer_norm),
                zoneout=zoneout,
                batch_sizes=batch_sizes,
                reverse=reverse,
                last_only=last_only,
                backend=backend,
            )
        return h if V is None else F.linear(h, V, d), last
    if h0 is None:
        h0 = W.new_zeros(x.shape[1], W.shape[0])
    check_types(_DTYPES, x, W, h0=h0, bias=bias, U=U, c=c, V=V, d=d)
    check_option_types(options, W)
    _check_nonlinearity(nonlinearity, W, bias)
    if batch_sizes is not None:
        check_batch_sizes(batch_sizes, *x.shape[:2])
    others = W, h0, bias, U, c, V, d, *(layer_norm or ())
    state_size = 2 * len(W) if W.is_complex() else len(W)
    call = Call.of(x, nonlinearity, *others, state_size=state_size, options=options)
    chosen = choose(BACKENDS, call, backend)
    fused = V is not None and chosen.fuses_head(V)
    if fused:
        options |= {"V": V, "d": d}
    if (last_only or fused) and chosen.supports_last_only and not torch.is_grad_enabled():
        options |= {"last_only": True}
    h, last = chosen.run(x, W, h0, bias, U, c, nonlinearity, batch_sizes, reverse, **options)
    return h if V is None or fused else F.linear(h, V, d), last


def _float32(tensor: Tensor | None) -> Tensor | None:
    if tensor is None or tensor.dtype not in (torch.float16, torch.bfloat16):
        return tensor
    return tensor.float()


def _check_shapes(  # noqa: PLR0913, all tensors of a call
    x: Tensor,
    W: Tensor,
    h0: Tensor | None,
    bias: Tensor | None,
    U: Tensor | None,
    c: Tensor | None,
    V: Tensor | None,
    d: Tensor | None,
) -> None:
    if x.dim() != 3 or x.shape[0] < 1:
        raise ValueError(f"expected x of shape (T, B, N) with T >= 1, got {tuple(x.shape)}")
    for name, one, other, bias_of in (("c", c, "U", U), ("d", d, "V", V)):
        if one is not None and bias_of is None:
            raise ValueError(f"expected {name} to go with {other}, got {name} alone")
    (_, B, M), N = x.shape, W.shape[-1] if U is not None and W.dim() else x.shape[2]
    K = V.shape[0] if V is not None and V.dim() else 1
    shapes: dict[str, tuple[Tensor | None, tuple[int, ...]]] = {
        "W": (W, (N, N)),
        "h0": (h0, (B, N)),
        "bias": (bias, (N,)),
        "U": (U, (N, M)),
        "c": (c, (N,)),
        "V": (V, (K, N)),
        "d": (d, (K,)),
    }
    for name, (tensor, shape) in shapes.items():
        if tensor is not None and tensor.shape != shape:
            raise ValueError(f"expected {name} of shape {shape}, got {tuple(tensor.shape)}")


def _check_nonlinearity(nonlinearity: str, W: Tensor, bias: Tensor | None) -> None:
    f = look_up(nonlinearity)
    if bias is not None and not f.has_bias:
        raise ValueError(f"expected no bias, as {nonlinearity} has none: add it to x")
    if W.is_complex() and not f.takes_complex:
        raise ValueError(f"expected modrelu or identity for complex states, got {nonlinearity!r}")
