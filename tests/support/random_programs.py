"""Random valid Programs: arithmetic of every dtype, masks, nested control flow, shared memory, barriers, shuffles.

Every program is deterministic and free of races by construction, so that all targets must agree on every bit:

* inputs are only read, at any index, outside as well; each lane writes its own element of the outputs, `out_<dtype>`
* shared buffers are written through a rotation of the lanes, and read between the barriers around that
* uniform results go to the group's own element of `group_out`; tiles to the group's own part of `tile_out`
* no operation on floats is left to the math library: the allowed ones are exact or rounded correctly
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from hypothesis import strategies as st
from hypothesis.vendor.pretty import RepresentationPrinter

from support.interpret_programs import Writer
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, i8, i16, i32, i64, u8, u32
from tessera.core.program.program import Domain, Program, Value
from tessera.core.program.text import to_text
from tessera.core.program.types import Array

DTYPES = (f32, f64, f16, bf16, i64, i32, i16, i8, u32, u8)
FLOAT_OPS = ("add", "sub", "mul", "div", "min", "max")
INTEGER_OPS = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "and", "or", "xor", "shl", "shr")
TILE = 40

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class Case:
    """A program, its launch, and a maker of fresh arguments (the same ones each time)."""

    program: Program
    groups: int
    lanes: int
    symbols: dict[str, int]
    arguments: Callable[[], list[Any]]

    def __repr__(self) -> str:
        return f"{self.groups} groups of {self.lanes} lanes, {self.symbols}\n{to_text(self.program)}"

    def _repr_pretty_(self, printer: RepresentationPrinter, _: bool) -> None:
        """What Hypothesis prints of a failing case."""
        printer.text(repr(self))


@dataclass
class Maker:
    """Builds one program from a stream of choices; `pool` holds the values in scope, varying and uniform apart."""

    draw: Callable[[Any], Any]
    lanes: int
    tiles: bool
    inside: bool
    writer: Writer = field(default_factory=lambda: Writer("random"))
    pool: dict[tuple[DType, bool], list[Value]] = field(default_factory=dict[tuple[DType, bool], list[Value]])
    inputs: dict[DType, Value] = field(default_factory=dict[DType, Value])
    outputs: dict[DType, Value] = field(default_factory=dict[DType, Value])

    # -- choices -------------------------------------------------------------------------------------------------

    def pick(self, options: Sequence[T]) -> T:
        return self.draw(st.sampled_from(list(options)))

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def add(self, value: Value, varying: bool) -> Value:
        self.pool.setdefault((value.type.dtype, varying), []).append(value)
        return value

    def value(self, dtype: DType, uniform: bool = False) -> tuple[Value, bool]:
        """A value in scope of that dtype, or a new constant; and whether it varies."""
        candidates = [(v, varying) for varying in ((False,) if uniform else (True, False))
                      for v in self.pool.get((dtype, varying), ())]  # fmt: skip
        if not candidates or self.number(0, 7) == 0:
            return self.constant(dtype), False
        return self.pick(candidates[-8:])

    def constant(self, dtype: DType) -> Value:
        if dtype.is_float:
            return self.writer.const(self.pick((0.0, 1.0, -1.5, 0.1, 3.0, 1e4, -(2.0**-20))), dtype)
        if dtype == boolean:
            return self.writer.const(self.pick((True, False)), dtype)
        low = 0 if dtype.kind == "uint" else -3
        return self.writer.const(self.number(low, 100), dtype)

    def scoped(self, build: Callable[[], tuple[Value, ...]]) -> tuple[Value, ...]:
        """Build inside a region: what is made there is out of scope afterwards."""
        before = {key: list(values) for key, values in self.pool.items()}
        results = build()
        self.pool = before
        return results

    # -- straight-line code --------------------------------------------------------------------------------------

    def arithmetic(self) -> None:
        dtype = self.pick(DTYPES)
        a, va = self.value(dtype)
        b, vb = self.value(dtype)
        self.add(self.writer.value(self.pick(FLOAT_OPS if dtype.is_float else INTEGER_OPS), a, b), va or vb)

    def unary(self) -> None:
        dtype = self.pick(DTYPES)
        a, varying = self.value(dtype)
        opcode = self.pick(("neg", "abs", "floor", "ceil") if dtype.is_float else ("neg", "not", "abs"))
        if opcode in ("neg", "abs") and dtype.kind == "uint":
            opcode = "not"
        self.add(self.writer.value(opcode, a), varying)

    def fused(self) -> None:
        dtype = self.pick((f32, f64, f16))
        picked = [self.value(dtype) for _ in range(3)]
        self.add(self.writer.value("fma", *[v for v, _ in picked]), any(varying for _, varying in picked))

    def convert(self) -> None:
        a, varying = self.value(self.pick((*DTYPES, boolean)))
        to = self.pick([d for d in (*DTYPES, boolean) if d != a.type.dtype])
        self.add(self.writer.cast(a, to), varying)

    def compare(self) -> None:
        dtype = self.pick(DTYPES)
        a, va = self.value(dtype)
        b, vb = self.value(dtype)
        self.add(self.writer.compare(self.pick(("lt", "le", "gt", "ge", "eq", "ne")), a, b), va or vb)

    def choose(self) -> None:
        condition, vc = self.value(boolean)
        dtype = self.pick(DTYPES)
        a, va = self.value(dtype)
        b, vb = self.value(dtype)
        self.add(self.writer.select(condition, a, b), va or vb or vc)

    def read(self) -> None:
        index, varying = self.index()
        self.add(self.writer.read(self.inputs[self.pick(tuple(self.inputs))], index), varying)

    def index(self, uniform: bool = False) -> tuple[Value, bool]:
        """An index of an input: always inside, or modulo a little more than the lanes."""
        value, varying = self.value(i64, uniform)
        if self.inside:
            return self.writer.value("mod", value, self.writer.dim("n")), varying
        return self.writer.value("mod", value, self.writer.const(self.lanes + self.number(0, 2))), varying

    def shuffle(self) -> None:
        value, varying = self.value(self.pick(DTYPES))
        width = self.pick((32, 16, 8, 2))
        mode = self.pick(("down", "up", "xor", "idx"))
        amount = self.writer.const(self.number(0, width))
        self.add(self.writer.shuffle(value, amount, mode, width), varying)

    def write(self) -> None:
        """The lane's own element of an output: under masks too."""
        out = self.outputs[self.pick(tuple(self.outputs))]
        value, _ = self.value(out.type.dtype)
        self.writer.write(out, value, self.writer.id("thread"))

    # -- control flow ----------------------------------------------------------------------------------------------

    def branch(self, depth: int, uniform: bool) -> None:
        condition, varying = self.value(boolean, uniform)
        dtypes = [self.pick(DTYPES) for _ in range(self.number(0, 2))]
        made: list[bool] = []

        def side() -> tuple[Value, ...]:
            def build() -> tuple[Value, ...]:
                self.statements(depth + 1, self.number(1, 3), uniform and not varying)
                chosen = [self.value(dtype) for dtype in dtypes]
                made.extend(v for _, v in chosen)
                return tuple(v for v, _ in chosen)

            return self.scoped(build)

        for result in self.writer.branch(condition, side, side):
            self.add(result, varying or any(made))

    def loop(self, depth: int, uniform: bool) -> None:
        bound, varying = self.value(i64, uniform)
        if varying or self.number(0, 1):
            upper = self.writer.value("mod", bound, self.writer.const(self.number(2, 5)))
        else:
            upper = self.writer.const(self.number(0, 4))
        bounds = (self.writer.const(self.number(0, 1)), upper, self.writer.const(self.number(1, 2)))
        carried = [self.value(self.pick(DTYPES)) for _ in range(self.number(1, 2))]

        def body(index: Value, inside: tuple[Value, ...]) -> tuple[Value, ...]:
            def build() -> tuple[Value, ...]:
                self.add(index, varying=False)
                for value in inside:
                    self.add(value, varying=True)
                self.statements(depth + 1, self.number(1, 3), uniform and not varying)
                return tuple(self.value(value.type.dtype)[0] for value in inside)

            return self.scoped(build)

        for result in self.writer.trips(bounds, tuple(v for v, _ in carried), body):
            self.add(result, varying=True)

    def repeat(self, depth: int) -> None:
        """A `while` that counts a lane's own number down to nothing."""
        start, _ = self.value(i64)
        count = self.writer.value("mod", start, self.writer.const(4))
        passenger, _ = self.value(self.pick(DTYPES))

        def condition(values: tuple[Value, ...]) -> Value:
            return self.writer.compare("gt", values[0], self.writer.const(0))

        def body(values: tuple[Value, ...]) -> tuple[Value, ...]:
            def build() -> tuple[Value, ...]:
                for value in values:
                    self.add(value, varying=True)
                self.statements(depth + 1, self.number(1, 2), uniform=False)
                less = self.writer.value("sub", values[0], self.writer.const(1))
                return less, self.value(values[1].type.dtype)[0]

            return self.scoped(build)

        for result in self.writer.repeat((count, passenger), condition, body):
            self.add(result, varying=True)

    # -- shared memory, only where the whole group comes by --------------------------------------------------------

    def exchange(self) -> None:
        """Each lane writes one element, through a rotation; after the barrier everyone reads anywhere."""
        writer, dtype = self.writer, self.pick(DTYPES)
        buffer = writer.alloc(dtype, self.lanes, name="s")
        extent = writer.const(self.lanes)
        place = writer.value("add", writer.id("lane"), writer.const(self.number(0, self.lanes)))
        writer.write(buffer, self.value(dtype)[0], writer.value("mod", place, extent))
        writer.barrier()
        for _ in range(self.number(1, 2)):
            value, varying = self.value(i64)
            self.add(writer.read(buffer, writer.value("mod", value, extent)), varying)
        if self.tiles and self.number(0, 1) and dtype in (f32, i32, f64):
            tile = writer.load(buffer, [writer.const(0)], [self.lanes])
            self.add(writer.reduce(tile, self.pick(("sum", "max", "min"))), varying=False)
        writer.barrier()

    def asynchronous(self) -> None:
        """A copy into shared memory, waited for, then read anywhere."""
        writer = self.writer
        dtype = self.pick(tuple(self.inputs))
        buffer = writer.alloc(dtype, TILE, name="c")
        start, _ = self.index(uniform=True)
        writer.copy(buffer, self.inputs[dtype], [start], [TILE])
        writer.barrier()
        value, varying = self.value(i64)
        self.add(writer.read(buffer, writer.value("mod", value, writer.const(TILE))), varying)
        writer.barrier()

    def statements(self, depth: int, count: int, uniform: bool) -> None:
        """`uniform`: every lane of the group comes here, so barriers are allowed."""
        simple = [
            self.arithmetic,
            self.unary,
            self.convert,
            self.compare,
            self.choose,
            self.read,
            self.write,
            self.fused,
        ]
        simple.append(self.shuffle)
        nested: list[Callable[[], None]] = []
        if depth < 3:
            nested = [
                lambda: self.branch(depth, uniform),
                lambda: self.loop(depth, uniform),
                lambda: self.repeat(depth),
            ]
        together = [self.exchange] if uniform else []
        together += [self.asynchronous] if uniform and self.tiles else []
        for _ in range(count):
            self.pick([*simple, *nested, *together])()


