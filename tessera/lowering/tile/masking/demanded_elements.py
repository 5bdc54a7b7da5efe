"""Elements of tiles that nothing depends on: what a store leaves out because it lies outside its array, followed back.

before: `%q = tessera.load %Q[%m:+128]`, `%o = math.exp %q`, `tessera.store %o, %out[%m:+128]`, both of n elements
after:  of %q and %o nothing counts from the index n - %m on: whether it exists is no question
"""

from collections.abc import Callable
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.verify import tile
from tessera.lowering.analysis.memory_accesses import Shapes, window_limits
from tessera.lowering.analysis.valid_elements import WHOLE, Item, axis_groups, keeps
from tessera.lowering.base.ir_walk import body
from tessera.lowering.tile.masking.availability import available

Items = frozenset[Item]
_NONE: Final[Items] = frozenset()


class DemandedElements:
    """Of each tile, limits beyond which nothing counts: an element that exceeds one may be anything.

    A tile that is not among them is not used at all.
    """

    def __init__(self, function: AnyOp, shapes: Shapes) -> None:
        self.shapes = shapes
        self._items: dict[ir.Value, Items] = {}
        self._changed = True
        while self._changed:  # what counts of a carried tile is known when its loop is
            self._changed = False
            self._block(body(function))

    def drops(self, value: ir.Value, item: Item) -> bool:
        """Return whether what exceeds `item`, a limit, does not count."""
        known = self._items.get(value)
        return known is None or any(keeps(other, item) for other in known)

    def _block(self, block: ir.Block) -> None:
        for view in reversed(list(block.operations)):
            op = view.operation
            rule = _RULES.get(str(op.name))
            if rule is not None:
                rule(self, op)
            else:
                self._other(op)

    def _other(self, op: AnyOp) -> None:
        """Follow an operation that is element-wise, or one of which nothing is known."""
        alike = op.name.partition(".")[0] in ("arith", "math") or op.name in ("tessera.valid", "tessera.fill")
        found = self._of(op.results[0]) if alike and len(op.results) == 1 else _NONE
        for value in op.operands:
            self._use(value, found)
        for region in op.regions:
            for block in region.blocks:
                self._block(block)

    def _of(self, value: ir.Value) -> Items | None:
        return self._items.get(value)

    def _use(self, value: ir.Value, found: Items | None) -> None:
        """Record a use of a tile, of which nothing beyond `found` counts (None: nothing at all)."""
        if not isinstance(value.type, ir.RankedTensorType) or found is None:
            return
        known = self._items.get(value)
        now = found if known is None else frozenset(item for item in known if any(keeps(o, item) for o in found))
        if now != known:
            self._items[value] = now
            self._changed = True

    # -- one operation each ------------------------------------------------------------------------------------

    def store(self, op: AnyOp) -> None:
        """Leave out what lies outside the array."""
        memory, value, *starts = op.operands
        self._use(value, frozenset(window_limits(op, memory, starts, self.shapes)))

    def broadcast(self, op: AnyOp) -> None:
        """Demand along axes that are not repeated."""
        before, after = (tile(v.type)[0] for v in (op.operands[0], op.results[0]))
        same = [axis for axis, (a, b) in enumerate(zip(before, after, strict=True)) if a == b]
        self._moved(op, {axis: axis for axis in same})

    def reshape(self, op: AnyOp) -> None:
        """Demand along axes that stay what they are."""
        before, after = (tile(v.type)[0] for v in (op.operands[0], op.results[0]))
        self._moved(op, {new[0]: old[0] for old, new in axis_groups(before, after) if len(old) == len(new) == 1})

    def transpose(self, op: AnyOp) -> None:
        """Demand along the permuted axes."""
        order: list[int] = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
        self._moved(op, dict(enumerate(order)))

    def reduce(self, op: AnyOp) -> None:
        """Demand along all axes but the reduced one."""
        result = op.results[0]
        if not isinstance(result.type, ir.RankedTensorType):
            self._use(op.operands[0], _NONE)
            return
        axis = int(ir.IntegerAttr(op.attributes["axis"]).value)
        rank = len(tile(op.operands[0].type)[0])
        self._moved(op, dict(enumerate(a for a in range(rank) if a != axis)))

    def softmax(self, op: AnyOp) -> None:
        """Demand along all axes but that of the softmax, along which every element counts."""
        axis = int(ir.IntegerAttr(op.attributes["axis"]).value)
        self._moved(op, {a: a for a in range(len(tile(op.operands[0].type)[0])) if a != axis})

    def dot(self, op: AnyOp) -> None:
        """Demand rows of the first operand and columns of the second."""
        found = self._of(op.results[0])
        a, b, *acc = op.operands
        for value, axis in ((a, 0), (b, 1)):
            self._use(value, None if found is None else frozenset(i for i in found if i[0] in (axis, WHOLE)))
        for value in acc:
            self._use(value, found)

    def _moved(self, op: AnyOp, axes: dict[int, int]) -> None:
        """Move what is demanded to the operand's axes, where it has them."""
        found = self._of(op.results[0])
        if found is not None:
            places = {**axes, WHOLE: WHOLE}
            found = frozenset((places[place], part) for place, part in found if place in places)
        self._use(op.operands[0], found)

    # -- control flow ------------------------------------------------------------------------------------------

    def loop(self, op: AnyOp) -> None:
        """Demand of what a loop carries the elements that any trip, or a user of the result, demands."""
        inner = body(op)
        last = list(inner.operations)[-1].operation
        for start, argument, value, result in zip(
            list(op.operands)[3:], list(inner.arguments)[1:], last.operands, op.results, strict=True
        ):
            for found in (_there(self._of(argument), op), self._of(result)):
                self._use(start, found)
                self._use(value, found)
        self._block(inner)

    def branch(self, op: AnyOp) -> None:
        """Demand of what each side yields the elements that are demanded of the result."""
        for region in op.regions:
            for block in region.blocks:
                last = list(block.operations)[-1].operation
                for value, result in zip(last.operands, op.results, strict=True):
                    self._use(value, self._of(result))
                self._block(block)

    def nothing(self, op: AnyOp) -> None:
        """Skip the end of a loop or a branch, which follow it themselves; what a `while` hands on counts."""
        if op.parent is not None and op.parent.name == "scf.while":
            for value in op.operands:
                self._use(value, _NONE)


def _there(found: Items | None, op: AnyOp) -> Items | None:
    """Return the items that mean the same in every trip of a loop."""
    return None if found is None else frozenset(item for item in found if available(item[1], op))


_RULES: Final[dict[str, Callable[[DemandedElements, AnyOp], None]]] = {
    "tessera.store": DemandedElements.store,
    "tessera.broadcast": DemandedElements.broadcast,
    "tessera.reshape": DemandedElements.reshape,
    "tessera.transpose": DemandedElements.transpose,
    "tessera.reduce": DemandedElements.reduce,
    "tessera.softmax": DemandedElements.softmax,
    "tessera.dot": DemandedElements.dot,
    "scf.for": DemandedElements.loop,
    "scf.if": DemandedElements.branch,
    "scf.yield": DemandedElements.nothing,
    "scf.condition": DemandedElements.nothing,
}
