"""Write a Program by hand: a few lines a kernel, for tests of everything below the frontend."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import overload

from tessera.core.base.dtypes import DType, boolean, i64
from tessera.core.base.source import Source, Span
from tessera.core.program.program import Attribute, Block, Domain, Op, Parameter, Program, Symbol, Value
from tessera.core.program.types import Array, Extent, Scalar, Shared, Tile, Type

FILE = "cell.py"


class Builder:
    """Appends operations to the innermost open block; every operation is on a line of its own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.parameters: list[Parameter] = []
        self.blocks: list[list[Op]] = [[]]
        self.line = 1

    # -- parameters --------------------------------------------------------------------------------------------

    def array(
        self, name: str, dtype: DType, *shape: Extent, mutable: bool = False, contiguous: bool = True,
        aligned: bool = False,
    ) -> Value:  # fmt: skip
        return self._parameter(name, Array(dtype, tuple(shape), contiguous, aligned), mutable)

    def scalar(self, name: str, dtype: DType) -> Value:
        return self._parameter(name, Scalar(dtype), mutable=False)

    def _parameter(self, name: str, kind: Type, mutable: bool) -> Value:
        span = self.span()
        value = Value(kind, name, span)
        self.parameters.append(Parameter(name, value, mutable, span))
        return value

    # -- operations --------------------------------------------------------------------------------------------

    def span(self) -> Span:
        return Span(FILE, self.line, 5, self.line, 20)

    @overload
    def op(
        self, opcode: str, operands: Sequence[Value] = (), result: None = None, name: str = "", **attributes: Attribute
    ) -> None: ...
    @overload
    def op(
        self, opcode: str, operands: Sequence[Value], result: Type, name: str = "", **attributes: Attribute
    ) -> Value: ...
    def op(
        self, opcode: str, operands: Sequence[Value] = (), result: Type | None = None, name: str = "",
        **attributes: Attribute,
    ) -> Value | None:  # fmt: skip
        """Append an operation; gives its result, or None."""
        self.line += 1
        results = () if result is None else (Value(result, name, self.span()),)
        self.blocks[-1].append(Op(opcode, tuple(operands), results, attributes, (), self.span()))
        return results[0] if results else None

    def const(self, value: Attribute, dtype: DType = i64, name: str = "") -> Value:
        return self.op("const", (), Scalar(dtype), name, value=value)

    def id(self, of: str, axis: int | None = None, name: str = "") -> Value:
        return self.op("id", (), Scalar(i64), name, of=of, axis=axis)

    def dim(self, symbol: str) -> Value:
        return self.op("dim", (), Scalar(i64), symbol, symbol=symbol)

    def value(self, opcode: str, *operands: Value, name: str = "", **attributes: Attribute) -> Value:
        """An operation whose result has the type of its first operand."""
        return self.op(opcode, operands, operands[0].type, name, **attributes)

    def compare(self, predicate: str, a: Value, b: Value, name: str = "") -> Value:
        kind = Tile(boolean, a.type.shape) if isinstance(a.type, Tile) else Scalar(boolean)
        return self.op("cmp", (a, b), kind, name, predicate=predicate)

    def select(self, condition: Value, yes: Value, no: Value, name: str = "") -> Value:
        return self.op("select", (condition, yes, no), yes.type, name)

    def cast(self, value: Value, dtype: DType, name: str = "") -> Value:
        kind = Tile(dtype, value.type.shape) if isinstance(value.type, Tile) else Scalar(dtype)
        return self.op("cast", (value,), kind, name)

    def full(self, value: Value, *shape: int, name: str = "") -> Value:
        return self.op("full", (value,), Tile(value.type.dtype, tuple(shape)), name)

    def read(self, memory: Value, *index: Value, name: str = "") -> Value:
        return self.op("read", (memory, *index), Scalar(memory.type.dtype), name, cache="")

    def write(self, memory: Value, value: Value, *index: Value) -> None:
        self.op("write", (memory, value, *index), cache="")

    def load(
        self, memory: Value, starts: Sequence[Value], extents: Sequence[int], dropped: Sequence[int] = (),
        name: str = "",
    ) -> Value:  # fmt: skip
        shape = tuple(e for axis, e in enumerate(extents) if axis not in dropped)
        kind = Tile(memory.type.dtype, shape)
        return self.op("load", (memory, *starts), kind, name, extents=tuple(extents), dropped=tuple(dropped), cache="")

    def store(
        self, memory: Value, tile: Value, starts: Sequence[Value], extents: Sequence[int], dropped: Sequence[int] = ()
    ) -> None:
        self.op("store", (memory, tile, *starts), extents=tuple(extents), dropped=tuple(dropped), cache="")

    def alloc(self, dtype: DType, *shape: int, swizzle: str | None = None, name: str = "") -> Value:
        return self.op("alloc", (), Shared(dtype, tuple(shape), swizzle), name)

    def copy(
        self, shared: Value, array: Value, starts: Sequence[Value], extents: Sequence[int], dropped: Sequence[int] = ()
    ) -> None:
        self.op("copy", (shared, array, *starts), extents=tuple(extents), dropped=tuple(dropped))

    def barrier(self) -> None:
        self.op("barrier")

    def shuffle(self, value: Value, lane: Value, mode: str = "down", width: int = 32, name: str = "") -> Value:
        return self.op("shuffle", (value, lane), value.type, name, mode=mode, width=width)

    def arange(self, start: Value, extent: int, name: str = "") -> Value:
        return self.op("arange", (start,), Tile(i64, (extent,)), name)

    def broadcast(self, tile: Value, *shape: int, name: str = "") -> Value:
        return self.op("broadcast", (tile,), Tile(tile.type.dtype, tuple(shape)), name)

    def reshape(self, tile: Value, *shape: int, name: str = "") -> Value:
        return self.op("reshape", (tile,), Tile(tile.type.dtype, tuple(shape)), name)

    def transpose(self, tile: Value, *permutation: int, name: str = "") -> Value:
        shape = tuple(extents_of(tile)[axis] for axis in permutation)
        return self.op("transpose", (tile,), Tile(tile.type.dtype, shape), name, permutation=permutation)

    def reduce(self, tile: Value, kind: str = "sum", axis: int | None = None, name: str = "") -> Value:
        dtype, shape = tile.type.dtype, extents_of(tile)
        left = () if axis is None else tuple(e for i, e in enumerate(shape) if i != axis % len(shape))
        return self.op("reduce", (tile,), Tile(dtype, left) if left else Scalar(dtype), name, kind=kind, axis=axis)

    def softmax(self, tile: Value, axis: int = -1, name: str = "") -> Value:
        return self.op("softmax", (tile,), tile.type, name, axis=axis)

    def dot(
        self, a: Value, b: Value, acc: Value | None = None, dtype: DType | None = None, name: str = "",
        compute: str = "",
    ) -> Value:  # fmt: skip
        kind = acc.type if acc is not None else Tile(dtype or a.type.dtype, (extents_of(a)[0], extents_of(b)[1]))
        attributes: dict[str, Attribute] = {"exact": False}
        if compute:
            attributes["compute"] = compute
        return self.op("dot", (a, b) if acc is None else (a, b, acc), kind, name, **attributes)

    # -- control flow ------------------------------------------------------------------------------------------

    @contextmanager
    def loop(
        self, lower: Value, upper: Value, step: Value, carried: Sequence[Value] = (), kind: str = "range",
        names: Sequence[str] = ("i",), prefetch: int = 0,
    ) -> "Generator[Loop]":  # fmt: skip
        """A `for`: gives (index, carried values ..., results); fill `results` with what the block yields."""
        self.line += 1
        span = self.span()
        titles = [*names, *("" for _ in range(1 + len(carried) - len(names)))]
        arguments = [Value(Scalar(i64), titles[0], span)]
        arguments += [Value(v.type, t, span) for v, t in zip(carried, titles[1:], strict=True)]
        results = tuple(Value(v.type, t, span) for v, t in zip(carried, titles[1:], strict=True))
        frame = Loop(tuple(arguments), results)
        body = self._enter()
        yield frame
        block = Block(frame.arguments, (*body, Op("yield", tuple(frame.yields), span=span)))
        self.blocks.pop()
        attributes: dict[str, Attribute] = {"kind": kind, "prefetch": prefetch}
        self.blocks[-1].append(Op("for", (lower, upper, step, *carried), results, attributes, (block,), span))

    @contextmanager
    def when(self, condition: Value) -> Generator[None]:
        """An `if` without results and without else."""
        self.line += 1
        span = self.span()
        body = self._enter()
        yield
        block = Block((), (*body, Op("yield", span=span)))
        self.blocks.pop()
        self.blocks[-1].append(Op("if", (condition,), (), {}, (block, Block((), (Op("yield", span=span),))), span))

    def _enter(self) -> list[Op]:
        self.blocks.append([])
        return self.blocks[-1]

    # -- the whole ---------------------------------------------------------------------------------------------

    def program(
        self, *, domain: Domain | None = None, group: tuple[int, ...] | None = None, **options: Attribute
    ) -> Program:
        """The kernel; symbols are bound at their first appearance in the parameters' shapes."""
        symbols: dict[str, Symbol] = {}
        for number, parameter in enumerate(self.parameters):
            if isinstance(parameter.value.type, Array):
                for axis, extent in enumerate(parameter.value.type.shape):
                    if isinstance(extent, str):
                        symbols.setdefault(extent, Symbol(extent, number, axis))
        text = "\n".join(f"    line {n} of {self.name}" for n in range(1, self.line + 1))
        return Program(
            self.name,
            tuple(self.parameters),
            Block((), tuple(self.blocks[0])),
            tuple(symbols.values()),
            domain or Domain("single"),
            group,
            None,
            options,
            Source(FILE, text),
            Span(FILE, 1, 1, 1, 20),
        )


class Loop:
    """What a `loop` block sees: its arguments; what it hands on goes into `yields`."""

    def __init__(self, arguments: tuple[Value, ...], results: tuple[Value, ...]) -> None:
        self.arguments = arguments
        self.results = results
        self.yields: tuple[Value, ...] = ()

    @property
    def index(self) -> Value:
        return self.arguments[0]

    @property
    def carried(self) -> tuple[Value, ...]:
        return self.arguments[1:]


def extents_of(value: Value) -> tuple[int, ...]:
    """The shape of a tile."""
    assert isinstance(value.type, Tile)
    return value.type.shape


def renamed(program: Program, name: str) -> Program:
    return replace(program, name=name)
