"""Make of a kernel over shards, `A: f16[M, K/tp]`, the kernel of one point."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from tessera.api.index_launches.point_signature import PointParameter, names_in_body
from tessera.core.errors.catalog import BadIndexLaunch, UnevenShards
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import ShardMap
from tessera.kernels.kernel import Kernel

_MADE: Final[WeakKeyDictionary[Kernel, dict[tuple[tuple[str, int], ...], Kernel]]] = WeakKeyDictionary()


def point_kernel(
    kernel: Kernel, parameters: Sequence[PointParameter], mesh: Mesh, seen: Mapping[str, ShardMap],
    partial: Collection[str],
) -> Kernel:  # fmt: skip
    """Return the kernel with a number for each mesh axis that its annotations divide by.

    The axis has its extent, so that K is all of it.  Where shards differ in length, or a point holds a partial sum of
    all that its shard is a part of, the names stand for what the point has: K is the length of the shard.

    seen: the shards of each parameter; partial: parameters of which points hold partial sums
    Raises UnevenShards, BadIndexLaunch where the body needs names that then mean something else.
    """
    axes = {axis for each in parameters for extent in each.extents or () for axis in extent.axes}
    if not axes:
        return kernel
    uneven = [each.name for each in parameters if each.name in seen and not seen[each.name].even]
    local = bool(uneven) or any(
        extent.axes for each in parameters if each.name in partial for extent in each.extents or ()
    )
    if local:
        _require_unused(kernel, parameters, axes, uneven)
    constants = tuple((axis, 1 if local else mesh.size(axis)) for axis in sorted(axes))
    made = _MADE.setdefault(kernel, {})
    if constants not in made:
        made[constants] = kernel.with_constants(dict(constants))
    return made[constants]


def _require_unused(
    kernel: Kernel, parameters: Sequence[PointParameter], axes: Collection[str], uneven: Sequence[str]
) -> None:
    divided = {extent.name for each in parameters for extent in each.extents or () if extent.axes}
    used = sorted((divided | set(axes)) & names_in_body(kernel))
    if not used:
        return
    names = ", ".join(used)
    if uneven:
        what = f"{kernel.source.name} uses {names}, and the shards of {', '.join(uneven)} differ in length"
        raise UnevenShards(what, hint="give extents that the mesh divides, or use .shape of the arguments instead")
    what = f"{kernel.source.name} uses {names}, while its points hold partial sums"
    raise BadIndexLaunch(what, hint="use .shape of the arguments instead")
