"""How Sphinx renders the site: nothing from the network, notebooks as they were executed, docstrings as written."""

import dataclasses
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from docstrings import to_rst
from lexer import NotebookLexer, TesseraLexer
from sphinx.application import Sphinx

import tessera

project = "Tessera"
author = "The Tessera authors"
project_copyright = "The Tessera authors, Apache-2.0"
version = release = tessera.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline", "deflist"]
nb_execution_mode = "off"  # the notebooks keep their outputs; the tests run them again
nb_merge_streams = True
nb_render_error_lexer = "myst-ansi"  # what Tessera reports is no Python traceback
suppress_warnings = ["mystnb.unknown_mime_type"]
default_role = "code"  # docstrings are written with single backticks

add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
toc_object_entries_show_parents = "hide"
pygments_style = "default"

html_context = {"default_mode": "auto"}  # light or dark as the system is
html_theme = "pydata_sphinx_theme"
html_title = "Tessera"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "Tessera"},
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def constructor(
    _app: Sphinx, what: str, _name: str, value: object, _options: object, signature: str | None, _returned: str | None
) -> tuple[str, None] | None:
    """Hide how a class is made, unless every field has a default: others are made by functions, not by users."""
    if what != "class" or not signature:
        return None
    fields = dataclasses.fields(value) if dataclasses.is_dataclass(value) else ()
    missing = dataclasses.MISSING
    made_by_users = fields and all(f.default is not missing or f.default_factory is not missing for f in fields)
    return None if made_by_users else ("", None)


def setup(app: Sphinx) -> None:
    """Register how docstrings and the language are read."""
    app.add_lexer("tessera", TesseraLexer)
    app.add_lexer("ipython3", NotebookLexer)
    app.connect("autodoc-process-signature", constructor)
    app.connect("autodoc-process-docstring", to_rst, priority=100)  # before napoleon, which reads sections
