"""Cut the rows of a sum by halving into leaves, of which each device has some: the same ones whatever the mesh.

    13 rows, 8 leaves: 7 and 6; 4, 3, 4 and 2; 2, 2, 2, 1, 2, 2, 2 and 0

A device of n, a power of two, has one of n blocks that halving makes: 8 / n of the leaves.  All leaves of a device have
one length, that of the first; rows behind the end of one, or of the array, are masked.
Where shards of ceil(extent / n) rows begin elsewhere than blocks, of 13 rows over 4 devices at 0, 4, 8, 12 and not at
0, 4, 7, 11, a few rows are brought from the device before.
"""

from collections.abc import Iterator, Sequence

from tessera.core.base.dtypes import boolean, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term, window
from tessera.core.placement.reduction_trees import Fold, ReductionTree
from tessera.lowering.sharding.placements import Axes, local_rows
from tessera.lowering.sharding.steps import ALL_GATHER

Block = tuple[int, int]
"""The first row, and the one behind the last."""


def is_power_of_two(number: int) -> bool:
    """Return whether a number is 1, 2, 4, ..."""
    return number > 0 and number & (number - 1) == 0


def blocks_of(extent: int, parts: int) -> tuple[Block, ...]:
    """Return the rows of each of a power of two of parts, made by halving."""
    return tuple(_halved(0, extent, extent, parts))


