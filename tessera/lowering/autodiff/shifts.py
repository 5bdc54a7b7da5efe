"""Prove that outputs do not depend on a value, such as the maximum that a softmax or a log-sum-exp is shifted by.

Let the value m become m + d, with a free number d for each of its elements.  Values that follow are classified:
a *shift* becomes v + c d, a *scale* becomes v exp(c d), and c = 0 is a value that stays.  `exp` turns shifts into
scales and `log` back; sums along axes that d does not have keep scales, quotients subtract them.  Where every output
stays, the derivative by m is 0, exactly: not an estimate, and not the name of an operator.  What the rules cannot
classify counts as dependent.
"""

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from tessera.core.base.dtypes import f64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, fold
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.guarded_totals import guarded_total, source_of
from tessera.core.graph.index_maps import IndexMap
from tessera.core.graph.infer import labels_of, numbers


@dataclass(frozen=True, slots=True)
class Dependence:
    """v + c d where `scale` is false, v exp(c d) where it is true.

    number: the value of a literal, which some classes absorb: 0 is a scale by anything, an infinity both
    """

    scale: bool
    c: float
    number: float | None = None

    @property
    def stays(self) -> bool:
        """True where the value does not depend on d."""
        return self.c == 0


STAYS: Final = Dependence(False, 0.0)
Found = Dependence | None
"""None: dependent in a way that has no class."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """The class of a value, and which of its axes are those of d (but for those of extent 1)."""

    dependence: Dependence
    places: tuple[int, ...]


class ShiftAnalysis:
    """Answers which values of one graph cancel."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._positions = {node: number for number, node in enumerate(graph.nodes)}
        self._outputs = frozenset(graph.outputs)

    def cancels(self, value: Value) -> bool:
        """Return whether no output depends on `value`, or on the only thing that is made of it alone.

        The second covers guards: `select(m == -inf, 0, m)` in place of m.
        """
        return any(self._stays_without(each) for each in self._stand_ins(value))

    def _stand_ins(self, value: Value) -> list[Value]:
        """Return `value` and maps of it through which alone the rest of the graph sees it."""
        found, closed = [value], {value}
        users = self._graph.users
        while True:
            after = {user for each in closed for user in users.get(each, ()) if closed.isdisjoint(user.results)}
            ready = [node for node in after if node.op in ("map", "view") and closed.issuperset(node.operands)]
            if not ready:
                return found
            closed.add(min(ready, key=lambda node: self._positions[node]).result)
            ends = [v for v in closed if any(closed.isdisjoint(user.results) for user in users.get(v, ()))]
            if len(ends) == 1 and self._outputs.isdisjoint(closed):
                found.append(ends[0])

    def _stays_without(self, value: Value) -> bool:
        places = tuple(axis for axis, size in enumerate(value.type.shape) if size != 1)
        known = {value: _Placed(Dependence(False, 1.0), places)}
        if value in self._outputs:
            return False
        waiting = [self._positions[node] for node in self._graph.users.get(value, ())]
        heapq.heapify(waiting)
        done: set[int] = set()
        guards = Guards(self._graph.producers)
        while waiting:
            position = heapq.heappop(waiting)
            if position in done:
                continue
            done.add(position)
            node = self._graph.nodes[position]
            placed = None if guards.rejects(node) else _classify(node, known, guards)
            if placed is None or (not placed.dependence.stays and not self._outputs.isdisjoint(node.results)):
                return False
            if not placed.dependence.stays:
                known[node.result] = placed
                for user in self._graph.users.get(node.result, ()):
                    heapq.heappush(waiting, self._positions[user])
        return True


def _classify(node: Node, known: Mapping[Value, _Placed], guards: "Guards") -> _Placed | None:
    rule = _NODES.get(node.op)
    if rule is None or len(node.results) != 1:
        return None
    return rule(node, known) or guards.classified(node, known)


