"""Read Tile IR into records: the one step from MLIR to data.

Identities here are places in the text, `@0`, `@1`, ...; `tessera.core.lineage` gives each its own afterwards.
"""

from collections.abc import Sequence
from typing import Final

from tessera.core.listing import Listing
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.record import AttributeData, OpRecord, ValueRecord, Verbatim, argument_id, result_id
from tessera.core.schedule.tile_schedule import SCHEDULE
from tessera.core.tile import location
from tessera.core.tile.text import lines_of_tile
from tessera.core.tile.verify import is_shared

MUTABLE: Final = "mutable"
"""The attribute of a function's record with the numbers of the parameters that it may write."""
_LEFT_OUT: Final = frozenset(("arg_attrs", "function_type"))
"""Attributes of functions that the parameters say."""
_NAMED_AFTER: Final = {"tessera.id": "of", "tessera.dim": "symbol"}
"""Operations whose results are named after an attribute where the user gave no name."""


def records_of_tile(module: ir.Module, program: Program) -> tuple[OpRecord, ...]:
    """Return the operations of a Tile IR module, outer before inner; names come from `program`."""
    reader = _TileReader(program)
    for op in module.body.operations:
        reader.function(op.operation)
    return tuple(reader.records)


def listing_of_tile(module: ir.Module, stage: str, program: Program) -> Listing:
    """Return a Tile IR module as it stands after `stage`."""
    return Listing("tile", stage, records=records_of_tile(module, program), printer=lines_of_tile)


class _TileReader:
    """Reads one module; `values` has each value's identity, `last` the last operation that stands for each number."""

    def __init__(self, program: Program) -> None:
        self.records: list[OpRecord] = []
        self.values: dict[ir.Value, str] = {}
        self.types: dict[ir.Type, str] = {}
        self.attributes: dict[ir.Attribute, AttributeData] = {}
        self.hints = {n: tuple(v.name for v in op.results) for n, op in enumerate(program.body.walk())}
        self.last: dict[int, ir.Value] = {}

    def function(self, function: ir.Operation) -> None:
        """Read a `func.func` and what is in it."""

        def visit(op: ir.Operation) -> ir.WalkResult:
            found = location.identities(op.location)
            if len(found) == 1 and op.results and not op.name.startswith("scf."):
                self.last[found[0]] = op.results[0]
            return ir.WalkResult.ADVANCE

        function.walk(visit, ir.WalkOrder.PRE_ORDER)
        identity = f"@{len(self.records)}"
        block = function.regions[0].blocks[0]
        facts = _parameter_facts(function)
        types = [type_text(v.type, _extents(f)) for v, f in zip(block.arguments, facts, strict=True)]
        parameters = tuple(
            self._define(value, argument_id(identity, 0, number), location.name_of(value.location), kind)
            for number, (value, kind) in enumerate(zip(block.arguments, types, strict=True))
        )
        written = [n for n, f in enumerate(facts) if "tessera.mutable" in f and ir.BoolAttr(f["tessera.mutable"]).value]
        attributes = {**self._attributes(function), MUTABLE: tuple(written)}
        if SCHEDULE in function.attributes:
            entries = ir.DictAttr(function.attributes[SCHEDULE])
            attributes[SCHEDULE] = tuple((entry.name, attribute_data(entry.attr)) for entry in entries)
        numbers, spans = location.origins(function.location)
        self.records.append(OpRecord(
            identity, function.name, arguments=(parameters,), attributes=attributes, spans=spans, numbers=numbers
        ))  # fmt: skip
        self._block(block, identity, 0)

    def _block(self, block: ir.Block, parent: str, region: int) -> None:
        for op in block.operations:
            self._operation(op.operation, parent, region)

    def _operation(self, op: ir.Operation, parent: str, region: int) -> None:
        identity, place = f"@{len(self.records)}", op.location
        operands = tuple([self.values[v] for v in op.operands])
        names = self._names(op) if len(op.results) else ()
        results = tuple([
            self._define(value, result_id(identity, number), name)
            for number, (value, name) in enumerate(zip(op.results, names, strict=True))
        ])  # fmt: skip
        blocks = [region.blocks[0] for region in op.regions if len(region.blocks)]
        arguments = tuple([
            tuple([
                self._define(value, argument_id(identity, n, number), location.name_of(value.location))
                for number, value in enumerate(block.arguments)
            ])
            for n, block in enumerate(blocks)
        ])  # fmt: skip
        numbers, spans = location.origins(place)
        attributes = self._attributes(op)
        self.records.append(
            OpRecord(identity, op.name, parent, region, operands, results, arguments, attributes, spans, numbers)
        )
        for n, block in enumerate(blocks):
            self._block(block, identity, n)

    # -- values ------------------------------------------------------------------------------------------------

    def _define(self, value: ir.Value, identity: str, name: str, kind: str = "") -> ValueRecord:
        self.values[value] = identity
        if not kind:
            known = value.type
            kind = self.types.get(known) or self.types.setdefault(known, type_text(known))
        return ValueRecord(identity, kind, name.lstrip("$"))  # the frontend's mark on what the user did not name

    def _names(self, op: ir.Operation) -> Sequence[str]:
        """The user's names for the results of an operation: those of what loops carry, or of what it stands for."""
        if op.name == "scf.for":
            return [location.name_of(a.location) for a in list(op.regions[0].blocks[0].arguments)[1:]]
        if op.name == "scf.while":
            return [location.name_of(a.location) for a in op.regions[1].blocks[0].arguments]
        found = location.identities(op.location)
        names = self.hints.get(found[0], ()) if found else ()
        if op.name == "scf.if" and len(names) == len(op.results):
            return names
        whole = len(found) == 1 and found[0] in self.last and self.last[found[0]] == op.results[0]
        if whole and len(names) == len(op.results) and all(names):
            return names
        fallback = _NAMED_AFTER.get(op.name)
        return [ir.StringAttr(op.attributes[fallback]).value if fallback else ""] * len(op.results)

    # -- attributes --------------------------------------------------------------------------------------------

    def _attributes(self, op: ir.Operation) -> dict[str, AttributeData]:
        return {name: self._attribute(op.attributes[name]) for name in op.attributes if name not in _LEFT_OUT}

    def _attribute(self, attribute: ir.Attribute) -> AttributeData:
        found = self.attributes.get(attribute)
        if found is None:
            found = self.attributes[attribute] = attribute_data(attribute)
        return found


