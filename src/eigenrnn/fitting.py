"""The training loop of the estimators, and the files of fitted ones."""

import copy
import inspect
import itertools
import logging
import math
import pickle
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eigenrnn.errors import check_installed, check_positive, check_positive_integer
from eigenrnn.files import replacing
from eigenrnn.layers.stacked import Stacked
from eigenrnn.linalg import default_dtype
from eigenrnn.models import ResidualStack, SequenceModel, parameter_groups, penalty
from eigenrnn.torch_internals import DrawFrom

check_installed("eigenrnn[estimators]", "eigenrnn.estimators", "sklearn")

from sklearn.utils import check_random_state  # noqa: E402

__all__ = [
    "Loop",
    "Training",
    "check_layer",
    "check_plain",
    "checked_device",
    "drawing",
    "drawing_batches",
    "read_file",
    "seed_of",
    "write_file",
]

_FORMAT = 1
_VERSION = version("eigenrnn")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Training:
    """What a training left: the best epoch's weights are in the model.

    Args:
        history: The losses and the metric of each epoch.
        interruption: Ctrl-C, which the caller raises on as soon as the model is in its place.
    """

    history: list[dict[str, float]]
    interruption: KeyboardInterrupt | None = None


@dataclass(frozen=True)
class Loop:
    """Adam with clipped gradients, which keeps the best epoch.

    Args:
        epochs: The largest number of epochs.
        patience: Training ends after this number of epochs without improvement; None for never.
        lr: The learning rate; that of constrained matrices is a tenth of it.
        clip_norm: The largest norm of a gradient; None for any.
        verbose: Whether each epoch prints a line.
    Raises:
        ValueError: If an option is wrong.
    """

    epochs: int
    patience: int | None
    lr: float
    clip_norm: float | None
    verbose: int

    def __post_init__(self) -> None:
        check_positive_integer("epochs", self.epochs)
        check_positive("lr", self.lr)
        if self.patience is not None:
            check_positive_integer("patience", self.patience)
        if self.clip_norm is not None:
            check_positive("clip_norm", self.clip_norm)

    def run(
        self,
        model: nn.Module,
        losses: Callable[[], Iterable[tuple[Tensor, int]]],
        judge: Callable[[int, dict[str, float]], tuple[float, ...]],
    ) -> Training:
        """Train a model.

        Args:
            model: The model; it is left in evaluation mode, with its layers frozen.
            losses: Yields the loss and the number of sequences of each batch of an epoch.
            judge: Adds what it measures to the record of an epoch with this number, and returns
                what the best one has most of.
        Raises:
            FloatingPointError: If no epoch has a finite loss and metric.
            KeyboardInterrupt: If Ctrl-C comes before there is such an epoch.
        """
        # fused, small networks train in 0.90 to 0.92 of the time
        optimiser = torch.optim.Adam(parameter_groups(model, lr=self.lr), fused=True)
        history: list[dict[str, float]] = []
        best: tuple[float, ...] = (-math.inf,)
        best_epoch = 0
        best_weights: dict[str, Any] | None = None
        interruption: KeyboardInterrupt | None = None
        try:
            for epoch in range(1, self.epochs + 1):
                model.train()
                total = 0.0
                count = 0
                for loss, size in losses():
                    optimiser.zero_grad()
                    (loss + penalty(model)).backward()
                    if self.clip_norm is not None:
                        nn.utils.clip_grad_norm_(model.parameters(), self.clip_norm)
                    optimiser.step()
                    total += loss.item() * size
                    count += size
                _freeze(model)
                record = {"loss": total / count}
                found = judge(epoch, record)
                history.append(record)
                if all(map(math.isfinite, found)) and found > best:
                    best = found
                    best_epoch = epoch
                    best_weights = copy.deepcopy(model.state_dict())
                _logger.info("epoch %d: %s", epoch, record)
                if self.verbose:
                    values = "  ".join(f"{name} {value:.4g}" for name, value in record.items())
                    print(f"epoch {epoch:3}  {values}", flush=True)  # noqa: T201, asked for
                if self.patience is not None and epoch - best_epoch >= self.patience:
                    break
        except KeyboardInterrupt as error:
            if best_weights is None:
                raise
            interruption = error
        if best_weights is None:
            record = history[-1]
            remedy = "take a smaller lr"
            if math.isfinite(record["loss"] + record.get("validation_loss", 0.0)):
                remedy = "the metric is undefined there: hold out more, or take another scoring"
            raise FloatingPointError(f"expected a finite loss and metric, got {record}: {remedy}")
        model.load_state_dict(best_weights)
        model.zero_grad()
        _freeze(model)
        return Training(history, interruption)


def _freeze(model: nn.Module) -> None:
    """Put a model in evaluation mode, in which each of our layers keeps its matrices."""
    model.eval()
    for part in model.modules():
        if isinstance(part, Stacked):
            part.freeze()


