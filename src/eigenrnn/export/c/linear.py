"""The linear recurrences in C."""

import torch

from eigenrnn.export.c.source import Array, Layer, Source, loop
from eigenrnn.layers.linear import LRUDirection, MinGRUDirection

__all__ = ["lru", "min_gru"]


def lru(direction: LRUDirection, name: str, source: Source) -> Layer:
    """Write the step of an `LRU`; complex states are real parts followed by imaginary ones."""
    N = direction.hidden_size
    S = direction.state_size
    h = f"state->{name}_h"
    decay = direction.weight_hh.detach()
    B = direction.scaled_input.detach().flatten(0, 1)
    output_weights = direction.weight_out.detach()
    D = direction.weight_skip
    input_map = source.matrix(f"{name}_B", B, f"gamma B, ({S}, {B.shape[1]})")
    if S > N:
        # Re(C h) is a product of real numbers: Re(C) Re(h) - Im(C) Im(h)
        real, imaginary = output_weights.chunk(2, 1)
        output_weights = torch.cat([real, -imaginary], 1)
        re = source.vector(f"{name}_decay_re", decay.real, f"Re(lambda), ({N})")
        im = source.vector(f"{name}_decay_im", decay.imag, f"Im(lambda), ({N})")
        update = loop(
            N,
            f"const float re = {h}[i];",
            f"const float im = {h}[i + {N}];",
            f"{h}[i] = {re}[i] * re - {im}[i] * im + u[i];",
            f"{h}[i + {N}] = {re}[i] * im + {im}[i] * re + u[i + {N}];",
        )
    else:
        factor = source.vector(f"{name}_decay", decay, f"lambda, ({N})")
        update = loop(N, f"{h}[i] = {factor}[i] * {h}[i] + u[i];")
    output_map = source.matrix(f"{name}_C", output_weights, f"Re(C) and -Im(C), ({N}, {S})")
    skip = source.matrix(f"{name}_D", D, f"D, ({N}, {D.shape[1]})")
    body = [
        loop(S, "u[i] = 0.0F;"),
        input_map.add_to("u", "x"),
        update,
        source.start("y", N, (f"{name}_b", direction.output_bias), f"the bias of outputs, ({N})"),
        output_map.add_to("y", h),
        skip.add_to("y", "x"),
    ]
    return Layer(
        formula="a linear recurrence, h = lambda h + gamma B x, y = Re(C h) + D x + b",
        states=[Array(f"{name}_h", S, "h", direction.h0)],
        locals=[Array("u", S)],
        body="\n".join(body),
        output_size=N,
    )


def min_gru(direction: MinGRUDirection, name: str, source: Source) -> Layer:
    """Write the step of a `MinGRU`."""
    N = direction.hidden_size
    h = f"state->{name}_h"
    source.helpers |= {"sigmoid", "positive"}
    bias = direction.input_bias
    body: list[str] = []
    for k, (z, gate) in enumerate({"u": "update", "c": "candidate"}.items()):
        rows = slice(k * N, (k + 1) * N)
        of_gate = None if bias is None else bias[rows]
        U = direction.weight_ih[rows]
        input_map = source.matrix(f"{name}_U_{gate}", U, f"U of {gate}, ({N}, {U.shape[1]})")
        body.append(
            source.start(z, N, (f"{name}_b_{gate}", of_gate), f"the bias of {gate}, ({N})")
        )
        body.append(input_map.add_to(z, "x"))
    low, high = direction.decays
    decay = "sigmoid(-u[i])"
    if (low, high) != (0, 1):
        decay = f"{source.number(low)} + {source.number(high - low)} * {decay}"
    body.append(
        loop(
            N,
            f"const float decay = {decay};",
            f"{h}[i] = decay * {h}[i] + sigmoid(u[i]) * positive(c[i]);",
            f"y[i] = {h}[i];",
        )
    )
    return Layer(
        formula="a gated linear recurrence, h = (1 - u) h + u c, whose gate reads the input alone",
        states=[Array(f"{name}_h", N, "h", direction.h0)],
        locals=[Array("u", N), Array("c", N)],
        body="\n".join(body),
        output_size=N,
    )
