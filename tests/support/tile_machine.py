"""Runs CUDA Tile programs in NumPy, one group after the other, on this process's memory.

What `tileiras` and a GPU would do, as CUDA Tile IR defines it; what it leaves open is chosen by the machine: padding
that nobody may look at is garbage, products of matrices are added up in order.
"""

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import ml_dtypes
import numpy as np

from tessera.core.artifact import Artifact, Binding, Resources, Slot
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64
from tessera.core.program.program import Program
from tessera.core.targets import TARGETS, Target
from tessera.core.tile.dialect import shared_context
from tessera.lowering.base.ir_walk import kernel
from tessera.lowering.base.passes import run_passes
from tessera.lowering.cuda_tile.backend import program_of
from tessera.lowering.cuda_tile.entry_point import EntryFrame
from tessera.lowering.cuda_tile.instructions import Block, Entry, Instruction, TileType, Value, ViewType
from tessera.lowering.driver.pipelines import tile_passes
from tessera.lowering.tile.to_tile import to_tile
from tessera.runtime.binding.grid import Grid, GridRule
from tessera.runtime.binding.signature import Binder
from tessera.runtime.interpret.rounding import Numbers, fma, to_dtype, to_tf32

_DTYPES: dict[str, type[np.generic]] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2, "tf32": np.float32,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Numbers, Numbers], Numbers]] = {
    "equal": np.equal, "not_equal": np.not_equal, "less_than": np.less, "less_than_or_equal": np.less_equal,
    "greater_than": np.greater, "greater_than_or_equal": np.greater_equal,
}  # fmt: skip


def dtype_of(element: str) -> np.dtype[np.generic]:
    return np.dtype(np.int64 if element.startswith("ptr<") else _DTYPES[element])


def pointee(element: str) -> str:
    return element.removeprefix("ptr<").removesuffix(">")


@dataclass(frozen=True)
class View:
    """An array in memory: where it begins, and its extents and strides in elements."""

    base: int
    extents: list[int]
    strides: list[int]


Token: TypeAlias = Literal["token"]
Operand: TypeAlias = Numbers | View | Token
TOKEN: Final[Token] = "token"


class Stop(Exception):
    """A `break` or `continue` on its way to its loop."""

    def __init__(self, kind: str, values: list[Operand]) -> None:
        self.kind, self.values = kind, values


