"""Prints Markdown."""

from rich.console import Console
from rich.markdown import Markdown

from eigenrnn_experiments.training.progress import printable

__all__ = ["show_markdown"]


def show_markdown(text: str, console: Console) -> None:
    """Draw Markdown on a terminal whose width it fits; elsewhere print it as it is."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=False)]
    if console.is_terminal and sum(widths) <= console.width:
        console.print(Markdown(printable(text)))
    elif console.is_terminal:
        console.out(printable(text), end="", highlight=False)
    else:
        console.out(text, end="", highlight=False)
