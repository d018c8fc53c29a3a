"""The parts of a C file: constants with the weights, helper functions, and what they cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from eigenrnn.ops.norm_zoneout import EPSILON

__all__ = [
    "HELPERS",
    "Array",
    "Layer",
    "Matrix",
    "Source",
    "helper",
    "layer_norm",
    "loop",
    "one_of",
]

_FOLDER = Path(__file__).parent / "helpers"
_GROUP = 8  # rows of a matrix that are multiplied together
_LINE = 96  # characters
_TYPES = {
    "float": "float",
    "double": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
}
_BYTES = {"float": 4, "double": 8, "int8": 1, "int16": 2, "int32": 4}
_LARGEST = {"int8": 127, "int16": 32767}


@dataclass(frozen=True)
class Array:
    """A member of the state, or a local array.

    Args:
        name: Its name.
        size: How many numbers it has.
        comment: What it holds.
        initial: The numbers at the beginning; zero if None.
        kind: What numbers they are.
    """

    name: str
    size: int
    comment: str = ""
    initial: Tensor | None = None
    kind: str = "float"

    @property
    def bytes(self) -> int:
        """Its size in bytes."""
        return self.size * _BYTES[self.kind]

    @property
    def declaration(self) -> str:
        """The declaration in C."""
        return f"{_TYPES[self.kind]} {self.name}[{self.size}];"


@dataclass(frozen=True)
class Layer:
    """A layer in C: a function ``layer(state, x, y)`` that updates the state and writes outputs.

    Args:
        formula: What it computes, for the comment above the function.
        states: The members of the state that it reads and writes.
        locals: Its local arrays.
        body: The statements of the function.
        output_size: How many outputs it writes.
        name: The name of the function.
        inner: The functions that it calls.
        arguments: What it takes after the state.
    """

    formula: str
    states: Sequence[Array]
    locals: Sequence[Array]
    body: str
    output_size: int
    name: str = ""
    inner: Sequence["Layer"] = ()
    arguments: str = "const float *x, float *y"

    def named(self, name: str) -> "Layer":
        """Return it with a name."""
        return replace(self, name=name)

    @property
    def stack(self) -> int:
        """The bytes of its local arrays, and of those of the functions that it calls."""
        own = sum(array.bytes for array in self.locals)
        return own + max((each.stack for each in self.inner), default=0)


@dataclass(frozen=True)
class Matrix:
    """A constant matrix."""

    name: str
    rows: int
    columns: int
    kind: str

    @property
    def product_helper(self) -> str:
        """The helper that multiplies by it."""
        return "add_product" if self.kind == "float" else f"add_product_{self.kind}"

    @property
    def row_helper(self) -> str:
        """The helper that copies a row of it."""
        return "copy_row" if self.kind == "float" else f"copy_row_{self.kind}"

    def add_to(self, y: str, x: str) -> str:
        """Return the statement y += A x."""
        return f"{self.product_helper}({y}, {self._numbers}, {x}, {self.rows}, {self.columns});"

    def copy_row(self, y: str, row: str) -> str:
        """Return the statement that copies a row to y."""
        return f"{self.row_helper}({y}, {self._numbers}, {row}, {self.rows}, {self.columns});"

    @property
    def _numbers(self) -> str:
        return self.name if self.kind == "float" else f"{self.name}, {self.name}_scale"


@dataclass
class Source:
    """Collects the constants of a network, the helpers that they need, and their cost.

    Args:
        kind: The numbers of matrices: float, or int8 or int16 with a scale for each row.
        constants: The definitions.
        helpers: The names of the functions among `HELPERS` that the network calls.
        bytes: The size of all constants.
        products: The multiply-adds of a step.
    """

    kind: str = "float"
    constants: list[str] = field(default_factory=list[str])
    helpers: set[str] = field(default_factory=set[str])
    bytes: int = 0
    products: int = 0

    def matrix(
        self, name: str, weight: Tensor, comment: str, *, is_multiplied: bool = True
    ) -> Matrix:
        """Write a matrix; eight rows at a time lie side by side, column by column.

        Raises:
            ValueError: If an entry is not finite in single precision.
        """
        rows, columns = weight.shape
        weight = _checked(name, weight)
        if is_multiplied:
            self.products += rows * columns
        if self.kind == "float":
            self._define("float", name, list(map(_literal, _grouped(weight))), comment)
        else:
            # each row is rounded to multiples of its scale
            scale = weight.abs().amax(1) / _LARGEST[self.kind]
            # of a row of zeros; a smaller number may be flushed to zero
            scale = scale.clamp_min(torch.finfo(weight.dtype).tiny)
            weight = (weight / scale[:, None]).round()
            numbers = [f"{each:.0f}" for each in _grouped(weight)]
            self._define(self.kind, name, numbers, comment)
            self.vector(f"{name}_scale", scale, f"the scale of each row of {name}")
        found = Matrix(name, rows, columns, self.kind)
        if is_multiplied:
            self.helpers |= {"multiply_add", found.product_helper}
        return found

    def vector(self, name: str, values: Tensor, comment: str) -> str:
        """Write a vector, and return its name.

        Raises:
            ValueError: If an entry is not finite in single precision.
        """
        self._define("float", name, list(map(_literal, _checked(name, values).tolist())), comment)
        return name

    def doubles(self, name: str, values: Tensor, comment: str) -> None:
        """Write a vector in double precision."""
        self._define("double", name, [repr(each) for each in values.tolist()], comment)

    def start(self, y: str, size: int, bias: tuple[str, Tensor | None], comment: str = "") -> str:
        """Return the statements that set y to a bias, or to zero without one."""
        name, values = bias
        if values is None:
            return loop(size, f"{y}[i] = 0.0F;")
        return loop(size, f"{y}[i] = {self.vector(name, values, comment)}[i];")

    def first(self, state: Array) -> str:
        """Return the statements that set a member of the state to its initial numbers."""
        bias = (f"{state.name}0", state.initial)
        return self.start(
            f"state->{state.name}", state.size, bias, f"the first state, ({state.size})"
        )

    @staticmethod
    def number(value: float) -> str:
        """Return a number as C writes it."""
        return _literal(value)

    @staticmethod
    def zoneout(rate: float, kept: str, new: str) -> str:
        """Return the state that zoneout is expected to leave."""
        return f"{_literal(rate)} * {kept} + {_literal(1 - rate)} * {new}"

    def _define(self, kind: str, name: str, numbers: list[str], comment: str) -> None:
        self.bytes += len(numbers) * _BYTES[kind]
        lines = [f"/* {comment} */", f"static const {_TYPES[kind]} {name}[{len(numbers)}] = {{"]
        line = "   "
        for number in numbers:
            if len(line) + len(number) + 2 > _LINE:
                lines.append(line)
                line = "   "
            line += f" {number},"
        lines += [line, "};"]
        self.constants.append("\n".join(lines))


def _checked(name: str, values: Tensor) -> Tensor:
    """Return numbers in single precision.

    Raises:
        ValueError: If one is not finite.
    """
    single = values.detach().cpu().float()
    if not single.isfinite().all():
        wrong = single[~single.isfinite()][0].item()
        raise ValueError(f"expected finite weights, got {wrong} in {name}")
    return single


def _grouped(weight: Tensor) -> list[float]:
    """Return the entries, eight full rows at a time column by column; then the other rows."""
    full = len(weight) // _GROUP * _GROUP
    groups = weight[:full].unflatten(0, (-1, _GROUP)).transpose(1, 2) if full else weight[:0]
    return [*groups.flatten().tolist(), *weight[full:].flatten().tolist()]


def _literal(value: float) -> str:
    """Write a number so that C reads the same float."""
    text = f"{value + 0.0:.9g}"  # without a negative zero
    if not {".", "e"} & set(text):
        text += ".0"
    return f"{text}F"


def loop(size: int, *statements: str) -> str:
    """Return a loop over i."""
    head = f"for (int i = 0; i < {size}; i++)"
    if len(statements) == 1:
        return f"{head}\n    {statements[0]}"
    body = "\n".join(f"    {each}" for each in statements)
    return f"{head} {{\n{body}\n}}"


def layer_norm(
    source: Source, z: str, name: str, gain: Tensor, shift: Tensor, epsilon: float = EPSILON
) -> str:
    """Return the statement that normalises z."""
    source.helpers.add("layer_norm")
    g = source.vector(f"{name}_gain", gain, f"the gain of LayerNorm, ({len(gain)})")
    s = source.vector(f"{name}_shift", shift, f"the shift of LayerNorm, ({len(shift)})")
    return f"layer_norm({z}, {g}, {s}, {len(gain)}, {_literal(epsilon)});"


def one_of(source: Source, name: str, z: str, bias: str | None) -> str:
    """Return the expression f(z) of a nonlinearity by its name."""
    match name:
        case "identity":
            return z
        case "tanh":
            return f"tanhf({z})"
        case "modrelu" if bias is None:
            return z
        case "modrelu":
            source.helpers.add("modrelu")
            return f"modrelu({z}, {bias})"
        case _:
            source.helpers.add(name.replace(".", "_"))
            return f"{name.replace('.', '_')}({z})"


HELPERS = (
    "multiply_add",
    "whole_numbers",
    "scaled_sum",
    "accumulate_int8",
    "accumulate_int16",
    "rounded_shift",
    "saturated",
    "saturated_wide",
    "symbol_row_int8",
    "symbol_row_int16",
    "quantised",
    "tanh_of_integer",
    "sigmoid_of_integer",
    "modrelu_of_integer",
    "leaky_relu_of_integer",
    "elu_of_integer",
    "softplus_of_integer",
    "add_product",
    "add_product_int8",
    "copy_row_int8",
    "add_product_int16",
    "copy_row_int16",
    "copy_row",
    "layer_norm",
    "sigmoid",
    "rms_norm",
    "gelu",
    "silu",
    "unit",
    "reflect",
    "read_out",
    "relu",
    "elu",
    "leaky_relu",
    "leaky_relu_0_1",
    "softplus",
    "retanh",
    "modrelu",
    "positive",
)
"""The names of the helper functions, each after those that it calls."""


def helper(name: str) -> str:
    """Return the definition of a helper function, which is a file of the folder `helpers`."""
    file = _FOLDER / f"{name}.c"
    if file.exists():
        return file.read_text(encoding="ascii")
    stem, _, kind = name.rpartition("_")
    text = (_FOLDER / f"{stem}_of_integers.c").read_text(encoding="ascii")
    return text.replace("KIND", kind).replace("NUMBER", _TYPES[kind])
