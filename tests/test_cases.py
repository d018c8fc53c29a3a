"""The cases of the shared contracts cover all exports."""

import inspect
from functools import partial

import pytest

import cases
from eigenrnn import constraints, layers, nonlinearities
from eigenrnn.constraints import Constraint


def exported_classes(package, unless):
    exported = (getattr(package, name) for name in package.__all__)
    return {each for each in exported if inspect.isclass(each) and each not in unless}


def classes_of(cases_by_name):
    return {case.func if isinstance(case, partial) else case for case in cases_by_name.values()}


@pytest.mark.parametrize(
    ("exported", "covered"),
    [
        (exported_classes(constraints, {Constraint}), classes_of(cases.CONSTRAINTS)),
        (
            exported_classes(layers, {layers.Layer}),
            classes_of(cases.OURS | cases.NAMED | cases.CELLS),
        ),
        (set(nonlinearities.NONLINEARITIES), {name for name, _ in cases.NONLINEARITIES.values()}),
    ],
    ids=["constraints", "layers", "nonlinearities"],
)
def test_every_export_has_a_case(exported, covered):
    assert exported == covered
