"""Lane values and masks, and how they become vectors of 32.

A value is kept in the cheapest form that says what every lane of a warp holds; it is widened to a vector where an
operation needs one.  Constants are created once, at the top of the entry point.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import LANES
from tessera.lowering.base.emit import Emitter, required


@dataclass(frozen=True, slots=True, eq=False)
class Scalar:
    """All lanes of the warp hold `value`, a target scalar (or the pointer of a memory)."""

    value: ir.Value


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """Lane l holds base + l * stride; `base` is a target integer."""

    base: ir.Value
    stride: int


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """Lane l holds element l of `value`."""

    value: ir.Value


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """A bool: true in the first `count` lanes (`i64` in 0..32), or, when `negated`, in the others.

    `facts` are comparisons (base, bound) that hold in the first `count` lanes: base + l < bound in lane l.  When
    `exact`, those are the lanes in which they all hold.
    """

    count: ir.Value
    negated: bool = False
    facts: frozenset[tuple[ir.Value, ir.Value]] = frozenset()
    exact: bool = True


Lane = Scalar | Linear | Vector | Prefix


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The active lanes: the first `count` (None: all) of those in `vector` (None: all).

    `facts` are comparisons (see `Prefix`) that hold in every active lane; `some` tells that at least one lane is
    active wherever this mask is in force.
    """

    count: ir.Value | None = None
    vector: ir.Value | None = None
    facts: frozenset[tuple[ir.Value, ir.Value]] = frozenset()
    some: bool = True

    @property
    def all(self) -> bool:
        """Return whether every lane is active."""
        return self.count is None and self.vector is None


ALL: Final = Mask()


@dataclass(slots=True)
class Scope:
    """The lane values that are defined where code is being emitted; an inner scope sees the outer ones."""

    outer: "Scope | None" = None
    values: dict[ir.Value, Lane] = field(default_factory=dict[ir.Value, Lane])
    made: dict[Hashable, ir.Value] = field(default_factory=dict[Hashable, ir.Value])

    def find(self, value: ir.Value) -> Lane | None:
        """Return the lane value of a Tile IR value, if it is defined here."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.values.get(value)
            if found is not None:
                return found
            scope = scope.outer
        return None

    def reuse(self, key: Hashable) -> ir.Value | None:
        """Something made before and still in force, or None."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.made.get(key)
            if found is not None:
                return found
            scope = scope.outer
        return None


