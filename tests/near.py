"""Compares what two implementations give, number by number."""

import torch

__all__ = ["assert_near"]


def assert_near(got, expected, bound):
    """Compare each, on the scale of its largest element."""
    assert got.keys() == expected.keys()
    for name, one in got.items():
        other = expected[name]
        scale = max(1.0, float(other.abs().max())) if other.numel() else 1.0
        torch.testing.assert_close(
            one.to(other.dtype),
            other,
            rtol=0,
            atol=scale * bound,
            msg=lambda text, name=name: f"{name}: {text}",
        )
