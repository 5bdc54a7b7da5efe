"""Tracers: what stands for an array while a graph is captured, with NumPy's interface."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tessera.core.arrays.array_methods import ArrayMethods
from tessera.core.base.dtypes import COMPUTE_TYPES, DType, DTypeLike, boolean, f32, f64, i32, i64, promote
from tessera.core.errors.catalog import CannotTrace, OperandMismatch
from tessera.core.graph.expr import Argument, Expr, Number, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Value
from tessera.graphs.operands.host_number import HostNumber, NeedsNumber, is_host_number
from tessera.graphs.operands.indexing import linear_index, listed_indices, require_integers, subscript_of
from tessera.graphs.operands.numbers import constant_of, holds_outside, is_outside, literal, require_dtype
from tessera.graphs.operands.updates import AbstractArray
from tessera.graphs.operands.weak import dtype_of_meeting, made_weak, weakly
from tessera.graphs.shapes import axes_of, flat, matmul_labels, summed, working
from tessera.graphs.trace import Trace, is_operand, trace_of
from tessera.runtime.arrays.host import plain

_FLOAT_ONLY: Final = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf")
_NUMBERS: Final[tuple[type, ...]] = (bool, int, float, np.generic)
_LISTED: Final = 64
"""Integers of a list that become part of the program; longer lists are captured arrays."""
_BITWISE: Final = ("and", "or", "xor", "shl", "shr")


class Tracer(ArrayMethods, AbstractArray):
    """A value of a graph that is being captured.

    Arithmetic, comparisons, `@`, slices and the methods below add to the graph.  What needs the numbers themselves
    (`if x > 0`, `float(x)`, NumPy functions) raises CannotTrace, with what to write instead.
    """

    closes_over = ()  # a tracer kept in a closure is not an array operand

    def __init__(self, trace: Trace, value: Value) -> None:
        self.trace, self.value = trace, value
        self.weak: Callable[[DType], Any] | None = None  # the type of the protocol's attribute
        """Computes a value that is made of Python numbers alone in another float dtype; see `operands.weak`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.value.type.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.value.type.dtype

    def __repr__(self) -> str:
        return f"<traced {self.value.name or 'value'}: {self.value.type}>"

    # Moving elements

    @weakly
    def reshape(self, *shape: int | Sequence[int]) -> "Tracer":
        """Return the same elements in row-major order in another shape; -1 stands for what is left."""
        wanted = flat(shape)
        if wanted.count(-1) == 1:
            rest = math.prod(extent for extent in wanted if extent != -1)
            wanted[wanted.index(-1)] = self.size // rest if rest else 0
        if any(extent < 0 for extent in wanted) or math.prod(wanted) != self.size:
            raise OperandMismatch(f"{self.size} elements of {self.shape} do not fill {tuple(wanted)}")
        return self.of(self.trace.builder.reshape(self.value, wanted))

    @weakly
    def transpose(self, *axes: int | Sequence[int]) -> "Tracer":
        """Permute the axes; without arguments, reverse them."""
        order = [axis + self.ndim if axis < 0 else axis for axis in flat(axes)] if axes else range(self.ndim)[::-1]
        if sorted(order) != list(range(self.ndim)):
            raise OperandMismatch(f"{flat(axes)} is no order of the axes of {self.shape}")
        return self.of(self.trace.builder.transpose(self.value, order))

    def astype(self, dtype: DTypeLike) -> "Tracer":
        """Convert to another element type: a DType, its name, or a dtype of NumPy or PyTorch."""
        target = require_dtype(dtype)
        if self.weak is not None and target == f64:
            return self.weak(f64)
        return self.of(self.trace.builder.cast(self.value, target))

    @weakly
    def __getitem__(self, index: object) -> "Tracer":
        subscript = subscript_of(index, self.shape)
        view = self.of(self.trace.builder.view(self.value, subscript.view))
        if not subscript.arrays:
            return view
        view = as_tracer(view)  # of a capture around this one, by indices of this one
        picked = [
            _picked(each, view.shape[axis], view.trace)
            for axis, each in zip(subscript.axes, subscript.arrays, strict=True)
        ]
        return gather_several(view, picked, subscript.axes, first=subscript.first)

    # What updates are made of

    def updated_with(self, new: object) -> "Tracer":
        """Return what is written into this value, in its dtype.  Raises OperandMismatch for floats into integers."""
        number = plain(new)
        if is_host_number(number) and self.dtype.is_float:
            return number_tracer(number, self.dtype, self.trace)
        if isinstance(number, bool | int | float):
            if isinstance(number, float) and not self.dtype.is_float:
                raise OperandMismatch(f"{number} is written into {self.dtype}", hint="convert x with .astype")
            literal(number, self.dtype)  # refuses what the dtype does not hold
            number = float(number) if self.dtype.is_float else number
            return self.of(self.trace.builder.full(number, self.dtype, ()))
        elements = as_tracer(new, self.trace)
        if elements.dtype.is_float and not self.dtype.is_float:
            raise OperandMismatch(
                f"{elements.dtype} is written into {self.dtype}", hint="convert one of them with .astype"
            )
        return elements.astype(self.dtype)

    def index_values(self, entry: object, size: int) -> "Tracer":
        """Return an entry of a subscript as integers of an axis."""
        return _picked(entry, size, self.trace)

    def iota(self, extent: int) -> "Tracer":
        """Return 0, 1, 2, ... as i64."""
        return self.of(self.trace.builder.iota(extent))

    def chosen(self, condition: object, left: object, right: object) -> "Tracer":
        """Return one of two, element by element."""
        return select(condition, left, right)

    def picked(self, index: object, axis: int) -> "Tracer":
        """Return the elements at indices along an axis, 0 for -1."""
        return self.of(self.trace.builder.gather(self.value, self.lift(index).value, axis))

    def summed_at(self, index: object, extent: int, axis: int) -> "Tracer":
        """Return the sums of the elements that belong to each index along an axis, in f32 for floats of 16 bits."""
        wide = self.astype(working(self.dtype))
        return self.of(self.trace.builder.scatter_add(self.lift(index).value, wide.value, extent, axis))

    def of(self, value: Value) -> "Tracer":
        """Return the tracer of another value of the same graph."""
        return Tracer(self.trace, value)

    def lift(self, other: object) -> "Tracer":
        """Return what stands for an array in this graph: a tracer of it, or a captured array.  Raises CannotTrace."""
        return as_tracer(other, self.trace)

    def binary(self, opcode: str, left: object, right: object) -> "Tracer":
        """Apply an operation of two operands."""
        return binary(opcode, left, right)

    def compare(self, predicate: str, other: object) -> "Tracer":
        """Compare element by element."""
        return compare(predicate, self, other)

    def unary(self, opcode: str) -> "Tracer":
        """Apply an operation of one operand."""
        return unary(opcode, self)

    def __matmul__(self, other: object) -> "Tracer":
        return matmul(self, other)

    def __rmatmul__(self, other: object) -> "Tracer":
        return matmul(other, self)

    @weakly
    def reduced(self, reduction: str, axis: int | Sequence[int] | None, *, keepdims: bool) -> "Tracer":
        """Return the sum, the greatest ("max"), the least ("min") or the mean along axes."""
        if reduction == "mean":
            return mean(self, axis, keepdims=keepdims)
        return reduce(reduction, self, axis, keepdims=keepdims)


