"""The gated recurrence in C."""

from eigenrnn.export.c.source import Array, Layer, Matrix, Source, layer_norm, loop, one_of
from eigenrnn.layers.gru import GATES, GatedDirection

__all__ = ["gru"]


def gru(direction: GatedDirection, name: str, source: Source) -> Layer:
    """Write the step of a `GRU` in one of its forms."""
    N = direction.hidden_size
    h = f"state->{name}_h"
    source.helpers.add("sigmoid")
    gate_bias = direction.gate_bias
    biases = (None, None, direction.input_bias)
    if gate_bias is not None:
        biases = (*gate_bias.chunk(2), direction.input_bias)
    body: list[str] = []
    W_of: dict[str, Matrix] = {}
    normed: dict[str, str] = {}
    norm = direction.norm_zoneout
    parts = zip(
        GATES,
        ("r", "u", "c"),
        direction.weight_ih.chunk(3),
        direction.matrices(),
        biases,
        strict=True,
    )
    for k, (gate, z, U, W, bias) in enumerate(parts):
        body.append(source.start(z, N, (f"{name}_b_{gate}", bias), f"the bias of {gate}, ({N})"))
        input_map = source.matrix(f"{name}_U_{gate}", U, f"U of {gate}, ({N}, {U.shape[1]})")
        body.append(input_map.add_to(z, "x"))
        W_of[z] = source.matrix(f"{name}_W_{gate}", W, f"W of {gate}, ({N}, {N})")
        if norm is not None and norm.gain is not None and norm.shift is not None:
            gain = norm.gain.chunk(3)[k]
            shift = norm.shift.chunk(3)[k]
            normed[z] = layer_norm(source, z, f"{name}_{gate}", gain, shift)
    body += [W_of["r"].add_to("r", h), W_of["u"].add_to("u", h)]
    if normed:
        body += [normed["r"], normed["u"]]
    body.append(loop(N, "r[i] = sigmoid(r[i]);", "u[i] = sigmoid(u[i]);"))
    if direction.reset_after:
        bias = (f"{name}_b_recurrent", direction.recurrent_bias)
        body += [
            source.start("q", N, bias, f"the bias that the reset gate multiplies, ({N})"),
            W_of["c"].add_to("q", h),
            loop(N, "c[i] += r[i] * q[i];"),
        ]
    else:
        body += [
            loop(N, f"r[i] *= {h}[i];", "q[i] = 0.0F;"),
            W_of["c"].add_to("q", "r"),
            loop(N, "c[i] += q[i];"),
        ]
    bias_of_f = None
    if direction.bias is not None:
        bias_of_f = f"{source.vector(f'{name}_b', direction.bias, f'the bias inside f, ({N})')}[i]"
    f = one_of(source, direction.nonlinearity, "c[i]", bias_of_f)
    kept, taken = ("u[i]", "(1.0F - u[i])")
    if not direction.update_keeps:
        kept, taken = taken, kept
    new = f"{kept} * {h}[i] + {taken} * {f}"
    if norm is not None and norm.zoneout:
        new = source.zoneout(norm.zoneout, f"{h}[i]", f"({new})")
    if normed:
        body.append(normed["c"])
    body.append(loop(N, f"{h}[i] = {new};", f"y[i] = {h}[i];"))
    return Layer(
        formula="a gated recurrence with reset r, update u and candidate c",
        states=[Array(f"{name}_h", N, "h", direction.h0)],
        locals=[Array(z, N) for z in ("r", "u", "c", "q")],
        body="\n".join(body),
        output_size=N,
    )
