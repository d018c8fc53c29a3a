"""A network as one C file and a header."""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from eigenrnn import __version__
from eigenrnn.export.c.source import HELPERS, Array, Layer, Matrix, Source, helper, loop
from eigenrnn.export.c.stack import parts_of_stack
from eigenrnn.export.c.templates import TEMPLATES, directions_of
from eigenrnn.export.preparation import (
    Scaling,
    check_no_scaling,
    checked_scaling,
    with_our_layers,
)
from eigenrnn.files import replacing
from eigenrnn.fitted_network import FittedNetwork, fitted_network
from eigenrnn.layers.stacked import Stacked
from eigenrnn.models import LanguageModel, ResidualStack, SequenceModel

__all__ = ["to_c"]


def to_c(
    model: Any,
    path: str | Path,
    *,
    name: str | None = None,
    scaling: Scaling | None = None,
    weights: Literal["float", "int8", "int16"] = "float",
) -> list[Path]:
    r"""Write a layer or a model as one self-contained C99 file and its header.

    A fitted classifier or regressor takes its scaling, its treatment of missing values, the names
    of its classes and the units of its targets with it: ``net_step`` then takes unscaled inputs in
    double precision, NaN where one is missing, ``net_probabilities`` gives its `predict_proba`,
    and ``net_class(k)`` is the name of a class.

    The file needs ``math.h`` alone, allocates nothing, has no global state, and compiles as C++
    too. Its functions begin with `name`: ``net_reset(&state)`` begins a sequence,
    ``net_step(&state, input, output)`` processes one time step, and ``net_probabilities(output,
    p)`` is the softmax of the outputs of a head, if there are several. A network that reads
    symbols takes the number of a symbol as its input. The comment at the top has the sizes, and
    the multiply-adds of a step.

    With ``weights="int8"`` or ``"int16"`` each row of a matrix is rounded to multiples of its own
    scale :math:`s_i = \max_j |A_{ij}| / 127`, or 32,767 in place of 127. States, biases and sums
    stay single-precision floats.

    Args:
        model: An `RNN`, `GRU`, `LSTM`, `LRU`, `MinGRU`, `DeltaNet` or a layer named after a paper
            that is one of them, torch's own layers, a `ResidualStack`, or a `SequenceModel` or
            `LanguageModel` of such layers, in evaluation mode; or a fitted `SequenceClassifier` or
            `SequenceRegressor`.
        path: The file, which ends in ``.c``; the header has the same name and ends in ``.h``.
        name: The beginning of all names in C; that of the file by default.
        scaling: The mean and the standard deviation of each input. ``net_step`` then begins with
            (input - mean) / deviation. That of an estimator is its own.
        weights: The numbers of the matrices.
    Returns:
        Both files.
    Raises:
        ValueError: If the model cannot be written in C, is in training mode or has weights that
            are not finite, the scaling does not fit, the name is no identifier of C, or the
            folder does not exist. No file is written then.
    Example:
        >>> model = SequenceModel(ScoRNN(2, 8), 3, "last").eval()
        >>> [file.name for file in to_c(model, "net.c")]
        ['net.c', 'net.h']
    """
    path = Path(path)
    if path.suffix != ".c" or not path.absolute().parent.is_dir():
        raise ValueError(f"expected a file .c in a folder that exists, got {path}")
    if path.stem == "math":
        raise ValueError(f"expected another name than that of math.h, got {path}")
    if not re.fullmatch(r"[A-Za-z0-9_. +-]+", path.name):  # it is in an #include
        raise ValueError(f"expected a file name of ASCII letters, digits and _.+-, got {path}")
    name = path.stem if name is None else name
    # the names of layers, such as layer0, are taken
    if not (name.isascii() and name.isidentifier()) or re.match(r"layer\d", name):
        raise ValueError(
            f"expected a name that is an identifier of C and no layer's, got {name!r}: rename the "
            "file, or in Python set name="
        )
    around: FittedNetwork | None = None
    if not isinstance(model, nn.Module):
        around = fitted_network(model)
        model = around.model
        check_no_scaling(scaling)
    if weights not in ("float", "int8", "int16"):
        raise ValueError(f"expected weights in float, int8 or int16, got {weights!r}")
    if model.training:
        raise ValueError("expected a model in evaluation mode, got one in training: model.eval()")
    _check_forward(model)
    with torch.no_grad():
        network = _network(with_our_layers(model), name, scaling, Source(weights), around)
    header = path.with_suffix(".h")
    with replacing(path) as new_path:
        new_path.write_text(_source_file(network, path), encoding="ascii")
        with replacing(header) as new_header:
            new_header.write_text(_header(network), encoding="ascii")
    return [path, header]


