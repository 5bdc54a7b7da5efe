"""Decide whether a set of nodes is one kernel, of which kind, and how its arrays lie along its axes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, cast

from tessera.core.graph.bodies import WITH_BODIES
from tessera.core.graph.expr import arguments
from tessera.core.graph.graph import Node, Value
from tessera.core.graph.index_maps import Affine, Term, identity
from tessera.core.graph.infer import numbers
from tessera.core.graph.isolated import is_isolated
from tessera.core.schedule.plan import (
    CALL,
    CASCADE,
    ELEMENTS,
    MAPS,
    PRODUCT,
    ROW_LIMIT,
    ROWS,
    SCATTER,
    Access,
    CascadeLoop,
    is_long,
)
from tessera.core.schedule.refusals import refused
from tessera.lowering.schedule.axes import AxisSpace, axis_space
from tessera.lowering.schedule.cascades.atom_products import parted
from tessera.lowering.schedule.regions import Found, find_cascade
from tessera.lowering.schedule.siblings import sibling_axes

SHORT_ROW: Final = 2048
"""Longest row of which a kernel takes several at a time, see `rows_schedule`."""
WHOLE_LIMIT: Final = 256
"""Longest inner axis of a product that is one step of its loop: the width of an attention head, for one."""
MOST_PHASES: Final = 3
"""Elements of an axis along which blocks of a product do not lie, where there are longer ones."""
FEWEST_CHANNELS: Final = 16
"""Of a window, that are a step of a product by themselves: tensor cores multiply 16 at a time, or 32 bytes."""
POINTWISE: Final = ("map", "view", "iota", "concat", "gather", "random")
OPAQUE: Final = ("call", "collective", *WITH_BODIES)
"""Nodes that are groups of their own, which no kernel computes."""


@dataclass(frozen=True, slots=True)
class Form:
    """A legal group: its kind, its axes, and the axes that its reductions remove.

    cascade: the loop, for a group of that kind; columns: axes that only some of its reductions have
    """

    kind: str
    space: AxisSpace
    reduced: tuple[int, ...] = ()
    cascade: Found | None = None
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Members:
    """A candidate.

    nodes: in order; inputs: what they read from memory; outputs: what others read of them
    again: those of the nodes that other groups compute for themselves, too
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    again: frozenset[Node] = frozenset()

    @property
    def made(self) -> set[Value]:
        """The values that the nodes make."""
        return {value for node in self.nodes for value in node.results}


def form(members: Members) -> Form | None:
    """Return how the nodes are one kernel, or None where they are not."""
    if any(node.op == "scatter_add" for node in members.nodes):
        return _scatter(members)
    if any(node.op in OPAQUE for node in members.nodes):
        return Form(CALL, AxisSpace((), {})) if len(members.nodes) == 1 else None
    anchors = [node for node in members.nodes if node.op in ("contract", "reduce")]
    if any(node.op in ("concat", "gather", "random") for node in members.nodes):
        return refused("elements", *anchors) if anchors else _elements(members)
    return _tiles(members, anchors) or (None if anchors else _elements(members))


def _tiles(members: Members, anchors: Sequence[Node]) -> Form | None:
    """Return the form of a kernel of tiles."""
    views = {node.result for node in members.nodes if node.op == "view"}
    inner = [node for node in members.nodes if node.op == "view" and node.operands[0] not in members.inputs]
    if inner:
        moved = [node for node in inner if node.index_map != identity(node.result.type.shape)]
        return refused("view-inside", *moved) if moved else refused("factors", *inner)
    made = members.made
    read = {value for node in members.nodes if node.op != "view" for value in node.operands}
    direct = [value for value in members.inputs if value in read]
    order = [*members.outputs, *(value for node in members.nodes for value in node.results), *direct]
    inside = [node for node in members.nodes if node.op != "view"]
    tied = sibling_axes(members.nodes)
    space = (axis_space(inside, order, tied) if tied else None) or axis_space(inside, order)
    if space is None:
        return refused("one-axis", *members.nodes)
    kinds = {node.op for node in anchors}
    if not kinds:
        found = _maps(members, space)
    elif kinds == {"reduce"}:
        found = _rows(anchors, space)
    else:
        found = _product(members, anchors, space) if kinds == {"contract"} else None
    may_cascade = len(anchors) == 1 or not any(map(is_isolated, anchors))
    if may_cascade and ("contract" in kinds or any(map(is_long, anchors))):
        found = found or _cascade(members, anchors, space)
    if found is None:
        return None
    blocked = blocked_axes(found, members)
    loaded = [*(v for v in direct if v not in made), *views]
    accesses = [load_access(value, members, space) for value in loaded]
    if found.kind == PRODUCT and _is_packed(found, blocked[-1], accesses):
        return refused("box", *anchors)
    return found if all(loadable(access, blocked, found) for access in accesses) else refused("box", *anchors)


