"""State tracking: the word problem of a finite group."""

import itertools
import math
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Generator, Tensor

from eigenrnn.errors import check_positive_integer
from eigenrnn_experiments.tasks.base import Batch, check_choices
from eigenrnn_experiments.tasks.synthetic import Examples, SymbolTask

__all__ = ["StateTracking"]

Letters = Literal["elements", "generators"]

_SIZES = {"Z": (2, 256), "S": (2, 5), "A": (3, 5)}  # elements are stored in a byte
_THRESHOLD = 0.9


@dataclass(frozen=True)
class StateTracking(SymbolTask):
    r"""Track a state: after each letter, name the product of all letters read so far.

    The letters are elements of a finite group, drawn uniformly. One word over Z3, the integers
    modulo 3, whose product is the sum::

        input   1  2  2  0  1
        target  1  0  2  2  0

    .. math:: y_t = x_1 x_2 \cdots x_t, \qquad
        \text{baseline} = -\frac{1}{T} \sum_{t=1}^{T} \sum_{g \in G} p_t(g) \ln p_t(g)

    Z2 is parity. Zm counts modulo m. S3 is the smallest group whose products depend on the order.
    A5 and S5 are not solvable, which makes their word problem complete for the class
    :math:`\mathsf{NC}^1`. Training words are short and all words of the other sets long, so the
    metrics measure how far the learned rule generalises.

    The loss is the mean cross-entropy over all steps. The chance-level baseline knows the step but
    no letter: it predicts the probabilities :math:`p_t` of the products after t letters, which
    are uniform if the letters are all elements. `accuracy` is the mean over all steps, and
    `accuracy_n` the accuracy after n letters. `longest` is the number of steps before the accuracy
    first falls to 0.9 or below.

    See `Synthetic` for the options of the validation and test sets.

    Args:
        group: The group G: ``"Z2"`` to ``"Z256"``, cyclic; ``"S2"`` to ``"S5"``, all permutations;
            ``"A3"`` to ``"A5"``, the even permutations. The product :math:`g h` of two
            permutations applies g first.
        letters: Whether the letters are all ``"elements"``, or the neutral element and
            ``"generators"``: 1 of a cyclic group; a transposition and a cycle of all n numbers of
            the permutations; two cycles of the even ones.
        length: The number T of letters of a training word. With a target after each letter it
            also trains on all shorter words.
        test_lengths: The numbers n of letters, ascending, at which `accuracy_n` is measured. The
            words of the validation and test sets have the largest n.

    Shape:
        inputs: :math:`(T, B, M)`, one of M letters, one-hot.
        targets: :math:`(T, B)`, the indices of the products.

    Units:
        Loss and baseline in nats per step; `longest` in steps.

    Raises:
        ValueError: If the group is unknown, or a length is out of range.

    Source:
        Liu et al., ICLR 2023. https://arxiv.org/abs/2210.10749. Merrill, Petty and Sabharwal, ICML
        2024. https://arxiv.org/abs/2404.08819. Grazzi et al., ICLR 2025.
        https://arxiv.org/abs/2411.12537 (departures: letters are all elements, as in Merrill et
        al., or these generators; all training words have the same length).

    Example:
        >>> task = StateTracking("S3")
        >>> task.batch(64, torch.Generator().manual_seed(0)).inputs.shape
        torch.Size([40, 64, 6])
    """

    group: str = "Z2"
    letters: Letters = "elements"
    length: int = 40
    test_lengths: tuple[int, ...] = (40, 60, 80, 100, 150, 200, 300, 400, 500)
    test_examples: int = field(default=500, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        _kind_and_size(self.group)
        check_choices(self, letters=Letters)
        check_positive_integer("length", self.length)
        lengths = list(self.test_lengths)
        if not lengths or lengths != sorted(set(lengths)) or lengths[0] < 1:
            raise ValueError(
                f"expected test_lengths >= 1 in ascending order, got {self.test_lengths!r}"
            )

    @property
    def input_size(self) -> int:
        return len(self.letter_indices)

    @property
    def output_size(self) -> int:
        return len(multiplication_table(self.group))

    @property
    def letter_indices(self) -> list[int]:
        """The indices of the letters among the elements of the group, in order."""
        if self.letters == "elements":
            return list(range(self.output_size))
        elements = group_elements(self.group)
        return [elements.index(letter) for letter in _generators(self.group)]

    @property
    def metric_names(self) -> tuple[str, ...]:
        return "loss", "accuracy", "longest", *(f"accuracy_{n}" for n in self.test_lengths)

    def metric_sums(self, outputs: Tensor, targets: Tensor) -> Tensor:  # (T + 2,)
        count = targets.new_tensor([targets.shape[1]], dtype=outputs.dtype)
        correct = (outputs.argmax(-1) == targets).sum(1).to(outputs.dtype)  # at each step
        return torch.cat([count, count * self.loss(outputs, targets), correct])

    def metrics_from_sums(self, sums: Tensor) -> dict[str, float]:
        """Compute the metrics; the accuracy at a length that no word has is NaN."""
        count, loss = sums[:2].tolist()
        accuracies: list[float] = (sums[2:] / count).tolist()
        steps = len(accuracies)
        too_low = (t for t, accuracy in enumerate(accuracies) if accuracy <= _THRESHOLD)
        metrics = {
            "loss": loss / count,
            "accuracy": math.fsum(accuracies) / steps,
            "longest": float(next(too_low, steps)),
        }
        for n in self.test_lengths:
            metrics[f"accuracy_{n}"] = math.nan
            if n <= steps:
                metrics[f"accuracy_{n}"] = accuracies[n - 1]
        return metrics

    def baseline(self) -> float:
        probabilities = self.product_probabilities(self.length)
        logs = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
        return float(-(probabilities * logs).sum() / self.length)

    def product_probabilities(self, steps: int) -> NDArray[np.float64]:  # (steps, |G|)
        """Return the probability of each product after 1, 2, ... letters."""
        columns = multiplication_table(self.group)[:, self.letter_indices]
        rows = np.broadcast_to(np.arange(len(columns))[:, None], columns.shape)
        transition = np.zeros((len(columns), len(columns)))
        np.add.at(transition, (rows, columns), 1 / columns.shape[1])
        found = [transition[0]]  # the neutral element comes first
        for _ in range(steps - 1):
            found.append(found[-1] @ transition)
        return np.stack(found)

    def _draw(self, count: int, generator: Generator) -> Examples:  # (count, T)
        return self._draw_words(count, self.length, generator)

    def _draw_fixed(self, split: str, count: int, generator: Generator) -> Examples:
        if split == "train":
            return self._draw(count, generator)
        return self._draw_words(count, self.test_lengths[-1], generator)

    def _draw_words(self, count: int, length: int, generator: Generator) -> Examples:
        shape = (count, length)
        return (torch.randint(self.input_size, shape, generator=generator, dtype=torch.uint8),)

    def _collate(self, examples: Examples) -> Batch:
        (words,) = examples  # (B, T)
        table = multiplication_table(self.group)
        letters = np.array(self.letter_indices, np.uint8)[words.numpy().T]
        products = letters.copy()
        for t in range(1, len(letters)):
            products[t] = table[products[t - 1], letters[t]]
        inputs = F.embedding(words.T.long(), torch.eye(self.input_size, dtype=torch.float32))
        return Batch(inputs, torch.from_numpy(products.astype(np.int64)))


def _kind_and_size(group: object) -> tuple[str, int]:
    """Return the letter and the number of a group's name.

    Raises:
        ValueError: If there is no such group.
    """
    found = None
    if isinstance(group, str):
        found = re.fullmatch(r"([ZSA])([1-9]\d{0,2})", group)
    if found is not None:
        kind = found[1]
        size = int(found[2])
        least, largest = _SIZES[kind]
        if least <= size <= largest:
            return kind, size
    raise ValueError(f"expected group to be Z2 to Z256, S2 to S5 or A3 to A5, got {group!r}")


def group_elements(group: str) -> list[tuple[int, ...]]:
    """Return the elements of a group as permutations, each the images of 0, 1, ..., n - 1."""
    kind, n = _kind_and_size(group)
    if kind == "Z":
        return [tuple((i + shift) % n for i in range(n)) for shift in range(n)]
    permutations = list(itertools.permutations(range(n)))
    if kind == "S":
        return permutations
    even: list[tuple[int, ...]] = []
    for permutation in permutations:
        inversions = sum(a > b for a, b in itertools.combinations(permutation, 2))
        if inversions % 2 == 0:
            even.append(permutation)
    return even


def _generators(group: str) -> list[tuple[int, ...]]:
    """Return the neutral element and generators of the group, each once."""
    kind, n = _kind_and_size(group)

    def cycle(first: int, last: int) -> tuple[int, ...]:
        moved = range(first, last)
        return (*range(first), *moved[1:], first, *range(last, n))

    first = {"Z": cycle(0, n), "S": cycle(0, 2), "A": cycle(0, 3)}[kind]
    other = cycle(0, n)
    if kind == "A" and n % 2 == 0:  # a cycle of an even number is odd, and one less is even
        other = cycle(1, n)
    return list(dict.fromkeys([tuple(range(n)), first, other]))


@cache
def multiplication_table(group: str) -> NDArray[np.uint8]:  # (|G|, |G|)
    """Return the index of the product g h at row g and column h."""
    elements = group_elements(group)
    index = {element: i for i, element in enumerate(elements)}
    table = np.zeros((len(elements), len(elements)), np.uint8)
    for row, g in enumerate(elements):
        for column, h in enumerate(elements):
            # first g, then h
            product = tuple(h[image] for image in g)
            table[row, column] = index[product]
    return table
