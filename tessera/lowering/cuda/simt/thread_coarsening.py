"""Several elements a lane, in accesses of 16 bytes: for kernels whose lanes never wait for each other.

Nothing can tell which hardware lane runs which lane of such a kernel, so a thread may run `elements` neighbouring
lanes.  A block then covers a range of the launch (with `tile[...]`, one group), in one of three ways, chosen by
conditions that are the same for all of its threads:

    wide    the range is whole, and every array accessed at `[..., i]` is aligned: vectors of up to 16 bytes
    narrow  the range is whole, but an array begins in between: thread t runs lanes t, t + threads, ...
    edge    the range reaches past the launch or past an array: one lane after the other, with its masks

"Whole" means that every branch `if i < n` around the accesses is taken by all lanes of the range, so there is nothing
left to mask.  Neighbouring 16-bit floats are added and multiplied in pairs (HADD2, HMUL2).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tessera.core.artifact import LaunchRule
from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.lowering.analysis.uniformity import WRITES, Uniformity, is_memory, is_tile, walk
from tessera.lowering.base.attributes import named_axis, proven_axes
from tessera.lowering.cuda.base.gpu_function import WARP
from tessera.lowering.cuda.base.index_builder import width

PIECE: Final = 16
"""Bytes of the widest access of one lane."""
_CHOICES: Final = (1, 2, 4, 8, 16, 32)
_BUDGET: Final = 1024
"""Instructions, roughly, that a thread's elements may take together: beyond that more threads are worth more."""
_COSTS: Final = {"math": 16, "arith.divf": 8, "arith.remf": 256, "arith.divsi": 32, "arith.remsi": 32, "tessera": 3}
_IDS: Final = frozenset(("lane", "thread"))
_UNIFORM_IDS: Final = frozenset(("group", "group_lanes", "grid_groups"))
_ALLOWED: Final = frozenset(("tessera.dim", "tessera.read", "tessera.write", "scf.if", "scf.yield", "func.return"))
_BELOW: Final = {2: 0, 3: 1, 6: 0, 7: 1}  # slt, sle, ult, ule: how far the first refused index is above the bound
_ABOVE: Final = {4: 1, 5: 0}  # sgt, sge: how far the first accepted index is above the bound
_UNSIGNED: Final = 6
_EXCHANGED: Final = {2: 4, 3: 5, 4: 2, 5: 3, 6: 8, 7: 9, 8: 6, 9: 7}  # the predicate with the operands exchanged


@dataclass(frozen=True, slots=True)
class Place:
    """An index that grows by one from lane to lane: the lane's number, plus `offset`, plus values that lanes share.

    launch: whether the number is the lane's in the launch (of groups along `axis`; None: of all), else in its group
    """

    offset: int = 0
    shared: tuple[Any, ...] = ()
    launch: bool = True
    axis: int | None = None

    def moved(self, offset: int = 0, shared: tuple[Any, ...] = ()) -> "Place":
        """The place with a number or values added."""
        return replace(self, offset=self.offset + offset, shared=self.shared + shared)


@dataclass(frozen=True, slots=True)
class Access:
    """A read or write of neighbouring elements by neighbouring lanes: `place` is the index of the last axis.

    bytes: of an element; wide: `offset` elements are whole pieces, so that vectors can be used where the array allows
    """

    op: Any
    place: Place
    bytes: int
    wide: bool = True

    @property
    def offset(self) -> int:
        """The number in the index."""
        return self.place.offset

    @property
    def memory(self) -> Any:
        """The Tile IR memref."""
        return self.op.operands[0]

    @property
    def proven(self) -> bool:
        """Whether the last axis is known not to be left."""
        return proven_axes(self.op)[-1]


@dataclass(frozen=True, slots=True)
class Guard:
    """A branch on `place < bound + beyond`, with nothing to do where it is not taken.

    least: on `place >= bound + beyond`; place: None for a branch on `bound` itself, which is the same for all lanes
    """

    op: Any
    place: Place | None
    bound: Any
    beyond: int = 0
    least: bool = False


@dataclass(slots=True)
class Coarsening:
    """What `coarsen` found: `elements` a lane, accesses at `[..., i + c]` and guards, each by its operation."""

    elements: int = 1
    accesses: dict[Any, Access] = field(default_factory=dict[Any, Access])
    guards: dict[Any, tuple[Guard, ...]] = field(default_factory=dict[Any, tuple[Guard, ...]])

    def rule(self, rule: LaunchRule, threads: int) -> LaunchRule:
        """The launch rule for blocks of that many threads."""
        return replace(rule, lanes_per_group=threads * self.elements, elements=self.elements)


def coarsen(function: Any, program: Program, facts: Uniformity) -> Coarsening:
    """Decide how many elements a lane of the `func.func` takes; 1 where it would not pay or could be noticed.

    The schedule option `elements_per_thread` overrules the number (a power of two up to 32; 1: never).

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
    reader = _Reader(facts, program.group is not None, last)
    accesses = [a for op in operations if (a := reader.access(op, contiguous)) is not None]
    if not accesses:
        return Coarsening()
    # One piece of the widest dtype: two pieces side by side make each access of a warp touch every other sector.
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
    """Whether a group's lanes follow each other along its last axis."""
    return math.prod(group) == group[-1]


def _is_lanes_own(op: Any, facts: Uniformity) -> bool:
    """Whether `op` is no access of the whole group to memory that somebody writes, for which lanes would wait."""
    if op.name not in ("tessera.read", "tessera.write"):
        return True
    memory = op.operands[WRITES.get(op.name, 0)]
    return not (facts.is_uniform(op) and facts.memory_class(memory) in facts.written)


