"""Random calls of public functions return the right values or raise a clear error."""

import copy
import inspect
import random
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map_only

import eigenrnn
from cases import CELLS, CONSTRAINTS, LAYERS, NAMED, OURS
from eigenrnn import LanguageModel, ResidualStack, SequenceModel, Stream, analysis
from eigenrnn.constraints import LowRank
from eigenrnn.errors import NoInverseError, NotInSetError
from eigenrnn.nonlinearities import NONLINEARITIES
from eigenrnn.ops import elman, gru, linear, lstm, use_backend

HERE = str(Path(eigenrnn.__file__).parent)
NAMED_ERRORS = (ValueError, TypeError, NoInverseError, NotInSetError)
FLOATS = (torch.float32, torch.float64)
OTHERS = (torch.float16, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.float8_e4m3fn)
BACKENDS = (None, "cpu", "loop", "reference")


@dataclass
class Call:
    """A random call, and the same call of the reference in double precision.

    Args:
        text: The function and its arguments, for messages.
        make: Makes the call.
        exact: Makes the call of the reference, if there is one.
        tolerance: The largest allowed error, relative to the largest value.
        is_good: Whether the arguments are valid, so that an error is a fault.
        is_torch: Whether the errors of wrong types and shapes are those of torch and NumPy.
    """

    text: str
    make: Callable[[], Any]
    exact: Callable[[], Any] | None = None
    tolerance: float = 0.0
    is_good: bool = False
    is_torch: bool = False


@dataclass
class Outcome:
    """The values or the error of a call."""

    values: list[torch.Tensor] = field(default_factory=list)
    error: Exception | None = None

    @property
    def is_named(self) -> bool:
        """Whether the library itself raised the error and said what it expected."""
        frames = traceback.extract_tb(self.error.__traceback__)
        return (
            isinstance(self.error, NAMED_ERRORS)
            and frames[-1].filename.startswith(HERE)
            and "expected" in str(self.error)
        )


def outcome(make: Callable[[], Any]) -> Outcome:
    """Make a call and catch whatever it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = make()
    except Exception as error:
        return Outcome(error=error)
    return Outcome([v.detach() for v in flattened(found) if isinstance(v, torch.Tensor)])


def flattened(found: Any) -> list[Any]:
    """Return the items of nested tuples and lists."""
    if isinstance(found, tuple | list):
        return [value for each in found for value in flattened(each)]
    return [found]


def fault(call: Call) -> str | None:
    """Return what is wrong with the outcome of a call, or None."""
    got = outcome(call.make)
    if got.error is not None:
        message = f"{type(got.error).__name__}: {str(got.error)[:200]}"
        if call.is_good:
            return f"{call.text}: a good call raised {message}"
        is_clear = got.is_named or call.is_torch
        return None if is_clear else f"{call.text}: {message}"
    if call.exact is None:
        return None
    expected = outcome(call.exact)
    if expected.error is not None:
        return f"{call.text}: gives a value where the definition raises {expected.error!r}"
    distances = [
        relative_distance(*pair) for pair in zip(got.values, expected.values, strict=True)
    ]
    worst = max(distances, default=0.0)
    return None if worst <= call.tolerance else f"{call.text}: {worst:.1e} from the definition"


def relative_distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the distance of two tensors relative to the largest entry."""
    if one.shape != other.shape:
        return float("inf")
    if one.is_meta or not one.numel():
        return 0.0
    scale = max(1.0, float(torch.nan_to_num(other.abs(), 0, 0, 0).max()))
    return float((one.to(other.dtype) - other).abs().max()) / scale


def calls(seed: int, count: int) -> list[Call]:
    """Draw random calls."""
    rng = random.Random(seed)
    kinds = {
        elman_call: 22,
        gru_call: 14,
        lstm_call: 10,
        linear_call: 10,
        layer_call: 14,
        stream_call: 6,
        transformed_call: 5,
        cell_call: 3,
        model_call: 3,
        constraint_call: 10,
        analysis_call: 10,
    }
    return [
        rng.choices(list(kinds), list(kinds.values()))[0](random.Random(rng.random()))
        for _ in range(count)
    ]


def normal(rng: random.Random, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rng.getrandbits(32))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(shape, generator=generator, dtype=wide).to(dtype)


