"""Checks on the first import of the laboratory that the extra `experiments` is installed."""

from eigenrnn.errors import check_installed

__all__: list[str] = []

check_installed(
    "experiments",
    "eigenrnn.experiments",
    *("lightning", "jsonargparse", "rich", "pooch", "tensorboard", "scipy", "matplotlib"),
)
