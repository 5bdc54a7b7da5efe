"""Tile IR to a CUDA Tile program: tiles stay tiles, and the machine underneath is `tileiras`'s affair.

A tile is held in one whose extents are the next powers of two (`shapes`).  What only lanes know, shared memory and
barriers among them, is refused at the user's line.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import CompilerCrash, NotOnCudaTile
from tessera.core.mlir import AnyOp, ir
from tessera.core.program.types import Array
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.location import name_of, spans
from tessera.lowering.base.attributes import named_axis, number_of
from tessera.lowering.base.ir_walk import operations
from tessera.lowering.base.visitor import at_operation, operations_of
from tessera.lowering.cuda_tile import reductions
from tessera.lowering.cuda_tile.access_bounds import AccessBounds
from tessera.lowering.cuda_tile.arithmetic import operation
from tessera.lowering.cuda_tile.builder import INDEX, TileBuilder
from tessera.lowering.cuda_tile.entry_point import LANE_HINT, LANE_IDS, EntryFrame
from tessera.lowering.cuda_tile.instructions import Block, TileType, Value, padded
from tessera.lowering.cuda_tile.memory import TileAccess, TileMemory
from tessera.lowering.cuda_tile.memory_tokens import MemoryTokens
from tessera.lowering.cuda_tile.padded_shapes import keeps_places
from tessera.lowering.tile.pack_floats import OPERAND_FORMAT

_ALIGNMENT: Final = 16
"""Bytes at whose multiples the rows of an `aligned` array begin and end (see `Array`)."""
_LONGEST: Final = (1 << 31) - 1
"""No axis of an `aligned` array is longer: the machine's bulk copies count in 32 bits."""
_BYTES: Final = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2"}
"""Floats of 8 bits, as `tile-pack-floats` and as CUDA Tile IR call them."""
_REFUSED: Final = {
    "tessera.alloc": "shared memory: where tiles lie is CUDA Tile's own decision",
    "tessera.copy": "a copy into shared memory: where tiles lie is CUDA Tile's own decision",
    "tessera.group_sync": "a barrier: a CUDA Tile kernel has no lanes that could wait for each other",
    "tessera.shuffle": "a shuffle: a CUDA Tile kernel has no lanes that could exchange values",
}


