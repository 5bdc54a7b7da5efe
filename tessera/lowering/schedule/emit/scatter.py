"""Emit a sum by index: one lane a column, which goes over the indices in order, so that no two lanes meet.

before: SCATTER [scatter_add(index, values)]
after:  i = launch.thread_id(); out[:, i] = 0; for n in range(N): out[index[n], i] += values[n, i]
"""

from collections.abc import Sequence
from math import prod
from typing import cast

from tessera.core.base.dtypes import i64
from tessera.core.program.build import ProgramBuilder, element_of
from tessera.core.program.program import Value
from tessera.core.program.types import Scalar
from tessera.core.schedule.plan import Group
from tessera.lowering.schedule.emit.tiles import Arrays, unravelled


class ScatterEmitter:
    """Emits one `scatter_add`.  arrays: parameters of what is read and of what is written."""

    def __init__(self, builder: ProgramBuilder, group: Group, arrays: Arrays) -> None:
        self.builder, self.group = builder, group
        (self.node,) = group.members
        self.axis = cast("int", self.node.attributes["axis"])
        index, values = self.node.operands
        self.index, self.values = arrays.read[index], arrays.read[values]
        self.out = arrays.written[self.node.result]
        self.picked = index.type.shape

    def emit(self) -> None:
        """Emit the whole kernel."""
        build = self.builder
        lane = build.value("id", (), Scalar(i64), of="thread", axis=None)

        def then() -> Sequence[Value]:
            column = unravelled(build, lane, self.group.extents)
            self._clear(column)
            self._add(column)
            return ()

        build.branch(build.compare("lt", lane, build.index(prod(self.group.extents))), then, lambda: ())

    def _place(self, column: Sequence[Value], *picked: Value) -> tuple[Value, ...]:
        return (*column[: self.axis], *picked, *column[self.axis :])

    def _clear(self, column: Sequence[Value]) -> None:
        build, dtype = self.builder, element_of(self.out)
        zero = build.constant(0.0 if dtype.is_float else 0, dtype)

        def body(row: Value, _: Sequence[Value]) -> Sequence[Value]:
            build.write(self.out, zero, self._place(column, row))
            return ()

        extent = self.node.result.type.shape[self.axis]
        build.loop(build.index(0), build.index(extent), build.index(1), (), body)

    def _add(self, column: Sequence[Value]) -> None:
        build = self.builder

        def body(number: Value, _: Sequence[Value]) -> Sequence[Value]:
            picked = unravelled(build, number, self.picked)
            row = build.cast(build.read(self.index, picked or (build.index(0),)), i64)
            place = self._place(column, row)
            value = build.read(self.values, self._place(column, *picked) or (build.index(0),))
            build.write(self.out, build.arithmetic("add", build.read(self.out, place), value), place)
            return ()

        build.loop(build.index(0), build.index(prod(self.picked)), build.index(1), (), body)
