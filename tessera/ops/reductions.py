"""`reduce_sum`, `reduce_max` and `reduce_min`, along an axis or over everything.

A sum has the association of `tessera.core.base.reductions`: its bits depend on the numbers and their order alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeVar, cast

from tessera.core.base import dtypes, reductions
from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import BadAxis
from tessera.ops.recipes.launch_recipe import Launch, LaunchRecipe, machine_of, require_known, variant
from tessera.ops.tiles.reductions import (
    FLOAT,
    MAX,
    MIN,
    SUM,
    WHOLE,
    reduce_column_blocks,
    reduce_columns,
    reduce_pairs,
    reduce_row_blocks,
    reduce_rows,
)
from tessera.performance import schedules
from tessera.performance.machine_kind import MachineKind
from tessera.runtime.memory.operands import (
    as_result,
    empty,
    extents,
    flat_output,
    operand,
    output,
    require,
    result_dtype,
)

if TYPE_CHECKING:
    from typing import Unpack

    from tessera.ops.recipes.launch_recipe import ScheduleArguments
    from tessera.runtime.memory.operands import Operand

_KINDS: Final = {"sum": SUM, "max": MAX, "min": MIN}


A = TypeVar("A")


def reduce_sum(
    x: A, axis: int | None = None, out: A | None = None, *, keepdims: bool = False, dtype: DType | str | None = None,
    **how: Unpack[ScheduleArguments],
) -> A:  # fmt: skip
    """Return the sums of `x` along `axis` (None: of everything, as an array of one element), in `out` where given.

    dtype: of the result where `out` is not given; None: that of `x`, and i64 for bool and shorter integers, as in
    NumPy.  Floats of 16 bits and fewer are added in f32, integers in i64 unless the result is as short as they are.
    The same bits on every target and in every run.  Raises BadAxis, and OperandMismatch for what does not fit.
    """
    return prepare_reduce("sum", x, axis, out, keepdims=keepdims, dtype=dtype, **how).run(how.get("stream"))


def reduce_max(
    x: A, axis: int | None = None, out: A | None = None, *, keepdims: bool = False, **how: Unpack[ScheduleArguments]
) -> A:  # fmt: skip
    """Return the largest elements of `x` along `axis`, as `reduce_sum` does sums; NaN is larger than any number."""
    return prepare_reduce("max", x, axis, out, keepdims=keepdims, **how).run(how.get("stream"))


def reduce_min(
    x: A, axis: int | None = None, out: A | None = None, *, keepdims: bool = False, **how: Unpack[ScheduleArguments]
) -> A:  # fmt: skip
    """Return the smallest elements of `x` along `axis`, as `reduce_sum` does sums; NaN is smaller than any number."""
    return prepare_reduce("min", x, axis, out, keepdims=keepdims, **how).run(how.get("stream"))


def prepare_reduce(
    kind: str, x: A, axis: int | None = None, out: A | None = None, *, keepdims: bool = False,
    dtype: DType | str | None = None, **how: Unpack[ScheduleArguments],
) -> LaunchRecipe[A]:  # fmt: skip
    """Return a reduction up to its launches; kind: "sum", "max" or "min"."""
    require_known(how, schedules.parameters(schedules.ROWS_SPACE, schedules.REDUCE_SPACE))
    given = operand(x, "x")
    require(given.view.size > 0, f"x is {extents(given.shape)}: nothing to reduce", "give it elements")
    shape, kept = _shapes(given, axis, keepdims)
    natural = dtypes.i64 if kind == "sum" and _is_whole(given.dtype) else given.dtype
    result = output(out, given, kept, result_dtype(dtype, natural))
    outer, length, inner = shape
    machine = machine_of(given)
    plan = _Plan(kind, given, result, machine, how)
    columns = plan.columns(length, inner)["COLUMNS"]
    fits = schedules.fits_tile(machine, schedules.power_of_two(length) * columns, plan.partial.bits)
    enough = fits and outer * -(-inner // columns) >= schedules.processors(machine)
    together = length <= 2 * reductions.BLOCK or enough
    launches = plan.at_once(outer, length, inner) if together else plan.in_blocks(outer, length, inner)
    return LaunchRecipe(launches, lambda: as_result(result, given))


def _shapes(x: Operand[object], axis: int | None, keepdims: bool) -> tuple[tuple[int, int, int], tuple[int, ...]]:
    """Return the shape of `x` as outer x length x inner, the reduced axis in the middle, and that of the result."""
    rank = len(x.shape)
    if axis is None:
        return (1, math.prod(x.shape), 1), (1,) * rank if keepdims else (1,)
    if not isinstance(cast("object", axis), int) or not -rank <= axis < rank:
        raise BadAxis(f"x has no axis {axis!r}", hint=f"give one of its {rank} axes, or None for everything")
    axis %= rank
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    kept = (*before, 1, *after) if keepdims else (*before, *after) or (1,)
    return (math.prod(before), x.shape[axis], math.prod(after)), kept


def _is_whole(dtype: DType) -> bool:
    """Return whether sums of such numbers may need more bits than they have."""
    return dtype == dtypes.boolean or (dtype.is_integer and dtype.bits < dtypes.i64.bits)


class _Plan:
    """The launches of one reduction; `partial` is the type in which it is computed."""

    def __init__(
        self, kind: str, x: Operand[object], result: Operand[object], machine: MachineKind, how: ScheduleArguments
    ) -> None:
        self._x = x
        self._result = result
        self._machine = machine
        self._how = how
        self._kind = _KINDS[kind]
        self._widen, self.partial = 0, x.dtype
        if kind == "sum" and x.dtype.is_float and x.dtype.bits < dtypes.f32.bits:
            self._widen, self.partial = FLOAT, dtypes.f32
        elif kind == "sum" and x.dtype == dtypes.boolean:  # whose sum is an i64 by itself
            self.partial = dtypes.i64
        elif kind == "sum" and _is_whole(x.dtype) and result.dtype != x.dtype:
            self._widen, self.partial = WHOLE, dtypes.i64
        self._lowest = reductions.identity(kind, x.dtype.numpy).item()

    def columns(self, length: int, inner: int) -> dict[str, int]:
        """Return how many columns are reduced side by side."""
        return schedules.columns_schedule(self._machine, length, inner, self.partial.bits)

    def at_once(self, outer: int, length: int, inner: int) -> tuple[Launch, ...]:
        """Launch one kernel, each group with the whole length of its rows or columns."""
        fixed = {"KIND": self._kind, "WIDEN": self._widen}
        if inner == 1:
            space = schedules.space(schedules.ROWS_SPACE, self._machine)
            chosen = variant(reduce_rows, self._machine, schedules.rows_schedule(length), space, self._how, **fixed)
            arrays = (self._x.reshaped((outer, length)), flat_output(self._result, (outer,)))
        else:
            space = schedules.space(schedules.REDUCE_SPACE, self._machine)
            default = self.columns(length, inner)
            chosen = variant(reduce_columns, self._machine, default, space, self._how, **fixed)
            arrays = (self._x.reshaped((outer, length, inner)), flat_output(self._result, (outer, inner)))
        return (Launch(chosen, arrays),)

    def in_blocks(self, outer: int, length: int, inner: int) -> tuple[Launch, ...]:
        """Reduce blocks side by side, then their results pairwise, many at a time, until one is left."""
        block = schedules.block_of_row(self._machine, outer, length) if inner == 1 else reductions.BLOCK
        count = -(-length // block)
        fixed = {"KIND": self._kind, "WIDEN": self._widen, "LOWEST": self._lowest}
        if inner == 1:
            partial = empty(self._x, (outer, count), self.partial)
            chosen = variant(reduce_row_blocks, self._machine, {}, {}, self._how, **fixed, BLOCK=block)
            launches = [Launch(chosen, (self._x.reshaped((outer, length)), partial.value))]
        else:
            partial = empty(self._x, (outer, inner, count), self.partial)
            default = self.columns(block, inner)
            chosen = variant(reduce_column_blocks, self._machine, default, {}, self._how, **fixed)
            launches = [Launch(chosen, (self._x.reshaped((outer, length, inner)), partial.value))]
        rows = outer * inner
        while count > 1:
            block = min(schedules.power_of_two(count), schedules.block_of_pairs(self._machine))
            after = -(-count // block)
            last = after == 1
            given = partial.reshaped((rows, count))
            if last:
                target = flat_output(self._result, (rows, 1))
            else:
                partial = empty(self._x, (rows, after), self.partial)
                target = partial.value
            launches.append(self._pairs(given, target, block))
            count = after
        return tuple(launches)

    def _pairs(self, given: object, target: object, block: int) -> Launch:
        halves = tuple(block >> step for step in range(1, block.bit_length()))
        identity = self._lowest if self._kind != SUM else 0 if self.partial.is_integer else -0.0
        chosen = variant(
            reduce_pairs, self._machine, {}, {}, self._how, KIND=self._kind, BLOCK=block, HALVES=halves, LOWEST=identity
        )
        return Launch(chosen, (given, target))