def strided(rng: random.Random, tensor: torch.Tensor) -> torch.Tensor:
    """Return the same numbers with random strides."""
    match rng.randrange(4):
        case 1 if tensor.dim() > 1:
            return tensor.transpose(0, 1).contiguous().transpose(0, 1)
        case 2 if tensor.dim():
            return torch.stack([tensor, tensor], dim=-1).flatten(-2)[..., ::2]
        case 3 if tensor.dim():
            return torch.cat([tensor, tensor])[: len(tensor)]
    return tensor


def invalid(rng: random.Random, value: Any) -> Any:
    """Return an invalid replacement of an argument."""
    wrong: list[Any] = [
        3.5,
        "tanh",
        (1.0, 2.0),
        object(),
        torch.tensor(1.0),
        torch.zeros(0),
        normal(rng, 3, dtype=torch.float32),
        normal(rng, 2, 3, dtype=torch.float32),
        normal(rng, 2, 3, 4, dtype=torch.float32),
        normal(rng, 2, 3, 4, 5, dtype=torch.float32),
    ]
    if isinstance(value, torch.Tensor):
        wrong += [
            value.real.to(rng.choice(OTHERS)),
            value.to(torch.complex64),
            value.real.double() if value.dtype == torch.float32 else value.real.float(),
            value.to("meta"),
            value.to_sparse() if value.dim() else value,
            value.to_sparse_csr() if value.dim() == 2 and value.numel() else value,
            freed(value),
            torch._to_functional_tensor(value),
            Wrapper(value),
            torch.nested.nested_tensor([value]) if value.dim() else value,
            value.unsqueeze(0),
            value[..., :-1] if value.dim() else value,
            torch.cat([value, value]) if value.dim() else value,
            value.detach().numpy() if value.dtype in FLOATS else value,
            None,
        ]
    return rng.choice(wrong)


