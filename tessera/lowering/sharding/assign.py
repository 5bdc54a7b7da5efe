"""Assign axes of a mesh to the factors of a node: which shardings its operands then need, and which its results have.

C = sum_k A[i@dp, k@tp] B[k@tp, j]    dp: i, tp: k    C[i@dp, j]{sum: tp}

A factor that the mesh does not divide is cut, too, the last shards padded, where shards of every axis that it is part
of then are those of the axis: 3 heads over 2 devices are 2 and 1 of them, but as 12 columns they would be 6 and 6.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.lowering.sharding.factors import WHOLE, Factors, NodeFactors
from tessera.lowering.sharding.placements import Axes, dims_of, local_rows, placed


@dataclass(frozen=True, slots=True)
class Assignment:
    """Axes of the mesh for some factors of a node.

    axes: by factor; operands, results: the shardings that follow
    extents: what is left of factors that are cut, in the largest shard
    """

    axes: Mapping[int, Axes]
    operands: tuple[Placement, ...]
    results: tuple[Placement, ...]
    extents: Mapping[int, int]

    @property
    def parts(self) -> Axes:
        """All axes that are assigned."""
        return tuple(axis for axes in self.axes.values() for axis in axes)


def assignments(
    factors: NodeFactors, given: Sequence[tuple[tuple[Factors, ...], Placement]], mesh: Mesh
) -> Iterator[Assignment]:
    """Yield the assignments that shardings of operands and results suggest, none of all axes among them.

    given: of operands, and of results where the user says so, the factors of their axes and their shardings
    """
    options: dict[str, dict[int, None]] = {}
    for dims, sharding in given:
        for dim, names in zip(dims, dims_of(sharding), strict=True):
            for axis, factor in _consumed(factors, dim, names, mesh):
                options.setdefault(axis, {})[factor] = None
    order = list(options)
    for chosen in product(*([*options[axis], None] for axis in order)):
        axes: dict[int, list[str]] = {}
        for axis, factor in zip(order, chosen, strict=True):
            if factor is not None:
                axes.setdefault(factor, []).append(axis)
        found = _assignment(factors, {factor: tuple(names) for factor, names in axes.items()}, mesh)
        if found is not None:
            yield found


def _consumed(factors: NodeFactors, dim: Factors, axes: Axes, mesh: Mesh) -> Iterator[tuple[str, int]]:
    """Yield which factor of an axis each of its mesh axes cuts: outer ones first, the next where one is used up."""
    place, left, even = 0, factors.factors[dim[0]].extent if dim else 1, True
    for axis in axes:
        while left == 1 and even and place + 1 < len(dim):
            place += 1
            left = factors.factors[dim[place]].extent
        parts = mesh.size(axis)
        if not dim or factors.factors[dim[place]].role == WHOLE:
            return
        even = even and left % parts == 0
        left = local_rows(left, parts)
        yield axis, dim[place]


def _assignment(factors: NodeFactors, axes: Mapping[int, Axes], mesh: Mesh) -> Assignment | None:
    """Return what follows of axes for factors; None where shards of some axis would not be those of its placement."""
    extents: dict[int, int] = {}
    for factor, names in axes.items():
        parts, mine = mesh.size(names), factors.factors[factor]
        if mine.even and mine.extent % parts:
            return None
        extents[factor] = local_rows(mine.extent, parts)
    sides: list[list[Placement]] = []
    partial = tuple(axis for factor, names in axes.items() if factors.factors[factor].reduces for axis in names)
    roles = {factors.factors[factor].role for factor in axes if factors.factors[factor].reduces}
    if len(roles) > 1:
        return None
    for values in (factors.operands, factors.results):
        sides.append([])
        for dims in values:
            found = [_axes_of(dim, factors, axes, extents, mesh) for dim in dims]
            if any(each is None for each in found):
                return None
            sides[-1].append(placed(tuple(each for each in found if each is not None)))
    results = [placed(dims_of(each), partial, *roles) if partial else each for each in sides[1]]
    return Assignment(axes, tuple(sides[0]), tuple(results), extents)


def _axes_of(
    dim: Factors, factors: NodeFactors, axes: Mapping[int, Axes], extents: Mapping[int, int], mesh: Mesh
) -> Axes | None:
    """Return the axes that cut one dimension.

    None where an inner factor is cut and an outer one not into ones, and where the largest shard of an uneven factor
    is not that of the dimension: blocks would begin elsewhere.
    """
    found: list[str] = []
    open_, outside, uneven = False, 1, False
    for factor in dim:
        mine, whole = axes.get(factor, ()), factors.factors[factor].extent
        cut = whole % mesh.size(mine) != 0
        if (mine and (open_ or uneven)) or (cut and outside > 1):
            return None
        found += mine
        uneven = uneven or cut
        open_ = open_ or extents.get(factor, whole) > 1
        outside *= whole
    inside = prod(extents.get(each, factors.factors[each].extent) for each in dim)
    if uneven and inside != local_rows(outside, mesh.size(found)):
        return None
    return tuple(found)
