"""Coarsen threads: give each several elements, in accesses of 16 bytes, where lanes never wait for each other.

Such a kernel cannot observe which thread runs which of its lanes, so a thread may run `elements` neighbouring lanes.  A
block then covers a range of the launch (with `tile[...]`, one group), in one of three ways, chosen by conditions that
are the same for all of its threads:

    wide    the range is whole, and every array accessed at `[..., i]` is aligned: vectors of up to 16 bytes
    narrow  the range is whole, but an array is not aligned: thread t runs lanes t, t + threads, ...
    edge    the range reaches past the launch or past an array: one lane after the other, with its masks

"Whole" means that every branch `if i < n` around the accesses is taken by all lanes of the range, so there is nothing
left to mask.  Neighbouring 16-bit floats are added and multiplied in pairs (HADD2, HMUL2).
"""

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from tessera.core.artifact import LaunchRule
from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.lowering.analysis.memory_accesses import WRITES
from tessera.lowering.base.attributes import named_axis, proven_axes
from tessera.lowering.base.emit import required
from tessera.lowering.base.ir_walk import constant, defining, is_memory, is_tile, walk
from tessera.lowering.cuda.base.gpu_function import WARP
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.simt.analyses import KernelAnalyses

PIECE: Final = 16
"""Bytes of the widest access of one lane."""
_CHOICES: Final = (1, 2, 4, 8, 16, 32)
_BUDGET: Final = 1024
"""Instructions, roughly, for all of a thread's elements: beyond that, more threads are faster."""
_COSTS: Final = {"math": 16, "arith.divf": 8, "arith.remf": 256, "arith.divsi": 32, "arith.remsi": 32, "tessera": 3}
_IDS: Final = frozenset(("lane", "thread"))
_UNIFORM_IDS: Final = frozenset(("group", "group_lanes", "grid_groups"))
_ALLOWED: Final = frozenset(("tessera.dim", "tessera.read", "tessera.write", "scf.if", "scf.yield", "func.return"))
_BELOW: Final = {2: 0, 3: 1, 6: 0, 7: 1}  # slt, sle, ult, ule: how far the first refused index is above the bound
_ABOVE: Final = {4: 1, 5: 0}  # sgt, sge: how far the first accepted index is above the bound
_UNSIGNED: Final = 6
_EXCHANGED: Final = {2: 4, 3: 5, 4: 2, 5: 3, 6: 8, 7: 9, 8: 6, 9: 7}  # the predicate with the operands exchanged


@dataclass(frozen=True, slots=True)
class CoarsenedPlace:
    """Describe an index that grows by one per lane: the lane's number, plus `offset`, plus values that lanes share.

    launch: whether the lane's number is that in the launch (of groups along `axis`; None: of all), else in its group
    """

    offset: int = 0
    shared: tuple[ir.Value, ...] = ()
    launch: bool = True
    axis: int | None = None

    def moved(self, offset: int = 0, shared: tuple[ir.Value, ...] = ()) -> "CoarsenedPlace":
        """Return the place with a number or values added."""
        return replace(self, offset=self.offset + offset, shared=self.shared + shared)


@dataclass(frozen=True, slots=True)
class CoarsenedAccess:
    """Describe a read or write of neighbouring elements by neighbouring lanes: `place` is the index of the last axis.

    bytes: of an element; wide: `offset` elements are whole pieces, so that vectors can be used if the array is aligned
    """

    op: AnyOp
    place: CoarsenedPlace
    bytes: int
    wide: bool = True

    @property
    def offset(self) -> int:
        """Return the constant part of the index."""
        return self.place.offset

    @property
    def memory(self) -> ir.Value:
        """Return the Tile IR memref."""
        return self.op.operands[0]

    @property
    def proven(self) -> bool:
        """Return whether the index of the last axis is proven to be in bounds."""
        return proven_axes(self.op)[-1]


@dataclass(frozen=True, slots=True)
class AccessGuard:
    """Describe a branch on `place < bound + beyond` without an `else`.

    least: on `place >= bound + beyond`; place: None for a branch on `bound` itself, which is the same for all lanes
    """

    op: AnyOp
    place: CoarsenedPlace | None
    bound: ir.Value
    beyond: int = 0
    least: bool = False


@dataclass(slots=True)
class Coarsening:
    """Plan a coarsening: `elements` per thread, accesses at `[..., i + c]` and guards, each by its operation."""

    elements: int = 1
    accesses: dict[AnyOp, CoarsenedAccess] = field(default_factory=dict[AnyOp, CoarsenedAccess])
    guards: dict[AnyOp, tuple[AccessGuard, ...]] = field(default_factory=dict[AnyOp, tuple[AccessGuard, ...]])

    def rule(self, rule: LaunchRule, threads: int) -> LaunchRule:
        """Return the launch rule for blocks of `threads`."""
        return replace(rule, lanes_per_group=threads * self.elements, elements=self.elements)


