"""Parse Python in several threads: `ast.parse`, one at a time."""

import ast
import threading
from typing import Final

_lock: Final = threading.Lock()


def parse_module(text: str, name: str = "<unknown>") -> ast.Module:
    """Parse statements; `name` stands in what SyntaxError says.

    Before version 3.13 Python counts the depth of all trees that are being made in one number.  Where one thread takes
    over from another in between, `ast.parse` ends with "SystemError: AST constructor recursion depth mismatch".
    """
    with _lock:
        return ast.parse(text, name)


def parse_expression(text: str, name: str = "<unknown>") -> ast.expr:
    """Parse one expression, see `parse_module`."""
    with _lock:
        return ast.parse(text, name, "eval").body