class Machine:
    """Runs groups; `arrays` are all the memory there is."""

    def __init__(self, entry: Entry, arrays: Sequence[Numbers]) -> None:
        self.entry = entry
        self.ranges = [(a.ctypes.data, a.ctypes.data + _span(a)) for a in arrays]
        self.env: dict[Value, Operand] = {}
        self.group = 0

    def run(self, groups: int, parameters: Sequence[Numbers]) -> None:
        for group in range(groups):
            self.group = group
            self.env = {}
            for argument, number in zip(self.entry.body.arguments, parameters, strict=True):
                self.env[argument] = np.asarray(number).astype(dtype_of(argument.element))
            with np.errstate(all="ignore"):
                self.block(self.entry.body)

    def block(self, block: Block) -> list[Operand]:
        for op in block.instructions:
            operands: list[Operand] = [self.env[v] for v in op.operands]
            if op.name in ("yield", "return"):
                return operands
            if op.name in ("break", "continue"):
                raise Stop(op.name, operands)
            run: Callable[..., Operand | tuple[Operand, ...]] | None = getattr(self, f"op_{op.name}", None)
            made = run(op, *operands) if run else self.plain(op, *map(_numbers, operands))
            values = made if isinstance(made, tuple) else (made,)
            for result, found in zip(op.results, values, strict=True):
                value = found
                if isinstance(result.type, TileType):
                    value = np.asarray(found)
                    assert value.shape == result.shape, f"{op.name}: {value.shape} for {result.type}"
                    assert value.dtype == dtype_of(result.element), f"{op.name}: {value.dtype} for {result.type}"
                    assert all(n & (n - 1) == 0 for n in value.shape)
                self.env[result] = value
        return []

    # -- arithmetic --------------------------------------------------------------------------------------------

    def plain(self, op: Instruction, *operands: Numbers) -> Numbers:
        """Operations that NumPy has itself."""
        unsigned = op.attributes.get("signedness") == "unsigned"
        kind = op.results[0].tile_type
        if unsigned and op.name != "cmpi":
            operands = tuple(_unsigned(v) for v in operands)
        result = _PLAIN[op.name](*operands)
        if kind.element in ("f16", "bf16", "f32", "f64"):
            return np.asarray(result).astype(dtype_of(kind.element))
        return np.asarray(result).astype(dtype_of(kind.element), casting="unsafe")

    def op_constant(self, op: Instruction) -> Numbers:
        kind = op.results[0].tile_type
        dtype, number = dtype_of(kind.element), op.number("number")
        if dtype.kind == "i":
            number = ((int(number) + (1 << (8 * dtype.itemsize - 1))) & ((1 << (8 * dtype.itemsize)) - 1)) - (
                1 << (8 * dtype.itemsize - 1)
            )
        return np.full(kind.shape, number, dtype)

    def op_get_tile_block_id(self, op: Instruction) -> tuple[Numbers, ...]:
        return np.asarray(self.group, np.int32), np.asarray(0, np.int32), np.asarray(0, np.int32)

    def op_fma(self, op: Instruction, a: Numbers, b: Numbers, c: Numbers) -> Numbers:
        return fma(a, b, c, _named(op.results[0].element))

    def op_cmpi(self, op: Instruction, a: Numbers, b: Numbers) -> Numbers:
        if op.attributes["signedness"] == "unsigned":
            a, b = _unsigned(a), _unsigned(b)
        return _COMPARE[str(op.attributes["comparison_predicate"])](a, b)

    def op_cmpf(self, op: Instruction, a: Numbers, b: Numbers) -> Numbers:
        nan = np.isnan(a) | np.isnan(b)
        found = _COMPARE[str(op.attributes["comparison_predicate"])](a, b)
        return found | nan if op.attributes["comparison_ordering"] == "unordered" else found & ~nan

    def op_bitcast(self, op: Instruction, a: Numbers) -> Numbers:
        return a.view(dtype_of(op.results[0].element))

    def op_ftof(self, op: Instruction, a: Numbers) -> Numbers:
        if op.results[0].element == "tf32":
            return to_tf32(a)
        wide = a if a.dtype in (np.dtype(np.float32), np.dtype(np.float64)) else a.astype(np.float32)
        return to_dtype(wide, _named(op.results[0].element))

    def op_itof(self, op: Instruction, a: Numbers) -> Numbers:
        a = _unsigned(a) if op.attributes["signedness"] == "unsigned" else a
        return to_dtype(a, _named(op.results[0].element))

    def op_exti(self, op: Instruction, a: Numbers) -> Numbers:
        a = _unsigned(a) if op.attributes["signedness"] == "unsigned" else -a.astype(np.int8) if a.dtype == bool else a
        return a.astype(dtype_of(op.results[0].element))

    def op_ftoi(self, op: Instruction, a: Numbers) -> Numbers:
        dtype = dtype_of(op.results[0].element)
        unsigned = op.attributes["signedness"] == "unsigned"
        return np.trunc(a).astype(f"u{dtype.itemsize}" if unsigned else dtype).astype(dtype)

    def op_assume(self, op: Instruction, value: Numbers) -> Numbers:
        low, high = op.numbers("bounded") if "bounded" in op.attributes else (None, None)
        assert "div_by" not in op.attributes or value % op.number("div_by") == 0
        assert low is None or low <= value
        assert high is None or value <= high
        return value

    # -- shapes ------------------------------------------------------------------------------------------------

    def op_iota(self, op: Instruction) -> Numbers:
        return np.arange(op.results[0].shape[0], dtype=dtype_of(op.results[0].element))

    def op_reshape(self, op: Instruction, a: Numbers) -> Numbers:
        return a.reshape(op.results[0].shape)

    def op_broadcast(self, op: Instruction, a: Numbers) -> Numbers:
        assert len(a.shape) == len(op.results[0].shape)
        return np.broadcast_to(a, op.results[0].shape)

    def op_permute(self, op: Instruction, a: Numbers) -> Numbers:
        return a.transpose([axis for axis in op.numbers("permutation") if axis is not None])

    def op_extract(self, op: Instruction, a: Numbers, *numbers: Numbers) -> Numbers:
        shape = op.results[0].shape
        at = [int(n) * extent for n, extent in zip(numbers, shape, strict=True)]
        assert all(n >= 0 and n + extent <= whole for n, extent, whole in zip(at, shape, a.shape, strict=True))
        return a[tuple(slice(n, n + extent) for n, extent in zip(at, shape, strict=True))]

    def op_reduce(self, op: Instruction, a: Numbers) -> Numbers:
        """From the far end, and beginning with the identity: in no order that a sum may rely on."""
        axis, block = int(op.number("dim")), op.blocks[0]
        total = np.full(op.results[0].shape, op.number("identity")).astype(a.dtype)
        inner = block.instructions[0]
        for number in reversed(range(a.shape[axis])):
            kind = total.dtype
            total = np.asarray(self.plain(inner, np.take(a, number, axis), total)).astype(kind)
        return total

    def op_mmaf(self, op: Instruction, a: Numbers, b: Numbers, c: Numbers) -> Numbers:
        kind, total = _named(op.results[0].element), c
        a, b = a.astype(c.dtype), b.astype(c.dtype)
        for k in range(a.shape[1]):
            total = fma(a[:, k : k + 1], b[k : k + 1, :], total, kind)
        return total

    def op_mmai(self, op: Instruction, a: Numbers, b: Numbers, c: Numbers) -> Numbers:
        if op.attributes["signedness_lhs"] == "unsigned":
            a, b = _unsigned(a), _unsigned(b)
        return a.astype(np.int32) @ b.astype(np.int32) + c

    # -- memory ------------------------------------------------------------------------------------------------

    def op_offset(self, op: Instruction, pointers: Numbers, distance: Numbers) -> Numbers:
        return pointers + distance.astype(np.int64) * dtype_of(pointee(op.results[0].element)).itemsize

    def op_make_token(self, op: Instruction) -> Token:
        return TOKEN

    def op_join_tokens(self, op: Instruction, *tokens: Token) -> Token:
        return TOKEN

    def op_load_ptr_tko(self, op: Instruction, pointers: Numbers, *rest: Operand) -> tuple[Numbers, Token]:
        kind = op.results[0].tile_type
        result = np.zeros(kind.shape, dtype_of(kind.element))
        mask = _mask(op, kind.shape, rest)
        for place in np.ndindex(*kind.shape):
            if mask[place]:
                result[place] = self.peek(int(pointers[place]), result.dtype)
        return result, TOKEN

    def op_store_ptr_tko(self, op: Instruction, pointers: Numbers, value: Numbers, *rest: Operand) -> Token:
        mask = _mask(op, value.shape, rest)
        for place in np.ndindex(*value.shape):
            if mask[place]:
                self.poke(int(pointers[place]), value[place])
        return TOKEN

    def op_make_tensor_view(self, op: Instruction, base: Numbers, *numbers: Numbers) -> View:
        kind, left = op.results[0].view_type, list(numbers)
        extents = [int(left.pop(0)) if n == -1 else n for n in kind.extents]
        strides = [int(left.pop(0)) if n == -1 else n for n in kind.strides]
        return View(int(base), extents, strides)

    def op_make_partition_view(self, op: Instruction, view: View) -> View:
        return view

    def _places(self, kind: ViewType, view: View, operands: Sequence[Operand]) -> Iterator[tuple[tuple[int, ...], int]]:
        base, extents, strides = view.base, view.extents, view.strides
        tile = _tile(kind)
        size = dtype_of(kind.element).itemsize
        at = [int(_numbers(n)) * extent for n, extent in zip(operands[: len(tile)], tile, strict=True)]
        assert all(0 <= n < whole for n, whole in zip(at, extents, strict=True)), "a tile wholly outside the array"
        for place in np.ndindex(*tile):
            index = [a + b for a, b in zip(at, place, strict=True)]
            if all(i < n for i, n in zip(index, extents, strict=True)):
                yield place, base + size * sum(i * s for i, s in zip(index, strides, strict=True))

    def op_load_view_tko(self, op: Instruction, view: View, *operands: Operand) -> tuple[Numbers, Token]:
        kind = op.operands[0].view_type
        result = np.zeros(_tile(kind), dtype_of(kind.element))
        for place, address in self._places(kind, view, operands):
            result[place] = self.peek(address, result.dtype)
        return result, TOKEN

    def op_store_view_tko(self, op: Instruction, value: Numbers, view: View, *operands: Operand) -> Token:
        kind = op.operands[1].view_type
        for place, address in self._places(kind, view, operands):
            self.poke(address, value[place])
        return TOKEN

    def peek(self, address: int, dtype: np.dtype[np.generic]) -> np.generic:
        self.check(address, dtype.itemsize)
        return np.frombuffer(memoryview((ctypes.c_char * dtype.itemsize).from_address(address)), dtype)[0]

    def poke(self, address: int, value: Numbers | np.generic) -> None:
        self.check(address, value.dtype.itemsize)
        memory = memoryview((ctypes.c_char * value.dtype.itemsize).from_address(address))
        np.frombuffer(memory, value.dtype)[...] = value

    def check(self, address: int, size: int) -> None:
        assert any(low <= address and address + size <= high for low, high in self.ranges), "outside every array"

    # -- control flow ------------------------------------------------------------------------------------------

    def op_if(self, op: Instruction, condition: Numbers) -> tuple[Operand, ...]:
        chosen = 0 if condition else 1
        return tuple(self.block(op.blocks[chosen])) if chosen < len(op.blocks) else ()

    def op_for(
        self, op: Instruction, lower: Numbers, upper: Numbers, step: Numbers, *carried: Operand
    ) -> tuple[Operand, ...]:
        (block,), values = op.blocks, list(carried)
        for index in range(int(lower), int(upper), int(step)):
            self.env.update(zip(block.arguments, [np.asarray(index, lower.dtype), *values], strict=True))
            try:
                self.block(block)
            except Stop as stop:
                values = stop.values
        return tuple(values)

    def op_loop(self, op: Instruction, *carried: Operand) -> tuple[Operand, ...]:
        (block,), values = op.blocks, list(carried)
        while True:
            self.env.update(zip(block.arguments, values, strict=True))
            try:
                self.block(block)
            except Stop as stop:
                values = stop.values
                if stop.kind == "break":
                    return tuple(values)