def freed(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor without memory, as FSDP leaves the weights that another device holds."""
    copied = tensor.clone()
    copied.untyped_storage().resize_(0)
    return copied


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether the storage of a tensor is smaller than its entries."""
    if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_meta:
        return False
    return type(tensor) is torch.Tensor and tensor.numel() > 0 and not tensor.untyped_storage()


class Wrapper(torch.Tensor):
    """A tensor without memory of its own, that runs every operation on the one it wraps."""

    @staticmethod
    def __new__(cls, wrapped: torch.Tensor) -> "Wrapper":
        return torch.Tensor._make_wrapper_subclass(
            cls,
            wrapped.shape,
            strides=wrapped.stride(),
            dtype=wrapped.dtype,
            requires_grad=wrapped.requires_grad,
        )

    def __init__(self, wrapped: torch.Tensor) -> None:
        self.wrapped = wrapped

    @classmethod
    def __torch_dispatch__(
        cls, run: Callable[..., Any], _: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        unwrapped = [tree_map_only(Wrapper, lambda w: w.wrapped, each) for each in (args, kwargs)]
        return run(*unwrapped[0], **(unwrapped[1] or {}))


def described(arguments: dict[str, Any]) -> str:
    """Describe arguments in one line."""
    words = []
    for name, value in arguments.items():
        if isinstance(value, torch.Tensor):
            shape = "nested" if value.is_nested else list(value.shape)
            words.append(f"{name}={type(value).__name__} {value.dtype}{shape}@{value.device}")
        else:
            words.append(f"{name}={str(value)[:80]}")
    return ", ".join(words)


def recurrence_call(run: Callable[..., Any], arguments: dict[str, Any], is_good: bool) -> Call:
    """Return a call with a backward pass, and the same for the reference in double precision."""
    dtype = arguments["x"].dtype if isinstance(arguments["x"], torch.Tensor) else torch.float32
    wide = {
        name: exact(value) if name != "layer_norm" or value is None else exact_pair(value)
        for name, value in arguments.items()
    }
    coarse = torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 1e-7
    return Call(
        f"{run.__name__}({described(arguments)})",
        partial(with_gradients, run, arguments),
        partial(with_gradients, run, wide | {"backend": "reference"}),
        tolerance=300 * coarse,
        is_good=is_good,
    )


def exact(value: Any) -> Any:
    """Return a tensor in double precision; anything else unchanged."""
    if not isinstance(value, torch.Tensor) or value.dtype in (torch.bool, torch.int64):
        return value
    if is_freed(value):  # torch itself would read memory that is not there
        return value
    return value.to(torch.complex128 if value.is_complex() else torch.float64)


def exact_pair(value: Any) -> Any:
    """Apply `exact` to both tensors of a norm."""
    return tuple(map(exact, value)) if isinstance(value, tuple | list) else exact(value)


def with_gradients(run: Callable[..., Any], arguments: dict[str, Any]) -> list[torch.Tensor]:
    """Return the values and the gradients of their sums."""
    leaves = {
        name: value.detach().requires_grad_()
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
        else value
        for name, value in arguments.items()
    }
    h, *last = run(**leaves)
    size = h.abs().sum() if h.is_complex() else h.square().sum()
    total = size + sum(each.real.sum() for each in last)
    tensors = [v for v in leaves.values() if isinstance(v, torch.Tensor) and v.requires_grad]
    values = [each.detach() for each in (h, *last)]
    if h.is_meta or not total.requires_grad:
        return values
    gradients = torch.autograd.grad(total, tensors, allow_unused=True)
    return [*values, *(g for g in gradients if g is not None)]


def sizes_of(rng: random.Random) -> tuple[int, int, int, int]:
    return rng.randint(1, 4), rng.randint(0, 3), rng.choice([0, 1, 2, 3, 5]), rng.randint(0, 3)


def ragged(rng: random.Random, T: int, B: int) -> list[int] | None:
    return None if rng.random() < 0.7 else sorted([B, *rng.choices(range(B + 1), k=T - 1)])[::-1]


def common(rng: random.Random, T: int, B: int, N: int) -> dict[str, Any]:
    """Draw the options of both recurrences."""
    arguments: dict[str, Any] = {
        "batch_sizes": ragged(rng, T, B),
        "reverse": rng.random() < 0.3,
        "backend": rng.choice(BACKENDS),
    }
    if rng.random() < 0.15:
        rate = rng.choice([0.0, 0.25])
        mask = torch.rand(T, B, N, generator=torch.Generator().manual_seed(rng.getrandbits(30)))
        arguments["zoneout"] = rng.choice([rate, mask < 0.5])
        arguments["backend"] = rng.choice([None, "reference"])
    return arguments


def elman_call(rng: random.Random) -> Call:
    T, B, N, M = sizes_of(rng)
    dtype = rng.choice([*FLOATS, *FLOATS, torch.complex64, torch.complex128])
    name = rng.choice(["modrelu", "identity"] if dtype.is_complex else list(NONLINEARITIES))
    mapped = rng.random() < 0.5
    arguments = {
        "x": strided(rng, normal(rng, T, B, M if mapped else N, dtype=dtype)),
        "W": strided(rng, normal(rng, N, N, dtype=dtype) / max(1, N) ** 0.5),
        "h0": strided(rng, normal(rng, B, N, dtype=dtype)) if rng.random() < 0.5 else None,
        "nonlinearity": name,
        **common(rng, T, B, N),
    }
    if name == "modrelu" and rng.random() < 0.7:
        # a positive bias avoids the jump of modReLU
        arguments["bias"] = normal(rng, N, dtype=dtype.to_real()).abs()
    if mapped:
        arguments |= {"U": normal(rng, N, M, dtype=dtype)}
        arguments |= {"c": normal(rng, N, dtype=dtype)} if rng.random() < 0.5 else {}
    if rng.random() < 0.2:
        arguments["V"] = normal(rng, rng.randint(0, 4), N, dtype=dtype)
    return maybe_invalid(rng, elman, arguments)


def gru_call(rng: random.Random) -> Call:
    T, B, N, M = sizes_of(rng)
    N, dtype, mapped = max(N, 1), rng.choice(FLOATS), rng.random() < 0.5
    after = rng.random() < 0.6
    arguments = {
        "x": strided(rng, normal(rng, T, B, M if mapped else 3 * N, dtype=dtype)),
        "W": strided(rng, normal(rng, 3 * N, N, dtype=dtype) / N**0.5),
        "h0": strided(rng, normal(rng, B, N, dtype=dtype)) if rng.random() < 0.5 else None,
        "nonlinearity": rng.choice(["tanh", "elu", "identity", "relu"]),
        "reset_after": after,
        "update_keeps": rng.random() < 0.5,
        **common(rng, T, B, N),
    }
    if after and rng.random() < 0.5:
        arguments["recurrent_bias"] = normal(rng, N, dtype=dtype)
    if mapped:
        arguments["U"] = normal(rng, 3 * N, M, dtype=dtype)
    return maybe_invalid(rng, gru, arguments)


def lstm_call(rng: random.Random) -> Call:
    T, B, N, M = sizes_of(rng)
    N, dtype, mapped = max(N, 1), rng.choice(FLOATS), rng.random() < 0.5
    arguments = {
        "x": strided(rng, normal(rng, T, B, M if mapped else 4 * N, dtype=dtype)),
        "W": strided(rng, normal(rng, 4 * N, N, dtype=dtype) / N**0.5),
        "h0": strided(rng, normal(rng, B, N, dtype=dtype)) if rng.random() < 0.5 else None,
        "c0": strided(rng, normal(rng, B, N, dtype=dtype)) if rng.random() < 0.5 else None,
        "batch_sizes": ragged(rng, T, B),
        "reverse": rng.random() < 0.3,
        "backend": rng.choice([None, "cpu", "reference"]),
    }
    if mapped:
        arguments["U"] = normal(rng, 4 * N, M, dtype=dtype)
    return maybe_invalid(rng, lstm, arguments)


def linear_call(rng: random.Random) -> Call:
    T, B, N, _ = sizes_of(rng)
    dtype = rng.choice([*FLOATS, torch.complex64, torch.complex128])
    decay = normal(rng, *rng.choice([(N,), (T, B, N)]), dtype=dtype)
    arguments = {
        "x": strided(rng, normal(rng, T, B, N, dtype=dtype)),
        "decay": strided(rng, decay / (1 + decay.abs())),
        "h0": strided(rng, normal(rng, B, N, dtype=dtype)) if rng.random() < 0.5 else None,
        "batch_sizes": ragged(rng, T, B),
        "reverse": rng.random() < 0.3,
        "backend": rng.choice([None, "cpu", "scan", "reference"]),
    }
    return maybe_invalid(rng, linear, arguments)


def maybe_invalid(rng: random.Random, run: Callable[..., Any], arguments: dict[str, Any]) -> Call:
    """Leave half of the calls valid, and spoil one or two arguments of the others."""
    is_good = rng.random() < 0.5
    if not is_good:
        known = inspect.signature(run).parameters
        extra = ("layer_norm", "bias", "c", "d", "V", "recurrent_bias", "zoneout", "batch_sizes")
        names = [*arguments, *(name for name in extra if name in known)]
        for name in rng.sample(list(dict.fromkeys(names)), rng.choice([1, 1, 2])):
            arguments[name] = invalid(rng, arguments.get(name))
    return recurrence_call(run, arguments, is_good)


def layer_call(rng: random.Random) -> Call:
    name = rng.choice([*LAYERS, *NAMED])
    M, N, T, B = rng.randint(1, 3), 8, rng.randint(1, 3), rng.randint(1, 3)
    layer = {**LAYERS, **NAMED}[name](M, N)
    x = normal(rng, T, B, M, dtype=torch.float32)
    steps = hasattr(layer, "step")
    method = rng.choice(["forward", "step"] if steps else ["forward"])
    arguments: dict[str, Any] = {"x": x if method == "forward" else x[0]}
    is_good = rng.random() < 0.5
    if not is_good:
        arguments["x"] = invalid(rng, arguments["x"])
        if rng.random() < 0.3:
            arguments["h0"] = invalid(rng, normal(rng, 1, B, N))
    # errors of torch's own layers are not tested
    if not steps and not is_good:
        return Call(f"{name}: torch's own", lambda: None)
    return Call(
        f"{name}.{method}({described(arguments)})",
        lambda: getattr(layer, method)(*arguments.values()),
        partial(in_double, layer, method, *arguments.values()) if is_good else None,
        SINGLE,
        is_good,
    )


SINGLE = 2e-4
"""The tolerance of layers in single precision, whose constraints round as well."""


def in_double(module: Any, method: str, *arguments: Any) -> Any:
    """Call a method of a module in double precision, by the definitions of the recurrences."""
    wide = copy.deepcopy(module).double()
    with use_backend("reference"):
        return getattr(wide, method)(*(map_tensors(exact, value) for value in arguments))


def map_tensors(f: Callable[[Any], Any], value: Any) -> Any:
    return tuple(map(f, value)) if isinstance(value, tuple) else f(value)


def stream_call(rng: random.Random) -> Call:
    name, M, T = rng.choice([*OURS, *NAMED]), rng.randint(1, 3), rng.randint(1, 4)
    B = rng.choice([None, None, 1, 3])
    layer = {**OURS, **NAMED}[name](M, 8)
    model = SequenceModel(layer, 2) if rng.random() < 0.4 else layer
    if rng.random() < 0.6:
        layer.freeze()
    x = normal(rng, T, *([] if B is None else [B]), M, dtype=torch.float32)
    is_good, state = rng.random() < 0.5, None
    steps: list[Any] = list(x)
    if not is_good:
        place = rng.randrange(T)
        steps[place] = invalid(rng, steps[place])
        state = invalid(rng, layer.initial_state(B)) if rng.random() < 0.3 else None

    def run() -> torch.Tensor:
        stream = Stream(model, B)
        if state is not None:
            stream.state = state
        return torch.stack([stream(step) for step in steps])

    return Call(
        f"Stream({type(model).__name__} of {name}, {B})({described(dict(enumerate(steps)))})",
        run,
        partial(of_whole_sequence, model, x) if is_good else None,
        SINGLE,
        is_good,
    )


def of_whole_sequence(model: Any, x: torch.Tensor) -> torch.Tensor:
    """Return the outputs of a layer or a model for a whole sequence, in double precision."""
    layer = model.layer if isinstance(model, SequenceModel) else model
    h = in_double(layer, "forward", x)[0]
    return h if layer is model else copy.deepcopy(model.head).double()(h)


def of_states(layer: Any, x: torch.Tensor) -> torch.Tensor:
    return layer(x)[0]


def sum_of_squares(layer: Any, x: torch.Tensor) -> torch.Tensor:
    return of_states(layer, x).abs().square().sum()


def tangent(layer: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.func.jvp(partial(of_states, layer), (x,), (torch.ones_like(x),))[1]


TRANSFORMS = {
    "vmap": lambda layer, x: torch.vmap(partial(of_states, layer), in_dims=1, out_dims=1)(x),
    "functionalize": lambda layer, x: torch.func.functionalize(partial(of_states, layer))(x),
    "grad": lambda layer, x: torch.func.grad(partial(sum_of_squares, layer))(x),
    "jvp": tangent,
}
DEFINITIONS = {
    "vmap": of_states,
    "functionalize": of_states,
    "grad": lambda layer, x: torch.autograd.grad(sum_of_squares(layer, x), x)[0],
    "jvp": tangent,
}
"""What each transform of a layer computes, by other means where there are any."""


def transformed_call(rng: random.Random) -> Call:
    """Return a call of a layer under `torch.func`, and then one without."""
    name, transform = rng.choice([*OURS, *NAMED]), rng.choice(list(TRANSFORMS))
    T, B, M = rng.randint(1, 4), rng.randint(1, 3), rng.randint(1, 3)
    layer = {**OURS, **NAMED}[name](M, 8)
    x = normal(rng, T, B, M, dtype=torch.float32)

    def run() -> list[torch.Tensor]:
        return [TRANSFORMS[transform](layer, x), layer(x)[0]]

    def by_definition() -> list[torch.Tensor]:
        wide, exact_x = copy.deepcopy(layer).double(), x.double().requires_grad_()
        with use_backend("reference"):
            return [DEFINITIONS[transform](wide, exact_x), wide(exact_x)[0]]

    return Call(f"{transform} of {name}({described({'x': x})})", run, by_definition, SINGLE, True)


def cell_call(rng: random.Random) -> Call:
    name, M, B = rng.choice(list(CELLS)), rng.randint(1, 3), rng.choice([None, 1, 3])
    cell = CELLS[name](M, 8)
    shape = [] if B is None else [B]
    state: Any = normal(rng, *shape, 8, dtype=torch.float32)
    if name == "LSTMCell":
        state = state, normal(rng, *shape, 8, dtype=torch.float32)
    arguments = {"x": normal(rng, *shape, M, dtype=torch.float32), "h": state}
    is_good = rng.random() < 0.5
    if not is_good:
        key = rng.choice(list(arguments))
        arguments[key] = invalid(rng, arguments[key])
    return Call(
        f"{name}({described(arguments)})",
        lambda: cell(*arguments.values()),
        partial(in_double, cell, "forward", *arguments.values()) if is_good else None,
        SINGLE,
        is_good,
    )


def model_call(rng: random.Random) -> Call:
    """Return a call of a model, whose inputs are real numbers or symbols."""
    M, T, B = 3, rng.randint(1, 4), rng.randint(1, 3)
    layer = OURS[rng.choice(list(OURS))]
    match rng.randrange(3):
        case 0:
            model = SequenceModel(layer(M, 8), 2, rng.choice(["all", "last"]))
        case 1:
            model = SequenceModel(
                ResidualStack(lambda width: layer(width, 8), 8, 2, input_size=M), 2
            )
        case _:
            model = LanguageModel(5, M, [layer(M, 8)])
    x = normal(rng, T, B, M, dtype=torch.float32)
    if isinstance(model, LanguageModel):
        x = x[..., 0].abs().long() % 5
    model.eval()
    is_good = rng.random() < 0.5
    inputs = x if is_good else invalid(rng, x)
    return Call(
        f"{type(model).__name__}({described({'x': inputs})})",
        lambda: model(inputs),
        partial(in_double, model, "forward", inputs) if is_good else None,
        SINGLE,
        is_good,
        is_torch=True,
    )


def constraint_call(rng: random.Random) -> Call:
    name = rng.choice(list(CONSTRAINTS))
    match rng.randrange(3):
        case 0:
            size = rng.choice([0, -1, 1, 2, 3, 4, 8, 2.5, "4", None, True, torch.tensor(4), 7])
            return Call(f"{name}({size!r})", lambda: CONSTRAINTS[name](size))
        case 1:
            constraint = CONSTRAINTS[name](8)
            W = rng.choice(
                [constraint().detach(), normal(rng, 8, 8), torch.eye(8), torch.zeros(8, 8)]
            )
            W = invalid(rng, W) if rng.random() < 0.6 else W * rng.choice([1, 1, torch.nan, 1e20])
            return Call(f"{name}.assign({described({'W': W})})", lambda: constraint.assign(W))
    constraint, size = CONSTRAINTS[name](8), rng.choice([1e-20, 1e-3, 1, 1e3, 1e5, 1e10, 1e20])
    if isinstance(constraint, LowRank):
        size = min(size, 1e10)  # W is the product of two parameters, which would overflow
    with torch.no_grad():
        for parameter in constraint.parameters():
            parameter.mul_(size)
    return Call(
        f"{name}() of raw values times {size}", partial(check_in_set, constraint), is_good=True
    )


def check_in_set(constraint: Any) -> None:
    """Check that the matrix of a constraint lies in its set.

    Raises:
        RuntimeError: If it does not.
    """
    W = constraint().detach()
    residual = constraint.residual(W) if constraint.constrained else 0.0
    if not residual <= 10 * constraint.tolerance:
        raise RuntimeError(f"residual {residual:.1e}, tolerance {constraint.tolerance:.1e}")


MATRIX_FUNCTIONS = {
    "spectrum": {},
    "henrici": {},
    "pseudospectrum": {"resolution": 5},
    "schur_structure": {},
    "transient_growth": {"steps": 3},
    "effective_rank": {},
    "participation_ratio": {},
    "recurrent_matrices": {},
    "recurrent_layers": {},
    "state_maps": {},
    "fixed_points": {"initial_states": 3, "steps": 5},
    "lyapunov": {"x": torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(0))},
    "jacobian_bound": {"x": torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(0))},
    "gradient_map": {"x": torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(0))},
    "fisher_memory": {"source": np.eye(4)[0], "steps": 3},
    "analyse": {},
}


