"""`arith` and `math` operations of Tile IR as CUDA Tile instructions, on scalars and on whole tiles.

Floats round once to nearest even and nothing is contracted; 16-bit floats compute in f32 and round back.  Mathematical
functions are those of the other targets (`vector_math`), made of the same operations in the same order, so that all
targets give the same bits.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from tessera.core.errors.catalog import NotOnCudaTile
from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.cuda_tile.builder import BOOL, TileBuilder
from tessera.lowering.cuda_tile.instructions import AttributeValue, Block, Instruction, TileType, Value
from tessera.lowering.math.vector_math import NAMES, emit_math

Attributes: TypeAlias = Mapping[str, ir.Attribute | str]

_HALVES: Final = ("f16", "bf16")
# What needs no wider type: these move bits, or round once by themselves.
_MOVES: Final = frozenset(("arith.select", "arith.bitcast", "arith.extf", "arith.truncf", "math.fma"))
_FUNCTIONS: Final = {"math.powf": "pow"}
# Of f64 these are CUDA's own, within 2 ulp (CUDA Math API): ours looks numbers up in a table, which no tile has.
_NATIVE: Final = ("sin", "cos")
# Where the user allows it, f32 has instructions: function -> instruction and its attributes.
_APPROXIMATE: Final[dict[str, tuple[str, Mapping[str, AttributeValue]]]] = {
    "exp": ("exp", {"rounding_mode": "approx"}),
    "exp2": ("exp2", {"flush_to_zero": True}),
    "log": ("log", {}),
    "log2": ("log2", {}),
    "tanh": ("tanh", {"rounding_mode": "approx"}),
    "rsqrt": ("rsqrt", {"flush_to_zero": True}),
}
# MLIR's numbers of comparison predicates
_FLOAT_PREDICATES: Final = {
    1: ("equal", "ordered"), 2: ("greater_than", "ordered"), 3: ("greater_than_or_equal", "ordered"),
    4: ("less_than", "ordered"), 5: ("less_than_or_equal", "ordered"), 6: ("not_equal", "ordered"),
    8: ("equal", "unordered"), 9: ("greater_than", "unordered"), 10: ("greater_than_or_equal", "unordered"),
    11: ("less_than", "unordered"), 12: ("less_than_or_equal", "unordered"), 13: ("not_equal", "unordered"),
}  # fmt: skip
_UNORDERED, _ORDERED = 14, 7
_INTEGER_PREDICATES: Final = (
    ("equal", True), ("not_equal", True), ("less_than", True), ("less_than_or_equal", True), ("greater_than", True),
    ("greater_than_or_equal", True), ("less_than", False), ("less_than_or_equal", False), ("greater_than", False),
    ("greater_than_or_equal", False),
)  # fmt: skip
# name -> instruction and its attributes, for operations whose operands and result have one type
_FLOAT: Final = {
    "arith.addf": "addf", "arith.subf": "subf", "arith.mulf": "mulf", "arith.divf": "divf", "math.fma": "fma",
    "math.sqrt": "sqrt",
}  # fmt: skip
_SIGNED, _UNSIGNED = {"signedness": "signed"}, {"signedness": "unsigned"}
_DIRECT: Final[dict[str, tuple[str, Mapping[str, AttributeValue]]]] = {
    "arith.negf": ("negf", {}),
    "arith.remf": ("remf", {}),
    "math.absf": ("absf", {}),
    "math.floor": ("floor", {}),
    "math.ceil": ("ceil", {}),
    "arith.maximumf": ("maxf", {"propagate_nan": True, "flush_to_zero": False}),
    "arith.minimumf": ("minf", {"propagate_nan": True, "flush_to_zero": False}),
    "arith.addi": ("addi", {"overflow": "none"}),
    "arith.subi": ("subi", {"overflow": "none"}),
    "arith.muli": ("muli", {"overflow": "none"}),
    "arith.divsi": ("divi", {**_SIGNED, "rounding": "zero"}),
    "arith.divui": ("divi", {**_UNSIGNED, "rounding": "zero"}),
    "arith.remsi": ("remi", _SIGNED),
    "arith.remui": ("remi", _UNSIGNED),
    "arith.maxsi": ("maxi", _SIGNED),
    "arith.maxui": ("maxi", _UNSIGNED),
    "arith.minsi": ("mini", _SIGNED),
    "arith.minui": ("mini", _UNSIGNED),
    "arith.andi": ("andi", {}),
    "arith.ori": ("ori", {}),
    "arith.xori": ("xori", {}),
    "arith.shli": ("shli", {"overflow": "none"}),
    "arith.shrsi": ("shri", _SIGNED),
    "arith.shrui": ("shri", _UNSIGNED),
}
_ROUNDING_LIMIT: Final = {"f32": 2.0**23, "f64": 2.0**52}
"""From here on every number is an integer."""


def operation(
    build: TileBuilder, name: str, operands: Sequence[Value], result: TileType, attributes: Attributes
) -> Value:
    """Return the value of operation `name` (`arith.addf`).

    Raises:
        NotOnCudaTile: a function CUDA Tile IR has no code for.
    """
    if any(v.element in _HALVES for v in operands) and name not in _MOVES:
        return _wide(build, name, operands, result, attributes)
    if name in _FLOAT:
        return build.float_operation(_FLOAT[name], *operands)
    if name in _DIRECT:
        instruction, fixed = _DIRECT[name]
        return build.value(instruction, operands, operands[0].type, **fixed)
    special = _SPECIAL.get(name)
    if special is not None:
        return special(build, operands, result, attributes)
    function = _FUNCTIONS.get(name, name.partition(".")[2])
    if function in _NATIVE and result.element == "f64":
        return build.value(function, operands, result)
    if build.fast and function in _APPROXIMATE and result.element == "f32":
        instruction, fixed = _APPROXIMATE[function]
        return build.value(instruction, operands, result, **fixed)
    if function in NAMES:
        # It does what an `Emitter` does, and its values are not MLIR's: the functions hand both through.
        emitter = cast("Emitter", OneType(build, operands[0].shape))
        values = cast("Sequence[ir.Value]", operands)
        return cast("Value", emit_math(emitter, function, values, result.element))
    message = f"CUDA Tile IR has no {function} of {result.element}"
    raise NotOnCudaTile(message)


class OneType:
    """Emit the functions of `vector_math` on tiles: their scalar types stand for tiles of one shape.

    It does what an `Emitter` does, and makes CUDA Tile instructions of it.
    """

    def __init__(self, build: TileBuilder, shape: tuple[int, ...]) -> None:
        self._build = build
        self._shape = shape

    def type(self, kind: TileType | str) -> str:
        """Return the element type's text."""
        return kind.element if isinstance(kind, TileType) else kind

    def value(
        self, name: str, operands: Sequence[Value], result: TileType | str, attributes: Attributes | None = None
    ) -> Value:
        """Emit an operation on tiles."""
        kind = TileType(self.type(result), self._shape)
        return operation(self._build, name, operands, kind, attributes or {})

    def constant(self, number: float, kind: TileType | str) -> Value:
        """Return a tile with `number` everywhere."""
        return self._build.constant(number, self.type(kind), self._shape)

    def create(
        self, name: str, operands: Sequence[Value], results: Sequence[TileType | str] = (), *, regions: int = 0
    ) -> "Instruction | _Branch":
        """`scf.if` and `scf.yield`: the first side is taken when the condition holds anywhere in its tile."""
        if name == "scf.yield":
            return self._build.emit("yield", operands)
        blocks = tuple(Block() for _ in range(regions))
        kinds = [TileType(self.type(kind), self._shape) for kind in results]
        made = self._build.emit("if", [_anywhere(self._build, operands[0])], kinds, blocks)
        return _Branch(made.results, tuple(_Region(_RegionBlocks(block)) for block in blocks))

    def at(self, block: Block) -> AbstractContextManager[None]:
        """Emit into a side of a branch."""
        return self._build.at(block)


