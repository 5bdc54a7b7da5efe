"""Cascades in graphs: the reductions over one axis of a set of nodes, as a region that `derive` makes one loop of.

before: S = contract(Q, K) [i, j]; m = max_j S; P = exp(S - m); l = sum_j P; O = contract(P / l, V) over j
after:  atoms s = S, v = V; reductions max s, sum exp(s - r0), sum exp(s - r0) / r1 * v
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tessera.core.base.dtypes import DType, f16, f32, f64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, substitute, walk
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Node, Value
from tessera.core.graph.infer import numbers
from tessera.core.schedule.cascade import Cascade, Reduction, Region
from tessera.core.schedule.refusals import refused
from tessera.lowering.schedule.axes import AxisSpace
from tessera.lowering.schedule.axis_ends import read_along
from tessera.lowering.schedule.cascades.derive import derive
from tessera.lowering.schedule.cascades.guarded_anchors import cancel_guards
from tessera.lowering.schedule.cascades.plain_sums import is_plain, plain_sums
from tessera.lowering.schedule.cascades.terms import NotSeparable

MOST_INNER = 256
"""Longest inner axis of a contraction that is computed inside of a cascade, whole: the width of a head."""


@dataclass(frozen=True, slots=True)
class Found:
    """A cascade in a set of nodes.

    axis: of the group, that the loop goes over; inner: axes that contractions inside of it sum over
    reductions: the nodes, in order; atoms: the values that the region's atoms are
    ended: numbers of the atoms that are absent behind the end of the axis
    around: axes that are summed over too, element by element, in loops around this one
    """

    cascade: Cascade
    axis: int
    inner: tuple[int, ...]
    reductions: tuple[Node, ...]
    atoms: tuple[Value, ...]
    ended: frozenset[int]
    around: tuple[int, ...] = ()


def find_cascade(
    nodes: Sequence[Node], space: AxisSpace, outputs: Sequence[Value], *, several: bool = False
) -> Found | None:
    """Return the one loop that computes all reductions of `nodes`, or None where there is none.

    several: whether it may sum over further axes, in loops around it: heads that share keys
    """
    found = _find_loop(nodes, space, several=several)
    if found is None:
        return None
    (axis, *around), inner, outer = found
    if not all(node.op == "contract" or node.operands[0].type.dtype.is_float for node in outer):
        return refused("integers", *outer)
    mapped = () if around else _mapped_rows(nodes, outer, outputs, space)
    builder = _RegionBuilder(nodes, space, axis, outer, mapped)
    region = builder.region()
    if region is None:
        return refused("integers", *outer)
    if not _depending(nodes, outer).isdisjoint(builder.atoms):
        return refused("separable", *outer, detail="a contraction reads a result of the loop")
    plain = is_plain(region) and not _meet(nodes, outer)
    if around and not plain:
        return refused("last-reduction", *outer)
    outer = (*outer, *mapped)
    cascade = _derived(region, _needed(nodes, outer, axis, space, outputs), plain)
    if isinstance(cascade, str):
        return refused("separable", *outer, detail=cascade)
    if cascade.centres:
        return refused("means", *outer)
    read = read_along(nodes, axis, space.axes)
    ended = frozenset(number for number, value in enumerate(builder.atoms) if value in read)
    return Found(cascade, axis, inner, outer, tuple(builder.atoms), ended, tuple(around))


def _find_loop(
    nodes: Sequence[Node], space: AxisSpace, *, several: bool
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[Node, ...]] | None:
    """Return the axes that the last reduction sums over, the loop's first, those of contractions inside, and the sums.

    None where not all reductions are in that loop.
    """
    removed = {node: _removed(node, space) for node in nodes if node.op in ("reduce", "contract")}
    last = [node for node in nodes if node in removed][-1]
    if not removed[last] or (len(removed[last]) > 1 and not (several and last.op == "contract")):
        return refused("last-reduction", last)
    axis = max(removed[last], key=lambda each: (space.extents[each], each))
    axes = (axis, *(each for each in removed[last] if each != axis))
    outer = tuple(node for node in removed if set(removed[node]) == set(axes))
    inside = [node for node in removed if node not in outer]
    if any(node.op != "contract" or axis not in space.axes[node.result] for node in inside):
        return refused("other-loop", *inside, last)
    inner = tuple(dict.fromkeys(each for node in inside for each in removed[node]))
    if any(space.extents[each] > MOST_INNER for each in inner):
        longest = max(space.extents[each] for each in inner)
        return refused("inner-limit", *inside, detail=f"{longest:,} elements, and at most {MOST_INNER:,}")
    if any(each in space.axes[node.result] for each in inner for node in outer):
        return refused("other-loop", *inside, last)
    return axes, inner, outer


def _mapped_rows(
    nodes: Sequence[Node], outer: Sequence[Node], outputs: Sequence[Value], space: AxisSpace
) -> tuple[Node, ...]:
    """Return the maps of maxima that are asked for, such as a log-sum-exp: in these the maximum may cancel."""
    kept = {node.result for node in outer if node.op == "reduce"}
    extremes = {node.result for node in outer if node.op == "reduce" and node.attributes["kind"] != "sum"}
    makers = {value: node for node in nodes for value in node.results}
    rows = [set(space.axes[value]) for value in kept]
    using = set(extremes)
    found: list[Node] = []
    for node in nodes:
        if node.op != "map" or not all(v in kept or v not in makers for v in node.operands):
            continue
        if not any(operand in kept for operand in node.operands) or set(space.axes[node.result]) != rows[0]:
            continue
        kept.add(node.result)
        if using & set(node.operands):
            using.add(node.result)
            if node.result in outputs and node.result.type.dtype.is_float:
                found.append(node)
    return tuple(found)


def _meet(nodes: Sequence[Node], outer: Sequence[Node]) -> bool:
    """Return whether results of several reductions meet: in a quotient, anchors may cancel."""
    made: dict[Value, frozenset[Node]] = {node.result: frozenset({node}) for node in outer}
    for node in nodes:
        if node not in outer and node.op != "view":
            parts = frozenset[Node]().union(*(made.get(operand, frozenset[Node]()) for operand in node.operands))
            if len(parts) > 1:
                return True
            if parts:
                made[node.result] = parts
    return False


def _depending(nodes: Sequence[Node], outer: Sequence[Node]) -> set[Value]:
    """Return the values that the results of reductions have a part in: a contraction of these is no atom."""
    found = {node.result for node in outer}
    for node in nodes:
        if any(operand in found for operand in node.operands):
            found.add(node.result)
    return found


@lru_cache(maxsize=1024)
def _derived(region: Region, needed: frozenset[int], plain: bool) -> Cascade | str:
    """Derive a region, or return why it is not separable; equal layers are derived once."""
    try:
        return plain_sums(region, needed) if plain else cancel_guards(derive(region, needed))
    except NotSeparable as mistake:
        return mistake.reason


def _needed(
    nodes: Sequence[Node], outer: Sequence[Node], axis: int, space: AxisSpace, outputs: Sequence[Value]
) -> frozenset[int]:
    """Return the reductions whose results are asked for once the loop is done."""
    makers = {value: node for node in nodes for value in node.results}
    found: set[int] = set()
    seen: set[Value] = set()
    stack = list(outputs)
    while stack:
        value = stack.pop()
        node = makers.get(value)
        if node is None or value in seen:
            continue
        seen.add(value)
        if node in outer:
            found.add(outer.index(node))
        elif node.op != "view" and axis not in space.axes.get(value, ()):
            stack += node.operands
    return frozenset(found)


def _removed(node: Node, space: AxisSpace) -> tuple[int, ...]:
    if node.op == "reduce":
        axes = space.axes[node.operands[0]]
        return tuple(axes[axis] for axis in numbers(node.attributes["axes"]))
    kept = set(space.axes[node.result])
    both = [axis for operand in node.operands for axis in space.axes[operand]]
    return tuple(dict.fromkeys(axis for axis in both if axis not in kept))


class _RegionBuilder:
    """Writes the bodies of reductions over atoms: values along the axis that no reduction has a part in."""

    def __init__(
        self, nodes: Sequence[Node], space: AxisSpace, axis: int, outer: Sequence[Node], mapped: Sequence[Node]
    ) -> None:
        self.space, self.axis, self.outer, self.mapped = space, axis, outer, mapped
        self.makers: Mapping[Value, Node] = {
            value: node for node in nodes if node.op != "view" for value in node.results
        }
        self.results = {node.result: number for number, node in enumerate(outer)}
        self.atoms: list[Value] = []
        self._known: dict[Value, Expr] = {}
        self._indices: dict[tuple[int, ...], Value] = {}

    def region(self) -> Region | None:
        """Return the region; None where a body has a dtype that sums of f32 do not hold."""
        bodies: list[tuple[Node, Expr]] = []
        for node in self.outer:
            parts = [self._wide(operand) for operand in node.operands]
            bodies.append((node, parts[0] if node.op == "reduce" else apply("mul", *parts)))
        bodies += [(node, self._wide(node.result)) for node in self.mapped]
        # The results are numbered behind the atoms, whose number is known now.
        count = len(self.atoms)
        reductions: list[Reduction] = []
        for node, body in bodies:
            renumbered = {-1 - number: Argument(count + number, result.type.dtype)
                          for result, number in self.results.items()}  # fmt: skip
            kind = {"contract": "sum", "map": "map"}.get(node.op) or str(node.attributes["kind"])
            assert kind in ("sum", "max", "min", "map")
            reductions.append(Reduction(kind, substitute(body, renumbered)))
        if any(not each.body.dtype.is_float for each in reductions):
            return None
        invariant = frozenset(
            number for number, value in enumerate(self.atoms) if self.axis not in self.space.axes[value]
        )
        factors = {operand.type.dtype for node in self.outer if node.op == "contract" for operand in node.operands}
        return Region(
            tuple(map(_dtype, self.atoms)), tuple(reductions), invariant, (), self.space.extents[self.axis],
            f16.bits if f16 in factors else f64.bits,
        )  # fmt: skip

    def _wide(self, value: Value) -> Expr:
        """Return a value as an expression in f32 or wider: what is only rounded on the way is not."""
        return widened(self._expr(value))

    def _expr(self, value: Value) -> Expr:
        known = self._known.get(value)
        if known is None:
            known = self._known[value] = self._made(value)
        return known

    def _made(self, value: Value) -> Expr:
        if value in self.results:
            return Argument(-1 - self.results[value], value.type.dtype)
        node = self.makers.get(value)
        if node is not None and node.op == "iota":
            # Each user has indices of its own: along one axis they are the same atom.
            first = self._indices.setdefault(self.space.axes[value], value)
            return self._atom(value) if first is value else self._expr(first)
        if node is None or node.op != "map":
            return self._atom(value)
        operands = {number: self._expr(operand) for number, operand in enumerate(node.operands)}
        return substitute(node.expr, operands)

    def _atom(self, value: Value) -> Expr:
        self.atoms.append(value)
        return cast_expr(Argument(len(self.atoms) - 1, _dtype(value)), value.type.dtype)


def _dtype(value: Value) -> DType:
    """Return the type in which an atom counts: floats of 16 bits and fewer as f32."""
    dtype = value.type.dtype
    return f32 if dtype.is_float and dtype.bits < f32.bits else dtype


def widened(expr: Expr) -> Expr:
    """Return an expression without conversions between floats that only lose bits: shorter floats are f32 in it."""
    done: dict[Expr, Expr] = {}
    for each in walk(expr):
        if not isinstance(each, Apply):
            done[each] = _wide_literal(each) if isinstance(each, Literal) else each
            continue
        operands = [done[operand] for operand in each.operands]
        if each.opcode == "cast":
            (operand,) = operands
            short = each.dtype.is_float and each.dtype.bits < f32.bits
            rounded = operand if short and operand.dtype.is_float else cast_expr(operand, each.dtype)
            done[each] = cast_expr(rounded, f32) if short else rounded
        else:
            dtype = each.dtype if each.opcode == "cmp" else operands[-1].dtype
            done[each] = Apply(each.opcode, tuple(operands), dtype, each.predicate)
    return done[expr]


def _wide_literal(literal: Literal) -> Literal:
    """Return a number of a shorter float as that number in f32."""
    dtype = literal.dtype
    if not dtype.is_float or dtype.bits >= f32.bits:
        return literal
    return Literal(float(np.asarray(literal.value, dtype.numpy)), f32)
