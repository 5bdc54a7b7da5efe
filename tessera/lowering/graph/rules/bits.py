"""Rules that change no bit: products side by side, joined views, transpositions, identities."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

from tessera.core.graph.expr import Apply, Argument, Expr, Literal
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.graph.permissions import BITS
from tessera.lowering.graph.egraph.contractions import (
    Contraction,
    contract,
    contractions,
    contractions_in,
    is_conversion,
    permuted,
    places_of,
    view,
)
from tessera.lowering.graph.egraph.egraph import EGraph, ENode
from tessera.lowering.graph.rules.rule import RewriteRule, RuleMatch

_MERGE: Final = "merge-siblings"


@dataclass(frozen=True, slots=True)
class _Sibling:
    """A product of a group with a common operand.

    number: its class; own: its other operand, with `labels`; result: its labels; free: the label that is its own
    """

    number: int
    own: int
    labels: tuple[int, ...]
    result: tuple[int, ...]
    free: int
    node: ENode

    @property
    def part(self) -> tuple[int, tuple[int, ...]]:
        """The factor of the common operand: an array as it is and transposed are two."""
        return self.own, self.labels


def _merge_siblings(egraph: EGraph) -> Iterator[RuleMatch]:
    """Compute products with a common operand as one product.

    before: q = contract(x, wq), k = contract(x, wk), v = contract(x, wv)
    after:  t = contract(x, concat(wq, wk, wv)); q, k, v are views of t

    One rule for the whole group: pairs would make a node for every subset.  A column of a product adds its own terms
    in the order of the common axis, and does not see its neighbours.  Known from TASO (Jia and others, SOSP 2019).
    """
    groups: dict[tuple[object, ...], dict[int, _Sibling]] = {}
    own = {node.ident for node in egraph.graph.nodes if node.op == "contract"}
    for number, each in contractions(egraph):
        rule, parents = egraph.reasons[each.node].rule, egraph.reasons[each.node].parents
        if len(own.intersection(parents)) != 1:  # of several products: each such group would make the next one
            continue
        for place in (0, 1):
            sibling = _sibling(number, each, place)
            if sibling is None or _is_merged(egraph, sibling.own):
                continue
            shared = egraph.find(each.operands[place])
            kind = egraph.type_of(sibling.own).dtype
            common = tuple(sorted(label for label in sibling.result if label != sibling.free))
            key = (rule, shared, place, kind, common, tuple(sorted(sibling.labels)), each.options)
            groups.setdefault(key, {}).setdefault(number, sibling)
    above = _ancestors(egraph)
    for key, group in groups.items():
        place = cast("int", key[2])
        results = sum(1 << number for number in group)
        independent = [sibling for sibling in group.values() if not above[egraph.find(sibling.own)] & results]
        parts = dict.fromkeys(sibling.part for sibling in independent)
        if len({own for own, _ in parts}) > 1:
            order = sorted(parts, key=lambda part: (_position(egraph, part[0]), part[1]))
            nodes = tuple(dict.fromkeys(sibling.node for sibling in independent))
            for sibling in independent:
                yield RuleMatch(sibling.number, nodes, _merged(egraph, independent, order, sibling, place))


def _sibling(number: int, each: Contraction, place: int) -> _Sibling | None:
    """Return a product as one of a group whose common operand is at `place`: its other one has one axis of its own."""
    shared, own = each.labels[place], each.labels[1 - place]
    renamed = each.placed({label: n for n, label in enumerate(shared)}, len(shared))
    mine = [label for label in own if label not in shared]
    if len(mine) != 1 or mine[0] not in each.result:
        return None
    return _Sibling(number, each.operands[1 - place], renamed.labels[1 - place], renamed.result, len(shared), each.node)


def _is_merged(egraph: EGraph, number: int) -> bool:
    """Return whether a class is what this rule has joined."""
    return any(egraph.reasons[node].rule == _MERGE for node in egraph.having(number, "concat"))


def _position(egraph: EGraph, number: int) -> tuple[int, tuple[int, ...], int]:
    """Order parts of one array as they lie in it, everything else by its class."""
    for node in egraph.having(number, "view"):
        index_map = cast("IndexMap", node.body)
        return node.kids[0], tuple(affine.constant for affine in index_map.axes), number
    return number, (), number


def _ancestors(egraph: EGraph) -> dict[int, int]:
    """Return the classes that each one is made of by its oldest node, as a set of bits."""
    above: dict[int, int] = {}
    for number in egraph.classes:
        found = 1 << number
        for kid in egraph.members[number][0].kids:
            found |= above[egraph.find(kid)]
        above[number] = found
    return above


def _merged(
    egraph: EGraph, group: Sequence[_Sibling], order: Sequence[tuple[int, tuple[int, ...]]], mine: _Sibling, place: int
) -> Callable[[], int]:
    """Return what builds a part of the product of a whole group."""

    def build() -> int:
        first = next(sibling for sibling in group if sibling.part == order[0])
        axis = first.labels.index(first.free)
        turned = [permuted(egraph, own, [labels.index(label) for label in first.labels]) for own, labels in order]
        extents = [egraph.type_of(own).shape[labels.index(first.free)] for own, labels in order]
        joined = egraph.add("concat", turned, None, {"axis": axis})
        shared = first.node.kids[place]
        operands, both = [shared, joined], [tuple(range(first.free)), first.labels]
        if place:
            operands, both = operands[::-1], both[::-1]
        options = [item for item in first.node.attributes if item[0] not in ("labels", "result")]
        whole = contract(egraph, operands, both, first.result, options)
        offset = sum(extents[: order.index(mine.part)])
        axes = tuple(
            Affine(offset if label == first.free else 0, (Term(mine.result.index(label)),)) for label in first.result
        )
        return view(egraph, whole, IndexMap(egraph.type_of(mine.number).shape, axes))

    return build


def _join_views(egraph: EGraph) -> Iterator[RuleMatch]:
    """Read neighbouring parts of one array as one part.

    before: concat(view(x)[0:4], view(x)[4:9])
    after:  view(x)[0:9]
    """
    for number, node in list(egraph.nodes("concat")):
        axis = cast("int", node.attribute("axis"))
        views = [egraph.having(kid, "view")[:1] for kid in node.kids]
        if not all(views):
            continue
        parts = [each[0] for each in views]
        joined = _joined(egraph, node, parts, axis)
        if joined is not None:
            source = parts[0].kids[0]
            yield RuleMatch(number, (node, *parts), lambda s=source, m=joined: view(egraph, s, m))


def _joined(egraph: EGraph, node: ENode, parts: Sequence[ENode], axis: int) -> IndexMap | None:
    """Return the view that views beside each other are, None where they are not of one array, or not beside it."""
    first = cast("IndexMap", parts[0].body)
    offset, extent = 0, 0
    for part, kid in zip(parts, node.kids, strict=True):
        index_map = cast("IndexMap", part.body)
        same = part.kids == parts[0].kids and not index_map.padded
        if not same or len(index_map.axes) != len(first.axes):
            return None
        for mine, base in zip(index_map.axes, first.axes, strict=True):
            steps = [term for term in base.terms if term.axis == axis]
            if any(term.divisor != 1 or term.modulus for term in steps) or mine.terms != base.terms:
                return None
            if mine.constant != base.constant + offset * sum(term.scale for term in steps):
                return None
        extent = egraph.type_of(kid).shape[axis]
        offset += extent
    shape = (*first.shape[:axis], offset, *first.shape[axis + 1 :])
    return IndexMap(shape, first.axes)


def _absorb_transposes(egraph: EGraph) -> Iterator[RuleMatch]:
    """Make transpositions around contractions labels of these.

    before: contract(transpose(x), y) [i, k] [k, j]; transpose(contract(x, y))
    after:  contract(x, y) [k, i] [k, j]; contract(x, y) with its result's labels in the other order
    """
    for number, each in contractions(egraph):
        for place in (0, 1):
            for inner in egraph.having(each.operands[place], "view"):
                source = inner.kids[0]
                places = places_of(cast("IndexMap", inner.body), egraph.type_of(source).shape)
                mine = each.labels[place]
                if places is None or len(places) != len(mine):
                    continue
                labels, operands = list(each.labels), list(each.operands)
                labels[place], operands[place] = tuple(mine[axis] for axis in places), source
                yield RuleMatch(
                    number, (each.node, inner),
                    lambda o=operands, n=labels, c=each: contract(egraph, o, n, c.result, c.options),
                )  # fmt: skip
    for number, node in list(egraph.nodes("view")):
        places = places_of(cast("IndexMap", node.body), egraph.type_of(node.kids[0]).shape)
        if places is None or len(places) != len(egraph.type_of(number).shape):
            continue
        axes = sorted(range(len(places)), key=places.__getitem__)
        for each in contractions_in(egraph, node.kids[0]):
            result = tuple(each.result[axis] for axis in axes)
            yield RuleMatch(
                number, (node, each.node),
                lambda r=result, c=each: contract(egraph, c.operands, c.labels, r, c.options),
            )  # fmt: skip


def _identities(egraph: EGraph) -> Iterator[RuleMatch]:
    """Leave out arithmetic that changes nothing.

    before: map "x0 * 1.0", "x0 / 1.0", "x0 - 0.0", "--x0"
    after:  map "x0"
    """
    for number, node in list(egraph.nodes("map")):
        body = cast("Expr", node.body)
        inner = _unchanged(body)
        if inner is None:
            continue
        if isinstance(inner, Argument) and _is_whole(node, inner.number):
            yield RuleMatch(number, (node,), lambda n=node, i=inner: n.kids[i.number])
        else:
            yield RuleMatch(
                number, (node,), lambda n=node, i=inner: egraph.add("map", n.kids, i, dict(n.attributes))
            )  # fmt: skip


def _is_whole(node: ENode, place: int) -> bool:
    axes = labels_of(node.attribute("axes"))[place]
    return axes == tuple(range(len(numbers(node.attribute("shape")))))


def _unchanged(expr: Expr) -> Expr | None:
    """Return the operand that an expression is equal to in every bit, None where it is none."""
    match expr:
        case Apply(opcode="mul" | "div", operands=(inner, Literal() as number)) if number.value == 1:
            return inner
        case Apply(opcode="mul", operands=(Literal() as number, inner)) if number.value == 1:
            return inner
        case Apply(opcode="sub", operands=(inner, Literal() as number)) if repr(number.value) in ("0.0", "0"):
            return inner
        case Apply(opcode="neg", operands=(Apply(opcode="neg", operands=(inner,)),)) if inner.dtype.is_float:
            return inner
        case _:
            return None


def _convert_before_viewing(egraph: EGraph) -> Iterator[RuleMatch]:
    """Convert a product where it is made, and not every part of it.

    before: t = contract(x, w); q = bf16(view(t)), k = bf16(view(t))
    after:  u = bf16(contract(x, w)); q = view(u), k = view(u)
    """
    for number, node in list(egraph.nodes("map")):
        body = cast("Expr", node.body)
        if not isinstance(body, Apply) or not is_conversion(node):
            continue
        for inner in egraph.having(node.kids[0], "view"):
            whole = inner.kids[0]
            if contractions_in(egraph, whole):
                axes = labels_of(node.attribute("axes"))[0]
                yield RuleMatch(
                    number, (node, inner), lambda w=whole, b=body, i=inner, a=axes: _converted(egraph, w, b, i, a)
                )  # fmt: skip


def _converted(egraph: EGraph, whole: int, body: Apply, inner: ENode, axes: Sequence[int]) -> int:
    shape = egraph.type_of(whole).shape
    attributes = {"axes": (tuple(range(len(shape))),), "shape": shape}
    argument = Argument(0, egraph.type_of(whole).dtype)
    made = egraph.add("map", (whole,), Apply("cast", (argument,), body.dtype), attributes)
    order = sorted(range(len(axes)), key=axes.__getitem__)
    return permuted(egraph, view(egraph, made, cast("IndexMap", inner.body)), order)


def _compose_conversions(egraph: EGraph) -> Iterator[RuleMatch]:
    """Leave out a widening that is rounded back at once.

    before: bf16(f32(x)), x of bf16
    after:  x
    """
    for number, node in list(egraph.nodes("map")):
        body = cast("Expr", node.body)
        match body:
            case Apply(opcode="cast", operands=(Argument() as inner,)):
                for below in egraph.having(node.kids[0], "map"):
                    if _undoes(egraph, node, below, inner):
                        yield RuleMatch(number, (node, below), lambda b=below: b.kids[0])
            case Apply(opcode="cast", operands=(Apply(opcode="cast", operands=(Argument() as inner,)),)):
                exact = inner.dtype == body.dtype and inner.dtype.is_float
                if exact and body.operands[0].dtype.bits > body.dtype.bits and _is_whole(node, inner.number):
                    yield RuleMatch(number, (node,), lambda n=node: n.kids[0])
            case _:
                pass


def _undoes(egraph: EGraph, node: ENode, below: ENode, inner: Argument) -> bool:
    """Return whether a conversion gives back what the one below it was given."""
    body = below.body
    if not isinstance(body, Apply) or body.opcode != "cast" or not isinstance(body.operands[0], Argument):
        return False
    narrow, wide = body.operands[0].dtype, body.dtype
    exact = narrow.is_float and wide.is_float and narrow.bits < wide.bits == inner.dtype.bits
    same = egraph.type_of(below.kids[0]).dtype == cast("Expr", node.body).dtype
    return exact and same and _is_whole(node, 0) and _is_whole(below, 0)


RULES: Final = (
    RewriteRule(_MERGE, BITS, _merge_siblings, concatenates=True),
    RewriteRule("join-views", BITS, _join_views),
    RewriteRule("absorb-transposes", BITS, _absorb_transposes),
    RewriteRule("identities", BITS, _identities),
    RewriteRule("convert-before-viewing", BITS, _convert_before_viewing),
    RewriteRule("compose-conversions", BITS, _compose_conversions),
)
