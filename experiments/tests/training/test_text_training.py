"""Training on long texts: carried states, learning rate decay, early stopping, averaging."""

import math
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from eigenrnn import RNN
from eigenrnn.constraints import Exponential, Householder, NeumannCayley
from eigenrnn.models import LanguageModel
from eigenrnn_experiments.tasks import Batch, Task, Text
from eigenrnn_experiments.training import Callback, RunFolder, Settings, checkpoint
from eigenrnn_experiments.training.optimisers import build_optimisers, lr_factor
from eigenrnn_experiments.training.train_step import TrainStep, open_fabric
from training_run import losses, one_thread, read_metrics, small_fit

SYMBOLS, WINDOW, WINDOWS = 5, 4, 3


@dataclass(frozen=True)
class Echo(Task):
    """Predict the previous symbol of a periodic text."""

    readout = "all"
    metric_name = "bits"
    higher_is_better = False
    carries = True

    scale: float = 1.0

    input_size = output_size = vocabulary = SYMBOLS
    splits = ("train", "validation", "test")

    def batch(self, size, generator):
        drawn = torch.randint(SYMBOLS, (WINDOW + 1, size), generator=generator)
        return Batch(drawn[1:], drawn[:-1])

    def batches(self, split, size, seed=0, start=0):  # noqa: ARG002
        generator = torch.Generator().manual_seed(7)
        text = torch.randint(SYMBOLS, (1 + WINDOWS * WINDOW, size), generator=generator)
        step = start
        while split == "train" or step < WINDOWS:
            begin = step % WINDOWS * WINDOW
            inputs = text[begin + 1 : begin + WINDOW + 1]
            targets = text[begin : begin + WINDOW]
            carry = begin > 0
            yield Batch(inputs, targets, carry=carry, lr_scale=self.scale)
            step += 1

    def loss(self, outputs, targets):
        return F.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def metric(self, outputs, targets):
        return self.loss(outputs, targets) / math.log(2)

    def baseline(self):
        return math.log(SYMBOLS)

    def steps_per_epoch(self, size):  # noqa: ARG002
        return WINDOWS


def model(seed=0, layer=RNN):
    generator = torch.Generator().manual_seed(seed)
    return LanguageModel(
        SYMBOLS, 6, [layer(6, 6, generator=generator)], tied=True, generator=generator
    )


def settings(steps=9, **options):
    defaults = {"batch_size": 2, "accelerator": "cpu", "log_every": 1, "eval_every": 3}
    return Settings(steps=steps, **(defaults | {"optimiser": "sgd", "lr": 0.5} | options))


def run(directory, options=None, *, task=None, network=None, **others):
    return small_fit(
        directory, options or settings(), model=network or model(), task=task or Echo(), **others
    )


def lstm(*sizes, generator):
    layer = nn.LSTM(*sizes)
    for weight in layer.parameters():
        nn.init.uniform_(weight, -0.4, 0.4, generator=generator)
    return layer


def test_training_with_carried_states_equals_a_plain_loop(tmp_path):
    plain, expected = model(), []
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.5)
    state = None
    for _, batch in zip(range(7), Echo().batches("train", 2), strict=False):
        optimiser.zero_grad()
        h0 = None if not batch.carry else (state.detach(),)
        outputs, (state,) = plain.advance(batch.inputs, h0)
        loss = Echo().loss(outputs, batch.targets)
        loss.backward()
        optimiser.step()
        expected.append(loss.item())
    run(tmp_path, settings(7, lr_recurrent=0.5))
    assert [float(loss) for loss in losses(tmp_path).values()] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("layer", [RNN, lstm])
@pytest.mark.parametrize("steps", [3, 4, 5])
def test_a_resumed_run_continues_with_the_carried_state(tmp_path, layer, steps):
    run(tmp_path / "all", network=model(layer=layer))
    run(tmp_path / "halves", settings(steps), network=model(layer=layer))
    run(tmp_path / "halves", network=model(layer=layer), resume=True)
    assert losses(tmp_path / "halves") == losses(tmp_path / "all")


