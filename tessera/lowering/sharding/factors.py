"""Derive along what a node may be cut: factors of the extents of its operands and results, for each primitive.

A contraction ij,jk->ik has the factors i, j and k: devices that have parts of i make parts of the result, those that
have parts of j make partial sums.  A reshape of [b, s, h * d] to [b, s, h, d] has the factors b, s, h and d, and the
operand's last axis is made of two of them, h the outer one.
Rules for whole graphs of such factors are those of Shardy (openxla.org/shardy, "op sharding rules").
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final, cast

from tessera.core.graph.graph import Node, Tensor
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.graph.spec import CHOOSE

FREE: Final = "free"
"""Parts of what is along it are computed by themselves."""
WHOLE: Final = "whole"
"""Every device needs all of it: a softmax's axis in a scan, a window that reaches over the edges of parts."""
OWNED: Final = "owned"
"""Of rows that are added to, each device makes those that it owns, from all that is added."""

Factors = tuple[int, ...]
"""Of one axis: the numbers of the factors that it is made of, the outermost first."""


@dataclass(frozen=True, slots=True)
class Factor:
    """One factor.

    role: FREE, WHOLE, OWNED, or what joins what parts of it make: "sum", "max", "min", CHOOSE
    even: whether all parts are to be of the same extent: what is behind the end of one could not be masked
    """

    extent: int
    role: str = FREE
    even: bool = False

    @property
    def reduces(self) -> bool:
        """True where parts of it make partial results."""
        return self.role not in (FREE, WHOLE, OWNED)


@dataclass(frozen=True, slots=True)
class NodeFactors:
    """List the factors of a node, and of each axis of each operand and result which ones it is made of."""

    factors: tuple[Factor, ...]
    operands: tuple[tuple[Factors, ...], ...]
    results: tuple[tuple[Factors, ...], ...]

    def shape(self, axes: Sequence[Factors], extents: Mapping[int, int]) -> tuple[int, ...]:
        """Return the extents of axes where some factors have others than here."""
        return tuple(prod(extents.get(each, self.factors[each].extent) for each in axis) for axis in axes)


def factors_of(node: Node) -> NodeFactors:
    """Return the factors of a node; of one without a rule of its own, none that may be cut."""
    return _RULES.get(node.op, _whole)(node)


class _Collector:
    """Numbers factors."""

    def __init__(self) -> None:
        self.factors: list[Factor] = []

    def add(self, extent: int, role: str = FREE, *, even: bool = False) -> int:
        self.factors.append(Factor(extent, role, even))
        return len(self.factors) - 1

    def all_of(self, tensor: Tensor, role: str = FREE) -> tuple[Factors, ...]:
        """Return a factor for each axis."""
        return tuple((self.add(extent, role),) for extent in tensor.shape)

    def finish(self, operands: Sequence[Sequence[Factors]], results: Sequence[Sequence[Factors]]) -> NodeFactors:
        return NodeFactors(tuple(self.factors), tuple(map(tuple, operands)), tuple(map(tuple, results)))


def _whole(node: Node) -> NodeFactors:
    made = _Collector()
    operands = [made.all_of(value.type, WHOLE) for value in node.operands]
    return made.finish(operands, [made.all_of(value.type, WHOLE) for value in node.results])


def _map(node: Node) -> NodeFactors:
    made = _Collector()
    result = made.all_of(node.result.type)
    return made.finish([[result[axis] for axis in axes] for axes in labels_of(node.attributes["axes"])], [result])


def _contract(node: Node) -> NodeFactors:
    """Sum over labels that the result lacks.  Of one that a single operand has, no product can be made neutral."""
    made = _Collector()
    sides, result = labels_of(node.attributes["labels"]), numbers(node.attributes["result"])
    known: dict[int, Factors] = {}
    for labels, operand in zip(sides, node.operands, strict=True):
        for label, extent in zip(labels, operand.type.shape, strict=True):
            if label not in known:
                alone = not all(label in each for each in sides)
                known[label] = (made.add(extent),) if label in result else (made.add(extent, "sum", even=alone),)
    return made.finish([[known[label] for label in labels] for labels in sides], [[known[label] for label in result]])


def _reduce(node: Node) -> NodeFactors:
    made = _Collector()
    axes, kind = numbers(node.attributes["axes"]), str(node.attributes["kind"])
    operand = [
        (made.add(extent, kind if axis in axes else FREE),) for axis, extent in enumerate(node.operands[0].type.shape)
    ]
    return made.finish([operand], [[each for axis, each in enumerate(operand) if axis not in axes]])


def _concat(node: Node) -> NodeFactors:
    return _but_axis(node, len(node.operands))


def _scan(node: Node) -> NodeFactors:
    return _but_axis(node, 1)


def _but_axis(node: Node, operands: int) -> NodeFactors:
    """Return the factors of a node that goes through one axis, and element by element through the others."""
    made, axis = _Collector(), cast("int", node.attributes["axis"])
    result = [
        (made.add(extent, WHOLE if place == axis else FREE),) for place, extent in enumerate(node.result.type.shape)
    ]
    found = [
        [
            (made.add(value.type.shape[axis], WHOLE),) if place == axis else each
            for place, each in enumerate(result)
        ]
        for value in node.operands[:operands]
    ]  # fmt: skip
    return made.finish(found, [result])