def _is_packed(found: Form, step: int, accesses: Sequence[Access]) -> bool:
    """Return whether a window has so few channels that its taps should be summed together with them, as one axis."""
    short = found.space.extents[step] < FEWEST_CHANNELS and len(found.reduced) > 1
    return short and any(
        len(affine.terms) > 1 and any(term.axis in found.reduced for term in affine.terms)
        for access in accesses
        for affine in access.index
    )


def _scatter(members: Members) -> Form | None:
    """One sum by index alone: its space are the axes that its indices do not replace."""
    if len(members.nodes) != 1:
        return refused("scatter", *members.nodes)
    (node,) = members.nodes
    axis = cast("int", node.attributes["axis"])
    shape = node.result.type.shape
    return Form(SCATTER, AxisSpace((*shape[:axis], *shape[axis + 1 :]), {}))


def _elements(members: Members) -> Form | None:
    """One lane an element: all outputs have one shape, which is the kernel's space."""
    shapes = {value.type.shape for value in members.outputs}
    if len(shapes) != 1:
        return refused("shapes", detail=", ".join("×".join(map(str, shape)) for shape in sorted(shapes)))
    (shape,) = shapes
    axes = {value: tuple(range(len(shape))) for value in members.outputs}
    return Form(ELEMENTS, AxisSpace(shape, axes))


def _maps(members: Members, space: AxisSpace) -> Form | None:
    """Every output lies along all axes that any value has, so that each block is computed once."""
    axes = set(space.axes[members.outputs[0]])
    if any(set(space.axes[value]) != axes for value in members.outputs):
        return refused("map-axes")
    return Form(MAPS, space) if all(set(each) <= axes for each in space.axes.values()) else refused("map-axes")


def _rows(anchors: Sequence[Node], space: AxisSpace) -> Form | None:
    """Reduce the same axes everywhere, in registers; every value lies along these and the rows."""
    removed = {
        tuple(space.axes[node.operands[0]][axis] for axis in numbers(node.attributes["axes"])) for node in anchors
    }
    if len(removed) != 1:
        return refused("reduced-axes", *anchors)
    (reduced,) = removed
    length = prod(space.extents[axis] for axis in reduced)
    if not 0 < length <= ROW_LIMIT:
        return refused("row-limit", *anchors, detail=f"{length:,} elements, and at most {ROW_LIMIT:,}")
    rows = set(space.axes[anchors[0].result])
    if any(not set(space.axes[value]) <= rows | set(reduced) for value in space.axes):
        return refused("row-axes", *anchors)
    return Form(ROWS, space, reduced)


