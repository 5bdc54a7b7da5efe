"""Presence of a tile's elements: the rules of `core/program/spec.py`, one function an operation, on NumPy arrays.

A tile of which everything exists is a plain array.  Any other is a `Partial`, and `computed` computes what an operation
makes of it: the values by the operation's own function, with what is absent replaced where it would count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.reductions import identity
from tessera.core.program.program import Op
from tessera.core.program.types import Tile
from tessera.runtime.interpret.operands import Operand, integers
from tessera.runtime.interpret.rounding import Numbers

Flags = NDArray[np.bool_]
Function = Callable[..., Numbers]


@dataclass(frozen=True, slots=True, eq=False)
class Presence:
    """The presence of a tile's elements, of shape `shape`: an element does where all parts say so (None: they all do).

    whole: whether the tile exists at all; axes: which indices do, axis by axis; mask: one flag an element
    """

    shape: tuple[int, ...]
    whole: bool
    axes: tuple[Flags | None, ...]
    mask: Flags | None = None

    @property
    def flags(self) -> Flags:
        """One flag an element: whether it exists."""
        result = np.full(self.shape, self.whole) if self.mask is None else self.mask & self.whole
        for axis, flags in enumerate(self.axes):
            if flags is not None:
                result = result & np.expand_dims(flags, [a for a in range(len(self.shape)) if a != axis])
        return result

    @property
    def complete(self) -> bool:
        """Return whether everything exists."""
        return self.whole and self.mask is None and all(flags is None for flags in self.axes)

    def along(self, axis: int) -> Flags:
        """Return one flag for each index along `axis`: whether it exists."""
        flags = self.axes[axis]
        return np.ones(self.shape[axis], np.bool_) if flags is None else flags


@dataclass(frozen=True, slots=True, eq=False)
class Partial:
    """A tile of which not everything exists; what its absent elements hold means nothing."""

    values: Numbers
    presence: Presence


def everything(shape: tuple[int, ...]) -> Presence:
    """Return the presence of a tile all of whose elements exist."""
    return Presence(shape, True, (None,) * len(shape))


def partial(values: Numbers, presence: Presence) -> Numbers | Partial:
    """Return the tile; a plain array where everything exists."""
    axes = tuple(None if flags is None or flags.all() else flags for flags in presence.axes)
    mask = None if presence.mask is None or presence.mask.all() else presence.mask
    kept = replace(presence, axes=axes, mask=mask)
    return values if kept.complete else Partial(values, kept)


def window(starts: Sequence[int], extents: Sequence[int], sizes: Sequence[int], dropped: Sequence[int]) -> Presence:
    """Return the presence of a tile that is loaded from `starts` on, of an array of extents `sizes`."""
    inside = [
        (np.arange(extent) + start >= 0) & (np.arange(extent) + start < size)
        for start, extent, size in zip(starts, extents, sizes, strict=True)
    ]
    kept = [axis for axis in range(len(sizes)) if axis not in dropped]
    whole = all(bool(inside[axis].all()) for axis in dropped)
    return Presence(tuple(extents[axis] for axis in kept), whole, tuple(inside[axis] for axis in kept))


def values_of(operand: Operand) -> Operand:
    """Return the numbers of an operand."""
    return operand.values if isinstance(operand, Partial) else operand


def presence_of(operand: Operand) -> Presence:
    """Return the presence of an operand; scalars are always complete."""
    return operand.presence if isinstance(operand, Partial) else everything(np.shape(operand))


def computed(op: Op, function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    """Compute a pure operation: `function` where everything exists, else by its rule."""
    if not any(type(operand) is Partial for operand in operands):
        return function(*operands)
    return _RULES.get(op.opcode, _element_wise)(op, function, operands)


def _element_wise(_: Op, function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    found = everything(np.shape(values_of(operands[0])))
    for operand in operands:
        found = _both(found, presence_of(operand))
    return partial(function(*map(values_of, operands)), found)


def _select(_: Op, function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    condition, yes, no = operands
    values = function(*map(values_of, operands))
    if not np.ndim(values_of(condition)):
        return partial(values, presence_of(yes if condition else no))
    a, b, test = presence_of(yes), presence_of(no), presence_of(condition)
    chosen = np.where(values_of(condition), a.flags, b.flags)
    axes = tuple(a.along(axis) | b.along(axis) for axis in range(len(a.shape)))
    return partial(values, _both(Presence(a.shape, a.whole or b.whole, axes, chosen), test))


def _broadcast(op: Op, function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    shape, found = _shape(op), operands[0].presence
    axes = tuple(
        None if flags is None else np.broadcast_to(flags, (extent,))
        for flags, extent in zip(found.axes, shape, strict=True)
    )
    mask = None if found.mask is None else function(found.mask)
    return partial(function(operands[0].values), Presence(shape, found.whole, axes, mask))


def _transpose(op: Op, function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    found = operands[0].presence
    mask = None if found.mask is None else function(found.mask)
    axes = tuple(found.axes[axis] for axis in integers(op, "permutation"))
    return partial(function(operands[0].values), Presence(_shape(op), found.whole, axes, mask))


def _reshape(op: Op, function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    found, after = operands[0].presence, _shape(op)
    before = found.shape
    whole = found.whole and all(bool(found.along(axis).all()) for axis, extent in enumerate(before) if extent == 1)
    axes: list[Flags | None] = [None] * len(after)
    mask = np.ones(after, np.bool_) if found.mask is None else function(found.mask)
    for old, new in axis_groups(before, after):
        exists = np.ones((1,), np.bool_)
        for axis in old:
            exists = np.logical_and.outer(exists, found.along(axis))
        if len(new) == 1:
            axes[new[0]] = exists.reshape(-1)
        else:
            mask = mask & exists.reshape([extent if axis in new else 1 for axis, extent in enumerate(after)])
    return partial(function(operands[0].values), Presence(after, whole, tuple(axes), mask))


def axis_groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Group axes of two shapes that hold the same elements: the fewest of each, in order; none of extent 1."""
    groups: list[tuple[list[int], list[int]]] = []
    left, right = ([axis for axis, extent in enumerate(shape) if extent != 1] for shape in (before, after))
    while left:
        old, new = [left.pop(0)], [right.pop(0)]
        while (sizes := (prod(before[a] for a in old), prod(after[a] for a in new)))[0] != sizes[1]:
            (old if sizes[0] < sizes[1] else new).append((left if sizes[0] < sizes[1] else right).pop(0))
        groups.append((old, new))
    return groups


