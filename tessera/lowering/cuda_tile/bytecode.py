"""A CUDA Tile program as bytecode, written by the library of the package cuda-tile (`cuda.tile._bytecode`).

That module has one function an operation, which takes the result types, the operands and the attributes in the order
of CUDA Tile IR's definition; the tables below say which function and which attributes.
"""

import importlib
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import PurePath
from typing import Any, Final, TypeAlias, cast

from tessera.core.base.source import Source, Span
from tessera.core.errors.catalog import CompilerCrash, ToolMissing
from tessera.core.mlir import ir
from tessera.core.tile.location import spans
from tessera.lowering.cuda_tile.instructions import (
    NOT_STATIC,
    Block,
    Entry,
    Instruction,
    TileType,
    TokenType,
    Value,
    ValueType,
    ViewType,
)

PACKAGE: Final = "cuda-tile"
SERIES: Final = "1."
"""Versions of the package whose writer we know begin so."""
VERSION: Final = "V_13_3"
"""The version of the bytecode: read by every `tileiras` from 13.3 on."""

# Operations whose encoder takes (result type, operands..., attributes...): the function's name where it differs from
# the operation's, and attributes that are always the same.
_NAMES: Final = {
    "absf": "AbsF", "absi": "AbsI", "addf": "AddF", "addi": "AddI", "andi": "AndI", "bitcast": "Bitcast",
    "broadcast": "Broadcast", "ceil": "Ceil", "cmpf": "CmpF", "cmpi": "CmpI", "cos": "Cos", "divf": "DivF",
    "divi": "DivI", "exp": "Exp", "exp2": "Exp2", "exti": "ExtI", "floor": "Floor", "fma": "Fma", "ftof": "FToF",
    "ftoi": "FToI", "iota": "Iota", "log": "Log", "log2": "Log2", "rsqrt": "Rsqrt", "tanh": "TanH",
    "itof": "IToF", "make_partition_view": "MakePartitionView", "make_token": "MakeToken", "maxf": "MaxF",
    "maxi": "MaxI", "minf": "MinF", "mini": "MinI", "mmaf": "MmaF", "mmai": "MmaI", "mulf": "MulF", "muli": "MulI",
    "negf": "NegF", "offset": "Offset", "ori": "OrI", "permute": "Permute", "remf": "RemF", "remi": "RemI",
    "reshape": "Reshape", "select": "Select", "shli": "ShLI", "shri": "ShRI", "sin": "Sin", "sqrt": "Sqrt",
    "subf": "SubF", "subi": "SubI", "trunci": "TruncI", "xori": "XOrI",
}  # fmt: skip
# attribute -> the enumeration it belongs to
_ENUMERATIONS: Final = {
    "rounding_mode": "RoundingMode",
    "rounding": "RoundingMode",
    "overflow": "IntegerOverflow",
    "signedness": "Signedness",
    "signedness_lhs": "Signedness",
    "signedness_rhs": "Signedness",
    "comparison_predicate": "ComparisonPredicate",
    "comparison_ordering": "ComparisonOrdering",
}
_SIMPLE: Final = {
    "i1": "I1", "i8": "I8", "i16": "I16", "i32": "I32", "i64": "I64", "f16": "F16", "bf16": "BF16", "f32": "F32",
    "f64": "F64", "tf32": "TF32", "f8E4M3FN": "F8E4M3FN", "f8E5M2": "F8E5M2",
}  # fmt: skip
_FORMATS: Final = {"f64": "<d", "f32": "<f", "f16": "<e"}
_BYTES_OF_A_FLOAT: Final = 4


Coded: TypeAlias = Any  # what the library makes and takes, which ships no types


