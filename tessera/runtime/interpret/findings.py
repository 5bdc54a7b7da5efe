"""Messages of the sanitizer: one function a mistake, each naming the user's lines, lanes and elements, and a remedy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.source import Note, Source
from tessera.core.errors import catalog
from tessera.core.errors.base import TesseraError
from tessera.core.program.program import UNKNOWN_SOURCE, Op
from tessera.runtime.interpret.memory import Memory

GROUP: Final = -1
"""Stands for the whole group, which executes uniform statements once and in order."""
COPY: Final = -2
"""Stands for an asynchronous copy that the group has started."""
NO_AGENT: Final = -3

_BARRIER_HINT: Final = "put tbarrier() between the two, where every lane of the group reaches it"
_ONE_STATEMENT_HINT: Final = "give each lane an element of its own, and add them up afterwards (reduce_sum)"
_UNGROUPED_HINT: Final = "give each lane its own element, or say tile[...] and use tbarrier()"


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write of one element: by whom (a lane, GROUP or COPY), in which group, at which operation."""

    op: Op
    writes: bool
    agent: int
    group: int


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """The facts of a launch that messages need; `grouped` tells whether the kernel says `tile[...]`."""

    groups: int
    lanes: int
    grouped: bool
    source: Source = UNKNOWN_SOURCE


def element(memory: Memory, number: int) -> str:
    """Name element `number` (row-major): `smem[3]`, `A[2, 5]`."""
    place = np.unravel_index(number, memory.data.shape)
    return f"{memory.name}[{', '.join(str(int(i)) for i in place)}]"


def lane_list(active: NDArray[np.bool_]) -> str:
    """Name lanes in ranges: "lane 3", "lanes 0 to 15", "lanes 0, 2 to 4, ..."."""
    lanes = np.flatnonzero(active)
    runs = np.split(lanes, np.flatnonzero(np.diff(lanes) != 1) + 1)
    parts = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs[:3]]
    return f"lane{'s' if len(lanes) > 1 else ''} {', '.join(parts)}{', ...' if len(runs) > 3 else ''}"


def conflict(launch: LaunchFacts, memory: Memory, number: int, now: Access, before: Access) -> TesseraError:
    """Report two accesses to one element that nothing orders."""
    name = element(memory, number)
    if COPY in (before.agent, now.agent) and before.group == now.group and not _lane_then_copy(before, now):
        return _in_flight(launch, name, now, before)
    if before.group != now.group:
        kind: type[TesseraError] = catalog.Race
        between = "; groups run in any order"
        hint = f"let each group write its own elements of {memory.name}, or write from one group only"
    elif _one_update(now.op, before.op):
        # `bins[x[i]] += 1` reads and writes in one statement: no barrier fits between.
        kind, between, hint = catalog.Race, ", and nothing orders the two", _ONE_STATEMENT_HINT
    elif memory.shared and now.op is not before.op:
        kind, between, hint = catalog.MissingBarrier, ", with no tbarrier() between", _BARRIER_HINT
    elif memory.shared:
        kind, between = catalog.MissingBarrier, ", with no tbarrier() between"
        hint = "put tbarrier() into the loop, where every lane of the group reaches it"
    else:
        kind, between = catalog.Race, ", and nothing orders the two"
        hint = _BARRIER_HINT if launch.grouped else _UNGROUPED_HINT
    message = f"{_who(launch, now)} {_verb(now)} {name} here, which {_who(launch, before)} {_verb(before)}{between}"
    return kind(message, now.op.span, hint, [_note(launch, name, now, before)])


def meeting(memory: Memory, number: int, now: Access, before: Access, trips: tuple[str, int, int]) -> TesseraError:
    """Report two trips of a loop with `parallel=True` that touch one element."""
    name, (index, here, there) = element(memory, number), trips
    message = f"the trip {index} = {here} {_verb(now)} {name} here, which the trip {index} = {there} {_verb(before)}"
    return catalog.MeetingTrips(
        message,
        now.op.span,
        "tile.range(..., parallel=True) says that no two trips meet: leave it out, and they run in order",
        [Note(f"the trip {index} = {there} {_verb(before)} {name} here", before.op.span)],
    )


def _one_update(a: Op, b: Op) -> bool:
    """Return True for the read and the write of one `x[i] += v`: one place in the text, one set of indices."""
    if {a.opcode, b.opcode} != {"read", "write"} or a.span != b.span:
        return False
    read, write = (a, b) if a.opcode == "read" else (b, a)
    return read.operands[1:] == write.operands[2:]


