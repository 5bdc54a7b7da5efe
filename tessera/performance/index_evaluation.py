"""Index arithmetic of a kernel, evaluated for all groups, lanes and iterations at once.

Each loop and each axis of the grid is a *dimension*, known by its number; an integer of the kernel is a `Table`: its
values, with one axis for each dimension that it depends on.
"""

import math
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.core.program.program import Op, Value
from tessera.core.program.types import Scalar
from tessera.core.work import Numbers

MOST: Final = 1 << 20
"""Elements of a table at most; what needs a larger one is treated as not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A number that depends on `dims` (sorted): `values` has one axis for each of them."""

    dims: tuple[int, ...]
    values: Numbers


def combine(function: Callable[[Numbers, Numbers], Numbers], a: Table, b: Table) -> Table | None:
    """Apply `function` to two numbers for all values of the dimensions of both; None when that is too large a table."""
    dims = tuple(sorted({*a.dims, *b.dims}))
    left, right = (_spread(table, dims) for table in (a, b))
    if math.prod(np.broadcast_shapes(left.shape, right.shape)) > MOST:
        return None
    return Table(dims, np.asarray(function(left, right)))


def _spread(table: Table, dims: tuple[int, ...]) -> Numbers:
    sizes = dict(zip(table.dims, table.values.shape, strict=True))
    return table.values.reshape([sizes.get(dim, 1) for dim in dims])


def evaluate(op: Op, numbers: MutableMapping[Value, Table]) -> None:
    """Put the value of an integer operation on scalars into `numbers`, where those of its operands are known."""
    kind = op.results[0].type if len(op.results) == 1 else None
    function = PREDICATES[str(op.attributes["predicate"])] if op.opcode == "cmp" else NUMERIC.get(op.opcode)
    if not isinstance(kind, Scalar) or kind.dtype.kind == "float" or function is None:
        return
    known = [numbers[value] for value in op.operands if value in numbers]
    if len(known) != len(op.operands):
        return
    if len(known) == 1:
        numbers[op.result] = Table(known[0].dims, function(known[0].values))
    elif len(known) == _BINARY:
        found = combine(function, *known)
        if found is not None:
            numbers[op.result] = found


def inside(start: Table | None, window: int, extent: int) -> Table | int:
    """Return how many of the `window` elements from `start` (None: not known) are inside an axis of `extent`."""
    if start is None:
        return min(window, extent)
    count = np.clip(np.minimum(start.values + window, extent) - np.maximum(start.values, 0), 0, window)
    return Table(start.dims, count) if start.dims else int(count)


def _guarded(function: Callable[..., Numbers]) -> Callable[[Numbers, Numbers], Numbers]:
    """Return a division as kernels do it: by zero gives 0."""
    return lambda a, b: np.where(b == 0, 0, function(a, np.where(b == 0, 1, b)))


_BINARY: Final = 2
NUMERIC: Final[Mapping[str, Callable[..., Numbers]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "min": np.minimum, "max": np.maximum,
    "floordiv": _guarded(np.floor_divide), "mod": _guarded(np.mod), "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "neg": np.negative, "abs": np.abs, "cast": np.asarray,
}  # fmt: skip
"""Integer operations, by opcode."""
PREDICATES: Final[Mapping[str, Callable[..., Numbers]]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
"""Comparisons, by predicate."""