def _gather(node: Node) -> NodeFactors:
    """Choose over the rows of the table: devices that have parts of them have zeros for the rows of others."""
    made, axis = _Collector(), cast("int", node.attributes["axis"])
    table = [
        (made.add(extent, CHOOSE if place == axis else FREE),)
        for place, extent in enumerate(node.operands[0].type.shape)
    ]
    index = made.all_of(node.operands[1].type)
    return made.finish([table, index], [[*table[:axis], *index, *table[axis + 1 :]]])


def _scatter_add(node: Node) -> NodeFactors:
    """Sum over the index: devices that have parts of it make partial sums; those that own rows make these alone."""
    made, axis = _Collector(), cast("int", node.attributes["axis"])
    index, values = (value.type for value in node.operands)
    positions = made.all_of(index, "sum")
    others = [
        (made.add(extent),) for place, extent in enumerate(values.shape)
        if not axis <= place < axis + len(index.shape)
    ]  # fmt: skip
    target = (made.add(cast("int", node.attributes["extent"]), OWNED),)
    return made.finish(
        [positions, [*others[:axis], *positions, *others[axis:]]], [[*others[:axis], target, *others[axis:]]]
    )


# Views


def _view(node: Node) -> NodeFactors:
    """Split axes of the result at the divisors and moduli of their digits; an operand's axis is digits that nest.

    Of an operand's axis that is no such sequence of digits, as of a slice or a window, all is needed; so is all of the
    result's axes that its index depends on.
    """
    index_map, shape = node.index_map, node.operands[0].type.shape
    if 0 in (*shape, *index_map.shape):
        return _whole(node)
    made = _Collector()
    plain = [_nests(affine, index_map, extent) for affine, extent in zip(index_map.axes, shape, strict=True)]
    terms = [term for affine, fits in zip(index_map.axes, plain, strict=True) if fits for term in affine.terms]
    bound = {
        term.axis for affine, fits in zip(index_map.axes, plain, strict=True) if not fits for term in affine.terms
    }  # fmt: skip
    cuts = [_cuts(axis, extent, terms) for axis, extent in enumerate(index_map.shape)]
    bound |= {axis for axis, found in enumerate(cuts) if found is None}
    digits: list[dict[int, int]] = []
    """Of each axis of the result, by the product of what is inside of them, its factors."""
    for axis, extent in enumerate(index_map.shape):
        ends = (1, extent) if axis in bound else cast("tuple[int, ...]", cuts[axis])
        role = WHOLE if axis in bound else FREE
        digits.append({low: made.add(high // low, role) for low, high in pairwise(ends)})
    operand: list[Factors] = []
    for affine, fits, extent in zip(index_map.axes, plain, shape, strict=True):
        if fits and not any(term.axis in bound for term in affine.terms):
            operand.append(_digits_of(affine, index_map, digits))
        else:
            operand.append((made.add(extent, WHOLE),))
    result = [tuple(found[low] for low in sorted(found, reverse=True)) for found in digits]
    return made.finish([operand], [result])


def _span(term: Term, index_map: IndexMap) -> int:
    """Return how many values a digit has."""
    return term.modulus or -(-index_map.shape[term.axis] // term.divisor)


def _nested(affine: Affine) -> list[Term]:
    return sorted(affine.terms, key=lambda term: -term.scale)


def _nests(affine: Affine, index_map: IndexMap, extent: int) -> bool:
    """Return whether an index is a number whose digits are those of other axes, each value of it once."""
    total = 1
    for term in reversed(_nested(affine)):
        if term.scale != total:
            return False
        total *= _span(term, index_map)
    return affine.constant == 0 and total == extent


def _cuts(axis: int, extent: int, terms: Sequence[Term]) -> tuple[int, ...] | None:
    """Return where digits of an axis begin and end, from 1 to its extent; None where they do not nest."""
    ends = {1, extent}
    for term in terms:
        if term.axis == axis:
            ends |= {term.divisor, term.divisor * term.modulus if term.modulus else extent}
    found = tuple(sorted(ends))
    if any(high % low for low, high in pairwise(found)) or found[-1] > extent:
        return None
    return found if len(found) > 1 else (1, 1)


def _digits_of(affine: Affine, index_map: IndexMap, digits: Sequence[Mapping[int, int]]) -> Factors:
    """Return the factors of an operand's axis."""
    found: list[int] = []
    for term in _nested(affine):
        low, high = term.divisor, term.divisor * _span(term, index_map)
        found += [digits[term.axis][each] for each in sorted(digits[term.axis], reverse=True) if low <= each < high]
    return tuple(found)


_RULES: Final[Mapping[str, Callable[[Node], NodeFactors]]] = {
    "map": _map, "contract": _contract, "reduce": _reduce, "view": _view, "concat": _concat, "gather": _gather,
    "scatter_add": _scatter_add, "scan": _scan,
}  # fmt: skip
