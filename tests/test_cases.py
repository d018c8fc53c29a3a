"""What a package exports is what the shared contracts run over."""

import inspect
from functools import partial

import pytest

import cases
from eigenrnn import constraints, layers, nonlinearities
from eigenrnn.constraints import Constraint
from eigenrnn.experiments import tasks
from eigenrnn.experiments.tasks import Task


def exported_classes(package, unless):
    exported = (getattr(package, name) for name in package.__all__)
    return {each for each in exported if inspect.isclass(each) and each not in unless}


def made_from(cases_by_name):
    return {case.func if isinstance(case, partial) else case for case in cases_by_name.values()}


@pytest.mark.parametrize(
    ("exported", "covered"),
    [
        (exported_classes(constraints, {Constraint}), made_from(cases.CONSTRAINTS)),
        (exported_classes(layers, set()), made_from(cases.LAYERS | cases.NAMED)),
        (exported_classes(tasks, {Task, tasks.Batch}), {type(t) for t in cases.TASKS.values()}),
        (set(nonlinearities.NONLINEARITIES), {name for name, _ in cases.NONLINEARITIES.values()}),
    ],
    ids=["constraints", "layers", "tasks", "nonlinearities"],
)
def test_every_export_has_a_case(exported, covered):
    assert exported == covered
