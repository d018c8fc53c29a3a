"""Checks that the extra `experiments` is installed, when the laboratory is first imported."""

from eigenrnn.errors import check_installed

__all__: list[str] = []

check_installed(
    "experiments",
    "eigenrnn.experiments",
    *("lightning", "jsonargparse", "rich", "pooch", "tensorboard", "scipy", "matplotlib"),
)
