"""The catalogue of mistakes: one class and one code each, with the text a user sees as its title.

Raise the class with a message that names the user's own things, the span, and the remedy as `hint`.
"""

from tessera.core.errors import TesseraError


class SyntaxMistake(TesseraError):
    """The cell is not Python, nor Tessera's additions to it.  Example: `y: mut f32[n` without the bracket."""

    code = "TSR-E001"
    title = "syntax error"


class CompilerCrash(TesseraError):
    """The code generator died or produced invalid IR: our fault.  The message names a reproducer file."""

    code = "TSR-E900"
    title = "the compiler failed"
