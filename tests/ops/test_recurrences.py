"""Every backend of every recurrence has the values and gradients of the reference.

The options are crossed in pairs: each value of each option meets each value of every other.
"""

from functools import cache, partial

import pytest
import torch
from recurrence_cases import BACKENDS, FORMS, RECORDS, draw, exact, results_and_gradients

from cases import NONLINEARITIES
from crossing import cover
from eigenrnn import ops
from eigenrnn.linalg import tol
from eigenrnn.nonlinearities import NONLINEARITIES as FUNCTIONS
from eigenrnn.ops.dispatch import Call
from eigenrnn.ops.gru.operands import form_features
from kernel_testing import assert_near, assert_passes_with_isa, each_isa, ragged_sizes

pytestmark = pytest.mark.usefixtures("fresh_memory_is_poisoned")

REAL = [torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
SHAPES = [(1, 1, 1), (2, 3, 1), (9, 5, 33), (5, 17, 6), (33, 2, 17)]
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
    "lstm": {"dtype": REAL, **COMMON},
    "linear": {"gated": [False, True], "dtype": [*REAL, *COMPLEX], **COMMON, "M": [None]},
}


def can_run(
    kind,
    backend,
    *,
    dtype,
    shape,
    resets,
    case="tanh",
    form=None,
    normed=False,
    mixing=None,
    **_,
):
    """Whether the library defines the call, and the backend computes it."""
    f = FUNCTIONS[NONLINEARITIES[case][0]]
    is_single = dtype in {torch.float32, torch.complex64}
    # in single precision modReLU amplifies rounding errors at its jump
    if is_single and case.startswith("modrelu"):
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
    if form is not None:
        features += form_features(*FORMS[form])
    states = len(RECORDS[kind].states) * shape[2] * (2 if dtype.is_complex else 1)
    call = Call("cpu", dtype, f.name, False, states, tuple(features))
    return BACKENDS[kind][backend].reason_against(call) is None


@cache
def rows():
    """The cover of pairs of each recurrence, and three others for the long tests."""
    parameters = []
    for kind, axes in AXES.items():
        backends = [name for name in BACKENDS[kind] if name != "reference"]
        crossed = {"backend": backends} | axes
        for seed in range(4):
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


def evaluated(kind, tensors, options, backend):
    def run(leaves):
        keywords = dict(leaves)
        if "gain" in keywords:
            keywords["layer_norm"] = keywords.pop("gain"), keywords.pop("shift")
        if "leaks" in keywords:
            keywords["leak"] = keywords.pop("leaks")
        return getattr(ops, kind)(**keywords, **options, backend=backend)

    return results_and_gradients(RECORDS[kind], tensors, run)


@pytest.mark.parametrize(("kind", "row"), rows())
def test_a_backend_gives_the_values_and_gradients_of_the_reference(kind, row):
    tensors, options = arguments_of(kind, row)
    got = evaluated(kind, tensors, options, row["backend"])
    expected = evaluated(kind, exact(tensors), options, "reference")
    T, B, N = row["shape"]
    # rounding errors add up over T steps, each with a sum over N or M, and in gradients over B
    assert_near(got, expected, tol(row["dtype"], T + B + N + (row["M"] or 0)))


@pytest.mark.parametrize("kind", AXES)
def test_every_backend_and_feature_is_crossed(kind):
    crossed = [parameter.values[1] for parameter in rows() if parameter.values[0] == kind]
    for name, values in AXES[kind].items():
        assert {str(row[name]) for row in crossed} == {str(value) for value in values}
    available = {name for name, each in BACKENDS[kind].items() if each.unavailable() is None}
    assert {row["backend"] for row in crossed} == available - {"reference"}


@each_isa
def test_every_instruction_set_passes_the_tests(isa):
    assert_passes_with_isa(isa, __file__, "-k", "cpu")


@pytest.mark.parametrize("kind", AXES)
def test_by_default_all_steps_run_forwards_and_are_returned(kind):
    tensors = draw(RECORDS[kind], (5, 3, 4))
    with torch.no_grad():
        h, last, *_ = getattr(ops, kind)(**tensors)
    assert h.shape == (5, 3, 4)
    assert torch.equal(h[-1], last)
