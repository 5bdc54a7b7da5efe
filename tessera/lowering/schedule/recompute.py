"""Compute the weights of a softmax again in every loop that needs them, from the scores and their log-sum-exp.

before: e = exp(s - m) [i, j]; l = sum_j e; dS = e * (r + dP / l); r = -sum_j e / l^2 * dP; dQ = sum_j dS K, ...
after:  lse = m + log(l); dS = exp(s - lse) * (dP + l r); l r = -sum_d dO O; dQ = sum_j dS K, ...

What several contractions read along both axes would be stored once for all of them, as large as both axes together.
Normal forms show which values are multiples of the weights: they are written anew in terms of the scores, a row's
log-sum-exp and other numbers of a row, so that every loop makes its own blocks of them.  Weights times a contraction
are summed as the other contraction's results: sum_j P_ij (sum_d A_id B_jd) = sum_d A_id (sum_j P_ij B_jd).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, arguments, substitute
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Graph, Node, Origin, Value
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.graph.isolated import is_isolated
from tessera.core.graph.rewrite import without_dead_code
from tessera.lowering.schedule.cascades.rebuild import all_of, linear_of, product_of, sum_of
from tessera.lowering.schedule.cascades.terms import (
    NormalForm,
    NotSeparable,
    Powers,
    Term,
    product,
    raised,
    scale_linear,
)
from tessera.lowering.schedule.compared import is_compared
from tessera.lowering.schedule.regions import MOST_INNER
from tessera.lowering.schedule.wide_forms import Normaliser, WideForms, counted_as, find_normalisers

RULE: Final = "recompute"


@dataclass(frozen=True, slots=True)
class Recomputed:
    """The graph, and the numbers of its nodes that every kernel may compute for itself."""

    graph: Graph
    again: frozenset[int]


def recompute_weights(graph: Graph) -> Recomputed | None:
    """Return the graph with weights made anew where they are used; None where only what attention returns needs any."""
    rewriting = _Rewriting(graph)
    for normaliser in find_normalisers(graph):
        if not is_isolated(normaliser.total):
            rewriting.rewrite(normaliser)
    return rewriting.finish()


@dataclass(frozen=True, slots=True)
class _Root:
    """An operand that is a multiple of weights.  terms: what the weights are multiplied with."""

    node: Node
    place: int
    terms: NormalForm


class _Rewriting:
    """Builds new nodes, and says what they stand for.

    operands: of nodes, by number and place; values: of results; again: numbers of nodes that loops compute themselves
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = GraphBuilder(graph.next_ident)
        self.operands: dict[tuple[int, int], Value] = {}
        self.values: dict[Value, Value] = {}
        self.again: set[int] = set()
        self._made: dict[tuple[object, ...], Value] = {}

    def rewrite(self, normaliser: Normaliser) -> None:
        """Rewrite what is made of the weights of one softmax, where a contraction over another axis needs them."""
        roots = self._roots(normaliser)
        products = [root for root in roots if root.node.op == "contract" and not _is_output(root, normaliser)]
        elsewhere = any(_axis_stays(root, normaliser) for root in products)
        if not elsewhere or is_compared(self.graph, normaliser.total.operands[0], normaliser.forms.shape):
            return
        self._again_with(normaliser.total.operands[0], normaliser.forms)
        with self.builder.within(_origin(normaliser.total), normaliser.total.span):
            weights = _Weights(self, normaliser, roots)
        for root in sorted(roots, key=lambda each: each.node.op == "contract"):
            with self.builder.within(_origin(root.node), root.node.span):
                if root.node.op == "reduce":
                    self.values[root.node.result] = weights.summed(root)
                elif root in products:
                    self.operands[root.node.ident, root.place] = weights.operand(root)

    def finish(self) -> Recomputed | None:
        """Return the new graph."""
        if not self.operands:
            return None
        nodes = [self._changed(node) for node in (*self.graph.nodes, *self.builder.nodes)]
        outputs = tuple(self.values.get(value, value) for value in self.graph.outputs)
        ordered = _in_order(nodes)
        made = without_dead_code(replace(self.graph, nodes=tuple(ordered), outputs=outputs))
        return Recomputed(made, frozenset(self.again))

    def _changed(self, node: Node) -> Node:
        mine = tuple(
            self.operands.get((node.ident, place), self.values.get(operand, operand))
            for place, operand in enumerate(node.operands)
        )
        return node if mine == node.operands else replace(node, operands=mine)

    def _roots(self, normaliser: Normaliser) -> list[_Root]:
        """Return the operands of contractions and sums that are multiples of weights.

        Sums that a mesh cuts are computed apart, on a device that has one leaf as on one that has several.
        """
        forms = normaliser.forms
        found: list[_Root] = []
        for node in self.graph.nodes:
            if node is normaliser.total or is_isolated(node) or not (node.op == "contract" or _sums(node, forms.axis)):
                continue
            for place, operand in enumerate(node.operands):
                if operand.type.shape != forms.shape or not operand.type.dtype.is_float:
                    continue
                try:
                    terms = normaliser.relative(forms.normal(operand))
                except NotSeparable:
                    continue
                if terms is not None:
                    found.append(_Root(node, place, terms))
        return found

    def map(self, body: Expr, forms: WideForms, axes: Sequence[int]) -> Value:
        """Return an expression over atoms as a value along some axes of the frame; equal ones are one."""
        operands: list[Value] = []
        places: list[tuple[int, ...]] = []
        table: dict[int, Expr] = {}
        for number in arguments(body):
            value, mine = forms.atoms[number]
            table[number] = cast_expr(Argument(len(operands), value.type.dtype), counted_as(value.type.dtype))
            operands.append(value)
            places.append(tuple(axes.index(axis) for axis in mine))
        body = substitute(body, table)
        shape = tuple(forms.shape[axis] for axis in axes)
        if isinstance(body, Argument) and places == [tuple(range(len(axes)))]:
            return operands[0]
        key = (body, *operands, *places, shape)
        if key not in self._made:
            self._made[key] = self.builder.map(body, operands, places, shape)
        return self._made[key]

    def wide(self, body: Expr, forms: WideForms) -> Value:
        """Return an expression along the whole frame, which loops compute for themselves, as what it is made of."""
        made = self.map(body, forms, range(len(forms.shape)))
        self.again |= {node.ident for node in self.builder.nodes if made in node.results}
        for number in arguments(body):
            self._again_with(forms.atoms[number][0], forms)
        return made

    def _again_with(self, value: Value, forms: WideForms) -> None:
        """Let loops compute a value along the whole frame, and what it is made of, where its sums are short."""
        stack = [value]
        while stack:
            node = self.graph.producers.get(stack.pop())
            if node is None or node.ident in self.again or node.results[0].type.shape != forms.shape:
                continue
            if node.op == "map":
                self.again.add(node.ident)
                stack += node.operands
            elif node.op == "contract" and _inner_extent(node) <= MOST_INNER:
                self.again.add(node.ident)