def _maximum(a: Numbers, b: Numbers) -> Numbers:
    """The larger; NaN wins, and -0 is less than +0."""
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b))


def _minimum(a: Numbers, b: Numbers) -> Numbers:
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where((a < b) | ((a == b) & np.signbit(a)), a, b))


def _toward_zero(q: Numbers, r: Numbers, b: Numbers) -> Numbers:
    return np.where(np.asarray((r != 0) & (q < 0)), q + 1, q)


def _divide(a: Numbers, b: Numbers) -> Numbers:
    return _toward_zero(*np.divmod(a, b), b) if a.dtype.kind == "i" else a // b


_PLAIN: dict[str, Callable[..., Numbers]] = {
    "addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "sqrt": np.sqrt, "negf": np.negative,
    "absf": np.abs, "floor": np.floor, "ceil": np.ceil, "remf": np.fmod, "maxf": _maximum, "minf": _minimum,
    "sin": np.sin, "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "tanh": np.tanh,
    "rsqrt": lambda a: 1 / np.sqrt(a), "cos": np.cos, "addi": np.add, "subi": np.subtract, "muli": np.multiply, "maxi": np.maximum, "mini": np.minimum,
    "andi": np.bitwise_and, "ori": np.bitwise_or, "xori": np.bitwise_xor, "shli": np.left_shift,
    "shri": np.right_shift, "select": np.where, "trunci": lambda a: a,
    "divi": _divide,
    "remi": np.fmod,
}  # fmt: skip


