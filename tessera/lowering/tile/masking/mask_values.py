"""From what exists of a tile to a mask: the operations that compute it, written where it is needed."""

from collections.abc import Iterable
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.analysis.valid_elements import MASK, WHOLE, Flags, Guard, Item, Limit, ValidElements
from tessera.lowering.base.attributes import integers, text
from tessera.lowering.base.emit import Emitter

UNLIMITED: Final = 1 << 62
"""Above every index; its opposite is below every one."""
_SLT: Final = 2
_SGE: Final = 5


class MaskBuilder:
    """Writes masks through `emit`."""

    def __init__(self, emit: Emitter) -> None:
        self.emit = emit

    def tile(self, shape: tuple[int, ...], items: Iterable[Item]) -> ir.Value | None:
        """Return a tile of i1, true where all of `items` are met; None for no items."""
        found: ir.Value | None = None
        scalar: ir.Value | None = None
        for place, part in sorted(items, key=_order):
            if isinstance(part, Limit) and part.fixed:
                scalar = self._both(scalar, self._scalar(part))
            else:
                found = self._both(found, self._spread(self._flags(part, shape, place), shape, place))
        if scalar is not None:
            found = self._both(found, self.emit.value("tensor.splat", [scalar], _flags_of(shape)))
        return found

    def flags(self, shape: tuple[int, ...], items: Iterable[Item]) -> ir.Value:
        """Return `tile`, all true for no items."""
        found = self.tile(shape, items)
        return self.emit.constant(1, _flags_of(shape)) if found is None else found

    def computed(self, part: Flags) -> ir.Value:
        """Return the tile of i1 that a computed condition is."""
        return self._unless_guarded(part, self._computed(part))

    def limit(self, parts: Iterable[Limit], upper: bool) -> ir.Value:
        """Return the least upper, or the greatest lower, bound of indices counted from 0, an i64."""
        found = self.emit.constant(UNLIMITED if upper else -UNLIMITED, "i64")
        for part in parts:
            if part.upper == upper:
                end = self._end(part)
                if part.start is not None:
                    end = self.emit.value("arith.subi", [end, part.start], "i64")
                end = self._where_counted(part, end)
                found = self.emit.value("arith.minsi" if upper else "arith.maxsi", [found, end], "i64")
        return found

    # -- one condition -----------------------------------------------------------------------------------------

    def _flags(self, part: Limit | Flags, shape: tuple[int, ...], place: int) -> ir.Value:
        """Return the flags of a condition that differs between indices."""
        if isinstance(part, Flags):
            return self.computed(part)
        kind = ir.RankedTensorType.get([shape[place]], self.emit.type("i64"))
        start = self.emit.constant(0, "i64") if part.start is None else part.start
        indices = self.emit.value("tessera.arange", [start], kind)
        end = self.emit.value("tensor.splat", [self._where_counted(part, self._end(part))], kind)
        return self._compare(indices, end, part.upper, _flags_of((shape[place],)))

    def _scalar(self, part: Limit) -> ir.Value:
        start = self.emit.constant(0, "i64") if part.start is None else part.start
        return self._compare(start, self._where_counted(part, self._end(part)), part.upper, self.emit.type("i1"))

    def _compare(self, a: ir.Value, b: ir.Value, upper: bool, kind: ir.Type) -> ir.Value:
        predicate = f"{_SLT if upper else _SGE} : i64"
        return self.emit.value("arith.cmpi", [a, b], kind, {"predicate": predicate})

    def _end(self, part: Limit) -> ir.Value:
        if isinstance(part.end, int):
            return self.emit.constant(part.end, "i64")
        if isinstance(part.end, str):
            return self.emit.value("tessera.dim", [], "i64", {"symbol": text(part.end)})
        assert part.end is not None  # only limits that are compared have none
        return part.end

    def _where_counted(self, part: Limit, end: ir.Value) -> ir.Value:
        """Return `end`, or no limit where the limit does not count."""
        if not part.guards:
            return end
        free = self.emit.constant(UNLIMITED if part.upper else -UNLIMITED, "i64")
        return self.emit.value("arith.select", [self._counts(part.guards), end, free], "i64")

    def _counts(self, guards: Iterable[Guard]) -> ir.Value:
        """Return whether all guards hold, an i1."""
        found: ir.Value | None = None
        for guard in sorted(guards, key=str):
            if guard.b is None:
                value = guard.a if guard.holds else self._opposite(guard.a)
            else:
                predicate = f"{_SLT if guard.holds else _SGE} : i64"
                value = self.emit.value("arith.cmpi", [guard.a, guard.b], "i1", {"predicate": predicate})
            found = self._both(found, value)
        assert found is not None  # what has no guards always counts
        return found

    def _unless_guarded(self, part: Flags, flags: ir.Value) -> ir.Value:
        if not part.guards:
            return flags
        free = self.emit.value("tensor.splat", [self._opposite(self._counts(part.guards))], flags.type)
        return self.emit.value("arith.ori", [flags, free], flags.type)

    def _opposite(self, condition: ir.Value) -> ir.Value:
        true = self.emit.constant(1, condition.type)
        return self.emit.value("arith.xori", [condition, true], condition.type)

    def _computed(self, part: Flags) -> ir.Value:
        kind = _flags_of(part.shape or (1,))
        if part.kind == "given":
            return part.inputs[0]
        if part.kind == "choice":
            condition, *sides = part.inputs
            return self.emit.value("arith.select", [condition, *map(self._all, sides)], kind)
        if part.kind == "either":
            return self.emit.value("arith.ori", [self._all(side) for side in part.inputs], kind)
        name, attributes, inner = part.inputs
        source = self._all(inner)
        return self.emit.value(name, [source], kind, {key: integers(value) for key, value in attributes})

    def _all(self, found: ValidElements) -> ir.Value:
        return self.flags(found.shape or (1,), found.items)

    # -- shapes ------------------------------------------------------------------------------------------------

    def _spread(self, flags: ir.Value, shape: tuple[int, ...], place: int) -> ir.Value:
        """Spread flags of one place over a tile of `shape`."""
        if place == MASK:
            return flags
        thin = tuple(1 if axis != place else extent for axis, extent in enumerate(shape))
        if place == WHOLE:
            thin = (1,) * len(shape)
        if tuple(ir.ShapedType(flags.type).shape) != thin:
            flags = self.emit.value("tessera.reshape", [flags], _flags_of(thin))
        return flags if thin == shape else self.emit.value("tessera.broadcast", [flags], _flags_of(shape))

    def _both(self, a: ir.Value | None, b: ir.Value) -> ir.Value:
        return b if a is None else self.emit.value("arith.andi", [a, b], b.type)


def _flags_of(shape: tuple[int, ...]) -> ir.RankedTensorType:
    return ir.RankedTensorType.get(list(shape), ir.IntegerType.get_signless(1))


def _order(item: Item) -> tuple[int, str]:
    """Return a key for an order that is the same in every run."""
    place, part = item
    if isinstance(part, Limit):
        return place, f"0 {part.upper} {part.bound.constant} {len(part.bound.terms)} {len(part.guards)} {part.end}"
    return place, f"1 {part.kind} {part.shape} {len(part.guards)}"
