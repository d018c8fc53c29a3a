"""The layers on the delta rule equal loops over single numbers, written out in NumPy."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy.special import expit as sigmoid
from torch.nn.utils.rnn import pack_padded_sequence

import eigenrnn
from draws import stream
from eigenrnn.analysis import (
    analyse,
    lyapunov,
    state_maps,
    trajectory,
    transition_spectra,
)

T, B, M, N = 9, 3, 2, 8
FULL = {"gated": True, "convolution": 3, "output_gate": True}
LAYERS = {
    "plain": eigenrnn.DeltaNet,
    "positive": partial(eigenrnn.DeltaNet, eigenvalues=(0.2, 0.9)),
    "reflections": partial(eigenrnn.DeltaNet, heads=4, reflections=3),
    "gated": partial(eigenrnn.DeltaNet, heads=2, gated=True),
    "convolution": partial(eigenrnn.DeltaNet, heads=2, reflections=2, convolution=4),
    "output gate": partial(eigenrnn.DeltaNet, heads=2, output_gate=True),
    "all": partial(eigenrnn.DeltaNet, heads=2, reflections=2, **FULL),
    "GatedDeltaNet": partial(eigenrnn.GatedDeltaNet, heads=2),
    "DeltaProduct": partial(eigenrnn.DeltaProduct, heads=2, eigenvalues=(-0.7, 0.4)),
}
each_layer = pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)


def inputs(*shape, seed=1, dtype=torch.float64):
    return torch.randn(shape or (T, B, M), generator=stream(seed), dtype=dtype)


def with_biases(layer):
    """Return the layer with biases other than the zeros of its initialisation."""
    with torch.no_grad():
        for direction in layer.all_directions():
            if direction.output_bias is not None:
                direction.output_bias.copy_(inputs(N, seed=5))
    return layer


def weights(layer):
    (direction,) = layer.all_directions()
    return {name: p.detach().numpy() for name, p in direction.named_parameters()}


def one_sequence(layer, x):
    """Evaluate the layer on a sequence of shape (T, M), number by number."""
    w = weights(layer)
    H, R = layer.heads, layer.reflections
    K = N // H
    low, high = layer.eigenvalues
    rows = x @ w["weight_ih"].T
    mixed, rest = rows[:, : (1 + 2 * R) * N], rows[:, (1 + 2 * R) * N :]
    if layer.convolution:
        kernel = w["convolution_weight"]
        c = layer.convolution
        filtered = np.zeros_like(mixed)
        for t in range(len(x)):
            for back in range(min(c, t + 1)):
                filtered[t] += kernel[:, c - 1 - back] * mixed[t - back]
        mixed = filtered * sigmoid(filtered)
    q = mixed[:, :N].reshape(-1, H, K)
    k = mixed[:, N : (1 + R) * N].reshape(-1, H, R, K)
    v = mixed[:, (1 + R) * N :].reshape(-1, H, R, K)
    strength = rest[:, : H * R].reshape(-1, H, R)
    rest = rest[:, H * R :]
    S = np.zeros((H, K, K))
    ys = []
    for t in range(len(x)):
        o = np.zeros((H, K))
        for h in range(H):
            if layer.gated:
                rate = np.log1p(np.exp(rest[t, h] + w["dt_bias"][h]))
                S[h] *= np.exp(-np.exp(w["A_log"][h]) * rate)
            for j in range(R):
                key = k[t, h, j] / np.sqrt(np.sum(k[t, h, j] ** 2))
                eigenvalue = high - (high - low) * sigmoid(strength[t, h, j])
                beta = 1 - eigenvalue
                factor = np.eye(K) - beta * np.outer(key, key)
                S[h] = factor @ S[h] + beta * np.outer(key, v[t, h, j])
            query = q[t, h] / np.sqrt(np.sum(q[t, h] ** 2)) / math.sqrt(K)
            o[h] = query @ S[h]
            if layer.output_gate:
                gate = rest[t, (H if layer.gated else 0) + h * K :][:K]
                o[h] /= np.sqrt(np.mean(o[h] ** 2) + 1e-5)
                o[h] *= w["norm_weight"] * gate * sigmoid(gate)
        ys.append(w["weight_out"] @ o.reshape(-1) + w.get("output_bias", 0.0))
    return np.stack(ys), S


@each_layer
def test_outputs_equal_the_formula_in_numpy(make):
    layer = with_biases(make(M, N, generator=stream()).double())
    x = inputs()
    output, h_n = layer(x)
    for b in range(B):
        y, S = one_sequence(layer, x[:, b].numpy())
        np.testing.assert_allclose(output[:, b].detach(), y, rtol=0, atol=1e-12)
        np.testing.assert_allclose(h_n[0, b, : S.size].detach(), S.ravel(), rtol=0, atol=1e-12)


@each_layer
@pytest.mark.parametrize("bidirectional", [False, True], ids=["forward", "both"])
def test_lengths_equal_sequences_of_their_own(make, bidirectional):
    layer = with_biases(make(M, N, 2, bidirectional=bidirectional).double())
    x = inputs()
    lengths = torch.tensor([2, 9, 5])
    h0 = inputs(*layer.initial_state(B).shape, seed=2)
    output, h_n = layer(x, h0, lengths=lengths)
    packed = pack_padded_sequence(x, lengths, enforce_sorted=False)
    packed_output, packed_h_n = layer(packed, h0)
    expected_data = pack_padded_sequence(output, lengths, enforce_sorted=False).data
    assert torch.equal(packed_output.data, expected_data)
    assert torch.equal(packed_h_n, h_n)
    for b, length in enumerate(lengths):
        alone, h_alone = layer(x[:length, b], h0[:, b])
        torch.testing.assert_close(output[:length, b], alone, rtol=0, atol=1e-12)
        torch.testing.assert_close(h_n[:, b], h_alone, rtol=0, atol=1e-12)
        assert not output[length:, b].any()


@each_layer
def test_the_reverse_direction_reads_the_sequence_backwards(make):
    layer = make(M, N, bidirectional=True, generator=stream()).double()
    forward, backward = layer.all_directions()
    backward.load_state_dict(forward.state_dict())
    x = inputs()
    output = layer(x)[0][..., N:]
    expected = layer(x.flip(0))[0][..., :N].flip(0)
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-12)


@each_layer
def test_gradients_equal_finite_differences(make):
    layer = make(M, 4, trainable_h0=True, generator=stream()).double()
    named = dict(layer.named_parameters())

    def outputs(x, *values):
        replaced = dict(zip(named, values, strict=True))
        return torch.func.functional_call(layer, replaced, (x,), {"lengths": [4, 2]})

    x = inputs(4, 2, M).requires_grad_()
    assert torch.autograd.gradcheck(outputs, (x, *named.values()), fast_mode=True)


@pytest.mark.parametrize("name", ["reflections", "all"])
def test_transitions_map_a_change_of_the_state_to_the_next(name):
    layer = LAYERS[name](M, N, 2, generator=stream()).double()
    x = inputs(T, M)
    transitions = layer.transitions(x)
    H = layer.heads
    K = N // H
    assert transitions.shape == (2, T, 1, H, K, K)
    (first, _) = layer.all_directions()
    _, before = layer(x[:4])
    changed = before.clone()
    change = inputs(H, K, K, seed=3)
    changed[0, : H * K * K] += change.flatten()
    after = [first(x[4:5, None], state[0:1])[1] for state in (before, changed)]
    expected = transitions[0, 4, 0] @ change
    got = (after[1] - after[0])[0, : H * K * K].view(H, K, K)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_free_eigenvalues_lie_in_their_segment():
    layer = eigenrnn.DeltaNet(M, N, heads=2, eigenvalues=(-0.6, 0.3), generator=stream())
    eigenvalues = torch.linalg.eigvalsh(layer.double().transitions(100 * inputs()))
    free, others = eigenvalues[..., 0], eigenvalues[..., 1:]
    assert -0.6 - 1e-12 <= free.min() < -0.55
    assert 0.25 < free.max() <= 0.3 + 1e-12
    torch.testing.assert_close(others, torch.ones_like(others), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["gated", "all"])
def test_exponents_from_transitions_are_those_of_the_jacobians(name):
    layer = LAYERS[name](M, 4, generator=stream())
    x = inputs(150, 2, M)
    (state_map,) = state_maps(layer)
    options = {"burn_in": 7, "discard": 50}
    found = lyapunov(layer, x, **options).exponents
    expected = lyapunov(replace(state_map, transitions=None), x, **options).exponents
    np.testing.assert_allclose(found, expected, atol=1e-9)
    first = lyapunov(layer, x, exponents=3, **options).exponents
    np.testing.assert_array_equal(first, found[:3])


def test_a_later_layer_has_exponents_of_its_own():
    layer = LAYERS["all"](M, 4, 2, generator=stream())
    x = inputs(40, 1, M)
    first, second = (lyapunov(layer, x, which=which).exponents for which in ("l0", "l1"))
    # 2 heads of 2 x 2 numbers, and 3 past inputs of (1 + 2 * 2) * 4 channels
    assert first.shape == second.shape == (8 + 60,)
    assert np.isneginf(second).sum() == 60
    assert np.abs(first[:8] - second[:8]).max() > 0.01


def test_an_analysis_measures_the_exponents_of_a_wide_layer():
    layer = eigenrnn.DeltaNet(M, 60, heads=4, generator=stream())
    found = analyse(layer, inputs(20, 1, M, dtype=torch.float32))
    assert found.results["lyapunov_l0"].exponents.shape == (20,)
    assert "each step has its own" in found.skipped["fisher_memory_decay_l0"]


@pytest.mark.parametrize("name", ["reflections", "all", "GatedDeltaNet"])
def test_transition_spectra_are_those_of_the_jacobians_of_the_state(name):
    layer = LAYERS[name](M, N, 2, generator=stream())
    x = inputs(5, 2, M)
    H = layer.heads
    K = N // H
    for depth in range(2):
        found = transition_spectra(layer, x, which=f"l{depth}")
        assert found.eigenvalues.shape == (5, 2, H, K)
        assert found.chosen.shape == (5, 2, H, min(layer.reflections, K))
        # a step maps each column of a state alike, and shifts the inputs of a convolution
        jacobians = [J for J, _ in trajectory(layer, x, f"l{depth}").jacobians()]
        for t, b in ((0, 0), (4, 1)):
            whole = jacobians[t][b, : H * K * K, : H * K * K].numpy()
            for h in range(H):
                part = whole.reshape(H, K, K, H, K, K)[h, :, 1, h, :, 1]
                expected = np.linalg.eigvals(part)
                np.testing.assert_allclose(
                    np.poly(found.eigenvalues[t, b, h]), np.poly(expected), atol=1e-12
                )


def test_transition_spectra_of_two_reflections_are_a_rotation_by_twice_the_angle_of_the_keys():
    layer = eigenrnn.DeltaNet(1, 3, reflections=2).double()
    (direction,) = layer.all_directions()
    with torch.no_grad():
        direction.weight_ih.zero_()
        direction.weight_ih[3:9, 0] = torch.tensor([1.0, 0.0, 0.0, 0.6, 0.8, 0.0])
        direction.weight_ih[15:17, 0] = 100.0  # both are reflections
    found = transition_spectra(layer, torch.ones(2, 1, 1))
    angle = 2 * np.arccos(0.6)
    expected = [np.exp(-1j * angle), np.exp(1j * angle), 1.0]
    got = sorted(found.eigenvalues[1, 0, 0], key=lambda z: (z.real, z.imag))
    np.testing.assert_allclose(got, expected, atol=1e-12)
    assert found.headline()["largest angle"] == pytest.approx(angle)
    assert found.headline()["smallest real part"] == pytest.approx(np.cos(angle))
    np.testing.assert_allclose(found.chosen.real, np.cos(angle), atol=1e-12)
    columns = found.table()
    assert list(columns["t"]) == [1, 1, 1, 2, 2, 2]
    assert list(columns["number"]) == [0, 1, 2, 0, 1, 2]


def test_transition_spectra_draw_heads_by_step(tmp_path):
    layer = eigenrnn.DeltaNet(M, N, heads=2, gated=True, batch_first=True, generator=stream())
    found = transition_spectra(layer, inputs(2, 7, M))
    assert len(found.eigenvalues) == 7
    left, right = found.plot().axes[:2]
    drawn = {line.get_label(): line.get_ydata() for line in left.lines}
    np.testing.assert_array_equal(drawn["head 2"], found.eigenvalues[:, 0, 1].real.min(-1))
    assert [text.get_text() for text in right.get_legend().texts] == ["chosen", "decays"]
    assert all(path.stat().st_size for path in found.save(tmp_path / "spectra"))


def test_transition_spectra_need_a_delta_layer_of_that_depth():
    with pytest.raises(ValueError, match="one DeltaNet, got"):
        transition_spectra(eigenrnn.RNN(M, N), inputs())
    layer = eigenrnn.DeltaNet(M, N)
    with pytest.raises(ValueError, match="got 'l1'"):
        transition_spectra(layer, inputs(), which="l1")
    with pytest.raises(ValueError, match="layer of one direction"):
        transition_spectra(eigenrnn.DeltaNet(M, N, bidirectional=True), inputs())


def test_analyses_see_the_decays_of_the_input_zero():
    layer = eigenrnn.GatedDeltaNet(M, N, heads=2, generator=stream()).double()
    w = weights(layer)
    decays = np.exp(-np.exp(w["A_log"]) * np.log1p(np.exp(w["dt_bias"])))
    spectrum = np.sort(layer.spectrum()[0].real.numpy())
    np.testing.assert_allclose(spectrum, np.sort(np.repeat(decays, N // 2)), rtol=1e-12)
    results = analyse(layer, inputs()).results  # of the state, which convolution makes longer
    spectra = transition_spectra(layer, inputs()[:, :1])
    np.testing.assert_array_equal(
        results["transition_spectra_l0"].eigenvalues, spectra.eigenvalues
    )


def test_gates_begin_where_the_paper_puts_them():
    layer = eigenrnn.GatedDeltaNet(M, 1000, heads=500, generator=stream()).double()
    w = weights(layer)
    rates = np.exp(w["A_log"])
    steps = np.log1p(np.exp(w["dt_bias"]))
    assert rates.min() >= 0
    assert 15 < rates.max() <= 16
    assert abs(rates.mean() - 8) < 1
    assert 0.001 <= steps.min() < 0.0011
    assert 0.09 < steps.max() <= 0.1
    assert abs(np.log(steps).mean() - math.log(0.01)) < 0.2


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_reflections_keep_the_norm_of_a_state_in_every_precision(dtype):
    layer = eigenrnn.DeltaNet(3, 16, generator=stream(1)).to(dtype)
    (direction,) = layer.all_directions()
    with torch.no_grad():
        mixed, strength, *_ = direction.weight_ih.split(direction.widths)
        mixed[2 * 16 :] = 0  # no values
        strength += 100  # eigenvalues of -1
    letters = torch.randint(3, (2000, 1), generator=stream())
    x = torch.nn.functional.one_hot(letters, 3).to(dtype)
    state = inputs(1, 1, direction.state_size, dtype=dtype)
    with torch.no_grad():
        _, last = layer(x, state)
    growth = last.float().norm() / state.float().norm()
    assert float(growth) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_input_of_zero_gets_no_large_gradient(dtype):
    layer = eigenrnn.DeltaNet(M, N, 2, heads=2, generator=stream()).to(dtype)
    x = inputs(dtype=dtype)
    x[2] = 0  # in the second layer too, whose inputs have no bias yet
    x.requires_grad_()
    output, _ = layer(x)
    gradients = torch.autograd.grad((output - 1).square().sum(), [x, *layer.parameters()])
    assert max(float(gradient.abs().max()) for gradient in gradients) < 100


@each_layer
def test_a_stream_of_zeros_equals_the_sequence(make):
    layer = make(M, N, generator=stream()).freeze()
    x = inputs(T, M, dtype=torch.float32)
    x[:2] = 0
    x[4] = 0
    expected, _ = layer(x)
    live = eigenrnn.Stream(layer)
    got = torch.stack([live(x_t) for x_t in x])
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


REJECTED = {
    "reflections": ({"reflections": 0}, "expected reflections to be a positive integer, got 0"),
    "heads": ({"heads": 3}, "got hidden_size=8"),
    "outside": ({"eigenvalues": (-1.1, 1)}, r"got \(-1.1, 1\)"),
    "width": ({"convolution": -1}, "got -1"),
}


@pytest.mark.parametrize(("options", "message"), REJECTED.values(), ids=REJECTED)
def test_bad_options_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        eigenrnn.DeltaNet(M, N, **options)