class Guards:
    """Classify totals that are replaced where they are 0: `select(l == 0, 1, l)`, and quotients by them.

    Such a total moves as l does, but for where it is 0.  There the quotient is 0 whatever d is, where l is the sum of
    what is divided, which is never negative.
    """

    def __init__(self, producers: Mapping[Value, Node]) -> None:
        self._producers = producers
        self._totals: dict[Value, Value] = {}  # of each guarded total, the total

    def classified(self, node: Node, known: Mapping[Value, _Placed]) -> _Placed | None:
        """Return the class of a guarded total, or of a quotient by one; None for any other map."""
        total = guarded_total(node, self._producers)
        if total is not None and total in known and known[total].dependence.scale:
            self._totals[node.result] = total
            return known[total]
        return None

    def rejects(self, node: Node) -> bool:
        """Return whether a node uses a guarded total for anything else than to divide the summands of the total."""
        return any(
            operand in self._totals and not self._divides(node, place) for place, operand in enumerate(node.operands)
        )

    def _divides(self, node: Node, place: int) -> bool:
        """Return whether a map divides, by operand `place`, what its total is the sum of."""
        body = node.body
        if node.op == "view":
            self._totals[node.result] = self._totals[node.operands[place]]
            return True
        if not isinstance(body, Apply) or body.opcode != "div":
            return False
        above, below = body.operands
        if not isinstance(above, Argument) or not isinstance(below, Argument) or below.number != place:
            return False
        return self._adds(self._totals[node.operands[place]], node.operands[above.number])

    def _adds(self, total: Value, summand: Value) -> bool:
        """Return whether a total is the sum of a value that is nowhere negative."""
        maker, exponential = self._producers.get(source_of(total, self._producers)), self._producers.get(summand)
        if maker is None or maker.op != "reduce" or maker.attributes["kind"] != "sum":
            return False
        body = exponential.body if exponential is not None else None
        return maker.operands[0] is summand and isinstance(body, Apply) and body.opcode in ("exp", "exp2")


def _map(node: Node, known: Mapping[Value, _Placed]) -> _Placed | None:
    axes = labels_of(node.attributes["axes"])
    where: tuple[int, ...] | None = None
    given: list[Dependence] = []
    for operand, mine in zip(node.operands, axes, strict=True):
        placed = known.get(operand)
        given.append(placed.dependence if placed else STAYS)
        if placed is None:
            continue
        places = tuple(mine[axis] for axis in placed.places)
        if where is not None and places != where:
            return None
        where = places
    found = dependence(cast("Expr", node.body), given)
    return None if found is None else _Placed(found, where or ())


def _reduce(node: Node, known: Mapping[Value, _Placed]) -> _Placed | None:
    (operand,), axes = node.operands, numbers(node.attributes["axes"])
    placed = known[operand]
    if not set(axes).isdisjoint(placed.places):
        return None
    places = tuple(place - sum(axis < place for axis in axes) for place in placed.places)
    c = placed.dependence.c
    if node.attributes["kind"] == "sum" and not placed.dependence.scale:
        c *= math.prod(operand.type.shape[axis] for axis in axes)
    return _Placed(_made(placed.dependence.scale, c), places)


def _contract(node: Node, known: Mapping[Value, _Placed]) -> _Placed | None:
    result = numbers(node.attributes["result"])
    where: tuple[int, ...] | None = None
    c = 0.0
    for operand, mine in zip(node.operands, labels_of(node.attributes["labels"]), strict=True):
        placed = known.get(operand)
        if placed is None:
            continue
        labels = tuple(mine[axis] for axis in placed.places)
        if not placed.dependence.scale or (where is not None and labels != where):
            return None
        where = labels
        c += placed.dependence.c
    if where is None or not set(where) <= set(result):
        return None
    return _Placed(_made(True, c), tuple(result.index(label) for label in where))


def _view(node: Node, known: Mapping[Value, _Placed]) -> _Placed | None:
    placed, index_map = known[node.operands[0]], cast("IndexMap", node.body)
    places: list[int] = []
    for place in placed.places:
        axis = index_map.axes[place].axis
        if axis is None:
            return None
        places.append(axis)
    if index_map.padded and not placed.dependence.scale:
        return None
    return _Placed(placed.dependence, tuple(places))


_NODES: Final[Mapping[str, Callable[[Node, Mapping[Value, _Placed]], _Placed | None]]] = {
    "map": _map, "reduce": _reduce, "contract": _contract, "view": _view,
}  # fmt: skip