def _is_plain(op: Any, last: int) -> bool:
    """Whether lanes that run `op` one after the other do the same as at once."""
    if any(is_tile(v.type) for v in (*op.operands, *op.results)) or any(is_memory(v.type) for v in op.results):
        return False
    if op.name == "tessera.id":
        return _id_of(op) in _UNIFORM_IDS or _is_lane(op, last)
    return op.name in _ALLOWED or op.name.partition(".")[0] in ("arith", "math")


def _id_of(op: Any) -> str:
    return ir.StringAttr(op.attributes["of"]).value


def _is_lane(op: Any, last: int) -> bool:
    """Whether `op` gives the lane's index, linear or along the `last` axis of groups."""
    return op.name == "tessera.id" and _id_of(op) in _IDS and named_axis(op) in (None, last)


def _cost(op: Any) -> int:
    return _COSTS.get(op.name, _COSTS.get(op.name.partition(".")[0], 1))


@dataclass(frozen=True, slots=True)
class _Reader:
    """What indices and conditions say.

    grouped: of a kernel with `tile[...]`, whose lanes are numbered in groups; last: the last axis of those
    """

    facts: Uniformity
    grouped: bool
    last: int

    def access(self, op: Any, contiguous: set[Any]) -> Access | None:
        """A read or write as an access, where it is one."""
        if op.name not in ("tessera.read", "tessera.write") or op.operands[0] not in contiguous:
            return None
        indices = list(op.operands)[1 if op.name == "tessera.read" else 2 :]
        sure = proven_axes(op)
        if not indices or any(self.facts.varies(v) for v in indices[:-1]) or not all(sure[:-1]):
            return None
        place = self.place(indices[-1])
        element = str(op.operands[0].type.element_type)
        return None if place is None else Access(op, place, width(element) // 8)

    def place(self, index: Any) -> Place | None:
        """The lane's number and what is added to it; None where `index` is something else."""
        op = _defining(index)
        if op is None:
            return None
        if op.name == "tessera.id":
            if not _is_lane(op, self.last):
                return None
            axis = named_axis(op)
            return Place(launch=_id_of(op) == "thread", axis=axis) if self.grouped else Place()
        if op.name not in ("arith.addi", "arith.subi"):
            return None
        first, second = op.operands
        sign = 1 if op.name == "arith.addi" else -1
        for one, other in ((first, second), (second, first))[: 2 if sign == 1 else 1]:
            base = self.place(one)
            if base is None:
                continue
            number = _number(other)
            if number is not None:
                return base.moved(sign * number)
            if sign == 1 and available(other, self.facts):
                return base.moved(shared=(other,))
        return None

    def guards(self, block: Any, accesses: set[Any]) -> Iterator[tuple[Any, tuple[Guard, ...]]]:
        """The branches that a whole range takes, with what makes it whole; and those inside them.

        A branch that some accesses are outside of, and that ends at a number, is an exception for a few lanes
        (`if i < 4`), or depends on no index at all (`if flag != 0`): ranges are whole without it.
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

    def conditions(self, op: Any, condition: Any) -> tuple[Guard, ...] | None:
        """The conjunction that `condition` is, as guards; None where it is something else."""
        test = _defining(condition)
        if test is None:
            return None
        if test.name == "arith.andi":
            left, right = (self.conditions(op, v) for v in test.operands)
            return None if left is None or right is None else left + right
        if test.name != "arith.cmpi":
            return None
        if available(test.results[0], self.facts):
            return (Guard(op, None, test.results[0]),)
        predicate = int(ir.IntegerAttr(test.attributes["predicate"]).value)
        left, right = test.operands
        for index, bound, relation in ((left, right, predicate), (right, left, _EXCHANGED.get(predicate, -1))):
            place = self.place(index)
            if place is None or not available(bound, self.facts):
                continue
            # An unsigned comparison says the same of indices from 0 on.
            if relation in _BELOW and not (relation >= _UNSIGNED and (place.offset < 0 or place.shared)):
                return (Guard(op, place, bound, _BELOW[relation]),)
            if relation in _ABOVE:
                return (Guard(op, place, bound, _ABOVE[relation], least=True),)
        return None


def _is_exception(guard: Guard) -> bool:
    """Whether most ranges may well be refused by a guard: it ends at a number, or knows nothing of where they are."""
    if guard.place is None:
        return not _has_id(guard.bound)
    return not guard.least and _number(guard.bound) is not None


def _has_id(value: Any) -> bool:
    op = _defining(value)
    return op is not None and (op.name == "tessera.id" or any(_has_id(operand) for operand in op.operands))


def _does_something(region: Any) -> bool:
    return any(len(list(block.operations)) > 1 for block in region.blocks)


def _number(value: Any) -> int | None:
    op = _defining(value)
    if op is None or op.name != "arith.constant" or not isinstance(op.attributes["value"], ir.IntegerAttr):
        return None
    return int(ir.IntegerAttr(op.attributes["value"]).value)


def _defining(value: Any) -> Any:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def available(value: Any, facts: Uniformity) -> bool:
    """Whether `value` can be computed where the kernel begins."""
    op = _defining(value)
    if op is None:
        return not facts.varies(value) and not is_memory(value.type)
    if op.name == "tessera.id":
        return _id_of(op) in _UNIFORM_IDS
    if op.name != "tessera.dim" and op.name.partition(".")[0] not in ("arith", "math"):
        return False
    return not facts.varies(value) and all(available(v, facts) for v in op.operands)


def realise(value: Any, known: dict[Any, Any], emit: Callable[[Any], None]) -> None:
    """Emit, with `emit`, what an available `value` is made of, as far as it is not in `known`."""
    if value in known:
        return
    op = value.owner.operation
    for operand in op.operands:
        realise(operand, known, emit)
    emit(op)
