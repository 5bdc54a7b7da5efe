"""Analyse which elements of each tile of a kernel exist: the analysis behind `tile-mask-absent`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tessera.core.base.ordered_set import OrderedSet
from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import UnsupportedLoop
from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.location import spans
from tessera.core.tile.verify import tile
from tessera.lowering.analysis.affine_forms import AffineForm, affine_form
from tessera.lowering.analysis.integers import IntegerRanges, integer_ranges
from tessera.lowering.analysis.memory_accesses import array_shapes, group_of, window_limits
from tessera.lowering.analysis.valid_elements import (
    SHAPES,
    WHOLE,
    Flags,
    Guard,
    Item,
    Limit,
    ValidElements,
    chosen,
    everything,
    keeps,
    made,
    merged,
    multiplied,
    nested,
    reduced,
)
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.ir_walk import body, defining
from tessera.lowering.tile.masking.availability import available
from tessera.lowering.tile.masking.carried_validity import CarriedValidity
from tessera.lowering.tile.masking.demanded_elements import DemandedElements
from tessera.lowering.tile.masking.exponentials import EXPONENTIALS, maximum_of_difference, reduced_axis, vanishes
from tessera.lowering.tile.masking.gathered_indices import indices_inside
from tessera.lowering.tile.masking.index_comparisons import (
    AT_MOST,
    GREATER,
    LESS,
    MIRRORED,
    counting_axis,
    not_negative,
    repeated_index,
    splat_number,
)
from tessera.lowering.tile.masking.mask_values import MaskBuilder
from tessera.lowering.tile.masking.zeros import stays_zero

CHOICE: Final = "tessera.choice"
"""Marks an `arith.select` of tiles that is the user's choice: what exists of it is what exists of what is chosen."""

Meaning = tuple[OrderedSet[Item], OrderedSet[Item]]
_ATTEMPTS: Final = 4


