"""A network in whole numbers: its calibration, its layers and its head."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.parametrize import type_before_parametrizations
from torch.nn.utils.rnn import PackedSequence, pad_sequence, unpack_sequence

from eigenrnn.constraints import Constraint, Rounded
from eigenrnn.constraints.whole_numbers import WholeNumbers
from eigenrnn.export.c.integers.direction import IntegerLayer, RoundedDirection, places_for
from eigenrnn.export.c.integers.elman import elman
from eigenrnn.export.c.integers.gru import gru
from eigenrnn.export.c.integers.linear import lru
from eigenrnn.export.c.integers.lstm import lstm
from eigenrnn.export.c.integers.source import (
    LARGEST,
    IntegerSource,
    UnsupportedError,
    Vector,
    padded,
    places_of_sum,
)
from eigenrnn.export.c.source import Array, Layer, loop
from eigenrnn.export.c.templates import directions_of
from eigenrnn.export.rounding import RoundedMatrix, nearest, rounded
from eigenrnn.layers.direction import AbstractDirection
from eigenrnn.layers.gru import GatedDirection
from eigenrnn.layers.linear import LRUDirection
from eigenrnn.layers.lstm import LSTMDirection
from eigenrnn.layers.rnn import RNNDirection
from eigenrnn.residual_stack import ResidualStack

__all__ = ["Head", "IntegerNetwork", "integer_network", "padded_sequences", "rounded_matrices"]

TEMPLATES: Mapping[type, Callable[[Any, str, IntegerSource, Vector], IntegerLayer]] = {
    RNNDirection: elman,
    GatedDirection: gru,
    LSTMDirection: lstm,
    LRUDirection: lru,
}
"""By the class of a direction."""

_LEAST_INPUT = 2.0**-17


@dataclass(frozen=True)
class Head:
    """A linear map to the outputs.

    Shape:
        weight: :math:`(K, N)`.
        bias: :math:`(K,)`, or None.
    """

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True)
class IntegerNetwork:
    """The layers and the head of a network in whole numbers.

    Args:
        layers: The layers.
        locals: The local arrays of a step.
        step: The statements of a step, from ``input`` to ``output``.
        input_places: The inputs are in units of 2^-input_places; None for symbols.
        output_places: So are the outputs.
        output_size: The number of outputs.
        saturated: The share of the steps of the calibration in which a state or an output is
            saturated, by layer.
    """

    layers: list[Layer]
    locals: list[Array]
    step: str
    input_places: int | None
    output_places: int
    output_size: int
    saturated: dict[str, float]


def integer_network(
    layers: Sequence[Any],
    head: Head | None,
    embedding: Tensor | None,  # (K, M)
    x: Tensor,  # (T, B, M), or (T, B) symbols
    is_valid: Tensor,  # (T, B)
    source: IntegerSource,
) -> IntegerNetwork:
    """Write layers and a head, in double precision, for inputs such as x.

    Raises:
        ValueError: If an input is not finite, all are too small for units of 2^-24, or a symbol
            is unknown.
        UnsupportedError: If a part has no form in whole numbers.
    """
    if not x[is_valid].isfinite().all():
        raise ValueError("expected a finite calibration, got NaN or infinity")
    local_arrays: list[Array] = []
    step: list[str] = []
    largest_input = float(x[is_valid].abs().max())
    vector = Vector("input", x.shape[-1], places_for(largest_input))
    if embedding is None and 0 < largest_input < _LEAST_INPUT:
        raise ValueError(
            f"expected a calibration whose largest input is at least {_LEAST_INPUT:.2g}, got "
            f"{largest_input:.2g}: in units of 2^-24 fewer than 7 bits are left, so pass scaling="
        )
    if embedding is not None:
        if x.min() < 0 or x.max() >= len(embedding):
            raise ValueError(
                f"expected symbols from 0 to {len(embedding) - 1} in the calibration, got "
                f"{int(x.min())} to {int(x.max())}"
            )
        x = embedding[x]
        vector = Vector("x", x.shape[-1], places_for(float(embedding.abs().max())))
        local_arrays.append(Array(vector.name, vector.size, kind="int16"))
    first = vector
    written: list[Layer] = []
    saturated: dict[str, float] = {}
    y = x  # of the network with rounded recurrent matrices
    for direction in _directions(layers):
        name = f"layer{len(written)}"
        matrices = rounded_matrices(direction, source.bits)
        run = _run(direction, x)
        largest = {part: float(size[is_valid].max()) for part, size in run.sizes.items()}
        for part, values in _parts(direction, direction.initial_state(1)).items():
            largest[part] = max(largest[part], float(values.abs().max()))
        found = TEMPLATES[type_before_parametrizations(direction)](
            RoundedDirection(direction, matrices, largest), name, source, vector
        )
        arguments = f"state, {vector.name}"
        vector = found.output
        if not vector.name.startswith("state"):
            local_arrays.append(Array(vector.name, vector.size, kind="int16"))
            arguments += f", {vector.name}"
        step.append(f"{name}({arguments});")
        written.append(found.layer.named(name))
        x = run.outputs
        if matrices:
            direction = copy.deepcopy(direction)  # noqa: PLW2901, with the rounded matrices
            direction.frozen = torch.cat([torch.tensor(each.matrix()) for each in matrices])
        run = _run(direction, y)
        y = run.outputs
        saturated[name] = _share(run.sizes, found.limits, is_valid)
    output = vector
    if head is None:
        step.append(loop(vector.size, f"output[i] = {vector.name}[i];"))
    else:
        written_head = _write_head(head, vector, x, y, is_valid, source)
        output = written_head.output
        local_arrays.append(written_head.sums)
        step += written_head.step
        saturated["head"] = written_head.saturated
    if embedding is not None:
        if head is not None and head.weight is embedding:
            stored = source.values["head"]
        else:
            term = source.term(source.rounded(embedding), 0)
            comment = f"the embedding, {tuple(embedding.shape)}"
            stored = source.store("embedding", term, term.exponent, comment)
        step.insert(0, source.symbol(stored, first))
    return IntegerNetwork(
        layers=written,
        locals=local_arrays,
        step="\n".join(step),
        input_places=first.places if embedding is None else None,
        output_places=output.places,
        output_size=output.size,
        saturated=saturated,
    )


@dataclass(frozen=True)
class _WrittenHead:
    """The lines of a head, its outputs, the array of its sums, and the share beyond the range."""

    output: Vector
    sums: Array
    step: list[str]
    saturated: float


def _write_head(
    head: Head,
    vector: Vector,
    x: Tensor,  # (T, B, N), the states of the network
    y: Tensor,  # (T, B, N), those of the network with rounded recurrent matrices
    is_valid: Tensor,  # (T, B)
    source: IntegerSource,
) -> _WrittenHead:
    """Write the head, whose outputs have as many places as the calibration leaves room for."""
    K = len(head.weight)
    term = source.term(source.rounded(head.weight), vector.places)
    places = places_of_sum([term], [head.bias])
    largest = float(F.linear(x, head.weight, head.bias)[is_valid].abs().max())
    output = Vector("output", K, min(places, places_for(largest)))
    source.values["head_places"] = {"z": places, "output": output.places}
    source.helpers |= {"saturated", "rounded_shift"}
    shift = places - output.places
    comment = f"the head, {tuple(head.weight.shape)}"
    step = [
        source.at_start("z", K, head.bias, places, "head_bias", "the bias of the head"),
        source.product("head", term, vector.name, "z", places, comment),
        loop(K, f"output[i] = saturated(rounded_shift(z[i], {shift}));"),
    ]
    sizes = {"output": F.linear(y, head.weight, head.bias).abs().amax(-1)}
    saturated = _share(sizes, {"output": output.largest}, is_valid)
    return _WrittenHead(output, Array("z", padded(K), kind="int32"), step, saturated)


def padded_sequences(
    calibration: Any,
    M: int | None,
    *,
    batch_first: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return sequences of M inputs, or of symbols, of one length, and which steps are theirs.

    Args:
        calibration: The sequences: one tensor, or several tensors.
        M: The number of inputs; None for symbols.
        batch_first: Whether one tensor has the axis of the sequences first.
    Returns:
        The sequences (T, B, M), or (T, B), and the truth values (T, B).
    Raises:
        ValueError: If their shape or their dtype does not fit, or there are none.
    """
    of_step = () if M is None else (M,)
    several = _several(calibration)
    if several is None:
        values = torch.as_tensor(calibration)
        if values.dim() == 1 + len(of_step):
            values = values.unsqueeze(0 if batch_first else 1)
        if values.dim() != 2 + len(of_step) or 0 in values.shape:
            axes = ", ".join(["B, T" if batch_first else "T, B", *map(str, of_step)])
            shape = tuple(values.shape)
            raise ValueError(f"expected a calibration of shape ({axes}), got {shape}")
        several = list(values.unbind(0 if batch_first else 1))
    if not several:
        raise ValueError("expected sequences for the calibration, got none")
    tensors = [torch.as_tensor(each).cpu() for each in several]
    shapes = {tuple(each.shape[1:]) for each in tensors}
    if shapes != {of_step}:
        axes = ", ".join(["T", *map(str, of_step)])
        raise ValueError(
            f"expected a calibration of sequences ({axes}), got steps of shapes {shapes}"
        )
    x = pad_sequence(tensors)
    if x.is_complex() or (M is None and (x.is_floating_point() or x.dtype == torch.bool)):
        kind = "integers" if M is None else "real numbers"
        raise ValueError(f"expected a calibration of {kind}, got {x.dtype}")
    lengths = torch.tensor([len(each) for each in tensors])
    is_valid = torch.arange(len(x))[:, None] < lengths
    if M is None:
        return x.long(), is_valid
    return x.double(), is_valid


