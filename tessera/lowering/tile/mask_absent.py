"""Make explicit, by masks, what operations leave out because it does not exist."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.verify import tile
from tessera.lowering.analysis.memory_accesses import window_limits
from tessera.lowering.analysis.valid_elements import MASK, WHOLE, Item, ValidElements, keeps
from tessera.lowering.base.attributes import named_axis
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.ir_walk import body, kernel, operations
from tessera.lowering.base.passes import Pass, run_upstream
from tessera.lowering.tile.masking.exponentials import maximum_of_difference
from tessera.lowering.tile.masking.mask_values import MaskBuilder
from tessera.lowering.tile.masking.validity import CHOICE, ValidityAnalysis

# So that what is written twice is one value, and a branch on the first says something of the second.
_MERGE: Final = "builtin.module(cse)"


@dataclass(frozen=True, slots=True)
class MaskAbsent(Pass):
    """Replace what does not exist of a tile, where it would count, and nowhere else.

    before: `%t = tessera.load %x[%s:+128]`, `%u = math.exp %t`, `%r = tessera.reduce sum %u`, x: f32[n]
    after:  `%i = tessera.arange %s`, `%in = arith.cmpi slt %i, %n`, `%v = arith.select %in, %u, 0`, and the sum of %v
    `dot`: factors become 0 along K where they do not exist.  `valid`, `fill`: the mask, and a choice by it.
    `store`: a `masked_store`, unless what is absent lies outside the array that is written to, too.
    keeps:  tiles whose loads certainly stay inside, and what is 0 anyway where 0 is wanted: loads are

    First of all passes: what simplifies `x - x` to 0 does not know that x may be absent.
    """

    name: ClassVar[str] = "tile-mask-absent"

    def run(self, module: ir.Module) -> None:
        """Rewrite the kernel."""
        function = kernel(module)
        _share_constants(function)
        run_upstream(_MERGE, module)
        existence = ValidityAnalysis(function)
        existence.block(body(function))
        rewriter = _MaskRewriter(existence)
        # Users first: what is known is known of the values that are there now.
        for op in reversed(operations(function, *_REWRITES)):
            _REWRITES[str(op.name)](rewriter, op)
        for op in operations(function, "arith.select"):
            if CHOICE in op.attributes:
                del op.attributes[CHOICE]


def _share_constants(function: AnyOp) -> None:
    """Take their places from constants that several lines write: merged, they belong to none, as in MLIR itself."""
    first: dict[ir.Attribute, AnyOp] = {}
    for op in operations(function, "arith.constant"):
        same = first.setdefault(op.attributes["value"], op)
        if same.location != op.location:
            same.location = op.location = ir.Location.unknown()


@dataclass(frozen=True, slots=True)
class _MaskRewriter:
    existence: ValidityAnalysis

    def reduce(self, op: AnyOp) -> None:
        """Mask what is absent of a reduction's operand: all of it for a scalar, else only what the result has."""
        found, axis = self._of(op.operands[0]), named_axis(op)
        whole = not isinstance(op.results[0].type, ir.RankedTensorType)
        items = [item for item in found.items if whole or item[0] in (axis, MASK)]
        kind = str(ir.StringAttr(op.attributes["kind"]).value)
        if kind == "sum":
            items = [item for item in items if not found.known_zero(item)]
        source = op.operands[0]
        differences = self._differences(op) if kind == "max" else []
        self._mask(
            op, 0, items, _identity(kind, ir.ShapedType(source.type).element_type, "tessera.unsigned" in op.attributes)
        )
        for difference in differences:  # their exponentials are 0 where the masked tile is -inf
            difference.operands[0] = op.operands[0]

    def _differences(self, reduce: AnyOp) -> list[AnyOp]:
        """Return differences whose exponentials `ValidityAnalysis` takes to be 0 where the maximum's tile is masked."""
        users = [use.owner.operation for use in reduce.operands[0].uses]
        return [
            user
            for user in users
            if user.name == "arith.subf"
            and any(self._has_maximum(other.owner.operation, reduce) for other in user.results[0].uses)
        ]

    def _has_maximum(self, op: AnyOp, reduce: AnyOp) -> bool:
        found = maximum_of_difference(op)
        return found is not None and found == reduce and bool(self._of(op.results[0]).zeros)

    def softmax(self, op: AnyOp) -> None:
        """Mask a softmax like the maximum that it begins with: the exponential of the least number is 0."""
        axis = int(ir.IntegerAttr(op.attributes["axis"]).value)
        items = [item for item in self._of(op.operands[0]).items if item[0] in (axis, MASK)]
        self._mask(op, 0, items, -math.inf)

    def dot(self, op: AnyOp) -> None:
        """Set what is absent along K to 0, and what is absent in rows and columns that the accumulator has."""
        a, b, *acc = (self._of(v) for v in op.operands)
        for number, found, along in ((0, a, 1), (1, b, 0)):
            items = [item for item in found.items if item[0] in (along, MASK)]
            if acc:
                items += [item for item in found.items if item[0] in (1 - along, WHOLE) and item not in acc[0].items]
            self._mask(op, number, [item for item in items if not found.known_zero(item)], 0)

    def valid(self, op: AnyOp) -> None:
        """Replace `tessera.valid` by the mask; where only choices use it, by what they do not mask themselves."""
        found = self._of(op.operands[0])
        items = found.items
        uses = [(use.owner.operation, use.operand_number) for use in op.results[0].uses]
        if uses and all(number == 0 and CHOICE in user.attributes for user, number in uses):
            items = items.difference(*(self._of(user.results[0]).items for user, _ in uses[:1]))
            if len(uses) > 1:
                items = found.items
        op.results[0].replace_all_uses_with(MaskBuilder(Emitter.before(op)).flags(found.shape, items))
        op.erase()

    def fill(self, op: AnyOp) -> None:
        """Emit a choice between the tile and the value, unless that is what the tile holds already."""
        source, value = op.operands
        found, emit = self._of(source), Emitter.before(op)
        items = found.items
        if _is_zero(value):
            items = items - found.zeros
        mask = MaskBuilder(emit).tile(found.shape, items)
        if mask is not None:
            other = emit.value("tensor.splat", [value], source.type)
            source = emit.value("arith.select", [mask, source, other], source.type)
        op.results[0].replace_all_uses_with(source)
        op.erase()

    def store(self, op: AnyOp) -> None:
        """Turn a store into a `masked_store` where something absent lies inside the array."""
        memory, value, *starts = op.operands
        found = self._of(value)
        outside = window_limits(op, memory, starts, self.existence.shapes)
        items = [item for item in found.items if not any(keeps(other, item) for other in outside)]
        emit = Emitter.before(op)
        mask = MaskBuilder(emit).tile(found.shape, items)
        if mask is not None:
            attributes = {name: op.attributes[name] for name in op.attributes}
            emit.create("tessera.masked_store", [memory, value, mask, *starts], (), attributes)
            op.erase()

    def _mask(self, op: AnyOp, number: int, items: Iterable[Item], other: float) -> None:
        value = op.operands[number]
        emit = Emitter.before(op)
        mask = MaskBuilder(emit).tile(tuple(tile(value.type)[0]), items)
        if mask is not None:
            op.operands[number] = emit.value(
                "arith.select", [mask, value, emit.constant(other, value.type)], value.type
            )

    def _of(self, value: ir.Value) -> ValidElements:
        return self.existence.presence(value)


def _is_zero(value: ir.Value) -> bool:
    op = value.owner.operation if not isinstance(value.owner, ir.Block) else None
    if op is None or op.name != "arith.constant":
        return False
    number = op.attributes["value"]
    return isinstance(number, ir.FloatAttr | ir.IntegerAttr | ir.BoolAttr) and str(float(number.value)) == "0.0"


def _identity(kind: str, element: ir.Type, unsigned: bool) -> float:
    """Return the identity of a reduction."""
    if kind == "sum":
        return 0
    greatest = kind == "min"
    if not isinstance(element, ir.IntegerType):
        return math.inf if greatest else -math.inf
    if unsigned or element.width == 1:
        return -1 if greatest else 0  # all bits
    return (1 << (element.width - 1)) - 1 if greatest else -(1 << (element.width - 1))


_REWRITES: Final[dict[str, Callable[[_MaskRewriter, AnyOp], None]]] = {
    "tessera.reduce": _MaskRewriter.reduce,
    "tessera.softmax": _MaskRewriter.softmax,
    "tessera.dot": _MaskRewriter.dot,
    "tessera.valid": _MaskRewriter.valid,
    "tessera.fill": _MaskRewriter.fill,
    "tessera.store": _MaskRewriter.store,
}
