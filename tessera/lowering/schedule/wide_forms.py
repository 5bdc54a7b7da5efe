"""Normal forms of values along the axes of a softmax: which of them are multiples of its weights.

before: e = exp(s - m) [i, j]; l = sum_j e; x = e * (r + t / l)
after:  weights exp(s) with the shift -m and the divisor l; x is weights * (t + l r)

Numbers of a row, which lack the axis j, are parameters; what is no map is an atom.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tessera.core.base.dtypes import DType, f32
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, substitute
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.guarded_totals import guarded_total
from tessera.core.graph.index_maps import is_reshape
from tessera.core.graph.infer import labels_of, numbers
from tessera.lowering.schedule.cascades.normal_form import Normalizer, Uses
from tessera.lowering.schedule.cascades.terms import Linear, NormalForm, NotSeparable, Term, collect, product
from tessera.lowering.schedule.regions import widened

Places = tuple[int, ...]
_DEEPEST = 64
"""Maps of maps that are taken apart."""


class WideForms:
    """Expressions and normal forms of values with the axes of a frame.

    shape: of the frame; axis: the one that a softmax sums over
    atoms: values that expressions are made of, with the frame's axis of each of their axes
    """

    def __init__(self, graph: Graph, shape: tuple[int, ...], axis: int) -> None:
        self.graph, self.shape, self.axis = graph, shape, axis
        self.rows: Places = tuple(place for place in range(len(shape)) if place != axis)
        self.atoms: list[tuple[Value, Places]] = []
        self._numbers: dict[tuple[Value, Places], int] = {}
        self._known: dict[tuple[Value, Places], Expr] = {}
        self._summed: dict[Value, bool] = {}
        self._forms: dict[Value, NormalForm | NotSeparable] = {}
        self._normalizer = Normalizer(self._uses)

    def normal(self, value: Value) -> NormalForm:
        """Return the normal form of a value with all axes of the frame.  Raises NotSeparable."""
        found = self._forms.get(value)
        if found is None:
            try:
                found = self._normalizer.normal(widened(self._expression(value, tuple(range(len(self.shape))), 0)))
            except NotSeparable as reason:
                found = reason
            self._forms[value] = found
        if isinstance(found, NotSeparable):
            raise found
        return found

    def atom(self, value: Value, places: Places) -> Argument:
        """Return a value as an argument of expressions; floats of 16 bits and fewer count as f32."""
        number = self._numbers.setdefault((value, places), len(self.atoms))
        if number == len(self.atoms):
            self.atoms.append((value, places))
        return Argument(number, counted_as(value.type.dtype))

    def _expression(self, value: Value, places: Places, depth: int) -> Expr:
        key = (value, places)
        if key not in self._known:
            self._known[key] = self._made(value, places, depth)
        return self._known[key]

    def _made(self, value: Value, places: Places, depth: int) -> Expr:
        node = self.graph.producers.get(value)
        if node is None or node.op != "map" or self.axis not in places or depth > _DEEPEST:
            return cast_expr(self.atom(value, places), value.type.dtype)
        operands = {
            number: self._expression(operand, tuple(places[axis] for axis in mine), depth + 1)
            for number, (operand, mine) in enumerate(
                zip(node.operands, labels_of(node.attributes["axes"]), strict=True)
            )
        }
        return substitute(node.expr, operands)

    def _uses(self, number: int) -> Uses:
        value, places = self.atoms[number]
        if self.axis in places:
            return Uses.ATOMS
        return Uses.RESULTS if self._is_summed(value) else Uses.INVARIANTS

    def _is_summed(self, value: Value) -> bool:
        """Return whether a reduction has a part in a number of a row: it may be one over the softmax's axis."""
        if value not in self._summed:
            node = self.graph.producers.get(value)
            inner = node is not None and (
                node.op in ("reduce", "contract")
                or (node.op in ("map", "collective") and any(map(self._is_summed, node.operands)))
            )
            self._summed[value] = inner
        return self._summed[value]


def counted_as(dtype: DType) -> DType:
    """Return the type in which expressions have values of `dtype`."""
    return f32 if dtype.is_float and dtype.bits < f32.bits else dtype


@dataclass(frozen=True, slots=True, eq=False)
class Normaliser:
    """A sum of exponentials, and what its weights are.

    total: the node, that of a device's part where a mesh cuts the axis
    exponent, indicator, shift: of the exponentials (see `Term`)
    divisor: the total, or what stands for it where it is 0; divisors: all arguments that are one or the other
    guarded: of numbers of rows that are replaced where the total is 0, as all weights are there, those numbers
    """

    total: Node
    forms: WideForms
    exponent: Linear
    indicator: tuple[Expr, ...]
    shift: Linear
    divisor: Expr
    divisors: frozenset[Expr]
    guarded: Mapping[Value, Value]

    def relative(self, terms: NormalForm) -> NormalForm | None:
        """Return what weights are multiplied with in these terms; None where they are no multiple of weights."""
        found: list[Term] = []
        for term in terms:
            same = (term.exponent, term.shift) == (self.exponent, self.shift)
            if not same or not set(self.indicator) <= set(term.indicator):
                return None
            parameters = [((self._plain(expr), power),) for expr, power in term.parameters]
            powers = product(*parameters, ((self.divisor, 1.0),))
            found.append(Term(term.coefficient, term.atoms, powers, term.indicator))
        return collect(found) or None

    def _plain(self, expr: Expr) -> Expr:
        """Return a number of rows as what it is where weights are not 0."""
        if expr in self.divisors:
            return self.divisor
        if isinstance(expr, Argument):
            value, places = self.forms.atoms[expr.number]
            if places == self.forms.rows and value in self.guarded:
                return self.forms.atom(self.guarded[value], places)
        return expr


