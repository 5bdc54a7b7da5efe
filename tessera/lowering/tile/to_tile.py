"""A Program as Tile IR: one operation after the other, each with its identity and place in the user's text.

before: `Op("load", (X, i), attributes={"extents": (128,), "dropped": ()})`, the 7th operation of the kernel
after:  `%t = "tessera.load"(%X, %i) {extents = array<i64: 128>, ...} : (memref<?xf32>, i64) -> tensor<128xf32>
         loc("op7"("cell.py":3:5 to 3:15))`
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, cast

from tessera.core.base.dtypes import i64
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.core.program.dependences import Dependences
from tessera.core.program.program import Attribute, Block, Op, Parameter, Program, Value
from tessera.core.program.spec import IN_RANGE
from tessera.core.program.types import Array, Scalar, Tile
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.location import named, origin, place
from tessera.core.tile.types import mlir_type
from tessera.lowering.analysis.intervals import Intervals
from tessera.lowering.base.attributes import LENGTH, dictionary, flags, integer, integers, text, to_attribute
from tessera.lowering.base.emit import Emitter
from tessera.lowering.tile.arithmetic import Arithmetic, wrapped
from tessera.lowering.tile.masking.validity import CHOICE

_NOT_IN_A_SYMBOL: Final = re.compile(r"\W", re.ASCII)


def to_tile(program: Program) -> ir.Module:
    """Build the module of `program` in the current MLIR context (the dialect must be loaded)."""
    module = ir.Module.create(loc=place(program.span))
    _Builder(program, module).build()
    return module


def function_name(program: Program) -> str:
    """Return the function's symbol: the kernel's name with only letters, digits and underscores."""
    return _NOT_IN_A_SYMBOL.sub("_", program.name) or "kernel"


class _Builder:
    """Builds one module.  `values` maps the Program's values; `intervals` says how large they can be."""

    def __init__(self, program: Program, module: ir.Module) -> None:
        self.program = program
        self.emit = Emitter(module.body, place(program.span))
        self.arithmetic = Arithmetic(self.emit)
        self.values: dict[Value, ir.Value] = {}
        self.intervals = Intervals()
        self.dependences = Dependences(program)
        self.identity = {op: number for number, op in enumerate(program.body.walk())}

    def build(self) -> None:
        """Create the function and everything in it."""
        program, emit = self.program, self.emit
        kinds = [emit.type(mlir_type(p.value.type)) for p in program.parameters]
        attributes: dict[str, ir.Attribute] = {
            "sym_name": text(function_name(program)),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, [])),
            "arg_attrs": ir.ArrayAttr.get([_facts(p) for p in program.parameters]),
            "tessera.domain": dictionary({"kind": program.domain.kind, "extents": program.domain.extents}),
            "tessera.options": dictionary(program.options),
        }
        if program.group is not None:
            attributes["tessera.group"] = integers(program.group)
        function = emit.create("func.func", attributes=attributes, regions=1)
        places = [named(p.name, p.span) for p in program.parameters]
        entry = function.regions[0].blocks.append(*kinds, arg_locs=places)
        self._bind([p.value for p in program.parameters], entry.arguments)
        with emit.at(entry):
            for op in program.body.ops:
                if op.opcode != "yield":
                    self._emit(op)
            with emit.located(place(program.span)):
                emit.create("func.return")

    # -- one operation -----------------------------------------------------------------------------------------

    def _emit(self, op: Op) -> None:
        """Emit `op` and, through it, its regions."""
        self.intervals.learn(op)
        with self.emit.located(origin(self.identity[op], op.span)):
            special = _SPECIAL.get(op.opcode)
            if special is not None:
                special(self, op)
            else:
                self.element_wise(op)

    def element_wise(self, op: Op) -> None:
        kind = op.operands[0].type
        if not isinstance(kind, Scalar | Tile):
            raise _unknown(op)
        values = [self.values[v] for v in op.operands]
        known = [self.intervals.of(v) for v in op.operands]
        result = self.arithmetic.operation(op.opcode, kind, values, known)
        if result is None:
            raise _unknown(op)
        if op.attributes.get("predicate") == IN_RANGE:
            cast("ir.OpResult", result).owner.attributes[IN_RANGE] = ir.UnitAttr.get()
        self.values[op.result] = result

    def const(self, op: Op) -> None:
        kind, value = op.result.type, op.attributes["value"]
        if not isinstance(kind, Scalar | Tile) or not isinstance(value, int | float):
            raise _unknown(op)
        self.values[op.result] = self.emit.constant(wrapped(value, kind.dtype), mlir_type(kind))

    def full(self, op: Op) -> None:
        self.emit_value(op, "tensor.splat")

    def compare(self, op: Op) -> None:
        left, right = op.operands
        if not isinstance(left.type, Scalar | Tile):
            raise _unknown(op)
        a, b = self.values[left], self.values[right]
        self.values[op.result] = self.arithmetic.compare(str(op.attributes["predicate"]), left.type, a, b)

    def select(self, op: Op) -> None:
        mark: dict[str, ir.Attribute] = {CHOICE: ir.UnitAttr.get()} if isinstance(op.result.type, Tile) else {}
        self.emit_value(op, "arith.select", mark)

    def cast(self, op: Op) -> None:
        source, target = op.operands[0].type, op.result.type
        if not isinstance(source, Scalar | Tile) or not isinstance(target, Scalar | Tile):
            raise _unknown(op)
        self.values[op.result] = self.arithmetic.cast(self.values[op.operands[0]], source, target.dtype)

    def as_named(self, op: Op) -> None:
        """Emit an operation of the dialect that takes the Program's attributes as they are."""
        attributes = {name: to_attribute(value) for name, value in op.attributes.items() if value is not None}
        self.emit_value(op, f"tessera.{op.opcode}", attributes)

    def access(self, op: Op) -> None:
        memory = op.operands[1 if op.opcode == "copy" else 0].type
        if isinstance(memory, Scalar | Tile):
            raise _unknown(op)
        attributes: dict[str, ir.Attribute] = {"in_bounds": flags([False] * len(memory.shape))}
        if op.opcode != "copy":
            attributes["cache"] = text(str(op.attributes.get("cache") or ""))
        for name in ("extents", "dropped") if op.opcode in ("load", "store", "copy") else ():
            attributes[name] = integers(_numbers(op, name))
        self.emit_value(op, f"tessera.{op.opcode}", attributes)

    def gather(self, op: Op) -> None:
        """Emit a gather with one index for each element of the result; the start along their axis is 0."""
        memory, kind = op.operands[0].type, op.result.type
        axis = next(a for a, start in enumerate(op.operands[1:]) if isinstance(start.type, Tile))
        if isinstance(memory, Scalar | Tile) or not isinstance(kind, Tile):
            raise _unknown(op)
        dropped = _numbers(op, "dropped")
        place_of = [a for a in range(len(memory.shape)) if a not in dropped].index(axis)
        line = tuple(extent if at == place_of else 1 for at, extent in enumerate(kind.shape))
        starts = [self.values[v] for v in op.operands[1:]]
        index, starts[axis] = starts[axis], self.emit.constant(0, "i64")
        if len(line) > 1:
            index = self.emit.value("tessera.reshape", [index], self.emit.type(mlir_type(Tile(i64, line))))
        if line != kind.shape:
            index = self.emit.value("tessera.broadcast", [index], self.emit.type(mlir_type(Tile(i64, kind.shape))))
        attributes: dict[str, ir.Attribute] = {
            "axis": integer(axis),
            "extents": integers(_numbers(op, "extents")),
            "dropped": integers(dropped),
            "cache": text(str(op.attributes.get("cache") or "")),
            "in_bounds": flags([False] * len(memory.shape)),
        }
        operands = [self.values[op.operands[0]], index, *starts]
        made = self.emit.create("tessera.gather", operands, [mlir_type(kind)], attributes)
        self._bind(op.results, made.results)

    def axis(self, op: Op) -> None:
        """Emit `reduce` or `softmax` with its axis counted from the front."""
        kind, axis = op.operands[0].type, op.attributes.get("axis")
        if not isinstance(kind, Tile):
            raise _unknown(op)
        attributes: dict[str, ir.Attribute] = (
            {} if axis is None else {"axis": integer(_number(op, "axis") % len(kind.shape))}
        )
        if op.opcode == "reduce":
            attributes["kind"] = text(str(op.attributes["kind"]))
        self.emit_value(op, f"tessera.{op.opcode}", attributes | _sign(kind))

    def transpose(self, op: Op) -> None:
        self.emit_value(op, "tessera.transpose", {"permutation": integers(_numbers(op, "permutation"))})

    def dot(self, op: Op) -> None:
        kind = op.operands[0].type
        if not isinstance(kind, Tile):
            raise _unknown(op)
        attributes = {"exact": to_attribute(bool(op.attributes.get("exact", False)))}
        if "compute" in op.attributes:
            attributes[COMPUTE] = text(str(op.attributes["compute"]))
        self.emit_value(op, "tessera.dot", attributes | _sign(kind))

    def emit_value(self, op: Op, name: str, attributes: dict[str, ir.Attribute] | None = None) -> None:
        results = [mlir_type(v.type) for v in op.results]
        made = self.emit.create(name, [self.values[v] for v in op.operands], results, attributes)
        self._bind(op.results, made.results)

    # -- control flow ------------------------------------------------------------------------------------------

    def loop(self, op: Op) -> None:
        lower, upper, step = (self.values[v] for v in op.operands[:3])
        initial = [self.values[v] for v in op.operands[3:]]
        stride = self.intervals.of(op.operands[2])
        upward = stride is not None and stride[0] > 0
        bounds = [lower, upper, step] if upward else self._count(lower, upper, step)
        attributes: dict[str, ir.Attribute] = {"tessera.kind": text(str(op.attributes.get("kind", "range")))}
        if op.attributes.get("kind") == "tile" and self.dependences.of(op) is None:
            length = self.dependences.length(op)
            attributes |= {} if length is None else {LENGTH: to_attribute(length)}
        if op.attributes.get("prefetch"):
            attributes["tessera.prefetch"] = integer(_number(op, "prefetch"))
        loop = self.emit.create("scf.for", [*bounds, *initial], [v.type for v in initial], attributes, regions=1)
        body = op.regions[0]
        block = self._block(loop.regions[0], body.arguments)
        with self.emit.at(block):
            if not upward:  # scf.for only counts up: count iterations and compute the index
                scaled = self.emit.value("arith.muli", [block.arguments[0], step], "i64")
                self.values[body.arguments[0]] = self.emit.value("arith.addi", [lower, scaled], "i64")
            self._body(body, "scf.yield")
        self._bind(op.results, loop.results)

    def _count(self, lower: ir.Value, upper: ir.Value, step: ir.Value) -> list[ir.Value]:
        """Return bounds 0, n, 1 for a loop whose step may be negative (or 0: no iteration)."""
        kind, emit = Scalar(i64), self.emit
        zero, one = emit.constant(0, "i64"), emit.constant(1, "i64")
        up = self.arithmetic.compare("gt", kind, step, zero)
        distance = self.arithmetic.select(
            up, emit.value("arith.subi", [upper, lower], "i64"), emit.value("arith.subi", [lower, upper], "i64")
        )
        size = emit.value("math.absi", [step], "i64")
        size = emit.value("arith.maxsi", [size, one], "i64")
        whole = emit.value("arith.addi", [distance, emit.value("arith.subi", [size, one], "i64")], "i64")
        count = emit.value("arith.divsi", [emit.value("arith.maxsi", [whole, zero], "i64"), size], "i64")
        still = self.arithmetic.compare("eq", kind, step, zero)
        return [zero, self.arithmetic.select(still, zero, count), one]

    def branch(self, op: Op) -> None:
        results = [mlir_type(v.type) for v in op.results]
        made = self.emit.create("scf.if", [self.values[op.operands[0]]], results, regions=2)
        for branch, block in enumerate(op.regions):
            if branch == 0 or results or len(block.ops) > 1:  # an else that does nothing stays empty
                with self.emit.at(made.regions[branch].blocks.append()):
                    self._body(block, "scf.yield")
        self._bind(op.results, made.results)

    def while_loop(self, op: Op) -> None:
        initial = [self.values[v] for v in op.operands]
        loop = self.emit.create("scf.while", initial, [v.type for v in initial], regions=2)
        for region, block, terminator in zip(loop.regions, op.regions, ("scf.condition", "scf.yield"), strict=True):
            with self.emit.at(self._block(region, block.arguments)):
                self._body(block, terminator)
        self._bind(op.results, loop.results)

    def _block(self, region: ir.Region, arguments: Sequence[Value]) -> ir.Block:
        """Append a block whose arguments carry the user's names."""
        kinds = [self.emit.type(mlir_type(v.type)) for v in arguments]
        block = region.blocks.append(*kinds, arg_locs=[named(v.name, v.span) for v in arguments])
        self._bind(arguments, block.arguments)
        return block

    def _body(self, block: Block, terminator: str) -> None:
        for op in block.ops:
            if op.opcode == "yield":
                with self.emit.located(origin(self.identity[op], op.span)):
                    self.emit.create(terminator, [self.values[v] for v in op.operands])
            else:
                self._emit(op)

    def _bind(self, values: Sequence[Value], made: Sequence[ir.Value]) -> None:
        self.values.update(zip(values, list(made), strict=True))


