"""What several analyses ask of their arguments alike."""

import numpy as np
import pytest
import torch

from eigenrnn.analysis import (
    fisher_memory,
    gradient_map,
    jacobian_bound,
    lyapunov,
    plot,
    transient_growth,
)


@pytest.mark.parametrize("function", [gradient_map, jacobian_bound, lyapunov])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (torch.ones(3, 1, 2) * 1j, "expected real numbers in x, got complex"),
        (None, "expected x to be a tensor or an array of numbers, got NoneType"),
        ("abc", "expected x to be a tensor or an array of numbers, got str"),
        ([[1.0, 2.0], [1.0]], "expected x to be a tensor or an array of numbers, got list"),
    ],
    ids=["complex", "none", "text", "ragged"],
)
def test_sequences_are_real_numbers(function, x, message):
    with pytest.raises(ValueError, match=message):
        function(torch.nn.GRU(2, 3), x)


def test_a_source_may_be_a_column():
    W, v = 0.5 * np.eye(3), np.array([1.0, 0.0, 2.0])
    found, expected = (fisher_memory(W, source, 5).curve for source in (v[:, None], v))
    np.testing.assert_array_equal(found, expected)


def test_an_ensemble_takes_a_generator_of_numpys():
    with pytest.raises(TypeError, match=r"a numpy\.random\.Generator.*got torch"):
        transient_growth(np.eye(2), 3, ensemble=2, generator=torch.Generator())


# pictures


@pytest.mark.parametrize("options", [{}, {"log": True}, {"around_zero": True}])
@pytest.mark.parametrize(
    "values", [[1.0, 2.0], [-1.7e308, 1.7e308], [0.0, 0.0], [1e-310, 1.0], [np.nan, np.nan]]
)
def test_a_matrix_of_any_size_can_be_drawn(values, options):
    figure, (axes,) = plot.canvas()
    plot.heat_map(axes, [values, values], "size", **options)
    figure.draw_without_rendering()


def test_colours_of_logarithms_say_so():
    figure, (axes,) = plot.canvas()
    plot.heat_map(axes, [[1e308, 1e300], [1.0, 0.0]], "size", log=True)
    (image,) = axes.images
    np.testing.assert_allclose(image.get_array().compressed(), [308, 300, 0])
    assert image.get_clim() == pytest.approx((296, 308))
    assert figure.axes[1].get_ylabel() == "log10 of size"