@dataclass
class _Frames:
    graph: Graph
    known: dict[tuple[tuple[int, ...], int], WideForms] = field(
        default_factory=dict[tuple[tuple[int, ...], int], WideForms]
    )

    def of(self, shape: tuple[int, ...], axis: int) -> WideForms:
        if (shape, axis) not in self.known:
            self.known[shape, axis] = WideForms(self.graph, shape, axis)
        return self.known[shape, axis]


def find_normalisers(graph: Graph) -> Iterator[Normaliser]:
    """Yield the sums of exponentials along one axis, in order."""
    frames = _Frames(graph)
    guards = _guards(graph)
    for node in graph.nodes:
        if node.op != "reduce" or node.attributes["kind"] != "sum":
            continue
        (operand,), axes = node.operands, numbers(node.attributes["axes"])
        maker = graph.producers.get(operand)
        if len(axes) != 1 or maker is None or maker.op != "map" or not operand.type.dtype.is_float:
            continue
        forms = frames.of(operand.type.shape, axes[0])
        try:
            terms = forms.normal(operand)
        except NotSeparable:
            continue
        if len(terms) != 1 or not terms[0].exponent or (terms[0].coefficient, *terms[0].atoms) != (1.0,):
            continue
        (term,) = terms
        if term.parameters:
            continue
        total = _whole(graph, node.result)
        if total is None:
            continue
        replaced = guards.get(total, ())
        divisors = [forms.atom(value, forms.rows) for value in (*replaced, total)]
        yield Normaliser(
            node, forms, term.exponent, term.indicator, term.shift, divisors[0], frozenset[Expr](divisors),
            _zeros(graph, total),
        )  # fmt: skip


def _whole(graph: Graph, part: Value) -> Value | None:
    """Return a total as all of it, where devices of a mesh have a part each; None where they do not get all of it.

    The part alone may be 0 where the total is not: nothing may be divided by it, nor its logarithm be taken.
    """
    joins = [node for value in _reshaped(graph, part) for node in graph.users.get(value, ()) if node.op == "collective"]
    if not joins:
        return None if _feeds_collective(graph, part) else part
    join, named = joins[0], joins[0].attributes
    if len(joins) > 1 or (named["kind"], named["reduction"]) != ("all_reduce", "sum"):
        return None
    return next((value for value in _reshaped(graph, join.result) if value.type == part.type), None)


def _feeds_collective(graph: Graph, part: Value) -> bool:
    """Return whether a value is a stack of leaves, which a map adds for a collective."""
    waiting, seen = [part], {part}
    while waiting:
        for node in graph.users.get(waiting.pop(), ()):
            if node.op == "collective":
                return True
            adds = node.op == "map" and isinstance(node.body, Expr) and _only_adds(node.body)
            if (adds or node.op == "view") and node.result not in seen:
                seen.add(node.result)
                waiting.append(node.result)
    return False


def _only_adds(body: Expr) -> bool:
    if isinstance(body, Apply):
        return body.opcode == "add" and all(map(_only_adds, body.operands))
    return isinstance(body, Argument)


def _reshaped(graph: Graph, value: Value) -> Iterator[Value]:
    """Yield a value, and what is the same elements in another shape."""
    yield value
    for node in graph.users.get(value, ()):
        if node.op == "view" and is_reshape(node.index_map, value.type.shape):
            yield from _reshaped(graph, node.result)


def _zeros(graph: Graph, total: Value) -> Mapping[Value, Value]:
    """Return values that are others but where a total is 0, and those others."""
    found: dict[Value, Value] = {}
    for test in graph.users.get(total, ()):
        body = test.body
        if not (test.op == "map" and isinstance(body, Apply) and (body.opcode, body.predicate) == ("cmp", "eq")):
            continue
        if not (isinstance(body.operands[1], Literal) and body.operands[1].value == 0):
            continue
        for user in graph.users.get(test.result, ()):
            choice = user.body
            if user.op == "map" and isinstance(choice, Apply) and choice.opcode == "select":
                condition, instead, other = choice.operands
                chosen = isinstance(condition, Argument) and user.operands[condition.number] is test.result
                if chosen and isinstance(instead, Literal) and isinstance(other, Argument):
                    found[user.result] = user.operands[other.number]
    return {value: other for value, other in found.items() if value.type == other.type}


def _guards(graph: Graph) -> Mapping[Value, tuple[Value, ...]]:
    """Return of each total the values that stand for it where it is 0."""
    found: dict[Value, tuple[Value, ...]] = {}
    for node in graph.nodes:
        total = guarded_total(node, graph.producers)
        if total is not None and total.type.shape == node.result.type.shape:
            found[total] = (*found.get(total, ()), node.result)
    return found