def _facts(parameter: Parameter) -> ir.DictAttr:
    """Return the argument attributes of a parameter: name and dtype, and of an array extents and mutability."""
    kind = parameter.value.type
    facts: dict[str, Attribute] = {"tessera.name": parameter.name}
    if isinstance(kind, Scalar | Array):
        facts["tessera.dtype"] = kind.dtype.name
    if isinstance(kind, Array):
        facts |= {"tessera.shape": kind.shape, "tessera.mutable": parameter.mutable}
    return dictionary(facts)


def _sign(kind: Tile) -> dict[str, ir.Attribute]:
    """Mark an operation on unsigned integers, as their type has no sign."""
    return {"tessera.unsigned": ir.UnitAttr.get()} if kind.dtype.kind == "uint" else {}


def _numbers(op: Op, name: str) -> list[int]:
    value = op.attributes[name]
    if not isinstance(value, tuple):
        raise _unknown(op)
    return [v for v in value if isinstance(v, int)]


def _number(op: Op, name: str) -> int:
    value = op.attributes[name]
    if not isinstance(value, int):
        raise _unknown(op)
    return value


def _unknown(op: Op) -> CompilerCrash:
    kinds = ", ".join(str(v.type) for v in op.operands)
    return CompilerCrash(f"no Tile IR for '{op.opcode}' of ({kinds}) with {dict(op.attributes)}", op.span)


_SPECIAL: Final[dict[str, Callable[[_Builder, Op], None]]] = {
    "const": _Builder.const,
    "full": _Builder.full,
    "cmp": _Builder.compare,
    "select": _Builder.select,
    "cast": _Builder.cast,
    **dict.fromkeys(("read", "write", "load", "store", "copy"), _Builder.access),
    "gather": _Builder.gather,
    **dict.fromkeys(("reduce", "softmax"), _Builder.axis),
    **dict.fromkeys(
        ("id", "dim", "alloc", "barrier", "group_sync", "shuffle", "arange", "broadcast", "reshape", "valid", "fill"),
        _Builder.as_named,
    ),
    "transpose": _Builder.transpose,
    "dot": _Builder.dot,
    "for": _Builder.loop,
    "if": _Builder.branch,
    "while": _Builder.while_loop,
}
