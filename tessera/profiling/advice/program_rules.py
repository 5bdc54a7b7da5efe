"""Rules that read the kernel: loops and accesses that are slow wherever they run, with the line and what to write."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.program.dependences import Dependences, MemoryAccess, accesses
from tessera.core.program.expressions import evaluate
from tessera.core.program.linear import Definitions
from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.program.types import Array, Scalar
from tessera.performance.lane_accesses import lane_accesses
from tessera.profiling.advice.model import Advice, Evidence
from tessera.profiling.results import Profile

_WORTH: Final = 0.05
_EXCESS: Final = 2
"""How many times as many pieces of memory a warp must touch as it needs to."""
_CACHE_LINE, _SECTOR = 64, 32
_TILE: Final = 32
"""The step that an example is written with."""


def strided_lanes(profile: Profile) -> Iterator[Advice]:
    """Neighbouring lanes whose elements lie apart: each of them needs a cache line of its own."""
    origin = profile.origin
    if origin is None:
        return
    program = origin.compiled.program
    found = lane_accesses(program, origin.shape, _SECTOR if profile.machine.on_gpu else _CACHE_LINE)
    strided = [each for each in found if each.segments >= _EXCESS * each.least and each.distance > 1]
    if not strided:
        return
    worst = max(strided, key=lambda each: each.trips * each.segments)
    now, least = sum(each.trips * each.segments for each in found), sum(each.trips * each.least for each in found)
    gain = min(1.0 - profile.attained, 1.0 - least / now)
    if gain < _WORTH:
        return
    piece = "sectors" if profile.machine.on_gpu else "cache lines"
    line = worst.access.op.span.line
    remedy = (
        "Other accesses do lie side by side: move tiles instead (tile.transpose(x[a:a+32, b:b+32]))."
        if any(each.distance == 1 for each in found)
        else "Lanes are numbered along the last axis of launch.thread_id: let that one be the index of the arrays' "
        "last axis."
    )
    text = (
        f"Neighbouring lanes {'write' if worst.access.writes else 'read'} {_name(program, worst.access)} "
        f"{worst.distance:,} elements apart (line {line}): the lanes of a warp touch {worst.segments} {piece} where "
        f"{worst.least} would do. {remedy}"
    )
    evidence = (
        Evidence("distance between lanes", worst.distance, "elements"),
        Evidence(f"{piece} of a warp, all accesses", now / worst.trips, "a trip"),
        Evidence("side by side", least / worst.trips, "a trip"),
    )
    yield Advice("strided access", text, evidence, gain, (line,))


def scalar_product(profile: Profile) -> Iterator[Advice]:
    """A matrix product that is written out: a loop that multiplies and adds one element of each factor at a time."""
    origin = profile.origin
    if origin is None or not profile.work.total_flops:
        return
    program = origin.compiled.program
    definitions = Definitions(program)
    for op in program.body.walk():
        factors = _factors(op, definitions) if op.opcode == "for" else None
        if factors is None:
            continue
        left, right = factors
        scalar = sum(flops for kind, flops in profile.work.by_kind.items() if not kind.startswith("dot "))
        gain = (1.0 - profile.attained) * scalar / profile.work.total_flops
        if gain < _WORTH:
            return
        a, b = left.memory.name, right.memory.name
        line = left.op.span.line
        text = (
            f"Line {line} loads one element of {a} and one of {b} for each multiplication, and each of them again for "
            f"every element of the result that needs it. tile.dot loads a tile once, uses its elements many times, "
            f"and runs on tensor cores where there are some: {_example(left, right, op, definitions)}"
        )
        evidence = (
            Evidence("loads of each multiply-add", 2, ""),
            Evidence("loads of the same element", _reuse(profile), ""),
            Evidence("share of the roofline", profile.attained, "%"),
        )
        yield Advice("scalar product", text, evidence, gain, (line,))
        return


def _reuse(profile: Profile) -> float:
    return profile.work.requested_bytes / max(1.0, profile.work.least_bytes)


def _factors(loop: Op, definitions: Definitions) -> tuple[MemoryAccess, MemoryAccess] | None:
    """Return the reads whose product a loop adds up, if both are factors of a matrix product."""
    block = loop.regions[0]
    index, carried = block.arguments[0], block.arguments[1:]
    reads = {access.op.result: access for access in accesses(block) if access.op.opcode == "read"}
    for value, result in zip(carried, block.ops[-1].operands, strict=True):
        factors = _multiplied(value, result, definitions) if isinstance(value.type, Scalar) else None
        found = [reads.get(_uncast(factor, definitions)) for factor in factors or ()]
        if not factors or None in found:
            continue
        left, right = (access for access in found if access is not None)
        moves = all(index in _sources(access.starts, definitions, ()) for access in (left, right))
        a, b = (_sources(access.starts, definitions) for access in (left, right))
        # Each must be used for several elements of the result, which the other one tells apart.
        if moves and a - b and b - a:
            return left, right
    return None


def _multiplied(value: Value, result: Value, definitions: Definitions) -> tuple[Value, Value] | None:
    """Return a and b where `result` is `value + a * b`."""
    maker = definitions.makers.get(result)
    if maker is None:
        return None
    if maker.opcode == "fma" and maker.operands[2] is value:
        return maker.operands[0], maker.operands[1]
    if maker.opcode != "add" or value not in maker.operands:
        return None
    other = maker.operands[1 - maker.operands.index(value)]
    product = definitions.makers.get(_uncast(other, definitions))
    if product is None or product.opcode != "mul":
        return None
    return product.operands[0], product.operands[1]


def _uncast(value: Value, definitions: Definitions) -> Value:
    """Return what was converted to `value`."""
    maker = definitions.makers.get(value)
    return _uncast(maker.operands[0], definitions) if maker is not None and maker.opcode == "cast" else value


def _sources(
    values: tuple[Value, ...], definitions: Definitions, stop: tuple[str, ...] = ("floordiv", "mod")
) -> set[Value]:
    """Return the ids and loop indices that integers are made of; what `stop` computes counts as one of these."""
    found: set[Value] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        maker = definitions.makers.get(value)
        if maker is None or maker.opcode in ("id", "read", *stop):
            found.add(value)
        else:
            pending += maker.operands
    return found


def _example(left: MemoryAccess, right: MemoryAccess, loop: Op, definitions: Definitions) -> str:
    """Return the statement with `tile.dot` that does what the loop does, as far as the factors have two axes."""
    index = loop.regions[0].arguments[0]
    parts: list[str] = []
    for access, other, along in ((left, "m", 1), (right, "n", 0)):
        axes = [axis for axis, start in enumerate(access.starts) if index in _sources((start,), definitions, ())]
        if len(access.starts) != 2 or len(axes) != 1:
            return f"multiply tiles of {left.memory.name} and {right.memory.name}."
        names = ("k", other) if axes[0] == 0 else (other, "k")
        tile = f"{access.memory.name}[{', '.join(f'{name}:{name}+{_TILE}' for name in names)}]"
        parts.append(tile if axes[0] == along else f"{tile}.T")
    return f"tile.dot({parts[0]}, {parts[1]}) in loops over m, n and k with step={_TILE}."


@dataclass(frozen=True, slots=True, eq=False)
class _MemorySum:
    """A place in memory that every trip of a loop reads and writes."""

    loop: Op
    written: MemoryAccess


def sum_in_memory(profile: Profile) -> Iterator[Advice]:
    """A loop that reads and writes the same place in every trip, where a variable would stay in registers."""
    origin = profile.origin
    if origin is None:
        return
    program, extents = origin.compiled.program, origin.shape.extents
    dependences = Dependences(program)
    own = {p.value for p in program.parameters} - {space.value for space in program.given}
    for kept, around in _kept_places(program.body, (), dependences.definitions, own):
        kind = kept.written.memory.type
        assert isinstance(kind, Array)
        lengths = [_trips(loop, dependences, extents) for loop in around]
        trips = _trips(kept.loop, dependences, extents)
        lanes = origin.shape.whole or origin.shape.lanes * (1 if origin.shape.ranges else origin.shape.groups)
        size = math.prod(kept.written.extents) * kind.dtype.bytes
        moved = 2 * size * lanes * math.prod(lengths) * (trips - 1)
        share = min(1.0, moved / profile.work.requested_bytes) if profile.work.requested_bytes else 0.0
        # What is not arithmetic is memory's at most, and of that the part of these bytes.
        gain = (1.0 - profile.attained) * share
        if trips < _EXCESS or gain < _WORTH:
            continue
        line, head = kept.written.op.span.line, kept.loop.span.line
        name = _name(program, kept.written)
        inside = "" if _direct(kept) else " Make that loop the innermost one, and"
        text = (
            f"Line {line} reads {name} from memory and writes it back in each of the {trips:,} trips of the loop in "
            f"line {head}, which does not move it.{inside} {'keep' if inside else 'Keep'} the sum in a variable: "
            f"set it before the loop, add to it inside, and store it once behind."
        )
        evidence = (
            Evidence("trips", trips, ""),
            Evidence("read and written again", moved / 1e6, "MB"),
            Evidence("of all that groups ask for", share, "%"),
        )
        yield Advice("sum in memory", text, evidence, gain, (line, head))
        return


def _kept_places(
    block: Block, around: tuple[Op, ...], definitions: Definitions, own: set[Value]
) -> Iterator[tuple[_MemorySum, tuple[Op, ...]]]:
    """Yield the places that a loop's trips share, outer loops first, with the other loops around the access."""
    for op in block.ops:
        inner = (*around, op) if op.opcode == "for" else around
        if op.opcode == "for":
            kept = _kept(op, definitions, own)
            if kept is not None:
                yield kept, (*around, *_loops_between(op, kept.written.op))
        for region in op.regions:
            yield from _kept_places(region, inner, definitions, own)


