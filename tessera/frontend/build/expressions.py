"""Expressions: from Python's AST to values, through the builder and the language's handlers."""

import ast
import inspect
from types import FunctionType
from typing import Final

from tessera.core.base.source import Span
from tessera.core.errors.catalog import (
    ConstantNeeded,
    DivisionByZero,
    NoSuchItem,
    NotAValue,
    NotCallable,
    TypeMismatch,
    UndefinedName,
    UnknownAttribute,
    UnsupportedSyntax,
    WrongArguments,
)
from tessera.core.program.program import Value
from tessera.core.program.types import Array, Scalar, Shared, Tile
from tessera.frontend.base.bindings import BlockIndex, CooperativeGroup, Method, SharedHole, Undefined, items_of
from tessera.frontend.base.builder import binding_error, dtype_of_value, memory_type, shape_of
from tessera.frontend.base.context import Context, suggestion
from tessera.frontend.base.describe import describe, is_kernel, is_outside_array
from tessera.frontend.base.subscripts import extent_value, index_nodes, index_tile, region_of
from tessera.frontend.build.inlining import inline
from tessera.frontend.build.python_functions import HOST_FUNCTIONS, host_attribute
from tessera.frontend.language.namespace import Intrinsic, Namespace, ceil_div, dtype_of, tile
from tessera.frontend.language.porting_hints import (
    LIBRARIES,
    remedy_for,
    remedy_for_callable,
    remedy_for_operation,
    remedy_for_path,
)
from tessera.frontend.operations import intrinsics, lane_operations, memory_operations, tile_operations
from tessera.frontend.syntax.tree_depth import left_chain

