"""Rewrite rules in tests: one rule applied at one place, both sides compared over exact fields and in floats."""

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce as fold_left
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from support.graphs import assert_same_bits, normals
from support.operators import Array
from tessera import op
from tessera.core.base.dtypes import bf16
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, fold
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.graph.verify import verify
from tessera.graphs.function import GraphFunction
from tessera.lowering.graph.egraph.egraph import EGraph
from tessera.lowering.graph.egraph.extraction import Extractor
from tessera.lowering.graph.rewrite import apply_match, to_graph
from tessera.lowering.graph.rules.rule import RewriteRule
from tessera.lowering.graph.rules.table import RULES
from tessera.lowering.graph.simplify import simplify
from tessera.runtime.interpret.graph import evaluate, evaluate_node

Element: TypeAlias = Any  # of whatever field
Operations: TypeAlias = Mapping[str, Callable[..., Element]]


def _mobius(x: Fraction) -> Fraction:
    """A function with an inverse, for those that rules know nothing else about."""
    return (2 * x + 1) / (x + 3)


def _inverse(x: Fraction) -> Fraction:
    return (3 * x - 1) / (2 - x)


def _ratio(x: Element, y: Element) -> Element:
    return x / y


RATIONAL: Final[Operations] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": _ratio, "neg": operator.neg,
    "exp": _mobius, "log": _inverse, "exp2": _mobius, "log2": _inverse,
}  # fmt: skip
"""Exact arithmetic; exp and log are some pair of inverse functions."""
MAGNITUDE: Final[Operations] = {
    "add": operator.add, "sub": operator.add, "mul": operator.mul, "div": _ratio, "neg": operator.pos,
}  # fmt: skip
"""The sums of the absolute values of all terms, for operands without signs."""


def over(graph: Graph, inputs: Sequence[np.ndarray], operations: Operations, number: Callable[[float], Element]):
    """Return the outputs of a graph over a field: arrays of Python objects; conversions change nothing."""
    values: dict[Value, np.ndarray] = dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes:
        values[node.result] = _node(node, [values[each] for each in node.operands], operations, number)
    return [values[value] for value in graph.outputs]


def _node(
    node: Node, operands: Sequence[np.ndarray], operations: Operations, number: Callable[[float], Element]
) -> np.ndarray:
    match node.op:
        case "map":
            return _map(node, operands, operations, number)
        case "contract":
            left, right = labels_of(node.attributes["labels"])
            made = np.einsum(operands[0], left, operands[1], right, numbers(node.attributes["result"]))
            return np.asarray(made, object)
        case "reduce":
            axes = numbers(node.attributes["axes"])
            kinds: dict[str, Any] = {"sum": np.add, "max": np.maximum, "min": np.minimum}
            return np.asarray(kinds[str(node.attributes["kind"])].reduce(operands[0], axis=axes), object)
        case _:
            (made,) = evaluate_node(node, operands)
            return made


def _map(
    node: Node, operands: Sequence[np.ndarray], operations: Operations, number: Callable[[float], Element]
) -> np.ndarray:
    shape, axes = numbers(node.attributes["shape"]), labels_of(node.attributes["axes"])
    found = np.empty(shape, object)
    for index in np.ndindex(*shape):
        elements = [x[tuple(index[axis] for axis in mine)] for x, mine in zip(operands, axes, strict=True)]
        found[index] = _element(node.expr, elements, operations, number)
    return found


def _element(expr: Expr, elements: Sequence[Element], operations: Operations, number: Callable[[float], Element]):
    def leaf(each: Argument | Literal) -> Element:
        return elements[each.number] if isinstance(each, Argument) else number(float(each.value))

    def node(each: Apply, *values: Element) -> Element:
        return values[0] if each.opcode == "cast" else operations[each.opcode](*values)

    return fold(expr, leaf, node)