def seed_of(random_state: Any) -> int:
    """Return a seed; without a `random_state` another one each time."""
    if random_state is None:  # numpy's global generator is the caller's
        return int(np.random.default_rng().integers(2**31))
    return int(check_random_state(random_state).randint(2**31))


def checked_device(name: str | torch.device | None) -> torch.device:
    """Return a device, the CPU by default.

    Raises:
        ValueError: If there is no such device.
    """
    try:
        device = torch.device(name or "cpu")
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"expected a device of this machine, got {name!r}: {reason}") from None
    return device


def drawing(generator: torch.Generator, device: torch.device) -> AbstractContextManager[Any]:
    """Let a generator draw what is drawn on the CPU; other devices draw from their own."""
    if device.type == "cpu":
        return DrawFrom(generator)
    return nullcontext()


def drawing_batches(
    model: nn.Module, generator: torch.Generator, device: torch.device
) -> Callable[[], AbstractContextManager[Any]]:
    """Return a function that returns `drawing` for the next batch of a training.

    `drawing` sends each operation through Python, which takes up to half of the time of a fit. The
    modules of eigenrnn and of torch draw in all batches or in none, so the first one tells.
    """
    first = drawing(generator, device)
    packages = {type(part).__module__.partition(".")[0] for part in model.modules()}
    if not isinstance(first, DrawFrom) or packages - {"eigenrnn", "torch"}:
        return partial(drawing, generator, device)
    count = itertools.count()

    def of_next_batch() -> AbstractContextManager[Any]:
        if next(count) and not first.has_drawn:
            return nullcontext()
        return first

    return of_next_batch


def check_plain(values: Iterable[Any], name: str, remedy: str) -> None:
    """Check, before a training, that `write_file` can write values.

    Raises:
        ValueError: If it cannot.
    """
    for value in values:
        if not _is_plain(value):
            kind = type(value).__name__
            raise ValueError(f"expected {name} to be numbers or texts, got a {kind}: {remedy}")


def check_layer(layer: object) -> None:
    """Check that an option is a function that makes layers, and not a layer.

    Raises:
        TypeError: If it is not.
    """
    if not callable(layer) or isinstance(layer, nn.Module):
        raise TypeError(f"expected layer to be a class or a function, got {layer!r}")


def write_file(path: str | Path, estimator: Any) -> None:
    """Write a fitted estimator: its options, its statistics and its weights, but no code.

    Args:
        path: The file, which is replaced at once or not at all.
        estimator: The estimator, with `model_`, `layer_` and `sizes_`.
    Raises:
        ValueError: If the folder does not exist.
        TypeError: If the class of the estimator is not of eigenrnn, so that no file can name it.
    """
    kind = type(estimator)
    if kind.__module__.split(".")[0] != "eigenrnn":
        raise TypeError(
            f"expected an estimator of eigenrnn, got {kind.__name__}, a class of "
            f"{kind.__module__}, whose code no file has: write its model_.state_dict()"
        )
    path = Path(path)
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"expected a file in a folder that exists, got {path}")
    options: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if _is_plain(value):
            options[name] = _packed(value)
    attributes: dict[str, Any] = {}
    for name, value in vars(estimator).items():
        # the network is stored by its layer, its sizes and its weights
        if name.endswith("_") and name not in ("model_", "layer_", "sizes_"):
            attributes[name] = _packed(value)
    content = {
        "format": _FORMAT,
        "eigenrnn": _VERSION,
        "kind": type(estimator).__name__,
        "options": options,
        "layer": _described(estimator.layer_),
        "sizes": _packed(estimator.sizes_),
        "readout": estimator.model_.readout,
        "attributes": attributes,
        "weights": {n: w.detach().cpu() for n, w in estimator.model_.state_dict().items()},
    }
    # not to a file: torch's writer to a full disk raises an error that does not name the cause
    buffer = BytesIO()
    torch.save(content, buffer)
    with replacing(path) as new:
        new.write_bytes(buffer.getbuffer())


