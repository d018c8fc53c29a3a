"""A network as one C file and a header."""

import copy
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import type_before_parametrizations

from eigenrnn import __version__
from eigenrnn.constraints import Constraint
from eigenrnn.export.c.integers.network import (
    Head,
    IntegerNetwork,
    integer_network,
    padded_sequences,
)
from eigenrnn.export.c.integers.source import IntegerSource, UnsupportedError
from eigenrnn.export.c.source import HELPERS, Array, Layer, Matrix, Source, helper, loop
from eigenrnn.export.c.stack import parts_of_stack
from eigenrnn.export.c.templates import TEMPLATES, directions_of
from eigenrnn.export.preparation import (
    Scaling,
    check_no_hooks,
    check_no_scaling,
    checked_scaling,
    with_our_layers,
)
from eigenrnn.files import replacing
from eigenrnn.fitted_network import FittedNetwork, fitted_network
from eigenrnn.layers.stacked import Stacked
from eigenrnn.models import LanguageModel, ResidualStack, SequenceModel
from eigenrnn.torch_internals import has_own_forward

__all__ = ["to_c"]


def to_c(
    model: Any,
    path: str | Path,
    *,
    name: str | None = None,
    scaling: Scaling | None = None,
    weights: Literal["float", "int8", "int16"] = "float",
    calibration: Tensor | Sequence[Tensor] | None = None,
) -> dict[str, Any]:
    r"""Write a layer or a model as one self-contained C99 file and its header.

    A fitted classifier or regressor takes its scaling, its treatment of missing values, the names
    of its classes and the units of its targets with it: ``net_step`` then takes unscaled inputs in
    double precision, NaN where one is missing, ``net_probabilities`` gives its `predict_proba`,
    and ``net_class(k)`` is the name of a class.

    The file needs no library but ``math.h``, allocates nothing, has no global state, and compiles
    as C++ too. Its functions begin with `name`: ``net_reset(&state)`` begins a sequence,
    ``net_step(&state, input, output)`` processes one time step, and ``net_probabilities(output,
    p)`` is the softmax of the outputs of a head, if there are several. A network that reads
    symbols takes the number of a symbol as its input. The comment at the top has the sizes, and
    the multiply-adds of a step.

    With ``weights="int8"`` or ``"int16"`` each row of a matrix is rounded to multiples of its own
    scale :math:`s_i = \max_j |A_{ij}| / 127`, or 32,767 in place of 127. States, biases and sums
    stay single-precision floats.

    With `calibration` too, all arithmetic is that of whole numbers: states, inputs and outputs of
    16 bits, sums of 32, and ``net_step_int16(&state, input, output)`` beside the interface of
    floats. The largest entry of a row then has 16 bits, so that the scale of the others is finer,
    and the recurrent matrices are `rounded`. A network computes the same bits on every machine.
    States that are not bounded get the range that they have in the calibration, and a quarter
    more; what exceeds it saturates. The cell of an LSTM and the state of an LRU have 32 bits. What
    has no such form (complex states, LayerNorm, zoneout, a leak, an initial state of a tanh layer
    above one, residual stacks, `MinGRU` and the delta layers) is written as without `calibration`,
    and the file says why.

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
        calibration: Sequences as long as those that the network will process, as it gets them:
            a tensor, or several tensors of different lengths, as a list, an iterator or packed.
    Shape:
        calibration: :math:`(T, B, M)` or :math:`(T, M)`; :math:`(B, T, M)` for a layer with
            `batch_first` and for an estimator; of symbols :math:`(T, B)` or :math:`(T,)`. Each of
            several is without B.
    Returns:
        What was written: the ``arithmetic``, the ``multiply_adds`` of a step, the bytes of
        ``constants``, ``state`` and ``local_arrays``, and the share of the ``saturated`` steps of
        the calibration, by layer, for a network whose recurrent matrices are rounded.
    Raises:
        ValueError: If the model cannot be written in C, is in training mode or has weights that
            are not finite, the scaling or the calibration does not fit, the name is no identifier
            of C, or the folder does not exist. No file is written then.
    Example:
        >>> model = SequenceModel(ScoRNN(2, 8), 3, "last").eval()
        >>> to_c(model, "net.c", weights="int8", calibration=torch.randn(50, 2))["arithmetic"]
        'int8'
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
    if calibration is not None and weights == "float":
        raise ValueError("expected weights='int8' or 'int16' with calibration, got 'float'")
    if model.training:
        raise ValueError("expected a model in evaluation mode, got one in training: model.eval()")
    _check_forward(model)
    with torch.no_grad():
        network = _network(with_our_layers(model), name, scaling, weights, around, calibration)
    header = path.with_suffix(".h")
    with replacing(path) as new_path:
        new_path.write_text(_source_file(network, path), encoding="ascii")
        with replacing(header) as new_header:
            new_header.write_text(_header(network), encoding="ascii")
    integers = network.integers
    return {
        "eigenrnn": __version__,
        "files": [path.name, header.name],
        "arithmetic": "float" if integers is None else weights,
        "multiply_adds": network.source.products,
        "constants": network.source.bytes,
        "state": network.state_bytes,
        "local_arrays": network.local_bytes,
        "saturated": {} if integers is None else integers.saturated,
    }


def _check_forward(model: nn.Module) -> None:
    """Check that the model and its layers compute what our classes do.

    Raises:
        ValueError: If one has a `forward` of its own, or a hook on its calls.
    """
    known = (Stacked, nn.RNNBase, ResidualStack, SequenceModel, LanguageModel, nn.Linear)
    for name, module in model.named_modules():
        # the maps to weights are called here, whatever they do
        if isinstance(module, Constraint) or "parametrizations" in name.split("."):
            continue
        is_changed = isinstance(module, known) and has_own_forward(module)
        if is_changed or "forward" in vars(module):
            name_of_class = type(module).__name__
            raise ValueError(f"expected the forward of our classes, got that of {name_of_class}")
        check_no_hooks(name, module)


@dataclass(frozen=True)
class _Network:
    """A network in C.

    Args:
        name: The beginning of its names.
        source: Its constants and helpers.
        layers: Its layers.
        argument: The second argument of a step.
        locals: The local arrays of a step.
        reset: The statements that begin a sequence.
        step: The statements of a step.
        input_size: The number of inputs, or of symbols.
        output_size: The number of outputs.
        has_classes: Whether the outputs may be those of classes.
        is_scaled: Whether a step scales its inputs.
        missing: What the comment says of inputs that are NaN.
        classes: The names of the classes, if they are known.
        own_states: The members of the state that belong to no layer.
        integers: The network in whole numbers, if it is one.
        note: Why it is none, although there is a calibration.
    """

    name: str
    source: Source
    layers: list[Layer]
    argument: str
    locals: Sequence[Array]
    reset: str
    step: str
    input_size: int
    output_size: int
    has_classes: bool
    is_scaled: bool
    missing: str
    classes: Sequence[str] = ()
    own_states: Sequence[Array] = ()
    integers: IntegerNetwork | None = None
    note: str = ""

    @property
    def uses_integers(self) -> bool:
        """Whether the file has constants or states that are whole numbers."""
        return self.integers is not None or self.source.kind != "float"

    @property
    def integer_head(self) -> str:
        """The declaration of the step in whole numbers."""
        taken = "const int16_t *input"
        if self.argument == "int symbol":
            taken = self.argument
        return f"void {self.name}_step_int16({self.name}_state *state, {taken}, int16_t *output)"

    @property
    def state_bytes(self) -> int:
        """The bytes of the state."""
        return sum(state.bytes for state in self.states)

    @property
    def local_bytes(self) -> int:
        """The bytes of the local arrays of a step, and of the layer with the largest ones."""
        bytes_ = sum(array.bytes for array in self.locals)
        if self.integers is not None:
            bytes_ += sum(array.bytes for array in self.integers.locals)
        return bytes_ + max(layer.stack for layer in self.layers)

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
    weights: str,
    around: FittedNetwork | None,
    calibration: Tensor | Sequence[Tensor] | None,
) -> _Network:
    """Write the parts of a network.

    Raises:
        ValueError: If a part cannot be written in C.
    """
    if isinstance(model, LanguageModel) and scaling is not None:
        raise ValueError(f"expected no scaling for a model of symbols, got {scaling}")
    layers: list[Any] = [model.layer if isinstance(model, SequenceModel) else model]
    if isinstance(model, LanguageModel):
        layers = list(model.layers)
    for layer in layers:
        if not isinstance(layer, ResidualStack):
            directions_of(layer)  # refuses what has no template
    integers: IntegerNetwork | None = None
    note = ""
    source = Source(weights)
    if calibration is not None:
        integer_source = IntegerSource(bits=int(weights.removeprefix("int")))
        try:
            integers = _integers(model, scaling, integer_source, around, calibration)
            source = integer_source
        except UnsupportedError as reason:
            note = str(reason)
    inputs = _inputs(model, layers[0].input_size, scaling, around, source)
    linear = _head(model)
    if integers is not None:
        written = integers.layers
        arrays, lines = _whole_numbers(integers, source, layers[0].input_size, inputs.scaled, name)
    else:
        written, arrays, lines = _floats(model, layers, source, inputs.scaled)
    local_arrays = [*inputs.locals, *arrays]
    step = [*inputs.step, *lines]
    reset: list[str] = []
    own_states: list[Array] = []
    if around is not None and around.missing == "forward":
        own_states.append(Array("last_input", inputs.size, "the last known inputs, scaled"))
        reset.append(loop(inputs.size, "state->last_input[i] = 0.0F;"))
    for layer in written:
        reset += [source.first(state) for state in layer.states]
    output_size = written[-1].output_size
    if linear is not None:
        output_size = len(linear.weight)
    has_classes = linear is not None and output_size > 1
    classes: Sequence[str] = ()
    if around is not None and around.classes is not None:
        classes = around.classes
    if around is not None and around.targets is not None:
        has_classes = False
        mean, deviation = around.targets
        source.vector("target_mean", mean, "the mean of each target")
        source.vector("target_deviation", deviation, "the standard deviation of each target")
        in_units = "output[i] = output[i] * target_deviation[i] + target_mean[i];"
        step.append(loop(len(mean), in_units))
    return _Network(
        name=name,
        source=source,
        layers=written,
        argument=inputs.argument,
        locals=local_arrays,
        reset="\n".join(reset),
        step="\n".join(step),
        input_size=inputs.size,
        output_size=output_size,
        has_classes=has_classes,
        is_scaled=scaling is not None or around is not None,
        missing=_fate_of_missing(integers, around),
        classes=classes,
        own_states=own_states,
        integers=integers,
        note=note,
    )


@dataclass(frozen=True)
class _Inputs:
    """The argument of a step, and how it becomes the input of the first layer.

    Args:
        argument: The argument in C.
        size: The number of inputs or symbols.
        scaled: The name of the scaled inputs.
        locals: The local arrays that the scaling needs.
        step: The lines that scale.
    """

    argument: str
    size: int
    scaled: str = "input"
    locals: Sequence[Array] = ()
    step: Sequence[str] = ()


def _inputs(
    model: Any,
    input_size: int,
    scaling: Scaling | None,
    around: FittedNetwork | None,
    source: Source,
) -> _Inputs:
    """Write the scaling of the inputs of a network.

    Raises:
        ValueError: If the scaling does not fit.
    """
    if isinstance(model, LanguageModel):
        return _Inputs("int symbol", len(model.embedding))
    scaled = Array("x", input_size)
    if around is not None:
        lines = _preparation(around, source)
        return _Inputs("const double *input", len(around.mean), "x", [scaled], [lines])
    if scaling is None:
        return _Inputs("const float *input", input_size)
    mean, deviation = checked_scaling(scaling, input_size)
    source.vector("mean", mean, "the mean of each input, subtracted first")
    source.vector("deviation", deviation, "the standard deviation of each input")
    lines = loop(input_size, "x[i] = (input[i] - mean[i]) / deviation[i];")
    return _Inputs("const float *input", input_size, "x", [scaled], [lines])


def _fate_of_missing(integers: IntegerNetwork | None, around: FittedNetwork | None) -> str:
    """Say what the network does with an input that is NaN."""
    if around is not None and around.missing == "forward":
        return "is missing, and the last known value of its channel stands for it"
    if around is not None and around.missing == "mask":
        return "is missing, and the mean of its channel stands for it"
    if integers is not None:
        return "counts as 0"
    return "makes the state NaN until the next reset"


def _whole_numbers(
    integers: IntegerNetwork, source: Source, input_size: int, x: str, name: str
) -> tuple[list[Array], list[str]]:
    """Return the local arrays and the lines of a step around one in whole numbers.

    Args:
        integers: The network in whole numbers.
        source: Takes the helpers.
        input_size: The number of inputs.
        x: The name of the inputs as floats, if there are some.
        name: The name of the network.
    """
    K = integers.output_size
    arrays = [Array("integer_output", K, kind="int16")]
    lines: list[str] = []
    taken = "symbol"
    if integers.input_places is not None:
        taken = "integer_input"
        arrays.append(Array(taken, input_size, kind="int16"))
        source.helpers.add("quantised")
        unit = source.number(2.0**integers.input_places)
        lines.append(loop(input_size, f"integer_input[i] = quantised({x}[i] * {unit});"))
    lines.append(f"{name}_step_int16(state, {taken}, integer_output);")
    unit = source.number(2.0**-integers.output_places)
    lines.append(loop(K, f"output[i] = (float)integer_output[i] * {unit};"))
    return arrays, lines


def _floats(
    model: Any, layers: Sequence[Any], source: Source, x: str
) -> tuple[list[Layer], list[Array], list[str]]:
    """Write the layers and the head in floats; return them, local arrays and lines of a step.

    Args:
        model: The network.
        layers: Its layers.
        source: Takes the weights and the helpers.
        x: The name of the inputs.
    """
    arrays: list[Array] = []
    lines: list[str] = []
    linear = _head(model)
    head: Matrix | None = None
    if linear is not None:
        head = source.matrix("head", linear.weight, f"the head, {tuple(linear.weight.shape)}")
    written = _layers(layers, source)
    if isinstance(model, LanguageModel):
        embedding = head
        if embedding is None or model.head is not model.embedding:
            comment = f"the embedding, {tuple(model.embedding.shape)}"
            embedding = source.matrix("embedding", model.embedding, comment, is_multiplied=False)
        source.helpers.add(embedding.row_helper)
        lines.append(embedding.copy_row("x", "symbol"))
        arrays.append(Array("x", embedding.columns))
        x = "x"
    for k, layer in enumerate(written):
        y = "output"
        if head is not None or layer is not written[-1]:
            y = f"y{k}"
            arrays.append(Array(y, layer.output_size))
        state = "state, " if layer.states else ""
        lines.append(f"{layer.name}({state}{x}, {y});")
        x = y
    if linear is not None and head is not None:
        bias = ("head_bias", linear.bias)
        lines.append(source.start("output", head.rows, bias, "the bias of the head"))
        lines.append(head.add_to("output", x))
    return written, arrays, lines


def _integers(
    model: Any,
    scaling: Scaling | None,
    source: IntegerSource,
    around: FittedNetwork | None,
    calibration: Tensor | Sequence[Tensor],
) -> IntegerNetwork:
    """Write the layers and the head in whole numbers.

    Raises:
        ValueError: If the calibration does not fit.
        UnsupportedError: If a part has no form in whole numbers.
    """
    exact = copy.deepcopy(model).double().cpu()
    if isinstance(model, LanguageModel):
        symbols, is_valid = padded_sequences(calibration, None)
        layers = list(exact.layers)
        return integer_network(layers, _head(exact), exact.embedding, symbols, is_valid, source)
    layers = [exact.layer if isinstance(model, SequenceModel) else exact]
    width = layers[0].input_size
    if around is not None:
        width = len(around.mean)
    # X of an estimator has the sequences first
    batch_first = around is not None or getattr(layers[0], "batch_first", False)
    x, is_valid = padded_sequences(calibration, width, batch_first=batch_first)
    if around is not None:
        x = around.prepared(x)
    elif scaling is not None:
        mean, deviation = checked_scaling(scaling, width)
        x = (x - mean) / deviation
    return integer_network(layers, _head(exact), None, x.double(), is_valid, source)


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


def _layers(layers: Sequence[Any], source: Source) -> list[Layer]:
    """Write recurrent layers and residual stacks."""
    written: list[Layer] = []
    for layer in layers:
        if isinstance(layer, ResidualStack):
            written += parts_of_stack(layer, source)
            continue
        for direction in directions_of(layer):
            name = f"layer{len(written)}"
            write = TEMPLATES[type_before_parametrizations(direction)]
            written.append(write(direction, name, source).named(name))
    return written


def _head(model: nn.Module) -> Head | None:
    """Return the head of a model, if it has one.

    Raises:
        ValueError: If the head is no linear map.
    """
    if isinstance(model, SequenceModel):
        if not isinstance(cast("object", model.head), nn.Linear):
            raise ValueError(f"expected a head that is a Linear, got {type(model.head).__name__}")
        return Head(model.head.weight, model.head.bias)
    if isinstance(model, LanguageModel):
        return Head(model.head, model.head_bias)
    return None


def _header(network: _Network) -> str:
    name = network.name
    guard = f"EIGENRNN_{name}_H"  # _MATH_H is that of math.h, and Net is not net
    members = "\n".join(
        f"    {state.declaration} /* {state.comment} */" for state in network.states
    )
    takes = f"input[{network.input_size}], which does not overlap output"
    inputs = f"{name}_inputs = {network.input_size}"
    if network.is_scaled:
        takes += ", unscaled"
    if network.argument == "int symbol":
        takes = f"0 <= symbol < {network.input_size}; any other reads past the constants"
        inputs = f"{name}_symbols = {network.input_size}"
    outputs = f"{name}_outputs = {network.output_size}"
    includes = ""
    if network.uses_integers:
        includes = "\n#include <stdint.h>\n"
    text = f"""\
