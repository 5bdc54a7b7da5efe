"""`tessera.profile(f)(X, W)` of a function on a mesh: what each operator took, and each collective moved, by device.

Times are the host's where devices are simulated or shards of the CPU, and stand beside what the model of links says:
which clock is which is part of every line.
"""

from dataclasses import dataclass
from statistics import median
from typing import Final

from tessera.core.errors.catalog import NeedsMesh
from tessera.core.placement.memory import amount
from tessera.core.planning.device_timeline import COMMUNICATION, COMPUTE, DeviceTimeline, in_time
from tessera.graphs.execution.mesh_timeline import collective_of, named
from tessera.graphs.function import GraphFunction
from tessera.graphs.mesh_executable import MeshExecutable
from tessera.graphs.structure import flatten

_MOST_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One kernel or collective of a graph on a mesh.

    line: of the user's text, 0: none; seconds: of each device's turn, the median; of a collective, of all devices
    sent: bytes that each device sends; modelled: virtual seconds; basis: what these rest on
    """

    name: str
    kind: str
    line: int
    seconds: float
    sent: float
    modelled: float
    basis: str


@dataclass(frozen=True, slots=True)
class MeshProfile:
    """A call on a mesh.

    clock: of `seconds` and of `timeline`; planned: the same steps on the virtual clock
    """

    function: str
    clock: str
    operators: tuple[OperatorTime, ...]
    timeline: DeviceTimeline
    planned: DeviceTimeline

    @property
    def collectives(self) -> tuple[OperatorTime, ...]:
        """The operators that communicate."""
        return tuple(each for each in self.operators if each.kind == COMMUNICATION)

    @property
    def seconds(self) -> float:
        """Seconds of the call."""
        return self.timeline.seconds

    def text(self) -> str:
        """Return what is the same in every run: names, bytes, and modelled times."""
        lines = [f"profile of {self.function}: {self.clock} time beside the virtual clock's"]
        for each in self.operators[:_MOST_SHOWN]:
            sent = f", {amount(each.sent)} sent by each device" if each.sent else ""
            lines.append(f"  {each.name}{sent}, {in_time(each.modelled)} virtual")
        left = len(self.operators) - _MOST_SHOWN
        return "\n".join((*lines, *([f"  and {left} more"] if left > 0 else [])))

    def __str__(self) -> str:
        lines = [f"profile of {self.function}: {in_time(self.seconds)} of {self.clock} time"]
        for each in self.operators:
            sent = f", {amount(each.sent)} sent by each device" if each.sent else ""
            model = (
                f"{in_time(each.modelled)} virtual ({each.basis})"
                if each.basis
                else f"{in_time(each.modelled)} virtual"
            )
            lines.append(f"  {each.name}{sent}: {in_time(each.seconds)} {self.clock}, {model}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class MeshProfiler:
    """A function of operators that is profiled when it is called with arrays on a mesh."""

    function: GraphFunction[..., object]

    def __call__(self, *arguments: object, **keywords: object) -> MeshProfile:
        """Call it twice: compiled and warm, then watched.  Raises NeedsMesh for arrays that lie on no mesh."""
        executable = self.function.executable_for(*arguments, **keywords)
        if not isinstance(executable, MeshExecutable):
            raise NeedsMesh(
                f"{self.function.name} runs on one device with these arrays: a profile of operators is of meshes",
                hint="give arrays that lie on a mesh; of a kernel, tessera.profile(kernel)(...)",
            )
        self.function(*arguments, **keywords)
        leaves: list[object] = []
        flatten((arguments, keywords), leaves)
        leaves += self.function.graph_for(*arguments, **keywords).captured
        _, timeline = executable.watched(*leaves)
        return mesh_profile(executable, timeline)


def mesh_profile(executable: MeshExecutable, timeline: DeviceTimeline) -> MeshProfile:
    """Return the profile of a call that was watched."""
    planned = executable.timeline()
    modelled = {span.operator: span for span in planned.rows[0].spans}
    measured: dict[int, list[float]] = {}
    for row in timeline.rows:
        for span in row.spans:
            measured.setdefault(span.operator, []).append(span.seconds)
    found: list[OperatorTime] = []
    for number, group in enumerate(executable.plan.groups):
        node, model = collective_of(group), modelled.get(number)
        line = max((member.span.line for member in group.members), default=0)
        found.append(
            OperatorTime(
                named(group), COMPUTE if node is None else COMMUNICATION, line, median(measured[number]),
                model.sent if model else 0.0, model.seconds if model else 0.0, model.basis if model else "",
            )
        )  # fmt: skip
    return MeshProfile(executable.graph.name, timeline.clock, tuple(found), timeline, planned)
