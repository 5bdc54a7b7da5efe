"""Make a failing case small: fewer statements, smaller expressions, plainer arguments, as long as it fails."""

import ast
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias, cast

from fuzz.kernels import Case
from tessera.frontend.syntax.source_file import to_plain_python

Fails = Callable[[Case], bool]
WithBody: TypeAlias = ast.FunctionDef | ast.For | ast.While | ast.If


def reduced(case: Case, fails: Fails, seconds: float = 60.0) -> Case:
    """The smallest case that was found in time."""
    end = time.monotonic() + seconds
    case = replace(case, text=to_plain_python(case.text) + "\n")
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for candidate in _candidates(case):
            if time.monotonic() > end:
                break
            if fails(candidate):
                case, progress = candidate, True
                break
    return case


def _candidates(case: Case) -> Iterator[Case]:
    yield from case.smaller()
    for text in _texts(case.text):
        yield replace(case, text=text)


def _texts(text: str) -> Iterator[str]:
    """Each with one statement gone, or one expression replaced by a part of it; large changes first."""
    tree = ast.parse(text)
    changes: list[tuple[int, Callable[[ast.Module], None]]] = []
    for number, node in enumerate(ast.walk(tree)):
        size = sum(1 for _ in ast.walk(node))
        for name, value in ast.iter_fields(node):
            if name == "body" and isinstance(value, list) and isinstance(node, WithBody):
                changes += [(size, _drop(number, place)) for place in range(len(value)) if len(value) > 1]
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            changes.append((size, _substitute(number, node.targets[0].id)))
        if isinstance(node, ast.If | ast.For) and number > 1:
            changes.append((size, _unwrap(number)))
        if isinstance(node, ast.BinOp | ast.Call | ast.IfExp | ast.UnaryOp):
            changes += [(size, _lift(number, part)) for part in range(len(_parts(node)))]
    for _, change in sorted(changes, key=lambda found: -found[0]):
        copied = copy.deepcopy(tree)
        change(copied)
        changed = ast.unparse(copied) + "\n"
        if changed != text:
            yield changed


def _node(tree: ast.Module, number: int) -> ast.AST:
    return next(node for place, node in enumerate(ast.walk(tree)) if place == number)


def _drop(number: int, place: int) -> Callable[[ast.Module], None]:
    def change(tree: ast.Module) -> None:
        node = _node(tree, number)
        assert isinstance(node, WithBody)
        node.body.pop(place)

    return change


def _substitute(number: int, name: str) -> Callable[[ast.Module], None]:
    """A name by what it was set to."""

    def change(tree: ast.Module) -> None:
        setting = _node(tree, number)
        assert isinstance(setting, ast.Assign)
        value = setting.value
        if any(_reads(part, name) for part in ast.walk(value)):
            return
        for parent in list(ast.walk(tree)):
            for field, part in ast.iter_fields(parent):
                if isinstance(part, list):
                    parts = cast("list[object]", part)
                    parts[:] = [
                        copy.deepcopy(value) if _reads(item, name) else item for item in parts if item is not setting
                    ]
                elif _reads(part, name):
                    setattr(parent, field, copy.deepcopy(value))

    return change


def _reads(node: object, name: str) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id == name


def _unwrap(number: int) -> Callable[[ast.Module], None]:
    """A branch or loop by its body."""

    def change(tree: ast.Module) -> None:
        node = _node(tree, number)
        assert isinstance(node, WithBody)
        for parent in ast.walk(tree):
            for value in vars(parent).values():
                if isinstance(value, list) and node in value:
                    statements = cast("list[ast.stmt]", value)
                    place = statements.index(node)
                    statements[place : place + 1] = node.body

    return change


def _parts(node: ast.expr) -> list[ast.expr]:
    children = node.args if isinstance(node, ast.Call) else list(ast.iter_child_nodes(node))
    return [child for child in children if isinstance(child, ast.expr)]


def _lift(number: int, part: int) -> Callable[[ast.Module], None]:
    """An expression by one of its parts."""

    def change(tree: ast.Module) -> None:
        node = _node(tree, number)
        assert isinstance(node, ast.expr)
        lifted = _parts(node)[part]
        for parent in ast.walk(tree):
            for name, value in ast.iter_fields(parent):
                if value is node:
                    setattr(parent, name, lifted)
                elif isinstance(value, list) and node in value:
                    expressions = cast("list[ast.expr]", value)
                    expressions[expressions.index(node)] = lifted

    return change