def coarsen(function: AnyOp, program: Program, facts: KernelAnalyses) -> Coarsening:
    """Decide how many elements a thread of the `func.func` takes; 1 if more would not pay or could be observed.

    The schedule option `elements_per_thread` overrides the number (a power of two up to 32; 1: never).

    Raises:
        NotOnCuda: the option is another number.
    """
    block = function.regions[0].blocks[0]
    wanted = program.options.get("elements_per_thread")
    if isinstance(wanted, int) and wanted not in _CHOICES:
        message = f"the option elements is a power of two up to {_CHOICES[-1]}, got {wanted}"
        raise NotOnCuda(message, program.span)
    if wanted == 1 or not (_is_row(program.group) if program.group else program.domain.kind == "lanes"):
        return Coarsening()
    operations = list(walk(block))
    last = len(program.group or (1,)) - 1
    if not all(_is_plain(op, last) and (program.group is None or _is_lanes_own(op, facts)) for op in operations):
        return Coarsening()
    contiguous = {
        argument
        for argument, parameter in zip(block.arguments, program.parameters, strict=True)
        if isinstance(parameter.value.type, Array) and parameter.value.type.contiguous
    }
    reader = _AccessReader(facts, program.group is not None, last)
    accesses = [a for op in operations if (a := reader.access(op, contiguous)) is not None]
    if not accesses:
        return Coarsening()
    # One piece of the widest dtype: with two adjacent pieces, each access of a warp would touch every other sector.
    elements = PIECE // max(access.bytes for access in accesses)
    work = sum(_cost(op) for op in operations)
    while elements > 1 and elements * work > _BUDGET:
        elements //= 2
    if isinstance(wanted, int):
        elements = wanted
    while program.group and elements > 1 and program.group[-1] % (elements * WARP):
        elements //= 2  # whole warps
    if elements == 1:
        return Coarsening()
    widths = {a.op: a.offset * a.bytes % min(PIECE, elements * a.bytes) == 0 for a in accesses}
    found = {a.op: replace(a, wide=widths[a.op]) for a in accesses}
    return Coarsening(elements, found, dict(reader.guards(block, set(found))))


def _is_row(group: tuple[int, ...]) -> bool:
    """Return whether a group's lanes follow each other along its last axis."""
    return math.prod(group) == group[-1]


def _is_lanes_own(op: AnyOp, facts: KernelAnalyses) -> bool:
    """Return whether `op` is not an access of the whole group to memory that the kernel writes (it needs barriers)."""
    if op.name not in ("tessera.read", "tessera.write"):
        return True
    memory = op.operands[WRITES.get(op.name, 0)]
    return not (facts.divergence.is_uniform(op) and facts.memory.class_of(memory) in facts.memory.written)


def _is_plain(op: AnyOp, last: int) -> bool:
    """Return whether `op` does the same if lanes run it one after the other."""
    if any(is_tile(v.type) for v in (*op.operands, *op.results)) or any(is_memory(v.type) for v in op.results):
        return False
    if op.name == "tessera.id":
        return _id_of(op) in _UNIFORM_IDS or _is_lane(op, last)
    return op.name in _ALLOWED or op.name.partition(".")[0] in ("arith", "math")


def _id_of(op: AnyOp) -> str:
    return ir.StringAttr(op.attributes["of"]).value


def _is_lane(op: AnyOp, last: int) -> bool:
    """Return whether `op` gives the lane's index, linear or along the `last` axis of groups."""
    return op.name == "tessera.id" and _id_of(op) in _IDS and named_axis(op) in (None, last)


def _cost(op: AnyOp) -> int:
    return _COSTS.get(op.name, _COSTS.get(op.name.partition(".")[0], 1))


