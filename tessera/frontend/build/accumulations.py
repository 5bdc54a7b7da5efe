"""Find what a loop over tiles adds up in one place: `out[0] += ...`, `dw[:] += ...`, `out[0] = max(out[0], ...)`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.base.dtypes import DType, f32
from tessera.core.program.dependences import Dependences, MemoryAccess, accesses, accesses_of
from tessera.core.program.expressions import Expression, make, trips
from tessera.core.program.linear import Bounds
from tessera.core.program.program import Block, Op, Value
from tessera.core.program.types import Array, Scalar, Tile, Type

_KINDS: Final = {"add": "sum", "max": "max", "min": "min"}
_LARGEST: Final = 1 << 16
"""Elements of a place: a workspace holds 128 times as many for each block of trips."""
_MOST_LOOPS: Final = 3


@dataclass(frozen=True, slots=True, eq=False)
class Accumulation:
    """One sum: `read` of the place, `add` of the value `term`, `write` of the result.

    ops: these, and the conversions between them
    """

    read: Op
    add: Op
    write: Op
    term: Value
    ops: tuple[Op, ...]

    @property
    def kind(self) -> str:
        """The kind of reduction: "sum", "max" or "min"."""
        return _KINDS[self.add.opcode]

    @property
    def type(self) -> Scalar | Tile:
        """Return what is in the place."""
        found = self.read.result.type
        assert isinstance(found, Scalar | Tile)
        return found

    @property
    def partial(self) -> DType:
        """Return what partial results are kept in: short floats in f32, which is rounded once at the end."""
        dtype = self.add.result.type.dtype
        return f32 if dtype.is_float and dtype.bits < f32.bits else dtype

    @property
    def elements(self) -> int | None:
        """Elements of a tile; None for a scalar."""
        if isinstance(self.type, Scalar):
            return None
        count = 1
        for extent in self.type.shape:
            count *= extent
        return count


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A loop whose trips add into places: the loops of the nest, outer first, with their bounds and steps.

    outside: what computes where the places are, though it stands in the loop
    """

    loops: tuple[Op, ...]
    lowers: tuple[int, ...]
    lengths: tuple[Expression, ...]
    steps: tuple[int, ...]
    accumulations: tuple[Accumulation, ...]
    outside: tuple[Op, ...]

    @property
    def trips(self) -> Expression:
        """Trips of all loops together."""
        found: Expression = 1
        for length, step in zip(self.lengths, self.steps, strict=True):
            found = make("mul", found, count(length, step))
        return found


def count(length: Expression, step: int) -> Expression:
    """Trips of one loop."""
    return trips(length, step)


# -- what can be turned ------------------------------------------------------------------------------------------------


def plan_of(loop: Op, dependences: Dependences) -> Plan | None:
    """Return what becomes of `loop`; None where it stays as it is."""
    if dependences.of(loop) is None and loop.attributes.get("parallel") is None:
        return None  # independent trips add into no common place
    loops = _nest(loop, dependences)
    if not loops:
        return None
    accumulations = _find_accumulations(
        loops[-1], Bounds(loop, dependences.definitions), dependences.definitions.makers
    )
    if not accumulations:
        return None
    own = frozenset(op for one in accumulations for op in one.ops)
    touched = {access.memory for op in own for access in accesses_of(op)}
    rest = [access for access in accesses(loop.regions[0]) if access.op not in own]
    if any(access.memory in touched for access in rest) or not _are_disjoint(accumulations, dependences):
        return None
    if any(dependences.without(one, own) is not None for one in loops):
        return None
    lengths = [dependences.length(one) for one in loops]
    steps = [dependences.definitions.constant(one.operands[2]) for one in loops]
    known = tuple(length for length in lengths if length is not None)
    if len(known) < len(loops):
        return None
    places = _places(accumulations, loop)
    if places is None:
        return None
    lowers = tuple(dependences.definitions.constant(one.operands[0]) or 0 for one in loops)
    return Plan(tuple(loops), lowers, known, tuple(s or 1 for s in steps), tuple(accumulations), places)


def _nest(loop: Op, dependences: Dependences) -> list[Op]:
    """The tile loops that are perfectly nested from `loop` on, none of whose bounds depends on another's index."""
    found: list[Op] = []
    inner: Op | None = loop
    while inner is not None and len(found) < _MOST_LOOPS and _counts(inner, dependences):
        found.append(inner)
        inner = _only_loop(inner.regions[0])
    return found


def _counts(loop: Op, dependences: Dependences) -> bool:
    asked = loop.attributes.get("parallel") is False
    lower = dependences.definitions.constant(loop.operands[0])
    tile = loop.attributes.get("kind") == "tile" and not loop.results and not asked
    return tile and lower is not None and dependences.length(loop) is not None