def _halved(first: int, end: int, length: int, parts: int) -> Iterator[Block]:
    if parts == 1:
        yield first, end
        return
    half = local_rows(length, 2)
    middle = min(first + half, end)
    yield from _halved(first, middle, half, parts // 2)
    yield from _halved(middle, end, half, parts // 2)


def most_leaves(rows: int, leaves: int) -> int:
    """Return into how many leaves a device's rows are cut: no more than are not empty for certain."""
    return min(leaves, 1 << (rows - 1).bit_length()) if rows else 1


def _lengths(rows: int, leaves: int) -> list[int]:
    """Return the rows of a device, of a half of them, and so on down to a leaf."""
    found = [rows]
    while leaves > 1:
        found.append(local_rows(found[-1], 2))
        leaves //= 2
    return found


def leaf_window(shape: Sequence[int], dim: int, leaves: int) -> IndexMap:
    """Return the view whose axis `dim` are a device's leaves, and whose next one is the rows of each."""
    _, *lengths = _lengths(shape[dim], leaves)
    terms = [
        Term(dim, length, leaves >> level, 2 if level > 1 else 0) for level, length in enumerate(lengths, 1)
    ]  # fmt: skip
    axes = [Affine(0, (Term(axis + (axis > dim)),)) for axis in range(len(shape))]
    axes[dim] = Affine(0, (*terms, Term(dim + 1)))
    padded = sum(lengths) + lengths[-1] > shape[dim]
    return IndexMap((*shape[:dim], leaves, lengths[-1], *shape[dim + 1 :]), tuple(axes), padded)


def fold_leaves(builder: GraphBuilder, stack: Value, leaves: int) -> Value:
    """Add a device's leaves, a power of two, in the order of the binary tree over the leaves of all devices.

    They are the leaves below one node of that tree, so that ranks exchange one array each, and no stacks.
    """
    dtype, shape = stack.type.dtype, stack.type.shape[1:]
    axes = tuple(Affine(0, (Term(axis),)) for axis in range(len(shape)))
    slices = [
        builder.view(stack, IndexMap(shape, (Affine(leaf, ()), *axes))) for leaf in range(leaves)
    ]  # fmt: skip

    def added(fold: Fold) -> Expr:
        return Argument(fold, dtype) if isinstance(fold, int) else apply("add", added(fold[0]), added(fold[1]))

    return builder.elementwise(added(ReductionTree.binary(leaves).leaf_fold()), slices)


def leaf_holds(builder: GraphBuilder, rows: int, leaves: int, left: Value | None) -> Value:
    """Return for each row of each leaf whether it is one of the leaf's own.  left: how many rows a device has."""
    whole, *lengths = _lengths(rows, leaves)
    leaf, row, conditions = Argument(0, i64), Argument(1, i64), list[Expr]()
    around = [whole, *lengths[:-1]]
    for level in range(len(lengths), 0, -1):
        length, outer = lengths[level - 1], around[level - 1]
        half = apply("mod", apply("floordiv", leaf, Literal(leaves >> level, i64)), Literal(2, i64))
        row = apply("add", apply("mul", half, Literal(length, i64)), row)
        if 2 * length > outer:
            conditions.append(apply("cmp", row, Literal(outer, i64), predicate="lt"))
    operands, axes = [builder.iota(leaves), builder.iota(lengths[-1])], [(0,), (1,)]
    if left is not None:
        conditions.append(apply("cmp", row, Argument(2, i64), predicate="lt"))
        operands, axes = [*operands, left], [*axes, ()]
    body = conditions[0] if conditions else Literal(value=True, dtype=boolean)
    for each in conditions[1:]:
        body = apply("and", body, each)
    return builder.map(body, operands, axes, (leaves, lengths[-1]))


def may_be_empty(rows: int, leaves: int, counts: Sequence[int]) -> bool:
    """Return whether a leaf of a device has no row.  counts: of rows that devices have."""
    return any(first >= min(end, count) for first, end in blocks_of(rows, leaves) for count in counts)


def chosen(builder: GraphBuilder, place: Value, numbers: Sequence[int]) -> Value:
    """Return the number of a device, by its place."""
    found: Expr = Literal(numbers[-1], i64)
    for each in range(len(numbers) - 2, -1, -1):
        here = apply("cmp", Argument(0, i64), Literal(each, i64), predicate="eq")
        found = apply("select", here, Literal(numbers[each], i64), found)
    return builder.elementwise(found, [place])


def block_rows(builder: GraphBuilder, place: Value, rows: int, blocks: Sequence[Block]) -> Value:
    """Return where the rows of a device's block are in what `in_blocks` takes them from.

    place: of the device; rows: of a shard; blocks: of each device, none of which begins behind its shard
    """
    first, parts, reach = chosen(builder, place, [each for each, _ in blocks]), len(blocks), _reach(rows, blocks)
    if reach > rows:
        index = apply("add", Argument(0, i64), Argument(1, i64))
        return builder.map(index, [builder.iota(rows), first], [(0,), ()], (rows,))
    begin = apply("sub", Argument(1, i64), apply("mul", Argument(2, i64), Literal(rows, i64)))
    row = apply("add", Argument(0, i64), begin)
    before = apply("add", row, apply("mul", Argument(2, i64), Literal(reach, i64)))
    mine = apply("cmp", row, Literal(0, i64), predicate="ge")
    index = apply("select", mine, apply("add", row, Literal(parts * reach, i64)), before)
    return builder.map(index, [builder.iota(rows), first, place], [(0,), (), ()], (rows,))


def in_blocks(
    builder: GraphBuilder, value: Value, dim: int, axes: Axes, blocks: Sequence[Block], numbers: Value
) -> Value:
    """Return a device's rows along one axis moved to those of its block, the first ones of the result.

    They are taken from the last rows of every shard and the device's own ones, or from all where shards are that short.
    axes: of the mesh, which the blocks are of; numbers: see `block_rows`
    """
    parts, shape, rows = len(blocks), value.type.shape, value.type.shape[dim]
    reach = _reach(rows, blocks)
    if reach > rows:
        return builder.gather(_gathered(builder, value, dim, axes, parts), numbers, dim)
    starts = [rows - reach if axis == dim else 0 for axis in range(len(shape))]
    last = (*shape[:dim], reach, *shape[dim + 1 :])
    ends = _gathered(builder, builder.view(value, window(shape, starts, [1] * len(shape), last)), dim, axes, parts)
    return builder.gather(builder.concat([ends, value], dim), numbers, dim)


def _reach(rows: int, blocks: Sequence[Block]) -> int:
    """Return how many rows a block begins before its device's shard, at most."""
    return max(number * rows - first for number, (first, end) in enumerate(blocks) if first < end)


def _gathered(builder: GraphBuilder, value: Value, dim: int, axes: Axes, parts: int) -> Value:
    return builder.add(
        "collective", [value], None, value.name, kind=ALL_GATHER, axes=axes, parts=parts, reduction="", join=dim
    )  # fmt: skip
