"""Operands of any recurrence, by the names in its record, and its results with their gradients."""

import torch

from eigenrnn.init import haar_
from eigenrnn.ops.entry import BACKENDS as ALL_BACKENDS

# the delta rule has a file of its own
BACKENDS = {name: backends for name, backends in ALL_BACKENDS.items() if name != "delta"}
RECORDS = {name: backends["reference"].recurrence for name, backends in BACKENDS.items()}
# The forms of the gated recurrence: (reset after the candidate's matrix, update keeps the state).
FORMS = {
    "torch": (True, True),
    "nc-gru": (False, False),
    "nc-gru-tensorflow": (False, True),
    "after-replaces": (True, False),
}
MASKS = {"resets": 2, "mask": 3}  # with so many axes
ALWAYS_REAL = {"bias", "gain", "shift", "leak", "leaks"}
WIDE = {
    torch.float32: torch.float64,
    torch.float64: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float16: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex128: torch.complex128,
}


def draw(record, shape, dtype=torch.float64, *, M=None, more=(), gated=False, seed=0):
    """Draw operands by name.

    Args:
        record: The record of the recurrence.
        shape: T, B and N.
        dtype: The dtype of the states.
        M: The number of channels that a map U and its bias c take; None without them.
        more: Further operands, such as "bias".
        gated: Whether a decay differs from step to step.
        seed: The seed.
    """
    T, B, N = shape
    mapped = record.gates * N
    channels = mapped if M is None else M
    shapes = {
        "x": (T, B, channels),
        "W": (mapped, N),
        "decay": (T, B, N) if gated else (N,),
        "U": (mapped, channels),
        "c": (mapped,),
        "gain": (mapped,),
        "shift": (mapped,),
        "leaks": (T, B, N),
    }
    shapes |= dict.fromkeys(("h0", "c0", "v0"), (B, N)) | dict.fromkeys(
        ("bias", "recurrent_bias", "leak"), (N,)
    )
    names = ["x", *sorted(record.required - {"x"}), *record.states, *more]
    sizes = {"T": T, "B": B, "M": channels, "N": N}
    for name, axes in record.axes.items():
        if name in names and name not in shapes:
            shapes[name] = tuple(int(axis[:-1] or 1) * sizes[axis[-1]] for axis in axes)
    if M is not None:
        names += ["U", "c"]
    generator = torch.Generator().manual_seed(seed)
    wide = WIDE[dtype]
    drawn = {}
    for name in names:
        if name in MASKS:
            drawn[name] = torch.rand((T, B, N)[: MASKS[name]], generator=generator) < 0.3
            continue
        tensor = torch.randn(shapes[name], generator=generator, dtype=wide)
        real = name in ALWAYS_REAL or (name == "x" and M is not None)
        tensor = tensor.real.clone() if real else tensor
        tensor = _scaled(name, tensor, generator)
        drawn[name] = tensor.to(dtype.to_real() if real else dtype)
    return drawn


def _scaled(name, tensor, generator):
    """Keep states bounded: orthogonal or unitary W, a decay and a leak below one."""
    if name == "W":
        N = tensor.shape[1]
        parts = []
        for part in tensor.split(max(1, N)):
            Q = haar_(torch.empty(N, N, dtype=torch.float64), generator=generator)
            phases = part[0].sgn() if tensor.is_complex() else 1.0
            parts.append(Q * phases)
        return torch.cat(parts)
    if name == "decay":
        return tensor / (0.05 + tensor.abs())
    if name in {"leak", "leaks"}:
        return tensor.sigmoid()
    if name == "gain":
        return 1 + tensor / 2
    if name == "U":
        return tensor / max(1, tensor.shape[1]) ** 0.5
    return tensor / 2 if name in {"bias", "c"} else tensor


def exact(tensors):
    """The same numbers in double precision."""
    return {
        name: tensor.to(WIDE.get(tensor.dtype, tensor.dtype)) for name, tensor in tensors.items()
    }


def weight_of(tensor, seed):
    """Random weights of a loss that is linear in a result."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    return torch.randn(tensor.shape, generator=generator, dtype=wide).to(tensor.dtype)


def results_and_gradients(record, tensors, run):
    """Call `run` with leaves by name; return its results and all gradients by name."""
    given = {name: tensor.detach() for name, tensor in tensors.items()}
    leaves = {name: v.requires_grad_() for name, v in given.items() if v.dtype != torch.bool}
    results = run(given)
    weights = [weight_of(result, seed) for seed, result in enumerate(results, start=7)]
    found = torch.autograd.grad(results, tuple(leaves.values()), weights)
    named = zip(record.results, (result.detach() for result in results), strict=False)
    return dict(named) | {
        f"d{name}": gradient for name, gradient in zip(leaves, found, strict=True)
    }
