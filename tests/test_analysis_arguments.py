"""What several analyses ask of their arguments alike."""

import numpy as np
import pytest
import torch

from eigenrnn.analysis import (
    analyse,
    fisher_memory,
    fixed_points,
    gradient_map,
    gradient_norms,
    hidden_chain,
    jacobian_bound,
    lyapunov,
    plot,
    recurrences,
    recurrent_layers,
    recurrent_matrices,
    transient_growth,
)

X = torch.ones(3, 1, 2)
OF_A_MODEL = {
    "analyse": analyse,
    "analyse-inputs": lambda model: analyse(model, X),
    "fixed_points": fixed_points,
    "gradient_map": lambda model: gradient_map(model, X),
    "gradient_norms": lambda model: gradient_norms(model, X, torch.sum),
    "hidden_chain": hidden_chain,
    "jacobian_bound": lambda model: jacobian_bound(model, X),
    "lyapunov": lambda model: lyapunov(model, X),
    "recurrences": recurrences,
    "recurrent_layers": recurrent_layers,
    "recurrent_matrices": recurrent_matrices,
}
NO_MODELS = {
    "Tensor": torch.eye(2),
    "ndarray": np.eye(2),
    "NoneType": None,
    "str": "runs/1",
    "the class RNN": torch.nn.RNN,
}


@pytest.mark.parametrize("function", OF_A_MODEL.values(), ids=OF_A_MODEL)
@pytest.mark.parametrize(("kind", "model"), NO_MODELS.items(), ids=NO_MODELS)
def test_what_is_no_model_is_refused(function, kind, model):
    with pytest.raises(TypeError, match=f"expected a recurrent layer or a model .*, got .*{kind}"):
        function(model)


@pytest.mark.parametrize("steps", [np.ones(2), torch.ones(2, 2), None, 2.0])
def test_what_is_no_number_of_steps_is_refused(steps):
    with pytest.raises(ValueError, match="expected steps to be a positive integer, got"):
        transient_growth(np.eye(2), steps)


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
