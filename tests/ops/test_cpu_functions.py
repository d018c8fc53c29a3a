"""The accuracy of the functions in the compiled kernels."""

import numpy as np
import pytest

from eigenrnn.ops import compiled
from kernel_testing import needs_kernels

pytestmark = needs_kernels

BOUNDS = {"tanh": 2, "logistic": 2, "elu": 2, "softplus": 3}  # units in the last place
WIDER = {np.float32: np.float64, np.float64: np.longdouble}
PATTERNS = 2**32  # the number of float32 bit patterns
CHUNK = 2**22

each_function = pytest.mark.parametrize("name", ["tanh", "logistic", "elu", "softplus"])
each_type = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def evaluate(name, x):
    y = np.full_like(x, 7)
    compiled.kernels.evaluate(name, str(x.dtype), x.ctypes.data, y.ctypes.data, x.size)
    return y


def defined(name, x):
    """Evaluate the definition in a wider dtype, without cancellation or overflow."""
    if name == "tanh":
        return np.tanh(x)
    small = np.exp(-np.abs(x))
    if name == "logistic":
        return np.where(x < 0, small, 1) / (1 + small)
    if name == "softplus":
        return np.maximum(x, 0) + np.log1p(small)
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def errors(name, x):
    """Return the errors in units in the last place of the exact values."""
    exact = defined(name, x.astype(WIDER[x.dtype.type]))
    with np.errstate(over="ignore"):  # the largest number has no unit in the last place
        unit = np.spacing(np.abs(exact).astype(x.dtype))
    return np.abs(evaluate(name, x) - exact) / unit


def largest_error(name, patterns):
    """Return the largest error over float32 numbers, given by their bits, and its argument."""
    x = patterns.astype(np.uint32).view(np.float32)
    x = x[np.isfinite(x)]
    if x.size == 0:
        return 0.0, x.dtype.type(0)
    found = errors(name, x)
    worst = found.argmax()  # the index of a NaN, if there is one
    return float(found[worst]), x[worst]


def largest_error_of_all(name, stride):
    chunks = (
        np.arange(start, min(PATTERNS, start + stride * CHUNK), stride)
        for start in range(0, PATTERNS, stride * CHUNK)
    )
    return max(largest_error(name, chunk) for chunk in chunks)


def logarithmic(generator, low, high, count):
    """Draw numbers of both signs with logarithmically uniform magnitudes."""
    magnitudes = 10 ** generator.uniform(low, high, count)
    return magnitudes * generator.choice([-1.0, 1.0], count)


@each_function
def test_float32_is_off_by_a_few_units_at_most(name):
    # the stride is prime, so it covers every exponent and all low bits
    error, where = largest_error_of_all(name, 1021)
    assert error <= BOUNDS[name], where


@pytest.mark.slow
@each_function
def test_float32_is_off_by_a_few_units_at_most_at_every_single_number(name):
    error, where = largest_error_of_all(name, 1)
    assert error <= BOUNDS[name], where


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 2e-19, reason="needs a type wider than float64")
@each_function
def test_float64_is_off_by_a_few_units_at_most(name):
    generator = np.random.default_rng(0)
    drawn = [logarithmic(generator, *span, 10**6) for span in ((-320, 300), (-3, 3), (-1, 1.5))]
    error = errors(name, np.concatenate(drawn)).max()
    assert error <= BOUNDS[name]


@each_type
@each_function
def test_special_values_follow_ieee(name, dtype):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], dtype)
    expected = {
        "tanh": [np.nan, 1.0, -1.0, 0.0, -0.0],
        "logistic": [np.nan, 1.0, 0.0, 0.5, 0.5],
        "elu": [np.nan, np.inf, -1.0, 0.0, -0.0],
        "softplus": [np.nan, np.inf, 0.0, np.log(2), np.log(2)],
    }[name]
    got = evaluate(name, x)
    np.testing.assert_array_equal(got, np.array(expected, dtype))
    np.testing.assert_array_equal(np.signbit(got[1:]), np.signbit(expected[1:]))


@each_type
def test_subnormal_numbers_are_not_flushed_to_zero(dtype):
    tiny = np.finfo(dtype).smallest_subnormal * np.array([1, 2, 3, 1000, -1, -2, -3, -1000], dtype)
    for name in ("tanh", "elu"):
        np.testing.assert_array_equal(evaluate(name, tiny), tiny)
    lowest = {np.float32: 103.0, np.float64: 744.0}[dtype]
    assert evaluate("logistic", np.array([-lowest], dtype))[0] > 0


@each_type
def test_any_count_is_evaluated_without_writing_past_the_end(dtype):
    kind = np.dtype(dtype).name
    for count in range(1, 40):
        x = np.linspace(-3, 3, count, dtype=dtype)
        y = np.full(count + 64, 7, dtype)
        compiled.kernels.evaluate("tanh", kind, x.ctypes.data, y.ctypes.data, count)
        assert (y[count:] == 7).all()
        assert np.abs(y[:count] - np.tanh(x)).max() <= 4 * np.finfo(dtype).eps


def test_an_unknown_function_is_rejected():
    with pytest.raises(ValueError, match="got sine"):
        compiled.kernels.evaluate("sine", "float32", 0, 0, 0)
