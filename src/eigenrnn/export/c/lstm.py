"""The LSTM in C."""

from eigenrnn.export.c.source import Array, Layer, Source, loop
from eigenrnn.layers.lstm import LSTMDirection, ProjectedLSTMDirection

__all__ = ["lstm"]

_GATES = {"in": "input", "f": "forget", "g": "cell", "o": "output"}


def lstm(direction: LSTMDirection, name: str, source: Source) -> Layer:
    """Write the step of an `LSTM`, with projected states or without."""
    N = direction.hidden_size
    P = direction.output_size
    h = f"state->{name}_h"
    cell = f"state->{name}_cell"
    source.helpers.add("sigmoid")
    # with a projection, W acts on the P numbers of h
    is_projected = isinstance(direction, ProjectedLSTMDirection)
    W = direction.projected_hh if is_projected else direction.weight_hh
    bias = direction.input_bias
    body: list[str] = []
    for k, (z, gate) in enumerate(_GATES.items()):
        rows = slice(k * N, (k + 1) * N)
        of_gate = None if bias is None else bias[rows]
        U = direction.weight_ih[rows]
        input_map = source.matrix(f"{name}_U_{gate}", U, f"U of {gate}, ({N}, {U.shape[1]})")
        recurrent = source.matrix(f"{name}_W_{gate}", W[rows], f"W of {gate}, ({N}, {P})")
        body += [
            source.start(z, N, (f"{name}_b_{gate}", of_gate), f"the bias of {gate}, ({N})"),
            input_map.add_to(z, "x"),
            recurrent.add_to(z, h),
        ]
    body.append(
        loop(
            N,
            f"{cell}[i] = sigmoid(f[i]) * {cell}[i] + sigmoid(in[i]) * tanhf(g[i]);",
            f"o[i] = sigmoid(o[i]) * tanhf({cell}[i]);",
        )
    )
    if is_projected:
        R = source.matrix(f"{name}_R", direction.weight_hr, f"R, the projection, ({P}, {N})")
        body += [loop(P, f"{h}[i] = 0.0F;"), R.add_to(h, "o"), loop(P, f"y[i] = {h}[i];")]
    else:
        body.append(loop(N, f"{h}[i] = o[i];", "y[i] = o[i];"))
    h0 = direction.h0
    return Layer(
        formula="an LSTM with the gates in (input), f (forget), g (cell) and o (output)",
        states=[
            Array(f"{name}_h", P, "h", None if h0 is None else h0[:P]),
            Array(f"{name}_cell", N, "c, the cell", None if h0 is None else h0[P:]),
        ],
        locals=dict.fromkeys(("in", "f", "g", "o"), N),
        body="\n".join(body),
        output_size=P,
    )
