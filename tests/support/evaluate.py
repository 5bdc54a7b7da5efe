"""Run Tile IR with NumPy, one operation at a time: slow, obvious, and strict about everything that must not happen.

A division by zero, a shift by the width or more, a conversion out of range, an access outside an array that claims
`in_bounds`: all raise `Trap`.  Kernels with barriers between lanes are beyond it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import ml_dtypes
import numpy as np

from tessera.core.base.reductions import tree_sum
from tessera.core.mlir import ir
from tessera.core.program.expressions import Expression, evaluate
from tessera.lowering.base.attributes import RANGES, from_attribute, number_of
from tessera.lowering.base.ir_walk import kernel

DTYPES: dict[str, Any] = {
    "f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip


Number = Any
"""A scalar or an array of NumPy's of any dtype, which only the operation at hand knows."""
Scalar = type[Any]
"""The class of NumPy's scalars of one dtype."""


Function = Callable[..., Number]


class Trap(Exception):
    """Something happened that compiled code must never do."""


def run(module: ir.Module, symbols: dict[str, int], *arguments: Number, lanes: int = 1) -> None:
    """Run every group of the kernel on `arguments` (arrays are written in place), `lanes` lanes one by one.

    The last group runs first: groups that depend on each other's order give another result.
    """
    function = kernel(module)
    groups = 1
    if RANGES in function.attributes:
        ranges = cast("tuple[tuple[Expression, int], ...]", from_attribute(function.attributes[RANGES]))
        for extent, step in ranges:
            groups *= max(0, -(-evaluate(extent, symbols.__getitem__) // step))
    for group in reversed(range(groups)):
        for lane in range(lanes):
            _Machine(symbols, group, lane).function(function, arguments)


@dataclass
class _Machine:
    symbols: dict[str, int]
    group: int
    lane: int
    values: dict[ir.Value, Number] = field(default_factory=dict[ir.Value, Number])

    def function(self, function: ir.Operation, arguments: Sequence[Number]) -> None:
        block = function.regions[0].blocks[0]
        for formal, actual in zip(block.arguments, arguments, strict=True):
            if np.isscalar(actual) or actual.ndim == 0:
                self.values[formal] = DTYPES[str(formal.type)](actual)
            else:  # MLIR's integers have no sign, and a bool in memory is a byte
                integers = str(ir.MemRefType(formal.type).element_type).startswith(
                    "i"
                )  # floats of 8 bits may have become bytes
                self.values[formal] = actual.view(f"i{actual.itemsize}") if integers else actual
        self.block(block)

    def block(self, block: ir.Block) -> list[Number]:
        """Run a block; gives what its terminator hands on."""
        for view in block.operations:
            op = view.operation
            operands = [self.values[v] for v in op.operands]
            if op.name in ("scf.yield", "scf.condition", "func.return"):
                return operands
            with np.errstate(all="ignore"):
                results = self.operation(op, operands)
            self.values.update(zip(op.results, results, strict=True))
        return []

    def operation(self, op: ir.Operation, operands: list[Number]) -> list[Number]:
        dialect, _, name = op.name.partition(".")
        if dialect == "scf":
            return getattr(self, f"scf_{name}")(op, operands)
        if dialect == "tessera":
            found = getattr(self, f"tile_{name}")(op, operands)
            return [] if found is None else [found]
        dtype, shape = _result(op.results[0].type)
        if op.name == "tensor.splat":
            return [np.full(shape, operands[0], dtype)]
        if op.name == "arith.constant":
            return [_constant(op.attributes["value"], dtype, shape)]
        if name.startswith("cmp"):
            return [_compare(op, *operands)]
        if name == "select" and not isinstance(op.results[0].type, ir.RankedTensorType):
            return [operands[1] if operands[0] else operands[2]]
        value = _FUNCTIONS[name](*operands, dtype) if name in _CONVERSIONS else _FUNCTIONS[name](*operands)
        return [np.asarray(value).astype(dtype) if shape else dtype(value)]

    # -- control flow ------------------------------------------------------------------------------------------

    def scf_for(self, op: ir.Operation, operands: list[Number]) -> list[Number]:
        lower, upper, step, *carried = operands
        if step <= 0:
            raise Trap("a loop's step must be positive")
        block = op.regions[0].blocks[0]
        for index in range(lower, upper, step):
            self.values.update(zip(block.arguments, [np.int64(index), *carried], strict=True))
            carried = self.block(block)
        return carried

    def scf_if(self, op: ir.Operation, operands: list[Number]) -> list[Number]:
        region = op.regions[0 if operands[0] else 1]
        return self.block(region.blocks[0]) if len(region.blocks) else []

    def scf_while(self, op: ir.Operation, operands: list[Number]) -> list[Number]:
        before, after = (region.blocks[0] for region in op.regions)
        while True:
            self.values.update(zip(before.arguments, operands, strict=True))
            condition, *operands = self.block(before)
            if not condition:
                return operands
            self.values.update(zip(after.arguments, operands, strict=True))
            operands = self.block(after)

    # -- the dialect -------------------------------------------------------------------------------------------

    def tile_id(self, op: ir.Operation, _: list[Number]) -> Number:
        of = str(from_attribute(op.attributes["of"]))
        return np.int64({"group": self.group, "thread": self.lane, "lane": self.lane}[of])

    def tile_dim(self, op: ir.Operation, _: list[Number]) -> Number:
        return np.int64(self.symbols[str(from_attribute(op.attributes["symbol"]))])

    def tile_alloc(self, op: ir.Operation, _: list[Number]) -> Number:
        kind = ir.MemRefType(op.results[0].type)
        return np.zeros(kind.shape, DTYPES[str(kind.element_type)])

    def tile_barrier(self, op: ir.Operation, _: list[Number]) -> None:
        return None

    def tile_read(self, op: ir.Operation, operands: list[Number]) -> Number:
        memory, *index = operands
        dtype = DTYPES[str(op.results[0].type)]
        return dtype(memory[tuple(index)]) if _inside(op, memory, index, [1] * len(index)) else dtype(0)

    def tile_write(self, op: ir.Operation, operands: list[Number]) -> None:
        memory, value, *index = operands
        if _inside(op, memory, index, [1] * len(index)):
            memory[tuple(index)] = value

    def tile_load(self, op: ir.Operation, operands: list[Number]) -> Number:
        dtype, shape = _result(op.results[0].type)
        return _window(op, operands[0], operands[1:]).astype(dtype).reshape(shape)

    def tile_store(self, op: ir.Operation, operands: list[Number]) -> None:
        memory, value, *starts = operands
        extents = _integers(op, "extents")
        _inside(op, memory, starts, extents)
        block = value.reshape(extents)
        there: list[slice] = []
        here: list[slice] = []
        for start, extent, whole in zip(starts, extents, memory.shape, strict=True):
            low, high = max(start, 0), max(min(start + extent, whole), start, 0)
            there.append(slice(low, high))
            here.append(slice(low - start, high - start))
        memory[tuple(there)] = block[tuple(here)]

    def tile_copy(self, op: ir.Operation, operands: list[Number]) -> None:
        buffer, memory, *starts = operands
        buffer[...] = _window(op, memory, starts).reshape(buffer.shape)

    def tile_arange(self, op: ir.Operation, operands: list[Number]) -> Number:
        return operands[0] + np.arange(_result(op.results[0].type)[1][0], dtype=np.int64)

    def tile_broadcast(self, op: ir.Operation, operands: list[Number]) -> Number:
        return np.broadcast_to(operands[0], _result(op.results[0].type)[1]).copy()

    def tile_reshape(self, op: ir.Operation, operands: list[Number]) -> Number:
        return operands[0].reshape(_result(op.results[0].type)[1])

    def tile_transpose(self, op: ir.Operation, operands: list[Number]) -> Number:
        return operands[0].transpose(_integers(op, "permutation"))

    def tile_reduce(self, op: ir.Operation, operands: list[Number]) -> Number:
        tile = operands[0]
        axis = int(number_of(op.attributes["axis"])) if "axis" in op.attributes else None
        if axis is None:
            tile, axis = tile.reshape(-1), 0
        kind = from_attribute(op.attributes["kind"])
        if kind != "sum":
            return (np.max if kind == "max" else np.min)(tile, axis=axis)
        wide = tile.astype(np.float32) if tile.dtype.itemsize == 2 and tile.dtype.kind != "i" else tile
        return tree_sum(wide, axis).astype(tile.dtype)

    def tile_softmax(self, op: ir.Operation, operands: list[Number]) -> Number:
        tile, axis = operands[0], int(number_of(op.attributes["axis"]))
        e = np.exp(tile - tile.max(axis, keepdims=True))
        return e * (1 / np.expand_dims(tree_sum(e, axis), axis)).astype(e.dtype)

    def tile_dot(self, op: ir.Operation, operands: list[Number]) -> Number:
        a, b = (v.astype(np.float64) for v in operands[:2])
        product = a @ b + (operands[2] if len(operands) > 2 else 0)
        return product.astype(_result(op.results[0].type)[0])


def _result(kind: ir.Type) -> tuple[Scalar, tuple[int, ...]]:
    """The NumPy dtype of a scalar or tile type, and a tile's shape."""
    if isinstance(kind, ir.RankedTensorType):
        return DTYPES[str(kind.element_type)], tuple(kind.shape)
    return DTYPES.get(str(kind), type(None)), ()


def _constant(attribute: ir.Attribute, dtype: Scalar, shape: tuple[int, ...]) -> Number:
    if isinstance(attribute, ir.DenseElementsAttr):
        return np.full(shape, number_of(attribute.get_splat_value()), dtype)
    return dtype(number_of(attribute))


def _integers(op: ir.Operation, name: str) -> list[int]:
    values = op.attributes[name]
    assert isinstance(values, ir.DenseI64ArrayAttr | ir.DenseBoolArrayAttr)
    return [int(value) for value in values]


def _window(op: ir.Operation, memory: np.ndarray, starts: Sequence[int]) -> np.ndarray:
    extents = _integers(op, "extents")
    _inside(op, memory, starts, extents)
    index = np.ix_(*(np.arange(s, s + e) for s, e in zip(starts, extents, strict=True)))
    valid = np.ones(extents, bool)
    for positions, whole in zip(index, memory.shape, strict=True):
        valid = valid & (positions >= 0) & (positions < whole)
    safe = tuple(np.clip(p, 0, max(w - 1, 0)) for p, w in zip(index, memory.shape, strict=True))
    if prod(memory.shape) == 0:
        return np.zeros(extents, memory.dtype)
    return np.where(valid, memory[safe], np.zeros((), memory.dtype))


def _inside(op: ir.Operation, memory: np.ndarray, starts: Sequence[int], extents: Sequence[int]) -> bool:
    inside = [s >= 0 and s + e <= w for s, e, w in zip(starts, extents, memory.shape, strict=True)]
    for axis, claimed in enumerate(_integers(op, "in_bounds")):
        if claimed and not inside[axis]:
            raise Trap(f"axis {axis} of {op} is not in bounds")
    return all(inside)


def _never(_: Number, __: Number) -> Number:
    return np.False_


def _compare(op: ir.Operation, a: Number, b: Number) -> Number:
    predicate = int(number_of(op.attributes["predicate"]))
    if op.name == "arith.cmpf":
        ordered: tuple[Function, ...] = (
            _never,
            np.equal,
            np.greater,
            np.greater_equal,
            np.less,
            np.less_equal,
        )
        if predicate == 13:
            return np.not_equal(a, b)
        return ordered[predicate](a, b)
    if predicate >= 6:
        a, b = _unsigned(a), _unsigned(b)
    functions = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
    return functions[predicate if predicate < 6 else predicate - 4](a, b)


def _unsigned(a: Number) -> Number:
    a = np.asarray(a)
    return a if a.dtype.kind == "b" else a.view(f"u{a.dtype.itemsize}")


def _signed(a: Number) -> Number:
    a = np.asarray(a)
    return a if a.dtype.kind == "b" else a.view(f"i{a.dtype.itemsize}")


def _divisor(a: Number, b: Number, signed: bool = True) -> None:
    if np.any(np.asarray(b) == 0):
        raise Trap("division by zero")
    smallest = np.iinfo(np.asarray(b).dtype).min
    if signed and np.any((np.asarray(a) == smallest) & (np.asarray(b) == -1)):
        raise Trap("quotient does not fit")


def _divsi(a: Number, b: Number) -> Number:
    _divisor(a, b)
    magnitude = np.abs(_unsigned_magnitude(a)) // np.abs(_unsigned_magnitude(b))
    sign = np.where((np.asarray(a) < 0) != (np.asarray(b) < 0), -1, 1)
    return (magnitude * sign).astype(np.asarray(a).dtype)


def _unsigned_magnitude(a: Number) -> Number:
    return np.asarray(a).astype(object)


def _remsi(a: Number, b: Number) -> Number:
    _divisor(a, b)
    return np.asarray(a) - _divsi(a, b) * np.asarray(b)


def _unsigned_op(function: Function) -> Function:
    def apply(a: Number, b: Number) -> Number:
        _divisor(a, b, signed=False)
        return _signed(function(_unsigned(a), _unsigned(b)))

    return apply


def _shift(function: Function) -> Function:
    def apply(a: Number, b: Number) -> Number:
        bits = np.asarray(a).dtype.itemsize * 8
        if np.any(_unsigned(b) >= bits):
            raise Trap("shift by the width or more")
        return function(a, b)

    return apply


def _to_integer(*, signed: bool) -> Function:
    def apply(a: Number, dtype: Scalar) -> Number:
        info = np.iinfo(dtype if signed else f"u{np.dtype(dtype).itemsize}")
        whole = np.trunc(np.asarray(a, np.float64))
        if not np.all((whole >= info.min) & (whole <= info.max)):
            raise Trap("conversion out of range")
        return _signed(whole.astype(info.dtype))

    return apply


def _fma(a: Number, b: Number, c: Number) -> Number:
    return np.asarray(a).dtype.type(np.longdouble(a) * np.longdouble(b) + np.longdouble(c))


_CONVERSIONS = ("fptosi", "fptoui", "extsi", "extui", "trunci", "sitofp", "uitofp", "extf", "truncf", "bitcast")
_FUNCTIONS: dict[str, Function] = {
    "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "remf": np.fmod, "negf": np.negative,
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "divsi": _divsi, "remsi": _remsi,
    "divui": _unsigned_op(np.floor_divide), "remui": _unsigned_op(np.remainder),
    "minimumf": np.minimum, "maximumf": np.maximum, "minsi": np.minimum, "maxsi": np.maximum,
    "minui": lambda a, b: _signed(np.minimum(_unsigned(a), _unsigned(b))),
    "maxui": lambda a, b: _signed(np.maximum(_unsigned(a), _unsigned(b))),
    "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor,
    "shli": _shift(np.left_shift), "shrsi": _shift(np.right_shift),
    "shrui": _shift(lambda a, b: _signed(np.right_shift(_unsigned(a), _unsigned(b)))),
    "select": np.where,
    "fptosi": _to_integer(signed=True), "fptoui": _to_integer(signed=False),
    "extsi": lambda a, t: np.asarray(a).astype(t), "trunci": lambda a, t: np.asarray(a).astype(t),
    "bitcast": lambda a, t: np.asarray(a).view(t),
    "extui": lambda a, t: _unsigned(a).astype(t), "sitofp": lambda a, t: np.asarray(a).astype(t),
    "uitofp": lambda a, t: _unsigned(a).astype(t), "extf": lambda a, t: np.asarray(a).astype(t),
    "truncf": lambda a, t: np.asarray(a).astype(t),
    "absf": np.abs, "absi": np.abs, "copysign": np.copysign, "fma": _fma, "powf": np.power,
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a),
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip
