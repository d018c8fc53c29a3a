"""The console: plain lines, Markdown, and the user's texts."""

from rich.console import Console
from rich.text import Text

__all__ = ["plain_console", "say", "show_markdown"]


def plain_console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that prints text literally, without markup or emoji."""
    return Console(stderr=stderr, quiet=quiet, markup=False, emoji=False)


def say(line: str | Text, *, stderr: bool = False) -> None:
    """Print a line as it is, however long."""
    plain_console(stderr=stderr).print(line, soft_wrap=True, highlight=False)


def show_markdown(text: str, console: Console) -> None:
    """Draw Markdown on a terminal whose width it fits; elsewhere print it as it is."""
    from rich.markdown import Markdown  # takes 0.1 s to import

    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=False)]
    if console.is_terminal and sum(widths) <= console.width:
        console.print(Markdown(text))
    else:
        console.out(text, end="", highlight=False)
