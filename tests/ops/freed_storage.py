"""Calls every op and layer with tensors whose storage was freed, as sharded training frees it.

A read of freed storage ends the process, so the tests run this script in one of its own. It prints
each case before it tries it.
"""

import sys
from collections.abc import Callable
from typing import Any

import torch

import eigenrnn
from eigenrnn import Stream

SIZES = {"T": 4, "B": 3, "M": 2, "N": 5, "K": 2}
OPERANDS = {
    "elman": {"x": (4, 3, 2), "W": (5, 5), "h0": (3, 5), "bias": (5,), "U": (5, 2), "c": (5,)},
    "gru": {"x": (4, 3, 2), "W": (15, 5), "h0": (3, 5), "U": (15, 2), "c": (15,)},
    "lstm": {"x": (4, 3, 2), "W": (20, 5), "h0": (3, 5), "c0": (3, 5), "U": (20, 2), "c": (20,)},
    "linear": {"x": (4, 3, 5), "decay": (5,), "h0": (3, 5)},
    "delta": {
        "q": (4, 3, 2, 5),
        "k": (4, 3, 2, 1, 5),
        "v": (4, 3, 2, 1, 5),
        "beta": (4, 3, 2, 1),
        "log_decay": (4, 3, 2),
        "S0": (3, 2, 5, 5),
    },
}
"""Of recurrences whose optional operands are freed too, or whose axes do not say their shapes."""

LAYERS: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {}),
    ("RNN", {"nonlinearity": "tanh", "backend": "torch"}),
    ("RNN", {"backend": "loop"}),
    ("GRU", {}),
    ("GRU", {"backend": "reference"}),
    ("LSTM", {}),
    ("LSTM", {"backend": "torch"}),
    ("LRU", {}),
    ("MinGRU", {}),
    ("DeltaNet", {"gated": True, "convolution": 2, "output_gate": True}),
    ("ScuRNN", {}),
    ("EURNN", {}),
    ("NnRNN", {}),
    ("DtrivRNN", {}),
]
NAMED_LAYERS = [
    "ScoRNN",
    "ScuRNN",
    "ExpRNN",
    "DtrivRNN",
    "FullCapacityURNN",
    "ORNN",
    "SpectralRNN",
    "NnRNN",
    "ENRNN",
    "EURNN",
    "URNN",
    "NCGRU",
    "GORU",
]
"""Layers whose sets have buffers, and sets inside."""

LENGTHS = [4, 9]


def freed(tensor: torch.Tensor) -> torch.Tensor:
    """Free the storage of a tensor and return it."""
    tensor.untyped_storage().resize_(0)
    return tensor


def check_refused(case: str, call: Callable[[], Any]) -> None:
    """Check that a call raises an error about memory, ours or torch's.

    Raises:
        AssertionError: If it does not.
    """
    print(case, flush=True)  # noqa: T201, shows which case ended the process
    try:
        call()
    except (ValueError, RuntimeError) as error:
        text = str(error)
        if not any(words in text for words in ("tensor with memory", "setStorage", "allocated")):
            raise AssertionError(f"{case}: {text}") from error
    else:
        raise AssertionError(f"{case}: no error")


