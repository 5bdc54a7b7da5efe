"""Give users values of their own, where one value cannot be read in two ways, or would not be kept by a loop.

before: `contract(x, x)`, whose rows and columns both are the first axis of x; e = exp(x - max(x)) of a long row,
summed and multiplied
after:  `contract(view(x), x)`; two times exp(x - max(x))
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tessera.core.graph.graph import Graph, Node, Origin, Value
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.graph.rewrite import Rewriter
from tessera.core.schedule.plan import is_long
from tessera.lowering.schedule.form import made_of_indices
from tessera.lowering.schedule.regions import MOST_INNER

_AGAIN: Final = "recompute"


def separate_uses(graph: Graph, again: frozenset[int] = frozenset()) -> Graph:
    """Return the graph with a view of its own for every operand of a contraction that is used elsewhere too.

    Indices are made anew for each of their users: rows and columns of a mask may count the same.  So are views for maps
    that lay one array along other axes than those before them: `s + c[:, None] - c[None, :]`.
    again: numbers of nodes whose results need no view, as each user computes them

    before: `contract(x, x)`, whose rows and columns both are the first axis of x
    after:  `contract(view(x), x)`
    """
    graph = _made_again(graph)
    rewriter = Rewriter(graph)
    indices: dict[Value, bool] = {}
    computed = {value for node in graph.nodes if node.ident in again for value in node.results}
    along: dict[tuple[Value, tuple[int, ...]], tuple[int, ...]] = {}
    place_of = {node: place for place, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        indices.update(dict.fromkeys(node.results, made_of_indices(node, indices)))
        repeated = _repeats(node)
        operands = list(node.operands)
        for place, operand in enumerate(node.operands):
            several = operands.count(operand) > 1  # the last one of equal operands may stay
            elsewhere = len(graph.users.get(operand, ())) > 1
            if indices.get(operand, False):
                # Conditions on rows and on columns may be equal: what has one axis may lie along either.
                either = len(operand.type.shape) == 1 or node.op == "contract"
                if (several and repeated) or (either and (several or elsewhere)):
                    operands[place] = _again(operand, graph, rewriter, node)
                continue
            if operand in computed and not several:
                continue
            if repeated or node.op == "contract":
                seen = (
                    several
                    or operand in graph.outputs
                    or (elsewhere and not _reduced_beside(graph, operand, node, place_of))
                )
            else:
                seen = node.op == "map" and elsewhere and _turned(node, place, along)
            if seen:
                operands[place] = _seen_again(operand, graph, rewriter, node)
        rewriter.keep(node, operands)
    return rewriter.finish()


def _repeats(node: Node) -> bool:
    """Return whether a map has one operand along several axes."""
    if node.op != "map" or len(set(node.operands)) == len(node.operands):
        return False
    return len(set(labels_of(node.attributes["axes"]))) > 1


def _turned(node: Node, place: int, along: dict[tuple[Value, tuple[int, ...]], tuple[int, ...]]) -> bool:
    """Return whether a map lays an operand along other axes than the map before it that has the same shape."""
    mine = labels_of(node.attributes["axes"])[place]
    return along.setdefault((node.operands[place], node.result.type.shape), mine) != mine


def is_scores(graph: Graph, node: Node) -> bool:
    """Return whether maps of a product are both reduced and multiplied again: the loop that does this makes it."""
    (left, right), kept = labels_of(node.attributes["labels"]), numbers(node.attributes["result"])
    shapes = [operand.type.shape for operand in node.operands]
    extents = {**dict(zip(left, shapes[0], strict=True)), **dict(zip(right, shapes[1], strict=True))}
    if any(extent > MOST_INNER for label, extent in extents.items() if label not in kept):
        return False
    users = {user.op for value in mapped(graph, node.result) for user in graph.users.get(value, ())}
    return {"reduce", "contract"} <= users


def _reduced_beside(graph: Graph, value: Value, product: Node, place_of: Mapping[Node, int]) -> bool:
    """Return whether what else uses a factor that is computed reduces it, before or beside the product.

    Weights that are summed and multiplied, `(p @ v) / p.sum(-1)`, lie along the same axes in both.  A value that meets
    the product's result again, `x @ w + x`, does not: there it has the axes of the result.
    """
    maker = graph.producers.get(value)
    if maker is None or maker.op != "map":
        return False
    users = [user for user in graph.users.get(value, ()) if user is not product]
    if any(user.op not in ("map", "reduce") for user in users):
        return False
    own = mapped(graph, value)
    last = max(place_of[graph.producers[each]] for each in own)
    return own.isdisjoint(_mapped_until(graph, product.result, last, place_of))


def _mapped_until(graph: Graph, value: Value, last: int, place_of: Mapping[Node, int]) -> set[Value]:
    """Return a value and what maps up to a place make of it: a cell's state goes through every step of a network."""
    closure = {value}
    stack = [value]
    while stack:
        for user in graph.users.get(stack.pop(), ()):
            if user.op == "map" and user.result not in closure and place_of[user] <= last:
                closure.add(user.result)
                stack.append(user.result)
    return closure


