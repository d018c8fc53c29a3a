"""Every exported class, recipe and backend is registered under its name."""

import inspect
import re

import pytest
from reproduction.recipes import STUDIES

from cases import CELLS
from eigenrnn import constraints, layers
from eigenrnn.constraints import Constraint
from eigenrnn_experiments import baselines, registry, tasks
from eigenrnn_experiments.recipes import enrnn, nc_gru, nnrnn, nonnormal, scornn
from eigenrnn_experiments.tasks import NextSymbol, Synthetic, Task

KINDS = ("CONSTRAINTS", "LAYERS", "TASKS", "RECIPES", "BACKENDS")
ENTRIES = {name: entry for kind in KINDS for name, entry in getattr(registry, kind).items()}


NO_TASKS = {Task, NextSymbol, Synthetic, tasks.LaboratoryTask, tasks.Trials, tasks.Batch}


def exported_classes(package):
    exported = (getattr(package, name) for name in package.__all__)
    return {each for each in exported if inspect.isclass(each)}


@pytest.mark.parametrize(
    ("mapping", "exported"),
    [
        (registry.CONSTRAINTS, exported_classes(constraints) - {Constraint}),
        (
            registry.LAYERS,
            exported_classes(layers) - {*CELLS.values(), layers.Layer}
            | exported_classes(baselines),
        ),
        (registry.TASKS, exported_classes(tasks) - NO_TASKS),
    ],
    ids=["constraints", "layers", "tasks"],
)
def test_every_exported_class_has_one_name(mapping, exported):
    assert len(mapping) == len(exported)
    assert set(mapping.values()) == exported


def test_every_recipe_has_its_own_name():
    papers = (enrnn, nc_gru, nnrnn, nonnormal, scornn)
    assert list(registry.RECIPES.values()) == [each for paper in papers for each in paper.RECIPES]


def test_names_of_recipes_give_the_paper_and_the_place():
    published = r"[a-z_]+/(table|fig)\d(-free)?"
    tracking = r"state_tracking/[a-z]\d(-sets|-delta|-reflections|-radius)?"
    own = rf"{tracking}|baselines/(adding|copying|pixels)|permuted_mnist/(stacks|single)"
    assert all(re.fullmatch(published, name) for name in registry.RECIPES)
    assert all(re.fullmatch(own, name) for name in STUDIES)


def test_summaries_are_one_line_and_those_of_classes_and_recipes_are_sentences():
    for name, entry in ENTRIES.items():
        summary = registry.summary(entry)
        assert "\n" not in summary, name
        assert len(summary.split()) >= 4, name
        if name not in registry.BACKENDS:
            assert re.fullmatch(r"[A-Z].*\.", summary), name
            assert ":math:" not in summary, name