class ValidityAnalysis:
    """Works out what exists of each tile; `of` has the result, without tiles of which everything does."""

    def __init__(self, function: AnyOp) -> None:
        self.shapes = array_shapes(function)
        self.group = group_of(function)
        self.unobserved = DemandedElements(function, self.shapes)
        self.of: dict[ir.Value, ValidElements] = {}
        self._known: dict[ir.Block, IntegerRanges] = {}
        self._values: dict[Flags, ir.Value] = {}
        self._indices: dict[AnyOp, Flags] = {}

    def presence(self, value: ir.Value) -> ValidElements:
        """Return the elements of a tile that exist."""
        found = self.of.get(value)
        return everything(tile(value.type)[0]) if found is None else found

    def block(self, block: ir.Block) -> None:
        """Follow the operations of a block."""
        for op in list(block.operations):  # loops and branches may be replaced
            self.operation(op.operation)

    def operation(self, op: AnyOp) -> None:
        """Follow one operation, and what is inside it."""
        name = str(op.name)
        rule = _RULES.get(name)
        if rule is not None:
            rule(self, op)
        elif name.partition(".")[0] in ("arith", "math") and _is_tile(op.results[0]):
            self._element_wise(op)

    def _set(self, value: ir.Value, found: ValidElements) -> None:
        if found.items:
            self.of[value] = found
        else:
            self.of.pop(value, None)

    # -- where tiles come from ---------------------------------------------------------------------------------

    def load(self, op: AnyOp) -> None:
        """Mark what may lie outside the array as absent, unless it is not demanded anyway."""
        memory, *starts = op.operands
        facts = self._known.setdefault(op.operation.block, integer_ranges(op, self.group))
        items = [
            item
            for item in window_limits(op, memory, starts, self.shapes, facts)
            if not self.unobserved.drops(op.results[0], item)
        ]
        self._set(op.results[0], made(tile(op.results[0].type)[0], items, items))

    def gather(self, op: AnyOp) -> None:
        """Mark what lies outside the array along other axes, and where the index is outside or absent."""
        memory, index, *starts = op.operands
        shape, axis = tile(op.results[0].type)[0], int(ir.IntegerAttr(op.attributes["axis"]).value)
        place = axis - sum(dropped < axis for dropped in dropped_axes(op))
        facts = self._known.setdefault(op.operation.block, integer_ranges(op, self.group))
        limits = [item for item in window_limits(op, memory, starts, self.shapes, facts) if item[0] != place]
        if op not in self._indices:
            end = (self.shapes.get(memory) or tuple(ir.ShapedType(memory.type).shape))[axis]
            self._indices[op] = indices_inside(op, end, shape[place])
        outside: list[Item] = [*limits, (place, self._indices[op])]
        self._set(op.results[0], made(shape, [*outside, *self.presence(index).items], outside))

    # -- element by element ------------------------------------------------------------------------------------

    def _element_wise(self, op: AnyOp) -> None:
        tiles = [v for v in op.operands if _is_tile(v)]
        found = [self.presence(v) for v in tiles]
        items = OrderedSet[Item]().union(*(f.items for f in found))
        if items:
            zeros = [item for item in items if self._stays_zero(op, tiles, item)]
            self._set(op.results[0], made(found[0].shape, items, zeros))

    def _stays_zero(self, op: AnyOp, tiles: Sequence[ir.Value], item: Item) -> bool:
        """Return whether a result is 0 where an item is not met that its operands have."""
        if op.name in EXPONENTIALS:
            return self._vanishes(op, item)
        return stays_zero(op, tiles, [item in self.presence(v).zeros for v in tiles])

    def _vanishes(self, op: AnyOp, item: Item) -> bool:
        """Return whether an exponential is 0 where an item is not met: see `exponentials`."""
        maximum = maximum_of_difference(op)
        if maximum is None:
            return False
        facts = self._known.setdefault(op.operation.block, integer_ranges(op, self.group))
        return vanishes(self.presence(maximum.operands[0]), item, reduced_axis(maximum), facts)

    # -- one operation each; see the table at the end ------------------------------------------------------------

    def select(self, op: AnyOp) -> None:
        """Follow a choice: by a scalar it is one tile or the other; by a tile it is both; any other is element-wise."""
        condition, yes, no = op.operands
        if not _is_tile(yes):
            return
        if CHOICE not in op.attributes:
            self._element_wise(op)
            return
        a, b = self.presence(yes), self.presence(no)
        if splat_number(yes) == 0:
            a = ValidElements(a.shape, a.items, a.items | b.items)
        if splat_number(no) == 0:
            b = ValidElements(b.shape, b.items, a.items | b.items)
        if not _is_tile(condition):
            self._set(op.results[0], merged(a, b, Guard(condition, None)))
            return
        test = self.presence(condition).items  # exists, so what follows from it does
        rest = _without(a, test), _without(b, test)
        found = chosen(condition, *rest, self._implied(condition, *rest))
        zeros = found.zeros | (test & a.zeros & b.zeros)
        self._set(op.results[0], self._settled(op, made(found.shape, found.items | test, zeros)))

    def _settled(self, op: AnyOp, found: ValidElements) -> ValidElements:
        """Return `found` with nested computed conditions as values: the size of nested ones would double."""
        items, zeros = (OrderedSet(self._value_of(op, item) for item in part) for part in (found.items, found.zeros))
        return ValidElements(found.shape, items, zeros)

    def _value_of(self, op: AnyOp, item: Item) -> Item:
        place, part = item
        if not isinstance(part, Flags) or not nested(part):
            return item
        if part not in self._values:
            self._values[part] = MaskBuilder(Emitter.before(op)).computed(part)
        return place, Flags("given", part.shape, (self._values[part],))

    def _implied(self, condition: ir.Value, a: ValidElements, b: ValidElements) -> tuple[ValidElements, ValidElements]:
        """Return both choices without the items that the condition implies wherever it makes the choice."""
        true, false = self.meaning(condition)
        return _without(a, true), _without(b, false)

    # -- what a tile of bool says of indices -------------------------------------------------------------------

    def meaning(self, value: ir.Value) -> Meaning:
        """Return the items that are met wherever a tile of i1 is true, and those that are met wherever it is false."""
        op = defining(value)
        rule = _MEANINGS.get(str(op.name)) if op is not None else None
        return (OrderedSet(), OrderedSet()) if op is None or rule is None else rule(self, op)

    def compared(self, op: AnyOp) -> Meaning:
        """Turn a comparison of indices with a number into a limit, and another one where it is false."""
        predicate = int(ir.IntegerAttr(op.attributes["predicate"]).value)
        a, b = op.operands
        for index, end, order in ((a, b, predicate), (b, a, MIRRORED.get(predicate, 0))):
            place, number = counting_axis(index), repeated_index(end)
            if place is None or number is None or order not in MIRRORED:
                continue
            axis, start = place
            bound = affine_form(number) - start
            if order in (AT_MOST, GREATER):
                bound = bound - affine_form(-1)
            fixed = tile(op.results[0].type)[0][axis] == 1
            below, above = ((axis, Limit(bound, upper, fixed, None, None)) for upper in (True, False))
            less = order in (LESS, AT_MOST)
            return OrderedSet([below if less else above]), OrderedSet([above if less else below])
        return OrderedSet(), OrderedSet()

    def joined(self, op: AnyOp) -> Meaning:
        """Join what both operands say where both are true, or both are false."""
        a, b = (self.meaning(v) for v in op.operands)
        both = a[0] | b[0], a[1] | b[1]
        return (both[0], OrderedSet()) if op.name == "arith.andi" else (OrderedSet(), both[1])

    def negated(self, op: AnyOp) -> Meaning:
        """Exchange what is known where a mask is true and where it is false."""
        true, false = self.meaning(op.operands[0])
        return (false, true) if splat_number(op.operands[1]) else (OrderedSet(), OrderedSet())

    def tested(self, op: AnyOp) -> Meaning:
        """Follow `tessera.valid`: it is true where an element exists."""
        return self.presence(op.operands[0]).items, OrderedSet()

    def elsewhere(self, op: AnyOp) -> Meaning:
        """Carry what is known of a mask to another shape."""
        shape = tuple(tile(op.operands[0].type)[0])
        true, false = (
            SHAPES[str(op.name)](ValidElements(shape, items), op).items for items in self.meaning(op.operands[0])
        )
        return true, false

    # -- shapes ------------------------------------------------------------------------------------------------

    def shaped(self, op: AnyOp) -> None:
        """Follow an operation that only moves elements."""
        self._set(op.results[0], self._settled(op, SHAPES[str(op.name)](self.presence(op.operands[0]), op)))

    def reduce(self, op: AnyOp) -> None:
        """Keep the limits of all axes but the reduced one."""
        if _is_tile(op.results[0]):
            axis = int(ir.IntegerAttr(op.attributes["axis"]).value)
            self._set(op.results[0], reduced(self.presence(op.operands[0]), axis))

    def softmax(self, op: AnyOp) -> None:
        """Give a softmax what exists of its operand."""
        found = self.presence(op.operands[0])
        self._set(op.results[0], ValidElements(found.shape, found.items))

    def dot(self, op: AnyOp) -> None:
        """Give a product what exists of its accumulator; without one, of its rows and columns."""
        a, b, *acc = (self.presence(v) for v in op.operands)
        self._set(op.results[0], ValidElements(acc[0].shape, acc[0].items) if acc else multiplied(a, b))

    # -- control flow ------------------------------------------------------------------------------------------

    def loop(self, op: AnyOp) -> None:
        """Find what exists of carried tiles in every trip; where that depends on the trip, the loop carries it too."""
        inner, carried = body(op), _tiles(op.results)
        lower, upper = list(op.operands)[:2]
        not_first, ran = Guard(lower, inner.arguments[0]), Guard(lower, upper)
        first = [self.presence(op.operands[3 + i]) for i in carried]
        entering, leaving = first, first
        for _ in range(_ATTEMPTS):
            leaving = self._trip(op, carried, entering)
            if not all(available(part, op) for found in leaving for _, part in found.items):
                break
            again = [merged(b, a, not_first) for a, b in zip(first, leaving, strict=True)]
            if [found.items for found in again] == [found.items for found in entering]:
                for i, a, b in zip(carried, first, leaving, strict=True):
                    self._set(op.results[i], merged(b, a, ran))
                return
            entering = again
        self._carry(op, carried, first, leaving)

    def _trip(self, op: AnyOp, carried: Sequence[int], entering: Sequence[ValidElements]) -> list[ValidElements]:
        """Return what exists of the carried tiles after a trip, from what exists before it."""
        inner = body(op)
        for i, found in zip(carried, entering, strict=True):
            self._set(inner.arguments[1 + i], ValidElements(found.shape, found.items))
        self.block(inner)
        last = list(inner.operations)[-1].operation
        return [self.presence(last.operands[i]) for i in carried]

    def _carry(
        self, op: AnyOp, carried: Sequence[int], first: Sequence[ValidElements], leaving: Sequence[ValidElements]
    ) -> None:
        """Let a loop carry what exists of its tiles, in values of their own."""
        inner = body(op)
        luggage = [CarriedValidity(a.shape) for a in first]
        arguments: list[list[ir.Value]] = [[] for _ in first]
        while _take_all(luggage, first, leaving):
            for bag, values in zip(luggage, arguments, strict=True):
                values += [inner.add_argument(kind, op.location) for kind in bag.types[len(values) :]]
            entering = [bag.unpacked(values) for bag, values in zip(luggage, arguments, strict=True)]
            leaving = self._trip(op, carried, entering)
        last = list(inner.operations)[-1].operation
        before, after = Emitter.before(op), Emitter.before(last)
        start = [v for bag, found in zip(luggage, first, strict=True) for v in bag.packed(MaskBuilder(before), found)]
        end = [v for bag, found in zip(luggage, leaving, strict=True) for v in bag.packed(MaskBuilder(after), found)]
        order = [v for values in arguments for v in values]
        # Arguments were added as they were needed, tile after tile only within one round.
        added = list[ir.Value](inner.arguments)[1 + len(op.results) :]
        places = [added.index(v) for v in order]
        start, end = ([v for _, v in sorted(zip(places, vs, strict=True), key=lambda p: p[0])] for vs in (start, end))
        made_op = before.create(
            "scf.for", [*op.operands, *start], [v.type for v in (*op.results, *start)], _attributes(op), regions=1
        )
        inner.append_to(made_op.regions[0])
        after.create("scf.yield", [*last.operands, *end])
        last.erase()
        results = list(made_op.results)
        found_at = dict(zip(order, (results[len(op.results) + place] for place in places), strict=True))
        for i, bag, values in zip(carried, luggage, arguments, strict=True):
            self._set(results[i], bag.unpacked([found_at[v] for v in values]))
        for old, new in zip(list(op.results), results, strict=False):
            old.replace_all_uses_with(new)
        op.erase()

    def branch(self, op: AnyOp) -> None:
        """Give each result what exists of the tile that the side yields which runs."""
        sides: list[ir.Operation] = []
        for region in op.regions:
            for block in region.blocks:
                self.block(block)
                sides.append(list(block.operations)[-1].operation)
        tiles = _tiles(op.results)
        known = [(side, not_negative(op.operands[0], holds)) for side, holds in zip(sides, (True, False), strict=False)]
        found = [[_inside(self.presence(side.operands[i]), facts) for side, facts in known] for i in tiles]
        if all(available(part, op) for pair in found for one in pair for _, part in one.items):
            for i, (a, b) in zip(tiles, found, strict=True):
                self._set(op.results[i], merged(a, b, Guard(op.operands[0], None)))
        else:
            self._yield_more(op, sides, tiles, found)

    def _yield_more(
        self, op: AnyOp, sides: Sequence[ir.Operation], tiles: Sequence[int], found: list[list[ValidElements]]
    ) -> None:
        """Let a branch yield what exists of its tiles, in values of their own."""
        luggage = [CarriedValidity(pair[0].shape) for pair in found]
        for bag, pair in zip(luggage, found, strict=True):
            for one in pair:
                bag.take(one)
        more = [kind for bag in luggage for kind in bag.types]
        emit = Emitter.before(op)
        kinds = [*(v.type for v in op.results), *more]
        made_op = emit.create("scf.if", list(op.operands), kinds, _attributes(op), regions=2)
        for number, side in enumerate(sides):
            inner = Emitter.before(side)
            extra = [
                v
                for bag, pair in zip(luggage, found, strict=True)
                for v in bag.packed(MaskBuilder(inner), pair[number])
            ]
            inner.create("scf.yield", [*side.operands, *extra])
            side.block.append_to(made_op.regions[number])
            side.erase()
        results = list(made_op.results)
        rest = results[len(op.results) :]
        for i, bag in zip(tiles, luggage, strict=True):
            mine, rest = rest[: len(bag.types)], rest[len(bag.types) :]
            self._set(results[i], bag.unpacked(mine))
        for old, new in zip(list(op.results), results, strict=False):
            old.replace_all_uses_with(new)
        op.erase()

    def repeat(self, op: AnyOp) -> None:
        """Follow both regions of a `while`; of tiles that it hands on, everything has to exist."""
        handed = list(op.operands)
        for region in op.regions:
            block = region.blocks[0]
            self.block(block)
            handed += list(list(block.operations)[-1].operation.operands)
        if any(_is_tile(value) and self.presence(value).items for value in handed):
            raise UnsupportedLoop(
                "this `while` hands on a tile of which not everything may exist",
                next(iter(spans(op.location)), NOWHERE),
                "say what stands there: tile.fill(t, 0.0), or tile.load(..., other=0.0); or write a `for`",
            )