@dataclass(frozen=True, slots=True)
class _AccessReader:
    """Match indices and conditions of a kernel.

    grouped: it has `tile[...]`, so that lanes are numbered in groups; last: the last axis of these
    """

    facts: KernelAnalyses
    grouped: bool
    last: int

    def access(self, op: AnyOp, contiguous: Container[ir.Value]) -> CoarsenedAccess | None:
        """Match a read or write of neighbouring elements by neighbouring lanes."""
        if op.name not in ("tessera.read", "tessera.write") or op.operands[0] not in contiguous:
            return None
        indices = list(op.operands)[1 if op.name == "tessera.read" else 2 :]
        sure = proven_axes(op)
        if not indices or any(self.facts.divergence.varies(v) for v in indices[:-1]) or not all(sure[:-1]):
            return None
        place = self.place(indices[-1])
        element = str(ir.MemRefType(op.operands[0].type).element_type)
        return None if place is None else CoarsenedAccess(op, place, width(element) // 8)

    def place(self, index: ir.Value) -> CoarsenedPlace | None:
        """Match the lane's number plus something; None if `index` is something else."""
        op = defining(index)
        if op is None:
            return None
        if op.name == "tessera.id":
            if not _is_lane(op, self.last):
                return None
            axis = named_axis(op)
            return CoarsenedPlace(launch=_id_of(op) == "thread", axis=axis) if self.grouped else CoarsenedPlace()
        if op.name not in ("arith.addi", "arith.subi"):
            return None
        first, second = op.operands
        sign = 1 if op.name == "arith.addi" else -1
        for one, other in ((first, second), (second, first))[: 2 if sign == 1 else 1]:
            base = self.place(one)
            if base is None:
                continue
            number = constant(other)
            if number is not None:
                return base.moved(sign * number)
            if sign == 1 and available(other, self.facts):
                return base.moved(shared=(other,))
        return None

    def guards(self, block: ir.Block, accesses: set[AnyOp]) -> Iterator[tuple[AnyOp, tuple[AccessGuard, ...]]]:
        """Yield the branches that a whole range takes, outer before inner, with the conditions that make it whole.

        A branch that does not contain all accesses, and that compares with a number (`if i < 4`) or depends on no index
        at all (`if flag != 0`), is an exception for a few lanes: ranges are whole without it.
        """
        for view in block.operations:
            op = view.operation
            if op.name != "scf.if" or len(op.results) or _does_something(op.regions[1]):
                continue
            found = self.conditions(op, op.operands[0])
            inner = op.regions[0].blocks[0]
            if found is None:
                continue
            if any(map(_is_exception, found)) and accesses - set(walk(inner)):
                continue
            yield op, found
            yield from self.guards(inner, accesses)

    def conditions(self, op: AnyOp, condition: ir.Value) -> tuple[AccessGuard, ...] | None:
        """Match a conjunction of guards; None if `condition` is something else."""
        test = defining(condition)
        if test is None:
            return None
        if test.name == "arith.andi":
            left, right = (self.conditions(op, v) for v in test.operands)
            return None if left is None or right is None else left + right
        if test.name != "arith.cmpi":
            return None
        if available(test.results[0], self.facts):
            return (AccessGuard(op, None, test.results[0]),)
        predicate = int(ir.IntegerAttr(test.attributes["predicate"]).value)
        left, right = test.operands
        for index, bound, relation in ((left, right, predicate), (right, left, _EXCHANGED.get(predicate, -1))):
            place = self.place(index)
            if place is None or not available(bound, self.facts):
                continue
            # For indices from 0 on, an unsigned comparison means the same.
            if relation in _BELOW and not (relation >= _UNSIGNED and (place.offset < 0 or place.shared)):
                return (AccessGuard(op, place, bound, _BELOW[relation]),)
            if relation in _ABOVE:
                return (AccessGuard(op, place, bound, _ABOVE[relation], least=True),)
        return None


def _is_exception(guard: AccessGuard) -> bool:
    """Return whether a guard may refuse most ranges: it compares with a number, or depends on no index."""
    if guard.place is None:
        return not _has_id(guard.bound)
    return not guard.least and constant(guard.bound) is not None


def _has_id(value: ir.Value) -> bool:
    op = defining(value)
    return op is not None and (op.name == "tessera.id" or any(_has_id(operand) for operand in op.operands))


def _does_something(region: ir.Region) -> bool:
    return any(len(list(block.operations)) > 1 for block in region.blocks)


def available(value: ir.Value, facts: KernelAnalyses) -> bool:
    """Return whether `value` can be computed at the entry of the kernel."""
    op = defining(value)
    if op is None:
        return not facts.divergence.varies(value) and not is_memory(value.type)
    if op.name == "tessera.id":
        return _id_of(op) in _UNIFORM_IDS
    if op.name != "tessera.dim" and op.name.partition(".")[0] not in ("arith", "math"):
        return False
    return not facts.divergence.varies(value) and all(available(v, facts) for v in op.operands)


def realise(value: ir.Value, known: Container[ir.Value], emit: Callable[[AnyOp], None]) -> None:
    """Materialize an available `value`: emit what it is computed from, unless it is in `known`."""
    if value in known:
        return
    op = required(defining(value))
    for operand in op.operands:
        realise(operand, known, emit)
    emit(op)
