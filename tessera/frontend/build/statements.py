"""Statements and control flow: assignments become SSA values, loops carry what they change."""

import ast
from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.base import dtypes
from tessera.core.base.source import Span
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import DeadBreak, TypeMismatch, UnsupportedReturn, UnsupportedSyntax
from tessera.core.program.program import Value
from tessera.core.program.types import Array, Scalar, Shared, Tile
from tessera.frontend.base import subscripts
from tessera.frontend.base.bindings import HoleUsed, Region, items_of
from tessera.frontend.base.context import Context
from tessera.frontend.base.describe import describe
from tessera.frontend.base.observer import UNKNOWN, UnknownUsed
from tessera.frontend.build.control import Control
from tessera.frontend.build.expressions import Evaluator
from tessera.frontend.build.loops import assigned_names
from tessera.frontend.language.namespace import Intrinsic, dtype_of
from tessera.frontend.language.porting_hints import remedy_for
from tessera.frontend.operations.memory_operations import alloc_shared

_REFUSED: Final = {
    "Try": "try", "TryStar": "try", "With": "with", "FunctionDef": "a nested function", "ClassDef": "a class",
    "Raise": "raise", "Import": "import", "ImportFrom": "import", "Global": "global", "Nonlocal": "nonlocal",
    "Delete": "del", "Match": "match", "AsyncFor": "async for", "AsyncWith": "async with", "Assert": "assert",
    "AsyncFunctionDef": "a nested function", "TypeAlias": "a type alias",
}  # fmt: skip


