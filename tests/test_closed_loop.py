"""A closed loop computes what the model computes of the sequence that it read and fed back."""

from functools import partial

import pytest
import torch

from eigenrnn import (
    GRU,
    LRU,
    LSTM,
    LanguageModel,
    NnRNN,
    ResidualStack,
    ScoRNN,
    SequenceModel,
    Stream,
)
from eigenrnn.closed_loop import draw_symbols, rollout

M, N, T, B, S = 3, 6, 7, 4, 5

MODELS = {
    "ScoRNN": lambda: ScoRNN(M, M),
    "LSTM": lambda: SequenceModel(LSTM(M, N, num_layers=2), M),
    "last": lambda: SequenceModel(GRU(M, N), M, "last"),
    "stack": lambda: SequenceModel(ResidualStack(partial(LRU, hidden_size=N), M, 2), M),
}


def make(name):
    return MODELS[name]().double()


def whole(model, sequence):
    """All outputs of a model for a sequence, also of one that maps the last step only."""
    if not isinstance(model, SequenceModel):
        return model(sequence)[0]
    return model.head(model.layer(sequence)[0])


def inputs(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("batch", [(B,), ()], ids=["batch", "one"])
def test_the_outputs_are_those_of_the_sequence_with_what_was_fed_back(name, batch):
    model = make(name)
    x = inputs(T, *batch, M)
    outputs, fed = rollout(model, x, S)
    assert torch.equal(outputs, fed)
    expected = whole(model, torch.cat([x, fed[:-1]]))[-S:]
    torch.testing.assert_close(outputs, expected)


@pytest.mark.parametrize("name", ["LSTM", "stack"])
def test_gradients_pass_through_what_is_fed_back(name):
    model = make(name)
    x = inputs(T, B, M).requires_grad_()
    parameters = [p for p in model.parameters() if p.requires_grad]

    def by_hand():
        sequence = x
        for _ in range(S):
            sequence = torch.cat([sequence, torch.tanh(whole(model, sequence)[-1:])])
        return sequence[-S:]

    fed = rollout(model, x, S, feedback=torch.tanh).inputs
    loss = fed.square().sum()
    got = torch.autograd.grad(loss, [x, *parameters])
    expected = torch.autograd.grad(by_hand().square().sum(), [x, *parameters])
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
def test_sequences_of_unequal_lengths_go_on_from_their_own_ends(dtype):
    model = make("LSTM")
    x = inputs(T, B, M)
    lengths = torch.tensor([7, 2, 5, 1], dtype=dtype)
    outputs, _ = rollout(model, x, S, lengths=lengths)
    for b, length in enumerate(lengths):
        alone, _ = rollout(model, x[:length, b], S)
        torch.testing.assert_close(outputs[:, b], alone)


def test_a_loop_goes_on_from_a_state():
    model = make("LSTM")
    x = inputs(T, B, M)
    _, state = model.layer(x[:3])
    torch.testing.assert_close(
        rollout(model, x[3:], S, state=state).outputs, rollout(model, x, S).outputs
    )


def test_a_language_model_reads_the_most_probable_symbols():
    model = LanguageModel(9, M, [NnRNN(M, N), LSTM(N, N)])
    text = torch.arange(8).view(4, 2)
    logits, symbols = rollout(model, text, S)
    assert torch.equal(symbols, logits.argmax(-1))
    expected = model(torch.cat([text, symbols[:-1]]))[-S:]
    torch.testing.assert_close(logits, expected)


def test_symbols_are_drawn_with_their_probabilities():
    logits = torch.tensor([[0.0, 1.0, -2.0]]).expand(40_000, 3)
    drawn = draw_symbols(0.5, torch.Generator().manual_seed(0))(logits)
    frequencies = drawn.bincount(minlength=3) / len(drawn)
    expected = (logits[0] / 0.5).softmax(0)
    torch.testing.assert_close(frequencies, expected, rtol=0, atol=0.01)
    for low in (0.0, 1e-40, 1e-310):  # quotients by these overflow
        assert draw_symbols(low)(logits).unique().tolist() == [1]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("batch", [(B,), ()], ids=["batch", "one"])
def test_a_stream_computes_the_same_and_can_go_on(name, batch):
    model = make(name).eval()
    layer = model.layer if isinstance(model, SequenceModel) else model
    layer.freeze()
    x = inputs(T, *batch, M)
    stream = Stream(model, *batch)
    with torch.no_grad():
        outputs, fed = stream.rollout(x, S)
        torch.testing.assert_close(outputs, rollout(model, x, S).outputs)
        after = stream(fed[-1])
        torch.testing.assert_close(after, rollout(model, x, S + 1).outputs[-1])


@pytest.mark.parametrize(
    ("x", "error"),
    [(torch.ones(T, M), r"3 numbers, .*got 2"), (torch.ones(0, M), "got none")],
)
def test_a_refused_stream_is_as_before(x, error):
    stream = Stream(SequenceModel(ScoRNN(M, N), M if len(x) == 0 else 2))
    before = stream.state
    with pytest.raises(ValueError, match=error):
        stream.rollout(x, S)
    assert torch.equal(stream.state, before)
