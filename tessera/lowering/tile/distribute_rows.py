"""Spread a kernel's whole-array statements over groups, a block of rows each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.verify import is_shared, tile
from tessera.lowering.analysis.memory_accesses import Access, accesses, extents_of
from tessera.lowering.analysis.row_dependence import SOURCES, RowDependence, memory_axis
from tessera.lowering.base.attributes import RANGES, flags, integers, proven_axes, text, to_attribute
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.ir_walk import body, constant, defining, kernel, operations
from tessera.lowering.base.passes import Pass

_BLOCKED: Final = (
    "tessera.id",
    "tessera.write",
    "tessera.masked_store",
    "tessera.group_sync",
    "tessera.shuffle",
    "scf.while",
)
_FEWEST_ROWS: Final = 8
_MOST_ROWS: Final = 4096
_ENOUGH_GROUPS: Final = 4
_ENOUGH_ELEMENTS: Final = 4096


@dataclass(frozen=True, slots=True)
class DistributeRows(Pass):
    """Let each group compute a block of rows of everything, where no row needs another.

    before: `%h = tessera.dot %X, %W1 : tile<256x128xf32>` ... `tessera.store %y, %Out[0:+256, 0:+64]`
    after:  `%h = tessera.dot %X, %W1 : tile<64x128xf32>` with `%X` loaded from row `64 * group`, and so on;
            the function says `tessera.ranges = [[256, 64]]`
    keeps:  kernels that use ids or write single elements; stores whose rows depend on other rows; kernels in which
            every group would repeat more than it has to do

    `rows` is the block's height where the kernel's option `rows_per_group` does not say; it is halved while there
    would be few groups, and doubled while a block would hold few elements.
    """

    rows: int = 64
    name: ClassVar[str] = "tile-distribute-rows"

    def run(self, module: ir.Module) -> None:
        """Distribute the rows of the kernel where that is provably legal."""
        function = kernel(module)
        plan = _plan(function)
        if plan is None:
            return
        total, stores, cuts = plan
        rows = _height(function, self.rows, total, stores[0])
        masked = total % rows == 0 or all(_whole(store) for store in stores)
        if rows < total and masked and _worthwhile(function, cuts, rows / total):
            _RowRewriter(function, cuts, total, rows).run(stores)


def _plan(function: AnyOp) -> tuple[int, list[AnyOp], RowDependence] | None:
    """Return how many rows there are, the stores and what they cut; None when rows are not independent."""
    stores = operations(function, "tessera.store")
    if RANGES in function.attributes or not stores or operations(function, *_BLOCKED):
        return None
    heights = {tile(s.operands[1].type)[0][0] for s in stores}
    cuts = RowDependence()
    if len(heights) > 1 or any(is_shared(s.operands[0].type) for s in stores):
        return None
    if not all(cuts.need(s, 1, 0) for s in stores):
        return None
    for copy in operations(function, "tessera.copy"):
        if copy.operands[0] in cuts.axes:  # a copy fills the rows of a cut buffer with the same rows of its source
            cuts.uses.add((copy, 0))
    legal = _rows_are_disjoint(function, stores, cuts) and _uses_agree(stores, cuts)
    return (heights.pop(), stores, cuts) if legal else None


def _rows_are_disjoint(function: AnyOp, stores: Sequence[AnyOp], cuts: RowDependence) -> bool:
    """Return whether accesses of written arrays are all cut to the same rows, so that no group sees another's."""
    windows: dict[ir.Value, tuple[int, int | None]] = {}
    for store in stores:
        axis = memory_axis(store, 0)
        window = (axis, constant(store.operands[2 + axis]))
        if window[1] is None or windows.setdefault(store.operands[0], window) != window:
            return False
    return all(_agrees(access, windows, cuts) for access in accesses(function) if not access.writes)


def _agrees(access: Access, windows: dict[ir.Value, tuple[int, int | None]], cuts: RowDependence) -> bool:
    if access.memory not in windows:
        return True
    axis, start = windows[access.memory]
    return cuts.loads.get(access.op) == axis and constant(access.starts[axis]) == start


def _worthwhile(function: AnyOp, cuts: RowDependence, share: float) -> bool:
    """Return whether what every group computes whole is no more than its own share of what is cut."""
    whole = cut = 0.0
    for op in operations(function):
        if op.results and isinstance(op.results[0].type, ir.RankedTensorType) and not op.name.startswith("scf."):
            if op.results[0] in cuts.axes:
                cut += _work(op) * share
            else:
                whole += _work(op)
    return whole <= cut


def _work(op: AnyOp) -> int:
    """Estimate how many elements `op` handles: multiply-adds of a product, else those of operand or result."""
    sizes = [math.prod(tile(v.type)[0]) for v in (*op.operands, *op.results)]
    return sizes[-1] * tile(op.operands[0].type)[0][1] if op.name == "tessera.dot" else max(sizes)


def _uses_agree(stores: Sequence[AnyOp], cuts: RowDependence) -> bool:
    """Return whether no cut value is used whole, unless it is cheap to have both."""
    written = [store.operands[0] for store in stores]
    return all(_cheap(value, written) or not cuts.whole_uses(value) for value in cuts.axes)


