"""Random scalar programs as Tile IR, and what their values are in each lane: brute force for analyses to agree with."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from support.mlir import function
from tessera.core.mlir import AnyOp, ir
from tessera.lowering.base.ir_walk import body

LANES = 64
SOME_LANES = (0, 1, 31, 32, 63)
GROUPS = (0, 3)
EXTENTS = (0, 5, 48)
HEADER = """
  %lane = "tessera.id"() {of = "lane"} : () -> i64
  %in_warp = "tessera.id"() {of = "lane_in_warp"} : () -> i64
  %warp = "tessera.id"() {of = "warp"} : () -> i64
  %group = "tessera.id"() {of = "group"} : () -> i64
  %n = "tessera.dim"() {symbol = "n"} : () -> i64
"""
_IDS = ("lane", "in_warp", "warp", "group", "n")
_BINARY = ("addi", "subi", "muli", "minsi", "maxsi", "divui", "remui")
_PREDICATES = {0: int.__eq__, 1: int.__ne__, 2: int.__lt__, 3: int.__le__, 4: int.__gt__, 5: int.__ge__}

Key = tuple[int, tuple[int, ...]]
"""The place of a value, and the rounds of the loops around it."""


class WrappedError(Exception):
    """A number left 62 bits: analyses take arithmetic not to wrap."""


@dataclass
class _Writer:
    """Draws statements; `names` are the i64 values in scope."""

    draw: Callable[[st.SearchStrategy[int]], int]
    count: Iterator[int] = field(default_factory=itertools.count)

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def block(self, names: tuple[str, ...], statements: int, depth: int) -> tuple[list[str], tuple[str, ...]]:
        lines: list[str] = []
        for _ in range(statements):
            new, names = self.statement(names, depth)
            lines += new
        return lines, names

    def pick(self, names: tuple[str, ...]) -> str:
        return names[self.number(0, len(names) - 1)]

    def statement(self, names: tuple[str, ...], depth: int) -> tuple[list[str], tuple[str, ...]]:
        result, kind = f"v{next(self.count)}", self.number(0, 9 if depth else 6)
        a, b = self.pick(names), self.pick(names)
        if kind == 0:
            return [f"%{result} = arith.constant {self.number(-4, 64)} : i64"], (*names, result)
        if kind <= 3:
            name = _BINARY[self.number(0, len(_BINARY) - 1)]
            lines: list[str] = []
            if name in ("divui", "remui"):
                b = f"{result}_by"
                lines = [f"%{b} = arith.constant {(2, 3, 32)[self.number(0, 2)]} : i64"]
            return [*lines, f"%{result} = arith.{name} %{a}, %{b} : i64"], (*names, result)
        if kind == 4:
            return [
                f'%{result} = "tessera.read"(%x, %{a}) {{cache = "", in_bounds = array<i1: true>}} : (memref<?xi64>, i64) -> i64'
            ], (*names, result)
        condition = (
            f"%{result}_c = arith.cmpi {('eq', 'ne', 'slt', 'sle', 'sgt', 'sge')[self.number(0, 5)]}, %{a}, %{b} : i64"
        )
        c, d = self.pick(names), self.pick(names)
        if kind <= 6:
            return [condition, f"%{result} = arith.select %{result}_c, %{c}, %{d} : i64"], (*names, result)
        if kind == 7:
            yes, inside = self.block(names, 2, depth - 1)
            no, other = self.block(names, 1, depth - 1)
            lines = [
                condition,
                f"%{result} = scf.if %{result}_c -> i64 {{",
                *yes,
                f"scf.yield %{self.pick(inside)} : i64",
            ]
            return [*lines, "} else {", *no, f"scf.yield %{self.pick(other)} : i64", "}"], (*names, result)
        return self.loop(names, result, (a, b), depth)

    def loop(
        self, names: tuple[str, ...], result: str, ends: tuple[str, str], depth: int
    ) -> tuple[list[str], tuple[str, ...]]:
        six = [f"%{result}_six = arith.constant 6 : i64", f"%{result}_step = arith.constant {self.number(1, 4)} : i64"]
        six += [f"%{result}_low = arith.minsi %{ends[0]}, %{result}_six : i64"]
        six += [f"%{result}_top = arith.addi %{result}_low, %{result}_six : i64"]
        six += [f"%{result}_end = arith.minsi %{ends[1]}, %{result}_top : i64"]
        inner, inside = self.block((*names, f"{result}_i", f"{result}_a"), 3, depth - 1)
        head = f"%{result} = scf.for %{result}_i = %{result}_low to %{result}_end step %{result}_step"
        head += f" iter_args(%{result}_a = %{self.pick(names)}) -> (i64) : i64 {{"
        return [*six, head, *inner, f"scf.yield %{inside[-1]} : i64", "}"], (*names, result)


@st.composite
def scalar_programs(draw: Callable[[st.SearchStrategy[int]], int]) -> str:
    """The text of a module whose function computes i64 scalars, with branches and loops that carry values."""
    lines, _ = _Writer(draw).block(_IDS, 6, 2)
    return function(HEADER + "\n".join(lines) + "\nreturn", "%x: memref<?xi64>")


@dataclass(frozen=True)
class _Step:
    """One operation, read from the bindings once: its values are places in a list of numbers."""

    name: str
    operands: tuple[int, ...]
    result: int
    attribute: str | int | None
    blocks: tuple["_Steps", ...]


@dataclass(frozen=True)
class _Steps:
    arguments: tuple[int, ...]
    steps: tuple[_Step, ...]
    given: tuple[int, ...]


class Execution:
    """Runs the function of a scalar program lane by lane; `values` are its values, by their places."""

    def __init__(self, root: AnyOp) -> None:
        self._places: dict[ir.Value, int] = {}
        self._body = self._read(body(root))
        self.values = list(self._places)

    def _place(self, value: ir.Value) -> int:
        return self._places.setdefault(value, len(self._places))

    def _read(self, block: ir.Block) -> _Steps:
        arguments = tuple(self._place(v) for v in block.arguments)
        *operations, end = (view.operation for view in block.operations)
        steps = tuple(self._step(op) for op in operations)
        return _Steps(arguments, steps, tuple(self._place(v) for v in end.operands))

    def _step(self, op: AnyOp) -> _Step:
        operands = tuple(self._place(v) for v in op.operands)
        blocks = tuple(self._read(region.blocks[0]) for region in op.regions)
        return _Step(op.name, operands, self._place(op.results[0]), _attribute(op), blocks)

    def traces(self, lanes: Sequence[int]) -> Iterator[tuple[dict[str, int], dict[Key, int]]]:
        """Yield the ids, and the number of each value in each round, for these lanes in some groups and extents.

        Raises WrappedError where a number leaves 62 bits.
        """
        for group, extent, lane in itertools.product(GROUPS, EXTENTS, lanes):
            ids = {"lane": lane, "lane_in_warp": lane % 32, "warp": lane // 32, "group": group, "n": extent}
            run = _Lane(ids)
            run.block(self._body, ())
            yield ids, run.trace


def _attribute(op: AnyOp) -> str | int | None:
    for name in ("of", "symbol"):
        if name in op.attributes:
            return str(ir.StringAttr(op.attributes[name]).value)
    for name in ("value", "predicate"):
        if name in op.attributes:
            return int(ir.IntegerAttr(op.attributes[name]).value)
    return None


@dataclass
class _Lane:
    """One lane's run: `now` holds each value's latest number, `trace` those of every round."""

    ids: dict[str, int]
    trace: dict[Key, int] = field(default_factory=dict[Key, int])
    now: dict[int, int] = field(default_factory=dict[int, int])

    def set(self, place: int, number: int, path: tuple[int, ...]) -> None:
        if abs(number) >= 1 << 62:
            raise WrappedError
        self.now[place] = self.trace[place, path] = number

    def block(self, block: _Steps, path: tuple[int, ...]) -> list[int]:
        for step in block.steps:
            self.step(step, path)
        return [self.now[place] for place in block.given]

    def step(self, step: _Step, path: tuple[int, ...]) -> None:
        values = [self.now[place] for place in step.operands if place in self.now]
        if step.name == "scf.for":
            self.loop(step, values, path)
        elif step.name == "scf.if":
            (number,) = self.block(step.blocks[0 if values[0] else 1], path)
            self.set(step.result, number, path)
        else:
            self.set(step.result, self.simple(step, values), path)

    def loop(self, step: _Step, values: list[int], path: tuple[int, ...]) -> None:
        low, end, by, carried = values
        (block,) = step.blocks
        index, argument = block.arguments
        for turn, number in enumerate(range(low, end, by)):
            self.set(index, number, (*path, turn))
            self.set(argument, carried, (*path, turn))
            (carried,) = self.block(block, (*path, turn))
        self.set(step.result, carried, path)

    def simple(self, step: _Step, values: list[int]) -> int:
        match step.name:
            case "arith.constant":
                return int(step.attribute or 0)
            case "tessera.id" | "tessera.dim":
                return self.ids[str(step.attribute)]
            case "tessera.read":
                return values[0] * 7 % 11 - 5
            case "arith.cmpi":
                return int(_PREDICATES[int(step.attribute or 0)](*values))
            case "arith.select":
                return values[1] if values[0] else values[2]
            case _:
                return _ARITHMETIC[step.name](*values)


def _unsigned(a: int) -> int:
    return a % (1 << 64)


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "arith.addi": int.__add__,
    "arith.subi": int.__sub__,
    "arith.muli": int.__mul__,
    "arith.minsi": min,
    "arith.maxsi": max,
    "arith.divui": lambda a, b: _unsigned(a) // b,
    "arith.remui": lambda a, b: _unsigned(a) % b,
}
