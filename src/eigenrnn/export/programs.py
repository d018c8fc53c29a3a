"""ONNX, or a program of `torch.export`, with a description."""

import gc
import json
import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.export import Dim

from eigenrnn import __version__
from eigenrnn.errors import check_installed
from eigenrnn.export.preparation import (
    Scaling,
    check_no_scaling,
    checked_scaling,
    with_our_layers,
)
from eigenrnn.files import replacing
from eigenrnn.fitted_network import FittedNetwork, fitted_network
from eigenrnn.layers import Layer
from eigenrnn.models import LanguageModel, ResidualStack, SequenceModel

__all__ = ["check_export", "export_model"]

# the sizes of the example that is traced
_T = 6
_B = 4
# those of the check: others, so that a size which the tracer has fixed is found
_OTHER_T = 9
_OTHER_B = 3
_TOLERANCE = 1e-4  # of the outputs' size, in single precision and better


def check_export(path: str | Path) -> None:
    """Check the name of an exported file, and that the packages for it are installed.

    Raises:
        ValueError: If its suffix is unknown or its folder does not exist.
        ImportError: If a package is not installed.
    """
    path = Path(path)
    if path.suffix not in (".onnx", ".pt2"):
        raise ValueError(
            f"expected a file that ends in .onnx or .pt2 (a program of torch.export), got {path}"
        )
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise ValueError(f"expected a file in a folder that exists, got {path}")
    if path.suffix == ".onnx":
        check_installed("eigenrnn[onnx]", "an export to ONNX", "onnx", "onnxscript", "onnxruntime")


