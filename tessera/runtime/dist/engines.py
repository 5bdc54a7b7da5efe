"""Engines by the devices of a mesh: simulated ones, shards of the CPU, GPUs."""

from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.errors.catalog import BadMesh
from tessera.core.placement.devices import ON_CPU, ON_GPU, SIMULATED, Device
from tessera.runtime.dist.engine import RankEngine
from tessera.runtime.dist.gpus import GpuEngine
from tessera.runtime.dist.simulated import SimulatedEngine
from tessera.runtime.dist.threaded import ThreadedEngine

_MAKERS: Final[dict[str, Callable[[tuple[int, ...]], RankEngine]]] = {
    SIMULATED: lambda numbers: SimulatedEngine(len(numbers)),
    ON_CPU: lambda numbers: ThreadedEngine(len(numbers)),
    ON_GPU: GpuEngine,
}
_MADE: Final[dict[tuple[Device, ...], RankEngine]] = {}


def engine_of(devices: Sequence[Device]) -> RankEngine:
    """Return the engine of devices, rank by rank: the same one for the same devices.

    Raises BadMesh for devices of several kinds.
    """
    wanted = tuple(devices)
    found = _MADE.get(wanted)
    if found is None:
        kinds = sorted({device.kind for device in wanted})
        if len(kinds) != 1:
            message = f"a collective over devices of several kinds: {', '.join(kinds)}"
            raise BadMesh(message, hint="make a mesh of devices of one kind")
        found = _MADE[wanted] = _MAKERS[kinds[0]](tuple(device.index for device in wanted))
    return found
