"""The command line."""

from eigenrnn_experiments.cli.main import main

__all__ = ["main"]
