"""Why a bounded spectral radius learns A5: seven treatments of W; not from a paper."""

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor, nn

from eigenrnn.constraints import SpectralRadius, Unconstrained
from eigenrnn.init import orthogonal_
from eigenrnn_experiments.recipes.recipe import Recipe
from eigenrnn_experiments.recipes.row import Axis
from eigenrnn_experiments.recipes.setup import Network
from eigenrnn_experiments.training import Callback
from eigenrnn_experiments.training.callbacks import Measurements
from eigenrnn_experiments.training.run import Metrics
from reproduction.studies.state_tracking import SOURCE, relu_network, word_problem

__all__ = ["RECIPES", "RadiusCallback"]


def _moduli_below_one_(weight: Tensor, *, generator: Generator | None = None) -> Tensor:
    """Fill with the initial matrix of `SpectralRadius`."""
    with torch.no_grad():
        return weight.copy_(SpectralRadius(len(weight)).sample(generator))


class _OrthogonalStart(SpectralRadius):
    """`SpectralRadius` from an orthogonal matrix on."""

    @torch.no_grad()
    def reset(self, generator: Generator | None = None) -> None:
        self._assign(orthogonal_(torch.empty_like(self.raw), generator=generator))


class _SpectralNorm(Unconstrained):
    """W = T / max(1, |T|), with the spectral norm |T|: it bounds all singular values."""

    def _matrix(self) -> Tensor:
        norm = torch.linalg.matrix_norm(self.raw, 2)
        return self.raw / norm.clamp(min=1.0)


class _PenalisedRadius(Unconstrained):
    """A free W; the loss has the square of what its spectral radius has above one."""

    def penalty(self) -> Tensor:
        radius = torch.linalg.eigvals(self.raw).abs().amax()
        return (radius - 1.0).clamp(min=0.0).square()


class RadiusCallback(Callback):
    """Measures the spectral radius and the spectral norm of T and of W at every evaluation."""

    columns = ("radius_raw", "norm_raw", "radius", "norm")

    def after_evaluation(self, step: int, metrics: Metrics, model: nn.Module) -> Measurements:  # noqa: ARG002
        layer: Any = model.layer
        (direction,) = layer.all_directions()
        with torch.no_grad():
            T = direction.constraint.raw
            W = direction.constraint()
            return {
                "radius_raw": float(torch.linalg.eigvals(T).abs().max()),
                "norm_raw": float(torch.linalg.matrix_norm(T, 2)),
                "radius": float(torch.linalg.eigvals(W).abs().max()),
                "norm": float(torch.linalg.matrix_norm(W, 2)),
            }


_A5 = replace(
    word_problem("A5", steps=10_000),
    grid=(Axis.of_settings("lr", (1e-3, 3e-3, 1e-2)),),
    callback_factory=RadiusCallback,
)

_free_from_orthogonal = partial(Unconstrained, init=orthogonal_)
_free_from_small = partial(Unconstrained, init=_moduli_below_one_)
_norm_from_small = partial(_SpectralNorm, init=_moduli_below_one_)
_penalised_from_small = partial(_PenalisedRadius, init=_moduli_below_one_)


def _network(label: str, constraint: Any) -> Network:
    return relu_network(label, constraint, 72, parameters=9_852)


_decaying = replace(
    _network("free, small start, decaying rate", _free_from_small),
    settings={"lr_schedule": "cosine"},
)

RECIPES = (
    Recipe(
        name="state_tracking/a5-radius",
        summary="Even permutations of five things, the word problem of A5: what bounds the radius "
        "of W, and where W starts.",
        rows=(
            _A5.row(_network("free, orthogonal start", _free_from_orthogonal)),
            _A5.row(_network("free, small start", _free_from_small)),
            _A5.row(_decaying),
            _A5.row(_network("SpectralRadius, orthogonal start", _OrthogonalStart)),
            _A5.row(_network("SpectralRadius, small start", SpectralRadius)),
            _A5.row(_network("spectral norm, small start", _norm_from_small)),
            _A5.row(_network("penalty, small start", _penalised_from_small)),
        ),
        source=SOURCE,
        seeds=(0, 1, 2, 3, 4),
    ),
)
"""Whether the set contracts, or the division only lowers the rate."""
