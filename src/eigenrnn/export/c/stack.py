"""The parts of a residual stack in C."""

from typing import Any, cast

import torch
from torch import nn
from torch.nn.utils.parametrize import type_before_parametrizations

from eigenrnn.export.c.source import Array, Layer, Source, layer_norm, loop
from eigenrnn.export.c.templates import TEMPLATES, directions_of
from eigenrnn.residual_stack import ResidualStack

__all__ = ["parts_of_stack"]


def parts_of_stack(stack: ResidualStack, source: Source) -> list[Layer]:
    """Write the linear map before a stack, its blocks, and the norm after them."""
    written: list[Layer] = []
    if isinstance(stack.encoder, nn.Linear):
        step = _linear(stack.encoder, "encoder_map", "y", "x", source)
        width = stack.encoder.out_features
        written.append(Layer("a linear map", [], [], "\n".join(step), width, name="encoder"))
    for k, block in enumerate(stack.blocks):
        written.append(_block(block, f"block{k}", source))
    if not isinstance(stack.norm, nn.Identity):
        width = stack.width
        step = [loop(width, "y[i] = x[i];"), *_norm(stack.norm, "last", "y", width, source)]
        written.append(Layer("a norm", [], [], "\n".join(step), width, name="norm"))
    return written


def _block(block: Any, name: str, source: Source) -> Layer:
    """Write a norm, a recurrent layer and a mixer, with the residual connection."""
    width: int = block.width
    body = [loop(width, "u[i] = x[i];"), *_norm(block.norm, name, "u", width, source)]
    local_arrays = {"u": width}
    inner: list[Layer] = []
    h = "u"
    for k, direction in enumerate(directions_of(block.layer)):
        layer_name = f"{name}_layer{k}"
        layer = TEMPLATES[type_before_parametrizations(direction)](direction, layer_name, source)
        inner.append(layer.named(layer_name))
        local_arrays[f"h{k}"] = layer.output_size
        body.append(f"{layer_name}(state, {h}, h{k});")
        h = f"h{k}"
    branch = h
    if isinstance(block.projection, nn.Linear):
        local_arrays["p"] = width
        body += _linear(block.projection, f"{name}_projection", "p", h, source)
        branch = "p"
    if block.gate is not None:
        source.helpers |= {"gelu", "sigmoid"}
        local_arrays["g"] = 2 * width
        body.append(loop(width, f"{branch}[i] = gelu({branch}[i]);"))
        body += _linear(block.gate, f"{name}_gate", "g", branch, source)
        body.append(loop(width, f"y[i] = x[i] + g[i] * sigmoid(g[i + {width}]);"))
    else:
        body.append(loop(width, f"y[i] = x[i] + {branch}[i];"))
    if block.mlp is not None:
        source.helpers.add("gelu")
        norm, first, _, second = cast("tuple[nn.Module, nn.Linear, Any, nn.Linear]", block.mlp)
        wide = first.out_features
        local_arrays["m"] = wide
        body += [
            loop(width, "u[i] = y[i];"),
            *_norm(norm, f"{name}_mlp", "u", width, source),
            *_linear(first, f"{name}_in", "m", "u", source),
            loop(wide, "m[i] = gelu(m[i]);"),
            *_linear(second, f"{name}_out", "u", "m", source),
            loop(width, "y[i] += u[i];"),
        ]
    return Layer(
        formula="a residual block, y = x + mixer(layer(norm(x)))",
        states=[state for layer in inner for state in layer.states],
        locals=[Array(name, size) for name, size in local_arrays.items()],
        body="\n".join(body),
        output_size=width,
        name=name,
        inner=inner,
    )


def _linear(linear: nn.Linear, name: str, y: str, x: str, source: Source) -> list[str]:
    weight = linear.weight
    matrix = source.matrix(name, weight, f"a linear map, {tuple(weight.shape)}")
    bias = (f"{name}_bias", linear.bias)
    return [source.start(y, len(weight), bias, f"its bias, ({len(weight)})"), matrix.add_to(y, x)]


def _norm(norm: nn.Module, name: str, u: str, width: int, source: Source) -> list[str]:
    """Return the statements that normalise u."""
    if isinstance(norm, nn.LayerNorm):
        return [layer_norm(source, u, name, norm.weight, norm.bias, norm.eps)]
    if isinstance(norm, nn.RMSNorm):
        source.helpers.add("rms_norm")
        gain = source.vector(f"{name}_gain", norm.weight, f"the gain of RMSNorm, ({width})")
        # torch's default is the spacing of the numbers at one
        epsilon = torch.finfo(torch.float32).eps if norm.eps is None else norm.eps
        return [f"rms_norm({u}, {gain}, {width}, {source.number(epsilon)});"]
    return []
