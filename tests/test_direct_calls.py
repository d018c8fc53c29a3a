"""Kernels that are called without torch's dispatcher see what its operators would see."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from eigenrnn import GRU, LRU, LSTM, RNN
from eigenrnn.tracing import needs_no_dispatcher

LAYERS = pytest.mark.parametrize("make", [RNN, GRU, LSTM, LRU], ids=lambda make: make.__name__)


def negative_view(x):
    """Return a view of the same numbers with torch's negative bit."""
    view = torch.view_as_complex(torch.stack([x, -x], -1)).conj().imag
    assert view.is_neg()
    return view


@LAYERS
@pytest.mark.parametrize("grad", [False, True])
def test_a_negative_view_gives_the_states_of_its_numbers(make, grad):
    layer, x = make(3, 8), torch.randn(5, 2, 3)
    with torch.set_grad_enabled(grad):
        torch.testing.assert_close(layer(negative_view(x))[0], layer(x)[0])


@LAYERS
def test_a_negative_gradient_gives_the_gradients_of_its_numbers(make):
    layer, x = make(3, 8), torch.randn(5, 2, 3, requires_grad=True)
    g = torch.randn(5, 2, layer(x)[0].shape[2])
    (found,) = torch.autograd.grad(layer(x)[0], x, negative_view(g))
    (expected,) = torch.autograd.grad(layer(x)[0], x, g)
    torch.testing.assert_close(found, expected)


def test_only_plain_tensors_outside_of_modes_need_no_dispatcher():
    x = torch.randn(3)
    assert needs_no_dispatcher([x, None])
    assert not needs_no_dispatcher([negative_view(x)])
    assert not needs_no_dispatcher([torch.randn(3, dtype=torch.complex64).conj()])
    with FlopCounterMode(display=False):
        assert not needs_no_dispatcher([x])
