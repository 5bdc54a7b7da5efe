"""Make operations: promotion and broadcasting, so that every operation is well typed; known numbers are folded."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType, computed_in, promote
from tessera.core.base.source import NOWHERE, Span
from tessera.core.errors.catalog import (
    ConstantNeeded,
    LiteralOverflow,
    LossyStore,
    MaybeUndefined,
    NotAValue,
    ShapeMismatch,
    TypeMismatch,
)
from tessera.core.program.program import Attribute, Block, Op, Value
from tessera.core.program.types import Array, Scalar, Shared, Tile, Type
from tessera.frontend.base.affine import Affine
from tessera.frontend.base.bindings import HoleUsed, Knowledge, Number, Region, SharedHole, Undefined
from tessera.frontend.base.constant_folding import fold, fold_comparison, fold_unary
from tessera.frontend.base.describe import describe, is_outside_array

_INTEGER_ONLY: Final = ("and", "or", "xor", "shl", "shr", "mulhi")
_FLOAT_ONLY: Final = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "pow")
_KEEPS_INTEGERS: Final = ("floor", "ceil")

_WORDS: Final = {"inf": "math.inf", "-inf": "-math.inf", "nan": "math.nan"}
"""Numbers that Python makes of text: `float("inf")`."""


class Builder:
    """Appends operations to the block being built, and knows what the frontend knows of each value.

    `weak` holds values that came from Python literals: they take the dtype of what they meet.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self.knowledge = knowledge
        self.affine = Affine()
        self.weak: set[Value] = set()
        self.windows: list[Region] = []  # of arrays, as tiles
        self._blocks: list[list[Op]] = [[]]

    # Blocks and operations

    @contextmanager
    def block(self) -> Generator[list[Op]]:
        """Collect what is emitted inside the `with` in a list of its own."""
        self._blocks.append([])
        try:
            yield self._blocks[-1]
        finally:
            self._blocks.pop()

    def finish(self) -> Block:
        """Return the outermost block."""
        return Block((), tuple(self._blocks[0]))

    def emit(
        self,
        opcode: str,
        operands: Sequence[Value],
        results: Sequence[Type | Value],
        span: Span,
        regions: Sequence[Block] = (),
        **attributes: Attribute,
    ) -> tuple[Value, ...]:
        """Append one operation and return its results."""
        values = tuple(r if isinstance(r, Value) else Value(r, "", span) for r in results)
        self._blocks[-1].append(Op(opcode, tuple(operands), values, attributes, tuple(regions), span))
        return values

    def value(self, opcode: str, operands: Sequence[Value], result: Type, span: Span, **attributes: Attribute) -> Value:
        """Append one operation with one result and return it."""
        (result_value,) = self.emit(opcode, operands, [result], span, (), **attributes)
        self.affine.learn(opcode, operands, result_value, attributes)
        return result_value

    # From what a name stands for to a value

    def constant(self, number: Number, dtype: DType, span: Span) -> Value:
        """A literal of `dtype`; refuses one that does not fit."""
        if dtype.is_integer and not isinstance(number, bool):
            low = 0 if dtype.kind == "uint" else -(1 << (dtype.bits - 1))
            high = (1 << (dtype.bits if dtype.kind == "uint" else dtype.bits - 1)) - 1
            if not low <= number <= high:
                hint = f"{dtype} holds {low} to {high}"
                raise LiteralOverflow(f"{number} does not fit {dtype}", span, hint)
        return self.value("const", (), Scalar(dtype), span, value=number)

    def operand(self, binding: object, span: Span) -> Value | Number:
        """A scalar, a tile or a plain number; arrays and regions are read."""
        if isinstance(binding, Undefined):
            raise binding_error(binding, span)
        if isinstance(binding, bool | int | float):
            return binding
        if isinstance(binding, Region):
            return self.load(binding, span)
        if isinstance(binding, SharedHole):
            raise HoleUsed(binding, span)
        if isinstance(binding, Value):
            if isinstance(binding.type, Array | Shared):
                return self.load(self.whole(binding), span)
            return binding
        hint = "use a number, an element or a tile here"
        if is_outside_array(binding):
            hint = "a kernel's arrays are its parameters: pass it as one"
        elif isinstance(binding, str) and binding in _WORDS:
            hint = f"import math before the kernel, and write {_WORDS[binding]}"
        raise NotAValue(f"{describe(binding)} is not a value", span, hint)

    def as_value(self, binding: object, span: Span, dtype: DType | None = None) -> Value:
        """As `operand`, with plain numbers made literals of `dtype` (default: i64, f32 or bool), and cast to it."""
        value = self.operand(binding, span)
        if isinstance(value, Value):
            return value if dtype is None else self.cast(value, dtype, span)
        made = self.constant(value, dtype or default_dtype(value), span)
        if dtype is None:
            self.weak.add(made)
        return made

    def index(self, binding: object, span: Span) -> Value:
        """An integer scalar, as i64."""
        value = self.operand(binding, span)
        if isinstance(value, int) and not isinstance(value, bool):
            return self.constant(value, dtypes.i64, span)
        if isinstance(value, bool | float) or not isinstance(value.type, Scalar) or not value.type.dtype.is_integer:
            raise TypeMismatch(
                f"an index must be an integer, and this is {describe(value)}", span, "convert it with i64(...)"
            )
        return self.cast(value, dtypes.i64, span)

    def fixed(self, binding: object, what: str, span: Span) -> int:
        """An integer known at compile time; an array's extent becomes known by compiling for its value."""
        value = self.operand(binding, span)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, Value):
            symbols, rest = self.affine.constant_part(value)
            if symbols is not None and symbols:
                self.knowledge.fix(symbols[0])
            if symbols is not None:
                return rest
        raise ConstantNeeded(f"{what} must be known when the kernel is compiled", span, "use a number or an extent")

    # Element-wise operations

    def binary(self, opcode: str, a: object, b: object, span: Span) -> Value | Number:
        """`a opcode b` with promotion and broadcasting; numbers fold."""
        left, right = self.operand(a, span), self.operand(b, span)
        if not isinstance(left, Value) and not isinstance(right, Value):
            return fold(opcode, left, right, span)
        dtype, weak = self._meet(left, right)
        dtype = computed_in(dtype)
        if opcode == "div" or (opcode in _FLOAT_ONLY):
            dtype = dtype if dtype.is_float else dtypes.f32
        if opcode in _INTEGER_ONLY and dtype.is_float:
            what = "tile.mulhi needs" if opcode == "mulhi" else "bit operations need"
            raise TypeMismatch(f"{what} integers, not {dtype}", span, "convert with i32(...)")
        if dtype.kind == "bool" and opcode not in ("and", "or", "xor", "min", "max"):
            dtype = dtypes.i64
        x, y = self.broadcast_together(self.as_value(left, span, dtype), self.as_value(right, span, dtype), span)
        result = self.value(opcode, (x, y), x.type, span)
        if weak:
            self.weak.add(result)
        return result

    def compare(self, predicate: str, a: object, b: object, span: Span) -> Value | Number:
        """`a predicate b`, a bool of the common shape."""
        left, right = self.operand(a, span), self.operand(b, span)
        if not isinstance(left, Value) and not isinstance(right, Value):
            return fold_comparison(predicate, left, right)
        dtype = computed_in(self._meet(left, right)[0])
        x, y = self.broadcast_together(self.as_value(left, span, dtype), self.as_value(right, span, dtype), span)
        self.affine.note_comparison(predicate, x, y)
        return self.value("cmp", (x, y), with_dtype(x.type, dtypes.boolean), span, predicate=predicate)

    def unary(self, opcode: str, a: object, span: Span) -> Value | Number:
        """`opcode a`; numbers fold where Python's math has the function."""
        x = self.operand(a, span)
        if not isinstance(x, Value):
            return fold_unary(opcode, x, span)
        dtype = dtype_of_value(x)
        if dtype.is_storage or (opcode in _FLOAT_ONLY and not dtype.is_float):
            x = self.cast(x, dtypes.f32, span)
        if opcode in _KEEPS_INTEGERS and not dtype.is_float:
            return x
        if opcode == "not":
            x = self.truth(x, span)
        elif dtype.kind == "bool":
            x = self.cast(x, dtypes.i64, span)
        result = self.value(opcode, (x,), x.type, span)
        if x in self.weak:
            self.weak.add(result)
        return result

    def truth(self, a: object, span: Span) -> Value:
        """`a != 0` where `a` is not a bool yet."""
        x = self.computable(self.as_value(a, span), span)
        if dtype_of_value(x).kind == "bool":
            return x
        zero = self.like(0, x, span)
        return self.value("cmp", (x, zero), with_dtype(x.type, dtypes.boolean), span, predicate="ne")

    def select(self, condition: object, a: object, b: object, span: Span) -> Value:
        """`a` where `condition`, else `b`, broadcast together."""
        left, right = self.operand(a, span), self.operand(b, span)
        # What is chosen while the kernel runs is no literal any more, though both of the two are.
        dtype, _ = self._meet(left, right)
        x, y = self.broadcast_together(self.as_value(left, span, dtype), self.as_value(right, span, dtype), span)
        test = self.truth(condition, span)
        if isinstance(test.type, Tile):
            test, x = self.broadcast_together(test, x, span)
            y = self.broadcast_to(y, shape_of(x), span)
        return self.value("select", (test, x, y), x.type, span)

    def fma(self, a: object, b: object, c: object, span: Span) -> Value:
        """`a * b + c`, rounded once."""
        dtype = promote(promote(*[dtype_of_value(self.as_value(v, span)) for v in (a, b)]), self._dtype(c, span))
        dtype = computed_in(dtype) if dtype.is_float else dtypes.f32
        x, y = self.broadcast_together(self.as_value(a, span, dtype), self.as_value(b, span, dtype), span)
        x, z = self.broadcast_together(x, self.as_value(c, span, dtype), span)
        y = self.broadcast_to(y, shape_of(x), span)
        return self.value("fma", (x, y, z), x.type, span)

    def cast(self, value: Value, dtype: DType, span: Span) -> Value:
        """Convert to `dtype`; nothing to do when it is already."""
        if dtype_of_value(value) == dtype:
            return value
        return self.value("cast", (value,), with_dtype(value.type, dtype), span)

    def computable(self, value: Value, span: Span) -> Value:
        """`value` in a type that has arithmetic: a float of 8 bits as f32."""
        return self.cast(value, computed_in(dtype_of_value(value)), span)

    def like(self, number: Number, model: Value, span: Span) -> Value:
        """`number` with the dtype and shape of `model`."""
        return self.broadcast_to(self.constant(number, dtype_of_value(model), span), shape_of(model), span)

    # Shapes

    def broadcast_together(self, a: Value, b: Value, span: Span) -> tuple[Value, Value]:
        """Give both NumPy's common shape."""
        if shape_of(a) == shape_of(b):
            return a, b
        shape = broadcast_shape(shape_of(a), shape_of(b), span)
        return self.broadcast_to(a, shape, span), self.broadcast_to(b, shape, span)

    def broadcast_to(self, value: Value, shape: tuple[int, ...], span: Span) -> Value:
        """Repeat `value` to `shape`; refuses what NumPy refuses."""
        have = shape_of(value)
        if have == shape:
            return value
        if not have:
            return self.value("full", (value,), Tile(dtype_of_value(value), shape), span)
        if broadcast_shape(have, shape, span) != shape:
            raise ShapeMismatch(f"{_shape(have)} does not broadcast to {_shape(shape)}", span)
        if len(have) < len(shape):
            value = self.reshape(value, (1,) * (len(shape) - len(have)) + have, span)
        if shape_of(value) == shape:
            return value
        return self.value("broadcast", (value,), Tile(dtype_of_value(value), shape), span)

    def reshape(self, value: Value, shape: tuple[int, ...], span: Span) -> Value:
        """Reshape a tile in row-major order; the caller checked the number of elements."""
        if shape_of(value) == shape:
            return value
        return self.value("reshape", (value,), Tile(dtype_of_value(value), shape), span)

    # Memory

    def whole(self, memory: Value) -> Region:
        """All of an array or buffer; an array's symbolic extents become fixed."""
        shape: list[int] = []
        for extent in memory_type(memory).shape:
            if isinstance(extent, str):
                self.knowledge.fix(extent)
            else:
                shape.append(extent)
        return Region(memory, (0,) * len(shape), tuple(shape), ())

    def load(self, region: Region, span: Span, cache: str = "") -> Value:
        """Read a region: a tile, or an element when every axis is indexed."""
        if region.gathered is not None:
            return self._gather(region, region.gathered, span, cache)
        starts = [self.index(start, span) for start in region.starts]
        dtype = memory_type(region.memory).dtype
        if not region.shape:
            self.affine.note_access(region.memory, starts)
            return self.value("read", (region.memory, *starts), Scalar(dtype), span, cache=cache)
        self.windows.append(region)
        attributes: dict[str, Attribute] = {"extents": region.extents, "dropped": region.dropped, "cache": cache}
        return self.value("load", (region.memory, *starts), Tile(dtype, region.shape), span, **attributes)

    def _gather(self, region: Region, axis: int, span: Span, cache: str) -> Value:
        """Read what a region with a tile of indices has."""
        starts = [s if isinstance(s, Value) and a == axis else self.index(s, span) for a, s in enumerate(region.starts)]
        attributes: dict[str, Attribute] = {"extents": region.extents, "dropped": region.dropped, "cache": cache}
        result = Tile(memory_type(region.memory).dtype, region.shape)
        return self.value("gather", (region.memory, *starts), result, span, **attributes)

    def fill(self, tile: Value, number: object, span: Span) -> Value:
        """`tile`, with a scalar in place of the elements that do not exist."""
        dtype = dtype_of_value(tile)
        operand = self.operand(number, span)
        have = dtype_of_value(operand) if isinstance(operand, Value) else default_dtype(operand)
        if have.is_float and not dtype.is_float:
            raise LossyStore(f"{have} does not go into {dtype} without loss", span, f"convert it: {dtype}(...)")
        value = self.as_value(operand, span, dtype)
        if shape_of(value):
            raise TypeMismatch(
                f"a tile is filled with one number, and this is {describe(value)}", span,
                "write tile.where(tile.valid(x), x, other)",
            )  # fmt: skip
        return self.value("fill", (tile, value), tile.type, span)

    def store(self, region: Region, value: Value, span: Span, cache: str = "") -> None:
        """Write a value of the region's own dtype and shape."""
        starts = [self.index(start, span) for start in region.starts]
        if not region.shape:
            self.affine.note_access(region.memory, starts)
            self.emit("write", (region.memory, value, *starts), (), span, (), cache=cache)
            return
        self.windows.append(region)
        attributes: dict[str, Attribute] = {"extents": region.extents, "dropped": region.dropped, "cache": cache}
        self.emit("store", (region.memory, value, *starts), (), span, (), **attributes)

    def accumulate(self, product: Value, start: Value) -> Value | None:
        """Let the matrix product made just now start from `start`; None where it is none, or their types differ.

        before: ``%p = dot %a, %b``, and `acc += %p`
        after:  ``%p = dot %a, %b, %acc``
        """
        last = self._blocks[-1][-1] if self._blocks[-1] else None
        if last is None or last.results != (product,) or last.opcode != "dot" or len(last.operands) != 2:
            return None
        if start.type != product.type:
            return None
        self._blocks[-1][-1] = replace(last, operands=(*last.operands, start))
        return product

    # Promotion

    def _dtype(self, binding: object, span: Span) -> DType:
        value = self.operand(binding, span)
        return dtype_of_value(value) if isinstance(value, Value) else default_dtype(value)

    def _meet(self, a: Value | Number, b: Value | Number) -> tuple[DType, bool]:
        """The dtype two operands meet in, and whether that is still only a literal's."""
        weak = [not isinstance(v, Value) or v in self.weak for v in (a, b)]
        types = [dtype_of_value(v) if isinstance(v, Value) else default_dtype(v) for v in (a, b)]
        if weak[0] == weak[1]:
            return promote(*types), weak[0]
        literal, strong = (types[0], types[1]) if weak[0] else (types[1], types[0])
        order = {"bool": 0, "uint": 1, "int": 1, "float": 2}
        return (strong if order[strong.kind] >= order[literal.kind] else literal), False