@cache
def library() -> Coded:
    """Import the bytecode writer.

    Raises:
        ToolMissing: cuda-tile is not installed, or is one whose writer we do not know.
    """
    hint = f"pip install '{PACKAGE}==1.7.0'"
    try:
        version = metadata.version(PACKAGE)
        module = importlib.import_module("cuda.tile._bytecode")
    except ImportError as error:  # includes PackageNotFoundError
        message = f"the package {PACKAGE}, which writes CUDA Tile bytecode, is not installed"
        raise ToolMissing(message, hint=hint) from error
    if not version.startswith(SERIES) or not hasattr(module.BytecodeVersion, VERSION):
        message = f"the package {PACKAGE} {version} writes another bytecode than ours"
        raise ToolMissing(message, hint=hint)
    return module


@dataclass(frozen=True, slots=True)
class Hints:
    """Hints for `tileiras`, which decides by itself what is None.

    warps: how many warps of a group compute, 4 or 8
    blocks: thread blocks that work on one group together, as a cluster
    resident: groups that a processor should have room for at a time
    """

    warps: int | None = None
    blocks: int | None = None
    resident: int | None = None


def encode(entry: Entry, source: Source, span: Span, hints: Hints | None = None) -> bytes:
    """Return the bytecode of a kernel; `span` is where the user wrote it, in `source`.

    Raises:
        ToolMissing: see `library`.
    """
    bc = library()
    buffer = bytearray()
    with bc.write_bytecode(1, buffer, getattr(bc.BytecodeVersion, VERSION)) as writer:
        places = _Places(writer.debug_attr_table, entry.name, source, span)
        types = _Types(bc, writer.type_table)
        parameters = [types.of(v.type) for v in entry.body.arguments]
        given = {}
        if hints is not None:
            given["default"] = bc.EntryHints(
                num_cta_in_cga=hints.blocks, occupancy=hints.resident, num_worker_warps_per_cta=hints.warps
            )
        with writer.function(entry.name, parameters, [], True, given, places.of(entry.location)) as (code, values):
            encoder = _Encoder(bc, types, places, code)
            encoder.values.update(zip(entry.body.arguments, values, strict=True))
            encoder.block(entry.body)
    return bytes(buffer)


class _Types:
    """The numbers of types in the bytecode's table."""

    def __init__(self, bc: Coded, table: Coded) -> None:
        self._bc = bc
        self.table = table

    def of(self, kind: ValueType) -> Coded:
        table = self.table
        match kind:
            case TileType(element, shape):
                return table.tile(self.element(element), shape)
            case ViewType(element, extents, strides, tile):
                missing = self._bc.PtrAttr.Missing
                numbers = [
                    [self._bc.DYNAMIC_SHAPE if n == NOT_STATIC else n for n in row] for row in (extents, strides)
                ]
                view = table.tensor_view(self.element(element), *numbers, missing)
                axes = range(len(extents))
                return view if tile is None else table.partition_view(tile, view, axes, self._bc.PaddingValue.Zero)
            case TokenType():
                return table.Token
            case _:
                message = f"no CUDA Tile type for {kind}"
                raise CompilerCrash(message)

    def element(self, name: str) -> Coded:
        if name.startswith("ptr<"):
            return self.table.pointer(self.element(name[4:-1]), self._bc.PtrAttr.Missing)
        return self.table.simple(getattr(self._bc.SimpleType, _SIMPLE[name]))


class _Places:
    """Debug attributes: the places of the user's text."""

    def __init__(self, table: Coded, name: str, source: Source, span: Span) -> None:
        self._table = table
        path = PurePath(span.file or source.name)
        self._file = str(path)
        file = table.file(path.name, str(path.parent))
        unit = table.compile_unit(file)
        self._scope = table.subprogram(file, max(1, span.line), name, name, unit, max(1, span.line))
        self._missing = table.loc(self._scope, self._file, max(1, span.line), max(1, span.column))

    def of(self, location: ir.Location) -> Coded:
        found = next(iter(spans(location)), None)
        if found is None:
            return self._missing
        return self._table.loc(self._scope, found.file, found.line, found.column)


