"""Write random bits as arithmetic on the elements' indices: a map, which is fused like any other.

before: %bits = random(%key) [m, n]
after:  %i = iota m; %j = iota n; %k0 = view(%key) 0; %k1 = view(%key) 1
        %bits = map(%i, %j, %k0, %k1) Philox 4x32-10 of the counter (i * n + j) // 4, its word (i * n + j) % 4
"""

from collections.abc import Sequence
from math import prod
from typing import Final, cast

from tessera.core.base.dtypes import i64, u32, u64
from tessera.core.base.philox import KEY_STEPS, MULTIPLIERS, ROUNDS, WORDS
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import Affine, IndexMap
from tessera.core.graph.infer import numbers
from tessera.core.graph.rewrite import Rewriter, with_bodies

RULE: Final = "expand-random"


def expand_random(graph: Graph) -> Graph:
    """Return the graph without `random`, its bodies included."""
    graph = with_bodies(graph, expand_random)
    if all(node.op != "random" for node in graph.nodes):
        return graph
    rewriter = Rewriter(graph, RULE)
    for node in graph.nodes:
        if node.op != "random":
            rewriter.keep(node)
            continue
        (key,) = rewriter.operands(node)
        with rewriter.builder.within(rewriter.origin(node), node.span):
            shape, stream = numbers(node.attributes["shape"]), cast("int", node.attributes["stream"])
            rewriter.replace(node, _bits(rewriter.builder, key, shape, stream, node.result.name))
    return rewriter.finish()


def _bits(builder: GraphBuilder, key: Value, shape: tuple[int, ...], stream: int, name: str) -> Value:
    indices = [builder.iota(extent) for extent in shape]
    words = [builder.view(key, IndexMap((), (Affine(number),))) for number in range(2)]
    rank = len(shape)
    key_words = Argument(rank, u32), Argument(rank + 1, u32)
    body = philox_word(*_block_and_word(shape), key_words, stream, most=-(-prod(shape) // WORDS))
    places = [*((axis,) for axis in range(rank)), (), ()]
    return builder.map(body, [*indices, *words], places, shape, name)


def _block_and_word(shape: tuple[int, ...]) -> tuple[Expr, Expr]:
    """Return the block that an element is of, and which of its words it is.

    Where rows are whole blocks, both are made of the last index alone, so that a compiler sees that neighbours share
    a block: one evaluation gives four elements.
    """
    if shape and shape[-1] % WORDS == 0:
        last = Argument(len(shape) - 1, i64)
        rows = (*shape[:-1], shape[-1] // WORDS)
        places = (*(Argument(axis, i64) for axis in range(len(shape) - 1)), _block(last))
        return _linear(rows, places), _word(last)
    index = _linear(shape, [Argument(axis, i64) for axis in range(len(shape))])
    return _block(index), _word(index)


def _linear(shape: Sequence[int], places: Sequence[Expr]) -> Expr:
    """Return the index in row-major order."""
    if not places:
        return Literal(0, i64)
    linear = places[0]
    for extent, place in zip(shape[1:], places[1:], strict=True):
        linear = apply("add", apply("mul", linear, Literal(extent, i64)), place)
    return linear


def _block(index: Expr) -> Expr:
    return apply("shr", index, Literal(WORDS.bit_length() - 1, i64))


def _word(index: Expr) -> Expr:
    return apply("and", index, Literal(WORDS - 1, i64))


def philox_element(index: Expr, key: tuple[Expr, Expr], stream: int) -> Expr:
    """Return the bits of the element at an index in row-major order; see `core/base/philox.py`."""
    return philox_word(_block(index), _word(index), key, stream)


def philox_word(block: Expr, word: Expr, key: tuple[Expr, Expr], stream: int, most: int = 1 << 62) -> Expr:
    """Return a word of a block of random bits.  most: blocks that there are."""
    upper: Expr = Literal(0, u32)
    if most > 1 << 32:
        upper = cast_expr(apply("shr", block, Literal(32, i64)), u32)
    lower = cast_expr(apply("and", block, Literal(0xFFFFFFFF, i64)), u32)
    c0, c1, c2, c3 = lower, upper, Literal(stream, u32), Literal(0, u32)
    k0, k1 = key
    for number in range(ROUNDS):
        if number:
            k0, k1 = (apply("add", k, Literal(step, u32)) for k, step in zip((k0, k1), KEY_STEPS, strict=True))
        (high0, low0), (high1, low1) = map(_product, (c0, c2), MULTIPLIERS)
        c0 = apply("xor", apply("xor", high1, c1), k0)
        c2 = apply("xor", apply("xor", high0, c3), k1)
        c1, c3 = low1, low0
    chosen = c3
    for number, each in reversed(list(enumerate((c0, c1, c2)))):
        chosen = apply("select", apply("cmp", word, Literal(number, i64), predicate="eq"), each, chosen)
    return chosen


def _product(word: Expr, factor: int) -> tuple[Expr, Expr]:
    """Return both halves of a product: one multiplication with a result of 64 bits, where two would be made of two."""
    whole = apply("mul", cast_expr(word, u64), Literal(factor, u64))
    return cast_expr(apply("shr", whole, Literal(32, u64)), u32), cast_expr(whole, u32)
