"""Make the graph of one device: nodes of its part, and collectives where a node needs another part than there is.

before: h[8, 256@tp] = map(...); y[8, 64] = contract(h, v[256@tp, 64])
after:  h[8, 64] = map(...); p[8, 64] = contract(h, v[64, 64]); y[8, 64] = collective all_reduce sum over tp (p)

Every device has the same graph: which part it has is a matter of the slices that it is given, and of collectives.
Where a mesh does not divide an extent all devices have as many rows as the first one; see `padding.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Body, Graph, Node, Origin, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.core.graph.isolated import isolated, label_before
from tessera.core.graph.spec import CHOOSE
from tessera.core.placement.placement import Placement
from tessera.core.program.program import Attribute
from tessera.lowering.sharding.assign import Assignment
from tessera.lowering.sharding.factors import OWNED, Factors, NodeFactors, factors_of
from tessera.lowering.sharding.owned_rows import index_of_owned
from tessera.lowering.sharding.padding import nested, resized
from tessera.lowering.sharding.partial_results import CutRows, PartialResults, cut_rows, leaves_of
from tessera.lowering.sharding.placements import Axes, dims_of, local_rows, local_type
from tessera.lowering.sharding.sharded_graph import ShardedGraph
from tessera.lowering.sharding.steps import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    REDUCE_SCATTER,
    SLICE,
    Step,
    steps_between,
)

RULE: Final = "partition"
LEAVES: Final = 8
"""Parts of a sum that is cut over a mesh, where as many devices as cut it divide them: meshes of 1, 2, 4 and 8 devices
have the same bits.  Other meshes have one part a device."""
_CUTTING: Final = (SLICE, REDUCE_SCATTER)


def partition(sharded: ShardedGraph, leaves: int = LEAVES) -> Graph:
    """Return the graph of one device.

    leaves: of sums that are cut over a mesh, into how many parts, a power of two, which are added in a binary tree
    """
    return _Partitioner(sharded, leaves, sharded.graph.next_ident).run()


class _Partitioner:
    """Builds it.

    parts: of values with shardings, what stands for them on one device
    """

    def __init__(self, sharded: ShardedGraph, leaves: int, first_ident: int) -> None:
        self.sharded, self.mesh, self.leaves = sharded, sharded.mesh, leaves
        self.builder = GraphBuilder(first_ident)
        self.parts: dict[tuple[Value, Placement], Value] = {}
        self.partial = PartialResults(self.builder, leaves)

    def run(self) -> Graph:
        graph = self.sharded.graph
        inputs: list[Value] = []
        for value in graph.inputs:
            sharding = self.sharded.placements[value]
            inputs.append(replace(value, type=local_type(value.type, sharding, self.mesh)))
            self.parts[value, sharding] = inputs[-1]
        for node in graph.nodes:
            self._add(node)
        outputs = [
            self.part(value, wanted, None) for value, wanted in zip(graph.outputs, self.sharded.outputs, strict=True)
        ]  # fmt: skip
        return self.builder.finish(graph.name, inputs, outputs, graph.source, graph.span)

    def part(self, value: Value, wanted: Placement, user: Node | None) -> Value:
        """Return a device's part of a value with a sharding; collectives that make it are made once."""
        here = self.sharded.placements[value]
        for step in steps_between(here, wanted):
            if (value, step.after) not in self.parts:
                parents = (user.ident,) if user is not None else ()
                composite = user.origin.composite if user is not None else ()
                with self.builder.within(Origin(RULE, parents, composite), user.span if user else None):
                    self.parts[value, step.after] = self._collective(value, self.parts[value, step.before], step)
        return self.parts[value, wanted]

    def _collective(self, value: Value, operand: Value, step: Step) -> Value:
        """Return what a step makes: extents that are cut are padded before it, those that are joined trimmed."""
        ways = list(zip(value.type.shape, dims_of(step.before), dims_of(step.after), strict=True))
        if not all(nested(extent, before, after, self.mesh) for extent, before, after in ways if before != after):
            return self._through_whole(value, operand, step)
        join = step.dim if step.kind in (ALL_GATHER, ALL_TO_ALL) else -1
        cut = step.to if step.kind == ALL_TO_ALL else step.dim if step.kind in _CUTTING else -1
        places = {name: dim for name, dim in (("join", join), ("cut", cut)) if dim >= 0}
        parts = self.mesh.size(step.axes)
        after = local_type(value.type, step.after, self.mesh).shape
        if cut >= 0:
            operand = resized(self.builder, operand, cut, after[cut] * parts)
        made = self._joined(operand, step.kind, step.axes, self._reduction(step), **places)
        return made if join < 0 else resized(self.builder, made, join, after[join])

    def _joined(self, operand: Value, kind: str, axes: Axes, reduction: str = "", **places: int) -> Value:
        # One rank has collectives, too: nothing is fused across them, on no mesh, so that all have the same kernels.
        return self.builder.add(
            "collective", [operand], None, operand.name,
            kind=kind, axes=axes, parts=self.mesh.size(axes), reduction=reduction, **places,
        )  # fmt: skip

    def _reduction(self, step: Step) -> str:
        return step.before.op if step.before.partial and not step.after.partial else ""

    def _through_whole(self, value: Value, operand: Value, step: Step) -> Value:
        """Return what a step makes where shards before it and behind it do not nest: of all rows, on every device."""
        reduction = self._reduction(step)
        if reduction:
            operand = self._joined(operand, ALL_REDUCE, step.axes, reduction)
        ways = list(zip(value.type.shape, dims_of(step.before), dims_of(step.after), strict=True))
        changed = [(dim, *way) for dim, way in enumerate(ways) if way[1] != way[2]]
        for dim, extent, before, _ in changed:
            if before:
                operand = resized(self.builder, self._joined(operand, ALL_GATHER, before, join=dim), dim, extent)
        for dim, extent, _, after in changed:
            if after:
                parts = self.mesh.size(after)
                padded = resized(self.builder, operand, dim, local_rows(extent, parts) * parts)
                operand = self._joined(padded, SLICE, after, cut=dim)
        return operand

    def _add(self, node: Node) -> None:
        assignment, factors = self.sharded.choices[node].assignment, factors_of(node)
        operands = [
            self.part(value, wanted, node) for value, wanted in zip(node.operands, assignment.operands, strict=True)
        ]
        cuts = cut_rows(factors, assignment, self.mesh)
        leaves = leaves_of(node, cuts, self.leaves)
        if len(leaves) > 1 or leaves > (1,):
            self._add_sum(node, cuts, assignment, operands, leaves)
            return
        with self._from(node):
            operands = self.partial.masked(node, cuts, operands)
        attributes, body = _LOCAL.get(node.op, _same)(node, factors, assignment)
        if leaves:
            attributes = self._isolated(node, cuts[0], attributes)
        if node.op in _INDEXED:
            operands, attributes = self._of_owned(node, factors, assignment, operands)
        if self.sharded.choices[node].bodies:
            body = self._bodies(node)
        results = tuple(
            replace(value, type=local_type(value.type, made, self.mesh))
            for value, made in zip(node.results, assignment.results, strict=True)
        )
        self.builder.append(replace(node, operands=tuple(operands), results=results, attributes=attributes, body=body))
        for value, made, result in zip(node.results, assignment.results, results, strict=True):
            with self._from(node):
                self.parts[value, made] = self.partial.present(node, cuts, result)
            self._pin(node, value, made)

    def _isolated(self, node: Node, cut: CutRows, attributes: Mapping[str, Attribute]) -> Mapping[str, Attribute]:
        """Return the attributes of a sum of one leaf, so that it has the bits of one that is stacked with others."""
        if node.op != "contract":
            return isolated(attributes)
        return isolated(attributes, label_before(attributes, [value.type.shape for value in node.operands], cut.dims))

    def _of_owned(
        self, node: Node, factors: NodeFactors, assignment: Assignment, operands: list[Value]
    ) -> tuple[list[Value], Mapping[str, Attribute]]:
        """Return the operands and attributes of a gather or a sum by index of the rows that a device owns."""
        cut = [each for each in assignment.axes if factors.factors[each].role in (CHOOSE, OWNED)]
        if not cut:
            return operands, node.attributes
        axes, rows, operand = assignment.axes[cut[0]], assignment.extents[cut[0]], _INDEXED[node.op]
        parts, extent = self.mesh.size(axes), factors.factors[cut[0]].extent
        with self._from(node):
            place = self.partial.place(axes, parts)
            shifted = index_of_owned(self.builder, operands[operand], place, rows, extent if extent % parts else 0)
        found = [shifted if number == operand else each for number, each in enumerate(operands)]
        return found, {**node.attributes, "extent": rows} if node.op == "scatter_add" else node.attributes

    def _from(self, node: Node) -> AbstractContextManager[None]:
        """Say of what is built inside the `with` that a node asks for it."""
        return self.builder.within(Origin(RULE, (node.ident,), node.origin.composite), node.span)

    def _bodies(self, node: Node) -> tuple[Graph, ...]:
        """Return the bodies of one device, of which no node has the number of another one."""
        made: list[Graph] = []
        for body in self.sharded.choices[node].bodies:
            made.append(_Partitioner(body, self.leaves, self.builder.next_ident).run())
            self.builder.skip_to(made[-1].next_ident)
        return tuple(made)

    def _add_sum(
        self, node: Node, cuts: Sequence[CutRows], assignment: Assignment, operands: Sequence[Value],
        leaves: Sequence[int],
    ) -> None:  # fmt: skip
        """Add a sum as the sum of its leaves."""
        (made,), value = assignment.results, node.result
        with self.builder.within(node.origin, node.span):
            self.parts[value, made] = self.partial.sum_by_leaves(node, cuts, operands, leaves)
        self._pin(node, value, made)

    def _pin(self, node: Node, value: Value, made: Placement) -> None:
        """Bring a value to the sharding that the user gave it."""
        wanted = self.sharded.placements[value]
        if wanted == made:
            return
        for step in steps_between(made, wanted):
            with self._from(node):
                self.parts[value, step.after] = self._collective(value, self.parts[value, step.before], step)