def _several(calibration: Any) -> list[Any] | None:
    """Return the sequences of a calibration; None if it is one tensor, or numbers in lists."""
    if isinstance(calibration, PackedSequence):
        return unpack_sequence(calibration)
    if isinstance(calibration, Iterator):
        return list(cast("Iterator[Any]", calibration))
    if not isinstance(calibration, list | tuple):
        return None
    sequences = list(cast("Sequence[Any]", calibration))
    return None if sequences and np.ndim(sequences[0]) == 0 else sequences


def _directions(layers: Sequence[Any]) -> list[Any]:
    """Return the directions of all layers.

    Raises:
        UnsupportedError: If one has no template.
    """
    directions: list[Any] = []
    for layer in layers:
        if isinstance(layer, ResidualStack):
            raise UnsupportedError("a ResidualStack")
        for direction in directions_of(layer):
            if type_before_parametrizations(direction) not in TEMPLATES:
                raise UnsupportedError(f"a {type(layer).__name__}")
            directions.append(direction)
    return directions


def rounded_matrices(direction: AbstractDirection, bits: int) -> list[RoundedMatrix]:
    """Round the recurrent matrices; the search for neighbours runs here and nowhere else.

    Raises:
        UnsupportedError: If they are complex.
    """
    if not direction.has_matrix:
        return []
    found: list[RoundedMatrix] = []
    for constraint, matrix in zip(direction.constraints(), direction.matrices(), strict=True):
        if constraint.is_complex:
            raise UnsupportedError("complex states")
        trained = _trained_points(constraint)
        if trained is None or trained.bits() > bits:
            exact = constraint.inner() if isinstance(constraint, Rounded) else matrix
            # 16 bits move an eigenvalue by less than 0.0001, and need no search
            found.append(rounded(exact, bits) if bits == 8 else nearest(exact, bits))
        elif trained.bits() < bits == 16:
            # sums of 16 bits lose their last places, which those of a coarse grid need
            found.append(nearest(trained.matrix(), bits))
        else:
            found.append(trained)
    return found


def _trained_points(constraint: Constraint) -> RoundedMatrix | None:
    """Return the whole numbers that the network was trained with, if there are any.

    It loses by any others.
    """
    if isinstance(constraint, Rounded):
        return nearest(constraint.inner(), constraint.bits)
    if isinstance(constraint, WholeNumbers):
        integers = constraint.integers.numpy(force=True)
        apart = abs(integers).argmax(axis=1)
        return RoundedMatrix(integers, apart, constraint.scales.numpy(force=True).astype(float))
    return None


@dataclass(frozen=True)
class _Run:
    """The outputs of a layer, and the largest number of each part at each step.

    Shape:
        outputs: :math:`(T, B, K)`.
        sizes: :math:`(T, B)` each.
    """

    outputs: Tensor
    sizes: dict[str, Tensor]


def _run(
    direction: Any,
    x: Tensor,  # (T, B, M)
) -> _Run:
    """Run a layer step by step, so that its states are seen."""
    state = direction.initial_state(x.shape[1])
    outputs: list[Tensor] = []
    sizes: dict[str, list[Tensor]] = {"state": [], "cell": [], "output": []}
    for x_t in x:
        y, state = direction(x_t[None], state)
        for part, values in {"output": y[0], **_parts(direction, state)}.items():
            sizes[part].append(values.abs().amax(-1))
        outputs.append(y[0])
    stacked = {part: torch.stack(size) for part, size in sizes.items() if size}
    return _Run(torch.stack(outputs), stacked)


def _parts(
    direction: AbstractDirection,
    state: Tensor,  # (B, S)
) -> dict[str, Tensor]:
    """Return the parts of a state by name."""
    if "cell" not in direction.state_blocks():
        return {"state": state}
    h, cell = state.split(direction.hidden_size, -1)
    return {"state": h, "cell": cell}


def _share(
    sizes: Mapping[str, Tensor],  # (T, B) each
    limits: Mapping[str, float],
    is_valid: Tensor,  # (T, B)
) -> float:
    """Return the share of the steps in which a part exceeds its limit by a unit or more.

    A tanh of one is cut to the limit too, which is no more than a rounding.
    """
    exceeds = torch.zeros_like(is_valid)
    for part, limit in limits.items():
        unit = limit / LARGEST
        exceeds |= ~(sizes[part] <= limit + unit)  # a state that is NaN exceeds too
    return float(exceeds[is_valid].double().mean())
