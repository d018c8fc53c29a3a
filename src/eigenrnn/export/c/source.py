"""The parts of a C file: constants with the weights, helper functions, and what they cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

__all__ = ["Array", "Layer", "Matrix", "Source", "layer_norm", "loop", "one_of"]

_GROUP = 8  # rows of a matrix that are multiplied together
_LINE = 96  # characters
_TYPES = {"float": "float", "int8": "signed char", "int16": "short"}
_BYTES = {"float": 4, "int8": 1, "int16": 2}
_LARGEST = {"int8": 127, "int16": 32767}


@dataclass(frozen=True)
class Array:
    """A member of the state.

    Args:
        name: Its name.
        size: How many numbers it has.
        comment: What it holds.
        initial: The numbers at the beginning; zero if None.
    """

    name: str
    size: int
    comment: str
    initial: Tensor | None = None


@dataclass(frozen=True)
class Layer:
    """A layer in C: a function ``layer(state, x, y)`` that updates the state and writes outputs.

    Args:
        formula: What it computes, for the comment above the function.
        states: The members of the state that it reads and writes.
        locals: The sizes of its local arrays, by name.
        body: The statements of the function.
        output_size: How many outputs it writes.
        name: The name of the function.
        inner: The functions that it calls.
    """

    formula: str
    states: Sequence[Array]
    locals: dict[str, int]
    body: str
    output_size: int
    name: str = ""
    inner: Sequence["Layer"] = ()

    def named(self, name: str) -> "Layer":
        """Return it with a name."""
        return replace(self, name=name)

    @property
    def stack(self) -> int:
        """The numbers in its local arrays, and in those of the functions that it calls."""
        return sum(self.locals.values()) + max((each.stack for each in self.inner), default=0)


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
            largest = weight.abs().amax(1).clamp_min(torch.finfo(weight.dtype).tiny)
            scale = largest / _LARGEST[self.kind]
            weight = (weight / scale[:, None]).round()
            numbers = [f"{each:.0f}" for each in _grouped(weight)]
            self._define(self.kind, name, numbers, comment)
            self.vector(f"{name}_scale", scale, f"the scale of each row of {name}")
        found = Matrix(name, rows, columns, self.kind)
        if is_multiplied:
            self.helpers.add(found.product_helper)
        return found

    def vector(self, name: str, values: Tensor, comment: str) -> str:
        """Write a vector, and return its name.

        Raises:
            ValueError: If an entry is not finite in single precision.
        """
        self._define("float", name, list(map(_literal, _checked(name, values).tolist())), comment)
        return name

    def start(self, y: str, size: int, bias: tuple[str, Tensor | None], comment: str = "") -> str:
        """Return the statements that set y to a bias, or to zero without one."""
        name, values = bias
        if values is None:
            return loop(size, f"{y}[i] = 0.0F;")
        return loop(size, f"{y}[i] = {self.vector(name, values, comment)}[i];")

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


def layer_norm(source: Source, z: str, name: str, gain: Tensor, shift: Tensor) -> str:
    """Return the statement that normalises z."""
    source.helpers.add("layer_norm")
    g = source.vector(f"{name}_gain", gain, f"the gain of LayerNorm, ({len(gain)})")
    s = source.vector(f"{name}_shift", shift, f"the shift of LayerNorm, ({len(shift)})")
    return f"layer_norm({z}, {g}, {s}, {len(gain)}, 1e-5F);"


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


def _of_integers(kind: str) -> dict[str, str]:
    """Return the helpers of matrices of whole numbers with a scale for each row."""
    number = _TYPES[kind]
    return {
        f"add_product_{kind}": f"""\
/* y += A x, where each row of A is whole numbers times its scale; A lies as eight rows at a time
   side by side, column by column, then the other rows */
static void add_product_{kind}(float *y, const {number} *A, const float *scale, const float *x,
                                  int rows, int columns)
{{
    for (; rows >= 8; rows -= 8) {{
        float y0 = 0.0F, y1 = 0.0F, y2 = 0.0F, y3 = 0.0F;
        float y4 = 0.0F, y5 = 0.0F, y6 = 0.0F, y7 = 0.0F;
        for (int j = 0; j < columns; j++) {{
            y0 += (float)A[0] * x[j];
            y1 += (float)A[1] * x[j];
            y2 += (float)A[2] * x[j];
            y3 += (float)A[3] * x[j];
            y4 += (float)A[4] * x[j];
            y5 += (float)A[5] * x[j];
            y6 += (float)A[6] * x[j];
            y7 += (float)A[7] * x[j];
            A += 8;
        }}
        y[0] += scale[0] * y0;
        y[1] += scale[1] * y1;
        y[2] += scale[2] * y2;
        y[3] += scale[3] * y3;
        y[4] += scale[4] * y4;
        y[5] += scale[5] * y5;
        y[6] += scale[6] * y6;
        y[7] += scale[7] * y7;
        y += 8;
        scale += 8;
    }}
    for (; rows > 0; rows--) {{
        float sum = 0.0F;
        for (int j = 0; j < columns; j++)
            sum += (float)A[j] * x[j];
        A += columns;
        *y++ += *scale++ * sum;
    }}
}}
""",
        f"copy_row_{kind}": f"""\
/* y = a row of A, which lies as in add_product_{kind} */
static void copy_row_{kind}(float *y, const {number} *A, const float *scale, int row, int rows,
                               int columns)
{{
    const int full = rows / 8 * 8;
    for (int j = 0; j < columns; j++) {{
        const {number} a = row < full ? A[row / 8 * 8 * columns + 8 * j + row % 8]
                                    : A[row * columns + j];
        y[j] = scale[row] * (float)a;
    }}
}}
""",
    }


HELPERS = {
    "add_product": """\
