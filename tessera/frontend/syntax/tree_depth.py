"""Keep the trees of functions shallow, so that Python compiles a sum of thousands of terms.

Python's compiler visits a tree recursively, and `a + b + c + ...` is as deep as it is long.  What a kernel's author
may write is not bounded by that: its long chains of operators are cut into steps that leave a value in a local name.
"""

import ast
from typing import Final

STEP: Final = 100
"""Operators computed in one step."""

_LOCAL: Final = "$chain"
"""No name that a program can write."""

_OWN_SCOPES: Final = (ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""An assignment inside them would mean something else, or nothing."""


def cut_chains(function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Rewrite the long chains of operators in the body of `function`, in place; what it computes stays the same.

    before: ``a + b + c + d``, with a step of two operators
    after:  ``($chain := a + b + c, $chain + d)[-1]``
    """
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, _OWN_SCOPES):
            continue
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.BinOp):
                setattr(node, name, _cut(value))
            elif isinstance(value, list):
                value[:] = [_cut(item) if isinstance(item, ast.BinOp) else item for item in value]  # pyright: ignore[reportUnknownVariableType]
        stack.extend(ast.iter_child_nodes(node))


def left_chain(node: ast.BinOp) -> list[ast.BinOp]:
    """The operators of `a + b + c + ...`, whose tree hangs to the left, in the order they are computed in."""
    chain = [node]
    while isinstance(node.left, ast.BinOp):
        node = node.left
        chain.append(node)
    return chain[::-1]


def _cut(node: ast.BinOp) -> ast.expr:
    chain = left_chain(node)
    if len(chain) <= STEP:
        return node
    value, steps = chain[0].left, list[ast.expr]()
    for number, operator in enumerate(chain):
        if number and number % STEP == 0:
            steps.append(_at(ast.NamedExpr(ast.Name(_LOCAL, ast.Store()), value), operator))
            value = _at(ast.Name(_LOCAL, ast.Load()), operator)
        value = _at(ast.BinOp(value, operator.op, operator.right), operator)
    steps.append(value)
    return _at(ast.Subscript(ast.Tuple(steps, ast.Load()), ast.Constant(-1), ast.Load()), node)


def _at(made: ast.expr, model: ast.expr) -> ast.expr:
    """`made` and the parts it was made of, at the place of `model`."""
    parts = (made, *(part for part in ast.iter_child_nodes(made) if not hasattr(part, "lineno")))
    for part in parts:
        if isinstance(part, ast.expr):
            ast.copy_location(part, model)
    return made
