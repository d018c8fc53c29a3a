"""Analyses of the dynamics of recurrent networks: pure functions of a matrix or a layer."""

from eigenrnn.analysis.analyse import AnalysisResults, analyse
from eigenrnn.analysis.base import Analysis
from eigenrnn.analysis.dimension import Dimension, effective_rank, participation_ratio
from eigenrnn.analysis.fisher_memory import (
    FisherBound,
    FisherMemory,
    fisher_bound,
    fisher_memory,
)
from eigenrnn.analysis.fixed_points import FixedPoints, fixed_points
from eigenrnn.analysis.gradient_map import GradientMap, gradient_map
from eigenrnn.analysis.gradient_norms import GradientNorms, gradient_norms
from eigenrnn.analysis.henrici import Henrici, henrici
from eigenrnn.analysis.hidden_chain import HiddenChain, hidden_chain
from eigenrnn.analysis.jacobian_bound import JacobianBound, jacobian_bound
from eigenrnn.analysis.kreiss import Kreiss, kreiss
from eigenrnn.analysis.linear_decodability import LinearDecodability, linear_decodability
from eigenrnn.analysis.lyapunov import Lyapunov, lyapunov
from eigenrnn.analysis.neumann_condition import NeumannCondition, neumann_condition
from eigenrnn.analysis.numerical_abscissa import NumericalAbscissa, numerical_abscissa
from eigenrnn.analysis.pseudospectrum import Pseudospectrum, pseudospectrum
from eigenrnn.analysis.recurrence import (
    Recurrence,
    recurrences,
    recurrent_layers,
    recurrent_matrices,
)
from eigenrnn.analysis.schur_structure import SchurStructure, schur_structure
from eigenrnn.analysis.spectrum import Spectrum, spectrum
from eigenrnn.analysis.transient_growth import TransientGrowth, transient_growth

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
    "Recurrence",
    "SchurStructure",
    "Spectrum",
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
    "recurrences",
    "recurrent_layers",
    "recurrent_matrices",
    "schur_structure",
    "spectrum",
    "transient_growth",
]