def as_tracer(value: object, trace: Trace | None = None) -> Tracer:
    """Return what stands for an array in the graph that is being captured.

    Arrays other than arguments become captured inputs, and so do values of an enclosing capture;
    a number becomes a constant: NumPy's keep their dtype, Python's are i64 or f32, as literals on their own are.
    Raises CannotTrace for a value of a graph that is not being captured any more.
    """
    trace = trace or trace_of()
    if isinstance(value, Tracer):
        if value.trace is trace:
            return value
        if value.trace.encloses(trace):
            inner = Tracer(trace, trace.capture(value, value.value.type))
            inner.weak = value.weak  # it is computed where it is used
            return inner
        raise CannotTrace(
            f"{value!r} belongs to a graph that is not being captured any more",
            hint="return values from the function instead of keeping them in variables outside of it",
        )
    if is_host_number(value):
        if value.class_ is int:
            raise NeedsNumber("an integer on its own is part of the program")
        alone = number_tracer(value, f32, trace)
        alone.weak = lambda dtype: number_tracer(value, dtype)
        return alone
    if issubclass(type(value), _NUMBERS):
        number, dtype = constant_of(value)
        return Tracer(trace, trace.builder.full(number, dtype, ()))
    if not is_operand(value):
        raise OperandMismatch(f"{value!r} is no array", hint="pass an array of NumPy, PyTorch, CuPy or JAX")
    if (turned := trace.turned(value)) is not None:
        return Tracer(trace, trace.builder.transpose(trace.capture(turned), (1, 0)))
    return Tracer(trace, trace.capture(value))


