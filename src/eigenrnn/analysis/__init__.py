"""Analyses of the dynamics of recurrent networks: pure functions of a matrix or a layer."""

from eigenrnn.analysis import plot
from eigenrnn.analysis.analyse import AnalysisResults, analyse
from eigenrnn.analysis.base import Analysis, Table
from eigenrnn.analysis.dynamics import (
    Dimension,
    Lyapunov,
    effective_rank,
    lyapunov,
    participation_ratio,
)
from eigenrnn.analysis.fixed_points import (
    FixedPoints,
    LineAttractor,
    fixed_points,
    line_attractor,
)
from eigenrnn.analysis.forward_pass import layer_inputs
from eigenrnn.analysis.gradients import (
    GradientMap,
    GradientNorms,
    JacobianBound,
    gradient_map,
    gradient_norms,
    jacobian_bound,
)
from eigenrnn.analysis.memory import (
    FisherMemory,
    LinearDecodability,
    fisher_memory,
    is_ungated,
    linear_decodability,
    network_memory,
)
from eigenrnn.analysis.nonnormality import (
    Henrici,
    Pseudospectrum,
    TransientGrowth,
    henrici,
    pseudospectrum,
    transient_growth,
)
from eigenrnn.analysis.perturbation import Perturbation, perturb
from eigenrnn.analysis.reduced_model import ReducedModel, reduced_model
from eigenrnn.analysis.spectrum import SchurStructure, Spectrum, schur_structure, spectrum
from eigenrnn.analysis.state_map import (
    RecurrentWeights,
    StateMap,
    recurrent_layers,
    recurrent_matrices,
    recurrent_weights,
    state_maps,
)
from eigenrnn.analysis.trajectory import Trajectory, trajectory
from eigenrnn.analysis.transition_spectra import TransitionSpectra, transition_spectra

__all__ = [  # noqa: RUF022, in the order of the reference
    "analyse",
    "effective_rank",
    "fisher_memory",
    "fixed_points",
    "gradient_map",
    "gradient_norms",
    "henrici",
    "is_ungated",
    "jacobian_bound",
    "layer_inputs",
    "line_attractor",
    "linear_decodability",
    "lyapunov",
    "network_memory",
    "participation_ratio",
    "perturb",
    "pseudospectrum",
    "state_maps",
    "recurrent_layers",
    "recurrent_matrices",
    "recurrent_weights",
    "reduced_model",
    "schur_structure",
    "spectrum",
    "trajectory",
    "transient_growth",
    "transition_spectra",
    "AnalysisResults",
    "Dimension",
    "FisherMemory",
    "FixedPoints",
    "GradientMap",
    "GradientNorms",
    "Henrici",
    "JacobianBound",
    "LineAttractor",
    "LinearDecodability",
    "Lyapunov",
    "Perturbation",
    "Pseudospectrum",
    "StateMap",
    "ReducedModel",
    "SchurStructure",
    "Spectrum",
    "Trajectory",
    "TransientGrowth",
    "TransitionSpectra",
    "Analysis",
    "RecurrentWeights",
    "Table",
    "plot",
]