@dataclass(frozen=True, slots=True)
class _RegionBlocks:
    """The one block of a region, in the form in which MLIR's blocks are made."""

    block: Block

    def append(self) -> Block:
        return self.block


@dataclass(frozen=True, slots=True)
class _Region:
    blocks: _RegionBlocks


@dataclass(frozen=True, slots=True)
class _Branch:
    results: tuple[Value, ...]
    regions: tuple[_Region, ...]


def _anywhere(build: TileBuilder, condition: Value) -> Value:
    """Return whether a condition holds for any element of its tile."""
    count = build.resize(condition, "i32", signed=False)
    for axis in reversed(range(len(count.shape))):
        count = build.reduce(count, axis, "maxi", 0, signedness="signed")
    return build.compare("not_equal", count, build.like(0, count))


def _wide(build: TileBuilder, name: str, operands: Sequence[Value], result: TileType, attributes: Attributes) -> Value:
    """Emit the operation on f32 copies of its 16-bit operands."""
    values = [build.float_to(v, "f32") if v.element in _HALVES else v for v in operands]
    kind = result.of("f32") if result.element in _HALVES else result
    value = operation(build, name, values, kind, attributes)
    return build.float_to(value, result.element) if result.element in _HALVES else value


def predicate_of(attributes: Attributes) -> int:
    """Return the number of a comparison's predicate; the attribute is MLIR's or its text."""
    found = attributes["predicate"]
    return int(found.partition(":")[0]) if isinstance(found, str) else int(ir.IntegerAttr(found).value)


def _compare_floats(build: TileBuilder, operands: Sequence[Value], _: TileType, attributes: Attributes) -> Value:
    a, b = operands
    predicate = predicate_of(attributes)
    if predicate == _UNORDERED:
        return build.bitwise("ori", *(build.compare_floats("not_equal", "unordered", v, v) for v in (a, b)))
    if predicate == _ORDERED:
        return build.bitwise("andi", *(build.compare_floats("equal", "ordered", v, v) for v in (a, b)))
    name, ordering = _FLOAT_PREDICATES[predicate]
    return build.compare_floats(name, ordering, a, b)


