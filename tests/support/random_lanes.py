"""Random lane kernels without races: control flow of every kind around barriers, exchanges, shuffles and writes.

A lane writes only elements of its own; shared memory is written, then passed a barrier, then read, then passed
another one.  All arithmetic is exact, so that the interpreter and a target have to agree in every bit.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from support.builder import Builder
from tessera.core.base.dtypes import DType, boolean, f16, f32, i8, i32, i64
from tessera.core.program.program import Attribute, Block, Domain, Op, Program, Value
from tessera.core.program.types import Scalar

KINDS = (i64, i64, f32, f32, i32, boolean, boolean, f16, i8)
OUTPUTS = 4  # elements a lane writes to each output


class Kernel:
    """One random kernel of `lanes` lanes a group (None: no `tile[...]`)."""

    def __init__(self, seed: int, group: tuple[int, ...] | None) -> None:
        self.random = random.Random(seed)
        self.group = group
        self.lanes = 1
        for extent in group or ():
            self.lanes *= extent
        self.b = b = Builder(f"random_{seed}")
        self.x = b.array("x", f32, "n")
        self.k = b.array("k", i64, "n")
        self.flags = b.array("flags", boolean, "n")
        self.grid = b.array("grid", f32, "m", 7)
        self.out = b.array("out", f32, "p", OUTPUTS, mutable=True)
        self.outk = b.array("outk", i64, "p", OUTPUTS, mutable=True)
        self.outf = b.array("outf", boolean, "p", OUTPUTS, mutable=True)
        self.half = b.array("half", f16, "n")
        self.byte = b.array("byte", i8, "n")
        self.outh = b.array("outh", f16, "p", OUTPUTS, mutable=True)
        self.outb = b.array("outb", i8, "p", OUTPUTS, mutable=True)
        self.once = b.array("once", i64, "g", 8, mutable=True)
        self.scalar = b.scalar("s", f32)
        self.small = b.scalar("c", i64)
        self.depth = 0
        self.pool: dict[DType, list[Value]] = {kind: [] for kind in KINDS}
        self.shared = b.alloc(f32, self.lanes, name="shared") if group else None

    def arguments(self, lanes: int, groups: int, n: int, seed: int) -> list[Any]:
        """Fresh arguments for a launch of `lanes` lanes in all."""
        r = np.random.default_rng(seed)
        inputs = [
            r.integers(-8, 8, n).astype(np.float32),
            r.integers(-5, 60, n),
            r.random(n) < 0.5,
            r.integers(-9, 9, (11, 7)).astype(np.float32),
        ]
        outputs = [np.zeros((lanes, OUTPUTS), kind) for kind in (np.float32, np.int64, np.bool_)]
        inputs += [*outputs, r.integers(-8, 8, n).astype(np.float16), r.integers(-128, 128, n).astype(np.int8)]
        outputs = [np.zeros((lanes, OUTPUTS), kind) for kind in (np.float16, np.int8)]
        return [*inputs, *outputs, np.zeros((max(1, groups), 8), np.int64), np.float32(2.0), 3]

    def build(self) -> Program:
        b = self.b
        thread = b.id("thread", name="i")
        self.thread = thread
        ids = [b.id(of) for of in ("thread", "lane", "group", "lane_in_warp", "warp", "group_lanes")]
        if self.group and len(self.group) > 1:
            ids += [b.id(of, axis) for of in ("lane", "thread") for axis in range(len(self.group))]
        self.pool[i64] += [*ids, self.small, b.dim("n"), b.const(self.random.randint(-3, 40))]
        self.pool[f32] += [self.scalar, b.const(1.5, f32)]
        self.pool[i32] += [b.const(3, i32)]
        self.pool[f16] += [b.const(0.5, f16)]
        self.pool[i8] += [b.const(5, i8)]
        self.pool[boolean] += [b.compare("lt", thread, b.dim("n"))]
        if self.shared is not None:  # a lane may read what no lane of its branch wrote
            b.write(self.shared, b.const(0.5, f32), b.id("lane"))
            b.barrier()
        self.statements(self.random.randint(4, 9))
        for number in range(OUTPUTS):
            self.emit_output(number)
        domain = Domain("lanes", ("p",))
        return b.program(domain=domain, group=self.group)

    def emit_output(self, number: int) -> None:
        b = self.b
        column = b.const(number)
        b.write(self.out, self.pick(f32), self.thread, column)
        b.write(self.outk, self.pick(i64), self.thread, column)
        b.write(self.outf, self.pick(boolean), self.thread, column)
        b.write(self.outh, self.pick(f16), self.thread, column)
        b.write(self.outb, self.pick(i8), self.thread, column)

    # -- values ------------------------------------------------------------------------------------------------

    def pick(self, kind: DType) -> Value:
        pool = self.pool[kind]
        recent = pool[-6:]
        return self.random.choice(recent if self.random.random() < 0.6 else pool)

    def keep(self, value: Value) -> None:
        self.pool[value.type.dtype].append(value)

    def small_index(self) -> Value:
        """An index that is often, but not always, inside."""
        b, choice = self.b, self.random.randint(0, 4)
        value = self.pick(i64)
        if choice == 0:
            return value
        if choice == 1:
            return b.value("add", value, b.const(self.random.randint(-40, 40)))
        if choice == 2:
            return b.value("mod", value, b.const(self.random.choice((7, 32, 64, 100))))
        if choice == 3:
            return b.value("mul", value, b.const(self.random.choice((2, -1, 3, 0))))
        return b.value("floordiv", value, b.const(self.random.choice((2, 32, 5))))

    def expression(self) -> None:
        b, r = self.b, self.random
        kind = r.choice(KINDS)
        if kind is boolean:
            if r.random() < 0.6:
                of = r.choice((i64, f32, i32))
                predicate = r.choice(("lt", "le", "gt", "ge", "eq", "ne"))
                self.keep(b.compare(predicate, self.pick(of), self.pick(of)))
            elif r.random() < 0.3:
                self.keep(b.value("not", self.pick(boolean)))
            else:
                self.keep(b.value(r.choice(("and", "or", "xor")), self.pick(boolean), self.pick(boolean)))
            return
        choice = r.randint(0, 9)
        if choice <= 4:
            names = ("add", "sub", "mul", "min", "max") + (("xor", "floordiv", "mod") if kind.is_integer else ())
            self.keep(b.value(r.choice(names), self.pick(kind), self.pick(kind)))
        elif choice <= 6:
            self.keep(b.select(self.pick(boolean), self.pick(kind), self.pick(kind)))
        elif choice == 7:
            other = r.choice([k for k in KINDS if k.kind == kind.kind])
            self.keep(b.cast(self.pick(other), kind))
        elif choice == 8:
            self.keep(b.cast(self.pick(boolean), kind))
        else:
            self.keep(b.value("neg", self.pick(kind)))

    def read(self) -> None:
        b, choice = self.b, self.random.randint(0, 5)
        if choice == 4:
            self.keep(b.read(self.half, self.small_index()))
        elif choice == 5:
            self.keep(b.read(self.byte, self.small_index()))
        elif choice == 0:
            self.keep(b.read(self.x, self.small_index()))
        elif choice == 1:
            self.keep(b.read(self.k, self.small_index()))
        elif choice == 2:
            self.keep(b.read(self.flags, self.small_index()))
        else:
            self.keep(b.read(self.grid, self.small_index(), self.small_index()))

    # -- statements --------------------------------------------------------------------------------------------

    def statements(self, count: int) -> None:
        for _ in range(count):
            self.statement()

    def statement(self) -> None:
        r = self.random
        deep = self.depth >= 3
        choices: list[tuple[int, Callable[[], None]]] = [
            (8, self.expression),
            (4, self.read),
            (2, self.write),
            (1, self.shuffle),
            (0 if deep else 2, self.branch),
            (0 if deep else 2, self.loop),
            (0 if deep else 1, self.repeat),
        ]
        if self.group:
            choices += [(2, self.exchange), (1, self.barrier), (1, self.write_once)]
        weights = [w for w, _ in choices]
        r.choices([c for _, c in choices], weights)[0]()

    def barrier(self) -> None:
        self.b.barrier()

    def write(self) -> None:
        b = self.b
        outputs = (self.out, f32), (self.outk, i64), (self.outf, boolean), (self.outh, f16), (self.outb, i8)
        array, kind = self.random.choice(outputs)
        b.write(array, self.pick(kind), self.thread, b.const(self.random.randrange(OUTPUTS)))

    def write_once(self) -> None:
        """A write that no lane differs in: once a group."""
        b = self.b
        column = b.const(self.random.randrange(8))
        group = b.id("group")
        old = b.read(self.once, group, column)
        b.write(self.once, b.value("add", old, b.const(self.random.randint(1, 9))), group, column)

    def shuffle(self) -> None:
        b, r = self.b, self.random
        width = r.choice((32, 16, 8, 4))
        amount = b.const(r.choice((1, 2, 4, 8, 16, 3))) if r.random() < 0.6 else self.pick(i64)
        kind = r.choice(KINDS)
        self.keep(b.shuffle(self.pick(kind), amount, r.choice(("down", "up", "xor", "idx")), width))

    def exchange(self) -> None:
        b = self.b
        lane = b.id("lane")
        b.barrier()
        assert self.shared is not None
        b.write(self.shared, self.pick(f32), lane)
        b.barrier()
        self.keep(b.read(self.shared, self.small_index()))
        b.barrier()

    # -- control flow ------------------------------------------------------------------------------------------

    def region(self, arguments: Sequence[Value], kinds: Sequence[DType], first: Sequence[Value] = ()) -> Block:
        """A block of a few statements that yields `first` and then one value a kind."""
        b = self.b
        outer = self.pool
        self.pool = {kind: list(values) for kind, values in outer.items()}
        for argument in arguments:
            self.keep(argument)
        self.depth += 1
        b.blocks.append([])
        self.statements(self.random.randint(1, 4))
        yields = [self.pick(kind) for kind in kinds]
        b.op("yield", (*first, *yields))
        ops = b.blocks.pop()
        self.depth -= 1
        self.pool = outer
        return Block(tuple(arguments), tuple(ops))

    def some_kinds(self) -> list[DType]:
        return [self.random.choice(KINDS) for _ in range(self.random.randint(0, 2))]

    def finish(
        self,
        opcode: str,
        operands: Sequence[Value],
        kinds: Sequence[DType],
        blocks: Sequence[Block],
        **attributes: Attribute,
    ):
        b = self.b
        results = tuple(Value(Scalar(kind)) for kind in kinds)
        b.blocks[-1].append(Op(opcode, tuple(operands), results, attributes, tuple(blocks), b.span()))
        for result in results:
            self.keep(result)

    def branch(self) -> None:
        kinds = self.some_kinds()
        condition = self.pick(boolean)
        self.finish("if", [condition], kinds, [self.region((), kinds) for _ in range(2)])

    def bound(self) -> Value:
        """A small number of iterations."""
        b, choice = self.b, self.random.randint(0, 2)
        if choice == 0:
            return b.const(self.random.randint(0, 4))
        value = self.small if choice == 1 else self.pick(i64)
        return b.value("mod", value, b.const(self.random.choice((3, 5))))

    def loop(self) -> None:
        b = self.b
        kinds = self.some_kinds()
        initial = [self.pick(kind) for kind in kinds]
        lower = self.bound() if self.random.random() < 0.5 else b.const(0)
        upper, step = self.bound(), b.const(1)
        if self.random.random() < 0.3:  # strided over the lanes of a group, as reductions are
            lower, step = self.pick(i64), b.const(self.random.choice((16, 32, 64)))
            upper = b.value("add", lower, b.value("mul", step, upper))
            if self.random.random() < 0.5:
                lower, upper, step = b.id("lane"), b.const(100), b.const(32)
        arguments = [Value(Scalar(i64)), *(Value(Scalar(kind)) for kind in kinds)]
        self.finish("for", [lower, upper, step, *initial], kinds, [self.region(arguments, kinds)], kind="range")

    def repeat(self) -> None:
        """A `while` that counts down from a small number."""
        b = self.b
        kinds = [i64, *self.some_kinds()]
        initial = [self.bound(), *(self.pick(kind) for kind in kinds[1:])]
        before = [Value(Scalar(kind)) for kind in kinds]
        after = [Value(Scalar(kind)) for kind in kinds]
        b.blocks.append([])
        test = b.compare("gt", before[0], b.const(0))
        b.op("yield", (test, *before))
        first = Block(tuple(before), tuple(b.blocks.pop()))
        b.blocks.append([])
        down = b.value("sub", after[0], b.const(1))
        counting = b.blocks.pop()
        body = self.region(after, kinds[1:], [down])
        second = Block(body.arguments, (*counting, *body.ops))
        self.finish("while", initial, kinds, [first, second])
