"""Names for the values of a graph: the variables that the user's text assigns them to, and else numbers of nodes.

before: S = op.matmul(Q, K.T)
after:  the contraction that the call made last is %S
"""

import ast
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.base.syntax_trees import parse_module
from tessera.core.graph.graph import Graph, Node, Value

_DERIVED: Final = "adjoint"
"""The outermost operator of what differentiation made: it has the places of what it was made of."""
_Place = tuple[int, int, int, int]


def value_names(graph: Graph) -> Mapping[Value, str]:
    """Return a name for each value, no two alike: that of an input, the user's variable, `result`, or `g17`."""
    wanted = {value: value.name for value in graph.inputs}
    wanted |= {value: value.name for node in graph.nodes for value in node.results if value.name}
    assigned = _assigned(graph.source)
    for last in _last_of_each_call(graph):
        name = assigned.get(_place(last.span))
        if name is not None:
            wanted[last.results[0]] = name
    wanted |= {value: "result" for value in graph.outputs if not wanted.get(value)}
    names: dict[Value, str] = {}
    taken: set[str] = set()
    for value, name in wanted.items():
        names[value] = _unused(name, taken) if name.isascii() and name.isidentifier() else ""
    for node in graph.nodes:
        for value in node.results:
            if not names.get(value):
                names[value] = _unused(f"g{node.ident}", taken)
    return {value: name or _unused("x", taken) for value, name in names.items()}


def function_span(graph: Graph) -> Span:
    """Return the place of the function that holds the first operator, from `def` to its end; NOWHERE: it is not known.

    Decorators are not part of it.
    """
    lines = [node.span.line for node in graph.nodes if node.span.file == graph.source.name]
    tree = _tree(graph.source)
    if tree is None or not lines:
        return NOWHERE
    first = min(lines) - graph.source.first_line + 1
    around = [
        each for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and each.lineno <= first <= (each.end_lineno or each.lineno)
    ]  # fmt: skip
    if not around:
        return NOWHERE
    found = min(around, key=lambda each: (each.end_lineno or each.lineno) - each.lineno)
    shift = graph.source.first_line - 1
    return Span(graph.source.name, found.lineno + shift, found.col_offset + 1,
                (found.end_lineno or found.lineno) + shift, (found.end_col_offset or 0) + 1)  # fmt: skip


def _unused(name: str, taken: set[str]) -> str:
    """Return a name that is not taken, with a number where it is, and take it."""
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found


def _last_of_each_call(graph: Graph) -> Iterator[Node]:
    """Yield the node that computes the result of each call of an operator: the last one from its place."""
    found: dict[tuple[Span, tuple[str, ...]], Node] = {}
    for node in graph.nodes:
        if node.span.file == graph.source.name and _DERIVED not in node.origin.composite[:1] and node.op != "iota":
            found[node.span, node.origin.composite] = node
    yield from found.values()


def _place(span: Span) -> _Place:
    return span.line, span.column, span.end_line, span.end_column


@lru_cache(maxsize=64)
def _tree(source: Source) -> ast.Module | None:
    """Return the text as Python reads it; None for cells of the language, and what is no Python."""
    try:
        return parse_module(source.text)
    except SyntaxError:
        return None


@lru_cache(maxsize=64)
def _assigned(source: Source) -> Mapping[_Place, str]:
    """Return the variables that a text assigns to, by the place of the assigned expression."""
    tree = _tree(source)
    found: dict[_Place, str] = {}
    for each in ast.walk(tree) if tree is not None else ():
        if isinstance(each, ast.Assign) and len(each.targets) == 1:
            target, value = each.targets[0], each.value
        elif isinstance(each, ast.AnnAssign) and each.value is not None:
            target, value = each.target, each.value
        else:
            continue
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            pairs = list(zip(target.elts, value.elts, strict=True))
        for name, made in pairs:
            if isinstance(name, ast.Name):
                found[_expression_place(made, source)] = name.id
    return found


def _expression_place(value: ast.expr, source: Source) -> _Place:
    """Return the place of an expression with columns in characters; Python counts bytes."""
    end_line, end_column = value.end_lineno or value.lineno, value.end_col_offset or 0
    shift = source.first_line - 1

    def characters(line: int, column: int) -> int:
        return len(source.line(line + shift).encode()[:column].decode(errors="ignore")) + 1

    return (
        value.lineno + shift, characters(value.lineno, value.col_offset),
        end_line + shift, characters(end_line, end_column),
    )  # fmt: skip
