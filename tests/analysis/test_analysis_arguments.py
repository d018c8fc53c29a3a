"""Argument checks that several analyses share, and the drawing of extreme values."""

import numpy as np
import pytest
import torch

from eigenrnn.analysis import (
    analyse,
    fisher_memory,
    fixed_points,
    gradient_map,
    gradient_norms,
    jacobian_bound,
    linear_decodability,
    lyapunov,
    participation_ratio,
    plot,
    recurrent_layers,
    recurrent_matrices,
    spectrum,
    state_maps,
    transient_growth,
)

X = torch.ones(3, 1, 2)
MODEL_FUNCTIONS = {
    "analyse": analyse,
    "analyse-inputs": lambda model: analyse(model, X),
    "fixed_points": fixed_points,
    "gradient_map": lambda model: gradient_map(model, X),
    "gradient_norms": lambda model: gradient_norms(model, X, torch.sum),
    "jacobian_bound": lambda model: jacobian_bound(model, X),
    "lyapunov": lambda model: lyapunov(model, X),
    "state_maps": state_maps,
    "recurrent_layers": recurrent_layers,
    "recurrent_matrices": recurrent_matrices,
}
NOT_MODELS = {
    "Tensor": torch.eye(2),
    "ndarray": np.eye(2),
    "NoneType": None,
    "str": "runs/1",
    "type": torch.nn.RNN,
}


@pytest.mark.parametrize("function", MODEL_FUNCTIONS.values(), ids=MODEL_FUNCTIONS)
@pytest.mark.parametrize(("kind", "model"), NOT_MODELS.items(), ids=NOT_MODELS)
def test_argument_that_is_not_a_model_raises(function, kind, model):
    with pytest.raises(TypeError, match=f"got .*{kind}"):
        function(model)


@pytest.mark.parametrize("steps", [np.ones(2), torch.ones(2, 2), None, 2.0])
def test_steps_that_are_not_an_integer_raise(steps):
    with pytest.raises(ValueError, match="positive integer, got"):
        transient_growth(np.eye(2), steps)


@pytest.mark.parametrize("function", [gradient_map, jacobian_bound, lyapunov])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(3, 1, 2) * 1j, "expected real numbers in x, got complex"),
        ([[1.0, 2.0], [1.0]], "inhomogeneous shape"),
    ],
    ids=["complex", "ragged"],
)
def test_input_that_is_not_real_numbers_raises(function, x, message):
    with pytest.raises(ValueError, match=message):
        function(torch.nn.GRU(2, 3), x)


HIDDEN = np.ma.masked_equal([[[1, -9999]], [[2, 3]], [[4, 5]]], -9999)
NUMBER_FUNCTIONS = {
    "participation_ratio": participation_ratio,
    "spectrum": lambda values: spectrum(values[:2, 0]),
    "fisher_memory": lambda values: fisher_memory(np.eye(2) / 2, values[0, 0], 3),
    "lyapunov": lambda values: lyapunov(torch.nn.GRU(2, 3), values),
    "a list of arrays": lambda values: lyapunov(torch.nn.GRU(2, 3), list(values)),
    "fixed_points": lambda values: fixed_points(torch.nn.GRU(2, 3), values[0]),
    "analyse": lambda values: analyse(torch.nn.GRU(2, 3), values),
}


@pytest.mark.parametrize("function", NUMBER_FUNCTIONS.values(), ids=NUMBER_FUNCTIONS)
def test_a_number_that_a_mask_hides_is_missing(function):
    with pytest.raises(ValueError, match="finite"):
        function(HIDDEN)
    function(HIDDEN.filled(7).astype(np.float64))


def test_a_delay_that_a_mask_hides_is_no_delay():
    with pytest.raises(ValueError, match="expected delays to be integers"):
        linear_decodability(np.eye(2) / 2, np.ma.masked_equal([1, 2, 3], 2))


@pytest.mark.parametrize("function", NUMBER_FUNCTIONS.values(), ids=NUMBER_FUNCTIONS)
def test_times_are_no_numbers(function):
    with pytest.raises(TypeError, match="timedelta64"):
        function(HIDDEN.filled(7).astype("timedelta64[s]"))


def test_source_may_be_a_column():
    W, v = 0.5 * np.eye(3), np.array([1.0, 0.0, 2.0])
    result, expected = (fisher_memory(W, source, 5).curve for source in (v[:, None], v))
    np.testing.assert_array_equal(result, expected)


# figures


@pytest.mark.parametrize("options", [{}, {"log": True}, {"around_zero": True}])
@pytest.mark.parametrize("values", [[1.0, 2.0], [0.0, 0.0], [1e-310, 1.0], [np.nan, np.nan]])
def test_heat_map_draws_values_of_any_magnitude(values, options):
    figure, (axes,) = plot.canvas()
    plot.heat_map(axes, [values, values], "size", **options)
    figure.draw_without_rendering()


@pytest.mark.parametrize("name", ["_rnn.l0", "price in $", "a $x$ b"])
def test_any_name_of_a_curve_is_in_the_legend_as_it_is(name):
    figure, (axes,) = plot.canvas()
    plot.lines(axes, [0, 1], {name: [1, 2], "other": [2, 3]})
    figure.draw_without_rendering()
    (text, _) = [text.get_text() for text in axes.get_legend().get_texts()]
    assert text.replace(r"\$", "$").strip() == name
    assert "$" not in text.replace(r"\$", "")


@pytest.mark.parametrize("burn_in", [3.0, True, -1, np.ones(2)])
def test_a_burn_in_that_is_no_number_of_steps_raises(burn_in):
    with pytest.raises(ValueError, match="burn_in to be an integer >= 0, got"):
        lyapunov(torch.nn.GRU(2, 3), X, burn_in=burn_in)


def test_logarithmic_colour_bar_has_a_label():
    figure, (axes,) = plot.canvas()
    plot.heat_map(axes, [[1e308, 1e300], [1.0, 0.0]], "size", log=True)
    (image,) = axes.images
    np.testing.assert_allclose(image.get_array().compressed(), [308, 300, 0])
    assert image.get_clim() == pytest.approx((296, 308))
    assert figure.axes[1].get_ylabel() == "log10 of size"
