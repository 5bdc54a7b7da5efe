"""Contents of arrays: what the kernel was given, and over it what its stores leave, as functions of the place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Expr, Literal
from tessera.core.graph.graph import Value as TensorValue
from tessera.core.program.program import Block, Op, Program, Value
from tessera.core.program.types import Array, Tile
from tessera.lowering.raising.evaluate import Evaluator
from tessera.lowering.raising.loops import LoopValues, trips_of
from tessera.lowering.raising.positions import AffinePosition, Axis, NotAffine, along
from tessera.lowering.raising.refusals import NotRaised
from tessera.lowering.raising.scopes import LoopScope
from tessera.lowering.raising.solve import solve
from tessera.lowering.raising.terms import Conditions, GatheredLoad, Load, conjunction, cut_extent

_WRITES = ("write", "store")


@dataclass(frozen=True, slots=True)
class _Store:
    """One `write` or `store`, for all points that reach it.

    axes: of the points, outer ones first; serial: those whose points come one after the other
    """

    op: Op
    axes: tuple[Axis, ...]
    serial: frozenset[Axis]
    indices: tuple[AffinePosition, ...]
    value: Expr
    conditions: Conditions


class ArrayMemory:
    """The arrays of one kernel."""

    def __init__(
        self, program: Program, evaluator: Evaluator, loops: LoopValues, given: Mapping[Value, TensorValue],
        lanes: tuple[LoopScope, tuple[Axis, ...]],
    ) -> None:  # fmt: skip
        self._evaluator, self._loops, self._given = evaluator, loops, given
        self._terms = evaluator.terms
        self._start, self._lanes = lanes
        self._order = {op: n for n, op in enumerate(program.body.walk())}
        self._paths: dict[Op, tuple[tuple[Op, int], ...]] = {}
        self._record(program.body, ())
        self._stores: dict[Op, _Store] = {}

    def _record(self, block: Block, path: tuple[tuple[Op, int], ...]) -> None:
        for op in block.ops:
            if op.opcode in _WRITES:
                self._paths[op] = path
            for number, region in enumerate(op.regions):
                self._record(region, (*path, (op, number)))

    def read(self, array: Value, indices: Sequence[AffinePosition | Expr], op: Op, scope: LoopScope) -> Expr:
        """Return the element of an array as `op` sees it; 0 outside of it."""
        del scope
        earlier = [w for w in self._paths if w.operands[0] is array and self._order[w] < self._order[op]]
        if not earlier:
            return self._given_at(array, indices)
        places = [index for index in indices if isinstance(index, AffinePosition)]
        if len(places) < len(indices):
            raise NotRaised("an array that the kernel has written is read at an index that is computed", op.span)
        return self._after(array, earlier, places)

    def final(self, array: Value, place: Sequence[AffinePosition]) -> Expr:
        """Return what an array holds at a place when the kernel is done."""
        return self._after(array, [op for op in self._paths if op.operands[0] is array], place)

    def writes(self, array: Value) -> bool:
        """Return whether the kernel writes an array."""
        return any(op.operands[0] is array for op in self._paths)

    def _given_at(self, array: Value, indices: Sequence[AffinePosition | Expr]) -> Expr:
        value = self._given.get(array)
        if value is None:
            raise NotRaised("memory of a kernel's own is not raised", array.span)
        places = [index for index in indices if isinstance(index, AffinePosition)]
        if len(places) < len(indices):
            exprs = tuple(self._terms.expr(index) for index in indices)
            return self._terms.leaf(GatheredLoad(value, exprs), value.type.dtype)
        if any(i.high < 0 or i.low >= n for i, n in zip(places, value.type.shape, strict=True)):
            return _zero(value.type.dtype)
        return self._terms.leaf(Load(value, tuple(places)), value.type.dtype)

    def _after(self, array: Value, ops: Sequence[Op], place: Sequence[AffinePosition]) -> Expr:
        """Return the element at a place after some stores, the last one first."""
        over: list[tuple[Conditions, Expr]] = []
        for op in reversed(ops):
            conditions, value = self._stored(op, place)
            over.append((conditions, value))
            if not conditions:
                break
        made = self._given_at(array, place) if over[-1][0] else over.pop()[1]
        for conditions, value in reversed(over):
            made = self._terms.chosen(conditions, value, made)
        return made

    def _stored(self, op: Op, place: Sequence[AffinePosition]) -> tuple[Conditions, Expr]:
        """Return what a store leaves at a place, and when."""
        store = self._store(op)
        if any(axis.extent == 0 for axis in store.axes):
            return conjunction([AffinePosition(-1)]), store.value
        try:
            places, reached = solve(store.indices, place)
            conditions = conjunction((*reached, *self._terms.moved_conditions(store.conditions, places)))
            value = self._terms.moved(store.value, places)
            for axis in store.axes:
                if axis not in places and axis in self._terms.free(value) | self._terms.free_of_conditions(conditions):
                    last = {axis: AffinePosition(self._only(store, axis, conditions))}
                    value = self._terms.moved(value, last)
                    conditions = self._terms.moved_conditions(conditions, last)
        except NotAffine:
            reason = "several points of this kernel may write one element, or which one does has no closed form"
            raise NotRaised(reason, op.span) from None
        return conditions, value

    def _only(self, store: _Store, axis: Axis, conditions: Conditions) -> int:
        """Return the point of an axis that decides: the only one, or the last of a serial loop."""
        extent = cut_extent(conditions, axis)
        pinned = [c for c in conditions if isinstance(c, AffinePosition) and c.axes == frozenset({axis})]
        if extent == 1 or (axis in store.serial and axis not in self._terms.free_of_conditions(conditions)):
            return extent - 1
        least = next((-c.constant for c in pinned if len(c.terms) == 1 and c.terms[0][1] == 1), 0)
        if least == extent - 1:
            return least
        raise NotRaised("lanes or blocks that run side by side write different values to one element", store.op.span)

    def _store(self, op: Op) -> _Store:
        if op not in self._stores:
            self._stores[op] = self._made(op)
        return self._stores[op]

    def _made(self, op: Op) -> _Store:
        scope, axes = self._start, list(self._lanes)
        serial: set[Axis] = set()
        conditions: list[AffinePosition | Expr] = []
        for control, region in self._paths[op]:
            if control.opcode == "for":
                trips = trips_of(self._evaluator, control, scope)
                scope = self._loops.at_trip(control, scope, trips)
                axes.append(trips.axis)
                conditions += trips.conditions
                serial |= {trips.axis} if control.attributes["kind"] == "range" else set()
            elif control.opcode == "if":
                conditions += self._branch(control, region, scope)
            else:
                raise NotRaised("a loop that runs until values say so is not raised", control.span)
        array, source, *starts = op.operands
        at: list[AffinePosition] = []
        for extent in source.type.shape if isinstance(source.type, Tile) else ():
            axes.append(self._terms.axis(extent))
            at.append(along(axes[-1]))
        if op.opcode == "store":
            indices = self._evaluator.tile_indices(op, starts, tuple(at), scope)
        else:
            indices = [self._evaluator.index(start, scope) for start in starts]
        places = [index for index in indices if isinstance(index, AffinePosition)]
        if len(places) < len(indices):
            raise NotRaised("an element is written at an index that is computed", op.span)
        element = self._evaluator.element(source, tuple(at), scope)
        dtype = array.type.dtype if isinstance(array.type, Array) else None
        value = self._terms.expr(element.value)
        assert dtype == value.dtype
        held = conjunction((*conditions, *element.exists))
        return _Store(op, tuple(axes), frozenset(serial), tuple(places), value, held)

    def _branch(self, control: Op, region: int, scope: LoopScope) -> list[AffinePosition | Expr]:
        test = self._evaluator.conditions(control.operands[0], (), scope)
        if region == 0:
            return list(test)
        only = next(iter(test)) if len(test) == 1 else None
        if isinstance(only, AffinePosition):
            return [only.times(-1).add(-1)]
        return [self._terms.negated(test)]


def _zero(dtype: DType) -> Expr:
    return Literal(0.0 if dtype.is_float else 0, dtype)