class Statements:
    """Builds statement lists in one context."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.evaluator = Evaluator(context)
        self.control = Control(context, self.evaluator, self.run)
        context.run, context.evaluate = self.run, self.evaluator.evaluate

    def run(self, nodes: Sequence[ast.stmt]) -> None:
        """Build `nodes` in order.

        `if c: ...; return` turns the rest into its `else`: a lane that returns takes no further part.
        """
        for position, node in enumerate(nodes):
            rest = nodes[position + 1 :]
            if isinstance(node, ast.Return | ast.Break | ast.Continue):
                self._recover(node, lambda node=node, rest=rest: self._leave(node, rest))
                return
            if isinstance(node, ast.If) and rest and may_leave(node):
                self._recover(node, lambda node=node, rest=rest: self._leaving_branch(node, rest))
                return
            self._recover(node, lambda node=node: self._statement(node))

    def _recover(self, node: ast.stmt, build: Callable[[], None]) -> None:
        """Build a statement; with an observer, leave it out where it holds a mistake, and go on behind it."""
        context, observer = self.context, self.context.observer
        if observer is None or context.inlined:
            build()
            return
        troubles, state = observer.troubles, (context.scope, context.loops, context.depth, list(context.mma))
        try:
            build()
        except (TesseraError, UnknownUsed) as trouble:
            mistake = trouble if isinstance(trouble, TesseraError) else None
            observer.leave_out(mistake, context.span(node), troubles)
            context.scope, context.loops, context.depth, context.mma = state
            context.scope.update(dict.fromkeys(assigned_names([node]), UNKNOWN))

    def _leaving_branch(self, node: ast.If, rest: Sequence[ast.stmt]) -> None:
        """`if c: ...; return`, with what stands behind it."""
        self.context.enter(node, 2)
        self.control.branch(node, *_split(node, rest))
        self.context.leave(2)

    def _leave(self, node: ast.stmt, rest: Sequence[ast.stmt]) -> None:
        span = self.context.span(node)
        if rest:
            raise DeadBreak(
                "nothing after this statement runs", self.context.span(rest[0]), "remove it, or put it before"
            )
        if isinstance(node, ast.Return):
            if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
                raise UnsupportedReturn("a kernel returns nothing", span, "write the result into a mut parameter")
            if self.context.loops:
                raise UnsupportedReturn(
                    "return inside a loop", span, "leave the loop with break, or guard its body with if"
                )
        if isinstance(node, ast.Break):
            self.control.stop_loop(span)

    def _statement(self, node: ast.stmt) -> None:
        name = type(node).__name__
        if name in _REFUSED:
            raise UnsupportedSyntax(
                f"{_REFUSED[name]} has no meaning in a kernel", self.context.span(node), "move it outside"
            )
        self.context.enter(node, 2)
        try:
            getattr(self, f"_{name.lower()}")(node)
        except HoleUsed as unknown:
            # A later statement may tell the buffer's shape; the attempt is thrown away and made again.
            # What it would have set is unknown until then, and using that is skipped likewise.
            self.context.builder.knowledge.incomplete = unknown
            self.context.scope.update(dict.fromkeys(assigned_names([node]), unknown.hole))
        finally:
            self.context.leave(2)

    # Simple statements

    def _pass(self, _node: ast.Pass) -> None:
        return

    def _expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        self.evaluator.evaluate(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.evaluator.evaluate(node.value)
        if isinstance(value, Intrinsic) and value.name == "alloc_shared":
            # `s0 = tshared.alloc` of the documents: an allocation whose shape the first copy tells.
            value = alloc_shared(self.context, self.context.span(node.value))
        for target in node.targets:
            self._bind(target, value)

    def _annassign(self, node: ast.AnnAssign) -> None:
        dtype = dtype_of(self.evaluator.evaluate(node.annotation))
        span = self.context.span(node.annotation)
        if dtype is None:
            raise TypeMismatch("a local's annotation is a dtype", span, "acc: f32 = 0.0")
        if node.value is None:
            raise UnsupportedSyntax("a declaration without a value", self.context.span(node), "give it a value")
        where = self.context.span(node.value)
        value = self.context.builder.operand(self.evaluator.evaluate(node.value), where)
        subscripts.check_lossless(value, dtype, where)
        made = self.context.builder.as_value(value, where, dtype)
        self.context.builder.weak.discard(made)
        self._bind(node.target, made)

    def _augassign(self, node: ast.AugAssign) -> None:
        span = self.context.span(node)
        if isinstance(node.target, ast.Subscript):
            region = self.evaluator.evaluate(node.target, lazy=True)
            if not isinstance(region, Region):
                raise TypeMismatch(f"{describe(region)} cannot be changed in place", span, "change a name or an array")
            self._update(region, node, span)
            return
        if not isinstance(node.target, ast.Name):
            raise UnsupportedSyntax("this cannot be assigned to", span, "assign to a name or an array's element")
        have = self.context.lookup(node.target.id, self.context.span(node.target))
        if isinstance(have, Value) and isinstance(have.type, Array | Shared):
            self._update(self.context.builder.whole(have), node, span)
            return
        self._bind(node.target, self._changed(node, have, span, named=True))

    def _update(self, region: Region, node: ast.AugAssign, span: Span) -> None:
        """Read, change and write one region; its indices are evaluated once."""
        builder = self.context.builder
        if region.gathered is not None:
            hint = "tile.scatter_add(y[ids, :], t) adds for each of equal indices; y[ids, :] = y[ids, :] + t for one"
            raise TypeMismatch("what this adds where two indices are equal is not clear", span, hint)
        starts = tuple(s if isinstance(s, int) else builder.index(s, span) for s in region.starts)
        region = Region(region.memory, starts, region.extents, region.dropped)
        subscripts.check_writable(self.context, region.memory, self.context.span(node.target))
        old = builder.load(region, span)
        subscripts.store(self.context, region, self._changed(node, old, span), span)

    def _changed(self, node: ast.AugAssign, old: object, span: Span, *, named: bool = False) -> object:
        """`old op value`; `acc += tile.dot(a, b)` continues acc's own sums, whatever the extent of a block is.

        A tile that has a name keeps, as one in memory does, what nothing that exists is added to.
        """
        if not isinstance(node.op, ast.Add | ast.Sub):
            return self.evaluator.binary(node.op, old, node.value, span)
        value = self.evaluator.evaluate(node.value)
        if isinstance(node.op, ast.Add) and isinstance(value, Value) and isinstance(old, Value):
            accumulated = self.context.builder.accumulate(value, old)
            if accumulated is not None:
                return accumulated
        made = self.context.builder.binary("add" if isinstance(node.op, ast.Add) else "sub", old, value, span)
        return self._where_added(made, old, value, span) if named else made

    def _where_added(self, made: object, old: object, value: object, span: Span) -> object:
        """Return what became of a tile by adding another one: nothing where that does not exist."""
        if not isinstance(old, Value) or not isinstance(value, Value):
            return made
        if not isinstance(old.type, Tile) or not isinstance(value.type, Tile):
            return made
        builder = self.context.builder
        exists = builder.value("valid", (value,), Tile(dtypes.boolean, value.type.shape), span)
        return builder.select(exists, made, old, span)

    def _bind(self, target: ast.expr, value: object) -> None:
        span = self.context.span(target)
        if isinstance(target, ast.Name):
            self._bind_name(target, value, span)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target, value, span)
        elif isinstance(target, ast.Subscript):
            region = self.evaluator.evaluate(target, lazy=True)
            if not isinstance(region, Region):
                is_list = items_of(self.evaluator.evaluate(target.value)) is not None
                hint = remedy_for("append") if is_list else "build a new tile instead"
                raise TypeMismatch("only arrays and buffers can be assigned to by index", span, hint)
            subscripts.store(self.context, region, value, span)
        else:
            raise UnsupportedSyntax("this cannot be assigned to", span, "assign to a name or an array's element")

    def _bind_name(self, target: ast.Name, value: object, span: Span) -> None:
        array = self.context.parameters.get(target.id)
        if array is not None and isinstance(array.type, Array):
            hint = f"write {target.id}[:] = ... to store into the array"
            raise TypeMismatch(f"{target.id} is a parameter, and an array", span, hint)
        if isinstance(value, Value) and not value.name and isinstance(value.type, Scalar | Tile | Shared):
            # The first name a value is given is the one it prints with; it is set once, while the value is new.
            object.__setattr__(value, "name", target.id)
        self.context.scope[target.id] = value
        self.context.saw(span, value)

    def _unpack(self, target: ast.Tuple | ast.List, value: object, span: Span) -> None:
        parts = items_of(value)
        if parts is None or len(parts) != len(target.elts):
            raise TypeMismatch(
                f"{describe(value)} does not unpack into {len(target.elts)} names",
                span,
                "give each name a value of its own",
            )
        for item, part in zip(target.elts, parts, strict=True):
            self._bind(item, part)

    # Control flow

    def _if(self, node: ast.If) -> None:
        self.control.branch(node, node.body, node.orelse)

    def _for(self, node: ast.For) -> None:
        self.control.for_loop(node)

    def _while(self, node: ast.While) -> None:
        self.control.while_loop(node)


def leaves(nodes: Sequence[ast.stmt]) -> bool:
    """True when every path through `nodes` ends in return, break or continue."""
    ends = [nodes]  # a stack, not recursion: `elif` after `elif` is as deep as it is long
    while ends:
        last = next(reversed(ends.pop()), None)
        if isinstance(last, ast.If):
            ends += last.body, last.orelse
        elif not isinstance(last, ast.Return | ast.Break | ast.Continue):
            return False
    return True


def may_leave(node: ast.stmt) -> bool:
    """True when some path through `node` ends in return, break or continue of the loop (or kernel) around it."""
    inside = [node]
    while inside:
        one = inside.pop()
        if isinstance(one, ast.Return | ast.Break | ast.Continue):
            return True
        if isinstance(one, ast.If):
            inside += one.body + one.orelse
    return False


def _split(node: ast.If, rest: Sequence[ast.stmt]) -> tuple[Sequence[ast.stmt], Sequence[ast.stmt]]:
    """Move the statements after `if` into the branch (or branches) that goes on."""
    body, orelse = list(node.body), list(node.orelse)
    if not leaves(body):
        body += rest
    if not leaves(orelse):
        orelse += rest
    return body, orelse
