"""Contractions in an e-graph: their labels by name, and what rules build of them.

before: contract(%x, %w) {labels = [[0, 1], [1, 2]], result = [0, 2]}
after:  Contraction(operands (x, w), labels ((i, k), (k, j)), result (i, j))
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Apply, Argument
from tessera.core.graph.index_maps import Affine, IndexMap, transpose
from tessera.core.graph.infer import labels_of, numbers
from tessera.core.program.program import Attribute
from tessera.lowering.graph.egraph.egraph import EGraph, ENode

Labels = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Contraction:
    """A contraction: classes of its two operands, their labels, those of the result, and what else it says.

    node: where it stands in the e-graph; accumulate: the dtype of the sums
    """

    operands: tuple[int, int]
    labels: tuple[Labels, Labels]
    result: Labels
    options: tuple[tuple[str, Attribute], ...]
    node: ENode

    @property
    def plain(self) -> bool:
        """True where operands are multiplied as they are, not rounded to a compute type first."""
        return not dict(self.options)["compute"]

    @property
    def summed(self) -> Labels:
        """The labels that the result lacks, in the order in which they come."""
        return tuple(dict.fromkeys(each for mine in self.labels for each in mine if each not in self.result))

    def node_class(self, egraph: EGraph) -> int:
        """Return the class that it computes, that is, of the node that it was read from."""
        return egraph.add("contract", self.node.kids, None, dict(self.node.attributes))

    def placed(self, places: Mapping[int, int], other: int) -> "Contraction":
        """Return it with other labels: `places` where there is one, numbers from `other` on for the rest."""
        table = dict(places)
        for label in (*self.labels[0], *self.labels[1]):
            if label not in table:
                table[label] = other
                other += 1
        left, right = (tuple(table[label] for label in mine) for mine in self.labels)
        return replace(self, labels=(left, right), result=tuple(table[label] for label in self.result))

    def of_result(self, axes: Sequence[int], rank: int) -> "Contraction":
        """Return it with the axes `axes` of some value of rank `rank` as labels of its result."""
        return self.placed(dict(zip(self.result, axes, strict=True)), rank)


def contraction(node: ENode) -> Contraction:
    """Return a node as a contraction."""
    left, right = labels_of(node.attribute("labels"))
    options = tuple(item for item in node.attributes if item[0] not in ("labels", "result"))
    first, second = node.kids
    return Contraction((first, second), (left, right), numbers(node.attribute("result")), options, node)


def contractions(egraph: EGraph) -> Iterator[tuple[int, Contraction]]:
    """Yield every contraction with its class."""
    for number, node in list(egraph.nodes("contract")):
        yield number, contraction(node)


def contractions_in(egraph: EGraph, number: int) -> list[Contraction]:
    """Return the contractions of one class."""
    return [contraction(node) for node in egraph.having(number, "contract")]


def rounded_contractions(egraph: EGraph, number: int) -> Iterator[tuple[Contraction, DType]]:
    """Yield the contractions that a class is, and those that it is after one conversion to its dtype."""
    for node in egraph.members[egraph.find(number)]:
        if node.op == "contract":
            yield contraction(node), egraph.type_of(number).dtype
        elif node.op == "map" and is_conversion(node):
            axes = labels_of(node.attribute("axes"))[0]
            for each in contractions_in(egraph, node.kids[0]):
                order = sorted(range(len(axes)), key=axes.__getitem__)
                yield replace(each, result=tuple(each.result[axis] for axis in order)), egraph.type_of(number).dtype


def is_conversion(node: ENode) -> bool:
    """Return whether a map converts the elements of one operand, all of them, and does nothing else."""
    body = node.body
    if not isinstance(body, Apply) or body.opcode != "cast" or not isinstance(body.operands[0], Argument):
        return False
    return len(labels_of(node.attribute("axes"))[0]) == len(numbers(node.attribute("shape")))


def extents_of(egraph: EGraph, each: Contraction) -> dict[int, int]:
    """Return the extent of every label."""
    pairs = zip(each.labels, each.operands, strict=True)
    return {label: size for mine, kid in pairs for label, size in zip(mine, egraph.type_of(kid).shape, strict=True)}


def contract(
    egraph: EGraph, operands: Sequence[int], labels: Sequence[Sequence[int]], result: Sequence[int],
    options: Iterable[tuple[str, Attribute]],
) -> int:  # fmt: skip
    """Return the class of a contraction."""
    attributes: dict[str, Attribute] = dict(options)
    attributes |= {"labels": tuple(tuple(mine) for mine in labels), "result": tuple(result)}
    return egraph.add("contract", operands, None, attributes)


def ordered(
    egraph: EGraph, operands: tuple[int, int], labels: tuple[Labels, Labels]
) -> tuple[tuple[int, int], tuple[Labels, Labels]]:
    """Return two operands with their labels, the older one first: a product that rules make has one form."""
    first, second = (egraph.find(operand) for operand in operands)
    if (first, labels[0]) <= (second, labels[1]):
        return (first, second), labels
    return (second, first), (labels[1], labels[0])


def without_tile(each: Contraction) -> tuple[tuple[str, Attribute], ...]:
    """Return the options of a contraction without the user's blocks, which are those of its own extents."""
    return tuple((name, () if name == "tile_shape" else value) for name, value in each.options)


def permuted(egraph: EGraph, number: int, order: Sequence[int]) -> int:
    """Return the view of a class whose axis i is axis `order[i]`; the class itself where that is the same."""
    if list(order) == list(range(len(order))):
        return egraph.find(number)
    return view(egraph, number, transpose(egraph.type_of(number).shape, order))


def view(egraph: EGraph, number: int, index_map: IndexMap) -> int:
    """Return the class of a view; the class itself where it changes nothing."""
    if index_map.is_identity(egraph.type_of(number).shape):
        return egraph.find(number)
    return egraph.add("view", (number,), index_map, {})


def places_of(index_map: IndexMap, shape: Sequence[int]) -> tuple[int, ...] | None:
    """Return which axes of a view those of its operand are: for transpositions and repetitions, else None."""
    found = [affine.axis for affine in index_map.axes]
    places = tuple(axis for axis in found if axis is not None)
    whole = len(places) == len(found) and len(set(places)) == len(places) and not index_map.padded
    return places if whole and all(index_map.shape[p] == n for p, n in zip(places, shape, strict=True)) else None


def shifted(affine: Affine, by: int) -> Affine:
    """Return an index `by` elements further on."""
    return replace(affine, constant=affine.constant + by)
