"""Analyses of the trials of a laboratory task: their choices, and the states of a network."""

from eigenrnn_experiments.laboratory.demixed_pca import DemixedPCA, demixed_pca
from eigenrnn_experiments.laboratory.populations import (
    ConditionSpace,
    SubspaceOverlap,
    TargetedProjection,
    condition_space,
    subspace_overlap,
    targeted_projection,
)
from eigenrnn_experiments.laboratory.psychometric import PsychometricCurve, psychometric_curve

__all__ = [  # noqa: RUF022, in the order of the reference
    "psychometric_curve",
    "condition_space",
    "targeted_projection",
    "demixed_pca",
    "subspace_overlap",
    "ConditionSpace",
    "DemixedPCA",
    "PsychometricCurve",
    "SubspaceOverlap",
    "TargetedProjection",
]
