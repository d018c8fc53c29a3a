"""Analyses of the dynamics of recurrent networks: pure functions of a matrix or a layer."""

from eigenrnn.analysis.analyse import AnalysisResults, analyse
from eigenrnn.analysis.base import Analysis
from eigenrnn.analysis.dynamics import (
    Dimension,
    FixedPoints,
    Lyapunov,
    StateSpace,
    effective_rank,
    fixed_points,
    lyapunov,
    participation_ratio,
    state_space,
)
from eigenrnn.analysis.gradients import (
    GradientMap,
    GradientNorms,
    JacobianBound,
    gradient_map,
    gradient_norms,
    jacobian_bound,
)
from eigenrnn.analysis.hidden_chain import HiddenChain, hidden_chain
from eigenrnn.analysis.memory import (
    FisherBound,
    FisherMemory,
    LinearDecodability,
    fisher_bound,
    fisher_memory,
    linear_decodability,
)
from eigenrnn.analysis.neumann_condition import NeumannCondition, neumann_condition
from eigenrnn.analysis.nonnormality import (
    Henrici,
    NumericalAbscissa,
    TransientGrowth,
    henrici,
    numerical_abscissa,
    transient_growth,
)
from eigenrnn.analysis.pseudospectrum import Kreiss, Pseudospectrum, kreiss, pseudospectrum
from eigenrnn.analysis.psychometric import PsychometricCurve, psychometric_curve
from eigenrnn.analysis.recurrence import (
    Recurrence,
    recurrences,
    recurrent_layers,
    recurrent_matrices,
)
from eigenrnn.analysis.spectrum import SchurStructure, Spectrum, schur_structure, spectrum

__all__ = [
    "Analysis",
    "AnalysisResults",
    "Dimension",
    "FisherBound",
    "FisherMemory",
    "FixedPoints",
    "GradientMap",
    "GradientNorms",
    "Henrici",
    "HiddenChain",
    "JacobianBound",
    "Kreiss",
    "LinearDecodability",
    "Lyapunov",
    "NeumannCondition",
    "NumericalAbscissa",
    "Pseudospectrum",
    "PsychometricCurve",
    "Recurrence",
    "SchurStructure",
    "Spectrum",
    "StateSpace",
    "TransientGrowth",
    "analyse",
    "effective_rank",
    "fisher_bound",
    "fisher_memory",
    "fixed_points",
    "gradient_map",
    "gradient_norms",
    "henrici",
    "hidden_chain",
    "jacobian_bound",
    "kreiss",
    "linear_decodability",
    "lyapunov",
    "neumann_condition",
    "numerical_abscissa",
    "participation_ratio",
    "pseudospectrum",
    "psychometric_curve",
    "recurrences",
    "recurrent_layers",
    "recurrent_matrices",
    "schur_structure",
    "spectrum",
    "state_space",
    "transient_growth",
]
