"""Dale's law, low rank and masks: closed forms, bad arguments, and networks with them."""

from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from eigenrnn.constraints import Dale, LowRank, Masked, Unconstrained, constrain
from eigenrnn.linalg import tol
from random_constraints import distance, initialised, perturbed, stream

N = 20


def test_the_first_units_excite_and_the_others_inhibit():
    constraint = perturbed(Dale, N)
    W = constraint().detach().numpy()
    assert (W[:, :16] >= 0).all()
    assert (W[:, 16:] <= 0).all()
    assert np.count_nonzero(W) == N * N


def test_the_initial_inputs_are_balanced_and_have_the_chosen_radius():
    W = initialised(lambda n: Dale(n, radius=0.7), N, dtype=torch.float64)().detach()
    assert W.sum(1).abs().max() < tol(torch.float32, N)
    assert abs(np.abs(np.linalg.eigvals(W.numpy())).max() - 0.7) < tol(torch.float32, N)


def test_an_assigned_matrix_of_zeros_can_grow_again():
    constraint = Dale(4)
    constraint.assign(torch.zeros(4, 4))
    loss = (constraint() * constraint.signs(constraint.raw)).sum()
    loss.backward()
    assert torch.equal(constraint.raw.grad, torch.ones(16))


def test_the_residual_is_the_norm_of_what_has_the_wrong_sign():
    W = torch.tensor([[1.0, 3.0], [-4.0, -1.0]])
    assert Dale(2, excitatory=0.5).residual(W) == 5.0


def test_assigning_takes_the_leading_singular_vectors():
    plus = torch.randn(N, N, generator=stream(1), dtype=torch.float64)
    low = torch.randn(N, 2, generator=stream(2), dtype=torch.float64)
    low = low @ torch.randn(2, N, generator=stream(3), dtype=torch.float64)
    constraint = LowRank(N, rank=2, plus=plus).double()
    constraint.plus.copy_(plus)  # not the rounded one
    constraint.assign(low + plus)
    assert distance(constraint(), low + plus) < tol(torch.float64, N) * 10
    balanced = (constraint.m.T @ constraint.m - constraint.n.T @ constraint.n).abs().max()
    assert balanced < 1e-10 * N


def test_the_eigenvalues_of_the_overlap_are_those_of_the_matrix():
    constraint = perturbed(lambda n: LowRank(n, rank=3), N, dtype=torch.float64)
    of_W = np.linalg.eigvals(constraint().detach().numpy())
    leading = of_W[np.argsort(-np.abs(of_W))][:3]
    of_overlap = np.linalg.eigvals(constraint.overlap.detach().numpy())
    np.testing.assert_allclose(np.sort_complex(leading), np.sort_complex(of_overlap), atol=1e-12)


def test_a_mask_keeps_its_zeros_and_counts_only_its_connections():
    mask = torch.rand(N, N, generator=stream(4)) < 0.3
    constraint = perturbed(lambda n: Masked(n, mask=mask, inner=Dale), N)
    W = constraint().detach()
    assert torch.equal(W != 0, mask)
    assert sum(p.numel() for p in constraint.parameters()) == int(mask.sum())
    assert Dale(N).residual(W) == 0


def test_a_random_mask_is_a_function_of_its_seed_alone():
    one = Masked(N, density=0.25)
    torch.rand(3)
    assert torch.equal(one.mask, Masked(N, density=0.25).mask)
    assert not torch.equal(one.mask, Masked(N, density=0.25, seed=1).mask)
    assert int(one.mask.sum()) == N * N // 4


def test_masked_free_entries_keep_the_variance_of_a_row():
    sparse, full = Masked(400, density=0.1), Unconstrained(400)
    sparse.reset(stream(0))
    full.reset(stream(0))
    ratio = float(sparse().detach().square().sum() / full().detach().square().sum())
    assert abs(ratio - 1) < 0.05


@pytest.mark.parametrize(
    "make",
    [Dale, partial(LowRank, rank=2), partial(Masked, density=0.5)],
    ids=["dale", "low-rank", "masked"],
)
def test_matrices_of_torchs_layers_can_be_constrained(make):
    layer = nn.GRU(3, 6)
    for gate in ("r", "z", "n"):
        constrain(layer, "weight_hh_l0", make, rows=gate)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
    before = layer.weight_hh_l0.detach().clone()
    layer(torch.randn(4, 2, 3, generator=stream(0)))[0].sum().backward()
    optimiser.step()
    for block, old in zip(layer.weight_hh_l0.chunk(3), before.chunk(3), strict=True):
        make(6).check(block)
        assert not torch.equal(block, old)
