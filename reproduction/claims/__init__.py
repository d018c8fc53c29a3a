"""The central claims of the five papers, one file per paper."""

from reproduction.claim import Claim
from reproduction.claims import enrnn, nc_gru, nnrnn, nonnormal, scornn

__all__ = ["CLAIMS"]

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for paper in (scornn, enrnn, nnrnn, nc_gru, nonnormal)
    for claim in paper.CLAIMS
}
"""All claims by name, in the order of the papers."""