@st.composite
def cases(draw: st.DrawFn, *, tiles: bool = True, inside: bool = False) -> Case:
    """A random kernel with its launch.

    `tiles=False` keeps to scalars, for `lane_by_lane`; `inside=True` keeps every index inside, for the sanitizer.
    """
    lanes, groups = draw(st.sampled_from((1, 8, 32, 48, 64))), draw(st.integers(1, 3))
    maker = Maker(draw, lanes, tiles, inside)
    writer = maker.writer
    read_dtypes = draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=2, unique=True))
    written = draw(st.lists(st.sampled_from(DTYPES), min_size=1, max_size=2, unique=True))
    maker.inputs = {dtype: writer.array(f"in_{dtype}", dtype, "n") for dtype in read_dtypes}
    maker.outputs = {dtype: writer.array(f"out_{dtype}", dtype, "m", mutable=True) for dtype in written}
    group_out = writer.array("group_out", i64, "groups", mutable=True)
    tile_out = writer.array("tile_out", f32, "groups", TILE, mutable=True)
    for of, varying in (("lane", True), ("thread", True), ("warp", True), ("group", False)):
        maker.add(writer.id(of), varying)
    maker.add(writer.dim("n"), varying=False)
    maker.add(writer.compare("lt", writer.id("lane"), writer.const(draw(st.integers(0, lanes)))), varying=True)
    maker.statements(0, draw(st.integers(3, 10)), uniform=True)
    maker.write()
    writer.write(group_out, maker.value(i64, uniform=True)[0], writer.id("group"))
    if tiles:
        _tile_part(maker, tile_out)
    program = writer.program(domain=Domain("lanes", ("m",)), group=(lanes,))
    extents = {
        "n": draw(st.integers(1, lanes + 3)),
        "m": lanes * groups - (0 if inside else draw(st.integers(0, lanes // 2))),
    }
    symbols = {**extents, "groups": groups}
    seed = draw(st.integers(0, 2**16))
    return Case(program, groups, lanes, symbols, lambda: _arguments(program, symbols, seed))


def _tile_part(maker: Maker, tile_out: Value) -> None:
    """Uniform tile code at the end: masked loads, element-wise arithmetic, a reduction, a small product."""
    writer = maker.writer
    dtype = maker.pick(tuple(maker.inputs))
    start, _ = maker.index(uniform=True)
    tile = (
        writer.cast(writer.load(maker.inputs[dtype], [start], [TILE]), f32)
        if dtype != f32
        else writer.load(maker.inputs[dtype], [start], [TILE])
    )
    scale, _ = maker.value(f32, uniform=True)
    tile = writer.value(maker.pick(FLOAT_OPS), tile, writer.full(scale, TILE))
    if maker.number(0, 1):
        left = writer.reshape(tile, 8, 5)
        square = writer.dot(left, writer.transpose(left, 1, 0))
        edge = writer.reshape(writer.reduce(square, maker.pick(("sum", "max", "min")), axis=maker.number(0, 1)), 8, 1)
        tile = writer.reshape(writer.value("add", left, writer.broadcast(edge, 8, 5)), TILE)
    zero = writer.const(0)
    writer.store(tile_out, tile, [writer.id("group"), zero], [1, TILE], dropped=(0,))


def _arguments(program: Program, symbols: dict[str, int], seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    arguments: list[Any] = []
    for parameter in program.parameters:
        kind = parameter.value.type
        assert isinstance(kind, Array)
        dtype, shape = kind.dtype, tuple(symbols[e] if isinstance(e, str) else e for e in kind.shape)
        if dtype.is_float:
            special = random.choice([1.0, 0.0, np.inf, np.nan, 1e30], shape, p=[0.92, 0.02, 0.02, 0.02, 0.02])
            with np.errstate(all="ignore"):
                arguments.append((random.normal(size=shape) * 8 * special).astype(np.float32).astype(dtype.numpy))
        else:
            low = 0 if dtype.kind == "uint" else -50
            arguments.append(random.integers(low, 100, shape).astype(dtype.numpy))
    return arguments