/* Written by eigenrnn {__version__}, not to be edited; see {name}.c. */
#ifndef {guard}
#define {guard}
{includes}
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
    integers = network.integers
    if integers is not None:
        places = f"{name}_output_places = {integers.output_places}"
        units = f"the outputs are in units of 2^-{name}_output_places"
        if integers.input_places is not None:
            places = f"{name}_input_places = {integers.input_places}, {places}"
            units = f"the inputs are in units of 2^-{name}_input_places, {units}"
        text += f"""
enum {{ {places} }};

/* The same step without floats, scaling and missing values: {units}. */
{network.integer_head};
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
        f"{source.bytes} bytes of constants, {network.state_bytes} bytes of state, "
        f"{network.local_bytes} bytes of local arrays"
    )
    includes = "#include <math.h>\n"
    if network.integers is not None:
        includes = "#include <limits.h>\n#include <math.h>\n#include <string.h>\n"
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
 * {_arithmetic(network)}
 * Nothing is allocated and nothing is global: several sequences need several states.
 */
{includes}
#include "{path.with_suffix(".h").name}"
""",
        *(f"{constant}\n" for constant in source.constants),
        *(helper(name) for name in HELPERS if name in source.helpers),
    ]
    functions = [each for layer in network.layers for each in (*layer.inner, layer)]
    for layer in functions:
        # the maps and norms of a stack have no state
        state = f"{name}_state *state, " if layer.states else ""
        head = f"static void {layer.name}({state}{layer.arguments})"
        parts.append(f"/* {layer.formula} */\n" + _function(head, layer.locals, layer.body))
    head = f"void {name}_reset({name}_state *state)"
    parts.append(_function(head, [], network.reset))
    integers = network.integers
    if integers is not None:
        parts.append(_function(network.integer_head, integers.locals, integers.step))
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
            _function(f"void {name}_probabilities(const float *output, float *p)", [], body)
        )
    if network.classes:
        names = ", ".join(map(_c_text, network.classes))
        body = f"static const char *const names[] = {{{names}}};\nreturn names[number];"
        parts.append(_function(f"const char *{name}_class(int number)", [], body))
    return "\n".join(parts)


def _arithmetic(network: _Network) -> str:
    """Return the sentences of the comment on the numbers."""
    integers = network.integers
    if integers is not None:
        shares = ", ".join(f"{name} {share:.2%}" for name, share in integers.saturated.items())
        return (
            f"All is computed in whole numbers: {network.name}_step_int16 has no floats. States\n"
            " * and outputs saturate; of the steps of the calibration they do so in:\n"
            f" * {shares}."
        )
    lines = "A matrix lies as eight rows at a time side by side, column by column, and then the"
    lines += " other rows."
    if network.note:
        lines += f"\n * Computed in floats: whole numbers have no form of {network.note}."
    return lines


def _function(head: str, local_arrays: Sequence[Array], body: str) -> str:
    declared = "".join(f"    {array.declaration}\n" for array in local_arrays)
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
