"""Figures for a light and for a dark page."""

from pathlib import Path
from typing import Any

from docutils import nodes
from matplotlib import colors
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

THEMES = ("light", "dark")
PICTURES = "_pictures"  # the folder of the pictures that the build draws
_DPI = 110
_PAGE = 820  # pixels: the width of the text in a window of 1,400
_SMALLEST = 9  # pixels: the size of the smallest letters on a page
_POINTS = 72  # in an inch
_DARK = 0.075  # the grey level of the dark page
_LARGEST_CHROMA = 0.1  # of a colour that counts as grey
_PROPERTIES = ("color", "facecolor", "edgecolor", "markeredgecolor", "markerfacecolor")


def narrow(figure: Figure) -> None:
    """Narrow a figure so far that its letters are legible where the page shrinks it."""
    figure.draw_without_rendering()  # this writes the labels of ticks
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text()]
    smallest = min(text.get_fontsize() for text in texts)
    # a page shows an inch of a figure of this width on _PAGE / widest pixels
    widest = smallest / _POINTS * _PAGE / _SMALLEST
    if figure.get_figwidth() > widest:
        figure.set_figwidth(widest)


def save_both(figure: Figure, folder: Path, name: str) -> None:
    """Save a figure as NAME-light.png and NAME-dark.png; the second inverts its greys."""
    folder.mkdir(parents=True, exist_ok=True)
    narrow(figure)
    figure.savefig(folder / f"{name}-light.png", dpi=_DPI)
    # a figure and its axes pass their colours on to patches, which are artists themselves
    artists = figure.findobj(lambda artist: not isinstance(artist, Figure | Axes))
    changes = [
        (getattr(artist, f"set_{prop}"), inverted)
        for artist in artists
        for prop in _PROPERTIES
        if hasattr(artist, f"set_{prop}")
        and (inverted := _inverted(getattr(artist, f"get_{prop}", tuple)())) is not None
    ]
    for set_colour, colour in changes:
        set_colour(colour)
    figure.savefig(folder / f"{name}-dark.png", dpi=_DPI, facecolor=figure.get_facecolor())


def _inverted(colour: Any) -> tuple[float, ...] | None:
    """Return the inverse of a grey; None for another colour, or those of many points."""
    try:
        red, green, blue, alpha = colors.to_rgba(colour)
    except (ValueError, TypeError):
        return None
    if not alpha or max(red, green, blue) - min(red, green, blue) > _LARGEST_CHROMA:
        return None
    grey = max(1 - (red + green + blue) / 3, _DARK)
    return grey, grey, grey, alpha


def both_themes(prefix: str, alt: str, caption: str = "") -> list[nodes.Node]:
    """Return the light and the dark picture; the page shows that of its theme."""
    return [
        nodes.figure(
            "",
            nodes.image(uri=f"{prefix}-{theme}.png", alt=alt),
            *([nodes.caption("", caption)] if caption else ()),
            classes=[f"only-{theme}"],
        )
        for theme in THEMES
    ]


def draw(figure: Figure, source: str, name: str, alt: str, caption: str = "") -> list[nodes.Node]:
    """Save a figure in both themes below the folder of the pages, and return it for the page."""
    save_both(figure, Path(source, PICTURES), name)
    return both_themes(f"/{PICTURES}/{name}", alt, caption)


class Drawn(SphinxDirective):
    """Show the picture that the page saves under the name in the argument, light and dark."""

    required_arguments = 1
    option_spec = {"alt": str}  # noqa: RUF012, the type that docutils expects

    def run(self) -> list[nodes.Node]:
        return both_themes(f"/tutorials/pictures/{self.arguments[0]}", self.options.get("alt", ""))


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("drawn", Drawn)
    return {"parallel_read_safe": True}