def _cheap(value: ir.Value, written: Sequence[ir.Value]) -> bool:
    """Return whether a value can be had whole beside its cut self; not so of an array in which other groups write."""
    op = defining(value)
    return op is not None and op.name in SOURCES and not (op.name == "tessera.load" and op.operands[0] in written)


def _height(function: AnyOp, rows: int, total: int, store: AnyOp) -> int:
    """Return the height of a block: the kernel's option, or a power of two for enough groups of enough elements."""
    options = ir.DictAttr(function.attributes["tessera.options"])
    if "rows_per_group" in options:
        return max(1, min(total, ir.IntegerAttr(options["rows_per_group"]).value))
    width = 1
    for extent in tile(store.operands[1].type)[0][1:]:
        width *= extent
    while rows * width < _ENOUGH_ELEMENTS and rows < _MOST_ROWS:
        rows *= 2
    while rows > _FEWEST_ROWS and total < _ENOUGH_GROUPS * rows:
        rows //= 2
    return rows


def _whole(store: AnyOp) -> bool:
    """Return whether a store covers its array's rows to the last, so that rows past them are masked anyway."""
    axis = memory_axis(store, 0)
    kind = store.operands[0].type
    static = not ir.ShapedType(kind).is_dynamic_dim(axis)
    return (
        static
        and (constant(store.operands[2 + axis]) or 0) + extents_of(store)[axis] == ir.ShapedType(kind).shape[axis]
    )


class _RowRewriter:
    """Cuts the values of one kernel into blocks of `rows` of its `total` rows."""

    def __init__(self, function: AnyOp, cuts: RowDependence, total: int, rows: int) -> None:
        self.function = function
        self.cuts = cuts
        self.rows = rows
        self.exact = total % rows == 0
        function.attributes[RANGES] = to_attribute(((total, rows),))
        emit = Emitter.before(body(function).operations[0].operation)
        emit.location = function.location
        group = emit.value("tessera.id", [], "i64", {"of": text("group")})
        self.first = emit.value("arith.muli", [group, emit.constant(rows, "i64")], "i64")

    def run(self, stores: Sequence[AnyOp]) -> None:
        """Shrink every cut value, and move the windows of loads, stores and copies."""
        # An operation's hash covers its operands, types and attributes: look everything up before changing anything.
        cuts = self.cuts
        whole = [(value, uses) for value in cuts.axes if (uses := cuts.whole_uses(value))]
        copies = [op for op in operations(self.function, "tessera.copy") if op.operands[0] in cuts.axes]
        windows = [(op, axis, 1 + axis) for op, axis in cuts.loads.items()]
        for op, axis in [*((s, 0) for s in stores), *((c, cuts.axes[c.operands[0]]) for c in copies)]:
            windows.append((op, memory_axis(op, axis), 2 + memory_axis(op, axis)))
        for value, uses in whole:
            self._keep_whole(value, uses)
        for value, axis in cuts.axes.items():
            self._shrink(value, axis)
        for op, axis, operand in windows:
            self._window(op, axis, operand)

    def _keep_whole(self, value: ir.Value, uses: Sequence[tuple[AnyOp, int]]) -> None:
        """Give those who need all rows of a cheap value a copy of it."""
        op = defining(value)
        if op is None:
            return
        copy = op.clone(ir.InsertionPoint(op))
        for user, number in uses:
            user.operands[number] = copy.results[0]

    def _shrink(self, value: ir.Value, axis: int) -> None:
        """Give a cut value its smaller type, and its operation what goes with it."""
        kind = value.type
        shape = list(ir.ShapedType(kind).shape)
        shape[axis] = self.rows
        if isinstance(kind, ir.MemRefType):
            value.set_type(ir.MemRefType.get(shape, kind.element_type, memory_space=kind.memory_space))
        else:
            value.set_type(ir.RankedTensorType.get(shape, ir.ShapedType(kind).element_type))
        op = defining(value)
        if op is None:
            return
        if op.name == "arith.constant":
            scalar = ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()
            op.attributes["value"] = ir.DenseElementsAttr.get_splat(value.type, scalar)
        elif op.name == "tessera.arange":
            self._moved(op, 0)
        elif op.name == "tessera.load":
            self._resize(op, memory_axis(op, axis))

    def _window(self, op: AnyOp, axis: int, operand: int) -> None:
        """Let `op` access the block's rows along axis `axis` of an array."""
        self._resize(op, axis)
        inside = proven_axes(op)
        inside[axis] = inside[axis] and self.exact
        op.attributes["in_bounds"] = flags(inside)
        self._moved(op, operand)

    def _resize(self, op: AnyOp, axis: int) -> None:
        extents = list(extents_of(op))
        extents[axis] = self.rows
        op.attributes["extents"] = integers(extents)

    def _moved(self, op: AnyOp, operand: int) -> None:
        """Add the block's first row to an index operand."""
        start = op.operands[operand]
        moved = self.first
        if constant(start) != 0:
            moved = Emitter.before(op).value("arith.addi", [start, self.first], "i64")
        op.operands[operand] = moved
