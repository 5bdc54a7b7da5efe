"""From a graph to its plan: groups with their axes, adjacent axes joined, and how arrays lie along them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import prod

from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.index_maps import Affine, Term
from tessera.core.graph.infer import labels_of
from tessera.core.graph.isolated import last_joined
from tessera.core.schedule.plan import CALL, ELEMENTS, PRODUCT, SCATTER, Access, CascadeLoop, Group, Plan
from tessera.lowering.schedule.allocate import allocate
from tessera.lowering.schedule.axes import AxisSpace
from tessera.lowering.schedule.channels_last import channels_last
from tessera.lowering.schedule.form import in_steps, load_access, product_axes
from tessera.lowering.schedule.fuse import Fused
from tessera.lowering.schedule.regroup import fuse
from tessera.lowering.schedule.separate_uses import separate_uses


def plan_graph(graph: Graph, again: frozenset[int] = frozenset()) -> Plan:
    """Return the kernels that compute a graph, in order; the same for every target.

    again: numbers of nodes that every kernel may compute for itself
    """
    prepared = channels_last(separate_uses(graph, again))
    partition = fuse(prepared, again)
    groups = tuple(_group(number, fused) for number, fused in enumerate(partition.groups))
    plan = Plan(prepared, groups, partition.aliases, again)
    return replace(plan, buffers=allocate(plan))


@dataclass(frozen=True, slots=True)
class _Layout:
    """A group's axes, and how its arrays lie along them.

    marked: axes that are not joined with others; last: those that no later one is joined with
    """

    extents: tuple[int, ...]
    axes: Mapping[Value, tuple[int, ...]]
    loads: Mapping[Value, Access]
    stores: Mapping[Value, Access]
    reduced: tuple[int, ...]
    marked: tuple[int, ...] = ()
    last: frozenset[int] = frozenset()


def _group(number: int, fused: Fused) -> Group:
    members, found = fused.members, fused.form
    space = found.space
    if found.kind in (CALL, ELEMENTS, SCATTER):
        plain = {value: Access(value.type.shape or (1,), ()) for value in (*members.inputs, *members.outputs)}
        loads = {value: plain[value] for value in members.inputs}
        stores = {value: plain[value] for value in members.outputs}
        return Group(number, found.kind, members.nodes, members.inputs, members.outputs, space.extents, space.axes,
                     loads, stores)  # fmt: skip
    views = [node.result for node in members.nodes if node.op == "view"]
    direct = [value for value in members.inputs if value in space.axes]
    loads = {value: load_access(value, members, space) for value in (*direct, *views)}
    stores = {
        value: Access(value.type.shape, tuple(Affine(0, (Term(axis),)) for axis in space.axes[value]))
        for value in members.outputs
    }
    marked: tuple[int, ...] = ()
    if found.cascade is not None:
        marked = (found.cascade.axis, *found.cascade.inner, *found.columns, *found.cascade.around)
    layout = _Layout(
        space.extents, space.axes, loads, stores, found.reduced, marked, _last_joined(members.nodes, space)
    )
    indices = {axis for node in members.nodes if node.op == "iota" for axis in space.axes[node.result]}
    layout = _joined(layout, indices)
    number_in_memory = Access((1,), (Affine(),))  # a number is an array of one element
    layout = replace(
        layout,
        loads={value: access if access.shape else number_in_memory for value, access in layout.loads.items()},
        stores={value: access if access.shape else number_in_memory for value, access in layout.stores.items()},
    )
    if found.kind == PRODUCT:
        anchor = next(node for node in members.nodes if node.op == "contract")
        *_, step = product_axes(anchor, AxisSpace(layout.extents, layout.axes))
        kept = set(range(len(layout.extents))) - set(layout.reduced)
        layout = replace(layout, loads={v: in_steps(access, kept, step) for v, access in layout.loads.items()})
    loop = None
    if found.cascade is not None:
        mine, rest = found.cascade, iter(layout.marked)
        axis, *inner = islice(rest, 1 + len(mine.inner))
        columns = tuple(islice(rest, len(found.columns)))
        loop = CascadeLoop(
            mine.cascade, axis, tuple(inner), columns, mine.reductions, mine.atoms, mine.ended, tuple(rest)
        )  # fmt: skip
    return Group(number, found.kind, members.nodes, members.inputs, members.outputs, layout.extents, layout.axes,
                 layout.loads, layout.stores, layout.reduced, loop)  # fmt: skip


def _last_joined(nodes: Sequence[Node], space: AxisSpace) -> frozenset[int]:
    """Return the axes that leaves of a sum come after on other meshes, where nothing is joined with them."""
    axes: set[int] = set()
    for node in nodes:
        label = last_joined(node)
        if label is not None:
            sides = zip(node.operands, labels_of(node.attributes["labels"]), strict=True)
            axes |= {space.axes[operand][labels.index(label)] for operand, labels in sides if label in labels}
    return frozenset(axes)


def _joined(layout: _Layout, indices: set[int]) -> _Layout:
    """Join neighbouring axes that nothing in the group tells apart: rows of a batch are rows."""
    axis = 0
    while axis < len(layout.extents):
        partner = _partner(layout, axis, indices)
        if partner is None:
            axis += 1
        else:
            layout = _join(layout, axis, partner)
            indices = {each if each <= partner else each - 1 for each in indices}
            axis = 0
    return layout


def _partner(layout: _Layout, axis: int, indices: set[int]) -> int | None:
    """Return the axis that always comes right behind `axis`, in every value and every array; None: there is none."""
    candidates: set[int | None] = set()
    for axes in layout.axes.values():
        if axis in axes:
            place = axes.index(axis) + 1
            candidates.add(axes[place] if place < len(axes) else None)
    if len(candidates) != 1:
        return None
    (partner,) = candidates
    if partner is None or axis in layout.last or {axis, partner} & (indices | set(layout.marked)):
        return None
    if any(partner in axes and axis not in axes for axes in layout.axes.values()):
        return None
    if (axis in layout.reduced) != (partner in layout.reduced):
        return None
    accesses = [*layout.loads.values(), *layout.stores.values()]
    return partner if all(_side_by_side(access, layout.extents, axis, partner) for access in accesses) else None


def _side_by_side(access: Access, extents: Sequence[int], axis: int, partner: int) -> bool:
    """Return whether two axes are neighbouring axes of an array, whole ones; or neither of them is."""
    used = {term.axis for affine in access.index for term in affine.terms}
    if not {axis, partner} & used:
        return True
    plain = [affine.axis for affine in access.index]
    if axis not in plain or sum(axis == t.axis for affine in access.index for t in affine.terms) != 1:
        return False
    place = plain.index(axis)
    if place + 1 >= len(plain) or plain[place + 1] != partner:
        return False
    if sum(partner == t.axis for affine in access.index for t in affine.terms) != 1:
        return False
    return access.shape[place : place + 2] == (extents[axis], extents[partner])


def _join(layout: _Layout, axis: int, partner: int) -> _Layout:
    def renumbered(each: int) -> int:
        each = axis if each == partner else each
        return each if each < partner else each - 1

    def access(old: Access) -> Access:
        shape, index = list(old.shape), list(old.index)
        plain = [affine.axis for affine in index]
        if axis in plain:
            place = plain.index(axis)
            shape[place : place + 2] = [prod(shape[place : place + 2])]
            del index[place + 1]
        renamed = tuple(
            Affine(each.constant, tuple(Term(renumbered(t.axis), t.scale, t.divisor, t.modulus) for t in each.terms))
            for each in index
        )
        return Access(tuple(shape), renamed, old.padded)

    extents = list(layout.extents)
    extents[axis] *= extents[partner]
    del extents[partner]
    return _Layout(
        tuple(extents),
        {value: tuple(dict.fromkeys(map(renumbered, axes))) for value, axes in layout.axes.items()},
        {value: access(old) for value, old in layout.loads.items()},
        {value: access(old) for value, old in layout.stores.items()},
        tuple(dict.fromkeys(map(renumbered, layout.reduced))),
        tuple(map(renumbered, layout.marked)),
        frozenset(map(renumbered, layout.last)),
    )