def _product(members: Members, anchors: Sequence[Node], space: AxisSpace) -> Form | None:
    """One contraction, or several over the same axes; everything else follows the results."""
    structures = {
        (tuple(sorted(space.axes[node.operands[0]])), tuple(sorted(space.axes[node.operands[1]])),
         space.axes[node.result]) for node in anchors
    }  # fmt: skip
    if len(structures) != 1:
        return refused("products", *anchors)
    result = set(space.axes[anchors[0].result])
    reduced = sum_axes(anchors[0], space)
    if not reduced or any(space.extents[axis] == 0 for axis in (*reduced, *result)):
        return refused("empty", *anchors)
    results = {node.result for node in anchors}
    operands = {value for node in anchors for value in node.operands}
    # The factors come from memory as they are: what is made of them first is a kernel of its own.
    factors = [node for node in members.nodes if node.op != "view" and operands & set(node.results)]
    if factors:
        return refused("factors", *factors)
    after = results | {v for v in space.axes if v not in operands}
    if any(not set(space.axes[value]) <= result for value in after):
        return refused("epilogue-axes", *anchors)
    return Form(PRODUCT, space, reduced)


def _cascade(members: Members, anchors: Sequence[Node], space: AxisSpace) -> Form | None:
    """Reductions over one axis, in one loop that the algebra of their bodies gives."""
    if not any(map(is_long, anchors)) and (len(anchors) < 2 or not any(node.op == "contract" for node in anchors)):
        return refused("one-reduction", *anchors)
    found = find_cascade(members.nodes, space, members.outputs, several=bool(members.again))
    if found is None:
        return None
    if any({found.axis, *found.inner} & set(space.axes[value]) for value in members.outputs):
        return refused("loop-output", *found.reductions)
    if not all(_is_product_of_blocks(node, found, space) for node in anchors if node not in found.reductions):
        return refused("blocks", *anchors)
    kept = {axis for node in found.reductions for axis in space.axes[node.result]}
    if any(not set(axes) <= kept | {found.axis, *found.inner, *found.around} for axes in space.axes.values()):
        return refused("row-axes", *found.reductions)
    rows = _row_axes(found, anchors, space)
    wide = [[axis for axis in space.axes[node.result] if axis not in rows] for node in found.reductions]
    columns = tuple(dict.fromkeys(axis for each in wide for axis in each))
    if any(len(each) > 1 for each in wide) or any(space.extents[axis] > WHOLE_LIMIT for axis in columns):
        widest = max(space.extents[axis] for axis in columns)
        return refused("columns", *found.reductions, detail=f"{widest:,} columns")
    if _weighed_along(columns, found, space):
        return refused("weight-columns", *found.reductions)
    return Form(CASCADE, space, (*found.around, found.axis, *found.inner), found, columns)


def _weighed_along(columns: Sequence[int], found: Found, space: AxisSpace) -> bool:
    """Return whether exponents, conditions or maxima vary along the columns, as in `softmax(s) @ exp(v)`.

    The loop has one weight for a row and a step, and one anchor for a row.
    """
    cascade = found.cascade
    weights = [*(each.exponent for each in cascade.anchors), *(each.body for each in cascade.extrema)]
    weights += [each.indicator for each in (*cascade.anchors, *cascade.moments) if each.indicator is not None]
    atoms = {found.atoms[number] for expr in weights for number in arguments(expr)}
    return any(not set(columns).isdisjoint(space.axes[atom]) for atom in atoms)


def _row_axes(found: Found, anchors: Sequence[Node], space: AxisSpace) -> set[int]:
    """Return the axes of the rows of a cascade: those that all of its reductions have.

    Where these are alike, as without a sum of weights, columns are what the products inside of it do not have.
    """
    results = [set(space.axes[node.result]) for node in found.reductions]
    rows = results[0].intersection(*results[1:])
    inside = set[int]().union(*(space.axes[node.result] for node in anchors if node not in found.reductions))
    return (rows & inside or rows) if all(each == rows for each in results) else rows


def _is_product_of_blocks(node: Node, found: Found, space: AxisSpace) -> bool:
    """Return whether a contraction in a cascade is a product of two blocks, which share one inner axis and no other."""
    left, right = (set(space.axes[operand]) for operand in node.operands)
    inner = {axis for axis in found.inner if space.extents[axis] > 1} & (left | right)
    return found.axis not in left & right and len(inner) <= 1