class _Encoder:
    """Encodes blocks; `values` says which number each value has."""

    def __init__(self, bc: Coded, types: _Types, places: _Places, code: Coded) -> None:
        self.bc = bc
        self.types = types
        self.places = places
        self.code = code
        self.values: dict[Value, Coded] = {}

    def block(self, block: Block) -> None:
        for instruction in block.instructions:
            with self.code.debug_attr(self.places.of(instruction.location)):
                made = self.instruction(instruction)
            if len(instruction.results) == 1 and not isinstance(made, tuple):
                self.values[instruction.results[0]] = made
            else:
                for result, value in zip(instruction.results, cast("Sequence[Coded]", made or ()), strict=True):
                    self.values[result] = value

    def instruction(self, op: Instruction) -> Coded:
        special = _SPECIAL.get(op.name)
        if special is not None:
            return special(self, op)
        encoder = getattr(self.bc, f"encode_{_NAMES[op.name]}Op")
        kinds = [self.types.of(v.type) for v in op.results]
        return encoder(self.code, *kinds, *self.operands(op), **self.attributes(op.attributes))

    def operands(self, op: Instruction) -> list[Coded]:
        return [self.values[v] for v in op.operands]

    def attributes(self, attributes: Mapping[str, object]) -> dict[str, Coded]:
        result: dict[str, Coded] = {}
        for name, value in attributes.items():
            enumeration = _ENUMERATIONS.get(name)
            result[name] = value if enumeration is None else self.member(enumeration, value)
        return result

    def member(self, enumeration: str, name: object) -> Coded:
        """Return the member of an enumeration of CUDA Tile IR by its name in small letters."""
        return next(m for m in getattr(self.bc, enumeration) if m.name.lower().rstrip("_") == name)

    # -- operations of another form ----------------------------------------------------------------------------

    def constant(self, op: Instruction) -> Coded:
        kind = op.results[0].tile_type
        data = _constant_bytes(self.bc, op.number("number"), kind.element)
        return self.bc.encode_ConstantOp(self.code, self.types.of(kind), data)

    def assume(self, op: Instruction) -> Coded:
        divisor = op.attributes.get("div_by")
        predicate = self.bc.Bounded(*op.numbers("bounded")) if divisor is None else self.bc.DivBy(divisor)
        return self.bc.encode_AssumeOp(self.code, self.types.of(op.results[0].type), *self.operands(op), predicate)

    def block_id(self, op: Instruction) -> Coded:
        return self.bc.encode_GetTileBlockIdOp(self.code, *[self.types.of(v.type) for v in op.results])

    def extract(self, op: Instruction) -> Coded:
        source, *indices = self.operands(op)
        return self.bc.encode_ExtractOp(self.code, self.types.of(op.results[0].type), source, indices)

    def terminator(self, op: Instruction) -> Coded:
        names = {"yield": "Yield", "continue": "Continue", "break": "Break", "return": "Return"}
        return getattr(self.bc, f"encode_{names[op.name]}Op")(self.code, self.operands(op))

    def join(self, op: Instruction) -> Coded:
        return self.bc.encode_JoinTokensOp(self.code, self.types.of(op.results[0].type), self.operands(op))

    def tensor_view(self, op: Instruction) -> Coded:
        base, *numbers = self.operands(op)
        extents = int(op.number("extents"))
        kind = self.types.of(op.results[0].type)
        return self.bc.encode_MakeTensorViewOp(self.code, kind, base, numbers[:extents], numbers[extents:])

    def memory(self, op: Instruction) -> dict[str, Coded]:
        """Return the arguments of all accesses: no order but that of tokens."""
        del op
        weak = self.bc.MemoryOrderingSemantics.WEAK
        return {"memory_ordering_semantics": weak, "memory_scope": None, "optimization_hints": None}

    def load(self, op: Instruction) -> Coded:
        pointers, *rest = self.operands(op)
        token = rest.pop() if op.attributes["ordered"] else None
        mask, padding = rest if op.attributes["masked"] else (None, None)
        kinds = [self.types.of(v.type) for v in op.results]
        return self.bc.encode_LoadPtrTkoOp(self.code, *kinds, pointers, mask, padding, token, **self.memory(op))

    def store(self, op: Instruction) -> Coded:
        pointers, value, *rest = self.operands(op)
        token = rest.pop() if op.attributes["ordered"] else None
        mask = rest.pop() if op.attributes["masked"] else None
        kind = self.types.of(op.results[0].type)
        return self.bc.encode_StorePtrTkoOp(self.code, kind, pointers, value, mask, token, **self.memory(op))

    def load_view(self, op: Instruction) -> Coded:
        view, *numbers = self.operands(op)
        token = numbers.pop() if op.attributes["ordered"] else None
        kinds = [self.types.of(v.type) for v in op.results]
        return self.bc.encode_LoadViewTkoOp(self.code, *kinds, view, numbers, token, inbounds=(), **self.memory(op))

    def store_view(self, op: Instruction) -> Coded:
        value, view, *numbers = self.operands(op)
        token = numbers.pop() if op.attributes["ordered"] else None
        kind = self.types.of(op.results[0].type)
        return self.bc.encode_StoreViewTkoOp(
            self.code, kind, value, view, numbers, token, inbounds=(), **self.memory(op)
        )

    def reduce(self, op: Instruction) -> Coded:
        kind = op.operands[0].tile_type
        identity = _identity(self.bc, self.types, op.number("identity"), kind.element)
        results = [self.types.of(v.type) for v in op.results]
        nested = self.bc.encode_ReduceOp(self.code, results, self.operands(op), op.attributes["dim"], [identity])
        return self.nested(nested, op)

    def loop(self, op: Instruction) -> Coded:
        results = [self.types.of(v.type) for v in op.results]
        operands = self.operands(op)
        if op.name == "for":
            nested = self.bc.encode_ForOp(self.code, results, *operands[:3], operands[3:], False)
        else:
            nested = self.bc.encode_LoopOp(self.code, results, operands)
        return self.nested(nested, op)

    def branch(self, op: Instruction) -> Coded:
        results = [self.types.of(v.type) for v in op.results]
        return self.nested(self.bc.encode_IfOp(self.code, results, *self.operands(op)), op)

    def nested(self, nested: Coded, op: Instruction) -> Coded:
        for block in op.blocks:
            with nested.new_block([self.types.of(v.type) for v in block.arguments]) as arguments:
                self.values.update(zip(block.arguments, arguments, strict=True))
                self.block(block)
        return nested.done()


