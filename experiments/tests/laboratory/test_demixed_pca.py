"""Demixed principal components: averages by loops, a loss minimised directly, planted axes."""

from itertools import product

import numpy as np
import pytest

from eigenrnn_experiments.laboratory import demixed_pca

T, B, S = 8, 120, 6


def trials(noise=0.3, seed=0):
    """Return states with axes that are far from orthogonal, and the variables of each trial."""
    generator = np.random.default_rng(seed)
    motion = generator.choice([-1.0, 0.2, 1.0], B)
    context = generator.choice([0.0, 1.0], B, p=[0.7, 0.3])
    axes = generator.normal(size=(4, S))
    axes[1] = axes[0] + 0.3 * axes[1]
    t = np.linspace(0, 1, T)[:, None, None]
    states = np.sin(5 * t) * axes[0] + t * motion[:, None] * axes[1]
    states = states + (1 - t) * context[:, None] * axes[2] + 3
    states = states + 0.4 * t * (motion * context)[:, None] * axes[3]
    states += noise * generator.normal(size=states.shape)
    return states, {"motion": motion, "context": context}, axes


def mean_of(states, variables, values):
    """Return the mean state of one condition at each time."""
    chosen = [
        b
        for b in range(states.shape[1])
        if all(variables[name][b] == value for name, value in values.items())
    ]
    return states[:, chosen].mean(1), states[:, chosen]


def written_out(states, variables):
    """Return X, its marginalisations and the weighted deviations, one condition at a time."""
    levels = {name: np.unique(values) for name, values in variables.items()}
    every = [dict(zip(levels, values, strict=True)) for values in product(*levels.values())]
    means = [mean_of(states, variables, values)[0] for values in every]
    centre = np.mean(means, axis=(0, 1))
    X = np.stack([mean - centre for mean in means])  # (C, T, S)
    time = X.mean(0)

    def over(name, value):
        return np.mean([x for x, c in zip(X, every, strict=True) if c[name] == value], axis=0)

    motion = np.stack([over("motion", c["motion"]) - time for c in every])
    context = np.stack([over("context", c["context"]) - time for c in every])
    time = np.broadcast_to(time, X.shape)
    parts = {"time": time, "motion": motion, "context": context}
    parts["motion x context"] = X - time - motion - context
    deviations = []
    for mean, values in zip(means, every, strict=True):
        own = mean_of(states, variables, values)[1]
        deviations.append((own - mean[:, None]).reshape(-1, states.shape[2]) / own.shape[1] ** 0.5)
    return X.reshape(-1, states.shape[2]), parts, np.concatenate(deviations), centre, every


def test_the_shares_are_those_of_balanced_averages_written_out():
    states, variables, _ = trials()
    found = demixed_pca(states, variables, components=3)
    X, parts, _, centre, every = written_out(states, variables)
    assert found.names == list(parts)
    expected = [(part**2).sum() / (X**2).sum() for part in parts.values()]
    np.testing.assert_allclose(found.totals, expected, rtol=1e-10)
    assert found.totals.sum() == pytest.approx(1)
    np.testing.assert_allclose(found.origin, centre, atol=1e-12)
    for name, values in found.conditions.items():
        assert values.tolist() == [condition[name] for condition in every]
    for k, d in enumerate(found.decoders):
        coordinates = (X @ d).reshape(6, T).T
        np.testing.assert_allclose(found.coordinates[..., k], coordinates, atol=1e-10)
        shares = [((part @ d) ** 2).sum() / ((X @ d) ** 2).sum() for part in parts.values()]
        np.testing.assert_allclose(found.parts[k], shares, atol=1e-10)
        rest = X - np.outer(X @ d, found.encoders[k])
        assert found.explained[k] == pytest.approx(1 - (rest**2).sum() / (X**2).sum())
    assert (np.diff(found.explained) <= 0).all()
    some = states[2:4, :5]
    np.testing.assert_allclose(found.project(some), (some - centre) @ found.decoders.T)