class CudaTileLowering:
    """Lowers one kernel; `env` says what each Tile IR value is: a Value, or the Memory behind an array."""

    def __init__(self, frame: EntryFrame, function: AnyOp) -> None:
        self.frame = frame
        self.build: TileBuilder = frame.build
        self.order = MemoryTokens(self.build)
        self.order.begin(function, frame.program)
        self.access = TileAccess(self.build, self.order, AccessBounds(function, frame.program.group))
        self.env: dict[ir.Value, TileMemory | Value] = {}
        self.body = function.regions[0].blocks[0]
        for number, (argument, parameter) in enumerate(zip(self.body.arguments, frame.program.parameters, strict=True)):
            kind = parameter.value.type
            self.env[argument] = self._array(number, kind) if isinstance(kind, Array) else frame.arguments[number]
        self.build.end_of_beginning()

    def _array(self, number: int, kind: Array) -> TileMemory:
        build, bytes_of_element = self.build, max(1, kind.dtype.bits // 8)
        unit = max(1, _ALIGNMENT // bytes_of_element) if kind.aligned else 1
        extents = [self._extent(number, axis, extent) for axis, extent in enumerate(kind.shape)]
        for axis, extent in enumerate(extents):
            if isinstance(extent, Value):
                last = axis == len(extents) - 1
                extents[axis] = build.assume(extent, multiple_of=unit if last else 1,
                                             most=_LONGEST if kind.aligned else None)  # fmt: skip
        strides: list[int | Value] = list(self.frame.strides[number])
        if not strides:
            strides = [1]
            for extent in reversed(extents[1:]):
                strides.append(self._product(strides[-1], extent))
            strides = strides[::-1]
        elif kind.aligned:
            last = len(strides) - 1
            strides = [1 if n == last else self._assumed(stride, unit) for n, stride in enumerate(strides)]
        pointer = self.frame.arguments[number]
        pointer = build.assume(pointer, multiple_of=_ALIGNMENT) if kind.aligned else pointer
        return TileMemory(pointer, tuple(extents), tuple(strides)[: len(extents)], kind.shape)

    def _assumed(self, stride: int | Value, unit: int) -> int | Value:
        return stride if isinstance(stride, int) else self.build.value("assume", (stride,), stride.type, div_by=unit)

    def _product(self, a: int | Value, b: int | Value) -> int | Value:
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        values = [self.build.constant(v, INDEX) if isinstance(v, int) else v for v in (a, b)]
        return self.build.mul(*values)

    def _extent(self, parameter: int, axis: int, extent: int | str) -> int | Value:
        """Return an array's extent: a number, or its symbol divided by the scale it was bound with."""
        if isinstance(extent, int):
            return extent
        value = self._symbol(extent)
        for symbol in self.frame.program.symbols:
            if (symbol.name, symbol.parameter, symbol.axis) == (extent, parameter, axis) and symbol.scale != 1:
                scale = self.build.constant(symbol.scale, INDEX)
                return self.build.value("divi", (value, scale), value.type, signedness="unsigned", rounding="zero")
        return value

    def _symbol(self, name: str) -> Value:
        found = self.frame.symbols.get(name)
        if found is None:
            message = f"no argument of the kernel binds '{name}'"
            raise NotOnCudaTile(message, self.frame.program.span)
        return found

    # -- the whole ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Emit the kernel's code."""
        self.block(self.body)
        self.build.emit("return", ())

    def block(self, block: ir.Block) -> None:
        """Emit every operation of `block` but its terminator."""
        for op in operations_of(block):
            with at_operation(self.build, op):
                self._operation(op)

    def _operation(self, op: AnyOp) -> None:
        name = str(op.name)
        special = _OPERATIONS.get(name)
        if special is not None:
            special(self, op)
            return
        operands = [self.value(v) for v in op.operands]
        attributes = {key: op.attributes[key] for key in op.attributes}
        self.env[op.results[0]] = operation(self.build, name, operands, self.type_of(op.results[0]), attributes)

    # -- what values are ---------------------------------------------------------------------------------------

    def value(self, value: ir.Value) -> Value:
        """Return the tile or scalar that a Tile IR value is."""
        found = self.env[value]
        assert isinstance(found, Value), "an array is no tile"
        return found

    def memory(self, value: ir.Value) -> TileMemory:
        """Return the array behind a Tile IR memref."""
        found = self.env[value]
        assert isinstance(found, TileMemory), "a tile is no array"
        return found

    def type_of(self, value: ir.Value) -> TileType:
        """Return the type that holds a Tile IR value."""
        kind = value.type
        if isinstance(kind, ir.RankedTensorType):
            return TileType(str(kind.element_type), padded(list(kind.shape)))
        return TileType(str(kind))

    def values(self, values: ir.OpOperandList | list[ir.Value]) -> list[Value]:
        """Return the tiles and scalars that several Tile IR values are."""
        return [self.value(v) for v in values]

    # -- operations --------------------------------------------------------------------------------------------

    def constant(self, op: AnyOp) -> None:
        """`arith.constant`: a number, or a tile of one number."""
        attribute, kind = op.attributes["value"], self.type_of(op.results[0])
        if isinstance(attribute, ir.DenseElementsAttr):
            if not attribute.is_splat:
                message = "a constant tile of several numbers"
                raise CompilerCrash(message, next(iter(spans(op.location)), NOWHERE))
            attribute = attribute.get_splat_value()
        self.env[op.results[0]] = self.build.constant(number_of(attribute), kind.element, kind.shape)

    def id(self, op: AnyOp) -> None:
        """`tessera.id`."""
        axis = named_axis(op)
        self.env[op.results[0]] = self.frame.identify(str(ir.StringAttr(op.attributes["of"]).value), axis)

    def dim(self, op: AnyOp) -> None:
        """`tessera.dim`: the value of a symbol."""
        self.env[op.results[0]] = self._symbol(str(ir.StringAttr(op.attributes["symbol"]).value))

    def splat(self, op: AnyOp) -> None:
        """`tensor.splat`."""
        self.env[op.results[0]] = self.build.splat(self.value(op.operands[0]), self.type_of(op.results[0]).shape)

    def arange(self, op: AnyOp) -> None:
        """`tessera.arange`: a start, and one more each."""
        shape = self.type_of(op.results[0]).shape
        start = self.build.splat(self.value(op.operands[0]), shape)
        self.env[op.results[0]] = self.build.add(start, self.build.iota(shape[0], INDEX))

    def broadcast(self, op: AnyOp) -> None:
        """`tessera.broadcast`."""
        self.env[op.results[0]] = self.build.broadcast(self.value(op.operands[0]), self.type_of(op.results[0]).shape)

    def reshape(self, op: AnyOp) -> None:
        """`tessera.reshape`: of tiles whose padding stays behind their elements."""
        before, after = (list(ir.ShapedType(v.type).shape) for v in (op.operands[0], op.results[0]))
        if not keeps_places(before, after):
            message = f"a tile of {tuple(before)} as {tuple(after)}: CUDA Tile reshapes powers of two only"
            raise NotOnCudaTile(message, hint="use extents that are powers of two; the edges are masked")
        self.env[op.results[0]] = self.build.reshape(self.value(op.operands[0]), padded(after))

    def transpose(self, op: AnyOp) -> None:
        """`tessera.transpose`."""
        order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
        self.env[op.results[0]] = self.build.permute(self.value(op.operands[0]), order)

    def reduce(self, op: AnyOp) -> None:
        """`tessera.reduce`."""
        axis = named_axis(op)
        kind, shape = str(ir.StringAttr(op.attributes["kind"]).value), list(ir.ShapedType(op.operands[0].type).shape)
        unsigned = "tessera.unsigned" in op.attributes
        value = self.value(op.operands[0])
        self.env[op.results[0]] = reductions.reduce_tile(self.build, value, shape, kind, axis, unsigned=unsigned)

    def dot(self, op: AnyOp) -> None:
        """`tessera.dot`."""
        a, b, *accumulators = self.values(op.operands)
        if OPERAND_FORMAT in op.attributes:
            element = _BYTES[str(ir.StringAttr(op.attributes[OPERAND_FORMAT]).value)]
            a, b = (self.build.bits(v, element) for v in (a, b))
        how = reductions.EXACT if ir.BoolAttr(op.attributes["exact"]).value else ""
        if COMPUTE in op.attributes:
            how = str(ir.StringAttr(op.attributes[COMPUTE]).value)
        kind, extent = ir.ShapedType(op.results[0].type), ir.ShapedType(op.operands[0].type).shape[1]
        self.env[op.results[0]] = reductions.dot(
            self.build, a, b, accumulators[0] if accumulators else None, extent, str(kind.element_type),
            how=how, unsigned="tessera.unsigned" in op.attributes,
        )  # fmt: skip

    def barrier(self, op: AnyOp) -> None:
        """`tessera.barrier`: without lanes and without shared memory there is nothing to wait for."""

    def read(self, op: AnyOp) -> None:
        """`tessera.read`."""
        memory, *indices = op.operands
        self.env[op.results[0]] = self.access.read(op, self.memory(memory), self.values(indices))

    def write(self, op: AnyOp) -> None:
        """`tessera.write`."""
        memory, value, *indices = op.operands
        self.access.write(op, self.memory(memory), self.value(value), self.values(indices))

    def load(self, op: AnyOp) -> None:
        """`tessera.load`."""
        memory, *starts = op.operands
        self.env[op.results[0]] = self.access.load(op, self.memory(memory), self.values(starts))

    def gather(self, op: AnyOp) -> None:
        """`tessera.gather`."""
        memory, index, *starts = op.operands
        found = self.access.gather(op, self.memory(memory), self.value(index), self.values(starts))
        self.env[op.results[0]] = found

    def store(self, op: AnyOp) -> None:
        """`tessera.store`."""
        memory, value, *starts = op.operands
        self.access.store(op, self.memory(memory), self.value(value), self.values(starts))

    def masked_store(self, op: AnyOp) -> None:
        """`tessera.masked_store`."""
        memory, value, mask, *starts = op.operands
        self.access.masked_store(op, self.memory(memory), self.value(value), self.value(mask), self.values(starts))

    # -- control flow: tokens of the memory touched inside travel behind the user's own values ----------------------

    @contextmanager
    def _inside(self, target: Block, op: AnyOp, names: Sequence[ir.Value], tokens: int) -> Generator[list[Value]]:
        """Emit into a region's block; `names` are its Tile IR arguments, in front of the last `tokens` of its own."""
        before = self.order.carried(op)
        arguments = list(target.arguments)
        self.env.update(zip(names, arguments, strict=False))
        if tokens:
            self.order.set(op, arguments[len(arguments) - tokens :])
        with self.build.at(target):
            yield arguments
        self.order.set(op, before)

    def _arguments(self, block: ir.Block, tokens: Sequence[Value]) -> Block:
        """Return an empty block with the arguments of a Tile IR block, and tokens."""
        own = [Value(self.type_of(v), name_of(v.location) if hasattr(v, "location") else "") for v in block.arguments]
        return Block((*own, *(Value(token.type) for token in tokens)))

    def loop(self, op: AnyOp) -> None:
        """`scf.for`: counts up; the step is positive."""
        block, tokens = op.regions[0].blocks[0], self.order.carried(op)
        bounds, initial = self.values(list(op.operands)[:3]), self.values(list(op.operands)[3:])
        target = self._arguments(block, tokens)
        always = self._always(target.arguments[1:], block.arguments[1:], _last(block).operands)
        with self._inside(target, op, block.arguments, len(tokens)):
            self.block(block)
            passed = self._passed(self.values(_last(block).operands), target.arguments[1:], always)
            self.build.emit("continue", [*passed, *self.order.carried(op)])
        made = self.build.emit("for", [*bounds, *initial, *tokens], [v.type for v in (*initial, *tokens)], [target])
        self._bind(op, made.results)

    def _always(self, arguments: Sequence[Value], names: Sequence[ir.Value], passed: ir.OpOperandList) -> Value | None:
        """Return a condition that always holds and that no compiler can know, where a loop hands a tile on as it is.

        tileiras 13.5 takes a permuted tile that one carried value hands to another for the first one of the loop.
        """
        tiles = any(value in names for value in passed) and any(value.shape for value in arguments[: len(passed)])
        depth = self.frame.depth
        return self.build.compare("equal", depth, self.build.like(0, depth)) if tiles else None

    def _passed(self, values: list[Value], arguments: Sequence[Value], always: Value | None) -> list[Value]:
        """Return the values that a loop hands on; a carried tile that becomes another one goes through a `select`."""
        if always is None:
            return values
        return [
            self.build.select(always, value, argument) if value.shape and value in arguments and value is not argument
            else value
            for value, argument in zip(values, arguments, strict=False)
        ]  # fmt: skip

    def branch(self, op: AnyOp) -> None:
        """`scf.if`."""
        tokens = self.order.carried(op)
        blocks: list[Block] = []
        for region in op.regions:
            target = Block()
            with self._inside(target, op, (), 0):
                if len(region.blocks):
                    self.block(region.blocks[0])
                    results = self.values(_last(region.blocks[0]).operands)
                else:
                    results = []
                self.build.emit("yield", [*results, *self.order.carried(op)])
            blocks.append(target)
        kinds = [*(self.type_of(v) for v in op.results), *(token.type for token in tokens)]
        made = self.build.emit("if", [self.value(op.operands[0])], kinds, blocks)
        self._bind(op, made.results)

    def while_loop(self, op: AnyOp) -> None:
        """`scf.while`: a loop that is left where the condition fails."""
        before, after = (region.blocks[0] for region in op.regions)
        initial, tokens = self.values(op.operands), self.order.carried(op)
        target = self._arguments(before, tokens)
        last = _last(before)
        always = self._always(target.arguments, (*before.arguments, *after.arguments), _last(after).operands)
        with self._inside(target, op, before.arguments, len(tokens)):
            self.block(before)
            condition, *passed = self.values(last.operands)
            leaving, staying = Block(), Block()
            now = self.order.carried(op)
            with self.build.at(leaving):
                self.build.emit("break", [*passed, *now])
            with self.build.at(staying):
                self.build.emit("yield", ())
            self.build.emit("if", [condition], (), [staying, leaving])
            self.env.update(zip(after.arguments, passed, strict=True))
            self.block(after)
            passed = self._passed(self.values(_last(after).operands), target.arguments, always)
            self.build.emit("continue", [*passed, *self.order.carried(op)])
        kinds = [*(self.type_of(v) for v in op.results), *(token.type for token in tokens)]
        made = self.build.emit("loop", [*initial, *tokens], kinds, [target])
        self._bind(op, made.results)

    def _bind(self, op: AnyOp, results: Sequence[Value]) -> None:
        own = len(op.results)
        self.env.update(zip(op.results, results[:own], strict=True))
        self.order.set(op, results[own:])


def _last(block: ir.Block) -> ir.Operation:
    return list(block.operations)[-1].operation


def lower(frame: EntryFrame, function: AnyOp) -> None:
    """Emit the code of the `func.func` into `frame`.

    Raises:
        NotOnCudaTile: the kernel needs something CUDA Tile IR cannot say.
    """
    refuse_lanes(function)
    frame.begin()
    CudaTileLowering(frame, function).run()


def refuse_lanes(function: AnyOp) -> None:
    """Raise NotOnCudaTile at the first operation that belongs to lanes, if there is any."""
    for op in operations(function, *_REFUSED, "tessera.id"):
        what = _REFUSED.get(str(op.name))
        if op.name == "tessera.id":
            what = LANE_IDS.get(str(ir.StringAttr(op.attributes["of"]).value))
        if what is not None:
            raise NotOnCudaTile(what, next(iter(spans(op.location)), NOWHERE), hint=LANE_HINT)


_OPERATIONS: Final[dict[str, Callable[[CudaTileLowering, AnyOp], None]]] = {
    "arith.constant": CudaTileLowering.constant,
    "tensor.splat": CudaTileLowering.splat,
    "tessera.id": CudaTileLowering.id,
    "tessera.dim": CudaTileLowering.dim,
    "tessera.arange": CudaTileLowering.arange,
    "tessera.broadcast": CudaTileLowering.broadcast,
    "tessera.reshape": CudaTileLowering.reshape,
    "tessera.transpose": CudaTileLowering.transpose,
    "tessera.reduce": CudaTileLowering.reduce,
    "tessera.dot": CudaTileLowering.dot,
    "tessera.barrier": CudaTileLowering.barrier,
    "tessera.read": CudaTileLowering.read,
    "tessera.write": CudaTileLowering.write,
    "tessera.load": CudaTileLowering.load,
    "tessera.gather": CudaTileLowering.gather,
    "tessera.store": CudaTileLowering.store,
    "tessera.masked_store": CudaTileLowering.masked_store,
    "scf.for": CudaTileLowering.loop,
    "scf.if": CudaTileLowering.branch,
    "scf.while": CudaTileLowering.while_loop,
}