def _check_forward(model: nn.Module) -> None:
    """Check that the model and its layers compute what our classes do.

    Raises:
        ValueError: If one has a `forward` of its own.
    """
    known = (Stacked, nn.RNNBase, ResidualStack, SequenceModel, LanguageModel)
    for module in model.modules():
        kind = type(module)
        if isinstance(module, known) and kind.forward.__module__.split(".")[0] not in _OURS:
            raise ValueError(f"expected the forward of our classes, got that of {kind.__name__}")


_OURS = ("eigenrnn", "torch")  # the packages whose `forward` the templates write


@dataclass(frozen=True)
class _Network:
    """A network in C.

    Args:
        name: The beginning of its names.
        source: Its constants and helpers.
        layers: Its layers.
        argument: The second argument of a step.
        locals: The sizes of the local arrays of a step, by name.
        reset: The statements that begin a sequence.
        step: The statements of a step.
        input_size: The number of inputs, or of symbols.
        output_size: The number of outputs.
        has_classes: Whether the outputs may be those of classes.
        is_scaled: Whether a step scales its inputs.
        missing: What the comment says of inputs that are NaN.
        classes: The names of the classes, if they are known.
        own_states: The members of the state that belong to no layer.
    """

    name: str
    source: Source
    layers: list[Layer]
    argument: str
    locals: dict[str, int]
    reset: str
    step: str
    input_size: int
    output_size: int
    has_classes: bool
    is_scaled: bool
    missing: str
    classes: Sequence[str] = ()
    own_states: Sequence[Array] = ()

    @property
    def states(self) -> list[Array]:
        """The members of the state."""
        states = list(self.own_states)
        for layer in self.layers:
            states += layer.states
        return states


def _network(
    model: Any,
    name: str,
    scaling: Scaling | None,
    source: Source,
    around: FittedNetwork | None,
) -> _Network:
    """Write the parts of a network.

    Raises:
        ValueError: If a part cannot be written in C.
    """
    local_arrays: dict[str, int] = {}
    step: list[str] = []
    layers: list[Any] = [model.layer if isinstance(model, SequenceModel) else model]
    argument = "const float *input"
    x = "input"
    if isinstance(model, LanguageModel):
        if scaling is not None:
            raise ValueError(f"expected no scaling for a model of symbols, got {scaling}")
        layers = list(model.layers)
        argument = "int symbol"
    head, bias = _head(model, source)
    written = _layers(layers, source)
    input_size = layers[0].input_size
    if isinstance(model, LanguageModel):
        embedding = head
        if embedding is None or model.head is not model.embedding:
            comment = f"the embedding, {tuple(model.embedding.shape)}"
            embedding = source.matrix("embedding", model.embedding, comment, is_multiplied=False)
        source.helpers.add(embedding.row_helper)
        step.append(embedding.copy_row("x", "symbol"))
        local_arrays["x"] = embedding.columns
        input_size = embedding.rows
        x = "x"
    elif around is not None:
        argument = "const double *input"
        local_arrays["x"] = input_size
        x = "x"
        input_size = len(around.mean)
        step.append(_preparation(around, source))
    elif scaling is not None:
        mean, deviation = checked_scaling(scaling, input_size)
        source.vector("mean", mean, "the mean of each input, subtracted first")
        source.vector("deviation", deviation, "the standard deviation of each input")
        step.append(loop(input_size, "x[i] = (input[i] - mean[i]) / deviation[i];"))
        local_arrays["x"] = input_size
        x = "x"
    for k, layer in enumerate(written):
        y = "output"
        if head is not None or layer is not written[-1]:
            y = f"y{k}"
            local_arrays[y] = layer.output_size
        state = "state, " if layer.states else ""
        step.append(f"{layer.name}({state}{x}, {y});")
        x = y
    reset: list[str] = []
    own_states: list[Array] = []
    missing = "makes the state NaN until the next reset"
    if around is not None and around.missing != "error":
        missing = "is missing, and the mean of its channel stands for it"
    if around is not None and around.missing == "forward":
        own_states.append(Array("last_input", input_size, "the last known inputs, scaled"))
        reset.append(loop(input_size, "state->last_input[i] = 0.0F;"))
        missing = "is missing, and the last known value of its channel stands for it"
    for layer in written:
        for state in layer.states:
            first = (f"{state.name}0", state.initial)
            comment = f"the first state, ({state.size})"
            reset.append(source.start(f"state->{state.name}", state.size, first, comment))
    output_size = written[-1].output_size
    if head is not None:
        output_size = head.rows
        step.append(
            source.start("output", output_size, ("head_bias", bias), "the bias of the head")
        )
        step.append(head.add_to("output", x))
    has_classes = head is not None and output_size > 1
    classes: Sequence[str] = ()
    if around is not None and around.classes is not None:
        classes = around.classes
    if around is not None and around.targets is not None:
        has_classes = False
        step.append(_in_units(*around.targets, source))
    return _Network(
        name=name,
        source=source,
        layers=written,
        argument=argument,
        locals=local_arrays,
        reset="\n".join(reset),
        step="\n".join(step),
        input_size=input_size,
        output_size=output_size,
        has_classes=has_classes,
        is_scaled=scaling is not None or around is not None,
        missing=missing,
        classes=classes,
        own_states=own_states,
    )