def number_tracer(number: HostNumber, dtype: DType, trace: Trace | None = None) -> Tracer:
    """Return the input without axes that stands for a number of the host in a float dtype."""
    trace = trace or trace_of()
    outermost = trace.outermost
    return as_tracer(Tracer(outermost, outermost.number(number, dtype)), trace)


def indices(value: object, trace: Trace | None = None, extent: int | None = None, lowest: int = 0) -> Tracer:
    """Return which of `extent` elements to pick, from `lowest` on.  Raises OperandMismatch for other than integers."""
    given = as_tracer(value, trace)
    require_integers(given.dtype)
    if extent is not None:
        given.trace.picks(given.value, lowest, extent)
    return given


def gather(values: Tracer, picked: object, axis: int) -> Tracer:
    """Pick elements along an axis; negative indices count from its end, and those outside give 0."""
    index, extent = _picked(picked, values.shape[axis], values.trace), values.shape[axis]
    if index.dtype.kind == "int":
        index = index.astype(i64) if is_outside(extent, index.dtype) else index
        index = select(index < 0, index + extent, index)
    return values.of(values.trace.builder.gather(values.value, index.value, axis))


def gather_several(values: Tracer, picked: Sequence[Tracer], axes: Sequence[int], *, first: bool = False) -> Tracer:
    """Pick elements at indices of several axes, broadcast together; out-of-range indices give 0.

    first: whether the axes of the indices come first in the result, else in the place of the first of `axes`
    """
    others = [axis for axis in range(values.ndim) if axis not in axes]
    first_axis = 0 if first else axes[0]
    if len(axes) == 1:
        gathered = gather(values, picked[0], axes[0])
        moved = list(range(axes[0], axes[0] + picked[0].ndim))
        return gathered.transpose(*moved, *(n for n in range(gathered.ndim) if n not in moved)) if first else gathered
    arranged = values.transpose(*others[:first_axis], *axes, *others[first_axis:])
    sizes = [values.shape[axis] for axis in axes]
    merged = arranged.reshape(*arranged.shape[:first_axis], math.prod(sizes), *arranged.shape[first_axis + len(axes) :])
    number = linear_index([each.astype(i64) for each in picked], sizes)
    return merged.of(merged.trace.builder.gather(merged.value, number.value, first_axis))


def _picked(entry: object, size: int, trace: Trace) -> Tracer:
    """Return an index array, or a list of integers, as a value of the graph."""
    listed = listed_indices(entry, size)
    if listed is None:
        return indices(entry, trace, size, -size)
    if len(listed.numbers) > _LISTED:
        return as_tracer(np.asarray(listed.numbers).reshape(listed.shape), trace)
    position = Tracer(trace, trace.builder.iota(len(listed.numbers)))
    index = position * 0
    for number, value in enumerate(listed.numbers):
        index = index if value == 0 else select(position == number, value, index)
    return index.reshape(*listed.shape)


def binary(opcode: str, left: object, right: object) -> Tracer:
    """Apply an operation of two operands; Python numbers take the dtype of what they meet."""
    if opcode == "div":
        x, y, dtype = _met(left, right, floating=True)
    else:
        x, y, dtype = _met(left, right)
    if opcode in _BITWISE and dtype.is_float:
        raise OperandMismatch(f"bit operations need integers, not {dtype}", hint="convert with .astype('i32')")
    if dtype == boolean and opcode not in ("and", "or", "xor", "min", "max"):
        dtype = i64

    def body(a: Expr, b: Expr) -> Expr:
        return cast_expr(apply(opcode, a, b), dtype)

    result = _elementwise(body, (x, y), (working(dtype),) * 2)
    return made_weak(result, (left, right), lambda wide: binary(opcode, in_dtype(left, wide), in_dtype(right, wide)))


