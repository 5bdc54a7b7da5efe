"""Plan the memory of a mesh's devices before anything is allocated; say what would fit where a plan does not."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.base.plurals import counted
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import MeshMemory
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.placement.splits import Split

_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def amount(size: float) -> str:
    """Return a number of bytes in the unit that it is read best in."""
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:,.0f} bytes" if unit == 0 else f"{size:,.1f} {_UNITS[unit]}"


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory that each device of a mesh sets aside for some values, by their names: all devices the same."""

    mesh: Mesh
    types: Mapping[str, ShardedType]

    @property
    def bytes_of(self) -> Mapping[str, int]:
        """Bytes a device for each value."""
        return {name: each.bytes_on(self.mesh) for name, each in self.types.items()}

    @property
    def total(self) -> int:
        """Bytes a device for all of them."""
        return sum(self.bytes_of.values())

    def __str__(self) -> str:
        lines = [f"{name}: {self.types[name]}, {amount(size)}" for name, size in self.bytes_of.items()]
        known = f" of {amount(self.mesh.memory)}" if self.mesh.memory else ""
        return "\n".join((*lines, f"a device: {amount(self.total)}{known}"))

    def require(self) -> "MemoryPlan":
        """Return the plan; raise MeshMemory where the devices' memory is known and the plan does not fit it."""
        if not self.mesh.memory or self.total <= self.mesh.memory:
            return self
        sizes = self.bytes_of
        largest = max(sizes, key=sizes.__getitem__)
        others = self.total - sizes[largest]
        what = (
            f"{largest}, {self.types[largest]}, takes {amount(sizes[largest])} on each of "
            f"{counted(self.mesh.size(), 'device')}, which have {amount(self.mesh.memory)}"
        )
        if others:
            what += f"; the others take {amount(others)}"
        raise at_call(MeshMemory(what, hint=self._remedy(largest, self.mesh.memory - others)))

    def _remedy(self, name: str, limit: int) -> str:
        """Say how a value fits into `limit` bytes: cut by further axes of the mesh, else by more devices."""
        given = self.types[name]
        for placement in _finer(given.placement, self.mesh):
            finer = replace(given, placement=placement)
            if finer.bytes_on(self.mesh) <= limit:
                return f"{finer} takes {amount(finer.bytes_on(self.mesh))} a device"
        bare = replace(given, placement=Placement.replicated(len(given.shape)))
        if limit <= 0:
            return "the other values alone fill the devices: cut those further"
        return f"cut over {-(-bare.bytes_on(self.mesh) // limit):,} devices or more it would fit"


def _finer(placement: Placement, mesh: Mesh) -> Iterator[Placement]:
    """Give placements cut by further axes of the mesh, those by fewest axes first."""
    free = [axis for axis in mesh.axes if axis not in (*placement.axes, *placement.partial)]
    for count in range(1, len(free) + 1):
        for axes in itertools.combinations(free, count):
            for dimensions in itertools.product(range(len(placement.splits)), repeat=count):
                splits = list(placement.splits)
                for axis, dimension in zip(axes, dimensions, strict=True):
                    splits[dimension] = Split((*splits[dimension].axes, axis))
                yield replace(placement, splits=tuple(splits))