class _Weights:
    """The weights of one softmax, and what is made of them.

    lse: the log-sum-exp, as an atom; sums: of results of sums that are one term, what they are
    """

    def __init__(self, rewriting: _Rewriting, normaliser: Normaliser, roots: Sequence[_Root]) -> None:
        self.rewriting, self.normaliser, self.roots = rewriting, normaliser, roots
        self.builder, self.forms = rewriting.builder, normaliser.forms
        self.dtype = normaliser.divisor.dtype
        self.sums: dict[Expr, Term] = {}
        logarithm = apply("log", normaliser.divisor)
        shift = linear_of(scale_linear(normaliser.shift, -1.0), self.dtype)
        self.lse = self._row(apply("add", shift, logarithm) if normaliser.shift else logarithm)

    def _row(self, body: Expr) -> Expr:
        """Return an expression of numbers of rows as an atom: a value that is stored."""
        forms = self.forms
        return forms.atom(self.rewriting.map(body, forms, forms.rows), forms.rows)

    def operand(self, root: _Root) -> Value:
        """Return what stands for an operand of a contraction."""
        dtype = root.node.operands[root.place].type.dtype
        return self.rewriting.wide(cast_expr(self._times(root.terms), dtype), self.forms)

    def _times(self, terms: NormalForm) -> Expr:
        """Return weights times a sum of terms; what all have in common is multiplied once."""
        common = [each for each in terms[0].indicator if all(each in term.indicator for term in terms)]
        powers: Powers = tuple(each for each in terms[0].atoms if all(each in term.atoms for term in terms))
        sizes = {abs(term.coefficient) for term in terms}
        size = sizes.pop() if len(sizes) == 1 else 1.0
        rest: list[Term] = []
        for term in terms:
            indicator = tuple(each for each in term.indicator if each not in common)
            scale, parameters = self._opened(term.parameters)
            row: Powers = ((self._row(product_of(parameters, self.dtype)), 1.0),) if parameters else ()
            atoms = product(term.atoms, raised(powers, -1.0))
            rest.append(Term(scale * term.coefficient / size, product(atoms, row), (), indicator))
        weights = self._weights(tuple(common))
        factors = [sum_of(tuple(rest), self.dtype)] if rest != [Term(1.0)] else []
        factors += [product_of(powers, self.dtype)] if powers else []
        for factor in factors:
            weights = apply("mul", weights, factor)
        return weights if size == 1 else apply("mul", weights, Literal(size, self.dtype))

    def _opened(self, parameters: Powers) -> tuple[float, Powers]:
        """Return numbers of rows with what sums are in their place: divisors may cancel."""
        coefficient, found = 1.0, parameters
        for expr, power in parameters:
            if expr in self.sums and float(power).is_integer():
                inner = self.sums[expr]
                coefficient *= inner.coefficient**power
                found = product(found, ((expr, -power),), raised(inner.parameters, power))
        return coefficient, found

    def _weights(self, indicator: tuple[Expr, ...]) -> Expr:
        """Return exp(scores - lse), 0 where the indicator does not hold."""
        scores = linear_of(self.normaliser.exponent, self.dtype)
        condition = all_of(indicator)
        if condition is not None:
            scores = apply("select", condition, scores, Literal(-math.inf, self.dtype))
        return apply("exp", apply("sub", scores, self.lse))

    def summed(self, root: _Root) -> Value:
        """Return a sum along the softmax's axis: numbers of a row times sums of weights times atoms."""
        total: Expr | None = None
        for term in root.terms:
            value = self._exchanged(term)
            if value is None:
                part = Term(1.0, term.atoms, (), term.indicator)
                value = self.builder.reduce(self.rewriting.wide(self._times((part,)), self.forms), (self.forms.axis,))
            parameters = product(term.parameters, ((self.forms.atom(value, self.forms.rows), 1.0),))
            added = product_of(parameters, self.dtype, term.coefficient)
            total = added if total is None else apply("add", total, added)
            if len(root.terms) == 1:
                known = self.forms.atom(root.node.result, self.forms.rows)
                self.sums[known] = Term(term.coefficient, parameters=parameters)
        assert total is not None
        return self.rewriting.map(cast_expr(total, root.node.result.type.dtype), self.forms, self.forms.rows)

    def _exchanged(self, term: Term) -> Value | None:
        """Return sum_j P_ij (sum_d A_id B_jd) as sum_d A_id (sum_j P_ij B_jd); None for other sums."""
        if len(term.atoms) != 1 or term.indicator != self.normaliser.indicator:
            return None
        ((atom, power),) = term.atoms
        if not isinstance(atom, Argument) or power != 1:
            return None
        value, places = self.forms.atoms[atom.number]
        node = self.rewriting.graph.producers.get(value)
        if node is None or node.op != "contract" or places != tuple(range(len(self.forms.shape))):
            return None
        frame, sides = numbers(node.attributes["result"]), labels_of(node.attributes["labels"])
        axis = frame[self.forms.axis]
        mine = [side for side, labels in enumerate(sides) if axis not in labels]
        if len(mine) != 1 or any(label not in sides[1 - mine[0]] for label in sides[mine[0]] if label not in frame):
            return None
        (side,) = mine
        inner = tuple(label for label in sides[side] if label not in frame)
        rows = tuple(label for label in frame if label != axis)
        made, order = self._output(node, 1 - side, frame, (*rows, *inner))
        whole = [*rows, *inner]
        left, right = Argument(0, node.operands[side].type.dtype), Argument(1, made.type.dtype)
        body = apply("mul", cast_expr(left, self.dtype), cast_expr(right, self.dtype))
        axes = [[whole.index(label) for label in labels] for labels in (sides[side], order)]
        extents = dict(zip((*sides[side], *order), (*node.operands[side].type.shape, *made.type.shape), strict=True))
        product = self.builder.map(body, [node.operands[side], made], axes, [extents[label] for label in whole])
        return self.builder.reduce(product, range(len(rows), len(whole)))

    def _output(
        self, node: Node, side: int, frame: Sequence[int], result: tuple[int, ...]
    ) -> tuple[Value, tuple[int, ...]]:
        """Return sum_j P_ij B_jd, where B is operand `side` of a contraction, with labels of its axes.

        The one that the graph has anyway is taken as it is stored, rounded; else it is made, and rounded like A.
        """
        other, labels = node.operands[side], labels_of(node.attributes["labels"])[side]
        for root in self.roots:
            if _is_output(root, self.normaliser) and root.node.operands[1 - root.place] is other:
                order = _matched(root, frame, labels)
                if order is not None and set(order) == set(result):
                    return self._stored(root.node.result, order)
        weights = self.rewriting.wide(cast_expr(self._weights(self.normaliser.indicator), other.type.dtype), self.forms)
        made = self.builder.contract(
            weights, other, (frame, labels), result, exact=bool(node.attributes["exact"]),
            compute=str(node.attributes["compute"] or ""),
        )  # fmt: skip
        return self.builder.cast(made, node.operands[1 - side].type.dtype), result

    def _stored(self, value: Value, order: tuple[int, ...]) -> tuple[Value, tuple[int, ...]]:
        """Return a value as it is stored: rounded, where it is."""
        for user in self.rewriting.graph.users.get(value, ()):
            body = user.body
            cast = isinstance(body, Apply) and body.opcode == "cast" and isinstance(body.operands[0], Argument)
            if user.op == "map" and cast and len(value.type.shape) == len(user.result.type.shape):
                (places,) = labels_of(user.attributes["axes"])
                return user.result, tuple(order[places.index(axis)] for axis in range(len(places)))
        return value, order