def mapped(graph: Graph, value: Value) -> set[Value]:
    """Return a value and all that maps make of it, element by element."""
    found = {value}
    stack = [value]
    while stack:
        for user in graph.users.get(stack.pop(), ()):
            if user.op == "map" and user.result not in found:
                found.add(user.result)
                stack.append(user.result)
    return found


def _seen_again(value: Value, graph: Graph, rewriter: Rewriter, user: Node) -> Value:
    """Return a view of a value for one user alone; what is a view already is viewed in the same way once more."""
    maker = graph.producers.get(value)
    if maker is None or maker.op != "view":
        return rewriter.view_of(value, user)
    with rewriter.builder.within(rewriter.origin(user, maker), user.span):
        return rewriter.builder.add("view", (rewriter.value(maker.operands[0]),), maker.body, value.name)


def _again(value: Value, graph: Graph, rewriter: Rewriter, user: Node) -> Value:
    """Compute what is made of indices once more, for one user alone."""
    maker = graph.producers[value]
    operands = [_again(operand, graph, rewriter, user) for operand in maker.operands]
    with rewriter.builder.within(rewriter.origin(user, maker), user.span):
        return rewriter.builder.add(maker.op, operands, maker.body, value.name, **maker.attributes)


def _made_again(graph: Graph) -> Graph:
    """Return the graph in which what long rows are reduced from is made again for everyone else.

    A loop over a long row keeps none of its elements, so what a maximum or a sum has a part in is made in each loop.
    """
    long = {node for node in graph.nodes if is_long(node)}
    inside: set[Node] = set()
    for node in graph.nodes:
        makers = {graph.producers.get(value) for value in node.operands}
        if node.op == "map" and not makers.isdisjoint(long | inside):
            inside.add(node)
    inside = _leading(graph, inside, long)
    if not inside:
        return graph
    rewriter, again = Rewriter(graph, _AGAIN), dict[Value, Value]()
    for node in graph.nodes:
        operands = rewriter.operands(node)
        if node not in inside and node not in long:
            operands = [_copied(value, graph, rewriter, inside, again) for value in operands]
        rewriter.keep(node, operands)
    outputs = tuple(again.get(value, value) for value in graph.outputs)
    return replace(rewriter.finish(), outputs=outputs)


def _leading(graph: Graph, nodes: set[Node], long: set[Node]) -> set[Node]:
    """Return the nodes whose results long rows are reduced from, whether they are used elsewhere or not."""
    found: set[Node] = set()
    for node in reversed(graph.nodes):
        users = set(graph.users.get(node.result, ())) if len(node.results) == 1 else set[Node]()
        if node in nodes and not users.isdisjoint(long | found) and node.result not in graph.outputs:
            found.add(node)
    return found


def _copied(value: Value, graph: Graph, rewriter: Rewriter, inside: set[Node], again: dict[Value, Value]) -> Value:
    """Return a value computed once more, where it is one of those that loops compute."""
    maker = graph.producers.get(value)
    if maker is None or maker not in inside:
        return value
    if value not in again:
        operands = [_copied(operand, graph, rewriter, inside, again) for operand in maker.operands]
        with rewriter.builder.within(Origin(_AGAIN, (maker.ident,), maker.origin.composite), maker.span):
            again[value] = rewriter.builder.add(maker.op, operands, maker.body, value.name, **maker.attributes)
    return again[value]
