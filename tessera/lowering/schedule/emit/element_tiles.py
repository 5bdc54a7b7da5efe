"""Emit a group of elements for machines without lanes: tiles of elements, which gather what their index maps say.

    before: ELEMENTS [view (windows), gather, map]
    after:  for s in tile.range(0, n, 1024): i = s + arange(1024); out[s:s+1024] = f(x[i // 7 * 2 + i % 7], ...)

Arrays are passed as one row of elements each.  Every element has the bits that a lane gives it.
"""

from collections.abc import Sequence
from math import prod
from typing import Final, cast

from tessera.core.base.dtypes import DType, i64
from tessera.core.graph.graph import Node
from tessera.core.graph.graph import Value as Tensor
from tessera.core.program.build import ProgramBuilder, element_of
from tessera.core.program.program import Attribute, Value
from tessera.core.program.types import Tile, Type
from tessera.core.schedule.plan import Group
from tessera.lowering.schedule.emit.elements import ElementEmitter, Index
from tessera.lowering.schedule.emit.tiles import Arrays, unravelled

_BLOCK: Final = 1024
"""Elements of a tile."""


class ElementTileEmitter(ElementEmitter):
    """Emits one group.  inside: indices that lie in the arrays that they are of, or behind the last element."""

    def __init__(self, builder: ProgramBuilder, group: Group, arrays: Arrays) -> None:
        super().__init__(builder, group, arrays)
        self.block = min(_BLOCK, 1 << (max(1, prod(group.extents)) - 1).bit_length())
        self.inside: set[Value] = set()

    def emit(self) -> None:
        """Emit the whole kernel."""
        build, shape = self.builder, self.group.extents

        def body(start: Value, _: Sequence[Value]) -> Sequence[Value]:
            self.done.clear()
            index = unravelled(build, build.arange(start, self.block), shape, self._number)
            self.inside = set(index)
            values = [self.element(value, index) for value in self.group.outputs]
            for value, made in zip(self.group.outputs, values, strict=True):
                build.store(self.arrays.written[value], made, (start,), (self.block,), ())
            return ()

        build.loop(build.index(0), build.index(prod(shape)), build.index(self.block), (), body, "tile")

    def _read(self, value: Tensor, index: Index) -> Value:
        """Gather elements of an array; where an index is outside there is 0, as before the first element."""
        build, array = self.builder, self.arrays.read[value]
        flat: Value | None = None
        for place, extent in zip(index, value.type.shape, strict=True):
            row = flat if flat is None or extent == 1 else build.arithmetic("mul", flat, self._number(extent))
            flat = place if row is None else build.arithmetic("add", row, place)
        flat = self._number(0) if flat is None else flat
        kind = Tile(element_of(array), (self.block,))
        attributes: dict[str, Attribute] = {"extents": (self.block,), "dropped": (), "cache": ""}
        pairs = zip(index, value.type.shape, strict=True)
        unsure = [(place, size) for place, size in pairs if place not in self.inside]
        if not unsure:
            return build.value("gather", (array, flat), kind, **attributes)
        known = self._inside([place for place, _ in unsure], [size for _, size in unsure])
        assert known is not None
        flat = build.value("select", (known, flat, self._number(-1)), self._kind(i64))
        zero = build.constant(0.0 if kind.dtype.is_float else 0, kind.dtype)
        return build.value("fill", (build.value("gather", (array, flat), kind, **attributes), zero), kind)

    def _number(self, number: int) -> Value:
        return self._literal(number, i64)

    def _literal(self, number: float | bool, dtype: DType) -> Value:
        return self.builder.full(self.builder.constant(number, dtype), (self.block,))

    def _kind(self, dtype: DType) -> Type:
        return Tile(dtype, (self.block,))

    def _places(self, node: Node, index: Index) -> Index:
        places = super()._places(node, index)
        if not node.index_map.padded and self.inside.issuperset(index):
            self.inside.update(places)
        return places

    def _concat(self, node: Node, index: Index) -> Value:
        along = index[cast("int", node.attributes["axis"])]  # lies in the whole, not in each part
        sure = along in self.inside
        self.inside.discard(along)
        made = super()._concat(node, index)
        if sure:
            self.inside.add(along)
        return made
