"""Declarations in cells: `x: Tensor["B", "D", fp6 @accum(fp32)]` stores the array that `x` is as it says."""

import ast
from typing import Final

from tessera.core.base.syntax_trees import parse_module

STORE: Final = "__tessera_stored__"
"""The name of the function that does so: it takes the array, the annotation and the name."""


def store_declared(tree: ast.Module) -> None:
    """Let declarations with numerics act: behind each of a name at the top of a cell, the name is bound anew.

        x: Tensor["B", "D", fp6 @accum(fp32)]
        if "x" in globals(): x = __tessera_stored__(x, __annotations__["x"], "x")

    Those without an `@` stay what they are in Python.
    """
    made: list[ast.stmt] = []
    for statement in tree.body:
        made.append(statement)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and _acts(statement):
            made.append(_bound_anew(statement, statement.target.id))
    tree.body = made


def _acts(statement: ast.AnnAssign) -> bool:
    declares = any(isinstance(node, ast.MatMult) for node in ast.walk(statement.annotation))
    return declares and bool(statement.simple)


def _bound_anew(statement: ast.AnnAssign, name: str) -> ast.stmt:
    text = f"if {name!r} in globals():\n    {name} = {STORE}({name}, __annotations__[{name!r}], {name!r})\n"
    (made,) = parse_module(text).body
    for node in ast.walk(made):
        if "lineno" in node._attributes:
            ast.copy_location(node, statement)
    return made