def _without(found: ValidElements, implied: OrderedSet[Item]) -> ValidElements:
    return found.without([item for item in found.items if any(_implies(other, item) for other in implied)])


def _inside(found: ValidElements, facts: Sequence[AffineForm]) -> ValidElements:
    """Drop the limits that a tile keeps where these forms are not negative."""

    def kept(item: Item) -> bool:
        place, part = item
        if not isinstance(part, Limit) or place == WHOLE:
            return False
        last = affine_form(1 if part.fixed else found.shape[place]) if part.upper else affine_form(0)
        margin = part.bound - last if part.upper else last - part.bound
        return any((difference := margin.constant_difference(fact)) is not None and difference >= 0 for fact in facts)

    return found.without([item for item in found.items if kept(item)])


def _take_all(luggage: Sequence[CarriedValidity], *found: Sequence[ValidElements]) -> bool:
    """Add pieces for all; return whether some were missing."""
    new = [bag.take(one) for side in found for bag, one in zip(luggage, side, strict=True)]
    return any(new)


def _tiles(values: Iterable[ir.Value]) -> list[int]:
    return [number for number, value in enumerate(values) if _is_tile(value)]


def _attributes(op: AnyOp) -> dict[str, ir.Attribute]:
    return {name: op.attributes[name] for name in op.attributes}


