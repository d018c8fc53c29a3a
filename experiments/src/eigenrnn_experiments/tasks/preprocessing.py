"""Maps the user's files to the inputs of a network, and its outputs to predictions."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eigenrnn_experiments.data.corpora import END_OF_LINE, read_text, split_words
from eigenrnn_experiments.data.sequences import Sequences
from eigenrnn_experiments.data.series import read_series
from eigenrnn_experiments.data.tables import Columns, ReadOptions
from eigenrnn_experiments.tasks.ragged_sequences import RaggedSequences

__all__ = [
    "Answer",
    "Missing",
    "Preprocessing",
    "SeriesPreprocessing",
    "SeriesSteps",
    "TextPreprocessing",
    "Unit",
]

Answer = Literal["class", "number", "next"]
Missing = Literal["error", "mask", "forward"]
Unit = Literal["characters", "words"]


@dataclass(frozen=True)
class SeriesPreprocessing:
    r"""The channels, the scaling and the classes of series, as fitted on a training split.

    .. math:: x = (\text{value} - \text{mean}) / \text{deviation}

    Where values may be missing, the network has two inputs for each channel: first x of all
    channels, then one number for each channel, 1 where its value is missing and else 0. A missing
    x is 0, the mean, or with `forward` that of the last step with a value, if there is one.

    Args:
        answer: The `class` or the `number` of a sequence, or the `next` values of its channels.
        channels: The name of each channel.
        mean: The mean of each channel; zero without scaling.
        deviation: The standard deviation of each channel; one without scaling.
        class_names: The names of the classes, in the order of their indices.
        target_mean: The mean of the numbers.
        target_deviation: The standard deviation of the numbers.
        missing: What happens to missing values: an `error`, a `mask` among the inputs, or the last
            value carried `forward`, also with a mask.
        columns: The names of the columns of a table.
        separator: The character between the values of a line of CSV; see `ReadOptions`.
        decimal: The character before the decimals of a number in CSV.

    Example:
        >>> fitted = SeriesPreprocessing("next", ("left", "right"), (1.0, 0.0), (2.0, 1.0))
        >>> fitted.scale(torch.tensor([[3.0, 5.0]]))
        tensor([[1., 5.]])
    """

    answer: Answer
    channels: tuple[str, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...]
    class_names: tuple[str, ...] = ()
    target_mean: float = 0.0
    target_deviation: float = 1.0
    missing: Missing = "error"
    columns: Columns = field(default_factory=Columns)
    separator: str | None = None
    decimal: str = "."

    @property
    def input_size(self) -> int:
        """The number M of inputs: the channels, and their masks if values may be missing."""
        return len(self.input_channels)

    @property
    def input_channels(self) -> tuple[str, ...]:
        """The name of each input of the network."""
        if self.missing == "error":
            return self.channels
        return (*self.channels, *(f"{name} is missing" for name in self.channels))

    @property
    def output_size(self) -> int:
        """The number K of outputs."""
        sizes = {"class": len(self.class_names), "number": 1, "next": len(self.channels)}
        return sizes[self.answer]

    @property
    def vocabulary(self) -> None:
        """None: the inputs are real numbers."""

    @property
    def readout(self) -> Literal["all", "last"]:
        """Whether the outputs are at all steps or after the last one."""
        if self.answer == "next":
            return "all"
        return "last"

    def read(self, path: str | Path) -> Sequences:
        """Read a file of series with or without labels, whose channels may be in another order.

        The columns of a table have the names that they had in the training file.

        Args:
            path: The file or folder, or `-` for a table in CSV on standard input.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is empty or damaged, or has other channels.
        """
        options = ReadOptions(
            replace(self.columns, channels=self.channels),  # any other column is ignored
            self.separator,
            self.decimal,
            allow_missing=self.missing != "error",
            is_strict=False,
        )
        return self.in_order(read_series(path, options))

    def in_order(self, sequences: Sequences) -> Sequences:
        """Return sequences with their channels in the order of training.

        Raises:
            ValueError: If they have other channels.
        """
        if sequences.channels == self.channels:
            return sequences
        if sorted(sequences.channels) != sorted(self.channels):
            found = ", ".join(map(repr, sequences.channels))  # one may have no name
            raise ValueError(
                f"expected the {len(self.channels)} channels {', '.join(self.channels)} in "
                f"{sequences.path}, got {len(sequences.channels)}: {found}; give the columns the "
                "names that they have in the training file, and remove others"
            )
        order = [sequences.channels.index(name) for name in self.channels]
        return replace(sequences, channels=self.channels, values=sequences.values[:, order])

    def scale(
        self,
        values: Tensor,  # (..., M)
    ) -> Tensor:  # (..., M)
        """Scale the values of the channels, in single precision."""
        return ((values - _double(self.mean)) / _double(self.deviation)).float()

    def inputs(
        self,
        values: Tensor,  # (S, M)
        lengths: Tensor,  # (count,)
    ) -> Tensor:  # (S, input size)
        """Return the inputs of the network for sequences: scaled, with masks where needed.

        Args:
            values: The steps of all sequences, one after the other; NaN where one is missing.
            lengths: The number of steps of each sequence.
        """
        x = self.scale(values)
        if self.missing == "error":
            return x
        is_missing = values.isnan()
        if self.missing == "forward":
            # the row of the last value so far; one before the first row of the sequence is none
            step = torch.arange(len(x)).unsqueeze(1)
            last = step.masked_fill(is_missing, -1).cummax(0).values
            first = (lengths.cumsum(0) - lengths).repeat_interleave(lengths).unsqueeze(1)
            x = x.gather(0, last.clamp_min(0)).masked_fill(last < first, 0.0)
        else:
            x = x.masked_fill(is_missing, 0.0)
        return torch.cat([x, is_missing.float()], 1)

    def steps(self) -> "SeriesSteps":
        """Return a function that maps the values of one time step to inputs, for a `Stream`."""
        return SeriesSteps(self)

    def scale_targets(self, targets: Tensor) -> Tensor:
        """Scale the numbers of sequences, in single precision."""
        return ((targets.double() - self.target_mean) / self.target_deviation).float()

    def batches(
        self, sequences: Sequences, size: int
    ) -> Iterator[tuple[Tensor, Tensor]]:  # (T, B, M), (B)
        """Yield the scaled inputs and the lengths of all sequences, in order.

        Args:
            sequences: The result of `read`.
            size: The number of sequences in a batch.
        """
        lengths = torch.from_numpy(sequences.lengths)
        steps = self.inputs(torch.from_numpy(sequences.values), lengths)
        ragged = RaggedSequences.concatenate([steps], lengths)
        for rows in torch.arange(len(lengths)).split(size):
            yield ragged.padded(rows), lengths[rows]

    def answers(
        self,
        outputs: Tensor,  # (..., K)
    ) -> Tensor:  # (..., K)
        """Return the probabilities of classes, or numbers in the units of the file."""
        outputs = outputs.double()
        match self.answer:
            case "class":
                return outputs.softmax(-1)
            case "number":
                return outputs * self.target_deviation + self.target_mean
            case "next":
                return outputs * _double(self.deviation) + _double(self.mean)


class SeriesSteps:
    """Maps the values of one time step of series to inputs of a network.

    It keeps the last values, which `missing="forward"` needs. Sequences begin with the first call
    and after `reset`.

    Args:
        preprocessing: The preprocessing of a run.

    Shape:
        values: :math:`(M,)`, or :math:`(B, M)` for B sequences side by side; NaN where missing.
        returned: the same with `preprocessing.input_size` in place of M.

    Example:
        >>> fitted = SeriesPreprocessing("next", ("x",), (1.0,), (2.0,), missing="forward")
        >>> steps = fitted.steps()
        >>> steps(torch.tensor([3.0])), steps(torch.tensor([torch.nan]))
        (tensor([1., 0.]), tensor([1., 1.]))
    """

    def __init__(self, preprocessing: SeriesPreprocessing) -> None:
        self.preprocessing = preprocessing
        self.reset()

    def reset(self) -> None:
        """Begin a new sequence."""
        self._last = torch.zeros(())

    def __call__(
        self,
        values: Tensor,  # (M,) or (B, M)
    ) -> Tensor:  # (input size,) or (B, input size)
        x = self.preprocessing.scale(values)
        if self.preprocessing.missing == "error":
            return x
        is_missing = values.isnan()
        x = torch.where(is_missing, self._last, x)
        if self.preprocessing.missing == "forward":
            self._last = x
        return torch.cat([x, is_missing.float()], -1)


@dataclass(frozen=True)
class TextPreprocessing:
    r"""The symbols of a text.

    Args:
        symbols: The symbol of each index; the end of a line is a newline.
        unit: Whether the symbols are `characters`, or `words` separated by white space.
        lines: Whether each line is read by itself, from the initial state. The end of a line is
            then not a symbol.

    Example:
        >>> TextPreprocessing(("a", "b", "\n"), "characters").encode("ab").tolist()
        [0, 1]
    """

    symbols: tuple[str, ...]
    unit: Unit
    lines: bool = False

    @property
    def vocabulary(self) -> int:
        """The number of symbols."""
        return len(self.symbols)

    @property
    def input_size(self) -> int:
        """The number of symbols."""
        return self.vocabulary

    @property
    def output_size(self) -> int:
        """The number of symbols."""
        return self.vocabulary

    @property
    def readout(self) -> Literal["all"]:
        """The outputs are at all steps."""
        return "all"

    def read(self, path: str | Path) -> str:
        """Read a text in UTF-8, whose symbols are those of the training text.

        Args:
            path: The file, or `-` for standard input.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If the file is empty, not in UTF-8, or has an unknown symbol.
        """
        text = read_text(path)
        source = str(path)
        if source == "-":
            source = "standard input"
        also: set[str] = set()
        if self.lines:  # each line is a sequence, and its end no symbol of the network
            also = {END_OF_LINE}
        self._check_known(self._split(text), source, also)
        return text

    def encode(self, text: str) -> NDArray[np.int64]:
        """Return the index of each symbol of a text; with `lines`, of one line of it.

        Raises:
            ValueError: If a symbol is unknown; names its line.
        """
        found = self._split(text)
        self._check_known(found, "the text", set())
        index = {symbol: number for number, symbol in enumerate(self.symbols)}
        return np.array([index[symbol] for symbol in found], np.int64)

    def decode(self, numbers: NDArray[np.int64]) -> str:
        """Return the text of some symbol indices."""
        symbols = [self.symbols[number] for number in numbers.tolist()]
        if self.unit == "characters":
            return "".join(symbols)
        lines = " ".join(symbols).split(END_OF_LINE)
        return "\n".join(line.strip(" ") for line in lines)

    def _split(self, text: str) -> list[str]:
        if self.unit == "words":
            return split_words(text)
        return list(text)

    def _check_known(self, found: list[str], source: str, also: set[str]) -> None:
        """Check that all symbols are known.

        Raises:
            ValueError: If one is not; names its line.
        """
        unknown = set(found) - set(self.symbols) - also
        if not unknown:
            return
        place = next(place for place, symbol in enumerate(found) if symbol in unknown)
        shown = repr(found[place])
        if found[place] == END_OF_LINE:
            shown = "a line end"
        raise ValueError(
            f"expected the {len(self.symbols)} {self.unit} of the training text in {source}, got "
            f"{shown} in line {1 + found[:place].count(END_OF_LINE)}; replace it, or train on a "
            "text that contains it"
        )


Preprocessing = SeriesPreprocessing | TextPreprocessing


def _double(numbers: tuple[float, ...]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)