def _constant_bytes(bc: Coded, number: float, element: str) -> bytes:
    """Return one element, as in MLIR's splat: a true boolean is 0xFF."""
    if element == "i1":
        return b"\xff" if number else b"\x00"
    if element.startswith("i"):
        bits = int(element[1:])
        return (int(number) & ((1 << bits) - 1)).to_bytes(bits // 8, "little")
    if element in _FORMATS:
        return struct.pack(_FORMATS[element], number)
    simple = getattr(bc.SimpleType, _SIMPLE[element])
    return bc.float_to_bits(number, simple).to_bytes((bc.float_bit_size(simple) + 7) // 8, "little")


def _identity(bc: Coded, types: _Types, number: float, element: str) -> Coded:
    if element.startswith("i"):
        return bc.Integer(types.element(element), int(element[1:]), int(number))
    return bc.Float(number, getattr(bc.SimpleType, _SIMPLE[element]), types.table)


_SPECIAL: Final[dict[str, Callable[[_Encoder, Instruction], Coded]]] = {
    "constant": _Encoder.constant,
    "assume": _Encoder.assume,
    "get_tile_block_id": _Encoder.block_id,
    "extract": _Encoder.extract,
    "join_tokens": _Encoder.join,
    "make_tensor_view": _Encoder.tensor_view,
    "load_ptr_tko": _Encoder.load,
    "store_ptr_tko": _Encoder.store,
    "load_view_tko": _Encoder.load_view,
    "store_view_tko": _Encoder.store_view,
    "reduce": _Encoder.reduce,
    "for": _Encoder.loop,
    "loop": _Encoder.loop,
    "if": _Encoder.branch,
    **dict.fromkeys(("yield", "continue", "break", "return"), _Encoder.terminator),
}
