"""Maps as sums of products, across maps of maps: what is affine in the elements that vary along every axis.

before: %c = map(%x, %m) "x0 - x1"; %h = map(%c, %r) "x0 * x1"; %y = map(%h, %g, %b) "bf16(x0 * x1 + x2)"
after:  x[i, k] r[i] g[k] - m[i] r[i] g[k] + b[k], rounded to bf16
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.base.dtypes import DType, f32, f64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal
from tessera.core.graph.infer import labels_of
from tessera.lowering.graph.egraph.egraph import EGraph, ENode
from tessera.lowering.graph.egraph.scalar_forms import ScalarFactor

DEPTH: Final = 8
"""How many maps of maps are read as one sum."""
MOST_TERMS: Final = 4


@dataclass(frozen=True, slots=True)
class AffineTerm:
    """`number` times the factors."""

    number: float
    factors: tuple[ScalarFactor, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundedSum:
    """A sum of terms, computed in `dtype` and rounded to the dtype of the class.  nodes: the maps that it is of."""

    terms: tuple[AffineTerm, ...]
    dtype: DType
    nodes: tuple[ENode, ...]


def rounded_sum_of(egraph: EGraph, number: int) -> RoundedSum | None:
    """Return a class of short floats as a sum of products that was rounded once, None where it is none."""
    stored = egraph.type_of(number).dtype
    for node in egraph.having(number, "map"):
        body = node.body
        if not isinstance(body, Apply) or body.opcode != "cast" or not stored.is_float:
            continue
        (inner,) = body.operands
        if inner.dtype not in (f32, f64) or inner.dtype.bits <= stored.bits:
            continue
        reader = _Reader(egraph, len(egraph.type_of(number).shape), inner.dtype)
        terms = reader.body(inner, node, tuple(range(reader.rank)), DEPTH)
        if terms is not None:
            return RoundedSum(tuple(terms), inner.dtype, (node, *reader.nodes))
    return None


class _Reader:
    """Reads expressions.  rank: of the whole; nodes: maps that were looked into."""

    def __init__(self, egraph: EGraph, rank: int, dtype: DType) -> None:
        self.egraph, self.rank, self.dtype = egraph, rank, dtype
        self.nodes: list[ENode] = []

    def body(self, expr: Expr, node: ENode, axes: Sequence[int], depth: int) -> list[AffineTerm] | None:
        """Return the terms of a map's body.  axes: of the whole, which the map's are."""
        match expr:
            case Argument():
                return self._operand(expr.number, node, axes, depth)
            case Literal():
                return [AffineTerm(float(expr.value))]
            case Apply(opcode="cast", operands=(Argument() as inner,)) if self._is_exact(inner.dtype):
                return self._operand(inner.number, node, axes, depth)
            case Apply(opcode="neg", operands=(inner,)):
                found = self.body(inner, node, axes, depth)
                return None if found is None else [replace(each, number=-each.number) for each in found]
            case Apply(opcode="add" | "sub" | "mul" as opcode, operands=(first, second)):
                left, right = (self.body(each, node, axes, depth) for each in (first, second))
                return None if left is None or right is None else _combined(opcode, left, right)
            case _:
                return None

    def _is_exact(self, narrow: DType) -> bool:
        return narrow.is_float and narrow.bits < self.dtype.bits

    def _operand(self, place: int, node: ENode, axes: Sequence[int], depth: int) -> list[AffineTerm] | None:
        """Return the terms of an operand: what lies along all axes is looked into, anything else is a factor."""
        kid = node.kids[place]
        mine = tuple(axes[axis] for axis in labels_of(node.attribute("axes"))[place])
        whole = len(mine) == self.rank and depth > 0
        for inner in self.egraph.having(kid, "map") if whole and self.egraph.type_of(kid).dtype == self.dtype else ():
            body = inner.body
            assert isinstance(body, Argument | Literal | Apply)
            found = self.body(body, inner, mine, depth - 1) if kid not in inner.kids else None
            if found is not None:
                self.nodes.append(inner)
                return found
        return [AffineTerm(1.0, (ScalarFactor(self.egraph.find(kid), mine),))]


def _combined(opcode: str, left: Sequence[AffineTerm], right: Sequence[AffineTerm]) -> list[AffineTerm] | None:
    """Return the sum, the difference or the product of two sums, None where it has too many terms."""
    if opcode == "mul":
        found = [AffineTerm(a.number * b.number, (*a.factors, *b.factors)) for a in left for b in right]
    else:
        sign = 1 if opcode == "add" else -1
        found = [*left, *(replace(each, number=sign * each.number) for each in right)]
    return found if len(found) <= MOST_TERMS else None