def _compare_integers(build: TileBuilder, operands: Sequence[Value], _: TileType, attributes: Attributes) -> Value:
    name, signed = _INTEGER_PREDICATES[predicate_of(attributes)]
    return build.compare(name, operands[0], operands[1], signed=signed)


def _select(build: TileBuilder, operands: Sequence[Value], *_: object) -> Value:
    return build.select(*operands)


def _float_to_float(build: TileBuilder, operands: Sequence[Value], result: TileType, _: Attributes) -> Value:
    value = operands[0]
    if value.element == "f64" and result.element in _HALVES:
        value = _to_odd(build, value)
    return build.float_to(value, result.element)


def _to_odd(build: TileBuilder, value: Value) -> Value:
    """Round an f64 to f32, to odd: rounding the result again is then as good as rounding once."""
    near = build.float_to(value, "f32")
    back = build.float_to(near, "f64")
    magnitudes = [build.value("absf", (v,), v.type) for v in (back, value)]
    beyond = build.compare_floats("greater_than", "ordered", *magnitudes)
    bits = build.bits(near, "i32")
    inward = build.sub(bits, build.resize(beyond, "i32", signed=False))
    odd = build.bitwise("ori", inward, build.like(1, bits))
    inexact = build.compare_floats("not_equal", "ordered", back, value)
    return build.bits(build.select(inexact, odd, bits), "f32")


def _bitcast(build: TileBuilder, operands: Sequence[Value], result: TileType, _: Attributes) -> Value:
    return build.bits(operands[0], result.element)


def _resize(*, signed: bool) -> Callable[..., Value]:
    def emit(build: TileBuilder, operands: Sequence[Value], result: TileType, _: Attributes) -> Value:
        return build.resize(operands[0], result.element, signed=signed)

    return emit


def _truncate(build: TileBuilder, operands: Sequence[Value], result: TileType, _: Attributes) -> Value:
    if result.element != BOOL:
        return build.resize(operands[0], result.element)
    low = build.bitwise("andi", operands[0], build.like(1, operands[0]))
    return build.compare("not_equal", low, build.like(0, low))


def _to_float(*, signed: bool) -> Callable[..., Value]:
    def emit(build: TileBuilder, operands: Sequence[Value], result: TileType, _: Attributes) -> Value:
        value = operands[0]
        if value.element == BOOL:
            value = build.resize(value, "i32", signed=signed)
        signedness = "signed" if signed else "unsigned"
        return build.value("itof", (value,), result, signedness=signedness, rounding_mode="nearest_even")

    return emit


def _to_integer(*, signed: bool) -> Callable[..., Value]:
    def emit(build: TileBuilder, operands: Sequence[Value], result: TileType, _: Attributes) -> Value:
        signedness = "signed" if signed else "unsigned"
        return build.value(
            "ftoi", operands, result, signedness=signedness, rounding_mode="nearest_int_to_zero", saturating=False
        )

    return emit


def _magnitude(build: TileBuilder, operands: Sequence[Value], *_: object) -> Value:
    """|x|; the least number stays what it is, as in every wrapping arithmetic."""
    value = operands[0]
    zero = build.like(0, value)
    return build.select(build.compare("less_than", value, zero), build.sub(zero, value), value)


def _copy_sign(build: TileBuilder, operands: Sequence[Value], *_: object) -> Value:
    magnitude, sign = operands
    bits = f"i{magnitude.element[1:]}"
    top = 1 << (int(bits[1:]) - 1)
    first, second = build.bits(magnitude, bits), build.bits(sign, bits)
    kept = build.bitwise("andi", first, build.like(top - 1, first))
    taken = build.bitwise("andi", second, build.like(-top, second))
    return build.bits(build.bitwise("ori", kept, taken), magnitude.element)


def _round(build: TileBuilder, operands: Sequence[Value], *_: object) -> Value:
    """Return the nearest integer, halves to even: adding 2^23 (2^52) leaves no room for a fraction."""
    value = operands[0]
    magnitude = build.value("absf", (value,), value.type)
    limit = build.like(_ROUNDING_LIMIT[value.element], value)
    rounded = build.float_operation("subf", build.float_operation("addf", magnitude, limit), limit)
    small = build.compare_floats("less_than", "ordered", magnitude, limit)
    return _copy_sign(build, (build.select(small, rounded, magnitude), value))


_SPECIAL: Final[dict[str, Callable[..., Value]]] = {
    "arith.cmpf": _compare_floats,
    "arith.cmpi": _compare_integers,
    "arith.select": _select,
    "arith.extf": _float_to_float,
    "arith.truncf": _float_to_float,
    "arith.bitcast": _bitcast,
    "arith.extsi": _resize(signed=True),
    "arith.extui": _resize(signed=False),
    "arith.trunci": _truncate,
    "arith.sitofp": _to_float(signed=True),
    "arith.uitofp": _to_float(signed=False),
    "arith.fptosi": _to_integer(signed=True),
    "arith.fptoui": _to_integer(signed=False),
    "math.absi": _magnitude,
    "math.copysign": _copy_sign,
    "math.roundeven": _round,
}