def read_file(
    path: str | Path, kinds: Mapping[str, Any], layer: Any, device: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the estimator of a file with its model, and what else its fit had found.

    Args:
        path: The file.
        kinds: The estimators by name.
        layer: The function that makes the layer, if the file has none.
        device: Where the network computes.
    Raises:
        ValueError: If it is no such file, or its network cannot be made.
    """
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
        written_by = content["eigenrnn"]
        if content["format"] != _FORMAT or content["kind"] not in kinds:
            raise ValueError(f"a file of eigenrnn {written_by}, this is {_VERSION}")
    except (pickle.UnpicklingError, RuntimeError, EOFError, LookupError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ValueError(f"expected a file of estimator.save, got {path}: {reason}") from None
    if written_by != _VERSION:
        warnings.warn(
            f"{path} was written by eigenrnn {written_by}, this is {_VERSION}: compare its "
            "predictions with some of that version",
            stacklevel=3,
        )
    try:
        options = {name: _unpacked(value) for name, value in content["options"].items()}
        make_layer: Any = layer or _built(content["layer"])
        options = {"layer": make_layer, **options, "device": device}
        estimator = kinds[content["kind"]](**options)
        estimator.layer_ = make_layer
        estimator.sizes_ = content["sizes"]
        estimator.model_ = _model(make_layer, content).to(checked_device(device))
    except Exception as error:  # edited options can make a constructor raise anything
        reason = " ".join(str(error).split())[:500]
        raise ValueError(
            f"the network of {path} cannot be made: {reason} (written by eigenrnn {written_by}, "
            f"this is {_VERSION})"
        ) from error
    return estimator, {n: _unpacked(value) for n, value in content["attributes"].items()}


def _model(make_layer: Any, content: Any) -> SequenceModel:
    """Make the network of a file.

    Raises:
        ValueError: If its weights have other types than those of the file.
    """
    input_size, hidden_size, output_size = content["sizes"]
    weights = content["weights"]
    # the weights that are drawn are replaced at once: the caller's draws must not shift
    with torch.random.fork_rng(devices=()), default_dtype(weights["head.weight"].dtype):
        model = SequenceModel(make_layer(input_size, hidden_size), output_size, content["readout"])
    for name, value in model.state_dict().items():
        if name in weights and value.dtype != weights[name].dtype:
            raise ValueError(f"expected {name} of {weights[name].dtype}, got {value.dtype}")
    model.load_state_dict(weights)
    _freeze(model)
    return model


@cache
def _known_names() -> dict[str, Any]:
    """Return what a layer may be made from, by the names that stand in a file."""
    names: dict[str, Any] = {"ResidualStack": ResidualStack}
    for package in ("layers", "constraints", "init"):
        module = import_module(f"eigenrnn.{package}")
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                names[name] = value
    for kind in (nn.RNN, nn.GRU, nn.LSTM):
        names[f"torch.nn.{kind.__name__}"] = kind
    for dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128):
        names[str(dtype)] = dtype
    return names


def _described(value: Any) -> dict[str, Any] | None:
    """Return the call of a class of ours or torch's as data; None for anything else."""
    if _is_plain(value):
        return {"value": _packed(value)}
    if isinstance(value, partial):
        called: Any = value
        function = _described(called.func)
        arguments = [_described(each) for each in called.args]
        options = {name: _described(each) for name, each in called.keywords.items()}
        if None in (function, *arguments, *options.values()):
            return None
        return {"call": function, "arguments": arguments, "options": options}
    if isinstance(value, list | tuple):
        sequence: Any = value
        parts = [_described(each) for each in sequence]
        return None if None in parts else {"parts": parts}
    for name, known in _known_names().items():
        if known is value:
            return {"name": name}
    return None


def _built(description: Any) -> Any:
    """Return what `_described` describes.

    Raises:
        ValueError: If the file has no layer, or a name is unknown.
    """
    if description is None:
        raise ValueError("its layer was made by a function of yours: pass it, load(path, layer=)")
    if "value" in description:
        return _unpacked(description["value"])
    if "name" in description:
        name = description["name"]
        if name not in _known_names():
            raise ValueError(f"there is no {name}")
        return _known_names()[name]
    if "parts" in description:
        return [_built(each) for each in description["parts"]]
    arguments = [_built(each) for each in description["arguments"]]
    options = {name: _built(each) for name, each in description["options"].items()}
    return partial(_built(description["call"]), *arguments, **options)


def _is_plain(value: Any) -> bool:
    """Whether a value is a number, a text, None, or a list or dictionary of those."""
    if isinstance(value, Mapping):
        entries: Mapping[Any, Any] = value
        return all(map(_is_plain, (*entries, *entries.values())))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str | np.generic)


def _packed(value: Any) -> Any:
    """Return a value of what `torch.load` reads with `weights_only`.

    Raises:
        TypeError: If that is impossible.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        # torch has only the processor's order of bytes; `astype` copies
        return torch.from_numpy(value.astype(value.dtype.newbyteorder("=")))
    if isinstance(value, np.ndarray):
        array: Any = value
        return {"dtype": array.dtype.str, "values": _packed(array.tolist())}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        entries: Any = value.items()
        return {_packed(key): _packed(each) for key, each in entries}
    if isinstance(value, list):
        return [*map(_packed, value)]
    if isinstance(value, tuple):
        return (*map(_packed, value),)
    for kind in (bool, int, float, str):  # a class derived from one would be code
        if isinstance(value, kind):
            return kind(value)
    if value is not None:
        raise TypeError(f"expected plain values to write, got a {type(value).__name__}")
    return None


def _unpacked(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, dict) and set(value) == {"dtype", "values"}:
        array = np.empty(len(value["values"]), value["dtype"])
        array[:] = value["values"]
        return array
    if isinstance(value, dict):
        return {key: _unpacked(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_unpacked(each) for each in value]
    if isinstance(value, tuple):
        return tuple(_unpacked(each) for each in value)
    return value
