"""Argument checks that several analyses share, and the drawing of extreme values."""

import numpy as np
import pytest
import torch

from eigenrnn.analysis import (
    fisher_memory,
    plot,
    spectrum,
    trajectory,
)

X = torch.ones(3, 1, 2)


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


def test_logarithmic_colour_bar_has_a_label():
    figure, (axes,) = plot.canvas()
    plot.heat_map(axes, [[1e308, 1e300], [1.0, 0.0]], "size", log=True)
    (image,) = axes.images
    np.testing.assert_allclose(image.get_array().compressed(), [308, 300, 0])
    assert image.get_clim() == pytest.approx((296, 308))
    assert figure.axes[1].get_ylabel() == "log10 of size"


def test_a_negative_burn_in_is_refused():
    with pytest.raises(ValueError, match="burn_in to be an integer >= 0, got -5"):
        trajectory(torch.nn.GRU(2, 3), torch.zeros(30, 1, 2), burn_in=-5)


def test_a_tensor_that_is_negated_lazily_is_its_values():
    W = torch.tensor([[1 - 2j, 0], [0, 3j]]).conj().imag
    assert spectrum(W).radius == 3
