"""Descriptions: values as data that JSON can hold."""

import json
import math
import signal
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from eigenrnn import EURNN, LRU, ScoRNN
from eigenrnn.init import uniform_, weights_
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.training.description import (
    build,
    describe,
    describe_call,
    describe_option_defaults,
    differences,
)


@dataclass(frozen=True)
class Options:
    rates: tuple[float, ...] = (0.1, 0.2)
    folder: Path | None = field(default=None, compare=False)

    def build(self):
        return self


DESCRIPTIONS = {
    "numbers": ([None, True, 2, 0.5, "a"], [None, True, 2, 0.5, "a"]),
    "a dataclass": (
        Options(folder=Path("data")),
        {"class": "test_description.Options", "options": {"rates": [0.1, 0.2]}},
    ),
    "a class of ours": (ScoRNN, "ScoRNN"),
    "a function of torch": (torch.tanh, "torch.tanh"),
    "a class of torch": (nn.LSTM, "torch.LSTM"),
    "a partial": (
        partial(uniform_, bound=0.5),
        {"function": "uniform_", "options": {"bound": 0.5}},
    ),
    "a method": (
        Options().build,
        {"function": "test_description.Options.build", "arguments": [describe(Options())]},
    ),
    "scalars": ([np.float64(2), torch.tensor(3), torch.float32], [2.0, 3, "torch.float32"]),
    "numbers that JSON lacks": ([math.inf, -math.inf, math.nan], ["inf", "-inf", "nan"]),
    "a mapping": ({"a": (1, {"b": 2})}, {"a": [1, {"b": 2}]}),
}


@pytest.mark.parametrize(("value", "expected"), DESCRIPTIONS.values(), ids=DESCRIPTIONS)
def test_a_value_becomes_data(value, expected):
    assert describe(value) == expected


@pytest.mark.parametrize(
    "value", [lambda: None, object(), torch.ones(3), {1: 2}, {1, 2}], ids=type
)
def test_a_value_without_a_description_is_rejected(value):
    with pytest.raises(TypeError, match="expected"):
        describe({"options": [value]})


SMALL = (partial(uniform_, bound=1.0),)


def test_the_defaults_of_a_network_are_those_of_its_classes_bases_and_functions():
    found = describe_option_defaults(
        {"layer": ScoRNN, "options": {"negative": 2, "init": partial(weights_, weight_ih=SMALL)}}
    )
    assert found["ScoRNN"] == {"num_layers": 1, "matrix_init": "unit_circle"}
    assert found["RNN"]["nonlinearity"] == "modrelu", "a default of the base class"
    assert "init" not in found["RNN"]
    assert found["ScaledCayley"]["init"] == "unit_circle", "a default of the set that it makes"
    assert "bound" not in found.get("uniform_", {})


OF_LRU = {
    "num_layers": 1,
    "bias": True,
    "batch_first": False,
    "dropout": 0.0,
    "bidirectional": False,
    "dtype": None,
    "constraint": "DiagonalDisc",
}
SHARED = {"trainable_h0": False, "locked_dropout": False, "backend": None}
OF_DISC = {"r_min": 0.0, "r_max": 1.0, "phase": 2 * math.pi}


@pytest.mark.parametrize("options", [{}, {"r_min": 0.99, "r_max": 0.999}], ids=str)
def test_what_an_lru_passes_to_its_set_has_the_defaults_of_the_set(options):
    """Archived runs are compared with this description."""
    found = describe_option_defaults({"layer": LRU, "options": options})
    assert found == {"DiagonalDisc": OF_DISC, "LRU": OF_LRU, "Stacked": SHARED}


def test_each_difference_has_its_path():
    then = describe_call(layer=partial(EURNN, capacity=2), hidden_size=4)
    now = describe_call(layer=partial(EURNN, capacity=3), hidden_size=8)
    assert differences({"network": then}, {"network": now}) == [
        "network.layer.capacity was 2, now 3",
        "network.hidden_size was 4, now 8",
    ]


@pytest.mark.parametrize(
    "value",
    [
        3,
        None,
        (1, 2.5),
        {"a": True},
        partial(EURNN, capacity=2),
        partial(uniform_, bound=1.0),
        EURNN,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_described_is_built_again(value):
    names = {"EURNN": EURNN, "uniform_": uniform_}
    built = build(json.loads(json.dumps(describe(value))), names)
    assert describe(built) == describe(value)
    assert type(built) is type(value)


def test_a_function_that_is_not_among_the_names_is_not_built():
    with pytest.raises(ValueError, match="foreign"):
        build({"layer": [{"function": "foreign.Layer"}]}, {"EURNN": EURNN})


def test_another_class_is_one_difference():
    then, now = {"task": describe(Copying(delay=4))}, {"task": describe(Options())}
    assert differences(then, now) == ["task.class was Copying, now test_description.Options"]


def test_an_option_that_one_side_lacks_is_absent():
    assert differences({"a": [1]}, {"a": (1,)}) == []
    assert differences({"a": 1}, {"b": 2}) == ["a was 1, now absent", "b was absent, now 2"]


def test_classes_of_two_modules_have_different_names():
    assert describe(signal.Signals) != describe(type("Signals", (), {"__module__": "other"}))