def dependence(expr: Expr, given: list[Dependence]) -> Found:
    """Return the class of an expression, from those of its arguments."""

    def leaf(each: Argument | Literal) -> Found:
        return given[each.number] if isinstance(each, Argument) else Dependence(False, 0.0, float(each.value))

    def node(each: Apply, *operands: Found) -> Found:
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands):
            return None
        if all(operand.stays for operand in known):
            return STAYS
        rule = _EXPRESSIONS.get(each.opcode)
        found = None if rule is None else rule(each, known)
        return found and _made(found.scale, found.c, each)

    return cast("Found", fold(expr, leaf, node))


def _made(scale: bool, c: float, each: Expr | None = None) -> Dependence:
    """Return a class; coefficients of numbers rounded to the expression's dtype cancel up to that rounding."""
    least = 1e-13 if each is None or each.dtype == f64 else 1e-6
    return STAYS if abs(c) <= least else Dependence(scale, c)


def _fits(a: Dependence, b: Dependence) -> Found:
    """Return the class that two values have in common."""
    for x, y in ((a, b), (b, a)):
        if y.number is not None and (math.isinf(y.number) or (y.number == 0 and x.scale)):
            return x
    return a if (a.scale, a.c) == (b.scale, b.c) else None


def _add(sign: int) -> Callable[[Apply, list[Dependence]], Found]:
    def rule(each: Apply, d: list[Dependence]) -> Found:
        del each
        a, b = d
        if not a.scale and not b.scale:
            return Dependence(False, a.c + sign * b.c)
        return _fits(a, b)

    return rule


def _mul(sign: int) -> Callable[[Apply, list[Dependence]], Found]:
    def rule(each: Apply, d: list[Dependence]) -> Found:
        del each
        a, b = d
        if all(x.scale or x.stays for x in d):
            return Dependence(True, a.c + sign * b.c)
        if b.number is not None:
            return Dependence(False, a.c * b.number if sign > 0 else a.c / b.number if b.number else math.inf)
        return Dependence(False, a.number * b.c) if a.number is not None and sign > 0 else None

    return rule


def _fma(each: Apply, d: list[Dependence]) -> Found:
    product = _mul(1)(each, d[:2])
    return product and _add(1)(each, [product, d[2]])


def _choice(each: Apply, d: list[Dependence]) -> Found:
    if each.opcode == "select" and not d[0].stays:
        return None
    return _fits(d[-2], d[-1])


def _compare(each: Apply, d: list[Dependence]) -> Found:
    """Differences of shifts and signs of scales stay; so does whether a shift is infinite, as d is finite."""
    del each
    return STAYS if _fits(d[0], d[1]) is not None else None


def _root(factor: float) -> Callable[[Apply, list[Dependence]], Found]:
    return lambda _, d: Dependence(True, factor * d[0].c) if d[0].scale else None


def _exponential(factor: float) -> Callable[[Apply, list[Dependence]], Found]:
    return lambda _, d: None if d[0].scale else Dependence(True, factor * d[0].c)


def _logarithm(factor: float) -> Callable[[Apply, list[Dependence]], Found]:
    return lambda _, d: Dependence(False, factor * d[0].c) if d[0].scale else None


def _pow(each: Apply, d: list[Dependence]) -> Found:
    del each
    return Dependence(True, d[0].c * d[1].number) if d[0].scale and d[1].number is not None else None


def _cast(each: Apply, d: list[Dependence]) -> Found:
    return d[0] if each.dtype.is_float else None


_EXPRESSIONS: Final[Mapping[str, Callable[[Apply, list[Dependence]], Found]]] = {
    "add": _add(1), "sub": _add(-1), "mul": _mul(1), "div": _mul(-1), "fma": _fma, "max": _choice, "min": _choice,
    "select": _choice, "cmp": _compare, "abs": _root(1), "sqrt": _root(0.5), "rsqrt": _root(-0.5), "pow": _pow,
    "neg": lambda _, d: Dependence(d[0].scale, d[0].c if d[0].scale else -d[0].c), "cast": _cast,
    "exp": _exponential(1), "exp2": _exponential(math.log(2)), "log": _logarithm(1),
    "log2": _logarithm(1 / math.log(2)),
}  # fmt: skip
