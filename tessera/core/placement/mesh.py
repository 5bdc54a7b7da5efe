"""Arrange devices along named axes: coordinates, groups along axes, and the physical domains they stand in.

A rank is a device's number in the mesh: its place in `devices`, in row-major order of the coordinates, the last axis
fastest.  The device's own number says where it stands physically.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, cast

from tessera.core.base.plurals import counted
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadMesh
from tessera.core.placement.devices import SIMULATED, Device, ranges, read_devices

TRAY: Final = 4
"""GPUs of one compute tray of an NVL72."""
NVL72: Final = 72
HOST: Final = 8
"""GPUs of one host."""


@dataclass(frozen=True, slots=True)
class PhysicalDomain:
    """Devices that stand together: `size` of them with consecutive numbers.

    name: of one ("tray", "host"); link: what joins the devices in it, in words
    """

    name: str
    size: int
    link: str = "NVLink"

    def __str__(self) -> str:
        return f"{self.name} of {self.size}"


def domains_of(devices: Sequence[Device]) -> tuple[PhysicalDomain, ...]:
    """Return the domains that a number of devices usually stands in, the smallest first.

    Multiples of 72 are NVL72s, 18 trays of 4 on one switch each; everything else is hosts of 8.
    """
    if devices and len(devices) % NVL72 == 0:
        return (PhysicalDomain("tray", TRAY), PhysicalDomain("NVL72", NVL72, "one NVLink switch domain"))
    return (PhysicalDomain("host", HOST),)


def even_shape(count: int, axes: int) -> tuple[int, ...]:
    """Factor a number of devices over several axes as evenly as possible, largest first.

    Of all factorizations the one with the smallest sum, which is the nearest to a cube; of several the one whose
    largest factor is smallest: 72 over three axes is 6 x 4 x 3.
    """
    if axes == 1:
        return (count,)
    best: tuple[int, ...] = (count, *(1,) * (axes - 1))
    for first in range(1, count + 1):
        if count % first:
            continue
        found = (first, *even_shape(count // first, axes - 1))
        if found[0] >= found[1] and (sum(found), found) < (sum(best), best):
            best = found
    return best


@dataclass(frozen=True, slots=True)
class Mesh:
    """A mesh: an extent for each named axis, and one device a place.

    `Mesh.of` reads what users write and checks it.
    domains: physical domains, the smallest first; memory: bytes of each device, 0 where that is not known
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    devices: tuple[Device, ...]
    domains: tuple[PhysicalDomain, ...] = field(default=(), compare=False)
    memory: int = field(default=0, compare=False)

    @classmethod
    def of(
        cls, axes: object, devices: Iterable[object], shape: object = None, *, integers: str = SIMULATED,
        domains: Sequence[PhysicalDomain] | None = None, memory: int = 0,
    ) -> "Mesh":  # fmt: skip
        """Return a mesh.

        axes: names, or one name; shape: an extent for each, by default `even_shape`
        devices: as `read_device` reads them; integers: the kind of those that are numbers
        domains: physical domains, the smallest first; by default `domains_of`; memory: bytes of each device, if known

        Raises BadMesh for axes without a name or named twice, no devices, a device named twice, and a shape that has
        not one place a device.
        """
        names = _names(axes)
        found = read_devices(devices, integers)
        if not found:
            raise at_call(BadMesh("a mesh needs at least one device", hint="write devices=range(8), say"))
        extents = _extents(names, len(found), shape)
        return cls(names, extents, found, domains_of(found) if domains is None else tuple(domains), memory)

    def __hash__(self) -> int:
        return hash((self.axes, self.shape))  # quick: meshes are keys of tables

    def size(self, axes: str | Iterable[str] | None = None) -> int:
        """Return the number of devices, or of places along an axis or along several together.  Raises BadMesh."""
        if axes is None:
            return len(self.devices)
        names = (axes,) if isinstance(axes, str) else axes
        return math.prod(self.shape[self.number(name)] for name in names)

    @property
    def simulated(self) -> tuple[Device, ...]:
        """The devices that are simulated."""
        return tuple(each for each in self.devices if each.kind == SIMULATED)

    def number(self, axis: str) -> int:
        """Return an axis's position among the axes.  Raises BadMesh for one that the mesh does not have."""
        if axis not in self.axes:
            raise at_call(BadMesh(f"the mesh has no axis {axis!r}", hint=f"its axes are {', '.join(self.axes)}"))
        return self.axes.index(axis)

    def coordinates(self, rank: int) -> tuple[int, ...]:
        """Return a rank's place along each axis."""
        found: list[int] = []
        for extent in reversed(self.shape):
            rank, index = divmod(rank, extent)
            found.append(index)
        return tuple(reversed(found))

    def rank(self, coordinates: Sequence[int]) -> int:
        """Return the rank at a place."""
        rank = 0
        for extent, index in zip(self.shape, coordinates, strict=True):
            rank = rank * extent + index
        return rank

    def position(self, rank: int, axes: Iterable[str]) -> int:
        """Return a rank's place along several axes together, the last named one fastest: its index in its group."""
        place = self.coordinates(rank)
        found = 0
        for axis in axes:
            number = self.number(axis)
            found = found * self.shape[number] + place[number]
        return found

    def group(self, rank: int, axes: Sequence[str]) -> tuple[int, ...]:
        """Return the ranks that differ from one along `axes` alone, itself among them, the last named axis fastest."""
        place = list(self.coordinates(rank))
        numbers = [self.number(axis) for axis in axes]
        found: list[int] = []
        for indices in itertools.product(*(range(self.shape[number]) for number in numbers)):
            for number, index in zip(numbers, indices, strict=True):
                place[number] = index
            found.append(self.rank(place))
        return tuple(found)

    def along(self, axes: str | Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return the groups of ranks that differ along axes alone, in the order of their first ranks.

        They are those that communicate in a collective over the axes: each rank is in one of them.
        """
        return _groups_along(self, (axes,) if isinstance(axes, str) else tuple(axes))

    def at(self, places: Mapping[str, int]) -> "Mesh":
        """Return the part of the mesh at fixed places of some axes, without those axes.

        Raises BadMesh for an axis or a place that there is not, and where no axis is left.
        """
        for axis, index in places.items():
            if not 0 <= index < self.size(axis):
                hint = f"it has places 0 to {self.size(axis) - 1}"
                raise at_call(BadMesh(f"axis {axis!r} has no place {index}", hint=hint))
        kept = [number for number, axis in enumerate(self.axes) if axis not in places]
        if not kept:
            raise at_call(BadMesh("no axis is left", hint="leave one axis free"))
        inside = [
            rank
            for rank in range(self.size())
            if all(self.coordinates(rank)[self.number(axis)] == index for axis, index in places.items())
        ]
        return Mesh(
            tuple(self.axes[number] for number in kept), tuple(self.shape[number] for number in kept),
            tuple(self.devices[rank] for rank in inside), self.domains, self.memory,
        )  # fmt: skip

    def domain_of(self, rank: int, level: int = 0) -> int:
        """Return the number of the physical domain of a level, 0 the smallest, that a rank's device stands in."""
        return self.devices[rank].index // self.domains[level].size

    def level_of(self, ranks: Iterable[int]) -> int:
        """Return the level of the smallest domain that holds all of `ranks`; `len(domains)`: none does."""
        found = tuple(ranks)
        for level in range(len(self.domains)):
            if len({self.domain_of(rank, level) for rank in found}) == 1:
                return level
        return len(self.domains)

    def __str__(self) -> str:
        extents = ", ".join(f"{axis}={extent}" for axis, extent in zip(self.axes, self.shape, strict=True))
        return f"mesh({extents}), {counted(self.size(), 'device')}: {ranges(self.devices)}"


@lru_cache(maxsize=256)  # collectives ask at each call
def _groups_along(mesh: Mesh, axes: tuple[str, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(mesh.group(rank, axes) for rank in range(mesh.size()) if mesh.position(rank, axes) == 0)


def _listed(given: object) -> tuple[object, ...]:
    """Return what is given, one or several."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        return (given,)
    return tuple(cast("Iterable[object]", given))


def _names(axes: object) -> tuple[str, ...]:
    given = _listed(axes)
    names = tuple(each for each in given if isinstance(each, str) and each.isidentifier())
    if not names or len(names) < len(given):
        hint = 'write axes=("dp", "tp"), names as of variables'
        raise at_call(BadMesh(f"axes={axes!r} are no names of axes", hint=hint))
    for name in names:
        if names.count(name) > 1:
            raise at_call(BadMesh(f"two axes are called {name!r}", hint="give each axis a name of its own"))
    return names


def _extents(names: tuple[str, ...], count: int, shape: object) -> tuple[int, ...]:
    if shape is None:
        return even_shape(count, len(names))
    given = _listed(shape)
    extents = tuple(each for each in given if isinstance(each, int) and each > 0)
    if len(extents) != len(names) or len(given) != len(names):
        hint = f"write a number from 1 on for each of {', '.join(names)}"
        raise at_call(BadMesh(f"shape={shape!r} does not fit the axes {', '.join(names)}", hint=hint))
    if math.prod(extents) != count:
        fits = ", ".join(map(str, even_shape(count, len(names))))
        what = f"{' x '.join(map(str, extents))} = {math.prod(extents)} places do not fit {counted(count, 'device')}"
        raise at_call(BadMesh(what, hint=f"write shape=({fits}), say, or leave it out"))
    return extents