def same_statement(launch: LaunchFacts, memory: Memory, number: int, now: Access, other: int) -> TesseraError:
    """Report two lanes that write one element in the same execution of one statement."""
    name = element(memory, number)
    first, second = sorted((now.agent, other))
    return catalog.Race(
        f"lane {first} and lane {second} both write {name} here{_of_group(launch, now)}",
        now.op.span,
        "give each lane its own element, or let one lane write: `if tile.linear_id() == 0:`",
        [Note(f"lane {lane} writes {name} here", now.op.span) for lane in (first, second)],
    )


def uninitialised(launch: LaunchFacts, memory: Memory, number: int, now: Access) -> TesseraError:
    """Report a read of shared memory that nothing has written."""
    name = element(memory, number)
    return catalog.UninitialisedRead(
        f"{_who(launch, now)} reads {name} here, which nothing has written",
        now.op.span,
        f"write all of {memory.name} first (shared memory does not start at 0), then tbarrier()",
    )


def out_of_bounds(launch: LaunchFacts, memory: Memory, index: Sequence[int], now: Access) -> TesseraError:
    """Report an index outside its array."""
    shape = memory.data.shape
    place = ", ".join(str(i) for i in index)
    words = memory.extents or shape
    parts = [f"{word} = {n}" if isinstance(word, str) else str(n) for word, n in zip(words, shape, strict=True)]
    size = f"{parts[0]} elements" if len(shape) == 1 else f"shape ({', '.join(parts)})"
    axis = next((k for k, (i, n) in enumerate(zip(index, shape, strict=True)) if not 0 <= i < n), 0)
    limit = f"< {words[axis]}" if index[axis] >= 0 else ">= 0"
    which = _named(launch, now.op, axis - len(shape)) or ("index" if len(shape) == 1 else f"index {axis}")
    instead = "the write does nothing" if now.writes else "the read gives 0"
    return catalog.OutOfBounds(
        f"{_who(launch, now)} {_verb(now)} {memory.name}[{place}], but {memory.name} has {size}",
        now.op.span,
        f"guard it: `if {which} {limit}:` (without the sanitizer {instead})",
    )


def _named(launch: LaunchFacts, op: Op, number: int) -> str:
    """Return the user's name for an index: the variable, or what stands in the brackets; "" for a number."""
    index = op.operands[number]
    if index.name:
        return index.name
    span = index.span
    outer = op.span
    if not (outer.line == span.line == span.end_line and outer.column < span.column <= span.end_column) or (
        span.file != launch.source.name
    ):
        return ""
    text = launch.source.line(span.line)[span.column - 1 : span.end_column - 1]
    return text if any(character.isalpha() for character in text) else ""


def divergent(op: Op, active: NDArray[np.bool_], branch: Op | None, what: str) -> TesseraError:
    """Report a barrier that only the lanes in `active` reach; `branch` is the statement that parted them."""
    notes: list[Note] = []
    if branch is not None:
        turn = "do not take this branch" if branch.opcode == "if" else "are no longer in this loop"
        others = lane_list(~active)
        notes.append(Note(f"{others} {turn if others.startswith('lanes') else _singular(turn)}", branch.span))
    return catalog.DivergentBarrier(
        f"only {lane_list(active)} of {len(active)} reach{'es' if active.sum() == 1 else ''} this {what}",
        op.span,
        f"move {what} to where every lane of the group comes by, e.g. after the `if`",
        notes,
    )


def _singular(turn: str) -> str:
    return turn.replace("do not take", "does not take").replace("are no longer", "is no longer")


def _lane_then_copy(before: Access, now: Access) -> bool:
    return now.agent == COPY and before.agent != COPY


def _in_flight(launch: LaunchFacts, name: str, now: Access, before: Access) -> TesseraError:
    does = "filling" if before.writes else "reading"
    who = "another copy" if now.agent == COPY else _who(launch, now)
    return catalog.CopyInFlight(
        f"{who} {_verb(now)} {name} here, while the copy may still be {does} it",
        now.op.span,
        "wait for the copy with tbarrier() first",
        [Note(f"the copy of {name} starts here", before.op.span)],
    )


def _note(launch: LaunchFacts, name: str, now: Access, before: Access) -> Note:
    when = " on an earlier trip of the loop" if now.op is before.op and now.group == before.group else ""
    return Note(f"{_who(launch, before)} {_verb(before)} {name} here{when}", before.op.span)


def _verb(access: Access) -> str:
    return "writes" if access.writes else "reads"


def _who(launch: LaunchFacts, access: Access) -> str:
    across = f" of group {access.group}" if launch.groups > 1 else ""
    if access.agent == COPY:
        return f"the copy{across}"
    if access.agent == GROUP:
        return f"group {access.group}" if across else "the group"
    return f"lane {access.agent}{across}"


def _of_group(launch: LaunchFacts, access: Access) -> str:
    return f" (group {access.group})" if launch.groups > 1 and access.agent != GROUP else ""
