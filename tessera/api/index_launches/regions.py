"""Accesses of an index launch: which placement each argument is brought to, who writes what, and what conflicts."""

from collections.abc import Sequence
from dataclasses import dataclass

from tessera.api.index_launches.point_signature import PointParameter
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadIndexLaunch, RegionConflict
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.splits import Split
from tessera.dist.tensors import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A tensor as an argument.

    needed: the placement in which each point finds what it sees; partial: axes along which points hold partial sums
    """

    parameter: PointParameter
    tensor: Tensor
    needed: Placement
    partial: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The parameter, and the tensor's type."""
        return f"{self.parameter.name}, {self.tensor.type}"


def access(parameter: PointParameter, tensor: Tensor, launched: Sequence[str], summed: Sequence[str]) -> Access:
    """Return how a launch over some mesh axes sees a tensor.

    summed: axes along which the points hold partial sums of it
    Raises BadIndexLaunch for another rank, and for extents that are cut by an axis which is not launched over.
    """
    if parameter.extents is None:
        needed = Placement(tensor.placement.splits)
        return Access(parameter, tensor, needed)
    if len(parameter.extents) != tensor.ndim:
        what = f"{parameter.name} has {len(parameter.extents)} dimensions, and {tensor.label} has {tensor.ndim}"
        raise at_call(BadIndexLaunch(what, hint="give a tensor of that rank"))
    seen = parameter
    for axis in summed:
        seen = seen.sees_whole(axis)
    splits: list[Split] = []
    for extent, split in zip(seen.extents or (), tensor.placement.splits, strict=True):
        for axis in extent.axes:
            if axis not in launched:
                what = f"{parameter.name} is cut by {axis}, and the launch is over {', '.join(launched)}"
                over = ", ".join(f'"{each}"' for each in (*launched, axis))
                raise at_call(BadIndexLaunch(what, hint=f"launch over both: index_launch(axis=({over}))"))
        mine = {axis for axis in split.axes if axis in launched}
        rest = tuple(axis for axis in split.axes if axis not in launched)
        splits.append(split if mine == set(extent.axes) else Split((*rest, *extent.axes)))
    return Access(parameter, tensor, Placement(tuple(splits)).normal(tensor.shape, tensor.mesh), tuple(summed))


def point_axes(accesses: Sequence[Access], launched: Sequence[str], mesh: Mesh) -> tuple[str, ...]:
    """Return the mesh axes along which points differ: those of the launch, and all that cut an argument."""
    used = {*launched, *(axis for each in accesses for axis in each.needed.axes)}
    return tuple(axis for axis in mesh.axes if axis in used)


def require_disjoint(accesses: Sequence[Access], axes: Sequence[str], mesh: Mesh) -> None:
    """Raise RegionConflict where two points write the same elements, or one writes what another reads."""
    for each in accesses:
        free = [axis for axis in axes if axis not in each.needed.axes and mesh.size(axis) > 1]
        if each.parameter.privilege in ("write", "update") and set(free) - set(each.partial):
            axis = next(axis for axis in free if axis not in each.partial)
            what = f"points {axis}=0 and {axis}=1 both write all that they see of {each.label}"
            hint = f"cut it over {axis}; where points add to it, annotate it Region[reduce_sum]"
            raise at_call(RegionConflict(what, hint=hint))
    for number, first in enumerate(accesses):
        for second in accesses[number + 1 :]:
            if first.tensor is second.tensor:
                _require_agreement(first, second, axes, mesh)


def _require_agreement(first: Access, second: Access, axes: Sequence[str], mesh: Mesh) -> None:
    """Check two parameters that are one tensor."""
    kinds = {first.parameter.privilege, second.parameter.privilege}
    if kinds in ({"read"}, {"reduce_sum"}):
        return
    writer, other = (first, second) if first.parameter.writes else (second, first)
    verb = {"read": "reads", "reduce_sum": "adds to"}.get(other.parameter.privilege, "writes")
    hint = f"give {other.parameter.name} a tensor of its own"
    if other.parameter.writes:
        what = f"{writer.label}, and {other.parameter.name} are one tensor: each point writes it twice"
        raise at_call(RegionConflict(what, hint=hint))
    disjoint = all(axis in writer.needed.axes or mesh.size(axis) == 1 for axis in axes)
    if writer.needed != other.needed or not disjoint or writer.partial:
        what = (
            f"{writer.label}, and {other.parameter.name} are one tensor: "
            f"a point {verb} through {other.parameter.name} what another one writes through {writer.parameter.name}"
        )
        raise at_call(RegionConflict(what, hint=hint))