def _reduce(op: Op, function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    values, found = operands[0].values, operands[0].presence
    kind, axis = str(op.attributes["kind"]), op.attributes["axis"]
    nothing = values.dtype.type(0) if kind == "sum" else identity(kind, values.dtype)
    result = function(np.where(found.flags, values, nothing))
    if axis is None or not isinstance(op.result.type, Tile):
        return result
    axes = tuple(flags for number, flags in enumerate(found.axes) if number != axis)
    return partial(result, Presence(_shape(op), found.whole, axes))


def _softmax(_: Op, function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    values, found = operands[0].values, operands[0].presence
    return partial(function(np.where(found.flags, values, identity("max", values.dtype))), found)


def _dot(op: Op, function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    a, b, *rest = operands
    left, right = presence_of(a), presence_of(b)
    rows, columns = (_with_zeros(values_of(tile), found) for tile, found in ((a, left), (b, right)))
    found = Presence(_shape(op), left.whole and right.whole, (left.along(0), right.along(1)))
    for acc in rest:
        found = presence_of(acc)
    return partial(function(rows, columns, *map(values_of, rest)), found)


def _valid(_op: Op, _function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    return operands[0].presence.flags


def _fill(_op: Op, _function: Function, operands: Sequence[Operand]) -> Numbers | Partial:
    tile: Partial = operands[0]
    number: Numbers = operands[1]
    return np.where(tile.presence.flags, tile.values, number)


def _with_zeros(values: Numbers, found: Presence) -> Numbers:
    zero: Numbers = np.zeros((), values.dtype)
    return np.where(found.flags, values, zero)


def _both(a: Presence, b: Presence) -> Presence:
    """Return the intersection of the presences of two tiles; one of them may be a scalar."""
    if not b.shape:
        return a
    if not a.shape:
        return b
    axes = tuple(x if y is None else y if x is None else x & y for x, y in zip(a.axes, b.axes, strict=True))
    mask = a.mask if b.mask is None else b.mask if a.mask is None else a.mask & b.mask
    return Presence(a.shape, a.whole and b.whole, axes, mask)


def _shape(op: Op) -> tuple[int, ...]:
    kind = op.result.type
    return kind.shape if isinstance(kind, Tile) else ()


_RULES: Final[dict[str, Callable[[Op, Function, Sequence[Operand]], Numbers | Partial]]] = {
    "select": _select,
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "reduce": _reduce,
    "softmax": _softmax,
    "dot": _dot,
    "valid": _valid,
    "fill": _fill,
}
"""Operations with a rule of their own; all others are element-wise."""