def _preparation(around: FittedNetwork, source: Source) -> str:
    """Return the statements that scale the inputs, and fill in what is missing."""
    M = len(around.mean)
    source.doubles("mean", around.mean, "the mean of each input, subtracted first")
    source.doubles("deviation", around.scale, "the standard deviation of each input")
    scaled = "(float)((input[i] - mean[i]) / deviation[i])"
    if around.missing == "error":
        return loop(M, f"x[i] = {scaled};")
    mask = f"x[{M} + i] = isnan(input[i]) ? 1.0F : 0.0F;"
    if around.missing == "mask":
        return loop(M, f"x[i] = isnan(input[i]) ? 0.0F : {scaled};", mask)
    return loop(
        M,
        f"if (!isnan(input[i])) state->last_input[i] = {scaled};",
        "x[i] = state->last_input[i];",
        mask,
    )


def _in_units(mean: Tensor, deviation: Tensor, source: Source) -> str:
    """Return the statement that gives a regressor's outputs their units."""
    source.vector("target_mean", mean, "the mean of each target")
    source.vector("target_deviation", deviation, "the standard deviation of each target")
    return loop(len(mean), "output[i] = output[i] * target_deviation[i] + target_mean[i];")


def _layers(layers: list[Any], source: Source) -> list[Layer]:
    """Write recurrent layers and residual stacks."""
    written: list[Layer] = []
    for layer in layers:
        if isinstance(layer, ResidualStack):
            written += parts_of_stack(layer, source)
            continue
        for direction in directions_of(layer):
            name = f"layer{len(written)}"
            written.append(TEMPLATES[type(direction)](direction, name, source).named(name))
    return written


def _head(model: nn.Module, source: Source) -> tuple[Matrix | None, Tensor | None]:
    """Write the matrix of a head; return it with the bias.

    Raises:
        ValueError: If the head is no linear map.
    """
    if isinstance(model, SequenceModel):
        if not isinstance(cast("object", model.head), nn.Linear):
            raise ValueError(f"expected a head that is a Linear, got {type(model.head).__name__}")
        weight = model.head.weight
        bias: Tensor | None = model.head.bias
    elif isinstance(model, LanguageModel):
        weight = model.head
        bias = model.head_bias
    else:
        return None, None
    return source.matrix("head", weight, f"the head, {tuple(weight.shape)}"), bias


