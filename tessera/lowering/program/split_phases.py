"""Cut a kernel into phases: launches one after the other, each of which spreads a loop of its own over groups.

before: `scale = w[:] * 2.0`, `for r in tile.range(rows): h[r, :] = ...`, `for r in tile.range(rows): y[r, :] = h[...]`
after:  two programs, each with one of the loops and with what it needs of the rest

What a phase needs of the statements between the loops it computes again, where that is cheap and reads what no phase
in between has written.  Other values (of a loop in order, of an array that is written again) are stored in a workspace
by the phase that has them, and loaded by those that need them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tessera.core.base.dtypes import i64
from tessera.core.program.dependences import (
    Dependences,
    accesses,
    accesses_of,
    extents_of,
    may_be_one,
    written_arrays,
)
from tessera.core.program.program import Block, Op, Program, Value, Workspace, find
from tessera.core.program.types import Array, Scalar, Tile

_GROUPED: Final = ("id", "barrier", "group_sync", "shuffle", "copy", "alloc")
"""What belongs to one group: programs that have it outside their loops are left alone."""
_ANCHORED: Final = ("write", "store", "for", "if", "while", "dot")
"""What is done once: effects, and what costs too much to be computed by each group."""


def phases(program: Program) -> tuple[Program, ...]:
    """Return the programs to launch one after the other instead of `program`; one where there is nothing to gain."""
    whole = program.with_workspaces()
    if find(program.body, lambda op: op.opcode == "id") or any(op.opcode in _GROUPED for op in program.body.ops):
        return (whole,)
    cut = _Cut(whole)
    segments = cut.segments()
    if len(segments) < 2 or not any(segment.spread for segment in segments):
        return (whole,)
    return cut.programs(segments) or (whole,)


@dataclass(slots=True)
class _Segment:
    """One phase: `anchors`, operations that are done in it alone; `spread`: it runs the trips of a loop as groups."""

    anchors: list[Op]
    spread: bool = False
    reads: set[Value] = field(default_factory=set[Value])
    writes: set[Value] = field(default_factory=set[Value])
    needs: set[Value] = field(default_factory=set[Value])

    def take(self, earlier: "_Segment") -> None:
        """Do what `earlier` does first."""
        self.anchors = [*earlier.anchors, *self.anchors]
        self.reads |= earlier.reads
        self.writes |= earlier.writes
        self.needs |= earlier.needs

    def meets(self, other: "_Segment", written: set[Value]) -> bool:
        """Return whether it matters which of the two is done first."""
        used = any(value in other.needs for op in self.anchors for value in op.results)
        pairs = [(a, b) for a in self.writes for b in other.reads | other.writes]
        pairs += [(a, b) for a in self.reads for b in other.writes]
        return used or any(may_be_one(a, b, written) for a, b in pairs)


class _Cut:
    """The cuts of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.dependences = Dependences(program)
        self.position = {op: number for number, op in enumerate(program.body.ops)}
        self.makers = {result: op for op in program.body.ops for result in op.results}
        self.written = {parameter.value for parameter in program.parameters if parameter.mutable}
        self.anchored = {op for op in program.body.ops if op.opcode in _ANCHORED}

    def segments(self) -> list[_Segment]:
        """Return the phases, in order."""
        while True:
            found = self._segments()
            stale = [op for number, segment in enumerate(found) for op in self._stale(found, number, segment)]
            if not stale:
                return found
            self.anchored.update(stale)

    def _segments(self) -> list[_Segment]:
        found: list[_Segment] = []
        for op in self.program.body.ops:
            if op not in self.anchored:
                continue
            spread = self._spreads(op)
            if spread or not found or found[-1].spread:
                found.append(_Segment([], spread))
            found[-1].anchors.append(op)
            found[-1].reads |= {access.memory for access in accesses(Block(ops=(op,))) if not access.writes}
            found[-1].writes |= written_arrays(Block(ops=(op,)))
        for segment in found:
            again = self.floats(segment)
            segment.reads |= {access.memory for op in again for access in accesses_of(op)}
            segment.needs |= {value for op in (*again, *segment.anchors) for value in _needs(op)}
        return self._sunk(found)

    def _sunk(self, segments: list[_Segment]) -> list[_Segment]:
        """Merge phases that one group runs into later ones of this kind, where no dependence forbids it."""
        found: list[_Segment] = []
        waiting: _Segment | None = None
        for segment in segments:
            if waiting is not None and not segment.spread:
                segment.take(waiting)
                waiting = None
            elif waiting is not None and waiting.meets(segment, self.written):
                found.append(waiting)
                waiting = None
            if segment.spread:
                found.append(segment)
            else:
                waiting = segment
        return [*found, waiting] if waiting is not None else found

    def _spreads(self, op: Op) -> bool:
        tile = op.opcode == "for" and op.attributes.get("kind") == "tile"
        return tile and self.dependences.of(op) is None and self.dependences.length(op) is not None

    def floats(self, segment: _Segment) -> list[Op]:
        """Return what a phase computes again, in order: all that its anchors need and that is no anchor."""
        found: set[Op] = set()
        pending = [value for op in segment.anchors for value in _needs(op)]
        while pending:
            op = self.makers.get(pending.pop())
            if op is not None and op not in self.anchored and op not in found:
                found.add(op)
                pending += op.operands
        return sorted(found, key=self.position.__getitem__)

    def _stale(self, segments: Sequence[_Segment], number: int, segment: _Segment) -> list[Op]:
        """Return the reads that the phase would do too late: what they read has been written by then."""
        stale: list[Op] = []
        for op in self.floats(segment):
            place = self.position[op]
            written: set[Value] = set()
            for other in segments[: number + 1]:
                own = other is segment and not segment.spread
                if not own:
                    written |= {value for anchor in other.anchors if self.position[anchor] > place
                                for value in written_arrays(Block(ops=(anchor,)))}  # fmt: skip
            if any(may_be_one(access.memory, other, self.written) for access in accesses_of(op) for other in written):
                stale.append(op)
        return stale

    def programs(self, segments: Sequence[_Segment]) -> tuple[Program, ...]:
        """Make one program a segment; none where a tile that may have absent elements would go through memory."""
        bodies = [sorted([*self.floats(s), *s.anchors], key=self.position.__getitem__) for s in segments]
        made = [{value for op in segment.anchors for value in op.results} for segment in segments]
        needed = [{value for op in ops for value in _needs(op)} for ops in bodies]
        crossing: dict[Value, Workspace] = {}
        for number, values in enumerate(made):
            for value in _in_order(values, bodies[number]):
                users = [following for following in range(number + 1, len(segments)) if value in needed[following]]
                if users and not self._whole(value, self._lengths([segments[user] for user in users])):
                    return ()
                if users:
                    crossing[value] = _workspace(value, len(crossing))
        program = replace(self.program, workspaces=tuple(crossing.values())).with_workspaces()
        found: list[Program] = []
        for ops, own, wanted in zip(bodies, made, needed, strict=True):
            before = [
                op for value in _in_order(wanted - own, crossing) if value in crossing for op in _load(value, crossing)
            ]
            after = [op for value in own if value in crossing for op in _store(value, crossing)]
            found.append(replace(program, body=Block((), (*before, *ops, *after))))
        return tuple(found)

    def _lengths(self, users: Sequence[_Segment]) -> set[object]:
        """Return the symbol that is the length of all `users`' loops: where it is 0, none of them does anything."""
        found: list[set[object]] = [{self.dependences.length(s.anchors[0])} if s.spread else set() for s in users]
        return set[object].intersection(*found)

    def _whole(self, value: Value, lengths: set[object]) -> bool:
        """Return whether all elements of a tile exist if symbols of `lengths` are not 0: memory has no absent ones."""
        if not isinstance(value.type, Tile):
            return True
        pending, seen = [value], set[Value]()
        while pending:
            one = pending.pop()
            op = self.makers.get(one)
            if one in seen or not isinstance(one.type, Tile):
                continue
            seen.add(one)
            if (
                op is None
                or op.regions
                or op.opcode == "gather"
                or (op.opcode == "load" and not self._inside(op, lengths))
            ):
                return False
            pending += op.operands if op.opcode not in ("load", "valid", "fill") else ()
        return True

    def _inside(self, load: Op, lengths: set[object]) -> bool:
        """Return whether a load takes nothing from outside its array."""
        memory, *starts = load.operands
        shape = memory.type.shape if isinstance(memory.type, Array) else ()
        for start, extent, size in zip(starts, extents_of(load), shape, strict=True):
            first = self.dependences.definitions.constant(start)
            fits = first is not None and first >= 0 and isinstance(size, int) and first + extent <= size
            if not fits and not (first == 0 and extent == 1 and size in lengths):
                return False
        return True


