"""The protocol of launchers, and the runtime of each target: a row of the table of targets names its module.

A launcher is an artifact, loaded and ready, or a program that is run as it is.  It has a full way, which checks and
explains everything, and a quick one for calls like earlier ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from tessera.core.artifact import Artifact
from tessera.core.program.program import Program, Workspace
from tessera.core.targets import TargetKind
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.binding.grid import Grid
from tessera.runtime.streams.graph_capture import Work

if TYPE_CHECKING:
    from tessera.runtime.launch.cuda import StreamLike
    from tessera.runtime.launch.launch_plan import LaunchPlan
    from tessera.runtime.launch.phases import PhasesPlan


class Launcher(Protocol):
    """Launches one kernel, from any thread."""

    @property
    def artifact(self) -> Artifact:
        """The artifact that is launched, the first where there are several phases."""
        ...

    @property
    def last_groups(self) -> Sequence[int | None]:
        """How many groups each phase of the last launch had; None before a launch."""
        ...

    @property
    def quick(self) -> "Callable[..., bool] | None":
        """Launches where arguments need no look in full, and answers False, having done nothing, where they do.

        None: they always do.
        """
        ...

    @property
    def on_streams(self) -> "StreamLauncher | None":
        """The launcher itself, where it puts launches on a GPU's streams."""
        ...

    def __call__(self, *arguments: object, grid: Grid | None = None) -> None:
        """Launch; raises the TesseraError of whatever is wrong with the arguments, before anything is written."""
        ...

    def prepare(
        self, arguments: tuple[object, ...], grid: Grid | None = None
    ) -> "Work | LaunchPlan | PhasesPlan | None":
        """Bind arguments, to launch later; None for a launch without groups."""
        ...


class StreamLauncher(Launcher, Protocol):
    """Launches one kernel on a GPU, and returns before it has run.

    Its quick way serves nothing but arguments like those of an earlier call, extents included.
    """

    @property
    def quick(self) -> Callable[..., bool]:
        """Launches on the default stream where the arguments are like those of an earlier call of this thread."""
        ...

    def run(
        self, arguments: Sequence[object], grid: Grid | None = None, stream: "StreamLike | None" = None
    ) -> bool:  # fmt: skip
        """Launch when `arguments` are like those of an earlier call; False, having started nothing, otherwise."""
        ...

    def on_device(self, arguments: Sequence[object]) -> bool:
        """Return whether every array lies in the memory of a GPU."""
        ...

    def prepare(self, arguments: tuple[object, ...], grid: Grid | None = None) -> "LaunchPlan | PhasesPlan | None":
        """Bind arguments, to launch later; None for a launch without groups."""
        ...

    def __call__(
        self, *arguments: object, grid: Grid | None = None, stream: "StreamLike | None" = None
    ) -> None:  # fmt: skip
        """Launch on a stream; NumPy arrays are copied to the GPU and back."""
        ...


class RecordingLauncher(Launcher, Protocol):
    """Launches a kernel that writes profile records, on a target whose kernels can."""

    def __call__(self, *arguments: object, grid: Grid | None = None, profile: AnyArray | None = None) -> None:
        """Launch; `profile` is memory for the records, where the kernel runs."""
        ...


@dataclass(frozen=True, slots=True)
class Loadable:
    """The parts that a launcher is made of.

    artifacts: what was compiled, one a phase; none for a target without a compiler; workspaces: what phases share
    types: the Python type of each scalar, `object` for arrays
    phased: whether one call is several launches; sanitize: whether to look for races and other mistakes
    """

    program: Program
    artifacts: Sequence[Artifact]
    workspaces: Sequence[Workspace]
    types: tuple[type, ...]
    phased: bool = False
    sanitize: bool = False


def no_architecture(kind: TargetKind, device: int | None) -> str:
    """Return "": what runs on the host has no architecture to choose."""
    del kind, device
    return ""


@dataclass(frozen=True, slots=True)
class Runtime:
    """One target's part of the runtime.

    load: makes a launcher
    architecture: asks a device (None: the current one) which architecture of a target its code has to be compiled for
    """

    load: Callable[[Loadable], Launcher]
    architecture: Callable[[TargetKind, int | None], str] = no_architecture


def runtime_of(kind: TargetKind) -> Runtime:
    """Return `RUNTIME` of the module that a row of the table names: GPUs are asked only where they are used."""
    runtime: Runtime = import_module(kind.runtime).RUNTIME
    return runtime