def export_model(
    model: Any,
    path: str | Path,
    scaling: Scaling | None = None,
    notes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Export a layer or a model, describe the file in a JSON file beside it, and compare outputs.

    The numbers of time steps T and of sequences B stay variable. A `SequenceModel` takes
    ``inputs`` (T, B, M) and ``lengths`` (B,), and returns ``outputs``. A layer does so too, and
    returns the last states, ``state_0`` and further ones. A `LanguageModel` takes ``symbols``
    (T, B) and the states of its layers, and returns ``logits`` and the new states, so that a text
    can be continued. Torch's own recurrent layers are exported as ours, because torch fixes
    their T.

    A fitted classifier or regressor takes unscaled ``inputs`` in double precision, NaN where one
    is missing if it was fitted so. It returns ``probabilities`` (B, K), or ``numbers`` in the
    units of its targets, and the names of its classes are in the description.

    Args:
        model: The layer or model, in evaluation mode; or a fitted `SequenceClassifier` or
            `SequenceRegressor`.
        path: The file, which ends in ``.onnx``, or in ``.pt2`` for a program of `torch.export`.
        scaling: The mean and the standard deviation of each input, M numbers each. The file then
            takes unscaled ``inputs`` in double precision, and begins with (inputs - mean) /
            deviation, also in double precision.
        notes: What else the description shall hold, by name.
    Returns:
        The description, as in the JSON file.
    Raises:
        ValueError: If the suffix is unknown, the model is none of these, in training mode or
            noisy in evaluation, the scaling does not fit, ONNX Runtime does not compute with
            weights of bfloat16, or the exported model computes something else.
        ImportError: If a package for ONNX is not installed.
    Example:
        >>> model = SequenceModel(RNN(2, 8), 3, "last").eval()
        >>> export_model(model, "model.pt2")["inputs"][0]["shape"]  # doctest: +SKIP
        ['T', 'B', 2]
    """
    path = Path(path)
    check_export(path)
    if not isinstance(model, nn.Module):
        check_no_scaling(scaling)
        model = fitted_network(model)
        notes = {"classes": model.classes, **(notes or {})}
    if model.training:
        raise ValueError("expected a model in evaluation mode, got one in training: model.eval()")
    if path.suffix == ".onnx" and any(each.dtype == torch.bfloat16 for each in model.parameters()):
        raise ValueError(
            "expected weights that ONNX Runtime computes with, got some of bfloat16: model.float()"
        )
    module = _wrapped(model, scaling)
    example = module.example(_T, _B)
    other = module.example(_OTHER_T, _OTHER_B)
    # torch's exporter to ONNX gives the dimensions these names
    shapes: list[Any] = [_named(axes) for _, axes in module.inputs]
    export = _export_onnx
    if path.suffix != ".onnx":
        export = _export_program
        shapes = [dict.fromkeys(names, Dim.DYNAMIC) for names in shapes]
    with replacing(path) as new_path:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's exporter warns about itself
            found = export(module, new_path, example, shapes, other)
            expected = module(*other)
        description = {
            "eigenrnn": __version__,
            "file": path.name,
            "inputs": _describe(module.inputs, example),
            "outputs": _describe(module.outputs, expected),
            "initial_states": module.initial_states(),
            "largest_difference": _largest_difference(model, found, expected),
            **(notes or {}),
        }
        text = json.dumps(description, indent=2) + "\n"
        with replacing(path.with_suffix(".json")) as new_description:
            new_description.write_text(text, encoding="utf-8")
    return description


def _largest_difference(
    model: nn.Module, found: Sequence[Any], expected: Sequence[Tensor]
) -> float:
    """Return the largest relative difference of an exported model's outputs.

    Raises:
        ValueError: If it is more than rounding.
    """
    differences: list[float] = []
    tolerance = _TOLERANCE
    for output, wanted in zip(found, expected, strict=True):
        error = (torch.as_tensor(output).double() - wanted).abs().max()
        size = wanted.abs().max().clamp_min(1)
        differences.append(float(error / size))
        if wanted.dtype.itemsize == 2:
            tolerance = max(tolerance, 2 * torch.finfo(wanted.dtype).eps)
    difference = max(differences)
    if not difference <= tolerance:  # a NaN is refused too
        raise ValueError(
            f"expected the exported model to compute the outputs of {type(model).__name__}, got "
            f"a relative difference of {difference:.2g}"
        )
    return difference


class _Exported(nn.Module, ABC):
    """A model with tensors alone as inputs and outputs, and the names of their axes."""

    inputs: Sequence[tuple[str, tuple[str | int, ...]]]
    outputs: Sequence[tuple[str, tuple[str | int, ...]]]

    @abstractmethod
    def example(self, T: int, B: int) -> tuple[Tensor, ...]:
        """Return inputs of T time steps and B sequences."""

    def initial_states(self) -> dict[str, Any]:
        return {}


class _Sequences(_Exported):
    """What maps a padded batch of sequences to outputs."""

    def __init__(self, model: nn.Module, layer: Any, scaling: Scaling | None) -> None:
        super().__init__()
        self.model = model
        self.dtype = next(model.parameters()).dtype
        self.M: int = layer.input_size
        self.batch_first = bool(getattr(layer, "batch_first", False))
        self.inputs = [("inputs", self.axes(self.M)), ("lengths", ("B",))]
        self.mean = self.deviation = None
        if scaling is not None:
            self.mean, self.deviation = checked_scaling(scaling, self.M)

    def axes(self, features: int) -> tuple[str | int, ...]:
        if self.batch_first:
            return ("B", "T", features)
        return ("T", "B", features)

    def scaled(self, inputs: Tensor) -> Tensor:
        if self.mean is None or self.deviation is None:
            return inputs
        return ((inputs - self.mean) / self.deviation).to(self.dtype)

    def example(self, T: int, B: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(T)
        inputs = torch.randn(T, B, self.M, generator=generator, dtype=self.dtype)
        if self.mean is not None and self.deviation is not None:
            inputs = inputs * self.deviation + self.mean
        if self.batch_first:
            inputs = inputs.transpose(0, 1).contiguous()
        return inputs, torch.arange(T, T - B, -1)  # all lengths different, one of them T


class _Model(_Sequences):
    def __init__(self, model: SequenceModel, scaling: Scaling | None) -> None:
        super().__init__(model, model.layer, scaling)
        head = cast("nn.Module", model.head)  # the user may have put another one in its place
        if not isinstance(head, nn.Linear):
            raise ValueError(f"expected a head that is a Linear, got {type(head).__name__}")
        axes = ("B", head.out_features)
        if model.readout == "all":
            axes = self.axes(head.out_features)
        self.outputs = [("outputs", axes)]

    def forward(self, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        return (self.model(self.scaled(inputs), lengths),)


class _Fitted(_Sequences):
    """The network of an estimator, from unscaled inputs to answers."""

    def __init__(self, network: FittedNetwork) -> None:
        super().__init__(network, network.model.layer, None)
        self.network = network
        self.M = len(network.mean)
        self.inputs = [("inputs", self.axes(self.M)), ("lengths", ("B",))]
        name = "probabilities"
        if network.targets is not None:
            name = "numbers"
        self.outputs = [(name, ("B", network.model.head.out_features))]

    def example(self, T: int, B: int) -> tuple[Tensor, ...]:
        inputs, lengths = super().example(T, B)
        inputs = inputs.double() * self.network.scale + self.network.mean
        if self.network.missing != "error":
            inputs[::2, 0] = torch.nan
        return inputs, lengths

    def forward(self, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        return (self.model(inputs, lengths),)


class _Layer(_Sequences):
    def __init__(self, layer: Any, scaling: Scaling | None) -> None:
        super().__init__(layer, layer, scaling)
        with torch.no_grad():
            y, *states = self(*self.example(_T, _B))
            _, *others = self(*self.example(_T, _OTHER_B))
        outputs: list[tuple[str, tuple[str | int, ...]]] = [("outputs", self.axes(y.shape[-1]))]
        for k, (state, other) in enumerate(zip(states, others, strict=True)):
            axes: list[str | int] = list(state.shape)
            pairs = enumerate(zip(state.shape, other.shape, strict=True))
            (batch,) = [k for k, (size, size_of_other) in pairs if size != size_of_other]
            axes[batch] = "B"
            outputs.append((f"state_{k}", tuple(axes)))
        self.outputs = outputs

    def forward(self, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        outputs, states = self.model(self.scaled(inputs), lengths=lengths)
        return outputs, *_leaves([states])


class _Language(_Exported):
    def __init__(self, model: LanguageModel) -> None:
        super().__init__()
        self.model = model
        self.vocabulary = len(model.head)
        with torch.no_grad():
            _, states = model.advance(torch.zeros(1, _B, dtype=torch.long), None)
        leaves = _leaves(states)
        self.pairs = [isinstance(state, tuple) for state in states]
        axes = [(state.shape[0], "B", state.shape[2]) for state in leaves]
        self.inputs = [("symbols", ("T", "B"))]
        self.inputs += [(f"state_{k}", each) for k, each in enumerate(axes)]
        self.outputs = [("logits", ("T", "B", self.vocabulary))]
        self.outputs += [(f"new_state_{k}", each) for k, each in enumerate(axes)]

    def forward(self, symbols: Tensor, *states: Tensor) -> tuple[Tensor, ...]:
        given = iter(states)
        joined: list[Any] = []
        for is_pair in self.pairs:
            state: Any = next(given)
            if is_pair:
                state = (state, next(given))
            joined.append(state)
        logits, after = self.model.advance(symbols, tuple(joined))
        return logits, *_leaves(after)

    def example(self, T: int, B: int) -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(T)
        symbols = torch.randint(self.vocabulary, (T, B), generator=generator)
        dtype = self.model.head.dtype
        shapes = [(axes[0], B, axes[2]) for _, axes in self.inputs[1:]]
        draw: Any = torch.rand
        return symbols, *(draw(shape, generator=generator, dtype=dtype) for shape in shapes)

    @torch.no_grad()
    def initial_states(self) -> dict[str, Any]:
        """Return the initial states of one sequence: zero, or the trained numbers."""
        layers: Any = self.model.layers
        leaves = _leaves([layer.initial_state() for layer in layers])
        numbers: dict[str, Any] = {}
        for (name, _), leaf in zip(self.inputs[1:], leaves, strict=True):
            numbers[name] = 0
            if leaf.any():
                numbers[name] = leaf.tolist()
        return numbers


def _wrapped(model: nn.Module, scaling: Scaling | None) -> Any:
    """Return a model of tensors, with our layers in place of torch's.

    Raises:
        ValueError: If it is no layer or model of this library, or the scaling does not fit.
    """
    if isinstance(model, FittedNetwork):
        network = FittedNetwork(
            with_our_layers(model.model).cpu(),
            model.mean,
            model.scale,
            missing=model.missing,
            classes=model.classes,
            targets=model.targets,
        )
        return _Fitted(network).eval()
    if isinstance(model, SequenceModel):
        return _Model(with_our_layers(model), scaling).eval()
    if isinstance(model, Layer | ResidualStack | nn.RNNBase):
        return _Layer(with_our_layers(model), scaling).eval()
    if not isinstance(model, LanguageModel):
        raise ValueError(
            "expected a recurrent layer, a SequenceModel or a LanguageModel, got "
            f"{type(model).__name__}: call "
            "torch.onnx.export(model, inputs, dynamo=True, dynamic_shapes=...) yourself"
        )
    if scaling is not None:
        raise ValueError(f"expected no scaling for a model of symbols, got {scaling}")
    return _Language(with_our_layers(model)).eval()


def _leaves(states: Sequence[Any]) -> list[Tensor]:
    leaves: list[Tensor] = []
    for state in states:
        if isinstance(state, tuple):
            leaves += state
        else:
            leaves.append(state)
    return leaves


def _named(axes: tuple[str | int, ...]) -> dict[int, str]:
    return {k: name for k, name in enumerate(axes) if isinstance(name, str)}


def _export_onnx(
    module: Any, path: Path, example: tuple[Tensor, ...], shapes: list[Any], other: Any
) -> list[Any]:
    """Write a model in ONNX; return the outputs of ONNX Runtime for other inputs."""
    import onnxruntime

    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        program: Any = torch.onnx.export(
            module,
            example,
            input_names=[name for name, _ in module.inputs],
            output_names=[name for name, _ in module.outputs],
            dynamic_shapes=_by_argument(module, shapes),
            dynamo=True,
            verbose=False,
        )
        program.save(str(path))
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
    # torch leaves copies of classes behind, by which the name of a layer would be ambiguous
    del program
    gc.collect()
    session: Any = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [name for name, _ in module.inputs]
    return session.run(None, {n: v.numpy() for n, v in zip(names, other, strict=True)})


def _export_program(
    module: Any, path: Path, example: tuple[Tensor, ...], shapes: list[Any], other: Any
) -> list[Any]:
    """Write a program of `torch.export`; return its outputs for other inputs."""
    program = torch.export.export(module, example, dynamic_shapes=_by_argument(module, shapes))
    # not to a file: torch's writer to a full disk raises an error that does not name the cause
    content = BytesIO()
    torch.export.save(program, content)
    path.write_bytes(content.getbuffer())
    return list(torch.export.load(path).module()(*other))


def _by_argument(module: Any, shapes: list[Any]) -> tuple[Any, ...]:
    """Return the shapes as the arguments of `forward` take the inputs."""
    if isinstance(module, _Language):
        return shapes[0], tuple(shapes[1:])  # `*states` is one argument
    return tuple(shapes)


def _describe(
    named: Sequence[tuple[str, tuple[str | int, ...]]], tensors: Sequence[Tensor]
) -> list[dict[str, Any]]:
    described: list[dict[str, Any]] = []
    for (name, axes), tensor in zip(named, tensors, strict=True):
        dtype = str(tensor.dtype).removeprefix("torch.")
        described.append({"name": name, "dtype": dtype, "shape": list(axes)})
    return described