@pytest.mark.parametrize("ridge", [1e-6, 0.05])
def test_each_marginalisation_minimises_its_loss(ridge):
    states, variables, _ = trials()
    found = demixed_pca(states, variables, components=2, ridge=ridge)
    X, parts, E, _, _ = written_out(states, variables)
    mu = ridge * (X**2).sum()
    regressors = np.concatenate([X, E, mu**0.5 * np.eye(S)])
    for p, part in enumerate(parts.values()):
        targets = np.concatenate([part.reshape(-1, S), np.zeros((len(E) + S, S))])
        # alternate: the best decoders of given encoders, and the best encoders of those
        F = np.eye(S)[:2]
        for _ in range(300):
            D = np.linalg.lstsq(regressors, targets @ F.T, rcond=None)[0].T
            left, _, right = np.linalg.svd(D @ regressors.T @ targets, full_matrices=False)
            F = left @ right
        mine = found.kinds == p
        np.testing.assert_allclose(
            found.encoders[mine] @ found.encoders[mine].T, np.eye(2), 0, 1e-9
        )
        product = found.encoders[mine].T @ found.decoders[mine]
        np.testing.assert_allclose(product, F.T @ D, atol=1e-6)


def test_axes_that_are_not_orthogonal_are_separated():
    generator = np.random.default_rng(1)
    one, two = generator.choice([-1.0, 1.0], (2, B))
    axes = generator.normal(size=(2, S))
    axes[1] = axes[0] + 0.5 * axes[1]
    t = np.linspace(-1, 1, T)[:, None, None]  # the variables have no common mean in time
    states = t * (one[:, None] * axes[0] + two[:, None] * axes[1])
    balanced = demixed_pca(states, {"one": one, "two": two}, components=1)
    assert [balanced.names[k] for k in balanced.kinds] in (["one", "two"], ["two", "one"])
    assert balanced.parts.max(1).min() > 1 - 1e-8  # the ridge leaves the rest
    # a principal component of the same means mixes both
    X = np.stack([t[:, 0] * (a * axes[0] + b * axes[1]) for a in (-1, 1) for b in (-1, 1)])
    first = np.linalg.svd(X.reshape(-1, S))[2][0]
    mixed = np.abs(axes @ first)
    assert mixed.min() > 0.5 * mixed.max()
    for name, axis in zip(("one", "two"), axes, strict=True):
        k = list(balanced.kinds).index(balanced.names.index(name))
        cosine = balanced.encoders[k] @ axis / np.linalg.norm(axis)
        assert abs(cosine) == pytest.approx(1, abs=1e-5)


def test_the_number_of_trials_of_a_condition_does_not_count():
    states, variables, _ = trials()
    again = np.flatnonzero(variables["motion"] == 1.0)
    rows = np.concatenate([np.arange(B), again, again])
    more = {name: values[rows] for name, values in variables.items()}
    once, thrice = demixed_pca(states, variables), demixed_pca(states[:, rows], more)
    np.testing.assert_allclose(thrice.decoders, once.decoders, atol=1e-9)
    np.testing.assert_allclose(thrice.explained, once.explained, atol=1e-9)


def test_noise_turns_the_decoders_and_not_the_encoders():
    generator = np.random.default_rng(3)
    one = generator.choice([-1.0, 1.0], 4000)
    states = np.zeros((3, 4000, 2))
    states[..., 0] = one
    # what both entries share is noise, so a decoder subtracts the second
    shared = generator.normal(size=(3, 4000))
    states += shared[..., None] + 0.1 * generator.normal(size=states.shape)
    found = demixed_pca(states, {"one": one}, components=1)
    k = list(found.kinds).index(found.names.index("one"))
    assert abs(found.encoders[k][0]) > 0.99
    assert found.decoders[k][1] / found.decoders[k][0] == pytest.approx(-1, abs=0.05)


def test_the_picture_has_a_panel_for_time_and_each_variable(tmp_path):
    states, variables, _ = trials()
    found = demixed_pca(states, variables)
    figure = found.plot()
    assert len(figure.axes) == 4
    assert len(figure.axes[2].lines) == 6
    assert len(figure.axes[2].get_legend().get_texts()) == 3
    table = found.table()
    assert {len(column) for column in table.values()} == {T * 6 * len(found.kinds)}
    wanted = (table["t"] == 5) & (table["component"] == 2)
    wanted &= (table["condition_motion"] == 0.2) & (table["condition_context"] == 1)
    (value,) = table["coordinate"][wanted]
    place = (found.conditions["motion"] == 0.2) & (found.conditions["context"] == 1)
    assert value == found.coordinates[5, place, 1][0]
    assert all(path.stat().st_size for path in found.save(tmp_path / "demixed"))
