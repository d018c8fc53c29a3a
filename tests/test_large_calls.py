"""Calls whose buffers are large, or whose tensors lie where the kernels cannot read them."""

import pytest
import torch
from torch import nn

from eigenrnn import GRU, RNN, SequenceModel
from eigenrnn.ops import compiled, elman, gru

LARGE = (600, 32, 64)  # 4.9 MB of states: large enough for pages of their own


@pytest.mark.parametrize("make", [RNN, GRU], ids=["rnn", "gru"])
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_layer_with_large_states_gives_what_it_gave(make):
    T, B, N = LARGE
    layer = make(2, N, generator=torch.Generator().manual_seed(0))
    x = torch.randn(T, B, 2, generator=torch.Generator().manual_seed(1))
    expected, _ = layer(x)
    torch._dynamo.reset()
    found, _ = torch.compile(layer, backend="aot_eager")(x)
    near = {"rtol": 1e-3, "atol": 1e-3}  # W is rounded otherwise, and 600 steps follow it
    torch.testing.assert_close(found, expected, **near)
    gradient = torch.autograd.grad(found.square().mean(), layer.directions[0].weight_ih)
    plain = torch.autograd.grad(expected.square().mean(), layer.directions[0].weight_ih)
    torch.testing.assert_close(gradient, plain, **near)


@pytest.mark.parametrize("name", ["W", "h0", "U"])
def test_tensors_on_several_devices_are_refused(name):
    tensors = {"W": torch.eye(3), "h0": torch.zeros(2, 3), "U": torch.ones(3, 2)}
    tensors[name] = tensors[name].to("meta")
    with pytest.raises(ValueError, match=f"expected {name} on cpu, where x is, got meta"):
        elman(
            torch.ones(4, 2, 2), tensors["W"], tensors["h0"], U=tensors["U"], nonlinearity="tanh"
        )


def test_gates_on_several_devices_are_refused():
    with pytest.raises(ValueError, match="expected W on cpu, where x is, got meta"):
        gru(torch.ones(4, 2, 9), torch.ones(9, 3, device="meta"), torch.zeros(2, 3))


@pytest.mark.skipif(compiled.kernels is None, reason=f"needs kernels: {compiled.missing()}")
def test_the_operator_itself_reads_any_strides():
    x = torch.randn(5, 3, 8)[..., ::2]
    W, h0 = torch.eye(4), torch.zeros(3, 4)
    options = ("tanh", None, False, False)
    nothing = (None,) * 5
    run = torch.ops.eigenrnn.elman_cpu
    found, *_ = run(x, W, h0, *nothing, *options)
    expected, *_ = run(x.contiguous(), W, h0, *nothing, *options)
    assert torch.equal(found, expected)


@pytest.mark.parametrize("d", [None, torch.zeros(3)])
def test_outputs_cannot_be_asked_for_with_the_last_states_alone_under_autocast_either(d):
    V = torch.ones(3, 4)
    with torch.autocast("cpu"), pytest.raises(ValueError, match="either last_only or V"):
        elman(torch.ones(2, 1, 4), torch.eye(4), nonlinearity="tanh", V=V, d=d, last_only=True)


def test_a_head_with_a_forward_of_its_own_is_called():
    model = SequenceModel(RNN(2, 4), 3)
    model.head.forward = lambda states: states[..., :1]
    assert model(torch.randn(5, 2, 2)).shape == (5, 2, 1)
    assert isinstance(model.head, nn.Linear)