def _matched(root: _Root, frame: Sequence[int], labels: Sequence[int]) -> tuple[int, ...] | None:
    """Return the labels of a contraction of weights in terms of another one's: of the frame, and of its operand."""
    mine, theirs = (labels_of(root.node.attributes["labels"])[place] for place in (root.place, 1 - root.place))
    known = dict(zip(mine, frame, strict=True))
    for label, wanted in zip(theirs, labels, strict=True):
        if known.setdefault(label, wanted) != wanted:
            return None
    return tuple(known[label] for label in numbers(root.node.attributes["result"]))


def _is_output(root: _Root, normaliser: Normaliser) -> bool:
    """Return whether a contraction sums the weights themselves along their own axis: what attention returns."""
    alone = root.terms == (Term(1.0, indicator=normaliser.indicator),)
    return alone and root.node.op == "contract" and not _axis_stays(root, normaliser)


def _axis_stays(root: _Root, normaliser: Normaliser) -> bool:
    """Return whether a contraction of weights sums along another axis than theirs."""
    label = labels_of(root.node.attributes["labels"])[root.place][normaliser.forms.axis]
    return label in numbers(root.node.attributes["result"])


def _sums(node: Node, axis: int) -> bool:
    return node.op == "reduce" and node.attributes["kind"] == "sum" and numbers(node.attributes["axes"]) == (axis,)


def _origin(node: Node) -> Origin:
    return Origin(RULE, (node.ident,), node.origin.composite)


def _inner_extent(node: Node) -> int:
    """Return how many products a contraction sums for each element."""
    kept = set(numbers(node.attributes["result"]))
    extents = {
        label: size
        for operand, labels in zip(node.operands, labels_of(node.attributes["labels"]), strict=True)
        for label, size in zip(labels, operand.type.shape, strict=True)
    }
    return prod(size for label, size in extents.items() if label not in kept)


def _in_order(nodes: Sequence[Node]) -> list[Node]:
    """Put each node behind those whose results it uses, and leave the order as it is otherwise."""
    makers = {value: node for node in nodes for value in node.results}
    done: dict[Node, None] = {}
    for node in nodes:
        stack = [node]
        while stack:
            last = stack[-1]
            missing = [makers[value] for value in last.operands if value in makers and makers[value] not in done]
            if missing:
                stack += reversed(missing)
            else:
                done[stack.pop()] = None
    return list(done)