def _needs(op: Op) -> list[Value]:
    """Return the values that an operation and all inside it use."""
    inner = [value for region in op.regions for one in region.walk() for value in one.operands]
    return [*op.operands, *inner]


def _in_order(values: set[Value], order: Iterable[Op] | Iterable[Value]) -> list[Value]:
    """Sort `values` in the order in which `order` has, or makes, them."""
    found = [value for one in order for value in (one.results if isinstance(one, Op) else (one,))]
    return [value for value in found if value in values]


def _workspace(value: Value, number: int) -> Workspace:
    kind = value.type
    assert isinstance(kind, Scalar | Tile)
    shape = kind.shape if isinstance(kind, Tile) else (1,)
    return Workspace(Value(Array(kind.dtype, shape), f"${value.name or 'value'}{number}", value.span), shape)


def _starts(value: Value) -> tuple[list[Op], list[Value]]:
    """Return as many zeros as the value's workspace has axes."""
    rank = len(value.type.shape) if isinstance(value.type, Tile) else 1
    zero = Value(Scalar(i64), "", value.span)
    return [Op("const", (), (zero,), {"value": 0}, (), value.span)], [zero] * rank


def _load(value: Value, spaces: dict[Value, Workspace]) -> list[Op]:
    made, starts = _starts(value)
    operands = (spaces[value].value, *starts)
    if isinstance(value.type, Tile):
        attributes = {"extents": value.type.shape, "dropped": (), "cache": ""}
        return [*made, Op("load", operands, (value,), attributes, (), value.span)]
    return [*made, Op("read", operands, (value,), {"cache": ""}, (), value.span)]


def _store(value: Value, spaces: dict[Value, Workspace]) -> list[Op]:
    made, starts = _starts(value)
    operands = (spaces[value].value, value, *starts)
    if isinstance(value.type, Tile):
        attributes = {"extents": value.type.shape, "dropped": (), "cache": ""}
        return [*made, Op("store", operands, (), attributes, (), value.span)]
    return [*made, Op("write", operands, (), {"cache": ""}, (), value.span)]
