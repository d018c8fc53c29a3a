"""The Elman recurrence in C."""

import torch
from torch import Tensor

from eigenrnn.export.c.source import Array, Layer, Source, layer_norm, loop, one_of
from eigenrnn.layers.rnn import RNNDirection

__all__ = ["elman", "formula"]


def elman(direction: RNNDirection, name: str, source: Source) -> Layer:
    """Write the step of an `RNN`; complex states are real parts followed by imaginary ones."""
    leak = direction.leak
    S = direction.state_size
    N = direction.hidden_size
    h = f"state->{name}_h"
    bias = None
    if direction.bias is not None:
        bias = source.vector(f"{name}_b", direction.bias, f"the bias inside f, ({N})")
    input_map = source.matrix(
        f"{name}_U", direction.weight_ih, f"U, {tuple(direction.weight_ih.shape)}"
    )
    recurrent = source.matrix(f"{name}_W", _real(direction.matrices()[0]), f"W, ({S}, {S})")
    body = [
        source.start("z", S, (f"{name}_c", direction.input_bias), f"c, ({S})"),
        input_map.add_to("z", "x"),
    ]
    f_of_z = _f(direction, source, "z[i]", bias)
    outputs = loop(direction.output_size, f"y[i] = {h}[i];")
    update = f"{h}[i] = {f_of_z};"
    fed_back = h
    norm = direction.norm_zoneout
    if norm is not None and norm.zoneout:
        update = f"{h}[i] = {source.zoneout(norm.zoneout, f'{h}[i]', f_of_z)};"
    if leak is not None:
        alpha = source.vector(f"{name}_leak", leak.alpha().expand(N), f"the leak, ({N})")
        update = f"{h}[i] = (1.0F - {alpha}[i]) * {h}[i] + {alpha}[i] * {f_of_z};"
        if leak.options.state == "current":
            update = f"{h}[i] = (1.0F - {alpha}[i]) * {h}[i] + {alpha}[i] * z[i];"
            outputs = loop(N, f"y[i] = {_f(direction, source, f'{h}[i]', bias)};")
            fed_back = "y"
            body.append(outputs)
    body.append(recurrent.add_to("z", fed_back))
    if norm is not None and norm.gain is not None and norm.shift is not None:
        body.append(layer_norm(source, "z", name, norm.gain, norm.shift))
    if S > N and bias is not None:
        body.append(_complex_modrelu(N, bias))
    body += [loop(S, update), outputs]
    comment = "h: real parts, then imaginary ones" if S > N else "h"
    return Layer(
        formula=f"an Elman recurrence, {formula(direction)}",
        states=[Array(f"{name}_h", S, comment, direction.h0)],
        locals=[Array("z", S)],
        body="\n".join(body),
        output_size=direction.output_size,
    )


def formula(direction: RNNDirection) -> str:
    """Return what a step computes, in words of the constants."""
    inside = "" if direction.bias is None else ", b"
    c = "" if direction.input_bias is None else " + c"
    f = direction.nonlinearity
    leak = direction.leak
    if leak is None:
        return f"h = {f}(U x{c} + W h{inside})"
    if leak.options.state == "current":
        return f"h = (1 - leak) h + leak (U x{c} + W y), y = {f}(h{inside})"
    return f"h = (1 - leak) h + leak {f}(U x{c} + W h{inside})"


def _f(direction: RNNDirection, source: Source, z: str, bias: str | None) -> str:
    """Return f of a number; of complex ones, f has acted on z before."""
    if direction.state_size > direction.hidden_size:
        return z
    of_unit = None if bias is None else f"{bias}[i]"
    return one_of(source, direction.nonlinearity, z, of_unit)


def _real(
    W: Tensor,  # (N, N)
) -> Tensor:  # (N, N), or (2N, 2N)
    """Return a real matrix; that of a complex one acts on real parts, then imaginary ones."""
    if not W.is_complex():
        return W
    return torch.cat([torch.cat([W.real, -W.imag], 1), torch.cat([W.imag, W.real], 1)])


def _complex_modrelu(N: int, bias: str) -> str:
    """Return the statements that rectify the moduli of complex z and keep their phases."""
    return loop(
        N,
        f"const float modulus = sqrtf(z[i] * z[i] + z[i + {N}] * z[i + {N}]);",
        f"const float rectified = modulus + {bias}[i];",
        "const float factor = rectified > 0.0F && modulus > 0.0F ? rectified / modulus : 0.0F;",
        "z[i] *= factor;",
        f"z[i + {N}] *= factor;",
    )
