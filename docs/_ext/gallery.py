"""A directive that runs Python code and shows it with the figure that it draws."""

import ast
import linecache
from typing import Any

import torch
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from two_themes import draw


class Picture(SphinxDirective):
    """Show the code and, below it, the figure that its last line returns.

    The argument is the name of the file; the option `alt` describes the picture.
    """

    required_arguments = 1
    has_content = True
    option_spec = {"alt": str}  # noqa: RUF012, the type that docutils expects

    def run(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        name, alt = self.arguments[0], self.options.get("alt", "")
        listing = nodes.literal_block(code, code, language="python")
        return [listing, *draw(_value_of(code, name), self.env.srcdir, name, alt)]


def _value_of(code: str, name: str) -> Any:
    """Run the code with a fixed seed, and return the value of the last line.

    Raises:
        TypeError: If the last line is not an expression.
    """
    source = f"<picture {name}>"
    linecache.cache[source] = (len(code), None, code.splitlines(keepends=True), source)
    *body, last = ast.parse(code, source).body
    if not isinstance(last, ast.Expr):
        raise TypeError(f"expected the last line of picture {name} to be a figure, got none")
    names: dict[str, Any] = {}
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)
        exec(compile(ast.Module(body, []), source, "exec"), names)
        return eval(compile(ast.Expression(last.value), source, "eval"), names)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive with Sphinx."""
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True}
