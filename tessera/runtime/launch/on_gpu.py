"""How kernels compiled for GPUs are launched, whichever compiler made them."""

from typing import Final

from tessera.core.targets import TargetKind
from tessera.runtime.launch.cuda import CudaLauncher, device_architecture
from tessera.runtime.launch.launchers import Launcher, Loadable, Runtime
from tessera.runtime.launch.phases import DevicePhases


def _load(made: Loadable) -> Launcher:
    """Return a launcher for one artifact, or for phases.  Raises CudaFailure when the driver refuses the code."""
    if made.phased:
        return DevicePhases(made.artifacts, made.workspaces, made.types)
    return CudaLauncher(made.artifacts[0], made.types)


def _architecture(kind: TargetKind, device: int | None) -> str:
    return device_architecture(device, kind.name)


RUNTIME: Final = Runtime(_load, _architecture)
