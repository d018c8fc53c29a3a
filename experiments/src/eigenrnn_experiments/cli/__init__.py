"""The command line."""

from eigenrnn.experiments.cli.main import main

__all__ = ["main"]
