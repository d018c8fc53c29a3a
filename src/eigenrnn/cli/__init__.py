"""The command line."""

from eigenrnn.cli.main import main

__all__ = ["main"]