def cascade_row(
    loop: Found | CascadeLoop, columns: Sequence[int], nodes: Sequence[Node], axes: Mapping[Value, tuple[int, ...]]
) -> int | None:
    """Return the axis along which a cascade takes several rows at a time: the last kept one that products allow.

    A product of two blocks has rows of one operand and columns of the other.  An axis that both have, or that one has
    beside the columns, is a batch, which goes element by element: the heads of [batch, row, head, column] are one, and
    the rows before them are not.  None: there is no other axis.
    """
    kept = [axis for axis in axes[loop.reductions[0].result] if axis not in columns]
    return next((axis for axis in reversed(kept) if _are_rows(axis, loop, columns, nodes, axes)), None)


def _are_rows(
    row: int,
    loop: Found | CascadeLoop,
    columns: Sequence[int],
    nodes: Sequence[Node],
    axes: Mapping[Value, tuple[int, ...]],
) -> bool:
    """Return whether the products of a cascade, those that it sums and those inside of it, have an axis as rows."""

    def has(number: int, wanted: Collection[int]) -> bool:
        return not set(wanted).isdisjoint(axes[loop.atoms[number]])

    for moment in loop.cascade.moments:
        _, right = parted(moment.payload, lambda number: has(number, columns))
        if right is not None and any(has(number, (row,)) for number in arguments(right)):
            return False
    for node in nodes:
        if node.op == "contract" and node not in loop.reductions:
            left, right = ({row, loop.axis} & set(axes[operand]) for operand in node.operands)
            if left & right or len(left) == 2 or len(right) == 2:
                return False
    return True


def sum_axes(node: Node, space: AxisSpace) -> tuple[int, ...]:
    """Return the axes that a contraction sums over, in the order of its first operand."""
    result = set(space.axes[node.result])
    both = [*space.axes[node.operands[0]], *space.axes[node.operands[1]]]
    return tuple(dict.fromkeys(axis for axis in both if axis not in result))


def product_axes(node: Node, space: AxisSpace) -> tuple[int | None, int | None, int]:
    """Return the axes that are the rows, the columns and the steps of a contraction's blocks.

    Rows and columns are the last axis of each kind, but for those of two or three elements, as the phases of a
    transposed convolution are, where another one has more.  Steps go along the summed axis that comes last in both
    operands, or along the longest one, the last of equal ones.
    """
    left, right = space.axes[node.operands[0]], space.axes[node.operands[1]]
    result = space.axes[node.result]
    rows = [axis for axis in result if axis in left and axis not in right]
    columns = [axis for axis in result if axis in right and axis not in left]
    inner = [axis for axis in sum_axes(node, space) if axis in left and axis in right]
    summed = inner or sum_axes(node, space)
    step = max(summed, key=lambda axis: (left[-1] == axis == right[-1], space.extents[axis], summed.index(axis)))
    return _blocked_side(rows, space), _blocked_side(columns, space), step


def _blocked_side(axes: Sequence[int], space: AxisSpace) -> int | None:
    """Return the axis of a side of a product along which its blocks lie; None: there is none."""
    if len(axes) < 2:
        return axes[0] if axes else None
    # A symbol counts as long: what is decided by it would hold for some of its values alone.
    long = [axis for axis in axes if (extent := space.extents[axis]).__class__ is not int or extent > MOST_PHASES]
    return (long or axes)[-1]


def blocked_axes(found: Form, members: Members) -> tuple[int, ...]:
    """Return the axes along which a group's tiles have more than one element."""
    if found.kind == MAPS:
        return found.space.axes[members.outputs[0]][-2:]
    if found.kind == CASCADE:
        assert found.cascade is not None
        row = cascade_row(found.cascade, found.columns, members.nodes, found.space.axes)
        return (*found.reduced, *found.columns, *(() if row is None else (row,)))
    if found.kind == ROWS:
        rows = row_axis(found, members)
        return (*found.reduced, *(() if rows is None else (rows,)))
    anchor = next(node for node in members.nodes if node.op == "contract")
    return tuple(axis for axis in product_axes(anchor, found.space) if axis is not None)