class Vectors:
    """Emits the small operations that lane code is made of, through `emit`; `scope` is where code is emitted now."""

    def __init__(self, emit: Emitter, entry: ir.Block) -> None:
        self.emit = emit
        self.scope = Scope()
        self._entry = entry
        self._constants: dict[tuple[float | str, str], ir.Value] = {}
        self._texts: dict[ir.Type, str] = {}

    # -- types and constants -----------------------------------------------------------------------------------

    def text(self, kind: ir.Type) -> str:
        """Return the text of an MLIR type, kept."""
        found = self._texts.get(kind)
        if found is None:
            found = self._texts[kind] = str(kind)
        return found

    def wide(self, element: str) -> str:
        """Return the text of the vector type of an element type's text."""
        return f"vector<{LANES}x{element}>" if element != "!llvm.ptr" else f"vector<{LANES}x!llvm.ptr>"

    def constant(self, value: float, kind: str) -> ir.Value:
        """Return a constant (a splat for a vector type), made once at the top of the entry point."""
        return self.at_top((value, kind), lambda: self.emit.constant(value, kind))

    def pattern(self, values: Sequence[int], element: str) -> ir.Value:
        """Return a constant vector of these numbers."""
        numbers = ", ".join(map(str, values))
        kind = f"vector<{len(values)}x{element}>"
        attributes = {"value": f"dense<[{numbers}]> : {kind}"}
        return self.at_top((numbers, kind), lambda: self.emit.value("arith.constant", (), kind, attributes))

    def at_top(self, key: tuple[float | str, str], make: Callable[[], ir.Value]) -> ir.Value:
        """Something that needs no operands, made once (for each `key`) at the top of the entry point."""
        found = self._constants.get(key)
        if found is None:
            before, self.emit.point = self.emit.point, ir.InsertionPoint.at_block_begin(self._entry)
            found = self._constants[key] = make()
            self.emit.point = before
        return found

    # -- operations --------------------------------------------------------------------------------------------

    def op(
        self, name: str, operands: Sequence[ir.Value], kind: str, attributes: dict[str, str] | None = None
    ) -> ir.Value:
        """Create an operation with one result and return that."""
        return self.emit.value(name, operands, kind, attributes)

    def integer(self, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        """`arith.<name>` of two i64 scalars."""
        return self.emit.value(f"arith.{name}", [a, b], "i64")

    def compare(self, predicate: str, a: ir.Value, b: ir.Value, kind: str = "i1") -> ir.Value:
        """`arith.cmpi`; `kind` is the type of the result."""
        return self.emit.value("arith.cmpi", [a, b], kind, {"predicate": f"{PREDICATES[predicate]} : i64"})

    def select(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        """`arith.select`."""
        return self.emit.value("arith.select", [condition, yes, no], yes.type)

    def splat(self, scalar: ir.Value) -> ir.Value:
        """Return a scalar in every lane."""
        key = ("splat", scalar)
        found = self.scope.reuse(key)
        if found is None:
            kind = self.wide(self.text(scalar.type))
            found = self.scope.made[key] = self.emit.value("vector.broadcast", [scalar], kind)
        return found

    def iota(self, element: str, stride: int = 1) -> ir.Value:
        """Return the constant vector 0, stride, 2 * stride, ..."""
        return self.pattern([wrap(lane * stride, element) for lane in range(LANES)], element)

    def vector(self, lane: Lane) -> ir.Value:
        """Return the vector of a lane value."""
        match lane:
            case Vector(value):
                return value
            case Scalar(value):
                return self.splat(value)
            case Linear(base, stride):
                element = self.text(base.type)
                kind = self.wide(element)
                return self.op("arith.addi", [self.splat(base), self.iota(element, stride)], kind)
            case Prefix(count, negated, _):
                return self._below(count, negated=negated)

    def _below(self, count: ir.Value, *, negated: bool = False) -> ir.Value:
        key = ("below", count, negated)
        found = self.scope.reuse(key)
        if found is None:
            narrow = self.op("arith.trunci", [count], "i8")
            operands = self.iota("i8"), self.splat(narrow)
            predicate = "uge" if negated else "ult"
            found = self.compare(predicate, *operands, self.wide("i1"))
            self.scope.made[key] = found
        return found

    # -- masks -------------------------------------------------------------------------------------------------

    def bits(self, mask: Mask) -> ir.Value:
        """Return the mask as a vector of i1."""
        if mask.all:
            return self.constant(1, self.wide("i1"))
        if mask.count is None:
            return required(mask.vector)
        below = self._below(mask.count)
        return below if mask.vector is None else self.op("arith.andi", [below, mask.vector], self.wide("i1"))

    def clamp(self, count: ir.Value) -> ir.Value:
        """`count` brought into 0..32."""
        positive = self.integer("maxsi", count, self.constant(0, "i64"))
        return self.integer("minsi", positive, self.constant(LANES, "i64"))

    def narrow(self, mask: Mask, condition: Lane, *, negated: bool = False) -> Mask:
        """Return the lanes of `mask` in which `condition` holds (does not hold, when `negated`)."""
        if isinstance(condition, Prefix) and condition.negated == negated:
            facts = mask.facts | condition.facts
            if condition.exact and facts == mask.facts:
                return mask
            count = condition.count
            if mask.count is not None:
                count = self.integer("minsi", mask.count, count)
            return Mask(count, mask.vector, facts, some=False)
        if isinstance(condition, Scalar):
            count = self.constant(LANES, "i64") if mask.count is None else mask.count
            none = self.constant(0, "i64")
            count = self.select(condition.value, *((none, count) if negated else (count, none)))
            return Mask(count, mask.vector, mask.facts, some=False)
        if isinstance(condition, Prefix):
            vector = self.vector(Prefix(condition.count, negated=True))
        else:
            vector = self.vector(condition)
            if negated:
                vector = self.op("arith.xori", [vector, self.constant(1, self.wide("i1"))], self.wide("i1"))
        if mask.vector is not None:
            vector = self.op("arith.andi", [mask.vector, vector], self.wide("i1"))
        return Mask(mask.count, vector, mask.facts, some=False)

    def word(self, mask: Mask) -> ir.Value:
        """Return the mask as an i32, lane l in bit l."""
        return self.op("llvm.bitcast", [self.bits(mask)], "i32")

    def some(self, mask: Mask) -> ir.Value:
        """Return whether any lane is active (i1)."""
        if mask.all:
            return self.constant(1, "i1")
        if mask.vector is None:
            return self.compare("sgt", required(mask.count), self.constant(0, "i64"))
        return self.compare("ne", self.word(mask), self.constant(0, "i32"))

    def keep(self, mask: Mask, new: ir.Value, old: ir.Value) -> ir.Value:
        """`new` in active lanes, `old` in the others (vectors)."""
        return new if mask.all else self.select(self.bits(mask), new, old)


PREDICATES: Final = {
    name: n for n, name in enumerate(("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"))
}


def wrap(value: int, element: str) -> int:
    """`value` as the signed number that an integer type holds."""
    bits = int(element[1:])
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) and bits > 1 else value