def analysis_call(rng: random.Random) -> Call:
    name = rng.choice(list(MATRIX_FUNCTIONS))
    options = dict(MATRIX_FUNCTIONS[name])
    first: Any = rng.choice(
        [
            normal(rng, 4, 4),
            normal(rng, 4, 4).numpy(),
            normal(rng, 4, 4, dtype=torch.complex128),
            normal(rng, 4, 4) * rng.choice([torch.nan, torch.inf, 0, 1e200]),
            {**LAYERS, **NAMED}[rng.choice([*LAYERS, *NAMED])](2, 8),
            torch.nn.Linear(2, 2),
            invalid(rng, normal(rng, 4, 4)),
        ]
    )
    if isinstance(first, torch.nn.Module) and rng.random() < 0.2:
        with torch.no_grad():
            for parameter in first.parameters():
                parameter.mul_(torch.nan)
    if options and rng.random() < 0.3:
        key = rng.choice(list(options))
        options[key] = invalid(rng, options[key])
    run = getattr(analysis, name)
    text = f"{name}({described({'first': first} | options)})"
    return Call(text, lambda: run(first, **options), is_torch=True)


FEW, MANY = 3_000, 20_000


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support", "ignore:The PyTorch API of nested")
@pytest.mark.parametrize(
    ("seed", "count"),
    [(0, FEW), pytest.param(1, MANY, marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_random_calls_agree_with_the_reference_or_raise_a_clear_error(seed, count):
    faults = list(filter(None, map(fault, calls(seed, count))))
    assert not faults, "\n".join([f"{len(faults)} of {count}", *faults[:40]])