def row_axis(found: Form, members: Members) -> int | None:
    """Return the axis of which a group of short rows takes several at a time: the last of those that stay."""
    if prod(found.space.extents[axis] for axis in found.reduced) > SHORT_ROW:
        return None
    anchor = next(node for node in members.nodes if node.op == "reduce")
    kept = found.space.axes[anchor.result]
    return kept[-1] if kept else None


def load_access(value: Value, members: Members, space: AxisSpace) -> Access:
    """Return how a value that is read from memory lies there: plainly, or through the view that makes it."""
    node = next((node for node in members.nodes if value in node.results), None)
    axes = space.axes[value]
    if node is None:
        return Access(value.type.shape, tuple(Affine(0, (Term(axis),)) for axis in axes))
    index_map = node.index_map
    renamed = tuple(
        Affine(each.constant, tuple(Term(axes[t.axis], t.scale, t.divisor, t.modulus) for t in each.terms))
        for each in index_map.axes
    )
    return Access(node.operands[0].type.shape, renamed, index_map.padded)


def loadable(access: Access, blocked: Sequence[int], found: Form) -> bool:
    """Return whether a block of the array is a box in memory.

    Along each of its axes at most one blocked axis of the group, one element a step; others only shift the box, also
    by parts of their index, as heads do that share keys.  Rows and columns of a product may have longer steps, see
    `in_steps`.  What a block reads beyond the group's axis must lie outside the array too, or be of no consequence.
    """
    if found.kind == MAPS and _is_diagonal(access):  # any axis may be blocked when its neighbors are joined
        return False
    seen: list[int] = []
    multiplies = found.kind == PRODUCT
    if multiplies:
        access = in_steps(access, set(range(len(found.space.extents))) - set(found.reduced), blocked[-1])
    steps = access.steps or (1,) * len(access.shape)
    for size, affine, step in zip(access.shape, access.index, steps, strict=True):
        mine = [term for term in affine.terms if term.axis in blocked]
        if any(term.divisor != 1 or term.modulus for term in mine) or len(mine) > 1:
            return False
        if not mine:
            continue
        (term,) = mine
        seen.append(term.axis)
        extent = found.space.extents[term.axis]
        carried = found.kind in (PRODUCT, CASCADE) and term.axis in found.reduced
        unended = carried and extent > WHOLE_LIMIT and not ends(affine, extent, size)
        if term.scale != step or (access.padded and not multiplies) or unended:
            return False
    return len(set(seen)) == len(seen)


def _is_diagonal(access: Access) -> bool:
    """Return whether an axis of the group goes along several axes of the array at once."""
    whole = [term.axis for affine in access.index for term in affine.terms if term.divisor == 1 and not term.modulus]
    return len(set(whole)) < len(whole)


def in_steps(access: Access, kept: Collection[int], step: int) -> Access:
    """Return an access with the steps in which its blocks are read.

    Of an axis of which a product reads every second element, a box holds one of each pair: of [h] as [h / 2, 2], these
    are elements that follow each other.
    kept: the axes of the group that are not summed; step: the axis of its blocks' steps
    """
    steps: list[int] = []
    for size, affine in zip(access.shape[:-1], access.index[:-1], strict=True):
        mine = [term.scale for term in affine.terms if term.axis in kept]
        long = len(mine) == 1 and mine[0] > 1 and size % mine[0] == 0
        steps.append(mine[0] if long and all(term.axis != step for term in affine.terms) else 1)
    return replace(access, steps=(*steps, 1)) if any(each > 1 for each in steps) else access


def ends(affine: Affine, extent: int, size: int) -> bool:
    """Return whether what lies behind an axis of the group, of `extent`, lies behind the array's axis of `size` too."""
    return affine.constant + extent == size and len(affine.terms) == 1


def made_of_indices(node: Node, free: Mapping[Value, bool]) -> bool:
    """Return whether a node computes with indices and numbers alone."""
    return node.op == "iota" or (node.op == "map" and all(free.get(operand, False) for operand in node.operands))
