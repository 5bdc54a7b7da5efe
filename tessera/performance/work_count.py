"""How much work a launch is: bytes and floating-point operations of every group, counted on the Program.

Counted, not measured.  Index arithmetic is evaluated for all groups and all iterations at once: each loop, and each
axis of the grid, is a dimension of its own, so that what is cut off at the edge of an array, a loop that is shorter in
some groups, and a branch on an index are counted as they happen.  What cannot be known without running (a branch on
data, the length of a `while`) is assumed, and `Work.notes` says how.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tessera.core.program.dependences import Dependences
from tessera.core.program.expressions import evaluate as evaluate_length
from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.program.spec import BINARY, UNARY
from tessera.core.program.types import Array, Scalar, Tile
from tessera.core.work import Dot, Numbers, Shape, Work
from tessera.performance.index_evaluation import NUMERIC, Table, combine, evaluate, inside
from tessera.performance.iteration_space import LaunchSpace

_SPECIAL: Final = frozenset(("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "tanh", "erf", "pow"))
_OPERANDS: Final = {"write": (0, 2), "store": (0, 2), "copy": (1, 2)}
"""Which operand of an access the memory is, and the first of the starts; of reads 0 and 1."""
_ARITHMETIC: Final = (frozenset(BINARY) | frozenset(UNARY) | {"fma"}) - _SPECIAL - {"and", "or", "xor", "not"}
_LANE_IDS: Final = ("lane", "thread", "lane_in_warp", "warp")
_SOFTMAX: Final = 4
"""Operations of a softmax an element, its exponential not counted: largest, difference, sum, product."""
BRANCHES: Final = "branches whose condition is not known before the launch are counted as taken"
LENGTHS: Final = "loops whose length is not known before the launch are counted as one turn"
EVEN: Final = "the launch's work is divided evenly among its groups"


def spread_loops(program: Program) -> tuple[Op, ...]:
    """Return the loops whose iterations can each be a group, outer first: perfectly nested tile loops."""
    loops: list[Op] = []
    block = program.body
    while (loop := _only_loop(block)) is not None:
        loops.append(loop)
        block = loop.regions[0]
    return tuple(loops)


def _only_loop(block: Block) -> Op | None:
    effects = [op for op in block.ops if op.opcode in ("for", "if", "while", "write", "store", "copy", "barrier", "id")]
    if len(effects) != 1 or effects[0].opcode != "for":
        return None
    (loop,) = effects
    return loop if loop.attributes.get("kind") == "tile" and not loop.results else None


def count_work(program: Program, shape: Shape) -> Work:
    """Return the work of a launch of `program`."""
    return _Counter(program, shape).run()


@dataclass(slots=True)
class _Context:
    """The position of the count in the kernel: the loops around it, its masks, and whether lanes differ in it."""

    dims: tuple[int, ...] = ()
    masks: tuple[Table, ...] = ()
    varying: bool = False


@dataclass(slots=True)
class _Tally:
    """Sums so far; the arrays have one axis a dimension of the grid."""

    read: Numbers
    written: Numbers
    flops: Numbers
    by_kind: dict[str, float] = field(default_factory=dict[str, float])
    elements: dict[tuple[int, bool], float] = field(default_factory=dict[tuple[int, bool], float])
    steps: float = 0.0


class _Counter:
    """Walks one program."""

    def __init__(self, program: Program, shape: Shape) -> None:
        self.program, self.shape = program, shape
        self.numbers: dict[Value, Table] = {}
        self.varying: set[Value] = set()
        self.notes: dict[str, None] = {}
        self.dots: dict[Dot, None] = {}
        self.parameters = {p.value: number for number, p in enumerate(program.parameters)}
        self.spread = spread_loops(program)[: shape.ranges]
        self.has_lanes = shape.lanes > 1 and any(
            op.opcode == "id" and op.attributes["of"] in _LANE_IDS for op in program.body.walk()
        )
        dependences = Dependences(program)
        trips = [self._trips(loop, dependences) for loop in self.spread]
        self.space = LaunchSpace(shape, trips, lanes=self.has_lanes, group=program.group or (1,))
        self.tally = _Tally(self.space.zeros(), self.space.zeros(), self.space.zeros())

    def run(self) -> Work:
        """Count everything."""
        self._block(self.program.body, _Context())
        tally = self.tally
        read, written, flops = (self._per_group(values) for values in (tally.read, tally.written, tally.flops))
        sizes = {n: self._bytes(p.value) for n, p in enumerate(self.program.parameters) if _is_array(p.value)}
        least = [
            sum(min(count, sizes[n]) for (n, writes), count in tally.elements.items() if writes is wanted)
            for wanted in (False, True)
        ]
        dots, notes = tuple(self.dots), tuple(self.notes)
        return Work(read, written, flops, tally.by_kind, least[0], least[1], tally.steps, dots, notes)

    def _per_group(self, values: Numbers) -> Numbers:
        """Return one number a group, in order."""
        flat = self.space.per_group(values)
        if flat.size == self.shape.groups:
            return flat
        self.notes[EVEN] = None
        return np.full(self.shape.groups, flat.sum() / max(1, self.shape.groups))

    def _bytes(self, value: Value) -> float:
        kind = value.type
        assert isinstance(kind, Array)
        return float(math.prod(self._extent(e) for e in kind.shape) * kind.dtype.bytes)

    def _extent(self, extent: int | str) -> int:
        return extent if isinstance(extent, int) else self.shape.extents[extent]

    def _trips(self, loop: Op, dependences: Dependences) -> int:
        """Return the trips of a loop whose length is an expression of extents."""
        length, step = dependences.length(loop), dependences.definitions.constant(loop.operands[2])
        if length is None or step is None:
            return 1
        return max(0, -(-evaluate_length(length, self.shape.extents.__getitem__) // step))

    # -- operations ------------------------------------------------------------------------------------------------

    def _block(self, block: Block, context: _Context | None) -> None:
        for op in block.ops:
            handler = _HANDLERS.get(op.opcode)
            if handler is not None:
                handler(self, op, context or _Context())
            elif context is not None:
                self._plain(op, context)
            if any(value in self.varying for value in op.operands):
                self.varying.update(op.results)

    def _plain(self, op: Op, context: _Context) -> None:
        """Count arithmetic on scalars and tiles."""
        evaluate(op, self.numbers)
        if not op.results:
            return
        kind = op.results[0].type
        if isinstance(kind, Tile):
            self.tally.steps += self._sum(context)
        if not isinstance(kind, Scalar | Tile) or kind.dtype.kind != "float":
            return
        elements = math.prod(kind.shape) if isinstance(kind, Tile) else 1
        if op.opcode in _SPECIAL:
            self._flops(op, context, "special", elements)
        elif op.opcode in _ARITHMETIC:
            self._flops(op, context, kind.dtype.name, elements * (2 if op.opcode == "fma" else 1))

    def _reduce(self, op: Op, context: _Context) -> None:
        kind = op.operands[0].type
        self.tally.steps += self._sum(context)
        if isinstance(kind, Tile) and kind.dtype.kind == "float":
            self._flops(op, context, kind.dtype.name, math.prod(kind.shape))

    def _softmax(self, op: Op, context: _Context) -> None:
        kind = op.result.type
        assert isinstance(kind, Tile)
        elements = math.prod(kind.shape)
        self.tally.steps += self._sum(context)
        self._flops(op, context, "special", elements)
        self._flops(op, context, kind.dtype.name, _SOFTMAX * elements)

    def _dot(self, op: Op, context: _Context) -> None:
        left, right = op.operands[0].type, op.operands[1].type
        assert isinstance(left, Tile)
        assert isinstance(right, Tile)
        kind = str(op.attributes.get("compute", left.dtype.name))
        dot = Dot(left.shape[0], right.shape[1], left.shape[1], kind)
        self.dots[dot] = None
        self.tally.steps += self._sum(context)
        self._flops(op, context, f"dot {dot.dtype}", 2 * dot.m * dot.n * dot.k)

    def _flops(self, op: Op, context: _Context, kind: str, amount: int) -> None:
        per_group = amount * self._counts(context, (), lanes=self._differs(op, context))
        self.tally.flops += per_group
        self.tally.by_kind[kind] = self.tally.by_kind.get(kind, 0.0) + float(per_group.sum())

    def _differs(self, op: Op, context: _Context) -> bool:
        return context.varying or any(value in self.varying for value in (*op.operands, *op.results))

    # -- memory ----------------------------------------------------------------------------------------------------

    def _access(self, op: Op, context: _Context) -> None:
        """read, write, load, gather, store, copy: bytes inside the array."""
        writes = op.opcode in ("write", "store")
        tile = op.opcode in ("load", "gather", "store", "copy")
        place, skipped = _OPERANDS.get(op.opcode, (0, 1))
        memory, starts = op.operands[place], op.operands[skipped:]
        if tile:
            self.tally.steps += self._sum(context)
        kind, number = memory.type, self.parameters.get(memory)
        if not isinstance(kind, Array) or number is None:
            return
        given = op.attributes.get("extents")
        extents = given if tile and isinstance(given, tuple) else (1,) * len(kind.shape)
        constant, masks = float(kind.dtype.bytes), list[Table]()
        for start, window, extent in zip(starts, extents, kind.shape, strict=True):
            assert isinstance(window, int)
            within = inside(self.numbers.get(start), window, self._extent(extent))
            if isinstance(within, int):
                constant *= within
            else:
                masks.append(within)
        lanes = not tile and self._differs(op, context)
        per_group = constant * self._counts(context, tuple(masks), lanes=lanes)
        if writes:
            self.tally.written += per_group
        else:
            self.tally.read += per_group
        key = (number, writes)
        self.tally.elements[key] = self.tally.elements.get(key, 0.0) + float(per_group.sum())
        if not writes and (kind.dtype.kind != "float" or not tile):
            self._unknown(op)

    def _unknown(self, op: Op) -> None:
        """Note a value from memory: it may differ between lanes where its place does."""
        if any(value in self.varying for value in op.operands):
            self.varying.update(op.results)

    # -- control ---------------------------------------------------------------------------------------------------

    def _for(self, op: Op, context: _Context) -> None:
        block = op.regions[0]
        index, carried = block.arguments[0], block.arguments[1:]
        varies = any(value in self.varying for value in op.operands[:3])
        if varies:
            self.varying.add(index)
        if self.has_lanes:
            self.varying.update(carried)
            self.varying.update(op.results)
        if op in self.spread:
            dim = self.space.grid[self.spread.index(op)]
            lower, step = (self.numbers.get(op.operands[place]) for place in (0, 2))
            if lower is not None and step is not None and not (lower.dims or step.dims):
                table = self.space.along(dim, int(step.values), int(lower.values))
                if table is not None:
                    self.numbers[index] = table
            self._block(block, context)
            return
        dim, masks = self._iterate(op, index)
        dims = context.dims if dim is None else (*context.dims, dim)
        self._block(block, _Context(dims, (*context.masks, *masks), context.varying or varies))

    def _iterate(self, op: Op, index: Value) -> tuple[int | None, tuple[Table, ...]]:
        """Return the dimension of a loop, and the masks of the trips that some groups or lanes do not take."""
        bounds = [self.numbers.get(value) for value in op.operands[:3]]
        lower, upper, step = bounds
        if lower is None or upper is None or step is None or (step.values <= 0).any():
            self.notes[LENGTHS] = None
            return None, ()
        span = combine(lambda high, low: np.maximum(high - low, 0), upper, lower)
        trips = combine(lambda length, by: -(-length // by), span, step) if span is not None else None
        if trips is None:
            self.notes[LENGTHS] = None
            return None, ()
        longest = int(trips.values.max(initial=0))
        dim = self.space.dimension(longest)
        along = self.space.along(dim)
        moved = None if along is None else combine(np.multiply, along, step)
        found = None if moved is None else combine(np.add, lower, moved)
        if found is not None:
            self.numbers[index] = found
        if not trips.dims or along is None:
            return dim, ()
        mask = combine(lambda trip, count: (trip < count).astype(np.int64), along, trips)
        return dim, () if mask is None else (mask,)

    def _if(self, op: Op, context: _Context) -> None:
        condition = op.operands[0]
        varies = context.varying or condition in self.varying
        table = self.numbers.get(condition)
        if varies:
            self.varying.update(op.results)
        if table is None:
            if self.has_lanes and condition in self.varying and self._guards(condition):
                pass  # `if i < n` with more lanes than a table holds: true of all lanes that a launch has
            else:
                self.notes[BRANCHES] = None
            self._block(op.regions[0], _Context(context.dims, context.masks, varies))
            return
        taken = Table(table.dims, table.values.astype(np.int64))
        for region, mask in zip(op.regions, (taken, Table(table.dims, 1 - taken.values)), strict=False):
            self._block(region, _Context(context.dims, (*context.masks, mask), varies))

    def _guards(self, condition: Value) -> bool:
        """Return whether a condition only compares what is computed from ids and extents."""
        known = {v for op in self.program.body.walk() if op.opcode in ("id", "dim", "const") for v in op.results}
        pending, makers = [condition], {v: op for op in self.program.body.walk() for v in op.results}
        while pending:
            value = pending.pop()
            if value in known:
                continue
            maker = makers.get(value)
            if maker is None or (maker.opcode not in NUMERIC and maker.opcode not in ("cmp", "and", "cast")):
                return False
            pending += maker.operands
        return True

    def _while(self, op: Op, context: _Context) -> None:
        self.notes[LENGTHS] = None
        if self.has_lanes:
            for region in op.regions:
                self.varying.update(region.arguments)
            self.varying.update(op.results)
        for region in op.regions:
            self._block(region, context)

    # -- numbers ---------------------------------------------------------------------------------------------------

    def _id(self, op: Op, _: _Context) -> None:
        of, axis = op.attributes["of"], op.attributes.get("axis")
        if of in _LANE_IDS and self.has_lanes:
            self.varying.add(op.result)
        table = self.space.identify(str(of), axis if isinstance(axis, int) else None)
        if table is not None:
            self.numbers[op.result] = table

    def _const(self, op: Op, _: _Context) -> None:
        value = op.attributes["value"]
        if isinstance(value, int):
            self.numbers[op.result] = Table((), np.asarray(int(value)))

    def _dim(self, op: Op, _: _Context) -> None:
        self.numbers[op.result] = Table((), np.asarray(self.shape.extents[str(op.attributes["symbol"])]))

    # -- sums ------------------------------------------------------------------------------------------------------

    def _sum(self, context: _Context) -> float:
        return float(self._counts(context, (), lanes=False).sum())

    def _counts(self, context: _Context, masks: Sequence[Table], *, lanes: bool) -> Numbers:
        """Count how often something happens in each group, each time under `masks`."""
        return self.space.counts(context.dims, (*context.masks, *masks), lanes=lanes)


def _is_array(value: Value) -> bool:
    return isinstance(value.type, Array)


_HANDLERS: Final[Mapping[str, Callable[[_Counter, Op, _Context], None]]] = {
    name: getattr(_Counter, f"_{method}")
    for name, method in {
        **dict.fromkeys(("read", "write", "load", "gather", "store", "copy"), "access"),
        "for": "for", "if": "if", "while": "while", "id": "id", "const": "const", "dim": "dim",
        "dot": "dot", "reduce": "reduce", "softmax": "softmax",
    }.items()
}  # fmt: skip
