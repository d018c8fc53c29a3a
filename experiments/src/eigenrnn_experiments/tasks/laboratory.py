"""Tasks of laboratory animals: decisions, comparisons, contexts and intervals."""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Generator, Tensor

from eigenrnn_experiments.tasks.adding import splitmix_uniforms
from eigenrnn_experiments.tasks.base import Batch, check_at_least
from eigenrnn_experiments.tasks.synthetic import Examples, Synthetic

__all__ = [
    "ContextIntegration",
    "DelayedMatch",
    "LaboratoryTask",
    "PerceptualDecision",
    "ReadySetGo",
    "Trials",
]

Span = tuple[int, int]
"""The shortest and the longest duration of a period, in steps."""

_SEEDS = 2**62


@dataclass(frozen=True)
class Trials:
    """Trials of a laboratory task, with what is known of each.

    Args:
        batch: The inputs, the targets and the lengths.
        conditions: What was drawn for each trial, by name.

    Shape:
        conditions: :math:`(B,)` each.
    """

    batch: Batch
    conditions: Mapping[str, Tensor]


class LaboratoryTask(Synthetic):
    r"""A task of trials with periods of variable length; a subclass defines the periods.

    .. math:: L = \frac{1}{|\mathcal M|} \sum_{(t, b) \in \mathcal M} (y_{tb} - \hat y_{tb})^2

    The mask :math:`\mathcal M` holds the steps that have a target. All others have a target of NaN
    and do not count: the stimulus, the delay, and the steps after the end of a trial. The inputs
    have independent normal noise. All batches have the length T of the longest trial, and
    `lengths` states the length of each.
    """

    readout: ClassVar[Literal["all", "last"]] = "all"
    noise: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.noise < math.inf:
            raise ValueError(f"expected a finite noise >= 0, got {self.noise!r}")
        for name, least in self._least_spans.items():
            span = getattr(self, name)
            if len(span) != 2 or not least <= span[0] <= span[1]:
                raise ValueError(
                    f"expected {name} to be a shortest and a longest duration of at least "
                    f"{least} steps, got {span!r}"
                )

    _least_spans: ClassVar[Mapping[str, int]]

    @property
    def output_size(self) -> int:
        return 1

    @abstractmethod
    def trial_conditions(self, examples: Examples) -> dict[str, Tensor]:
        """Return the conditions of examples by name."""

    @abstractmethod
    def responses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the response of each trial.

        Shape:
            outputs, targets: :math:`(T, B, 1)`; responses: :math:`(B,)`.
        """

    @abstractmethod
    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the metric of each trial: the performance by trial.

        Shape:
            outputs, targets: :math:`(T, B, 1)`; scores: :math:`(B,)`.
        """

    def trials(self, size: int, generator: Generator) -> Trials:
        """Draw a batch of new trials with their conditions."""
        examples = self._draw(size, generator)
        return Trials(self._collate(examples), self.trial_conditions(examples))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        squares, count = _squares(outputs, targets)
        return squares / count

    def metric(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.scores(outputs, targets).mean()

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (4,)
        squares, count = _squares(outputs, targets)
        scores = self.scores(outputs, targets).double()
        trials = scores.new_tensor(float(len(scores)))
        return torch.stack([squares.double(), count.double(), scores.sum(), trials])

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        squares, count, score, trials = sums.tolist()
        return {"loss": squares / count, self.metric_name: score / trials}

    @abstractmethod
    def _longest(self) -> int: ...

    def _noisy(
        self,
        inputs: Tensor,  # (T, B, M)
        seeds: Tensor,  # (B,)
    ) -> Tensor:  # (T, B, M)
        """Add noise that is a function of each trial's seed, whatever its batch."""
        if not self.noise:
            return inputs
        T, B, M = inputs.shape
        uniforms = splitmix_uniforms(seeds, 2 * T * M).view(2, T, M, B).transpose(2, 3)
        # by Box and Muller; the first uniform is moved from [0, 1) to (0, 1]
        radius = (-2 * (1 - uniforms[0]).log()).sqrt()
        return inputs + self.noise * radius * torch.cos(2 * math.pi * uniforms[1])


def _squares(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sum of the squared errors inside the mask, and the number of targets in it."""
    valid = ~targets.isnan()
    errors = torch.where(valid, outputs - targets, 0)
    return errors.square().sum(), valid.sum()


def _choice(outputs: Tensor, targets: Tensor) -> Tensor:  # (B,)
    """Return the mean output over the response of each trial, where the target is not zero."""
    responds = (targets != 0) & ~targets.isnan()
    total = torch.where(responds, outputs, 0).sum((0, 2))
    return total / responds.sum((0, 2))


class _ChoiceTask(LaboratoryTask):
    """A task with two choices, +1 and -1, in a response period at the end."""

    metric_name: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    fixation: Span
    response: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "response")

    def baseline(self) -> float:
        # the best constant of each period is zero; only the response has an error, of one
        fixation = sum(self.fixation) / 2
        return self.response / (fixation + self.response)

    def responses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.where(_choice(outputs, targets) > 0, 1.0, -1.0)

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (self.responses(outputs, targets) == _choice(targets, targets)).float()

    def _targets(
        self,
        t: Tensor,  # (T, 1)
        fixation: Tensor,  # (B,)
        go: Tensor,  # (B,)
        answer: Tensor,  # (B,)
    ) -> Tensor:  # (T, B, 1)
        """Return zero in the first period, the answer from `go` on, and NaN at all other steps."""
        responds = (t >= go) & (t < go + self.response)
        targets = torch.where(t < fixation, 0.0, torch.nan)
        return torch.where(responds, answer, targets).unsqueeze(-1).contiguous()


def _uniform(span: Span, count: int, generator: Generator) -> Tensor:  # (count,)
    return torch.randint(span[0], span[1] + 1, (count,), generator=generator)


def _seeds(count: int, generator: Generator) -> Tensor:  # (count,)
    return torch.randint(_SEEDS, (count,), generator=generator)


def _signed(values: tuple[float, ...], count: int, generator: Generator) -> Tensor:  # (count,)
    """Return values that are drawn with signs of their own."""
    signs = 2.0 * torch.randint(2, (count,), generator=generator) - 1
    return signs * torch.tensor(values)[torch.randint(len(values), (count,), generator=generator)]


def _check_levels(name: str, levels: tuple[float, ...]) -> None:
    if not levels or not all(0 < v < math.inf for v in levels):
        raise ValueError(f"expected {name} to be finite numbers > 0, got {levels!r}")


class _EvidenceTask(_ChoiceTask):
    """A choice by noisy evidence, in a stimulus between the fixation and the response."""

    _least_spans: ClassVar[Mapping[str, int]] = {"fixation": 1, "stimulus": 1}

    coherences: tuple[float, ...]
    stimulus: Span

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_levels("coherences", self.coherences)

    def _longest(self) -> int:
        return self.fixation[1] + self.stimulus[1] + self.response


@dataclass(frozen=True)
class PerceptualDecision(_EvidenceTask):
    r"""Decide whether noisy evidence is positive or negative on average.

    .. math:: x_t = (\text{fixation}_t + \sigma \xi_t, s c + \sigma \xi'_t), \qquad
        \hat y = 0 \text{ in the fixation}, \quad s \text{ in the response}

    The sign s and the coherence c are drawn for each trial, as are the lengths of the fixation and
    the stimulus. While the fixation input is one, the output is to be zero during the first period
    and is free during the stimulus. It is to be s once the fixation input is zero.

    See `Synthetic` for the options of the training, validation and test sets.

    Args:
        coherences: The strengths c of the evidence.
        fixation: The shortest and the longest first period, in steps.
        stimulus: The shortest and the longest stimulus, in steps.
        response: The length of the response, in steps.
        noise: The standard deviation :math:`\sigma` of the noise of each input.

    Shape:
        inputs: :math:`(T, B, 2)`; targets: :math:`(T, B, 1)`.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Britten et al., Journal of Neuroscience 12, 1992.
        https://doi.org/10.1523/JNEUROSCI.12-12-04745.1992; trained networks: Song, Yang and Wang,
        2016. https://doi.org/10.1371/journal.pcbi.1004792 (departures: one signed input).

    Example:
        >>> task = PerceptualDecision()
        >>> trials = task.trials(4, torch.Generator().manual_seed(0))
        >>> sorted(trials.conditions)
        ['coherence', 'stimulus']
    """

    coherences: tuple[float, ...] = (0.032, 0.064, 0.128, 0.256, 0.512)
    fixation: Span = (2, 5)
    stimulus: Span = (10, 25)
    response: int = 5
    noise: float = 0.5

    @property
    def input_size(self) -> int:
        return 2

    def trial_conditions(self, examples: Examples) -> dict[str, Tensor]:
        coherence, _, stimulus, _ = examples
        return {"coherence": coherence, "stimulus": stimulus}

    def _draw(self, count: int, generator: Generator) -> Examples:
        coherence = _signed(self.coherences, count, generator)
        fixation = _uniform(self.fixation, count, generator)
        stimulus = _uniform(self.stimulus, count, generator)
        return coherence, fixation, stimulus, _seeds(count, generator)

    def _collate(self, examples: Examples) -> Batch:
        coherence, fixation, stimulus, seeds = examples
        t = torch.arange(self._longest())[:, None]
        go = fixation + stimulus
        shown = (t >= fixation) & (t < go)
        inputs = torch.stack([(t < go).float(), shown * coherence], -1)
        targets = self._targets(t, fixation, go, coherence.sign())
        return Batch(self._noisy(inputs, seeds), targets, go + self.response)


@dataclass(frozen=True)
class DelayedMatch(_ChoiceTask):
    r"""Decide whether a direction equals the one shown before a delay.

    .. math:: x_t = (\text{fixation}_t, \cos\theta_t, \sin\theta_t) + \sigma \xi_t

    A direction is shown, then nothing, then a second direction. In half of the trials both are the
    same, and the response is +1. In the others they differ by one of the given angles, to either
    side, and the response is -1. It is to be zero before the first direction.

    See `Synthetic` for the options of the training, validation and test sets.

    Args:
        differences: The angles between the directions of trials without a match, in degrees.
        fixation: The shortest and the longest first period, in steps.
        sample: The length of each direction, in steps.
        delay: The shortest and the longest delay, in steps.
        response: The length of the response, in steps.
        noise: The standard deviation :math:`\sigma` of the noise of each input.

    Shape:
        inputs: :math:`(T, B, 3)`; targets: :math:`(T, B, 1)`.

    Units:
        `differences` and the condition ``difference`` are in degrees.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Miller, Erickson and Desimone, Journal of Neuroscience 16, 1996.
        https://doi.org/10.1523/JNEUROSCI.16-16-05154.1996 (departures: directions instead of
        pictures, one test stimulus).

    Example:
        >>> trials = DelayedMatch().trials(4, torch.Generator().manual_seed(0))
        >>> sorted(trials.conditions)
        ['delay', 'difference']
    """

    differences: tuple[float, ...] = (22.5, 45.0, 90.0, 180.0)
    fixation: Span = (2, 5)
    sample: int = 5
    delay: Span = (5, 20)
    response: int = 5
    noise: float = 0.1

    _least_spans: ClassVar[Mapping[str, int]] = {"fixation": 1, "delay": 0}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "sample")
        _check_levels("differences", self.differences)
        if max(self.differences) > 180:
            raise ValueError(f"expected differences <= 180 degrees, got {self.differences!r}")

    @property
    def input_size(self) -> int:
        return 3

    def trial_conditions(self, examples: Examples) -> dict[str, Tensor]:
        _, difference, _, delay, _ = examples
        return {"difference": difference, "delay": delay}

    def _longest(self) -> int:
        return self.fixation[1] + 2 * self.sample + self.delay[1] + self.response

    def _draw(self, count: int, generator: Generator) -> Examples:
        first = 360 * torch.rand(count, generator=generator)
        matches = torch.rand(count, generator=generator) < 0.5
        apart = _signed(self.differences, count, generator)
        difference = torch.where(matches, 0.0, apart)
        fixation = _uniform(self.fixation, count, generator)
        delay = _uniform(self.delay, count, generator)
        return first, difference, fixation, delay, _seeds(count, generator)

    def _collate(self, examples: Examples) -> Batch:
        first, difference, fixation, delay, seeds = examples
        t = torch.arange(self._longest())[:, None]
        second = fixation + self.sample + delay
        go = second + self.sample
        one = (t >= fixation) & (t < fixation + self.sample)
        two = (t >= second) & (t < go)
        angles = torch.deg2rad(first), torch.deg2rad(first + difference)
        cosine = one * angles[0].cos() + two * angles[1].cos()
        sine = one * angles[0].sin() + two * angles[1].sin()
        inputs = torch.stack([(t < go).float(), cosine, sine], -1)
        answer = torch.where(difference == 0, 1.0, -1.0)
        targets = self._targets(t, fixation, go, answer)
        return Batch(self._noisy(inputs, seeds), targets, go + self.response)


@dataclass(frozen=True)
class ContextIntegration(_EvidenceTask):
    r"""Integrate one of two kinds of evidence, as the context tells.

    .. math:: x_t = (m + \sigma \xi_t, c + \sigma \xi'_t, k_1, k_2), \qquad
        \hat y = \operatorname{sign}(k_1 m + k_2 c)

    Motion m and colour c have signs and strengths of their own. The context is one of two inputs
    that are on during the whole trial, :math:`k = (1, 0)` for motion and (0, 1) for colour. The
    output is to be zero before the stimulus and the sign of the relevant evidence after it.

    See `Synthetic` for the options of the training, validation and test sets.

    Args:
        coherences: The strengths of the evidence.
        fixation: The shortest and the longest first period, in steps.
        stimulus: The shortest and the longest stimulus, in steps.
        response: The length of the response, in steps.
        noise: The standard deviation :math:`\sigma` of the noise of motion and colour.

    Shape:
        inputs: :math:`(T, B, 4)`; targets: :math:`(T, B, 1)`.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Mante et al., Nature 503, 2013. https://doi.org/10.1038/nature12742 (departures: the
        strengths and durations, which are options).

    Example:
        >>> trials = ContextIntegration().trials(4, torch.Generator().manual_seed(0))
        >>> sorted(trials.conditions)
        ['colour', 'context', 'motion', 'stimulus']
    """

    coherences: tuple[float, ...] = (0.05, 0.15, 0.5)
    fixation: Span = (2, 5)
    stimulus: Span = (15, 25)
    response: int = 5
    noise: float = 0.3

    @property
    def input_size(self) -> int:
        return 4

    def trial_conditions(self, examples: Examples) -> dict[str, Tensor]:
        motion, colour, context, _, stimulus, _ = examples
        return {"motion": motion, "colour": colour, "context": context, "stimulus": stimulus}

    def _draw(self, count: int, generator: Generator) -> Examples:
        motion = _signed(self.coherences, count, generator)
        colour = _signed(self.coherences, count, generator)
        context = torch.randint(2, (count,), generator=generator)
        fixation = _uniform(self.fixation, count, generator)
        stimulus = _uniform(self.stimulus, count, generator)
        return motion, colour, context, fixation, stimulus, _seeds(count, generator)

    def _collate(self, examples: Examples) -> Batch:
        motion, colour, context, fixation, stimulus, seeds = examples
        t = torch.arange(self._longest())[:, None]
        go = fixation + stimulus
        end = go + self.response
        shown = (t >= fixation) & (t < go)
        evidence = torch.stack([shown * motion, shown * colour], -1)
        # evidence comes with noise only while it is shown, so that the response has none
        evidence = torch.where(shown[..., None], self._noisy(evidence, seeds), 0.0)
        inside = t < end
        contexts = torch.stack([inside & (context == 0), inside & (context == 1)], -1).float()
        answer = torch.where(context == 0, motion, colour).sign()
        targets = self._targets(t, fixation, go, answer)
        return Batch(torch.cat([evidence, contexts], -1), targets, end)


@dataclass(frozen=True)
class ReadySetGo(LaboratoryTask):
    r"""Reproduce the interval between two pulses.

    .. math:: \hat y_{s + k} = \frac{k}{T_s}, \qquad k = 0, 1, \dots, T_s + o

    The first pulse, ready, and the second, set, are :math:`T_s` steps apart. From set on, the
    output is to rise on a line that reaches one after the same interval. The line goes on for a
    quarter of the interval, so that one is crossed on a slope. The produced interval is the number
    of steps from set to the first output of at least one. The metric `error` is the mean of its
    relative error; a trial that never reaches one counts as one.

    See `Synthetic` for the options of the training, validation and test sets.

    Args:
        intervals: The intervals :math:`T_s`, in steps.
        fixation: The shortest and the longest time before ready, in steps.
        noise: The standard deviation of the noise of each input.

    Shape:
        inputs: :math:`(T, B, 2)`, ready and set; targets: :math:`(T, B, 1)`.

    Raises:
        ValueError: If an option is out of range.

    Source:
        Jazayeri and Shadlen, Nature Neuroscience 13, 2010. https://doi.org/10.1038/nn.2590; with a
        ramp as target: Sohn et al., Neuron 103, 2019. https://doi.org/10.1016/j.neuron.2019.06.012
        (departures: two inputs, intervals in steps).

    Example:
        >>> trials = ReadySetGo().trials(4, torch.Generator().manual_seed(0))
        >>> sorted(trials.conditions)
        ['interval']
    """

    metric_name: ClassVar[str] = "error"
    higher_is_better: ClassVar[bool] = False

    intervals: tuple[int, ...] = (8, 11, 14, 17, 20)
    fixation: Span = (2, 6)
    noise: float = 0.05

    _least_spans: ClassVar[Mapping[str, int]] = {"fixation": 1}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.intervals or min(self.intervals) < 2:
            raise ValueError(f"expected intervals of at least 2 steps, got {self.intervals!r}")

    @property
    def input_size(self) -> int:
        return 2

    def baseline(self) -> float:
        # zero while waiting, and afterwards the mean of the lines at each time after set
        after = _line_steps(torch.tensor(self.intervals)).tolist()
        lines = list(zip(self.intervals, after, strict=True))
        total = 0.0
        count = 0.0
        for k in range(max(after) + 1):
            values = [k / interval for interval, last in lines if k <= last]
            mean = sum(values) / len(values)
            total += sum((value - mean) ** 2 for value in values)
            count += len(values)
        trials = len(self.intervals)
        waiting = sum(self.fixation) / 2 + sum(self.intervals) / trials
        return (total / trials) / (waiting + count / trials)

    def responses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        produced, _ = self._produced(outputs, targets)
        return produced

    def scores(self, outputs: Tensor, targets: Tensor) -> Tensor:
        produced, interval = self._produced(outputs, targets)
        return torch.where(produced.isnan(), 1.0, (produced - interval).abs() / interval)

    def trial_conditions(self, examples: Examples) -> dict[str, Tensor]:
        interval, _, _ = examples
        return {"interval": interval}

    @staticmethod
    def _produced(outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:  # (B,), (B,)
        """Return the produced interval, NaN if there is none, and the true one."""
        t = torch.arange(len(targets), device=targets.device)[:, None]
        waits = targets[..., 0] == 0
        begin = torch.where(waits, t, -1).amax(0)  # set, the last target of zero
        never = len(targets)
        go = torch.where(targets[..., 0] >= 1, t, never).amin(0)
        after = (t > begin) & ~targets[..., 0].isnan()
        crossed = torch.where(after & (outputs[..., 0] >= 1), t, never).amin(0)
        produced = torch.where(crossed == never, torch.nan, (crossed - begin).float())
        return produced, (go - begin).float()

    def _longest(self) -> int:
        longest = max(self.intervals)
        return self.fixation[1] + longest + int(_line_steps(torch.tensor(longest))) + 1

    def _draw(self, count: int, generator: Generator) -> Examples:
        chosen = torch.randint(len(self.intervals), (count,), generator=generator)
        interval = torch.tensor(self.intervals)[chosen]
        return interval, _uniform(self.fixation, count, generator), _seeds(count, generator)

    def _collate(self, examples: Examples) -> Batch:
        interval, ready, seeds = examples
        t = torch.arange(self._longest())[:, None]
        begin = ready + interval
        end = begin + _line_steps(interval) + 1
        inputs = torch.stack([t == ready, t == begin], -1).float()
        targets = ((t - begin).float() / interval).clamp(min=0)
        targets = torch.where(t < end, targets, torch.nan)
        return Batch(self._noisy(inputs, seeds), targets.unsqueeze(-1).contiguous(), end)


def _line_steps(interval: Tensor) -> Tensor:
    """Return the number of steps of a line after set: the interval and a quarter."""
    return interval + (interval // 4).clamp(min=2)
