"""The Elman recurrence as users call it: checks once, then hands over to a backend."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from eigenrnn.nonlinearities import nonlinearity as look_up
from eigenrnn.ops.backend import Call
from eigenrnn.ops.dispatch import choose
from eigenrnn.ops.elman import cpu, gpu, loop, reference
from eigenrnn.ops.inputs import check_flags, check_tensors, check_types
from eigenrnn.ops.norm_zoneout import (
    Norm,
    Zoneout,
    check_option_types,
    check_options,
    in_float32,
    options_of,
)
from eigenrnn.ops.steps import check_batch_sizes
from eigenrnn.tracing import autocasts

__all__ = ["BACKENDS", "elman"]

BACKENDS = {b.name: b for b in (cpu.BACKEND, gpu.BACKEND, loop.BACKEND, reference.BACKEND)}
"""The implementations by name, the preferred first."""

_DTYPES = frozenset[torch.dtype]().union(*(backend.dtypes for backend in BACKENDS.values()))


def elman(  # noqa: PLR0913, the tensors and how to run over them
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

    With U the mapped inputs need not be written to memory. With V the states are mapped to outputs
    :math:`y_t = h_t V^\top + d`, and neither they nor their gradient need be read from memory for
    it. With LayerNorm the argument of f is normalised over the units, and with zoneout some units
    keep their state:

    .. math:: \tilde h_t = f\bigl(g \odot \mathrm{LN}(x_t + h_{t-1} W^\top) + c\bigr), \qquad
        h_t = m_t \odot h_{t-1} + (1 - m_t) \odot \tilde h_t

    Under autocast it runs in float32: rounding the state at every step would add up over T. The
    outputs are then what autocast makes of them.

    Args:
        x: The inputs: mapped to the hidden size, or as they are if U maps them.
        W: The recurrent matrix.
        h0: The state before the first step; zero by default.
        bias: The bias inside the nonlinearity; only modReLU owns one.
        U: The map of the inputs.
        c: The bias beside U.
        V: The map of the states to outputs, which are then given in place of the states.
        d: The bias beside V.
        nonlinearity: The name of f: modrelu, tanh, relu, elu, leaky_relu or identity.
        layer_norm: The gain g and the shift c; no LayerNorm by default. Its epsilon is 1e-5.
        zoneout: The mask m of the units that keep their state, as in training, or the rate of such
            units, as in evaluation: then m is that number.
        batch_sizes: How many sequences run at each step, in descending order of length, as in
            `torch.nn.utils.rnn.PackedSequence`; all of them by default. States past the end of a
            sequence are zero, and outputs d.
        reverse: Whether to run from each sequence's last step to its first.
        last_only: Whether the other states may be forgotten, as where no gradient is asked for; a
            backend that can gives none of them then.
        backend: Which implementation to use; the fastest possible by default.
    Shape:
        x: :math:`(T, B, N)`, or :math:`(T, B, M)` with U; real, or complex with modReLU or
        identity; any strides.
        W: :math:`(N, N)`, the type of x.
        h0: :math:`(B, N)`, the type of x.
        bias: :math:`(N,)`, real.
        U: :math:`(N, M)`, the type of W; c: :math:`(N,)`, likewise.
        V: :math:`(K, N)`, the type of W; d: :math:`(K,)`, likewise.
        layer_norm: :math:`(N,)` both, the type of x, which is real.
        zoneout: :math:`(T, B, N)`, bool, or a number in [0, 1).
    Returns:
        The states of all steps, :math:`(T, B, N)`, or the outputs, :math:`(T, B, K)`, and the last
        state of each sequence, :math:`(B, N)`: that of its first step in reverse.
    Raises:
        ValueError: If a shape, the number of steps, the nonlinearity, the rate or the backend is
            wrong, or outputs are asked for along with `last_only`.
        TypeError: If the types of the tensors differ.
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
    options = options_of(layer_norm, zoneout)
    check_options(options, x, W)
    if V is not None and last_only:
        raise ValueError("expected either last_only or V, of whose outputs all come, got both")
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
                layer_norm=in_float32(layer_norm),
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
    inside = V is not None and chosen.reads(V)
    if inside:
        options |= {"V": V, "d": d}
    if (last_only or inside) and chosen.forgets and not torch.is_grad_enabled():
        options |= {"last_only": True}
    h, last = chosen.run(x, W, h0, bias, U, c, nonlinearity, batch_sizes, reverse, **options)
    return h if V is None or inside else F.linear(h, V, d), last


def _float32(tensor: Tensor | None) -> Tensor | None:
    if tensor is None or tensor.dtype not in (torch.float16, torch.bfloat16):
        return tensor
    return tensor.float()


def _check_shapes(  # noqa: PLR0913, all that a call is given
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
        raise ValueError(f"expected no bias, as {nonlinearity} owns none: add it to x")
    if W.is_complex() and not f.takes_complex:
        raise ValueError(f"expected modrelu or identity for complex states, got {nonlinearity!r}")