/* y += A x; A has eight rows at a time side by side, column by column, then the other rows */
static void add_product(float *y, const float *A, const float *x, int rows, int columns)
{
    for (; rows >= 8; rows -= 8) {
        float y0 = 0.0F, y1 = 0.0F, y2 = 0.0F, y3 = 0.0F;
        float y4 = 0.0F, y5 = 0.0F, y6 = 0.0F, y7 = 0.0F;
        for (int j = 0; j < columns; j++) {
            y0 += A[0] * x[j];
            y1 += A[1] * x[j];
            y2 += A[2] * x[j];
            y3 += A[3] * x[j];
            y4 += A[4] * x[j];
            y5 += A[5] * x[j];
            y6 += A[6] * x[j];
            y7 += A[7] * x[j];
            A += 8;
        }
        y[0] += y0;
        y[1] += y1;
        y[2] += y2;
        y[3] += y3;
        y[4] += y4;
        y[5] += y5;
        y[6] += y6;
        y[7] += y7;
        y += 8;
    }
    for (; rows > 0; rows--) {
        float sum = 0.0F;
        for (int j = 0; j < columns; j++)
            sum += A[j] * x[j];
        A += columns;
        *y++ += sum;
    }
}
""",
    **_of_integers("int8"),
    **_of_integers("int16"),
    "copy_row": """\
/* y = a row of A, which lies as in add_product */
static void copy_row(float *y, const float *A, int row, int rows, int columns)
{
    const int full = rows / 8 * 8;
    for (int j = 0; j < columns; j++)
        y[j] = row < full ? A[row / 8 * 8 * columns + 8 * j + row % 8] : A[row * columns + j];
}
""",
    "layer_norm": """\
/* LayerNorm over n numbers */
static void layer_norm(float *z, const float *gain, const float *shift, int n, float epsilon)
{
    float mean = 0.0F;
    for (int i = 0; i < n; i++)
        mean += z[i];
    mean /= (float)n;
    float variance = 0.0F;
    for (int i = 0; i < n; i++)
        variance += (z[i] - mean) * (z[i] - mean);
    variance /= (float)n;
    const float factor = 1.0F / sqrtf(variance + epsilon);
    for (int i = 0; i < n; i++)
        z[i] = (z[i] - mean) * factor * gain[i] + shift[i];
}
""",
    "sigmoid": """\
static float sigmoid(float z)
{
    return 1.0F / (1.0F + expf(-z));
}
""",
    "rms_norm": """\
/* RMSNorm over n numbers */
static void rms_norm(float *z, const float *gain, int n, float epsilon)
{
    float square = 0.0F;
    for (int i = 0; i < n; i++)
        square += z[i] * z[i];
    const float factor = 1.0F / sqrtf(square / (float)n + epsilon);
    for (int i = 0; i < n; i++)
        z[i] *= factor * gain[i];
}
""",
    "gelu": """\
static float gelu(float z)
{
    return 0.5F * z * (1.0F + erff(z * 0.707106781F));
}
""",
    "silu": """\
static float silu(float z)
{
    return z / (1.0F + expf(-z));
}
""",
    "unit": """\
/* scale v to the length given; a vector without a direction becomes zero */
static void unit(float *v, int n, float length)
{
    float square = 0.0F;
    for (int i = 0; i < n; i++)
        square += v[i] * v[i];
    const float factor = square > 1e-12F ? length / sqrtf(square) : 0.0F;
    for (int i = 0; i < n; i++)
        v[i] *= factor;
}
""",
    "reflect": """\
/* S += beta k (v - S'k)', for n rows and columns */
static void reflect(float *S, const float *k, const float *v, float beta, int n)
{
    for (int j = 0; j < n; j++) {
        float error = v[j];
        for (int i = 0; i < n; i++)
            error -= k[i] * S[i * n + j];
        for (int i = 0; i < n; i++)
            S[i * n + j] += beta * k[i] * error;
    }
}
""",
    "read_out": """\
/* o = S'q, for n rows and columns */
static void read_out(float *o, const float *S, const float *q, int n)
{
    for (int j = 0; j < n; j++) {
        o[j] = 0.0F;
        for (int i = 0; i < n; i++)
            o[j] += q[i] * S[i * n + j];
    }
}
""",
    "relu": """\
static float relu(float z)
{
    return z > 0.0F ? z : 0.0F;
}
""",
    "elu": """\
static float elu(float z)
{
    return z > 0.0F ? z : expm1f(z);
}
""",
    "leaky_relu": """\
static float leaky_relu(float z)
{
    return z > 0.0F ? z : 0.01F * z;
}
""",
    "leaky_relu_0_1": """\
static float leaky_relu_0_1(float z)
{
    return z > 0.0F ? z : 0.1F * z;
}
""",
    "softplus": """\
static float softplus(float z)
{
    return z > 40.0F ? z : log1pf(expf(z));
}
""",
    "retanh": """\
/* the tanh of the positive part */
static float retanh(float z)
{
    return z > 0.0F ? tanhf(z) : 0.0F;
}
""",
    "modrelu": """\
/* the modulus is rectified, the sign stays */
static float modrelu(float z, float bias)
{
    const float modulus = fabsf(z) + bias;
    if (modulus <= 0.0F || fabsf(z) <= 0.0F)
        return 0.0F;
    return z < 0.0F ? -modulus : modulus;
}
""",
    "positive": """\
static float positive(float z)
{
    return z >= 0.0F ? z + 0.5F : sigmoid(z);
}
""",
}
"""The helper functions by name, each after those that it calls."""
