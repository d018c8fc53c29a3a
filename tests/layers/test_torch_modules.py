"""Torch's own inputs of its module tests: our layers and cells give what torch's give."""

import warnings
from unittest import mock

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from eigenrnn import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from eigenrnn.constraints import Unconstrained
from eigenrnn.layers.stacked import Stacked

OURS = {
    nn.RNN: RNN,
    nn.GRU: GRU,
    nn.LSTM: LSTM,
    nn.RNNCell: RNNCell,
    nn.GRUCell: GRUCell,
    nn.LSTMCell: LSTMCell,
}


@pytest.fixture(params=OURS, ids=lambda theirs: theirs.__name__)
def info(request):
    """Torch's inputs of a module; the import takes seconds, so only these tests do it."""
    # it warns that hypothesis is missing, and would forbid all other tests to set flags of cuDNN
    with warnings.catch_warnings(), mock.patch("torch.backends.disable_global_flags"):
        warnings.simplefilter("ignore", ImportWarning)
        from torch.testing._internal.common_modules import module_db
    (found,) = [info for info in module_db if info.module_cls is request.param]
    return found


def tensors_of(results):
    """All tensors of nested results, in order."""
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, PackedSequence):
        return [results.data]
    return [tensor for part in results for tensor in tensors_of(part)]


def pairs(info, dtype, training):
    """Each sample's torch module, ours with its weights, and the arguments of a call."""
    samples = info.module_inputs_func(
        info, device="cpu", dtype=dtype, requires_grad=True, training=training
    )
    assert len(samples) > 1
    for sample in samples:
        arguments = sample.constructor_input
        if arguments.kwargs.get("proj_size"):  # ours project no states
            continue
        options = {"constraint": Unconstrained, **arguments.kwargs}
        if info.module_cls in (nn.RNN, nn.RNNCell):
            options = {"nonlinearity": "tanh", **options}
        theirs = info.module_cls(*arguments.args, dtype=dtype, **arguments.kwargs)
        ours = OURS[info.module_cls](*arguments.args, dtype=dtype, **options)
        assert ours.load_state_dict(theirs.state_dict()).missing_keys == []
        assert not sample.forward_input.kwargs
        yield theirs.train(training), ours.train(training), sample.forward_input.args


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_input_of_torchs_module_tests_gives_torchs_outputs(info, dtype, training):
    for theirs, ours, inputs in pairs(info, dtype, training):
        expected = theirs(*inputs)
        torch.testing.assert_close(ours(*inputs), expected)
        if isinstance(ours, Stacked):
            torch.testing.assert_close(ours.to_torch()(*inputs), expected)
            assert type(ours.to_torch()) is type(theirs)


def test_every_input_of_torchs_module_tests_gives_torchs_gradients(info):
    for theirs, ours, inputs in pairs(info, torch.float64, True):
        found = []
        first = getattr(theirs, next(iter(theirs.state_dict())))
        layer = getattr(ours, "layer", ours)  # that of a cell
        for module, weight in ((theirs, first), (ours, layer.all_directions()[0].weight_ih)):
            total = sum(tensor.square().sum() for tensor in tensors_of(module(*inputs)))
            found.append(torch.autograd.grad(total, [*tensors_of(inputs), weight]))
        torch.testing.assert_close(found[1], found[0])