def test_an_evaluation_does_not_change_the_state_of_training(tmp_path):
    run(tmp_path / "often", settings(eval_every=1))
    run(tmp_path / "seldom", settings(eval_every=9))
    assert losses(tmp_path / "often") == losses(tmp_path / "seldom")


def test_an_evaluation_carries_the_state_through_its_split(tmp_path):
    network = model()
    run(tmp_path, settings(3), network=network)
    batches = list(Echo().batches("test", 2))
    inputs, targets = (torch.cat([getattr(b, n) for b in batches]) for n in ("inputs", "targets"))
    with torch.no_grad():
        expected = Echo().loss(network.eval()(inputs), targets).item()
    assert float(read_metrics(tmp_path)[-1]["test_loss"]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("when", "step", "plateaus", "expected"),
    [
        ("epoch", 1, 0, 1.0),
        ("epoch", 10, 0, 1.0),
        ("epoch", 11, 0, 0.5),
        ("epoch", 31, 0, 0.125),
        ("plateau", 31, 2, 0.25),
        ((2, 3), 20, 0, 1.0),
        ((2, 3), 21, 0, 0.5),
        ((2, 3), 31, 0, 0.25),
    ],
)
def test_learning_rates_decay_at_the_chosen_times(when, step, plateaus, expected):
    options = settings(lr_decay=0.5, lr_decay_at=when)
    assert lr_factor(options, step=step, steps=100, per_epoch=10, plateaus=plateaus) == expected


class RecordSteps(Callback):
    """Record the ratio of each parameter change to its gradient."""

    def __init__(self):
        self.before, self.moved = None, {"head_bias": [], "raw": []}

    def after_step(self, step, loss, model):  # noqa: ARG002
        now = {
            "head_bias": model.head_bias.detach().clone(),
            "raw": next(model.layers[0].directions[0].constraint.parameters()).detach().clone(),
        }
        grads = {
            "head_bias": model.head_bias.grad,
            "raw": next(model.layers[0].directions[0].constraint.parameters()).grad,
        }
        for name, value in now.items():
            if self.before is not None:
                ratio = (self.before[name] - value).norm() / grads[name].norm()
                self.moved[name].append(ratio.item())
        self.before = now