def _implies(item: Item, other: Item) -> bool:
    if item == other:
        return True
    return not item[1].guards and keeps(item, other)


def _is_tile(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


_MEANINGS: Final[dict[str, Callable[[ValidityAnalysis, AnyOp], Meaning]]] = {
    "arith.cmpi": ValidityAnalysis.compared,
    "arith.andi": ValidityAnalysis.joined,
    "arith.ori": ValidityAnalysis.joined,
    "arith.xori": ValidityAnalysis.negated,
    "tessera.valid": ValidityAnalysis.tested,
    **dict.fromkeys(SHAPES, ValidityAnalysis.elsewhere),
}
_RULES: Final[dict[str, Callable[[ValidityAnalysis, AnyOp], None]]] = {
    "tessera.load": ValidityAnalysis.load,
    "tessera.gather": ValidityAnalysis.gather,
    "arith.select": ValidityAnalysis.select,
    **dict.fromkeys(SHAPES, ValidityAnalysis.shaped),
    "tessera.reduce": ValidityAnalysis.reduce,
    "tessera.softmax": ValidityAnalysis.softmax,
    "tessera.dot": ValidityAnalysis.dot,
    "scf.for": ValidityAnalysis.loop,
    "scf.if": ValidityAnalysis.branch,
    "scf.while": ValidityAnalysis.repeat,
}
