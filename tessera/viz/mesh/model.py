"""Meshes of devices and block-sharded arrays as plain data: what the mesh view draws."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from tessera.core.base.dtypes import DType

MOST_DEVICES: Final = 72
TRAY: Final = 4
"""GPUs of one compute tray of an NVL72, of which there are 18 on one NVLink switch domain."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A named axis of a mesh."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Device:
    """One device: its number, its place along each axis, and the enclosure it stands in (a tray or a host)."""

    number: int
    place: tuple[int, ...]
    enclosure: str


@dataclass(frozen=True, slots=True)
class Mesh:
    """A mesh: named axes over numbered devices, the last axis fastest.

    link: what joins the devices, in words
    """

    name: str
    axes: tuple[Axis, ...]
    devices: tuple[Device, ...]
    link: str

    @classmethod
    def of(
        cls, axes: Mapping[str, int], *, name: str = "mesh", per_enclosure: int = 8, enclosure: str = "host",
        link: str = "NVLink",
    ) -> Self:  # fmt: skip
        """Return a mesh with `axes`, whose devices stand `per_enclosure` to an enclosure, in order.

        Raises ValueError for no axis, an axis without devices, or more than 72 devices.
        """
        if not axes or any(size < 1 for size in axes.values()):
            raise ValueError(f"a mesh needs axes with at least one device each, not {dict(axes)}")
        count = math.prod(axes.values())
        if count > MOST_DEVICES:
            raise ValueError(f"a mesh has at most {MOST_DEVICES} devices, not {count}")
        sizes = tuple(axes.values())
        devices = tuple(
            Device(number, _place(number, sizes), f"{enclosure} {number // per_enclosure}") for number in range(count)
        )
        return cls(name, tuple(Axis(*axis) for axis in axes.items()), devices, link)

    @classmethod
    def nvl72(cls, axes: Mapping[str, int] | None = None) -> Self:
        """Return an NVL72: 72 GPUs as 18 trays of 4 on one switch; `axes` (default tray x gpu) has 72 places."""
        axes = axes if axes is not None else {"tray": MOST_DEVICES // TRAY, "gpu": TRAY}
        if math.prod(axes.values()) != MOST_DEVICES:
            raise ValueError(f"the axes of an NVL72 have 72 places, not {math.prod(axes.values())}: {dict(axes)}")
        return cls.of(axes, name="NVL72", per_enclosure=TRAY, enclosure="tray", link="one NVLink switch domain")

    def size(self, axis: str) -> int:
        """Return the number of places along an axis.  Raises ValueError for one that the mesh does not have."""
        for each in self.axes:
            if each.name == axis:
                return each.size
        raise ValueError(f"{self.name} has no axis {axis!r} (axes: {', '.join(each.name for each in self.axes)})")


def _place(number: int, sizes: Sequence[int]) -> tuple[int, ...]:
    place: list[int] = []
    for size in reversed(sizes):
        number, index = divmod(number, size)
        place.append(index)
    return tuple(reversed(place))


@dataclass(frozen=True, slots=True)
class Shard:
    """The block of an array that one device holds: from `start` up to `stop`, per dimension; both equal: nothing."""

    device: int
    start: tuple[int, ...]
    stop: tuple[int, ...]

    @property
    def elements(self) -> int:
        """How many elements the block has."""
        return math.prod(b - a for a, b in zip(self.start, self.stop, strict=True))


@dataclass(frozen=True, slots=True)
class ShardedArray:
    """An array of any rank, dealt in blocks over a mesh.

    spec: for each dimension the mesh axes it is divided by, first the slowest; dimensions without any are whole
    replicas: how many devices hold each element
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    spec: tuple[tuple[str, ...], ...]
    mesh: Mesh
    shards: tuple[Shard, ...]
    replicas: int

    def bytes_of(self, shard: Shard) -> int:
        """Return the bytes of a shard."""
        return shard.elements * self.itemsize


def sharded(
    mesh: Mesh, shape: Sequence[int], spec: Sequence[str | Sequence[str] | None], dtype: DType, name: str = "array"
) -> ShardedArray:
    """Deal an array in blocks: dimension d is cut into as many pieces as the axes in `spec[d]` have places.

    Blocks are as even as whole elements allow: all of ceil(n / pieces), the last ones shorter or empty, as in JAX's
    and GSPMD's padding shardings.

    Raises ValueError for a spec of another rank, an axis that the mesh lacks, or one that is used twice.
    """
    if len(spec) != len(shape):
        raise ValueError(f"the spec has {len(spec)} entries for {len(shape)} dimensions")
    axes = tuple(() if entry is None else (entry,) if isinstance(entry, str) else tuple(entry) for entry in spec)
    used = [axis for entry in axes for axis in entry]
    for axis in used:
        mesh.size(axis)
        if used.count(axis) > 1:
            raise ValueError(f"axis {axis!r} divides more than one dimension")
    order = [axis.name for axis in mesh.axes]
    shards: list[Shard] = []
    for device in mesh.devices:
        start: list[int] = []
        stop: list[int] = []
        for extent, entry in zip(shape, axes, strict=True):
            index, pieces = 0, 1
            for axis in entry:
                index = index * mesh.size(axis) + device.place[order.index(axis)]
                pieces *= mesh.size(axis)
            block = -(-extent // pieces)
            start.append(min(extent, index * block))
            stop.append(min(extent, (index + 1) * block))
        shards.append(Shard(device.number, tuple(start), tuple(stop)))
    replicas = len(mesh.devices) // math.prod(mesh.size(axis) for axis in used)
    return ShardedArray(name, tuple(shape), dtype.name, dtype.bytes, axes, mesh, tuple(shards), replicas)
