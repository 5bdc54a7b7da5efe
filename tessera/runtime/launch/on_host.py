"""How kernels compiled for this machine's processor are launched."""

from typing import Final

from tessera.runtime.launch.cpu import CpuLauncher
from tessera.runtime.launch.launchers import Launcher, Loadable, Runtime
from tessera.runtime.launch.phases import HostPhases


def _load(made: Loadable) -> Launcher:
    """Return a launcher for one artifact, or for phases.  Raises CompilerCrash when the code cannot be loaded."""
    if made.phased:
        return HostPhases(made.artifacts, made.workspaces, made.types)
    return CpuLauncher(made.artifacts[0], made.types)


RUNTIME: Final = Runtime(_load)
