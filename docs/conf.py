"""Configuration of Sphinx."""

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx

import eigenrnn

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # reproduction

project = "eigenrnn"
author = "The eigenrnn authors"
project_copyright = "2026, The eigenrnn authors"
version = release = eigenrnn.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax from this build, not from the internet
    "archived_curves",
    "gallery",
    "option_tables",
    "registry_table",
    "tracked_states",
    "two_themes",
]
exclude_patterns = ["_build", "_ext", "_pictures"]
html_theme = "furo"
html_title = "eigenrnn"
html_static_path = ["_static"]
html_css_files = ["wide.css"]

# A single backtick in a docstring marks code, and links to its reference if there is one.
default_role = "py:obj"
add_module_names = False
python_use_unqualified_type_names = True

autodoc_member_order = "bysource"  # of a module: the order of its __all__
autodoc_default_options = {"members": True, "show-inheritance": True}

napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = ["Shape", "Units", "Source"]

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist"]
myst_heading_anchors = 3


def name_functions(
    _app: Sphinx,
    _what: str,
    _name: str,
    _obj: Any,
    _options: Any,
    signature: str | None,
    return_annotation: str | None,
) -> tuple[str | None, str | None]:
    """Write `init=zeros_` in place of `init=<function zeros_>`, and `...` for a lambda.

    autodoc_preserve_defaults would replace the signatures, which fingerprints of runs read.
    """
    if signature is not None:
        signature = re.sub(r"<function (\w+)>", r"\1", signature)
        signature = signature.replace("<function <lambda>>", "...")
    return signature, return_annotation


def setup(app: Sphinx) -> None:
    """Register the hook with Sphinx."""
    app.connect("autodoc-process-signature", name_functions)
