"""Liveness, compared with runs of random programs: loops that repeat and branches that go either way."""

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from support.mlir import function, parse
from tessera.core.mlir import ir
from tessera.core.tile.dialect import shared_context
from tessera.lowering.analysis.ir_tree import IrTree, Node, read_function
from tessera.lowering.analysis.liveness import Liveness
from tessera.lowering.base.ir_walk import kernel

TILE = "tensor<4xf32>"
ATTRIBUTES = 'cache = "", dropped = array<i64>, extents = array<i64: 4>, in_bounds = array<i1: false>'
PARAMETERS = "%x: memref<?xf32>, %y: memref<?xf32>, %i: i64, %n: i64, %p: i1"
ROUNDS = 2


def load(name: str, memory: str = "x") -> str:
    return f'%{name} = "tessera.load"(%{memory}, %i) {{{ATTRIBUTES}}} : (memref<?xf32>, i64) -> {TILE}'


def store(value: str, memory: str = "x") -> str:
    return f'"tessera.store"(%{memory}, %{value}, %i) {{{ATTRIBUTES}}} : (memref<?xf32>, {TILE}, i64) -> ()'


def add(name: str, a: str, b: str) -> str:
    return f"%{name} = arith.addf %{a}, %{b} : {TILE}"


def exp(name: str, a: str) -> str:
    return f"%{name} = math.exp %{a} : {TILE}"


def loop(name: str, carried: str, start: str, given: str, *inside: str) -> str:
    head = f"%{name} = scf.for %{name}_i = %i to %n step %n iter_args(%{carried} = %{start}) -> ({TILE}) : i64 {{"
    return "\n".join((head, *inside, f"scf.yield %{given} : {TILE}", "}"))


def branch(name: str, yes: tuple[str, ...], a: str, no: tuple[str, ...], b: str) -> str:
    head = f"%{name} = scf.if %p -> {TILE} {{"
    return "\n".join((head, *yes, f"scf.yield %{a} : {TILE}", "} else {", *no, f"scf.yield %{b} : {TILE}", "}"))


def is_recomputed(node: Node) -> bool:
    return node.name in ("arith.addf", "tessera.load")


class Case:
    """A program, its operations, and its live ranges.

    loads: the loads of the array x
    writes: the stores to it
    """

    def __init__(self, *lines: str) -> None:
        self.module = parse(function("\n".join((*lines, "return")), PARAMETERS))
        self.tree = read_function(kernel(self.module))
        self.nodes = [inner for node in self.tree.nodes for inner in with_ends(node)]
        names = re.findall(r"%(\w+) = (?!%)(?:\"tessera|arith|math|scf)", "\n".join(lines))
        self.named = dict(zip(names, (node for node in self.nodes if node.results), strict=True))
        self.liveness = Liveness(self.tree, is_recomputed)
        self.stores = [node for node in self.nodes if node.name == "tessera.store"]
        self.loads = [node for node in self.nodes if node.name == "tessera.load"]
        self.writes = {node for node in self.stores if node.operands[0] == self.tree.arguments[0]}

    def node(self, name: str) -> Node:
        """The operation with the result `name`."""
        return self.named[name]

    def overwritten(self, load: Node, *, in_place: bool = False) -> bool:
        """Whether a store to x may come between `load` and a reader; `in_place` tells of stores that are readers."""
        return self.liveness.is_overwritten(load, self.liveness.positions(self.writes), lambda _: in_place)


def with_ends(node: Node) -> Iterator[Node]:
    """Yield an operation and all inside it, terminators too, in program order."""
    yield node
    for block in node.blocks:
        for inner in (*block.nodes, block.end):
            yield from with_ends(inner)


# -- brute force -------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Instance:
    """A value in one round of the loops around it, and the instances that are read when it is."""

    value: ir.Value
    made_of: tuple["Instance", ...]
    defined: int
    block: int

    def read(self) -> Iterator["Instance"]:
        yield self
        for other in self.made_of:
            yield from other.read()