_BINARY: Final[dict[type[ast.operator], str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
_COMPARE: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
_GROUP_METHODS: Final = ("sync", "thread_rank", "size", "shuffle_down", "shuffle_up", "shuffle_xor", "shuffle_idx")
_TILE_METHODS: Final = ("sum", "max", "min", "argmax", "argmin", "reshape", "transpose", "softmax")


class Evaluator:
    """Evaluates expressions in one context."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def evaluate(self, node: ast.expr, *, lazy: bool = False) -> object:
        """Return what `node` stands for; with `lazy`, a slice of memory stays a `Region` instead of being read."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise UnsupportedSyntax(
                f"{_name_of(node)} has no meaning in a kernel", self.context.span(node), "use numbers, names and calls"
            )
        self.context.enter(node, 1)
        try:
            return self._subscript(node, lazy=lazy) if isinstance(node, ast.Subscript) else method(node)
        finally:
            self.context.leave(1)

    def index_value(self, node: ast.expr) -> Value:
        """An expression as an i64 scalar."""
        return self.context.builder.index(self.evaluate(node), self.context.span(node))

    # Leaves

    def _constant(self, node: ast.Constant) -> object:
        if isinstance(node.value, bool | int | float | str | type(None) | type(...)):
            return node.value
        raise UnsupportedSyntax(f"{node.value!r} has no meaning in a kernel", self.context.span(node), "use a number")

    def _name(self, node: ast.Name) -> object:
        return self.context.lookup(node.id, self.context.span(node))

    def _tuple(self, node: ast.Tuple) -> object:
        return tuple(self.evaluate(e) for e in node.elts)

    def _list(self, node: ast.List) -> object:
        return [self.evaluate(e) for e in node.elts]

    # Operators

    def _binop(self, node: ast.BinOp) -> object:
        chain = left_chain(node)
        value = self.evaluate(chain[0].left)
        for step in chain:
            value = self.binary(step.op, value, step.right, self.context.span(step))
        return value

    def binary(self, op: ast.operator, a: object, right: ast.expr, span: Span) -> object:
        """`a op right`, for expressions and for augmented assignments."""
        b = self.evaluate(right)
        if isinstance(op, ast.FloorDiv | ast.Mod) and _is_zero(right) and _is_integer_value(a):
            raise DivisionByZero(f"{describe(a)} is divided by 0", span, "a divisor that is written out must not be 0")
        if isinstance(op, ast.MatMult):
            return tile_operations.dot(self.context, span, a, b)
        if isinstance(op, ast.Pow) and isinstance(b, int | float) and not isinstance(a, int | float):
            return self._power(a, b, span)
        return self.context.builder.binary(_BINARY[type(op)], a, b, span)

    def _power(self, a: object, exponent: float, span: Span) -> object:
        builder = self.context.builder
        if exponent == 0.5:
            return builder.unary("sqrt", a, span)
        if not isinstance(exponent, int) or not 1 <= exponent <= 4:
            return builder.binary("pow", a, exponent, span)
        result = base = builder.operand(a, span)
        for _ in range(exponent - 1):
            result = builder.binary("mul", result, base, span)
        return result

    def _unaryop(self, node: ast.UnaryOp) -> object:
        value, span = self.evaluate(node.operand), self.context.span(node)
        if isinstance(node.op, ast.UAdd):
            return self.context.builder.operand(value, span)
        if isinstance(node.op, ast.Invert):
            return self._inverted(value, span)
        return self.context.builder.unary("neg" if isinstance(node.op, ast.USub) else "not", value, span)

    def _inverted(self, value: object, span: Span) -> object:
        """`~value`: `not` of a bool, else every bit changed."""
        builder = self.context.builder
        number = builder.operand(value, span)
        if not isinstance(number, Value):
            return builder.binary("xor", number, -1, span)
        dtype = dtype_of_value(number)
        if dtype.kind == "bool":
            return builder.unary("not", number, span)
        return builder.binary("xor", number, (1 << dtype.bits) - 1 if dtype.kind == "uint" else -1, span)

    def _boolop(self, node: ast.BoolOp) -> object:
        """`and`, `or`: of what is known as Python has it; else the bool that both sides, which are computed, make."""
        stops_at = isinstance(node.op, ast.Or)
        result: object = not stops_at
        for number, part in enumerate(node.values):
            value = self.evaluate(part)
            known = not isinstance(value, Value | BlockIndex | SharedHole)
            decides, last = known and bool(value) == stops_at, number == len(node.values) - 1
            if known and not isinstance(result, Value):
                if decides:
                    return value
                result = value
            elif not known or decides or last:
                result = self._joined(node, part, result if isinstance(result, Value) else None, value)
            if decides:
                return result
        return result

    def _joined(self, node: ast.BoolOp, part: ast.expr, before: Value | None, value: object) -> object:
        """`before op value`, of bools."""
        span, builder = self.context.span(part), self.context.builder
        opcode = "or" if isinstance(node.op, ast.Or) else "and"
        operand = builder.operand(value, span)
        if not (dtype_of_value(operand).kind == "bool" if isinstance(operand, Value) else isinstance(operand, bool)):
            instead = {"or": "a if a != 0 else b", "and": "b if a != 0 else a"}[opcode]
            raise TypeMismatch(
                f"`{opcode}` joins conditions, and this is {describe(value)}", span,
                f"compare it (`a != 0`); to choose a number, write `{instead}`",
            )  # fmt: skip
        return operand if before is None else builder.binary(opcode, before, operand, self.context.span(node))

    def _compare(self, node: ast.Compare) -> object:
        span, builder = self.context.span(node), self.context.builder
        values = [self.evaluate(e) for e in (node.left, *node.comparators)]
        result: object = True
        for op, a, b in zip(node.ops, values[:-1], values[1:], strict=True):
            test = self._one_comparison(op, a, b, span)
            result = test if result is True else builder.binary("and", result, test, span)
        return result

    def _one_comparison(self, op: ast.cmpop, a: object, b: object, span: Span) -> object:
        if isinstance(op, ast.Is | ast.IsNot):
            if not (a is None or b is None) and (_is_number(a) or _is_number(b)):
                right = {True: "==", False: "!="}[isinstance(op, ast.Is)]
                raise UnsupportedSyntax("`is` does not compare numbers", span, f"write {right}")
            return (a is b) == isinstance(op, ast.Is)
        if isinstance(op, ast.In | ast.NotIn):
            raise UnsupportedSyntax("`in` has no meaning in a kernel", span, "compare with == and or")
        return self.context.builder.compare(_COMPARE[type(op)], a, b, span)

    def _ifexp(self, node: ast.IfExp) -> object:
        test = self.evaluate(node.test)
        if not isinstance(test, Value):
            return self.evaluate(node.body if test else node.orelse)
        a, b, span = self.evaluate(node.body), self.evaluate(node.orelse), self.context.span(node)
        if _is_buffer(a) and _is_buffer(b):
            return self._choose_buffer(test, a, b, span)
        return self.context.builder.select(test, a, b, span)

    def _choose_buffer(self, test: Value, a: object, b: object, span: Span) -> object:
        return choose_buffer(self.context, test, a, b, span)

    # Parts of things

    def _attribute(self, node: ast.Attribute) -> object:
        span = self.context.span(node)
        path = _path(node)
        if path[0] in LIBRARIES and not self.context.knows(path[0]):
            raise UndefinedName(f"nothing is named {path[0]!r}", span, remedy_for_path(path))
        owner = self.evaluate(node.value)
        if isinstance(owner, Undefined):
            raise binding_error(owner, span)
        if isinstance(owner, Namespace):
            try:
                return getattr(owner, node.attr)
            except AttributeError as error:
                near = suggestion(node.attr, dir(owner))
                raise UnknownAttribute(str(error), span, remedy_for_operation(node.attr, near)) from None
        if isinstance(owner, Intrinsic):
            raise UnknownAttribute(f"{owner.spelling} has no {node.attr!r}", span, f"call it: {owner.spelling}(...)")
        if isinstance(owner, Value):
            return self._value_attribute(owner, node.attr, span)
        if isinstance(owner, BlockIndex):
            return self._block_attribute(owner, node.attr, span)
        if isinstance(owner, CooperativeGroup):
            if node.attr in _GROUP_METHODS:
                return Method(owner, node.attr)
            raise UnknownAttribute(
                f"a cooperative group has no {node.attr!r}", span, suggestion(node.attr, list(_GROUP_METHODS))
            )
        return host_attribute(owner, node.attr, span)

    def _value_attribute(self, owner: Value, name: str, span: Span) -> object:
        if name == "shape" and not isinstance(owner.type, Scalar):
            return tuple(extent_value(self.context.builder, e, span) for e in owner.type.shape)
        if name == "ndim" and not isinstance(owner.type, Scalar):
            return len(owner.type.shape)
        if name == "dtype":
            return owner.type.dtype
        if name == "T" and not isinstance(owner.type, Scalar):
            return tile_operations.transpose(self.context, span, owner)
        if name in _TILE_METHODS or name in ("to", "astype"):
            return Method(owner, name)
        known = ["shape", "ndim", "dtype", "T", "to", *_TILE_METHODS]
        near = suggestion(name, known) or f"it has {', '.join(known)}"
        if name in dir(tile):
            near = f"write tile.{name}(...)"
        raise UnknownAttribute(f"{describe(owner)} has no {name!r}", span, remedy_for_operation(name, near))

    def _block_attribute(self, block: BlockIndex, name: str, span: Span) -> object:
        if name == "start":
            return block.start
        if name == "size":
            return block.extent
        if name == "stop":
            return self.context.builder.binary("add", block.start, block.extent, span)
        raise UnknownAttribute(f"a block has no {name!r}", span, "it has start, stop and size")

    def _subscript(self, node: ast.Subscript, *, lazy: bool) -> object:
        owner, span = self.evaluate(node.value), self.context.span(node)
        if isinstance(owner, SharedHole):
            self.context.builder.operand(owner, span)  # raises: its shape is needed here
        if isinstance(owner, Value) and isinstance(owner.type, Array | Shared):
            region = region_of(self, owner, index_nodes(node.slice), span)
            return region if lazy else self.context.builder.load(region, span)
        if isinstance(owner, Value) and isinstance(owner.type, Tile):
            return index_tile(self, owner, index_nodes(node.slice), span)
        if isinstance(owner, Intrinsic) and owner.name == "alloc_shared":
            return Method(owner, self._dtype_name(node.slice))
        items = items_of(owner)
        if items is not None:
            return self._element(items, node.slice, span)
        hint = "index an array, a buffer or a tuple"
        if is_outside_array(owner):
            name = node.value.id if isinstance(node.value, ast.Name) else "values"
            hint = f"a kernel's arrays are its parameters: add {name}: f32[n] to them, and pass it"
        raise TypeMismatch(f"{describe(owner)} cannot be indexed", span, hint)

    def _dtype_name(self, node: ast.expr) -> str:
        dtype = dtype_of(self.evaluate(node))
        if dtype is None:
            raise TypeMismatch(
                "shared memory needs a dtype in the brackets", self.context.span(node), "tshared.alloc[f32](128)"
            )
        return dtype.name

    def _element(self, items: list[object], node: ast.expr, span: Span) -> object:
        index = self.evaluate(node)
        if not isinstance(index, int):
            what = f"a list of {len(items)} items, indexed by {describe(index)}"
            raise ConstantNeeded(what, span, "loop over the list itself, or pass the values as an array")
        if not -len(items) <= index < len(items):
            hint = f"use {-len(items)} to {len(items) - 1}" if items else "it is empty"
            raise NoSuchItem(f"there are {len(items)} items, and none has the index {index}", span, hint)
        return items[index]

    # Calls

    def _call(self, node: ast.Call) -> object:
        span = self.context.span(node)
        callee = self.evaluate(node.func)
        args = [self.evaluate(a, lazy=True) for a in node.args if not isinstance(a, ast.Starred)]
        keywords = {k.arg: self.evaluate(k.value, lazy=True) for k in node.keywords if k.arg is not None}
        if len(args) != len(node.args) or len(keywords) != len(node.keywords):
            raise UnsupportedSyntax("* and ** arguments have no meaning in a kernel", span, "write the arguments out")
        return self.call(callee, args, keywords, span)

    def call(self, callee: object, args: list[object], keywords: dict[str, object], span: Span) -> object:
        """Call an operation of the language, a method, a dtype or one of Python's own functions."""
        if isinstance(callee, Intrinsic):
            return self._call_handler(intrinsics.HANDLERS.get(callee.name), callee.spelling, args, keywords, span)
        if isinstance(callee, Method):
            return self._call_method(callee, args, keywords, span)
        dtype = dtype_of(callee)
        if dtype is not None:
            return self._call_handler(tile_operations.cast, dtype.name, [*args, dtype], keywords, span)
        if callee is ceil_div:
            return self._ceil_div(args, span)
        if callable(callee) and callee in HOST_FUNCTIONS:
            return self._call_handler(HOST_FUNCTIONS[callee], getattr(callee, "__name__", "it"), args, keywords, span)
        if isinstance(callee, FunctionType):
            return inline(self.context, callee, args, keywords, span)
        raise NotCallable(f"{describe(callee)} cannot be called in a kernel", span, _instead_of(callee))

    def _call_method(self, method: Method, args: list[object], keywords: dict[str, object], span: Span) -> object:
        owner = method.owner
        if isinstance(owner, Intrinsic):  # tshared.alloc[dtype](...)
            dtype = dtype_of(self.context.lookup(method.name, span))
            return self._call_handler(
                memory_operations.alloc_shared, owner.spelling, args, {"dtype": dtype, **keywords}, span
            )
        if isinstance(owner, CooperativeGroup):
            return self._call_handler(
                lane_operations.group_method, method.name, [owner, method.name, *args], keywords, span
            )
        name = "cast" if method.name in ("to", "astype") else method.name
        return self._call_handler(intrinsics.HANDLERS[name], method.name, [owner, *args], keywords, span)

    def _ceil_div(self, args: list[object], span: Span) -> object:
        if len(args) != 2:
            raise WrongArguments("ceil_div takes two numbers", span, "ceil_div(a, b)")
        builder = self.context.builder
        up = builder.binary("sub", builder.binary("add", args[0], args[1], span), 1, span)
        return builder.binary("floordiv", up, args[1], span)

    def _call_handler(
        self,
        handler: intrinsics.Handler | None,
        spelling: str,
        args: list[object],
        keywords: dict[str, object],
        span: Span,
    ) -> object:
        if handler is None:
            raise NotAValue(f"{spelling} is for loops and annotations, not for calls here", span, "see its help")
        signature = inspect.signature(handler)
        try:
            bound = signature.bind(self.context, span, *args, **keywords)
        except TypeError as error:
            shown = ", ".join(p for p in list(map(str, signature.parameters.values()))[2:])
            shown = shown.replace(": object", "").replace(": bool", "").replace(": str", "")
            raise WrongArguments(f"{spelling}: {error}", span, f"it takes ({shown})") from None
        return handler(*bound.args, **bound.kwargs)


def choose_buffer(context: Context, test: Value, a: object, b: object, span: Span) -> object:
    """One of two buffers of one type, chosen while the kernel runs."""
    unified = unify_buffers(context, a, b, span)
    if isinstance(unified, SharedHole):
        return unified
    if not isinstance(a, Value) or not isinstance(b, Value):
        raise NotAValue("a buffer is needed here", span)
    condition = context.builder.truth(test, span)
    if shape_of(condition):
        raise TypeMismatch("buffers are chosen by one condition, not by a tile", span, "use a scalar condition")
    return context.builder.value("select", (condition, a, b), a.type, span)


def unify_buffers(context: Context, a: object, b: object, span: Span) -> object:
    """The common type of two buffers: where only one is known, the other one's allocation takes it."""
    if isinstance(a, SharedHole) and isinstance(b, SharedHole):
        return SharedHole(a.sites | b.sites)
    for hole, known in ((a, b), (b, a)):
        if isinstance(hole, SharedHole) and isinstance(known, Value) and isinstance(known.type, Shared):
            context.builder.knowledge.resolve(hole, known.type)
    if isinstance(a, Value) and isinstance(b, Value) and a.type != b.type:
        raise TypeMismatch(f"{memory_type(a)} and {memory_type(b)} are different buffers", span, "give both one shape")
    return a


def _is_buffer(binding: object) -> bool:
    return isinstance(binding, SharedHole) or (isinstance(binding, Value) and isinstance(binding.type, Shared))


def _is_number(binding: object) -> bool:
    """A number that is known or computed; not a bool that is known, which there is one object of."""
    if isinstance(binding, Value):
        return isinstance(binding.type, Scalar | Tile)
    return isinstance(binding, int | float) and not isinstance(binding, bool)


def _is_integer_value(binding: object) -> bool:
    return isinstance(binding, Value) and dtype_of_value(binding).is_integer


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value == 0


def _path(node: ast.Attribute) -> list[str]:
    """The names in `a.b.c`; the first is empty where something else than a name is asked for an attribute."""
    names = [node.attr]
    inner = node.value
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    return [inner.id if isinstance(inner, ast.Name) else "", *reversed(names)]


def _instead_of(callee: object) -> str:
    """Return what to write instead of calling something that cannot be called."""
    if is_kernel(callee):
        return "put what both need into a plain function, which is expanded in place; instead of recursion use a loop"
    if items_of(getattr(callee, "__self__", None)) is not None:
        return remedy_for("append")
    return remedy_for_callable(callee) or "call operations of tile, dtypes, min, max, abs"


def _name_of(node: ast.AST) -> str:
    names = {
        "Lambda": "a lambda", "ListComp": "a comprehension", "DictComp": "a comprehension",
        "SetComp": "a comprehension", "GeneratorExp": "a comprehension",
        "Dict": "a dict", "Set": "a set", "JoinedStr": "an f-string",
        "NamedExpr": "`:=`", "Await": "await", "Yield": "yield", "YieldFrom": "yield", "Starred": "`*`",
        "Slice": "a slice outside brackets",
    }  # fmt: skip
    return names.get(type(node).__name__, type(node).__name__)