def _unsigned(value: Numbers) -> Numbers:
    value = np.asarray(value)
    return value if value.dtype.kind in "bu" else value.view(f"u{value.dtype.itemsize}")


def _numbers(value: Operand) -> Numbers:
    assert isinstance(value, np.ndarray)
    return value


def _mask(op: Instruction, shape: tuple[int, ...], operands: Sequence[Operand]) -> Numbers:
    return _numbers(operands[0]) if op.attributes["masked"] else np.ones(shape, bool)


def _tile(kind: ViewType) -> tuple[int, ...]:
    assert kind.tile is not None
    return kind.tile


def _named(element: str) -> DType:
    return {"f32": f32, "f64": f64, "f16": f16, "bf16": bf16}[element]


def _span(array: Numbers) -> int:
    return array.nbytes if array.flags.c_contiguous else sum(
        (n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) + array.itemsize  # fmt: skip


# -- from a Program to results --------------------------------------------------------------------------------------


def lowered(program: Program) -> tuple[EntryFrame, Entry]:
    """The CUDA Tile program of `program`: what its parameters are, and its code."""
    with shared_context():
        module = to_tile(program)
        run_passes(tile_passes(TARGETS["cuda_tile"]), module, None)
        return program_of(kernel(module), program)


def simulate(program: Program, arguments: Sequence[object], grid: Grid | None = None) -> Entry:
    """Run a Program's CUDA Tile program on `arguments`, in place."""
    frame, entry = lowered(program)
    artifact = _artifact(program, frame)
    binder = Binder(artifact)
    values = binder.check(arguments)
    facts = binder.facts(values)
    assert facts is not None
    shape = GridRule(artifact, binder.symbol).shape(facts, grid)

    def number(slot: Slot) -> Numbers:
        argument = values[slot.parameter]
        match slot.kind:
            case "pointer":
                assert isinstance(argument, np.ndarray)
                return np.asarray(argument.ctypes.data, np.int64)
            case "stride":
                assert isinstance(argument, np.ndarray)
                return np.asarray(argument.strides[slot.axis] // argument.itemsize, np.int64)
            case "scalar":
                return np.asarray(argument, artifact.bindings[slot.parameter].type.dtype.numpy)
            case "symbol":
                index, scale = binder.symbol(slot.symbol)
                return np.asarray(facts[index] * scale, np.int64)
            case _:
                assert slot.kind == "grid"
                return np.asarray(shape.axes[slot.axis], np.int64)

    arrays: list[Numbers] = [v for v in values if isinstance(v, np.ndarray)]
    Machine(entry, arrays).run(shape.units, [number(slot) for slot in frame.slots])
    return entry


def _artifact(program: Program, frame: EntryFrame) -> Artifact:
    bindings = tuple(Binding(p.name, p.value.type, p.mutable, p.span) for p in program.parameters)
    return Artifact(
        key="0" * 40, name=program.name, target=Target("cuda_tile", "sm_90"), code=b"", entry=program.name,
        bindings=bindings, symbols=tuple((s.name, s.parameter, s.axis, s.scale) for s in program.symbols),
        slots=tuple(frame.slots), launch=frame.rule, resources=Resources(), bounded=True, source=program.source,
        span=program.span,
    )  # fmt: skip