def values(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return small values, which every op accepts."""
    drawn = torch.rand(shape) / 4
    return -drawn if name == "log_decay" else drawn


def check_op(name: str, backend: str) -> None:
    """Free one operand after another."""
    op = getattr(eigenrnn.ops, name)
    record = eigenrnn.ops.BACKENDS[name]["reference"].recurrence
    shapes = dict(OPERANDS.get(name, {}))
    for operand in () if shapes else (*record.required, *record.states):
        axes = record.axes[operand]
        shapes[operand] = tuple(int(axis[:-1] or 1) * SIZES[axis[-1]] for axis in axes)
    options = {}
    if backend == "torch":
        shapes.pop("bias", None)
    elif "bias" in shapes:
        options = {"nonlinearity": "modrelu"}
    for operand in shapes:
        operands = {each: values(each, shape) for each, shape in shapes.items()}
        op(**operands, backend=backend, **options)
        freed(operands[operand])
        check_refused(
            f"{operand} of {name} on {backend}",
            lambda operands=operands: op(**operands, backend=backend, **options),
        )


def check_options() -> None:
    """Free what the options of a recurrence hold, and a weight to initialise."""
    x = torch.randn(4, 3, 5)
    W = torch.eye(5)
    one = torch.ones(5)
    options: dict[str, dict[str, Any]] = {
        "gain": {"layer_norm": (freed(torch.ones(5)), one)},
        "shift": {"layer_norm": (one, freed(torch.ones(5)))},
        "mask": {"zoneout": freed(torch.ones(4, 3, 5, dtype=torch.bool))},
        "leak": {"leak": freed(torch.ones(5))},
    }
    for name, given in options.items():
        check_refused(name, lambda given=given: eigenrnn.ops.elman(x, W, **given))


def check_weights(name: str, options: dict[str, Any]) -> None:
    """Free one weight after another, of a layer and of a frozen layer with a stream."""
    make = getattr(eigenrnn, name)
    x = torch.randn(9, 2, 3)
    for weight, _ in make(3, 8, **options).named_parameters():
        layer = make(3, 8, **options)
        freed(layer.get_parameter(weight))
        check_refused(f"{weight} of {name} {options}", lambda layer=layer: layer(x))
    for weight in dict(make(3, 8, **options).directions[0].named_parameters(recurse=False)):
        frozen = make(3, 8, **options).freeze()
        stream = Stream(frozen)
        stream(x[0, 0])
        freed(frozen.directions[0].get_parameter(weight))
        case = f"{weight} of frozen {name} {options}"
        if weight == "h0":  # read at the beginning of a sequence only
            check_refused(case, stream.reset)
        else:
            check_refused(case, lambda stream=stream: stream(x[0, 0]))


def check_constraints() -> None:
    """Free one tensor after another of every set, also of sets inside a set."""
    for name in NAMED_LAYERS:
        tensors = dict(getattr(eigenrnn, name)(2, 8).named_buffers())
        tensors |= dict(getattr(eigenrnn, name)(2, 8).named_parameters())
        for tensor in tensors:
            layer = getattr(eigenrnn, name)(2, 8)
            holder, _, attribute = tensor.rpartition(".")
            freed(getattr(layer.get_submodule(holder), attribute))
            check_refused(f"{tensor} of {name}", lambda layer=layer: layer(torch.randn(4, 2, 2)))


def check_inputs(name: str, options: dict[str, Any]) -> None:
    """Free the inputs and the states of a layer and of a stream."""
    layer = getattr(eigenrnn, name)(3, 8, **options)
    x = torch.randn(9, 2, 3)
    case = f"{name} {options}"
    check_refused(f"inputs of {case}", lambda: layer(freed(x.clone())))
    # sequences of different lengths are sorted before any recurrence reads them
    check_refused(f"inputs by length of {case}", lambda: layer(freed(x.clone()), lengths=LENGTHS))
    state = layer.initial_state(2)
    is_pair = isinstance(state, tuple)
    for place in range(2 if is_pair else 1):
        copies = [each.detach().clone() for each in (state if is_pair else (state,))]
        freed(copies[place])
        given = tuple(copies) if is_pair else copies[0]
        check_refused(
            f"state {place} of {case}", lambda given=given: layer(x, given, lengths=LENGTHS)
        )
        check_refused(
            f"state {place} of a stream of {case}",
            lambda given=given: setattr(Stream(layer, 2), "state", given),
        )
    stream = Stream(layer.freeze())
    stream(x[0, 0])
    check_refused(f"inputs of a stream of {case}", lambda: stream(freed(torch.randn(3))))


def main(part: str) -> None:
    """Check the ops, the layers or the constraints."""
    if part == "ops":
        for name, backends in eigenrnn.ops.BACKENDS.items():
            for backend in backends:
                check_op(name, backend)
        check_options()
        return
    if part == "constraints":
        check_constraints()
        return
    for name, options in LAYERS:
        check_weights(name, options)
        check_inputs(name, options)


if __name__ == "__main__":
    main(sys.argv[1])
