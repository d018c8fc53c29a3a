"""What stands past the end of a sequence has no effect, not even if it is NaN."""

import pytest
import torch

from cases import NAMED, OURS
from draws import normal
from eigenrnn.ops import elman, gru, linear, lstm
from eigenrnn.ops.elman import BACKENDS as ELMAN
from eigenrnn.ops.gru import BACKENDS as GRU_BACKENDS
from eigenrnn.ops.linear import BACKENDS as LINEAR
from eigenrnn.ops.lstm import BACKENDS as LSTM
from kernel_testing import each_direction

T, B, N, M = 5, 3, 4, 2
SIZES = [3, 3, 2, 1, 0]  # no sequence runs at the last step
LENGTHS = torch.tensor([2, 5, 3])
# the function, its number of gates, its backends
RECURRENCES = {"elman": (elman, 1, ELMAN), "gru": (gru, 3, GRU_BACKENDS), "lstm": (lstm, 4, LSTM)}
EACH = [
    (name, backend)
    for name, (_, _, backends) in RECURRENCES.items()
    for backend in backends
    if backends[backend].unavailable() is None and torch.float64 in backends[backend].dtypes
]


def past_the_end(x, value):
    """Return the steps with a value past the end of each sequence."""
    ends = torch.tensor(SIZES).unsqueeze(1)
    return torch.where((torch.arange(B) < ends).unsqueeze(2), x, value)


def results(run, tensors, **options):
    """Return the results of a recurrence and the gradients of all its tensors."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}
    found = run(**leaves, **options)
    total = sum(each.sin().sum() for each in found)
    return [*found, *torch.autograd.grad(total, list(leaves.values()))]


def assert_same_for_any_padding(run, tensors, names, **options):
    def with_padding(value):
        padded = {name: past_the_end(tensors[name], value) for name in names}
        return results(run, tensors | padded, **options)

    for one, other in zip(with_padding(torch.nan), with_padding(0.0), strict=True):
        assert torch.equal(one, other)


@each_direction
@pytest.mark.parametrize(("name", "backend"), EACH, ids=map("-".join, EACH))
def test_padding_has_no_effect_on_a_recurrence(name, backend, reverse):
    run, gates, _ = RECURRENCES[name]
    width = gates * N
    tensors = {"x": normal(T, B, M), "W": normal(width, N, seed=1) / 2, "h0": normal(B, N)}
    tensors |= {"U": normal(width, M), "c": normal(width)}
    options = {"nonlinearity": "tanh"} if name == "elman" else {}
    options |= {"batch_sizes": SIZES, "reverse": reverse, "backend": backend}
    assert_same_for_any_padding(run, tensors, ["x"], **options)


@each_direction
@pytest.mark.parametrize("backend", ["loop", "reference", "torch"])
def test_padding_has_no_effect_on_a_gru_with_zoneout(backend, reverse):
    tensors = {"x": normal(T, B, M), "W": normal(3 * N, N, seed=1) / 2, "U": normal(3 * N, M)}
    mask = normal(T, B, N, seed=2) < 0
    options = {"zoneout": mask, "batch_sizes": SIZES, "reverse": reverse, "backend": backend}
    assert_same_for_any_padding(gru, tensors, ["x"], **options)


@each_direction
@pytest.mark.parametrize("backend", LINEAR)
def test_padding_has_no_effect_on_the_linear_recurrence(backend, reverse):
    tensors = {"x": normal(T, B, N), "decay": normal(T, B, N).sigmoid(), "h0": normal(B, N)}
    options = {"batch_sizes": SIZES, "reverse": reverse, "backend": backend}
    assert_same_for_any_padding(linear, tensors, ["x", "decay"], **options)


@pytest.mark.parametrize("name", [*OURS, *NAMED])
def test_padding_has_no_effect_on_a_layer(name):
    layer = (OURS | NAMED)[name](M, 8)
    x = normal(T, B, M).float()
    gradients = []
    for value in (torch.nan, 0.0):
        padded = x.clone()
        for column, length in enumerate(LENGTHS):
            padded[length:, column] = value
        output, _ = layer(padded, lengths=LENGTHS.byte())
        gradients.append([output, *torch.autograd.grad(output.sin().sum(), layer.parameters())])
    assert all(map(torch.equal, *gradients))
