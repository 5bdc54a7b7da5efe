"""Give the placeholders that `desugar.py` left in a tree their meaning, in place, with the user's positions."""

import ast
import difflib
from collections.abc import Iterator
from typing import Final, NoReturn, TypeVar, cast

from tessera.core.base.source import Source, Span
from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.desugar import UNITS, Mark

CLAUSES: Final = ("tile", "shared")
"""What may follow `@kernel` on its line; each becomes a keyword argument of the decorator."""

_Position = tuple[int, int]
Expression = TypeVar("Expression", bound=ast.expr)


def normalise(tree: ast.Module, marks: tuple[Mark, ...], source: Source, *, fold_units: bool) -> None:
    """Rewrite every marked place of `tree`, whose columns count characters.

    With `fold_units` numbers of bytes become plain integers, for code that runs where no name KiB is defined;
    without it they become `8 * KiB`.  Raises SyntaxMistake for additions that stand where they mean nothing.
    """
    if not marks:
        return
    rewriter = _Rewriter(marks, source, fold_units=fold_units)
    # A stack, not recursion: a sum of a thousand terms is a tree a thousand levels deep.
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        rewriter.rewrite_children(node)
        stack.extend(ast.iter_child_nodes(node))
    rewriter.finish()


def node_span(source: Source, node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> Span:
    """The span of a node whose columns count characters."""
    end_line = node.end_lineno if node.end_lineno is not None else node.lineno
    end_column = node.end_col_offset if node.end_col_offset is not None else node.col_offset
    return Span(source.name, node.lineno, node.col_offset + 1, end_line, end_column + 1)


class _Rewriter:
    """Holds the marks that have not met their node yet."""

    def __init__(self, marks: tuple[Mark, ...], source: Source, *, fold_units: bool) -> None:
        self._source = source
        self._fold_units = fold_units
        self._marks: dict[_Position, Mark] = {(mark.line, mark.column): mark for mark in marks}
        self._joins = sorted((mark.line, mark.column) for mark in marks if mark.kind in ("decorator", "clause"))

    def rewrite_children(self, node: ast.AST) -> None:
        """Replace what is marked among the children of `node`."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.decorator_list = [part for item in node.decorator_list for part in self._decorators(item)]
        for name, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                setattr(node, name, self._expression(value))
            elif isinstance(value, list):
                items = cast(list[object], value)
                items[:] = [self._expression(item) if isinstance(item, ast.expr) else item for item in items]

    def finish(self) -> None:
        """Refuse marks that no node claimed: the addition stands where it means nothing."""
        for mark in self._marks.values():
            span = Span(self._source.name, mark.line, mark.column + 1, mark.line, mark.column + 1 + len(mark.text))
            self._refuse(span, f"{mark.text!r} means nothing here", _STRAY[mark.kind])

    def _refuse(self, where: Span | ast.expr, message: str, hint: str) -> NoReturn:
        span = where if isinstance(where, Span) else node_span(self._source, where)
        raise SyntaxMistake(message, span, hint).with_source(self._source)

    def _take(self, kind: str, position: _Position) -> Mark | None:
        mark = self._marks.get(position)
        return self._marks.pop(position) if mark is not None and mark.kind == kind else None

    def _expression(self, node: ast.expr) -> ast.expr:
        here = (node.lineno, node.col_offset)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and self._take("mut", here):
            name = _at(ast.Name("mut", ast.Load()), here, 3)
            return ast.copy_location(ast.Subscript(name, node.operand, ast.Load()), node)
        if isinstance(node, ast.Name) and node.id.startswith(tuple(UNITS)) and (mark := self._take("unit", here)):
            return self._bytes(node, mark)
        if isinstance(node, ast.Attribute) and node.attr == "Global":
            end = (node.end_lineno or 0, (node.end_col_offset or 0) - len("Global"))
            node.attr = "global_" if self._take("global", end) else "Global"
        if isinstance(node, ast.Subscript):
            return self._launch(node)
        return node

    def _bytes(self, node: ast.Name, mark: Mark) -> ast.expr:
        base, unit = mark.text.rsplit("_", 1)
        line, column = mark.line, mark.column
        if not isinstance(node.ctx, ast.Load):
            self._refuse(node, f"{mark.text} is a number: nothing can be assigned to it", "use a name")
        if self._fold_units:
            return ast.copy_location(ast.Constant(int(base, 0) * UNITS[unit]), node)
        number = _at(ast.Constant(int(base, 0)), (line, column), len(base))
        name = _at(ast.Name(unit, ast.Load()), (line, column + len(base) + 1), len(unit))
        return ast.copy_location(ast.BinOp(number, ast.Mult(), name), node)

    def _launch(self, node: ast.Subscript) -> ast.expr:
        """`k[grid, block, stream:s]` to `k[grid, block].on(s)`."""
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        streams = [item for item in items if isinstance(item, ast.Slice) and self._stream_mark(item)]
        if not streams:
            return node
        keyword = streams[0]
        name, value = keyword.lower, keyword.upper
        assert isinstance(name, ast.Name), "the mark stands at a name"
        if name.id != "stream" or len(streams) > 1:
            extra = name if name.id != "stream" else streams[1]
            self._refuse(extra, "a launch takes one keyword, stream", "write k[grid, block, stream=s](...)")
        if value is None or keyword.step is not None or not isinstance(node.ctx, ast.Load):
            self._refuse(keyword, "stream= takes one stream, in a launch", "write k[grid, block, stream=s](...)")
        rest = [item for item in items if item is not keyword]
        target: ast.expr = node.value
        if rest:
            inner = rest[0] if len(rest) == 1 else ast.Tuple(rest, ast.Load())
            if isinstance(inner, ast.Tuple) and len(rest) > 1:
                ast.copy_location(inner, node.slice)
            target = ast.copy_location(ast.Subscript(node.value, inner, ast.Load()), node)
        method = ast.copy_location(ast.Attribute(target, "on", ast.Load()), node)
        return ast.copy_location(ast.Call(method, [value], []), node)

    def _stream_mark(self, item: ast.Slice) -> Mark | None:
        return self._take("stream", (item.lower.lineno, item.lower.col_offset)) if item.lower else None

    def _decorators(self, node: ast.expr) -> Iterator[ast.expr]:
        """Split one decorator line into its decorators, each with its clauses as keyword arguments."""
        parts = list(self._parts(node))
        decorator: ast.expr = parts[0][1]
        clauses: list[ast.expr] = []
        for kind, part in parts[1:]:
            if kind == "clause":
                clauses.append(part)
                continue
            yield self._with_clauses(decorator, clauses)
            decorator, clauses = part, []
        yield self._with_clauses(decorator, clauses)

    def _parts(self, node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
        """The operands of the marked `|` on a decorator line, each with the kind of the mark before it."""
        parts: list[tuple[str, ast.expr]] = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            mark = self._join_between(node.left, node.right)
            if mark is None:
                break
            parts.append((mark.kind, node.right))
            node = node.left
        yield "decorator", node
        yield from reversed(parts)

    def _join_between(self, left: ast.expr, right: ast.expr) -> Mark | None:
        """Take the mark of the operator between two operands.

        A join's mark stands at the word it introduces, which is where `right` starts, or at an `@` before it.
        """
        low, high = (left.end_lineno or 0, left.end_col_offset or 0), (right.lineno, right.col_offset)
        found = [place for place in self._joins if low <= place <= high and place in self._marks]
        return self._marks.pop(found[0]) if len(found) == 1 else None

    def _with_clauses(self, decorator: ast.expr, clauses: list[ast.expr]) -> ast.expr:
        if not clauses:
            return decorator
        keywords = [self._clause(clause) for clause in clauses]
        call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
        if call is not decorator:
            ast.copy_location(call, decorator)
        taken = {keyword.arg for keyword in call.keywords}
        for keyword in keywords:
            if keyword.arg in taken:
                self._refuse(node_span(self._source, keyword), f"{keyword.arg} is given twice", "keep one of them")
            taken.add(keyword.arg)
        call.keywords += keywords
        call.end_lineno, call.end_col_offset = clauses[-1].end_lineno, clauses[-1].end_col_offset
        return call

    def _clause(self, clause: ast.expr) -> ast.keyword:
        """`tile[(128,)]` to `tile=(128,)`, `shared(n)` to `shared=n`."""
        head = clause
        while isinstance(head, ast.Subscript | ast.Call | ast.Attribute):
            head = head.value if not isinstance(head, ast.Call) else head.func
        name = head.id if isinstance(head, ast.Name) else ""
        if name not in CLAUSES:
            close = difflib.get_close_matches(name, CLAUSES, n=1)
            hint = f"did you mean {close[0]}?" if close else "use tile[...] and shared(...), or one decorator a line"
            self._refuse(clause, f"{name or 'this'} is not a clause of a decorator", hint)
        value = self._clause_value(name, clause)
        if value is None:
            self._refuse(clause, *_CLAUSE_FORMS[name])
        return ast.copy_location(ast.keyword(name, value), clause)

    def _clause_value(self, name: str, clause: ast.expr) -> ast.expr | None:
        if name == "tile" and isinstance(clause, ast.Subscript) and isinstance(clause.value, ast.Name):
            return clause.slice
        if name == "shared" and isinstance(clause, ast.Call) and isinstance(clause.func, ast.Name):
            plain = len(clause.args) == 1 and not clause.keywords and not isinstance(clause.args[0], ast.Starred)
            return clause.args[0] if plain else None
        return None


_CLAUSE_FORMS: Final = {
    "tile": ("tile takes the lanes of a group in brackets", "write tile[(128,)] or tile[(16, 16)]"),
    "shared": ("shared takes one number of bytes in parentheses", "write shared(8_KiB)"),
}
_STRAY: Final = {
    "mut": "mut stands before the type of a kernel's parameter: y: mut f32[n]",
    "unit": f"units of bytes are {', '.join(UNITS)}, as in shared(8_KiB)",
    "global": "write cp_async.shared.global(dst, src)",
    "decorator": "write one decorator a line",
    "clause": "write @kernel tile[(128,)] shared(8_KiB)",
    "stream": "name=value in brackets is for launches: k[grid, block, stream=s](...)",
}


def _at(node: Expression, position: _Position, width: int) -> Expression:
    """Give a new node a place that is `width` characters wide."""
    node.lineno, node.col_offset = position
    node.end_lineno, node.end_col_offset = position[0], position[1] + width
    return node
