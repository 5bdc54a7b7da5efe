"""Subscripts: from `X[i, k:k+128]` to a `Region`."""

import ast
from typing import Protocol

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.base.source import Span
from tessera.core.errors.catalog import (
    BadSlice,
    BeyondExtent,
    LaneIndexedTile,
    LossyStore,
    ReadOnlyParameter,
    TypeMismatch,
    WrongRank,
)
from tessera.core.program.program import Value
from tessera.core.program.types import Array, Extent, Scalar, Tile
from tessera.frontend.base.bindings import BlockIndex, Number, Region
from tessera.frontend.base.builder import Builder, dtype_of_value, memory_type, shape_of
from tessera.frontend.base.context import Context
from tessera.frontend.base.describe import describe
from tessera.frontend.base.scatter import scatter


class Evaluates(Protocol):
    """The part of the expression evaluator that subscripts need."""

    context: Context

    def evaluate(self, node: ast.expr, *, lazy: bool = False) -> object:
        """The value of an expression."""
        ...


def index_nodes(node: ast.expr) -> list[ast.expr]:
    """The indices of a subscript, one an element of a tuple."""
    return list(node.elts) if isinstance(node, ast.Tuple) else [node]


def region_of(evaluator: Evaluates, memory: Value, nodes: list[ast.expr], span: Span) -> Region:
    """The region of `memory` that the indices `nodes` select; missing ones take whole axes."""
    rank = len(memory_type(memory).shape)
    nodes = _expand_ellipsis(nodes, rank)
    if len(nodes) > rank:
        raise WrongRank(
            f"{memory.name or 'this buffer'} has {rank} axes and is given {len(nodes)} indices",
            span,
            f"give at most {rank}",
        )
    starts: list[Value | int] = []
    extents: list[int] = []
    dropped: list[int] = []
    for axis in range(rank):
        node = nodes[axis] if axis < len(nodes) else None
        start, extent = _axis(evaluator, memory, axis, node, span)
        starts.append(start)
        extents.append(1 if extent is None else extent)
        if extent is None:
            dropped.append(axis)
    tiles = [s for s in starts if isinstance(s, Value) and isinstance(s.type, Tile)]
    if len(tiles) > 1:
        raise TypeMismatch(
            f"{len(tiles)} axes are indexed by tiles", span, "index one axis by a tile, others by numbers and slices"
        )
    return Region(memory, tuple(starts), tuple(extents), tuple(dropped))


def _expand_ellipsis(nodes: list[ast.expr], rank: int) -> list[ast.expr]:
    at = next((i for i, n in enumerate(nodes) if isinstance(n, ast.Constant) and n.value is ...), None)
    if at is None:
        return nodes
    whole: ast.expr = ast.Slice(None, None, None)
    return nodes[:at] + [whole] * max(0, rank - len(nodes) + 1) + nodes[at + 1 :]


def _axis(
    evaluator: Evaluates, memory: Value, axis: int, node: ast.expr | None, span: Span
) -> tuple[Value | int, int | None]:
    """Start and extent along one axis; extent None for a single index."""
    builder = evaluator.context.builder
    extent = memory_type(memory).shape[axis]
    if node is None:
        return 0, _whole_axis(builder, extent)
    if isinstance(node, ast.Slice):
        return _slice(evaluator, memory, extent, node, span)
    index = _place(evaluator, memory, extent, node)
    if isinstance(index, BlockIndex):
        return index.start, index.extent
    where = evaluator.context.span(node)
    if isinstance(index, Region):
        index = builder.load(index, where)
    if isinstance(index, Value) and isinstance(index.type, Tile):
        return _indices(builder, index, where), index.type.shape[0]
    if isinstance(index, int) and not isinstance(index, bool):
        return index, None
    return builder.index(index, where), None


def _indices(builder: Builder, tile: Value, span: Span) -> Value:
    """A tile of indices in place of a start, as i64."""
    shape = shape_of(tile)
    if not dtype_of_value(tile).is_integer or len(shape) != 1:
        raise TypeMismatch(
            f"an index must be an integer or a row of integers, and this is {describe(tile)}", span,
            "use a slice a:a+128, or a tile of integers of rank 1 to gather what is at each of them",
        )  # fmt: skip
    return builder.cast(tile, dtypes.i64, span)


def _place(evaluator: Evaluates, memory: Value, extent: Extent, node: ast.expr) -> object:
    """The value of an index, or of an end of a slice: a negative number in the text counts from the end of the axis.

    Only the text decides: what a computed index means does not depend on whether its value is known here.
    """
    back = _literal_from_end(node)
    if back is None:
        return evaluator.evaluate(node)
    where = evaluator.context.span(node)
    if isinstance(extent, int) and 0 < extent < back:
        raise BeyondExtent(
            f"{memory.name or 'this buffer'} has {extent} elements here, and {-back} counts {back} from the end",
            where, f"use {-extent} to {extent - 1}",
        )  # fmt: skip
    builder = evaluator.context.builder
    return builder.binary("add", extent_value(builder, extent, where), -back, where)