@dataclass(frozen=True)
class Event:
    """One operation's turn: when it begins and ends, and the turn of the block that it stands in."""

    node: Node
    begin: int
    end: int
    block: int


class Run:
    """One run of a program: the turns of its operations, and when which of them read an instance."""

    def __init__(self, tree: IrTree, choose: Callable[[], bool]) -> None:
        self.events: list[Event] = []
        self.readings: list[tuple[Instance, Node, int]] = []
        self._choose = choose
        self._now: dict[ir.Value, Instance] = {}
        self._clock = itertools.count()
        self._blocks = itertools.count()
        self._block(tree)

    def _block(self, tree: IrTree) -> None:
        block = next(self._blocks)
        for value in tree.arguments:
            self._now[value] = Instance(value, (), next(self._clock), block)
        for node in (*tree.nodes, tree.end):
            self._node(node, block)

    def _node(self, node: Node, block: int) -> None:
        begin = next(self._clock)
        used = tuple(self._now[value] for value in node.operands)
        if not is_recomputed(node):
            self.readings += [(instance, node, begin) for one in used for instance in one.read()]
        if node.name == "scf.for":
            for _ in range(ROUNDS):
                self._block(node.blocks[0])
        elif node.name == "scf.if":
            self._block(node.blocks[0 if self._choose() else 1])
        end = next(self._clock)
        self.events.append(Event(node, begin, end, block))
        for value in node.results:
            self._now[value] = Instance(value, used if is_recomputed(node) else (), end, block)

    def read_after(self) -> set[tuple[ir.Value, Node]]:
        """The values that are read after an operation, with it."""
        return {
            (instance.value, event.node)
            for instance, _, time in self.readings
            for event in self.events
            if instance.defined <= event.begin and event.end < time
        }

    def read_after_last(self, last: Callable[[ir.Value], Node]) -> set[ir.Value]:
        """The values that are read after what is said to be their last use, in one turn of the block."""
        return {
            instance.value
            for instance, _, time in self.readings
            for event in self.events
            if event.block == instance.block and event.end < time and event.node is last(instance.value)
        }

    def overwritten(self, load: Node, writes: set[Node], *, in_place: bool) -> bool:
        """Whether one of `writes` is done between a turn of `load` and a reading of its result, or (not in place) is it."""
        return any(
            event.node in writes and instance.defined <= event.begin <= time and not (in_place and event.begin == time)
            for instance, _, time in self.readings
            for event in self.events
            if instance.value == load.results[0]
        )