def compare(predicate: str, left: object, right: object) -> Tracer:
    """Compare element by element; a number that an integer dtype does not hold compares by its value."""
    x, y, dtype = _met(left, right)
    if is_outside(x, dtype) or is_outside(y, dtype):
        same = "eq" if holds_outside(predicate, x, y) else "ne"
        array = x if isinstance(x, Tracer) else y

        def always(a: Expr) -> Expr:
            return apply("cmp", a, a, predicate=same)

        return _elementwise(always, (array,), (working(dtype),))

    def body(a: Expr, b: Expr) -> Expr:
        return apply("cmp", a, b, predicate=predicate)

    return _elementwise(body, (x, y), (working(dtype),) * 2)


def select(condition: object, left: object, right: object) -> Tracer:
    """Return `left` where `condition`, else `right`, broadcast together."""
    test = as_tracer(condition, trace_of(condition, left, right))
    x, y, dtype = _met(left, right, test.trace)

    def body(c: Expr, a: Expr, b: Expr) -> Expr:
        return apply("select", c, a, b)

    result = _elementwise(body, (test, x, y), (boolean, dtype, dtype))
    return made_weak(result, (left, right), lambda wide: select(condition, in_dtype(left, wide), in_dtype(right, wide)))


def unary(opcode: str, operand: object) -> Tracer:
    """Apply an operation of one operand; integers become f32 where the operation has no meaning for them."""
    x = as_tracer(operand)
    dtype = x.dtype if x.dtype.is_float or opcode not in _FLOAT_ONLY else f32
    if opcode == "not":
        dtype = dtype if dtype.is_integer else boolean
    elif dtype == boolean:
        dtype = i64

    def body(a: Expr) -> Expr:
        return cast_expr(apply(opcode, a), dtype)

    result = _elementwise(body, (x,), (working(dtype),))
    return made_weak(result, (operand,), lambda wide: unary(opcode, in_dtype(operand, wide)))


def in_dtype(operand: object, dtype: DType) -> Tracer:
    """Return a Python number, or a weak value, in a float dtype; see `operands.weak`."""
    if isinstance(operand, Tracer) and operand.weak is not None:
        return operand.weak(dtype)
    if is_host_number(operand):
        return number_tracer(operand, dtype)
    trace, number = trace_of(), plain(operand)
    assert isinstance(number, bool | int | float)
    return Tracer(trace, trace.builder.full(float(literal(number, dtype).value), dtype, ()))


def apply_expr(body: Expr, operands: Sequence[Tracer]) -> Tracer:
    """Apply an expression of the operands' elements, broadcast together."""
    trace = operands[0].trace
    return Tracer(trace, trace.builder.elementwise(body, [operand.value for operand in operands]))


def reduce(kind: str, operand: Tracer, axis: int | Sequence[int] | None, *, keepdims: bool = False) -> Tracer:
    """Reduce along axes; floats of 16 bits are summed in f32 and rounded once, integers in 64 bits."""
    axes, builder = axes_of(operand.ndim, axis), operand.trace.builder
    dtype = summed(operand.dtype) if kind == "sum" else operand.dtype
    wide = builder.cast(operand.value, working(dtype))
    made = builder.cast(builder.reduce(wide, axes, kind), dtype)
    if keepdims:
        kept = [1 if n in axes else extent for n, extent in enumerate(operand.shape)]
        made = builder.reshape(made, kept)
    return operand.of(made)


def mean(operand: Tracer, axis: int | Sequence[int] | None, *, keepdims: bool = False) -> Tracer:
    """Return the mean along axes: the sum times the reciprocal of the count, rounded once."""
    axes = axes_of(operand.ndim, axis)
    dtype = operand.dtype if operand.dtype.is_float else f32
    count = math.prod(operand.shape[n] for n in axes)
    total = reduce("sum", operand.astype(working(dtype)), axis, keepdims=keepdims)
    return (total * (1.0 / count if count else math.nan)).astype(dtype)


