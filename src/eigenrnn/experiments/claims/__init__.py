"""The central claims of the papers, and whether our runs support them."""

from eigenrnn.experiments.claims import enrnn, nc_gru, nnrnn, nonnormal, scornn
from eigenrnn.experiments.claims.claim import Claim, Judgement, Runs, Verdict

__all__ = [
    "Claim",
    "Judgement",
    "Runs",
    "Verdict",
    "enrnn",
    "nc_gru",
    "nnrnn",
    "nonnormal",
    "scornn",
]