def test_epochs_decay_all_rates_and_batches_scale_all_but_the_recurrent_rate(tmp_path):
    recorded = RecordSteps()
    options = settings(lr_recurrent=0.1, lr_decay=0.5, lr_decay_at="epoch")
    run(tmp_path, options, task=Echo(scale=0.3), callbacks=[recorded])
    epochs = [0.5 ** (step // WINDOWS) for step in range(1, 9)]
    assert recorded.moved["head_bias"] == pytest.approx([0.5 * 0.3 * e for e in epochs], rel=1e-4)
    assert recorded.moved["raw"] == pytest.approx([0.1 * e for e in epochs], rel=1e-3)


def test_weight_decay_of_an_unknown_parameter_raises():
    with pytest.raises(ValueError, match="weight_decay_of"):
        build_optimisers(model(), settings(weight_decay=0.1, weight_decay_of=("kernel",)))


def test_gradients_are_clipped_elementwise(tmp_path):
    network = model()
    before = network.head_bias.detach().clone()
    run(tmp_path, settings(1, lr=1.0, clip_value=1e-3), network=network)
    assert (network.head_bias - before).abs().max().item() == pytest.approx(1e-3, rel=1e-4)


def test_a_run_stops_early_after_its_patience(tmp_path):
    options = settings(60, lr=0.0, lr_recurrent=0.0, patience=4)
    result = run(tmp_path, options)
    assert result.steps == 3 * 5  # the first evaluation is the best one
    assert not result.interrupted
    again = run(tmp_path, options, resume=True)
    assert again == result


def test_a_run_stops_below_a_loss(tmp_path):
    result = run(tmp_path, settings(60, stop_below=100.0))
    assert result.steps == 3


def test_the_metrics_contain_the_mean_loss_since_the_last_row(tmp_path):
    run(tmp_path / "each")
    run(tmp_path / "three", settings(log_every=3))
    each = [float(loss) for loss in losses(tmp_path / "each").values()]
    means = [float(row["train_loss_mean"]) for row in read_metrics(tmp_path / "three")]
    assert means == pytest.approx([sum(each[i : i + 3]) / 3 for i in (0, 3, 6)])


def test_averaging_starts_when_the_metric_stops_improving_and_can_be_resumed(tmp_path):
    # with this learning rate the loss is not monotonic
    options = settings(30, lr=4.0, lr_recurrent=0.0, average_after=2)
    run(tmp_path / "all", options)
    run(tmp_path / "plain", replace(options, average_after=None))
    run(tmp_path / "halves", replace(options, steps=18))
    run(tmp_path / "halves", options, resume=True)
    found = [[row["test_loss"] for row in read_metrics(tmp_path / n)] for n in ("all", "halves")]
    assert found[0] == found[1]
    assert losses(tmp_path / "all") == losses(tmp_path / "plain")
    assert found[0] != [row["test_loss"] for row in read_metrics(tmp_path / "plain")]


def test_a_checkpoint_of_before_averages_were_models_is_resumed(tmp_path):
    run(tmp_path / "all")
    run(tmp_path / "halves", settings(6))
    file = RunFolder(tmp_path / "halves").last
    content = checkpoint.load(file)
    content["train_step"]["average"] = {"steps": 0, "means": None}
    del content["format"]
    checkpoint.save(file, content)
    run(tmp_path / "halves", resume=True)
    assert losses(tmp_path / "halves") == losses(tmp_path / "all")


def test_the_weights_of_the_best_evaluation_are_those_that_were_evaluated(tmp_path):
    options = settings(30, lr=4.0, lr_recurrent=0.0, average_after=2)
    best = run(tmp_path, options)
    last = RunFolder(tmp_path).last
    assert checkpoint.load(last)["train_step"]["average"] is not None
    found = {}
    for file in (tmp_path / "best.pt", last):
        network = model()
        network.load_state_dict(RunFolder(tmp_path).read_weights(file)[0])
        with one_thread(), torch.random.fork_rng():
            found[file.name] = TrainStep(open_fabric(options), network, Echo(), options).evaluate()
    assert found["best.pt"] == best.best
    assert found["last.pt"] != best.last  # which is that of the mean


@pytest.mark.parametrize(
    "constraint", [Exponential, NeumannCayley, Householder, partial(Exponential, period=2)]
)
def test_the_average_that_is_evaluated_is_the_mean_of_the_steps_since_it_began(constraint):
    options = settings()
    network = model(layer=partial(RNN, constraint=constraint))
    step = TrainStep(open_fabric(options), network, Echo(), options)
    assert step.evaluated is network
    seen = []
    for number, batch in zip(range(1, 6), Echo().batches("train", 2), strict=False):
        step.take(number, batch, decay=1.0, reads=True)
        if number == 2:
            step.start_average()
        if number >= 2:
            seen.append(network.head_bias.detach().clone())
    torch.testing.assert_close(step.evaluated.head_bias.detach(), torch.stack(seen).mean(0))
    assert step.evaluated.layers[0].orthogonality_error() < 1e-5


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_set_too_short_for_the_batch_size_is_refused_before_a_step(tmp_path, split):
    (tmp_path / "text.txt").write_text("ab" * 200)
    shares = {"validation": 0.05, "test": 0.05} | {split: 0.03}
    task = Text(tmp_path / "text.txt", held_out=tuple(shares.values()))
    with pytest.raises(ValueError, match=f"the {split} text for 8 streams, got 12"):
        run(tmp_path / "run", settings(batch_size=8), task=task)
    assert not (tmp_path / "run").exists()
