"""Every backend of every recurrence has the values and gradients of the reference.

The options are crossed in pairs: each value of each option meets each value of every other.
"""

from functools import cache, partial

import pytest
import torch
from recurrence_cases import (
    BACKENDS,
    FORMS,
    RECORDS,
    draw,
    exact,
    results_and_gradients,
    weight_of,
)

from cases import NONLINEARITIES
from crossing import cover
from eigenrnn import ops
from eigenrnn.linalg import tol
from eigenrnn.nonlinearities import NONLINEARITIES as FUNCTIONS
from eigenrnn.ops.dispatch import Call
from eigenrnn.ops.elman.cpu import elman_cpu_norm_zoneout
from eigenrnn.ops.elman.loop import elman_loop
from eigenrnn.ops.gru.cpu import gru_cpu, gru_cpu_norm_zoneout
from eigenrnn.ops.gru.loop import gru_loop, gru_loop_resets
from eigenrnn.ops.gru.reference import form_features
from eigenrnn.ops.linear.cpu import linear_cpu
from eigenrnn.ops.linear.scan import linear_scan
from eigenrnn.ops.lstm.cpu import lstm_cpu
from kernel_testing import (
    assert_near,
    each_direction,
    each_raggedness,
    ragged_sizes,
)

pytestmark = pytest.mark.usefixtures("fresh_memory_is_poisoned")