def _literal_from_end(node: ast.expr) -> int | None:
    """Return n where `node` is the literal `-n`, else None."""
    if not (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)):
        return None
    number = node.operand.value
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None


def evaluator_dim(builder: Builder, symbol: str, span: Span) -> Value:
    """The launch's value of a shape symbol."""
    symbol = builder.knowledge.same.get(symbol, symbol)
    return builder.value("dim", (), Scalar(dtypes.i64), span, symbol=symbol)


def extent_value(builder: Builder, extent: Extent, span: Span) -> Value | int:
    """An array's extent as a binding: a number, or the symbol's value."""
    return extent if isinstance(extent, int) else evaluator_dim(builder, extent, span)


def _whole_axis(builder: Builder, extent: Extent) -> int:
    if isinstance(extent, str):
        builder.knowledge.fix(extent)
    return int(extent)


def _slice(evaluator: Evaluates, memory: Value, extent: Extent, node: ast.Slice, span: Span) -> tuple[Value | int, int]:
    builder = evaluator.context.builder
    where = evaluator.context.span(node) if hasattr(node, "lineno") else span
    if node.step is not None and evaluator.evaluate(node.step) != 1:
        raise BadSlice("a slice with a step is not a block", where, "load the block and choose with tile.where")
    if node.lower is None and node.upper is None:
        return 0, _whole_axis(builder, extent)
    lower: object = 0 if node.lower is None else _place(evaluator, memory, extent, node.lower)
    upper: object = None if node.upper is None else _place(evaluator, memory, extent, node.upper)
    if upper is None:
        upper = extent_value(builder, extent, where)
    first, last = builder.index(lower, where), builder.index(upper, where)
    symbols, length = builder.affine.symbols_of(*builder.affine.difference(last, first))
    if symbols is None:
        raise BadSlice(
            "the length of this slice is not a constant", where, "write it as start:start+128, with a number or extent"
        )
    if symbols:
        builder.knowledge.fix(symbols[0])
    if length <= 0:
        raise BadSlice(f"this slice has {length} elements", where, "the end must lie after the start")
    return (lower if isinstance(lower, int) else first), length


def store(context: Context, region: Region, value: object, span: Span, cache: str = "", *, add: bool = False) -> None:
    """Write `value` into a region: checks the parameter, casts to the memory's dtype, and broadcasts.

    add: onto what is there, in a region with a tile of indices
    """
    builder = context.builder
    check_writable(context, region.memory, span)
    dtype = memory_type(region.memory).dtype
    operand = builder.operand(value, span)
    check_lossless(operand, dtype, span)
    made = builder.as_value(operand, span, dtype)
    if not region.shape and shape_of(made):
        raise WrongRank(f"{describe(made)} does not fit one element", span, "store it to a slice")
    made = builder.broadcast_to(made, region.shape, span)
    if region.gathered is not None:
        scatter(builder, region, made, span, add=add)
    else:
        builder.store(region, made, span, cache)


def check_lossless(operand: Value | Number, dtype: DType, span: Span) -> None:
    """Refuse to make an integer or a bool of a float unasked."""
    have = dtype_of_value(operand) if isinstance(operand, Value) else None
    is_fraction = have.is_float if have else isinstance(operand, float)
    if is_fraction and not dtype.is_float:
        raise LossyStore(
            f"{have or 'a float'} does not go into {dtype} without loss", span, f"convert it: {dtype}(...)"
        )


def check_writable(context: Context, memory: Value, span: Span) -> None:
    """Refuse to write a parameter that is declared without `mut`; note the others as written."""
    if not isinstance(memory.type, Array):
        return
    if memory.name in context.read_only:
        raise ReadOnlyParameter(
            f"{memory.name} is not declared mut", span, f"write it as {memory.name}: mut ... in the signature"
        )
    context.written.add(memory.name)


def index_tile(evaluator: Evaluates, value: Value, nodes: list[ast.expr], span: Span) -> Value:
    """A tile's subscript: new axes and whole axes only (`m[:, None]`)."""
    shape: list[int] = []
    have = list(shape_of(value))
    axis = 0
    for node in _expand_ellipsis(nodes, len(have) + sum(_is_none(n) for n in nodes)):
        if _is_none(node):
            shape.append(1)
        elif isinstance(node, ast.Slice) and node.lower is None and node.upper is None and axis < len(have):
            shape.append(have[axis])
            axis += 1
        else:
            raise LaneIndexedTile(
                f"this is {describe(value)}: it is worked on as a whole",
                span,
                "use tile.sum, tile.where, ... or keep it in shared memory to index it",
            )
    return evaluator.context.builder.reshape(value, tuple(shape + have[axis:]), span)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
