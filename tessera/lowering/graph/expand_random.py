"""Write random bits as arithmetic on the elements' indices: a map, which is fused like any other.

before: %bits = random(%key) [m, n]
after:  %i = iota m; %j = iota n; %k0 = view(%key) 0; %k1 = view(%key) 1
        %bits = map(%i, %j, %k0, %k1) Philox 4x32-10 of the counter (i * n + j) // 4, its word (i * n + j) % 4
"""

from typing import Final, cast

from tessera.core.base.dtypes import i64, u32
from tessera.core.base.philox import KEY_STEPS, MULTIPLIERS, ROUNDS, WORDS
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import Affine, IndexMap
from tessera.core.graph.infer import numbers
from tessera.core.graph.rewrite import Rewriter

RULE: Final = "expand-random"


def expand_random(graph: Graph) -> Graph:
    """Return the graph without `random`."""
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
    linear: Expr = Literal(0, i64)
    for axis, extent in enumerate(shape):
        scaled = apply("mul", linear, Literal(extent, i64)) if axis else linear
        linear = apply("add", scaled, Argument(axis, i64)) if axis else Argument(axis, i64)
    body = philox_element(linear, (Argument(rank, u32), Argument(rank + 1, u32)), stream)
    places = [*((axis,) for axis in range(rank)), (), ()]
    return builder.map(body, [*indices, *words], places, shape, name)


def philox_element(index: Expr, key: tuple[Expr, Expr], stream: int) -> Expr:
    """Return the bits of the element at an index in row-major order; see `core/base/philox.py`."""
    block = apply("shr", index, Literal(2, i64))
    upper = cast_expr(apply("shr", block, Literal(32, i64)), u32)
    lower = cast_expr(apply("and", block, Literal(0xFFFFFFFF, i64)), u32)
    c0, c1, c2, c3 = lower, upper, Literal(stream, u32), Literal(0, u32)
    k0, k1 = key
    for number in range(ROUNDS):
        if number:
            k0, k1 = (apply("add", k, Literal(step, u32)) for k, step in zip((k0, k1), KEY_STEPS, strict=True))
        first, second = (Literal(factor, u32) for factor in MULTIPLIERS)
        high0, low0 = apply("mulhi", c0, first), apply("mul", c0, first)
        high1, low1 = apply("mulhi", c2, second), apply("mul", c2, second)
        c0 = apply("xor", apply("xor", high1, c1), k0)
        c2 = apply("xor", apply("xor", high0, c3), k1)
        c1, c3 = low1, low0
    word = apply("and", index, Literal(WORDS - 1, i64))
    chosen = c3
    for number, each in reversed(list(enumerate((c0, c1, c2)))):
        chosen = apply("select", apply("cmp", word, Literal(number, i64), predicate="eq"), each, chosen)
    return chosen
