"""Checks that the extra `experiments` is installed, at the first import of this package."""

from eigenrnn.errors import check_installed

__all__: list[str] = []

check_installed(
    "experiments",
    "eigenrnn.experiments",
    *("filelock", "jsonargparse", "lightning", "matplotlib", "msgspec", "pandas", "pooch"),
    *("rich", "scipy", "tensorboard", "torchmetrics"),
)
