"""The tasks of laboratory animals: trials written out one by one, noise, responses, training."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from eigenrnn import RNN, LeakyRNN, SequenceModel
from eigenrnn.constraints import Dale, Unconstrained
from eigenrnn_experiments.tasks import (
    ContextIntegration,
    DelayedMatch,
    PerceptualDecision,
    ReadySetGo,
)
from eigenrnn_experiments.tasks.base import generator_for
from eigenrnn_experiments.training import Settings
from eigenrnn_experiments.training.objective import Objective

TASKS = [PerceptualDecision(), DelayedMatch(), ContextIntegration(), ReadySetGo()]
each_task = pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)


def periods(signal):
    """Return the first index where a signal begins, and the number of steps that it lasts."""
    on = np.flatnonzero(signal)
    return on[0], len(on)


def written_out(task, conditions, fixation):
    """Return the inputs and the target of every step of one trial without noise."""
    nan = math.nan
    if isinstance(task, PerceptualDecision):
        c, stimulus = conditions["coherence"], conditions["stimulus"]
        steps = [(1, 0, 0)] * fixation + [(1, c, nan)] * stimulus
        return steps + [(0, 0, np.sign(c))] * task.response
    if isinstance(task, ContextIntegration):
        m, c, context = conditions["motion"], conditions["colour"], conditions["context"]
        k = (1, 0) if context == 0 else (0, 1)
        answer = np.sign(m if context == 0 else c)
        steps = [(0, 0, *k, 0)] * fixation + [(m, c, *k, nan)] * conditions["stimulus"]
        return steps + [(0, 0, *k, answer)] * task.response
    interval = conditions["interval"]
    steps = [(0, 0, 0)] * fixation + [(1, 0, 0)] + [(0, 0, 0)] * (interval - 1) + [(0, 1, 0)]
    return steps + [(0, 0, k / interval) for k in range(1, interval + max(2, interval // 4) + 1)]


@pytest.mark.parametrize("kind", [PerceptualDecision, ContextIntegration, ReadySetGo])
def test_trials_are_those_written_out_step_by_step(kind):
    task = kind(noise=0.0)
    trials = task.trials(40, generator_for(0))
    for b in range(40):
        conditions = {name: each[b].item() for name, each in trials.conditions.items()}
        inputs, targets = trials.batch.inputs[:, b], trials.batch.targets[:, b, 0]
        # the first period of each trial is read off its inputs
        first = inputs[:, 0] if kind is ReadySetGo else targets == 0
        fixation = periods(first)[0] if kind is ReadySetGo else int(first.sum())
        assert task.fixation[0] <= fixation <= task.fixation[1]
        steps = torch.tensor(written_out(task, conditions, int(fixation)))
        length = len(steps)
        assert trials.batch.lengths[b] == length
        torch.testing.assert_close(inputs[:length], steps[:, :-1].float())
        torch.testing.assert_close(targets[:length], steps[:, -1].float(), equal_nan=True)
        assert targets[length:].isnan().all()
        assert not inputs[length:].any()


def test_a_match_is_the_same_direction_twice():
    task = DelayedMatch(noise=0.0)
    trials = task.trials(200, generator_for(0))
    for b in range(200):
        direction = torch.complex(*trials.batch.inputs[:, b, 1:].T)
        shown = direction[direction.abs() > 0.5]
        assert len(shown) == 2 * task.sample
        apart = (shown[-1] / shown[0]).angle().rad2deg().abs().item()
        difference = abs(trials.conditions["difference"][b].item())
        assert apart == pytest.approx(difference, abs=1e-3)
        targets = trials.batch.targets[:, b, 0]
        answers = targets[~targets.isnan() & (targets != 0)]
        assert answers.tolist() == [1.0 if difference == 0 else -1.0] * task.response
    matches = (trials.conditions["difference"] == 0).double().mean()
    assert 0.4 < matches < 0.6


@each_task
def test_the_noise_is_normal_and_its_own_in_every_input(task):
    quiet, noisy = replace(task, noise=0.0), replace(task, noise=0.7)
    silent = quiet.trials(600, generator_for(1)).batch
    noise = noisy.trials(600, generator_for(1)).batch.inputs - silent.inputs
    noise = noise[..., :2].flatten(0, 1)
    noise = noise[(noise != 0).all(1)] / 0.7  # ContextIntegration has it in the stimulus only
    count = len(noise)
    assert noise.mean(0).abs().max() < 5 / count**0.5
    assert (noise.std(0) - 1).abs().max() < 5 / count**0.5
    assert (noise.pow(4).mean(0) - 3).abs().max() < 5 * 96**0.5 / count**0.5
    assert abs(noise.T.corrcoef()[0, 1]) < 5 / count**0.5


@each_task
def test_the_baseline_is_the_loss_of_the_best_constants(task):
    batch = task.trials(4000, generator_for(2)).batch
    targets = batch.targets
    outputs = torch.zeros_like(targets)
    if isinstance(task, ReadySetGo):
        # the mean of the lines at each time after set
        t = torch.arange(len(targets))[:, None]
        begin = torch.where(targets[..., 0] == 0, t, -1).amax(0)
        for k in range(1, 40):
            now = (t - begin == k) & ~targets[..., 0].isnan()
            outputs[now] = targets[now].mean() if now.any() else 0.0
    assert task.loss(outputs, targets).item() == pytest.approx(task.baseline(), rel=0.02)


@each_task
def test_the_loss_ignores_what_is_outside_the_mask(task):
    targets = task.trials(20, generator_for(3)).batch.targets
    outputs = torch.randn(targets.shape, generator=generator_for(4))
    loss = task.loss(outputs, targets)
    valid = ~targets.isnan()
    expected = (outputs[valid] - targets[valid]).square().mean()
    torch.testing.assert_close(loss, expected)
    changed = torch.where(valid, outputs, 100.0)
    assert torch.equal(task.loss(changed, targets), loss)
    assert torch.equal(task.scores(changed, targets), task.scores(outputs, targets))


def test_a_choice_is_the_sign_of_the_mean_response():
    task = PerceptualDecision()
    targets = torch.tensor([[0.0, 0.0], [math.nan, math.nan], [1.0, -1.0], [1.0, -1.0]])[..., None]
    outputs = torch.tensor([[9.0, 9.0], [9.0, 9.0], [-0.1, -0.1], [0.3, -0.3]])[..., None]
    assert task.responses(outputs, targets).tolist() == [1.0, -1.0]
    assert task.scores(outputs, targets).tolist() == [1.0, 1.0]
    assert task.scores(-outputs, targets).tolist() == [0.0, 0.0]


def test_a_produced_interval_ends_at_the_first_output_of_one():
    task = ReadySetGo(noise=0.0)
    targets = task.trials(50, generator_for(0)).batch.targets
    slow = task.scores(targets * 0.5, targets)
    assert (slow == 1).all()  # never reaches one
    early = targets * 1.5
    interval = (1 / targets.diff(dim=0).nan_to_num().amax((0, 2))).round()
    expected = (interval / 1.5).ceil()
    torch.testing.assert_close(task.responses(early, targets), expected)


def model_for(task, **options):
    generator = torch.Generator().manual_seed(0)
    options = {"nonlinearity": "softplus", "leak": 0.3, "constraint": Unconstrained} | options
    layer = LeakyRNN(task.input_size, 12, generator=generator, **options)
    return SequenceModel(layer, 1, "all", generator=generator).double()


def test_the_penalties_are_the_means_of_squares_of_rates_and_weights():
    task = PerceptualDecision()
    model = model_for(task, constraint=Dale)
    batch = task.trials(6, generator_for(0)).batch.to(dtype=torch.float64)
    states, _ = model.layer(batch.inputs, lengths=batch.lengths)
    rates = torch.cat([states[:n, b] for b, n in enumerate(batch.lengths.tolist())])
    weights = [model.layer.directions[0].weight_ih, model.layer.recurrent_matrices()[0]]
    weights.append(model.head.weight)
    expected = 0.3 * (rates**2).mean() + 0.7 * sum((w**2).mean() for w in weights)
    objective = Objective(model, task, "64-true", rate_penalty=0.3, weight_penalty=0.7)
    _, penalty = objective(lambda: batch)
    torch.testing.assert_close(penalty, expected)
    gradient = torch.autograd.grad(penalty, model.layer.directions[0].weight_ih)[0]
    again = torch.autograd.grad(expected, model.layer.directions[0].weight_ih)[0]
    torch.testing.assert_close(gradient, again)


def test_a_penalty_needs_all_states_and_a_layer_of_ours():
    layer = RNN(2, 4)
    with pytest.raises(ValueError, match="all steps"):
        Objective(SequenceModel(layer, 1, "last"), TASKS[0], "32-true", rate_penalty=0.1)
    with pytest.raises(ValueError, match="SequenceModel"):
        Objective(nn.Linear(2, 1), TASKS[0], "32-true", weight_penalty=0.1)
    with pytest.raises(ValueError, match="rate_penalty"):
        Settings(steps=1, rate_penalty=-1.0)


@pytest.mark.parametrize("penalty", [0.0, 0.2])
def test_a_penalty_of_the_rates_makes_a_trained_network_quieter(penalty):
    task = PerceptualDecision(stimulus=(5, 8), noise=0.1)
    model = model_for(task).float()
    objective = Objective(model, task, "32-true", rate_penalty=penalty).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for step in range(60):
        batch = task.batch(32, generator_for(0, step))
        loss, extra = objective(lambda batch=batch: batch)
        optimiser.zero_grad()
        (loss + extra).backward()
        optimiser.step()
    batch = task.trials(300, generator_for(9)).batch
    with torch.no_grad():
        outputs = model(batch.inputs, batch.lengths)
        states, _ = model.layer(batch.inputs, lengths=batch.lengths)
    rate = float(states.square().mean())
    assert task.metric(outputs, batch.targets) > 0.75
    assert rate < 0.2 if penalty else rate > 0.25
