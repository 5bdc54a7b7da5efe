"""Tiles whose extents are no powers of two: which elements of the padded tile count, and which reshapes keep places.

A tile of `shape` is held in one of `padded(shape)`.  What lies in the padding is anything at all: whatever combines
elements (a sum, a product of matrices) first puts there what changes nothing.
"""

import math
from collections.abc import Sequence

from tessera.lowering.cuda_tile.builder import SHORT, TileBuilder
from tessera.lowering.cuda_tile.instructions import Value, padded


def real_elements(build: TileBuilder, shape: Sequence[int], axes: Sequence[int]) -> Value | None:
    """Return the mask of a padded tile's elements that belong to a tile of `shape`, along `axes`; None: all of them."""
    full = padded(shape)
    masks: list[Value | None] = []
    for axis in axes:
        if shape[axis] != full[axis]:
            limit = build.constant(shape[axis], SHORT, (full[axis],))
            inside = build.compare("less_than", build.iota(full[axis]), limit)
            masks.append(build.broadcast(build.along(inside, axis, len(full)), full))
    return build.all_of(masks)


def with_padding(build: TileBuilder, value: Value, shape: Sequence[int], axes: Sequence[int], number: float) -> Value:
    """`value` with `number` in its padding along `axes`."""
    real = real_elements(build, shape, axes)
    return value if real is None else build.select(real, value, build.like(number, value))


def keeps_places(before: Sequence[int], after: Sequence[int]) -> bool:
    """Return whether reshaping the padded tiles is reshaping the tiles.

    Both shapes are cut into runs of equal size; in each run, padding is behind all elements as long as every extent
    but the first is a power of two.
    """
    rows, columns = _without_ones(before), _without_ones(after)
    while rows and columns:
        left, right = [rows.pop(0)], [columns.pop(0)]
        while math.prod(left) != math.prod(right):
            side, rest = (left, rows) if math.prod(left) < math.prod(right) else (right, columns)
            if not rest:
                return False
            side.append(rest.pop(0))
        if any(extent & (extent - 1) for side in (left, right) for extent in side[1:]):
            return False
    return not rows and not columns


def _without_ones(shape: Sequence[int]) -> list[int]:
    return [extent for extent in shape if extent != 1]