def rationals(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    """Return random fractions, none of them 0, for the inputs of a graph."""
    rng = np.random.default_rng(seed)

    def drawn() -> Fraction:
        return Fraction(int(rng.integers(1, 40)), int(rng.integers(1, 9))) * (1 if rng.random() < 0.5 else -1)

    found: list[np.ndarray] = []
    for value in graph.inputs:
        array = np.empty(value.type.shape, object)
        for index in np.ndindex(*value.type.shape):
            array[index] = drawn()
        found.append(array)
    return found


def rule_named(name: str) -> RewriteRule:
    """Return a rule of the table."""
    (found,) = [rule for rule in RULES if rule.name == name]
    return found


def rewritings(rule: RewriteRule, graph: Graph) -> list[Graph]:
    """Return a graph for each place where a rule applies, changed at that place alone."""
    found: list[Graph] = []
    for place in range(len(list(rule.find(EGraph(graph))))):
        egraph = EGraph(graph)
        match = list(rule.find(egraph))[place]
        before = set(egraph.members[egraph.find(match.number)])
        apply_match(egraph, rule, match)
        egraph.rebuild()
        number = egraph.find(match.number)
        for node in egraph.members[number]:
            selection = None if node in before else Extractor(egraph).forced(node, number)
            if selection is not None:
                found.append(to_graph(egraph, selection))
    for each in found:
        verify(each)
    return found


def check_rule(name: str, graph: Graph, *, unit: float | None = None, matches: int | None = None) -> list[Graph]:
    """Compare both sides wherever a rule applies: exactly over fractions, and in floats within its bound.

    unit: the relative error of one rounding, None for rules that keep every bit; matches: at how many places it applies
    """
    rule = rule_named(name)
    found = rewritings(rule, graph)
    assert found, f"{name} does not apply"
    assert matches is None or len(found) == matches
    for after in found:
        _compare_exactly(graph, after)
        _compare_floats(graph, after, unit)
        made = {node.origin.rule for node in after.nodes}
        assert made <= {"", name, "rewrite"}
    return found


def _compare_exactly(before: Graph, after: Graph) -> None:
    inputs = rationals(before)
    wanted, got = (over(each, inputs, RATIONAL, Fraction) for each in (before, after))
    for one, other in zip(wanted, got, strict=True):
        assert one.shape == other.shape
        assert np.array_equal(one, other)


def _compare_floats(before: Graph, after: Graph, unit: float | None) -> None:
    """Each side errs by at most as many roundings as a term passes, relatively to the sum of all |terms|."""
    inputs = normals([value.type for value in before.inputs], 1)
    inputs = [np.where(abs(x.astype(np.float64)) < 0.25, 0.25, x).astype(x.dtype) for x in inputs]
    wanted, got = evaluate(before, inputs), evaluate(after, inputs)
    if unit is None:
        for one, other in zip(got, wanted, strict=True):
            assert_same_bits(one, other)
        return
    sizes = over(before, [abs(x.astype(np.float64)).astype(object) for x in inputs], MAGNITUDE, abs)
    allowed = unit * (roundings(before) + roundings(after))
    for one, other, size in zip(got, wanted, sizes, strict=True):
        error = abs(one.astype(np.float64) - other.astype(np.float64))
        assert (error <= allowed * size.astype(np.float64)).all()


def roundings(graph: Graph) -> int:
    """Return at most how many roundings a term passes on its way to an output."""
    count = 0
    for node in graph.nodes:
        if node.op == "contract":
            left, right = labels_of(node.attributes["labels"])
            sizes = dict(zip((*left, *right), (n for each in node.operands for n in each.type.shape), strict=True))
            count += prod(size for label, size in sizes.items() if label not in numbers(node.attributes["result"]))
        elif node.op == "reduce":
            count += prod(node.operands[0].type.shape[axis] for axis in numbers(node.attributes["axes"]))
        elif node.op == "map":
            count += fold_left(lambda n, _: n + 1, _operations(node.expr), 0)
    return count


def _operations(expr: Expr) -> list[Apply]:
    found: list[Apply] = []
    stack: list[Expr] = [expr]
    while stack:
        each = stack.pop()
        if isinstance(each, Apply):
            found.append(each)
            stack += each.operands
    return found


HALF_UNIT: Final = 2.0**-24
"""Of f32."""
SHORT_UNIT: Final = 2.0 ** -(bf16.bits - 7)
"""Of bf16, which has 8 bits of precision."""


def block_graph(rows: int = 64, width: int = 32, inner: int = 64, heads: int = 4) -> Graph:
    """Return a transformer block: normalization, attention, gated products, about 40 nodes; simplified."""

    def block(x: Array, *weights: Array) -> Array:
        gain, wq, wk, wv, wo, second, wg, wu, wd = weights
        h = op.rmsnorm(x) * gain
        q, k, v = (op.transpose(op.reshape(h @ w, (rows, heads, width // heads)), (1, 0, 2)) for w in (wq, wk, wv))
        scores = op.matmul(q, op.transpose(k, (0, 2, 1))) * (1 / np.sqrt(width // heads))
        mixed = op.reshape(op.transpose(op.matmul(op.softmax(scores), v), (1, 0, 2)), (rows, width))
        x = x + mixed @ wo
        h = op.rmsnorm(x) * second
        return x + (op.silu(h @ wg) * (h @ wu)) @ wd

    square, wide = (width, width), (width, inner)
    shapes = [(rows, width), (width,), *[square] * 4, (width,), wide, wide, (inner, width)]
    return simplify(GraphFunction(block).graph_for(*[np.zeros(shape, np.float32) for shape in shapes]).graph)