def _only_loop(block: Block) -> Op | None:
    effects = [op for op in block.ops if op.regions or accesses_of(op) or op.opcode in ("alloc", "barrier")]
    return effects[0] if len(effects) == 1 and effects[0].opcode == "for" else None


def _find_accumulations(loop: Op, bounds: Bounds, makers: Mapping[Value, Op]) -> list[Accumulation]:
    """Return what the loop adds to a place that no trip moves, done once a trip, and read for nothing else."""
    block = loop.regions[0]
    uses: dict[Value, int] = {}
    for op in block.walk():
        for value in op.operands:
            uses[value] = uses.get(value, 0) + 1
    found: list[Accumulation] = []
    for write in block.ops:
        one = _sum(write, makers, uses)
        if one is not None and not any(map(bounds.varies, one.write.operands[2:])):
            found.append(one)
    return found


def _sum(write: Op, makers: Mapping[Value, Op], uses: Mapping[Value, int]) -> Accumulation | None:
    if write.opcode not in ("write", "store") or not isinstance(write.operands[0].type, Array):
        return None
    add, after = _unconverted(write.operands[1], makers, uses)
    if add is None or add.opcode not in _KINDS or uses[add.result] != 1:
        return None
    for operand, term in zip(add.operands, reversed(add.operands), strict=True):
        read, before = _unconverted(operand, makers, uses)
        if read is None or read.opcode not in ("read", "load") or uses[operand] != 1 or term is operand:
            continue
        small = _elements(read.result.type) <= _LARGEST and read.result.type.dtype.kind != "bool"
        if small and read.operands[0] is write.operands[0] and _same_places(read, write, makers):
            return Accumulation(read, add, write, term, (read, *before, add, *after, write))
    return None


def _unconverted(
    value: Value, makers: Mapping[Value, Op], uses: Mapping[Value, int]
) -> tuple[Op | None, tuple[Op, ...]]:
    """Return what makes `value`, and the conversion behind that, if there is one that nothing else uses."""
    op = makers.get(value)
    if op is None or op.opcode != "cast" or uses[value] != 1 or uses[op.operands[0]] != 1:
        return op, ()
    return makers.get(op.operands[0]), (op,)


def _same_places(read: Op, write: Op, makers: Mapping[Value, Op]) -> bool:
    same = all(_same(a, b, makers) for a, b in zip(read.operands[1:], write.operands[2:], strict=True))
    shapes = [tuple(op.attributes.get(name) for name in ("extents", "dropped")) for op in (read, write)]
    return same and shapes[0] == shapes[1]


def _same(a: Value, b: Value, makers: Mapping[Value, Op]) -> bool:
    """Return whether two starts are one value, or made in the same way of the same values."""
    if a is b:
        return True
    first, second = makers.get(a), makers.get(b)
    if first is None or second is None or first.opcode != second.opcode or accesses_of(first) or first.regions:
        return False
    pairs = zip(first.operands, second.operands, strict=True)
    return dict(first.attributes) == dict(second.attributes) and all(_same(x, y, makers) for x, y in pairs)


def _elements(kind: Type) -> int:
    count = 1
    for extent in kind.shape if isinstance(kind, Tile) else ():
        count *= extent
    return count


def _are_disjoint(accumulations: Sequence[Accumulation], dependences: Dependences) -> bool:
    """Return whether no two sums go into places of one array that may overlap."""
    for number, one in enumerate(accumulations):
        (a,) = accesses_of(one.write)
        for other in accumulations[:number]:
            (b,) = accesses_of(other.write)
            if a.memory is b.memory and not _separate(a, b, dependences):
                return False
    return True


def _separate(a: MemoryAccess, b: MemoryAccess, dependences: Dependences) -> bool:
    for x, y, n, m in zip(a.starts, b.starts, a.extents, b.extents, strict=True):
        first, second = dependences.definitions.constant(x), dependences.definitions.constant(y)
        if first is not None and second is not None and (first + n <= second or second + m <= first):
            return True
    return False


def _places(accumulations: Sequence[Accumulation], loop: Op) -> tuple[Op, ...] | None:
    """The operations in the loop that compute where the places are; None where that takes more than arithmetic."""
    inside = {result: op for op in loop.regions[0].walk() for result in op.results}
    found: dict[Op, None] = {}
    pending = [value for one in accumulations for value in one.write.operands[2:]]
    while pending:
        op = inside.get(pending.pop())
        if op is None:
            continue
        if op.regions or accesses_of(op):
            return None
        found[op] = None
        pending += op.operands
    return tuple(op for op in loop.regions[0].walk() if op in found)