def matmul(a: object, b: object, *, tile_shape: tuple[int, ...] = (), exact: bool = False, compute: str = "") -> Tracer:
    """Return the matrix product of the last two axes, broadcast over the others; see `op.matmul`."""
    trace = trace_of(a, b)
    x, y = as_tracer(a, trace), as_tracer(b, trace)
    if tile_shape and (len(tile_shape) != 3 or min(tile_shape) < 1):
        raise OperandMismatch(
            f"tile_shape={tile_shape} is not three extents", hint="give (BM, BN, BK), e.g. (64, 64, 32)"
        )
    product = matmul_labels(x.shape, y.shape)
    first, second = (
        each.reshape(*(each.shape[axis] for axis in kept)) for each, kept in zip((x, y), product.kept, strict=True)
    )
    return contraction(
        first, second, product.labels, product.result, tile_shape=tile_shape, exact=exact, compute=compute
    )


def contraction(
    x: Tracer, y: Tracer, labels: Sequence[Sequence[int]], result: Sequence[int], *, tile_shape: tuple[int, ...] = (),
    exact: bool = False, compute: str = "", dtype: DType | None = None,
) -> Tracer:  # fmt: skip
    """Contract two values in the dtype in which they meet, and round the sums to it, or to `dtype`.

    Of bools it says whether any product holds, as NumPy's products do.  Raises OperandMismatch for a compute type of
    other operands.
    """
    if compute and compute not in COMPUTE_TYPES:
        raise OperandMismatch(f"there is no compute type {compute!r}", hint=f"choose from {', '.join(COMPUTE_TYPES)}")
    met = promote(x.dtype, y.dtype)
    builder = x.trace.builder
    if compute and COMPUTE_TYPES[compute].operand_dtype != met:
        raise OperandMismatch(
            f"compute={compute} rounds factors of {COMPUTE_TYPES[compute].operand_dtype}, and these are {met}",
            hint=f"leave it out: {met} is multiplied as it is",
        )
    if met == boolean:
        counts = contraction(x.astype(i32), y.astype(i32), labels, result, tile_shape=tile_shape, exact=exact)
        return compare("ne", counts, 0)
    made = builder.contract(
        x.astype(met).value, y.astype(met).value, labels, result, exact=exact, tile_shape=tile_shape,
        compute=compute,
    )  # fmt: skip
    return x.of(builder.cast(made, dtype or met))


def _met(
    left: object, right: object, trace: Trace | None = None, *, floating: bool = False
) -> "tuple[Tracer | Number, Tracer | Number, DType]":
    """Return two operands, Python numbers as they are, and the dtype in which they meet."""
    sides = [_side(side, trace or trace_of()) for side in (left, right)]
    if not any(isinstance(side, Tracer) for side in sides) and trace is None:  # two numbers
        sides[0] = as_tracer(left)
    dtype = dtype_of_meeting(sides, floating=floating)
    if not dtype.is_float and any(map(is_host_number, sides)):
        raise NeedsNumber("integers take a number only where they hold it")
    if dtype == f64:
        sides = [side.weak(f64) if isinstance(side, Tracer) and side.weak else side for side in sides]
    return sides[0], sides[1], dtype


def _side(value: object, trace: Trace | None) -> "Tracer | Number":
    value = plain(value)
    return value if isinstance(value, bool | int | float) else as_tracer(value, trace)


def _elementwise(body: Callable[..., Expr], operands: "Sequence[Tracer | Number]", dtypes: Sequence[DType]) -> Tracer:
    """Apply `body` to the operands' elements, each converted to its dtype first; numbers are part of the body."""
    arrays: list[Tracer] = []
    exprs: list[Expr] = []
    for operand, dtype in zip(operands, dtypes, strict=True):
        each = number_tracer(operand, dtype) if is_host_number(operand) else operand
        if not isinstance(each, Tracer):
            exprs.append(literal(each, dtype))
            continue
        known = [n for n, array in enumerate(arrays) if array.value is each.value]  # x * x has one operand
        if not known:
            arrays.append(each)
        exprs.append(cast_expr(Argument(known[0] if known else len(arrays) - 1, each.dtype), dtype))
    try:
        return apply_expr(body(*exprs), arrays)
    except ValueError as wrong:
        shapes = " and ".join(str(array.shape) for array in arrays)
        raise OperandMismatch(f"{shapes} do not broadcast together", hint="insert axes with x[:, None]") from wrong
