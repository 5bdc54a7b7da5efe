"""Split reductions of more elements than a kernel keeps as one tile, without changing a bit of what they compute.

    before: %s = reduce(%x) {axes = [0], kind = sum} : tensor<100000xf32>
    after:  %p = reduce(view(%x)) : tensor<12x8192xf32> -> tensor<12xf32>; %r = reduce(view(%x)) of the rest;
            %s = reduce(concat(%p, %r, -0.0, ...) in bit-reversed order) : tensor<16xf32> -> tensor<f32>

A sum adds its blocks of 4096 elements pairwise, neighbours first, so that 8192 elements are a subtree of it.  A sum of
128 adds the first half to the second, so those subtrees are put in bit-reversed order; elements past the end are the
identity.  See `core/base/reductions.py`, whose association it keeps.
"""

from collections.abc import Collection, Sequence
from math import prod
from typing import Final

from tessera.core.base.reductions import BLOCK, COLUMNS, identity
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.core.graph.infer import numbers
from tessera.core.graph.rewrite import Rewriter
from tessera.core.schedule.plan import ROW_LIMIT, is_long

RULE: Final = "split_reductions"
SPLIT: Final = 2 * BLOCK
"""Elements of a block: the longest power of two of which several reductions are in flight on one multiprocessor."""


def split_reductions(graph: Graph, kept: Collection[int] = ()) -> Graph:
    """Return the graph with reductions of at most ROW_LIMIT elements each; itself where there are no longer ones.

    kept: the numbers of reductions that stay whole
    """
    long = {node for node in graph.nodes if is_long(node) and node.ident not in kept}
    if not long:
        return graph
    rewriter = Rewriter(graph, RULE)
    for node in graph.nodes:
        if node not in long:
            rewriter.keep(node)
            continue
        (operand,) = rewriter.operands(node)
        with rewriter.builder.within(rewriter.origin(node), node.span):
            flat = _flattened(rewriter.builder, operand, numbers(node.attributes["axes"]))
            rewriter.replace(node, _reduced(rewriter.builder, flat, str(node.attributes["kind"])))
    return rewriter.finish()


def _flattened(builder: GraphBuilder, value: Value, axes: Sequence[int]) -> Value:
    """Return `value` with `axes` as one axis, the last one."""
    shape = value.type.shape
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    turned = builder.transpose(value, (*kept, *axes))
    return builder.reshape(turned, (*(shape[axis] for axis in kept), prod(shape[axis] for axis in axes)))


def _reduced(builder: GraphBuilder, value: Value, kind: str) -> Value:
    """Reduce the last axis, of any length."""
    total = _of_blocks(builder, value, kind)
    if kind == "sum" and value.type.dtype.is_float:
        while len(total.type.shape) == len(value.type.shape):
            total = _level(builder, total)
        return total
    while total.type.shape[-1] > ROW_LIMIT:
        total = _of_blocks(builder, total, kind)
    return builder.reduce(total, (len(total.type.shape) - 1,), kind)


def _of_blocks(builder: GraphBuilder, value: Value, kind: str) -> Value:
    """Reduce each block of the last axis, the last one as short as it is."""
    *kept, length = value.type.shape
    rank, (whole, rest) = len(kept), divmod(length, SPLIT)
    same = tuple(Affine(0, (Term(axis),)) for axis in range(rank))
    blocks = Affine(0, (Term(rank, SPLIT), Term(rank + 1)))
    parts = [builder.reduce(builder.view(value, IndexMap((*kept, whole, SPLIT), (*same, blocks))), (rank + 1,), kind)]
    if rest:
        last = builder.view(value, IndexMap((*kept, rest), (*same, Affine(whole * SPLIT, (Term(rank),)))))
        parts.append(builder.reshape(builder.reduce(last, (rank,), kind), (*kept, 1)))
    return builder.concat(parts, rank)


def _level(builder: GraphBuilder, value: Value) -> Value:
    """Add up to 128 neighbours along the last axis pairwise, and so on: as many levels of the tree as one sum has."""
    *kept, length = value.type.shape
    width = min(COLUMNS, 1 << (length - 1).bit_length())
    groups = -(-length // width)
    missing = groups * width - length
    if missing:
        nothing = builder.full(identity("sum", value.type.dtype.numpy).item(), value.type.dtype, (*kept, missing))
        value = builder.concat((value, nothing), len(kept))
    rank, bits = len(kept), width.bit_length() - 1
    inner = rank + 1 if groups > 1 else rank
    reversal = tuple(Term(inner, 1 << (bits - 1 - bit), 1 << bit, 2) for bit in range(bits))
    outer = (Term(rank, width),) if groups > 1 else ()
    same = tuple(Affine(0, (Term(axis),)) for axis in range(rank))
    shape = (*kept, *((groups,) if groups > 1 else ()), width)
    return builder.reduce(builder.view(value, IndexMap(shape, (*same, Affine(0, (*outer, *reversal))))), (inner,))
