"""A second reading of a Program of scalars: one lane at a time, each a coroutine that stops where lanes meet.

It knows no masks and no lock-step: a lane runs its own control flow until a barrier or a shuffle.  Of the lanes that
wait, those at the earliest place in the program go on together, which is what lock-step execution means.  Statements
that run once for the group are run by every lane, so programs must not read what such a statement writes.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np

from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.program.types import Array, Shared
from tessera.runtime.interpret.arithmetic import constant
from tessera.runtime.interpret.values import prepare

Place = tuple[int, ...]


@dataclass(frozen=True)
class Meeting:
    """A lane waits: at a barrier (`op` alone) or to exchange `value`."""

    place: Place
    op: Op
    value: Any = None
    amount: int = 0


@dataclass
class Lane:
    """One lane: its ids, what it shares with its group, and its own values."""

    lane: int
    group: int
    lanes: int
    groups: int
    symbols: Mapping[str, int]
    values: dict[Value, Any]
    shared: dict[Op, np.ndarray]

    def block(self, block: Block, arguments: Sequence[Any], place: Place) -> Generator[Meeting, Any, list[Any]]:
        self.values.update(zip(block.arguments, arguments, strict=True))
        for number, op in enumerate(block.ops):
            operands = [self.values[operand] for operand in op.operands]
            if op.opcode == "yield":
                return operands
            results = yield from self.operation(op, operands, (*place, number))
            self.values.update(zip(op.results, results, strict=True))
        return []

    def operation(self, op: Op, operands: list[Any], place: Place) -> Generator[Meeting, Any, list[Any]]:
        if op.opcode == "if":
            side = 0 if operands[0] else 1
            return (yield from self.block(op.regions[side], (), (*place, side)))
        if op.opcode == "for":
            return (yield from self.loop(op, operands, place))
        if op.opcode == "while":
            return (yield from self.repeat(op, operands, place))
        if op.opcode == "barrier":
            yield Meeting(place, op)
            return []
        if op.opcode == "shuffle":
            return [(yield Meeting(place, op, operands[0], int(operands[1])))]
        return self.simple(op, operands)

    def loop(self, op: Op, operands: list[Any], place: Place) -> Generator[Meeting, Any, list[Any]]:
        lower, upper, step, *carried = operands
        for trip, index in enumerate(range(int(lower), int(upper), int(step))):
            carried = yield from self.block(op.regions[0], (np.int64(index), *carried), (*place, trip))
        return carried

    def repeat(self, op: Op, operands: list[Any], place: Place) -> Generator[Meeting, Any, list[Any]]:
        trip = 0
        while True:
            go_on, *passed = yield from self.block(op.regions[0], operands, (*place, trip, 0))
            if not go_on:
                return passed
            operands = yield from self.block(op.regions[1], passed, (*place, trip, 1))
            trip += 1

    def simple(self, op: Op, operands: list[Any]) -> list[Any]:
        if op.opcode == "id":
            return [np.int64(self.identity(str(op.attributes["of"])))]
        if op.opcode == "dim":
            return [np.int64(self.symbols[str(op.attributes["symbol"])])]
        if op.opcode == "alloc":
            kind = op.result.type
            assert isinstance(kind, Shared)
            return [self.shared.setdefault(op, np.zeros(kind.shape, kind.dtype.numpy))]
        if op.opcode in ("read", "write"):
            memory, *rest = operands
            index = tuple(int(i) for i in (rest if op.opcode == "read" else rest[1:]))
            within = all(0 <= i < n for i, n in zip(index, memory.shape, strict=True))
            if op.opcode == "read":
                return [memory[index] if within else memory.dtype.type(0)]
            if within:
                memory[index] = rest[0]
            return []
        return [prepare(op)(*operands)]

    def identity(self, of: str) -> int:
        return {
            "lane": self.lane,
            "thread": self.group * self.lanes + self.lane,
            "group": self.group,
            "group_lanes": self.lanes,
            "grid_groups": self.groups,
            "lane_in_warp": self.lane % 32,
            "warp": self.lane // 32,
        }[of]


def run_lanes(program: Program, arguments: Sequence[Any], symbols: Mapping[str, int], groups: int) -> None:
    """Execute `program` in place on `arguments`; its group is explicit."""
    values = {
        p.value: a if isinstance(p.value.type, Array) else constant(a, p.value.type.dtype)
        for p, a in zip(program.parameters, arguments, strict=True)
    }
    lanes = prod(program.group or (1,))
    with np.errstate(all="ignore"):
        for group in range(groups):
            shared: dict[Op, np.ndarray] = {}
            workers = [Lane(lane, group, lanes, groups, symbols, dict(values), shared) for lane in range(lanes)]
            _run_group([worker.block(program.body, (), ()) for worker in workers])


def _run_group(coroutines: list[Generator[Meeting, Any, list[Any]]]) -> None:
    waiting: dict[int, Meeting] = {}
    answers: dict[int, Any] = dict.fromkeys(range(len(coroutines)))
    while answers:
        for lane, answer in answers.items():
            try:
                waiting[lane] = coroutines[lane].send(answer)
            except StopIteration:
                waiting.pop(lane, None)
        answers = {}
        if waiting:
            first = min(meeting.place for meeting in waiting.values())
            answers = _meet({lane: meeting for lane, meeting in waiting.items() if meeting.place == first})


def _meet(here: dict[int, Meeting]) -> dict[int, Any]:
    """What each lane takes from a meeting: nothing at a barrier, another lane's value at a shuffle."""
    answers: dict[int, Any] = {}
    for lane, meeting in here.items():
        answers[lane] = None
        if meeting.op.opcode == "shuffle":
            width = cast("int", meeting.op.attributes["width"])
            place, amount = lane % width, meeting.amount
            target = {"down": place + amount, "up": place - amount, "xor": place ^ amount, "idx": amount}
            wanted = target[str(meeting.op.attributes["mode"])]
            source = lane - place + wanted
            answers[lane] = here[source].value if 0 <= wanted < width and source in here else meeting.value
    return answers
