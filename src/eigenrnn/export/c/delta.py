"""The delta rule in C."""

from torch import Tensor

from eigenrnn.export.c.source import Array, Layer, Source, loop
from eigenrnn.layers.delta import DeltaNetDirection

__all__ = ["delta"]

_NORM = 1e-5  # the epsilon of the norm of outputs


def delta(direction: DeltaNetDirection, name: str, source: Source) -> Layer:
    """Write the step of a `DeltaNet`, with its convolution, decays and output gate."""
    options = direction.options
    N = direction.hidden_size
    H = options.heads
    R = options.reflections
    K = direction.head_size
    mixed, strengths, rates, gates = direction.weight_ih.split(direction.widths)
    width = len(mixed)
    states = [Array(f"{name}_S", N * K, f"the matrices of {H} heads, ({H}, {K}, {K})")]
    local_arrays = {"u": width, "beta": H * R}
    body = [
        loop(width, "u[i] = 0.0F;"),
        source.matrix(f"{name}_qkv", mixed, f"queries, keys, values, {tuple(mixed.shape)}").add_to(
            "u", "x"
        ),
        loop(H * R, "beta[i] = 0.0F;"),
        source.matrix(f"{name}_b", strengths, f"strengths, {tuple(strengths.shape)}").add_to(
            "beta", "x"
        ),
    ]
    first = direction.h0
    if first is not None:
        states[0] = Array(states[0].name, N * K, states[0].comment, first[: N * K])
    if options.convolution > 1:
        past = (options.convolution - 1) * width
        # of the c past inputs, the next step reads all but the oldest
        initial = None if first is None else first[N * K + width :]
        states.append(Array(f"{name}_past", past, "the last inputs of the convolution", initial))
    if direction.convolution_weight is not None:
        body += _convolution(direction.convolution_weight, name, source)
        source.helpers.add("silu")
        body.append(loop(width, "u[i] = silu(u[i]);"))
    low, high = options.eigenvalues
    source.helpers |= {"sigmoid", "unit", "reflect", "read_out"}
    first_beta, range_of_beta = source.number(1 - high), source.number(high - low)
    body.append(loop(H * R, f"beta[i] = {first_beta} + {range_of_beta} * sigmoid(beta[i]);"))
    of_head = [
        f"float *q = u + i * {K};",
        f"float *S = state->{name}_S + i * {K * K};",
        f"unit(q, {K}, {source.number(K**-0.5)});",
    ]
    if direction.A_log is not None and direction.dt_bias is not None:
        source.helpers.add("softplus")
        local_arrays["rate"] = H
        factor = source.vector(f"{name}_A", direction.A_log.exp(), f"the rates of decay, ({H})")
        bias = (f"{name}_dt_bias", direction.dt_bias)
        body.append(source.start("rate", H, bias, f"the bias of the decays, ({H})"))
        comment = f"the decays, {tuple(rates.shape)}"
        body.append(source.matrix(f"{name}_a", rates, comment).add_to("rate", "x"))
        of_head += [
            f"const float decay = expf(-{factor}[i] * softplus(rate[i]));",
            f"for (int k = 0; k < {K * K}; k++)",
            "    S[k] *= decay;",
        ]
    source.products += 2 * N * K * R + N * K
    of_head += [
        f"for (int j = i * {R}; j < (i + 1) * {R}; j++) {{",
        f"    float *k = u + {N} + j * {K};",
        f"    unit(k, {K}, 1.0F);",
        f"    reflect(S, k, u + {N + R * N} + j * {K}, beta[j], {K});",
        "}",
        f"read_out(o + i * {K}, S, q, {K});",
    ]
    local_arrays["o"] = N
    body.append(loop(H, *of_head))
    if direction.norm_weight is not None:
        source.helpers |= {"rms_norm", "silu"}
        local_arrays["gate"] = N
        gain = source.vector(f"{name}_gain", direction.norm_weight, f"the gain of a head, ({K})")
        gate = source.matrix(f"{name}_g", gates, f"the output gate, {tuple(gates.shape)}")
        body += [
            loop(N, "gate[i] = 0.0F;"),
            gate.add_to("gate", "x"),
            loop(H, f"rms_norm(o + i * {K}, {gain}, {K}, {source.number(_NORM)});"),
            loop(N, "o[i] *= silu(gate[i]);"),
        ]
    output_map = source.matrix(
        f"{name}_W_out", direction.weight_out, f"the output map, ({N}, {N})"
    )
    bias = (f"{name}_b_out", direction.output_bias)
    body += [
        source.start("y", N, bias, f"the bias of outputs, ({N})"),
        output_map.add_to("y", "o"),
    ]
    return Layer(
        formula="the delta rule, S += beta k (v - S'k)', y = W S'q",
        states=states,
        locals=[Array(name, size) for name, size in local_arrays.items()],
        body="\n".join(body),
        output_size=N,
    )


def _convolution(weight: Tensor, name: str, source: Source) -> list[str]:
    """Return the statements of the causal convolution of each projection over time."""
    width, c = weight.shape
    taps = source.vector(f"{name}_taps", weight.flatten(), f"the convolution, ({width}, {c})")
    past = f"state->{name}_past"
    if c == 1:
        return [loop(width, f"u[i] *= {taps}[i];")]
    return [
        loop(
            width,
            "const float now = u[i];",
            f"u[i] *= {taps}[i * {c} + {c - 1}];",
            f"for (int j = 0; j < {c - 1}; j++)",
            f"    u[i] += {taps}[i * {c} + j] * {past}[j * {width} + i];",
            f"for (int j = 0; j < {c - 2}; j++)",
            f"    {past}[j * {width} + i] = {past}[(j + 1) * {width} + i];",
            f"{past}[{(c - 2) * width} + i] = now;",
        )
    ]