def _header(network: _Network) -> str:
    name = network.name
    guard = f"EIGENRNN_{name}_H"  # _MATH_H is that of math.h, and Net is not net
    members = "\n".join(
        f"    float {state.name}[{state.size}]; /* {state.comment} */" for state in network.states
    )
    takes = f"input[{network.input_size}], which does not overlap output"
    inputs = f"{name}_inputs = {network.input_size}"
    if network.is_scaled:
        takes += ", unscaled"
    if network.argument == "int symbol":
        takes = f"0 <= symbol < {network.input_size}; any other reads past the constants"
        inputs = f"{name}_symbols = {network.input_size}"
    outputs = f"{name}_outputs = {network.output_size}"
    text = f"""\
/* Written by eigenrnn {__version__}, not to be edited; see {name}.c. */
#ifndef {guard}
#define {guard}

#ifdef __cplusplus
extern "C" {{
#endif

enum {{ {inputs}, {outputs} }};

/* One for each sequence that runs side by side. */
typedef struct {{
{members}
}} {name}_state;

/* Begin a sequence; call it before the first step. */
void {name}_reset({name}_state *state);

/* Process one time step: {takes}; output[{network.output_size}].
   An input that is NaN {network.missing}. */
void {name}_step({name}_state *state, {network.argument}, float *output);
"""
    if network.has_classes:
        text += f"""
/* For classes: p = softmax(output), {network.output_size} numbers each; p may be output. */
void {name}_probabilities(const float *output, float *p);
"""
    if network.classes:
        text += f"""
/* The name of a class, 0 <= number < {network.output_size}. */
const char *{name}_class(int number);
"""
    return (
        text
        + """
#ifdef __cplusplus
}
#endif

#endif
"""
    )


def _source_file(network: _Network, path: Path) -> str:
    name = network.name
    source = network.source
    state_size = sum(state.size for state in network.states)
    stack = sum(network.locals.values())
    stack += max(layer.stack for layer in network.layers)
    formulas = "\n".join(
        f" *   {layer.name}: {layer.formula}; {layer.output_size} outputs"
        for layer in network.layers
    )
    kind = "symbols" if network.argument == "int symbol" else "inputs"
    sizes = (
        f"{network.input_size} {kind}, {network.output_size} outputs, {source.products} "
        "multiply-adds a step"
    )
    bytes_of = (
        f"{source.bytes} bytes of constants, {4 * state_size} bytes of state, {4 * stack} bytes "
        "of local arrays"
    )
    passed = network.argument.split()[-1].lstrip("*")
    parts = [
        f"""\
/* {path.name}: a recurrent network, written by eigenrnn {__version__}, not to be edited.
 *
{formulas}
 *
 * {sizes}.
 * {bytes_of}.
 *
 *   {name}_state state;
 *   {name}_reset(&state);
 *   for each time step:
 *       {name}_step(&state, {passed}, output);
 *
 * A matrix lies as eight rows at a time side by side, column by column, and then the other rows.
 * Nothing is allocated and nothing is global: several sequences need several states.
 */
#include <math.h>

#include "{path.with_suffix(".h").name}"
""",
        *(f"{constant}\n" for constant in source.constants),
        *(helper(name) for name in HELPERS if name in source.helpers),
    ]
    functions = [each for layer in network.layers for each in (*layer.inner, layer)]
    for layer in functions:
        # the maps and norms of a stack have no state
        state = f"{name}_state *state, " if layer.states else ""
        head = f"static void {layer.name}({state}const float *x, float *y)"
        parts.append(f"/* {layer.formula} */\n" + _function(head, layer.locals, layer.body))
    head = f"void {name}_reset({name}_state *state)"
    parts.append(_function(head, {}, network.reset))
    head = f"void {name}_step({name}_state *state, {network.argument}, float *output)"
    parts.append(_function(head, network.locals, network.step))
    if network.has_classes:
        K = network.output_size
        body = "\n".join(
            [
                "float largest = output[0];",
                "float sum = 0.0F;",
                loop(K, "largest = output[i] > largest ? output[i] : largest;"),
                loop(K, "p[i] = expf(output[i] - largest);", "sum += p[i];"),
                loop(K, "p[i] /= sum;"),
            ]
        )
        parts.append(
            _function(f"void {name}_probabilities(const float *output, float *p)", {}, body)
        )
    if network.classes:
        names = ", ".join(map(_c_text, network.classes))
        body = f"static const char *const names[] = {{{names}}};\nreturn names[number];"
        parts.append(_function(f"const char *{name}_class(int number)", {}, body))
    return "\n".join(parts)


def _function(head: str, local_arrays: dict[str, int], body: str) -> str:
    declared = "".join(f"    float {name}[{size}];\n" for name, size in local_arrays.items())
    return f"{head}\n{{\n{declared}{textwrap.indent(body, '    ')}\n}}\n"


def _c_text(text: str) -> str:
    """Write a text as a constant of C; all but letters, digits and spaces by their octal codes."""
    characters: list[str] = []
    for byte in text.encode():
        character = f"\\{byte:03o}"
        if byte < 128 and (chr(byte).isalnum() or chr(byte) in " -_."):
            character = chr(byte)
        characters.append(character)
    return f'"{"".join(characters)}"'
