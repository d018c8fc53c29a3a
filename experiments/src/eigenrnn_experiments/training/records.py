"""The records that a run stores as JSON, one model for each file.

msgspec reads and checks them: it takes the dataclasses that the rest of the code uses, has no
dependencies, and says the path of a wrong field. `result.json` is a `Result`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar

import msgspec

from eigenrnn_experiments.training.files import read_json, write_json
from eigenrnn_experiments.training.run_key import RunKey
from eigenrnn_experiments.training.settings import Settings

__all__ = [
    "AnalysisSummary",
    "ComputedNumber",
    "Description",
    "RecipeResults",
    "RunConfig",
    "Status",
    "convert",
    "read",
    "write",
]

_R = TypeVar("_R")


class Description(msgspec.Struct, frozen=True):
    """An object as data: the name of its class, and the options of its constructor."""

    kind: str = msgspec.field(name="class")
    options: dict[str, Any] = {}


class RunConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `config.json`, which is written when a run starts.

    Args:
        task: The task.
        modules: The modules of the network, as torch prints them.
        parameters: The number of trained parameters.
        settings: The training settings.
        versions: The versions of the software, and the machine.
        name: The name of the run on the console.
        best_by: The metric that selects the best evaluation.
        network: The call that makes the network; None for one that was made in Python.
        layer: The class of the recurrent layer.
        key: The name of a run of a recipe; None for another run.
        files: The user's own text that the task reads, by the name of its option.
        revision: The commit of the source tree, and whether it was modified.
        preprocessing: What maps the user's own texts to inputs.
    """

    task: Description
    modules: str
    parameters: int
    settings: Settings
    versions: dict[str, str]
    name: str | None = None
    best_by: str | None = None
    network: Mapping[str, Any] | None = None
    layer: str = ""
    key: RunKey | None = None
    files: dict[str, str] = {}
    revision: dict[str, Any] | None = None
    preprocessing: Description | None = None


class ComputedNumber(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `computed.json`: a number of a paper that needs no training."""

    recipe: str
    row: str
    quick: bool
    value: float
    seconds: float
    versions: dict[str, str]
    revision: dict[str, Any] | None = None


class RecipeRow(TypedDict):
    """The entries of a row of `results.json` that a report needs."""

    label: str
    quantity: str
    reported: float | None
    values: list[float]
    place: NotRequired[str]
    note: NotRequired[str | None]
    parameters: NotRequired[int | None]
    failed: NotRequired[list[Any]]
    seconds: NotRequired[list[float]]
    selected: NotRequired[list[float]]
    points: NotRequired[list[str]]
    best_point: NotRequired[str | None]
    error: NotRequired[float | None]
    at_most: NotRequired[float | None]
    decimals: NotRequired[int | None]
    unjudged: NotRequired[str]


class RecipeResults(TypedDict):
    """The content of `results.json`: the rows of a recipe beside the paper's."""

    recipe: str
    source: str
    rows: list[RecipeRow]
    versions: dict[str, str]
    notes: NotRequired[dict[str, list[str]]]


class AnalysisSummary(TypedDict):
    """The entry of `summary.json` that names the analyses of an earlier call."""

    found: dict[str, Any]


class Status(msgspec.Struct, frozen=True):
    """The content of `status.json`: whether a run of a recipe or a sweep has ended.

    Args:
        state: `waiting`, `unfinished`, `ended`, `diverged`, or `failed`.
        message: Why it has diverged or failed.
        scores: Further scores of the best model.
    """

    state: str = "waiting"
    message: str = ""
    scores: dict[str, float] | None = None


def read(path: Path, kind: type[_R], **added: Any) -> _R:
    """Read a record.

    Args:
        path: The file.
        kind: The class of the record.
        added: Fields that are not in the file.
    Raises:
        ValueError: If the file is damaged, or of another version; names the field that is wrong.
    """
    return convert(path, {**read_json(path), **added}, kind)


def convert(path: Path, content: Mapping[str, Any], kind: type[_R]) -> _R:
    """Return the record that some content of a file describes.

    Raises:
        ValueError: If a field is missing or wrong; names the file and the field.
    """
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path} is damaged or of another version: {error}") from None


def write(path: Path, record: Any) -> None:
    """Write a record."""
    write_json(path, msgspec.to_builtins(record))
