"""Highlighting of Tessera syntax: Python with `mut` before a type and `tile[...]` after a decorator."""

from typing import ClassVar

from ipython_pygments_lexers import IPython3Lexer
from pygments.lexer import bygroups, inherit, using
from pygments.lexers.python import PythonLexer
from pygments.token import Keyword, Name, Operator, Text


class TesseraLexer(PythonLexer):
    """Tessera syntax in documents."""

    name = "Tessera"
    aliases: ClassVar = ["tessera"]
    filenames: ClassVar = ["*.tsr"]
    tokens: ClassVar = {
        "root": [(r"^(@kernel)([ \t]+)(tile|shared)\b", bygroups(Name.Decorator, Text, Keyword)), inherit],
        "expr": [(r"\bmut\b", Keyword), inherit],
    }


class NotebookLexer(IPython3Lexer):
    """Cells of notebooks, with Tessera syntax below `%%tessera`."""

    name = "IPython with Tessera"
    aliases: ClassVar = ["ipython3"]
    tokens: ClassVar = {
        "root": [
            (r"(?s)(%%)(tessera)([^\n]*\n)(.*)", bygroups(Operator, Keyword, Text, using(TesseraLexer))), inherit,
        ],
    }  # fmt: skip