REAL = [torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
SIXTEEN = torch.bfloat16, torch.float16
SMALL = [(1, 1, 1), (2, 3, 1), (4, 3, 5), (3, 2, 4), (3, 0, 4)]
SHAPES = [*SMALL[:3], (9, 5, 33), (5, 17, 6), (33, 2, 17), (3, 0, 4)]
RATE = 0.3
# one for each unit, and one for each unit of each sequence and step
LEAKS = {"leak": "leak", "current": "leak", "leaks": "leaks", "currents": "leaks"}
COMMON = {
    "M": [None, 1, 3, 37],
    "reverse": [False, True],
    "ragged": [False, True],
    "resets": [False, True],
    "shape": SHAPES,
}
AXES = {
    "elman": {
        "case": list(NONLINEARITIES),
        "dtype": [*REAL, *COMPLEX],
        "normed": [False, True],
        "mixing": [None, "mask", "rate", "leak", "leaks", "current", "currents"],
        **COMMON,
    },
    "gru": {
        "case": list(NONLINEARITIES),
        "form": list(FORMS),
        "dtype": REAL,
        "normed": [False, True],
        "mixing": [None, "mask", "rate"],
        **COMMON,
    },
    "linear": {"gated": [False, True], "dtype": [*REAL, *COMPLEX], **COMMON, "M": [None]},
}
# others have matrices and no options of their own
AXES = {name: AXES.get(name, {"dtype": REAL, **COMMON}) for name in RECORDS}


def can_run(
    kind,
    backend,
    *,
    dtype,
    shape,
    resets,
    ragged,
    case="tanh",
    form=None,
    normed=False,
    mixing=None,
    **_,
):
    """Whether the library defines the call, and the backend computes it."""
    f = FUNCTIONS[NONLINEARITIES[case][0]]
    if ragged and shape[1] == 0:
        return False
    # the interpreter takes seconds for others; `test_triton.py` has more numbers of units
    if backend == "triton" and shape not in SMALL:
        return False
    is_exact = dtype in {torch.float64, torch.complex128}
    # in lower precision modReLU amplifies rounding errors at its jump
    if not is_exact and case.startswith("modrelu"):
        return False
    # LayerNorm amplifies those of one or two units, whose deviation may be zero
    if normed and shape[2] <= 2:
        return False
    needs_real = normed or mixing in LEAKS or not f.supports_complex
    if dtype.is_complex and kind == "elman" and needs_real:
        return False
    if resets and mixing in {"current", "currents"}:
        return False
    features = ["layer_norm"] if normed else []
    features += ["resets"] if resets else []
    # a gated recurrence can also write a mask as inputs
    if mixing == "rate" or (mixing == "mask" and (normed or kind == "elman")):
        features.append("zoneout")
    if mixing in LEAKS:
        features.append("leak")
    if mixing in {"current", "currents"}:
        features.append("current")
    if form is not None:
        features += form_features(*FORMS[form])
    states = len(RECORDS[kind].states) * shape[2] * (2 if dtype.is_complex else 1)
    call = Call("cpu", dtype, f.name, False, states, tuple(features))
    return BACKENDS[kind][backend].reason_against(call) is None


@cache
def rows(seeds=range(4), **fixed):
    """The cover of pairs of each recurrence, and three others for the long tests."""
    parameters = []
    for kind, axes in AXES.items():
        backends = [name for name in BACKENDS[kind] if name != "reference"]
        crossed = {"backend": backends} | axes | fixed
        for seed in seeds:
            for row in cover(crossed, partial(can_run, kind), seed):
                marks = () if seed == 0 else pytest.mark.long
                name = "-".join(str(value) for value in row.values())
                parameters.append(pytest.param(kind, row, id=f"{kind}-{name}", marks=marks))
    return parameters


def arguments_of(kind, row):
    """Return the tensors of a call and its other arguments."""
    shape = T, B, N = row["shape"]
    record = RECORDS[kind]
    more = ["resets"] if row["resets"] else []
    options = {"reverse": row["reverse"]}
    if row["ragged"]:
        options["batch_sizes"] = ragged_sizes(T, B)
    if "case" in row:
        options["nonlinearity"], has_bias = NONLINEARITIES[row["case"]]
        more += ["bias"] if has_bias else []
        more += ["gain", "shift"] if row["normed"] else []
    if "form" in row:
        options["reset_after"], options["update_keeps"] = FORMS[row["form"]]
        more += ["recurrent_bias"] if options["reset_after"] else []
    mixing = row.get("mixing")
    if mixing in LEAKS:
        more.append(LEAKS[mixing])
        options["state"] = "current" if mixing.startswith("current") else "rate"
    if mixing == "mask":
        generator = torch.Generator().manual_seed(3)
        options["zoneout"] = torch.rand(T, B, N, generator=generator) < RATE
    if mixing == "rate":
        options["zoneout"] = RATE
    gated = row.get("gated", False)
    return draw(record, shape, row["dtype"], M=row["M"], more=more, gated=gated), options


def run(kind, tensors, options, backend=None):
    keywords = dict(tensors)
    if "gain" in keywords:
        keywords["layer_norm"] = keywords.pop("gain"), keywords.pop("shift")
    if "leaks" in keywords:
        keywords["leak"] = keywords.pop("leaks")
    return getattr(ops, kind)(**keywords, **options, backend=backend)


def evaluated(kind, tensors, options, backend):
    return results_and_gradients(
        RECORDS[kind], tensors, lambda leaves: run(kind, leaves, options, backend)
    )


@pytest.mark.parametrize(("kind", "row"), rows())
def test_a_backend_gives_the_values_and_gradients_of_the_reference(kind, row):
    tensors, options = arguments_of(kind, row)
    got = evaluated(kind, tensors, options, row["backend"])
    expected = evaluated(kind, exact(tensors), options, "reference")
    T, B, N = row["shape"]
    # rounding errors add up over T steps, each with a sum over N or M, and in gradients over B
    assert_near(got, expected, tol(row["dtype"], T + B + N + (row["M"] or 0)))


@pytest.mark.parametrize(("kind", "row"), rows((0,), dtype=SIXTEEN, shape=((3, 2, 4),)))
def test_sixteen_bits_agree_with_double_precision_up_to_rounding(kind, row):
    tensors, options = arguments_of(kind, row)
    got = evaluated(kind, tensors, options, row["backend"])
    assert {each.dtype for each in got.values()} == {row["dtype"]}
    assert_near(got, evaluated(kind, exact(tensors), options, "reference"), tol(row["dtype"], 3))


RESETTING = [
    (kind, name)
    for kind, backends in BACKENDS.items()
    for name, backend in backends.items()
    if "resets" in backend.features and backend.unavailable() is None
]


@pytest.mark.pairs
@each_direction
@each_raggedness
@pytest.mark.parametrize("value", [torch.nan, torch.inf], ids=str)
@pytest.mark.parametrize("resetting", RESETTING, ids="-".join)
def test_an_initial_state_that_is_not_finite_does_not_survive_a_reset(
    resetting, value, ragged, reverse
):
    kind, backend = resetting
    T, B, N = shape = 5, 3, 4
    record = RECORDS[kind]
    options = {"reverse": reverse, "batch_sizes": ragged_sizes(T, B) if ragged else None}
    tensors = draw(record, shape, torch.float32)
    tensors["resets"] = torch.zeros(T, B, dtype=torch.bool)
    for b, length in enumerate((5, 4, 2) if ragged else (T,) * B):
        tensors["resets"][length - 1 if reverse else 0, b] = True
    replaced = {name: torch.full((B, N), value) for name in record.states if name in tensors}
    got = evaluated(kind, tensors | replaced, options, backend)
    zeros = {name: torch.zeros(B, N) for name in replaced}
    expected = evaluated(kind, exact(tensors | zeros), options, "reference")
    assert_near(got, expected, tol(torch.float32, T + B + N))


PLAIN = {"case": "tanh", "M": None, "reverse": False, "ragged": False, "resets": False}


@pytest.mark.parametrize("options", [{}, {"normed": True, "mixing": "rate"}], ids=str)
@pytest.mark.parametrize("kind", AXES)
def test_autocast_runs_the_recurrence_in_float32_and_rounds_what_it_returns_of_each_step(
    kind, options
):
    row = {"dtype": torch.bfloat16, "shape": (5, 3, 4), "normed": False} | PLAIN | options
    row = {name: value for name, value in row.items() if name in AXES[kind]}
    rounded, arguments = arguments_of(kind, row)
    with torch.autocast("cpu", torch.bfloat16):
        got = run(kind, rounded, arguments)
    h, *last = run(kind, {name: v.float() for name, v in rounded.items()}, arguments)
    if hasattr(RECORDS[kind].operands, "W"):  # the others have no products with a matrix
        h = h.bfloat16()
    assert all(map(torch.equal, got, (h, *last)))


@pytest.mark.parametrize("kind", AXES)
def test_every_backend_and_feature_is_crossed(kind):
    crossed = [parameter.values[1] for parameter in rows() if parameter.values[0] == kind]
    for name, values in AXES[kind].items():
        assert {str(row[name]) for row in crossed} == {str(value) for value in values}
    available = {name for name, each in BACKENDS[kind].items() if each.unavailable() is None}
    assert {row["backend"] for row in crossed} == available - {"reference"}


COMPLEX_CALL = dict.fromkeys(("x", "W", "h0"), torch.complex64)
ONES = torch.ones(2)
REJECTED = [
    ("elman", {"x": torch.zeros(3, 2)}, ValueError, r"got \(3, 2\)"),
    ("elman", {"h0": torch.zeros(2, 2)}, ValueError, r"got \(2, 2\)"),
    ("elman", {"bias": ONES}, ValueError, "no bias, as tanh has none"),
    ("elman", {"nonlinearity": "sine"}, ValueError, "got 'sine'"),
    ("elman", {"h0": torch.zeros(3, 2).double()}, TypeError, "h0 .*got torch.float64"),
    (
        "elman",
        COMPLEX_CALL | {"nonlinearity": "modrelu", "bias": ONES.cfloat()},
        TypeError,
        "bias .*got torch.complex64",
    ),
    ("elman", COMPLEX_CALL, ValueError, "got 'tanh'"),
    ("elman", {"batch_sizes": [3, 1, 2, 1]}, ValueError, "fall from 3"),
    ("elman", {"zoneout": torch.zeros(4, 3, 2).bool().to("meta")}, ValueError, "got meta"),
    ("elman", {"zoneout": 1.0}, ValueError, "got 1.0"),
    ("elman", {"zoneout": float("nan")}, ValueError, "got nan"),
    ("elman", {"zoneout": torch.zeros(3, 2).bool()}, ValueError, r"got \(3, 2\)"),
    ("elman", {"zoneout": torch.zeros(4, 3, 2)}, TypeError, "got .*float32"),
    ("elman", {"layer_norm": (ONES[:1], ONES)}, ValueError, r"got \(1,\)"),
    ("elman", {"layer_norm": (ONES, ONES.double())}, TypeError, "got torch.float64"),
    (
        "elman",
        COMPLEX_CALL | {"nonlinearity": "modrelu", "layer_norm": (ONES, ONES)},
        ValueError,
        "complex64",
    ),
    ("elman", {"leak": 1.5}, ValueError, "got 1.5"),
    ("elman", {"leak": 0.5, "zoneout": 0.2}, ValueError, "got both"),
    (
        "elman",
        COMPLEX_CALL | {"nonlinearity": "modrelu", "leak": 0.5},
        ValueError,
        "expected real W",
    ),
    ("gru", {"x": torch.zeros(4, 3, 5)}, ValueError, r"got \(4, 3, 5\)"),
    ("gru", {"recurrent_bias": ONES, "reset_after": False}, ValueError, "no recurrent_bias"),
    ("gru", COMPLEX_CALL, TypeError, "got torch.complex64"),
    ("gru", {"layer_norm": (ONES, ONES)}, ValueError, r"got \(2,\)"),
    ("lstm", {"x": torch.zeros(4, 3, 7)}, ValueError, r"got \(4, 3, 7\)"),
    ("lstm", {"c0": torch.zeros(2, 2)}, ValueError, r"got \(2, 2\)"),
    ("lstm", {"c": torch.zeros(8)}, ValueError, "got c alone"),
    ("lstm", COMPLEX_CALL, TypeError, "got torch.complex64"),
    ("linear", {"x": torch.zeros(3, 2)}, ValueError, r"got \(3, 2\)"),
    ("linear", {"decay": ONES[:1]}, ValueError, r"got \(1,\)"),
    ("linear", {"decay": ONES.double()}, TypeError, "got .*64"),
    ("linear", {"batch_sizes": [3, 3, 3]}, ValueError, r"got \[3, 3, 3\]"),
]


@pytest.mark.parametrize(("kind", "changes", "error", "message"), REJECTED)
def test_bad_input_raises_an_error_that_says_what_was_expected(kind, changes, error, message):
    arguments = draw(RECORDS[kind], (4, 3, 2), torch.float32)
    for name, value in changes.items():
        arguments[name] = arguments[name].to(value) if isinstance(value, torch.dtype) else value
    with pytest.raises(error, match=message):
        getattr(ops, kind)(**arguments, backend="reference")


NORM = "gain", "shift"
OPERATORS = [
    (elman_loop, (), {"batch_sizes": [3, 2, 1, 1]}),
    (elman_loop, ("bias",), {"nonlinearity": "modrelu", "reverse": True}),
    (elman_cpu_norm_zoneout, ("bias", "mask", *NORM), {"nonlinearity": "modrelu"}),
    (elman_cpu_norm_zoneout, ("leak", "v0"), {"reverse": True}),
    (elman_cpu_norm_zoneout, ("resets",), {"rate": RATE, "batch_sizes": [3, 2, 1, 1]}),
    (gru_loop, ("recurrent_bias",), {"reverse": True}),
    (gru_loop, ("bias",), {"nonlinearity": "modrelu", "reset_after": False}),
    (gru_loop_resets, ("resets",), {"batch_sizes": [3, 2, 1, 1]}),
    (gru_cpu, ("recurrent_bias",), {"update_keeps": False}),
    (gru_cpu_norm_zoneout, ("mask", *NORM), {"batch_sizes": [3, 2, 1, 1]}),
    (lstm_cpu, (), {"reverse": True}),
    (linear_cpu, (), {}),
    (linear_scan, (), {"reverse": True}),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize(("operator", "more", "options"), OPERATORS)
def test_the_operators_pass_opcheck(operator, more, options, dtype):
    record = operator.recurrence
    if dtype.is_complex and (more or operator not in {elman_loop, linear_cpu}):
        return
    if dtype.is_complex and record.name == "elman":
        options = options | {"nonlinearity": "identity"}
    drawn = draw(record, (4, 3, 2), dtype, more=more)
    plain = record.operands(**drawn)
    options = record.options(**options)
    checks = ["test_schema", "test_autograd_registration", "test_faketensor"]
    # tracing compares all results, and kernels leave the padding of what they save as it was
    if operator in {elman_loop, gru_loop}:
        checks.append("test_aot_dispatch_dynamic")
    needed = [name for name, v in drawn.items() if v.dtype != torch.bool]
    leaves = {name: v.clone().requires_grad_(name in needed) for name, v in drawn.items()}
    arguments = operator.arguments(record.operands(**leaves), options, save=True)
    there = getattr(torch.ops.eigenrnn, operator.name).default
    torch.library.opcheck(there, arguments, test_utils=checks)
    unsaved = operator.arguments(plain, options, save=False)
    torch.library.opcheck(there, unsaved, test_utils=checks)
    results = operator.compute(plain, options, save=True)
    grads = dict.fromkeys(operator.results) | {"h": weight_of(results["h"], 7)}
    arguments = operator.backward_arguments(plain, options, needed, grads, results)
    back = getattr(torch.ops.eigenrnn, f"{operator.name}_backward").default
    torch.library.opcheck(back, arguments)


@pytest.mark.parametrize("kind", AXES)
def test_by_default_all_steps_run_forwards_and_are_returned(kind):
    tensors = draw(RECORDS[kind], (5, 3, 4))
    with torch.no_grad():
        h, last, *_ = getattr(ops, kind)(**tensors)
    assert h.shape == (5, 3, 4)
    assert torch.equal(h[-1], last)
