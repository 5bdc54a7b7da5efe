"""Resolve the names of a cell, as far as possible without running it.

Constants, plain functions and imports that already happened are known; all else is `Unknown`, about which the frontend
says nothing.  Of the user's own namespace only values are used whose attributes run no code.
"""

import ast
import builtins
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Final, cast

import numpy as np

from tessera.api.source_module import language_names
from tessera.core.base.dtypes import ComputeType, DType
from tessera.frontend.base.observer import UNKNOWN
from tessera.frontend.language.namespace import LANGUAGE, Intrinsic, Namespace
from tessera.frontend.syntax.source_file import Cell, is_kernel
from tessera.kernels.kernel import Kernel

_SAFE: Final = (
    bool, int, float, str, bytes, type(None), DType, ComputeType, Intrinsic, Namespace, ModuleType, FunctionType,
    Kernel, np.ndarray, np.generic, np.ufunc, type(len), type,
)  # fmt: skip
_MOST: Final = 1 << 62


def _safe(value: object) -> object:
    """Return a value whose attributes run no code of the user's; UNKNOWN for any other."""
    if type(value) in (tuple, list):
        items = cast("tuple[object, ...]", value)
        return value if len(items) < 1000 and all(_safe(item) is item for item in items) else UNKNOWN
    # Not isinstance, which asks the value itself for its class.
    return value if type(value) in _SAFE or issubclass(type(value), Kernel | ModuleType) else UNKNOWN


class StaticNames(Mapping[str, object]):
    """The names around the kernels of a cell: what the cell itself sets, then what the user's namespace holds."""

    def __init__(self, user: Mapping[str, object], own: Mapping[str, object], *, open_ended: bool = False) -> None:
        self._user, self._own, self._open_ended = user, own, open_ended

    def __getitem__(self, name: str) -> object:
        if name in self._own:
            value = self._own[name]
            # A cell that ran before left what only running it tells.
            return _safe(self._user[name]) if value is UNKNOWN and name in self._user else value
        if name in self._user and not name.startswith("__"):
            return _safe(self._user[name])
        if self._open_ended and name not in LANGUAGE and not hasattr(builtins, name):
            return UNKNOWN
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        try:
            self[cast("str", name)]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter({**self._user, **self._own})

    def __len__(self) -> int:
        return len({**self._user, **self._own})

    def with_unknown(self, names: set[str]) -> "StaticNames":
        """Return these names and others, of which nothing is known."""
        return StaticNames(self._user, {**self._own, **dict.fromkeys(names, UNKNOWN)}, open_ended=self._open_ended)


def static_names(cell: Cell, tree: ast.Module, user: Mapping[str, object]) -> StaticNames:
    """Return the names at the top of a cell; `tree` is its text, parsed."""
    own: dict[str, object] = {}
    names = StaticNames(user, own)
    around: dict[str, object] = {}
    codes = {(c.co_firstlineno, c.co_name): c for c in cell.compile().co_consts if isinstance(c, CodeType)}
    for node in tree.body:
        match node:
            case ast.FunctionDef() if is_kernel(node):
                own[node.name] = UNKNOWN
            case ast.FunctionDef(decorator_list=[]):
                code = codes.get((node.lineno, node.name))
                own[node.name] = UNKNOWN if code is None else _function(node, code, around, names)
            case ast.Assign(targets=[ast.Name(name)], value=value):
                own[name] = evaluate(value, names)
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                own[name] = evaluate(value, names)
            case ast.Import() | ast.ImportFrom():
                own.update(_imported(node))
            case _:
                own.update(dict.fromkeys(set_by(node), UNKNOWN))
    stars = any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in ast.walk(tree))
    found = StaticNames(user, own, open_ended=stars)
    for name, value in list(user.items()):
        if type(value) is FunctionType and value.__globals__ is user and name not in own:
            own[name] = _with_globals(value, around)
    around.update((name, found[name]) for name in found if name in found)
    return found


def _with_globals(function: FunctionType, around: dict[str, object]) -> FunctionType:
    """Return a function of an earlier cell, to be read with the names of this one."""
    made = FunctionType(function.__code__, around, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _function(node: ast.FunctionDef, code: CodeType, around: dict[str, object], names: StaticNames) -> object:
    """Return the function that a definition makes: it is never called, only its text is read."""
    if code.co_freevars:
        return UNKNOWN
    positional = tuple(evaluate(value, names) for value in node.args.defaults)
    keyword = {
        parameter.arg: evaluate(value, names)
        for parameter, value in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        if value is not None
    }
    made = FunctionType(code, around, node.name, positional)
    made.__kwdefaults__ = keyword
    return made


def set_by(node: ast.AST) -> set[str]:
    """Return every name that a statement may set."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store | ast.Del)}
    found |= {n.name for n in ast.walk(node) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import | ast.ImportFrom):
            found |= set(_imported(inner))
    return found


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, object]:
    """Return what an import gives, where the module was imported before; nothing is imported here."""
    found: dict[str, object] = {}
    for alias in node.names:
        if isinstance(node, ast.Import):
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            found[alias.asname or name] = sys.modules.get(name, UNKNOWN)
        elif alias.name != "*":
            module = None if node.level else sys.modules.get(node.module or "")
            value = UNKNOWN if module is None else vars(module).get(alias.name, UNKNOWN)
            found[alias.asname or alias.name] = _safe(value)
    return found


def evaluate(node: ast.expr, names: Mapping[str, object]) -> object:
    """Return the value of a constant expression; UNKNOWN for anything that would have to run."""
    match node:
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return names[name] if name in names else language_names().get(name, UNKNOWN)
        case ast.Tuple(items) | ast.List(items):
            values = [evaluate(item, names) for item in items]
            made = tuple(values) if isinstance(node, ast.Tuple) else values
            return UNKNOWN if any(value is UNKNOWN for value in values) else made
        case ast.Dict(keys, items):
            return _mapping([(None if key is None else evaluate(key, names), evaluate(v, names))
                             for key, v in zip(keys, items, strict=True)])  # fmt: skip
        case ast.Call(ast.Name("dict"), [], keywords):
            return _mapping([(keyword.arg, evaluate(keyword.value, names)) for keyword in keywords])
        case ast.UnaryOp(ast.USub(), operand):
            value = evaluate(operand, names)
            return -value if isinstance(value, int | float) else UNKNOWN
        case ast.BinOp(left, op, right):
            return _computed(op, evaluate(left, names), evaluate(right, names))
        case _:
            return UNKNOWN


def _mapping(pairs: list[tuple[object, object]]) -> object:
    if any(not isinstance(key, str) or value is UNKNOWN for key, value in pairs):
        return UNKNOWN
    return {cast("str", key): value for key, value in pairs}


def _computed(op: ast.operator, a: object, b: object) -> object:
    if not isinstance(a, int | float) or not isinstance(b, int | float):
        return UNKNOWN
    try:
        value = _apply(op, a, b)
    except (ArithmeticError, ValueError):
        return UNKNOWN
    return UNKNOWN if value is None or abs(value) > _MOST else value


def _apply(op: ast.operator, a: float, b: float) -> float | None:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv():
            return a // b
        case ast.Div():
            return a / b
        case ast.Mod():
            return a % b
        case _:
            return None