def _parameter_facts(function: ir.Operation) -> list[ir.DictAttr]:
    if "arg_attrs" not in function.attributes:
        return [ir.DictAttr.get({})] * len(function.regions[0].blocks[0].arguments)
    return [ir.DictAttr(facts) for facts in ir.ArrayAttr(function.attributes["arg_attrs"])]


def _extents(facts: ir.DictAttr) -> list[str] | None:
    """The extents of an array parameter, by number or name."""
    if "tessera.shape" not in facts:
        return None
    return [str(attribute_data(extent)) for extent in ir.ArrayAttr(facts["tessera.shape"])]


def attribute_data(attribute: ir.Attribute) -> AttributeData:
    """Return numbers, truth values, texts and arrays of numbers as Python's own, anything else verbatim."""
    match attribute:
        case ir.BoolAttr():
            return bool(attribute.value)
        case ir.IntegerAttr():
            return int(attribute.value)
        case ir.FloatAttr():
            return float(attribute.value)
        case ir.StringAttr():
            return str(attribute.value)
        case ir.DenseI64ArrayAttr() | ir.DenseBoolArrayAttr():
            return tuple(attribute)
        case _:
            return Verbatim(str(attribute))


def type_text(kind: ir.Type, shape: Sequence[str] | None = None) -> str:
    """`tile<64x64xf32>`, `array<?x64xf32>` (with `shape`, the extents' names), `shared<128xf32>`, or MLIR's text."""
    if isinstance(kind, ir.RankedTensorType):
        return f"tile<{_dimensions(kind)}{kind.element_type}>"
    if isinstance(kind, ir.MemRefType):
        head = "shared" if is_shared(kind) else "array"
        extents = "".join(f"{e}x" for e in shape) if shape is not None else _dimensions(kind)
        tail = ", xor" if is_shared(kind) and "xor" in str(kind.memory_space) else ""
        return f"{head}<{extents}{kind.element_type}{tail}>"
    return str(kind)


def _dimensions(kind: ir.RankedTensorType | ir.MemRefType) -> str:
    return "".join(f"{'?' if kind.is_dynamic_dim(i) else kind.shape[i]}x" for i in range(kind.rank))
