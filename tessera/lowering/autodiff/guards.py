"""Differentiate a guarded operation together with its guard.

In `where(x > 0, sqrt(x), 0)` the cotangent of the square root is 0 where x is 0, and its derivative is infinite there:
their product is no number.  A map that selects is therefore differentiated as one expression with the maps that make
what it selects, so that the selection encloses the derivative: through views that only rename, add or drop axes, not
through sums, which are operations of their own.  The nodes themselves stay as they are, and expressions that equal one
of their values read that value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from tessera.core.graph.expr import Apply, Argument, Expr, Literal, arguments, walk
from tessera.core.graph.graph import Node, Value
from tessera.core.graph.index_maps import IndexMap, compose, identity
from tessera.core.graph.infer import labels_of
from tessera.lowering.autodiff.algebra import renumbered, replaced

MOST_EXPRESSIONS: Final = 200
"""Bodies larger than this are not joined with what makes their operands."""

_UNBOUNDED: Final = frozenset({"div", "log", "log2", "sqrt", "rsqrt", "pow", "exp", "exp2", "floordiv", "mod"})
"""Operations whose value or derivative may be infinite or no number at a finite operand."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A map as an expression of operands that may lie further up.

    operands, axes: of the expression's arguments; values: expressions in it that equal a value, with its axes
    """

    body: Expr
    operands: tuple[Value, ...]
    axes: tuple[tuple[int, ...], ...]
    values: tuple[tuple[Expr, Value, tuple[int, ...]], ...]


def joined(node: Node, producers: Mapping[Value, Node]) -> Joined:
    """Return a map's expression, with the maps that make what it selects where their derivatives need the guard."""
    body: Expr = _body(node)
    everywhere = tuple(range(len(node.result.type.shape)))
    operands, axes = list(node.operands), list(labels_of(node.attributes["axes"]))
    made = [(body, node.result, everywhere)]
    while (number := _unguarded(body, operands, producers)) is not None:
        producer, named = _source(operands[number], producers) or (node, ())
        places = tuple(axes[number][axis] for axis in named)
        first = len(operands)
        inner = renumbered(_body(producer), {n: first + n for n in range(len(producer.operands))})
        argument = Argument(number, operands[number].type.dtype)
        operands += producer.operands
        axes += [tuple(places[axis] for axis in each) for each in labels_of(producer.attributes["axes"])]
        made = [(replaced(each, {argument: inner}), value, where) for each, value, where in made]
        made.append((inner, producer.result, places))
        body = made[0][0]
        if sum(1 for _ in walk(body)) > MOST_EXPRESSIONS:
            break
    kept = tuple(each for each in made if isinstance(each[0], Apply))
    return Joined(body, tuple(operands), tuple(axes), kept)


def _body(node: Node) -> Expr:
    return cast("Expr", node.body)


def _unguarded(body: Expr, operands: list[Value], producers: Mapping[Value, Node]) -> int | None:
    """Return the first argument that is selected, and that a map makes whose derivative may be unbounded."""
    selected: set[int] = set()
    for each in walk(body):
        if isinstance(each, Apply) and each.opcode == "select":
            selected.update(arguments(each.operands[1]), arguments(each.operands[2]))
    for number in sorted(selected):
        if operands[number].type.dtype.is_float and _unbounded(operands[number], producers):
            return number
    return None


def _source(value: Value, producers: Mapping[Value, Node]) -> tuple[Node, tuple[int, ...]] | None:
    """Return the map that makes `value`, and which axis of `value` each axis of the map's result is; None for others.

    Views in between only rename, add or drop axes.
    """
    through = identity(value.type.shape)
    node = producers.get(value)
    while node is not None and node.op == "view":
        composed = compose(through, cast("IndexMap", node.body))
        if composed is None:
            return None
        through, node = composed, producers.get(node.operands[0])
    if node is None or node.op != "map" or through.padded:
        return None
    named = [affine.axis for affine in through.axes]
    axes = tuple(axis for axis in named if axis is not None)
    extents = tuple(value.type.shape[axis] for axis in axes)
    if len(set(axes)) < len(named) or extents != node.result.type.shape:
        return None
    return node, axes


def _unbounded(value: Value, producers: Mapping[Value, Node]) -> bool:
    """Return whether `value` is made by maps of which one may have an unbounded derivative."""
    seen: set[Value] = set()
    stack = [value]
    while stack:
        each = stack.pop()
        source = _source(each, producers)
        if each in seen or source is None:
            continue
        seen.add(each)
        if any(isinstance(e, Apply) and _is_unbounded(e) for e in walk(_body(source[0]))):
            return True
        stack += source[0].operands
    return False


def _is_unbounded(e: Apply) -> bool:
    by = e.operands[-1]
    if e.opcode in ("div", "pow") and isinstance(by, Literal):
        return by.value == 0 if e.opcode == "div" else by.value < 1
    return e.opcode in _UNBOUNDED