def binding_error(binding: Undefined, span: Span) -> Exception:
    """The error for using a name that some path leaves without a value."""
    return MaybeUndefined(binding.reason, span, "give it a value before the branch or loop")


def default_dtype(number: Number) -> DType:
    """The dtype of a Python number that met nothing else: bool, i64 or f32."""
    if isinstance(number, bool):
        return dtypes.boolean
    return dtypes.i64 if isinstance(number, int) else dtypes.f32


def dtype_of_value(value: Value) -> DType:
    """The element type of a value."""
    return value.type.dtype


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of a scalar, `()`, or a tile."""
    return value.type.shape if isinstance(value.type, Tile) else ()


def memory_type(value: Value) -> Array | Shared:
    """The type of an array or buffer."""
    if not isinstance(value.type, Array | Shared):
        raise NotAValue(f"{describe(value)} is not an array", value.span or NOWHERE)
    return value.type


def with_dtype(type_: Type, dtype: DType) -> Type:
    """A scalar or tile type with another element type."""
    return Tile(dtype, type_.shape) if isinstance(type_, Tile) else Scalar(dtype)


def broadcast_shape(a: tuple[int, ...], b: tuple[int, ...], span: Span) -> tuple[int, ...]:
    """NumPy's common shape of two shapes."""
    rank = max(len(a), len(b))
    padded = [(1,) * (rank - len(s)) + s for s in (a, b)]
    if any(x != y and 1 not in (x, y) for x, y in zip(*padded, strict=True)):
        raise ShapeMismatch(
            f"{_shape(a)} and {_shape(b)} do not broadcast together", span, "extents must be equal, or one of them 1"
        )
    return tuple(y if x == 1 else x for x, y in zip(*padded, strict=True))


def _shape(shape: tuple[int, ...]) -> str:
    return f"a {shape} tile" if shape else "a scalar"
