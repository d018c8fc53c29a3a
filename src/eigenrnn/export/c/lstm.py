"""The LSTM in C."""

from eigenrnn.export.c.source import Array, Layer, Source, loop
from eigenrnn.layers.lstm import LSTMDirection

__all__ = ["lstm"]

_GATES = {"in": "input", "f": "forget", "g": "cell", "o": "output"}


def lstm(direction: LSTMDirection, name: str, source: Source) -> Layer:
    """Write the step of an `LSTM`."""
    N = direction.hidden_size
    h = f"state->{name}_h"
    cell = f"state->{name}_cell"
    source.helpers.add("sigmoid")
    W = direction.weight_hh
    bias = direction.input_bias
    body: list[str] = []
    for k, (z, gate) in enumerate(_GATES.items()):
        rows = slice(k * N, (k + 1) * N)
        of_gate = None if bias is None else bias[rows]
        U = direction.weight_ih[rows]
        input_map = source.matrix(f"{name}_U_{gate}", U, f"U of {gate}, ({N}, {U.shape[1]})")
        recurrent = source.matrix(f"{name}_W_{gate}", W[rows], f"W of {gate}, ({N}, {N})")
        body += [
            source.start(z, N, (f"{name}_b_{gate}", of_gate), f"the bias of {gate}, ({N})"),
            input_map.add_to(z, "x"),
            recurrent.add_to(z, h),
        ]
    body.append(
        loop(
            N,
            f"{cell}[i] = sigmoid(f[i]) * {cell}[i] + sigmoid(in[i]) * tanhf(g[i]);",
            f"{h}[i] = sigmoid(o[i]) * tanhf({cell}[i]);",
            f"y[i] = {h}[i];",
        )
    )
    h0 = direction.h0
    return Layer(
        formula="an LSTM with the gates in (input), f (forget), g (cell) and o (output)",
        states=[
            Array(f"{name}_h", N, "h", None if h0 is None else h0[:N]),
            Array(f"{name}_cell", N, "c, the cell", None if h0 is None else h0[N:]),
        ],
        locals=[Array(z, N) for z in _GATES],
        body="\n".join(body),
        output_size=N,
    )