def _kept(loop: Op, definitions: Definitions, own: set[Value]) -> _MemorySum | None:
    """Return the access of a place that every trip of `loop` reads and writes, while nothing else of that array is."""
    index, touched = loop.regions[0].arguments[0], accesses(loop.regions[0])
    for written in touched:
        if not written.writes or written.memory not in own or index in _sources(written.starts, definitions, ()):
            continue
        places = {
            (access.extents, *(definitions.identity(start) for start in access.starts))
            for access in touched
            if access.memory is written.memory
        }
        reads = [access for access in touched if access.memory is written.memory and not access.writes]
        if reads and len(places) == 1:
            return _MemorySum(loop, written)
    return None


def _direct(kept: _MemorySum) -> bool:
    """Return whether the write is in the loop itself, not in one inside of it."""
    return not _loops_between(kept.loop, kept.written.op)


def _loops_between(loop: Op, wanted: Op) -> tuple[Op, ...]:
    """Return the loops inside `loop` that `wanted` is in."""
    inside = [op for op in loop.regions[0].walk() if op.opcode == "for"]
    return tuple(op for op in inside if any(each is wanted for each in op.regions[0].walk()))


def _trips(loop: Op, dependences: Dependences, extents: Mapping[str, int]) -> int:
    """Return the trips of a loop; 1 where its length is no expression of extents."""
    length, step = dependences.length(loop), dependences.definitions.constant(loop.operands[2])
    if length is None or not step:
        return 1
    return max(1, -(-evaluate(length, extents.__getitem__) // step))


def _name(program: Program, access: MemoryAccess) -> str:
    """Return an access as it is written, if its place in the text is that, else the array's name."""
    span, name = access.op.span, access.memory.name
    text = program.source.line(span.line)[span.column - 1 : span.end_column - 1] if span.line == span.end_line else ""
    return text if text.startswith(f"{name}[") and text.endswith("]") else name