@dataclass
class Writer:
    """Draws statements; `names` are the tiles in scope."""

    draw: Callable[[st.SearchStrategy[int]], int]
    branches: bool
    count: Iterator[int] = field(default_factory=itertools.count)

    def block(self, names: tuple[str, ...], statements: int, depth: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        lines: list[str] = []
        for _ in range(statements):
            line, name = self.statement(names, depth)
            lines.append(line)
            names = (*names, name) if name else names
        return tuple(lines), names

    def pick(self, names: tuple[str, ...]) -> str:
        return names[self.draw(st.integers(0, len(names) - 1))]

    def statement(self, names: tuple[str, ...], depth: int) -> tuple[str, str]:
        name, kind = f"v{next(self.count)}", self.draw(st.integers(0, 8 if depth else 6))
        a, b = self.pick(names), self.pick(names)
        match kind:
            case 0 | 1:
                return load(name), name
            case 2 | 3:
                return add(name, a, b), name
            case 4:
                return exp(name, a), name
            case 5 | 6:
                return store(a, "xy"[kind - 5]), ""
            case 7 if self.branches:
                yes, first = self.block(names, 2, depth - 1)
                no, second = self.block(names, 2, depth - 1)
                return branch(name, yes, self.pick(first), no, self.pick(second)), name
            case _:
                inside, last = self.block((*names, f"{name}_a"), 3, depth - 1)
                return loop(name, f"{name}_a", a, self.pick(last), *inside), name


@st.composite
def tile_programs(draw: Callable[[st.SearchStrategy[int]], int], *, branches: bool) -> tuple[str, ...]:
    """The lines of a program of loads, sums, exponentials, stores, loops, and (as a rule) branches."""
    return (load("v"), *Writer(draw, branches).block(("v",), 5, 2)[0])


@settings(max_examples=60, deadline=None)
@given(tile_programs(branches=True), st.randoms(use_true_random=False))
def test_nothing_that_a_run_reads_is_missed(lines: tuple[str, ...], random: Random):
    with shared_context():
        case = Case(*lines)
        one = Run(case.tree, lambda: random.random() < 0.5)
        assert all(case.liveness.is_read_after(value, node) for value, node in one.read_after())
        assert one.read_after_last(case.liveness.last_use) == set()
        for found, in_place in itertools.product(case.loads, (True, False)):
            if one.overwritten(found, case.writes, in_place=in_place):
                assert case.overwritten(found, in_place=in_place)


@settings(max_examples=60, deadline=None)
@given(tile_programs(branches=False))
def test_without_branches_the_answers_are_exact(lines: tuple[str, ...]):
    with shared_context():
        case = Case(*lines)
        one = Run(case.tree, lambda: True)
        read_after, readings = one.read_after(), {(instance.value, node) for instance, node, _ in one.readings}
        for number, origin in enumerate(case.nodes):
            for value, node in itertools.product(origin.results, case.nodes[number + 1 :]):
                inside = node in set(with_ends(origin))
                assert inside or case.liveness.is_read_after(value, node) == ((value, node) in read_after)
            for value in origin.results:
                readers = case.liveness.readers(value)
                assert {(value, node) for node in readers} == {pair for pair in readings if pair[0] == value}
                last = set(with_ends(case.liveness.last_use(value)))
                assert last.intersection(readers) if readers else last == set(with_ends(origin))
        for found, in_place in itertools.product(case.loads, (True, False)):
            assert case.overwritten(found, in_place=in_place) == one.overwritten(found, case.writes, in_place=in_place)


# -- single questions --------------------------------------------------------------------------------------------


def test_a_tile_lives_until_what_is_recomputed_from_it_is_read():
    case = Case(load("a"), add("b", "a", "a"), exp("c", "b"), store("c"))
    assert case.liveness.readers(case.node("a").results[0]) == (case.node("c"),)
    assert case.liveness.last_use(case.node("a").results[0]) is case.node("c")
    assert case.liveness.last_use(case.node("c").results[0]) is case.stores[0]


def test_a_value_read_in_a_loop_is_read_after_all_in_the_loop():
    case = Case(load("a"), exp("b", "a"), loop("r", "t", "b", "t", exp("d", "b"), store("t", "y")), store("r"))
    inside, value = case.stores[0], case.node("b").results[0]
    assert case.liveness.is_read_after(value, inside)
    assert not case.liveness.is_read_after(value, case.node("r"))
    assert case.liveness.last_use(value) is case.node("r")


def test_a_store_in_place_is_its_own_last_reader():
    case = Case(load("a"), add("b", "a", "a"), store("b"))
    assert case.overwritten(case.node("a"))
    assert not case.overwritten(case.node("a"), in_place=True)
    other = Case(load("a"), store("a", "y"), store("a", "y"))
    assert not other.overwritten(other.node("a"))


def test_what_is_read_outside_of_operations():
    case = Case(load("a"), exp("b", "a"), branch("r", (exp("c", "b"),), "c", (), "b"), store("b", "y"))
    value, choice, last = case.node("b").results[0], case.node("r"), case.stores[0]
    assert case.liveness.is_read_outside(value, {choice})
    assert not case.liveness.is_read_outside(value, {choice, last})
    assert not case.liveness.is_read_outside(value, {choice}, known=last)
