"""The public mesh: `dist.Mesh(axes=["tp", "pp", "dp"], devices=range(72))`.

Integers are GPUs where there are enough; GPUs that are not there are simulated: their shards lie in this process's
memory, and points run in threads.  What is simulated, and how axes without a shape were factored, is printed.
"""

import sys
from collections.abc import Iterable
from typing import ClassVar, Self

from tessera.core.base.plurals import counted
from tessera.core.errors.call_site import at_call
from tessera.core.errors.catalog import BadMesh
from tessera.core.placement.devices import ON_GPU, SIMULATED, Device, ranges, read_devices
from tessera.core.placement.mesh import Mesh as PlacedMesh
from tessera.runtime.driver.devices import count


class Mesh(PlacedMesh):
    """A mesh of devices with named axes.

    axes: names, or one; devices: "cuda:0", "cpu:3", "sim:17", or numbers
    shape: an extent for each axis; by default as even as possible, first axes largest, and printed
    memory: bytes of each device: what does not fit is refused when it is declared; None: unknown

    The mesh in use, for what names axes alone, is that of the innermost `with mesh:`, else the last one made.
    Raises BadMesh.
    """

    __slots__ = ("substituted",)
    in_use: ClassVar[list["Mesh"]] = []
    latest: ClassVar["Mesh | None"] = None

    def __init__(
        self, axes: object, devices: Iterable[object], shape: object = None, *, memory: int | None = None
    ) -> None:
        """Read what is given, and say what was chosen."""
        listed = tuple(devices)
        gpus = count()
        numbers = [each for each in read_devices(listed, "") if not each.kind]
        given = read_devices(listed, ON_GPU if all(each.index < gpus for each in numbers) else SIMULATED)
        enough = all(each.index < gpus for each in given if each.kind == ON_GPU)
        simulated = given if enough else tuple(_simulated(each) for each in given)
        found = PlacedMesh.of(axes, simulated, shape, memory=memory or 0)
        super().__init__(found.axes, found.shape, found.devices, found.domains, found.memory)
        object.__setattr__(self, "substituted", tuple(a for a, b in zip(given, simulated, strict=True) if a != b))
        if self.simulated or (shape is None and len(self.axes) > 1):
            sys.stdout.write(f"{self}\n")
        Mesh.latest = self

    substituted: tuple[Device, ...]
    """GPUs that were named, and are simulated."""

    def __enter__(self) -> Self:
        Mesh.in_use.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        Mesh.in_use.remove(self)

    def __str__(self) -> str:
        extents = ", ".join(f"{axis}={extent}" for axis, extent in zip(self.axes, self.shape, strict=True))
        named = self.substituted or self.devices
        count = len(self.simulated)
        real = "" if not count else ", all simulated" if count == self.size() else f", {count} of them simulated"
        return f"mesh({extents}), {counted(self.size(), 'device')}{real}: {ranges(named)}"

    __repr__ = __str__

    __hash__ = PlacedMesh.__hash__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlacedMesh):
            return NotImplemented
        return (self.axes, self.shape, self.devices) == (other.axes, other.shape, other.devices)


def _simulated(device: Device) -> Device:
    """Return what stands for a device where there are too few GPUs."""
    return Device(SIMULATED, device.index) if device.kind == ON_GPU else device


mesh = Mesh
"""`dist.mesh(...)` is `dist.Mesh(...)`."""


def mesh_in_use(axes: Iterable[str] = ()) -> Mesh:
    """Return the mesh in use.  Raises BadMesh where there is none, or it lacks one of `axes`."""
    found = Mesh.in_use[-1] if Mesh.in_use else Mesh.latest
    if found is None:
        hint = 'make one first: mesh = dist.Mesh(axes=["dp"], devices=range(8))'
        raise at_call(BadMesh("there is no mesh yet", hint=hint))
    for axis in axes:
        found.number(axis)
    return found