Local = tuple[Mapping[str, Attribute], Body]


def _same(node: Node, factors: NodeFactors, assignment: Assignment) -> Local:
    del factors, assignment
    return node.attributes, node.body


def _map(node: Node, factors: NodeFactors, assignment: Assignment) -> Local:
    return {**node.attributes, "shape": factors.shape(factors.results[0], assignment.extents)}, node.body


def _view(node: Node, factors: NodeFactors, assignment: Assignment) -> Local:
    """Return the view of parts: digits of the extents that are left; what is not cut is read as before."""
    before, shape = node.index_map, factors.shape(factors.results[0], assignment.extents)
    if not assignment.extents:
        return node.attributes, before
    places = {each: axis for axis, dim in enumerate(factors.results[0]) for each in dim}

    def extent(factor: int) -> int:
        return assignment.extents.get(factor, factors.factors[factor].extent)

    def inside(dim: Factors, factor: int) -> int:
        found = 1
        for each in dim[dim.index(factor) + 1 :]:
            found *= extent(each)
        return found

    axes: list[Affine] = []
    for affine, dim in zip(before.axes, factors.operands[0], strict=True):
        if not all(factor in places for factor in dim):
            axes.append(affine)  # all of it is needed, and of the axes that say where
            continue
        terms: list[Term] = []
        for factor in dim:
            whole = factors.results[0][places[factor]]
            modulus = 0 if factor == whole[0] else extent(factor)
            if extent(factor) > 1:
                terms.append(Term(places[factor], inside(dim, factor), inside(whole, factor), modulus))
        axes.append(Affine(0, tuple(terms)))
    return node.attributes, IndexMap(shape, tuple(axes), before.padded)


_INDEXED: Final[Mapping[str, int]] = {"gather": 1, "scatter_add": 0}
"""Which operand says the rows."""
_LOCAL: Final[Mapping[str, Callable[[Node, NodeFactors, Assignment], Local]]] = {"map": _map, "view": _view}
